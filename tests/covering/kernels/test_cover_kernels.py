"""The kernels of covering against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from cover_reference import (
    are_neighbours,
    greedy_tiles_of,
    heaviest_clique,
    largest_independent,
    least_cover,
)
from scipy import sparse

from boolweave.covering.exact import NO_LIMITS
from boolweave.covering.kernels.bounds import (
    enlarged,
    heaviest,
    nothing_chosen,
    price,
    search_independent,
    take,
)
from boolweave.covering.kernels.first_fit import (
    Limits,
    empty_cliques,
    first_fit,
    greedy_tiles,
    iterate,
)
from boolweave.covering.kernels.reducing import (
    Allowed,
    Ones,
    assign_dominated,
    empty_reduction,
    empty_span,
    position_of,
    reduce,
)
from boolweave.covering.kernels.tiles import (
    best_lines,
    count_neighbours,
    differences,
    needed,
    remove_within,
    weight_within,
)
from boolweave.engine.kernels.bits import pack, unpack
from boolweave.search.kernels.factors import Entries, Table, empty_factors

SEEDS = range(8)
NEVER = np.zeros(1, dtype=bool)


def problem(seed, shape=(7, 70), density=0.4, missing=0.1):
    """Ones, what is allowed, and both packed; 70 columns are two words."""
    random = np.random.default_rng(seed)
    drawn = random.random(shape)
    ones, allowed = drawn < density, drawn < density + missing
    rows, columns = np.nonzero(ones)
    start = np.searchsorted(rows, np.arange(shape[0] + 1))
    return ones, allowed, Allowed(pack(allowed), pack(allowed.T)), Ones(start, rows, columns)


@pytest.mark.parametrize("seed", SEEDS)
def test_positions(seed):
    ones = problem(seed)[3]
    for e, (row, column) in enumerate(zip(ones.rows, ones.columns, strict=True)):
        assert position_of(ones, row, column) == e


@pytest.mark.parametrize("seed", SEEDS)
def test_neighbours_are_counted(seed):
    ones, allowed, packed, listed = problem(seed, (6, 12))
    count = np.zeros(len(listed.rows), dtype=np.int64)
    count_neighbours(packed, pack(ones), listed, count, NEVER)
    pairs = list(zip(listed.rows, listed.columns, strict=True))
    expected = [sum(are_neighbours(allowed, e, f) for f in pairs) for e in pairs]
    assert count.tolist() == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_ones_are_taken_if_they_have_no_neighbours(seed):
    ones, allowed, packed, listed = problem(seed, (6, 12))
    order = np.random.default_rng(seed).permutation(len(listed.rows))
    pairs = list(zip(listed.rows, listed.columns, strict=True))
    taken = []
    for e in order:
        if not any(are_neighbours(allowed, pairs[e], pairs[f]) for f in taken):
            taken.append(e)
    chosen = nothing_chosen(len(order))
    take(packed, pack(ones), listed, chosen, order)
    assert np.flatnonzero(chosen.inside).tolist() == sorted(taken)


@pytest.mark.parametrize("seed", range(12))
def test_the_search_for_independent_ones(seed):
    """It keeps its counts and lists right, and it finds a largest set of a small matrix."""
    ones, allowed, packed, listed = problem(seed, (4, 5), 0.6)
    pairs = list(zip(listed.rows, listed.columns, strict=True))
    E = len(pairs)
    near = np.array([[are_neighbours(allowed, e, f) for f in pairs] for e in pairs])
    chosen, most = nothing_chosen(E), 0
    random = np.array([seed + 1], dtype=np.uint64)
    for _ in range(60):
        now = search_independent(packed, pack(ones), listed, chosen, random, 3)
        inside = chosen.inside.astype(bool)
        assert near[np.ix_(inside, inside)].sum() == inside.sum() == chosen.n[0] <= now
        np.testing.assert_array_equal(chosen.near, near[:, inside].sum(axis=1))
        for n in range(2):
            members = chosen.list[n, : chosen.n[1 + n]]
            assert sorted(members) == np.flatnonzero(chosen.near == n).tolist()
            np.testing.assert_array_equal(chosen.place[members], np.arange(len(members)))
        most = max(most, now)
    assert most == largest_independent(near)


@pytest.mark.parametrize("least", [0, 9])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_heaviest_clique(seed, least):
    """Of a random graph of more than 64 vertices, of which few have neighbours."""
    random = np.random.default_rng(seed)
    near = np.triu(random.random((70, 70)) < np.where(np.arange(70) < 12, 0.7, 0.03), 1)
    near |= near.T
    weight = np.sort(random.integers(1, 6, 70))[::-1].copy()
    most = heaviest_clique(near, weight)
    best = np.zeros(2, dtype=np.uint64)
    assert heaviest(pack(near), weight, least, 10**6, best, NEVER)[:2] == (max(most, least),) * 2
    members = np.flatnonzero(unpack(best[None], 70)[0])
    if most > least:
        assert weight[members].sum() == most
        assert near[np.ix_(members, members)].sum() == len(members) * (len(members) - 1)
    else:
        assert not len(members)
    found, bound, n_nodes = heaviest(pack(near), weight, least, 3, best, NEVER)
    assert found <= max(most, least) <= bound and n_nodes <= 4


@pytest.mark.parametrize("work", [0, 1000, 10**9])
@pytest.mark.parametrize("seed", SEEDS)
def test_heavy_cliques_of_ones(seed, work):
    _, allowed, packed, listed = problem(seed, (5, 7), 0.6)
    pairs = list(zip(listed.rows, listed.columns, strict=True))
    near = np.array([[are_neighbours(allowed, e, f) for f in pairs] for e in pairs])
    random = np.random.default_rng(seed)
    weight = random.integers(0, 4, len(pairs))
    order = random.permutation(np.flatnonzero(weight))
    most = heaviest_clique(near, weight)
    for limit in (3, most - 1, most):
        members, start = np.zeros(1000, dtype=np.int64), np.zeros(len(order) + 1, dtype=np.int64)
        lowered = weight.copy()
        n, used = price(packed, listed, order, lowered, limit, work, members, start, NEVER)
        assert heaviest_clique(near, lowered) <= limit
        assert (lowered >= 0).all() and (lowered <= weight).all()
        if used < work:
            assert (n > 0) == (most > limit) == (lowered < weight).any()
        for i in range(n):
            clique = members[start[i] : start[i + 1]]
            assert near[np.ix_(clique, clique)].all() and limit < weight[clique].sum() <= most
            assert len(np.unique(clique)) == len(clique)


@pytest.mark.parametrize("work", [0, 10**9])
@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_tiles(seed, work):
    ones, allowed, packed, listed = problem(seed, (9, 70), 0.6)
    order = np.random.default_rng(seed).permutation(len(listed.rows))
    clique = np.full(len(order), -1)
    n = greedy_tiles(packed, listed, pack(ones), order, work, clique, NEVER)
    tiles = greedy_tiles_of(ones, allowed, [listed.rows, listed.columns], order, bool(work))
    assert n == len(tiles) == clique.max() + 1
    free = ones.copy()
    for number, (rows, columns) in enumerate(tiles):
        assert allowed[np.ix_(rows, columns)].all()
        inside = np.zeros_like(ones)
        inside[np.ix_(rows, columns)] = True
        own = clique == number
        np.testing.assert_array_equal(own, (inside & free)[listed.rows, listed.columns])
        free &= ~inside
    assert not free.any()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clique_with_all_ones_that_fit(seed):
    ones, allowed, packed, listed = problem(seed, (7, 70), 0.6)
    random = np.random.default_rng(seed)
    pairs = list(zip(listed.rows, listed.columns, strict=True))
    members = [int(random.integers(len(pairs)))]
    for e in random.permutation(len(pairs))[:30]:
        if all(are_neighbours(allowed, pairs[e], pairs[f]) for f in members):
            members.append(int(e))
    out = np.zeros(len(pairs), dtype=np.int64)
    n = enlarged(packed, pack(ones), listed, np.array(members), empty_span(packed), out)
    found = out[:n].tolist()
    assert found == sorted(found) and set(members) <= set(found)
    near = [all(are_neighbours(allowed, e, pairs[f]) for f in found) for e in pairs]
    assert np.flatnonzero(near).tolist() == found


@pytest.mark.parametrize("seed", range(20))
def test_reductions_keep_the_least_number(seed):
    """Forced cliques and the least cover of what is left make the least cover of all."""
    ones, allowed, packed, listed = problem(seed, (5, 6), 0.5)
    active, found = pack(ones), empty_reduction(len(listed.rows))
    order = np.random.default_rng(seed).permutation(len(listed.rows))
    reduce(packed, active, listed, order, empty_span(packed), found, 10**9, NEVER)
    left = unpack(active, 6).astype(bool)
    n_forced = int(found.n[0])
    assert n_forced + least_cover(left, allowed) == least_cover(ones, allowed)
    kept = (found.clique < 0) & (found.dominator < 0)
    np.testing.assert_array_equal(kept, left[listed.rows, listed.columns])
    assert np.unique(found.clique[found.clique >= 0]).tolist() == list(range(n_forced))


@pytest.mark.parametrize("seed", range(20))
def test_dominated_ones_find_room(seed):
    """Every clique, with what it dominates, spans a rectangle of allowed entries."""
    ones, allowed, packed, listed = problem(seed, (9, 11), 0.5)
    active, found = pack(ones), empty_reduction(len(listed.rows))
    order = np.random.default_rng(seed).permutation(len(listed.rows))
    reduce(packed, active, listed, order, empty_span(packed), found, 10**9, NEVER)
    left = np.flatnonzero((found.clique < 0) & (found.dominator < 0))
    found.clique[left] = found.n[0] + np.arange(len(left))
    assign_dominated(found)
    for clique in range(found.clique.max() + 1):
        members = found.clique == clique
        assert members.any()
        assert allowed[np.ix_(listed.rows[members], listed.columns[members])].all()


def test_reductions_end_early():
    """Whatever they have looked at, what is left and what was found make a cover."""
    ones, allowed, packed, listed = problem(3, (6, 6), 0.5)
    for most in range(0, 60, 6):
        active, found = pack(ones), empty_reduction(len(listed.rows))
        order = np.arange(len(listed.rows))
        reduce(packed, active, listed, order, empty_span(packed), found, most, NEVER)
        left = unpack(active, 6).astype(bool)
        assert found.n[0] + least_cover(left, allowed) == least_cover(ones, allowed)
        assert most or left.sum() == ones.sum()


@pytest.mark.parametrize("limits", [NO_LIMITS, Limits(2, 3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_first_fit(seed, limits):
    _, allowed, packed, listed = problem(seed)
    order = np.random.default_rng(seed).permutation(len(listed.rows))
    cliques = []
    expected = np.zeros(len(order), dtype=np.int64)
    for e in order:
        one = listed.rows[e], listed.columns[e]
        for t, members in enumerate(cliques):
            rows, columns = ({f[axis] for f in [*members, one]} for axis in (0, 1))
            if (
                all(are_neighbours(allowed, one, f) for f in members)
                and len(rows) <= limits.rows
                and len(columns) <= limits.columns
            ):
                members.append(one)
                expected[e] = t
                break
        else:
            expected[e] = len(cliques)
            cliques.append([one])
    clique = np.zeros(len(order), dtype=np.int64)
    memory = empty_cliques((7, 70), len(order))
    assert first_fit(packed, listed, order, limits, memory, clique) == len(cliques)
    np.testing.assert_array_equal(clique, expected)
    few = empty_cliques((7, 70), len(cliques) - 1)
    assert first_fit(packed, listed, order, limits, few, clique.copy()) == -1
    random = np.array([seed + 1], dtype=np.uint64)
    before = len(cliques)
    for _ in range(10):
        now = iterate(packed, listed, order, limits, memory, clique, random, 1)
        assert now == clique.max() + 1 <= before
        assert sorted(order) == list(range(len(order)))
        before = now


@pytest.mark.parametrize("seed", SEEDS)
def test_tiles_and_their_weights(seed):
    random = np.random.default_rng(seed)
    entries = random.random((7, 70)) < 0.4
    x, y = random.random(7) < 0.5, random.random(70) < 0.5
    of_rows, of_columns = random.integers(1, 5, 7), random.integers(1, 5, 70)
    inside = entries & np.outer(x, y)
    words = pack(entries)
    tile = pack(x[None])[0], pack(y[None])[0]
    weight = weight_within(words, *tile, of_rows, of_columns)
    assert weight == (inside * np.outer(of_rows, of_columns)).sum()
    remove_within(words, *tile)
    np.testing.assert_array_equal(unpack(words, 70), entries & ~inside)


@pytest.mark.parametrize("seed", SEEDS)
def test_needless_tiles_are_dropped(seed):
    random = np.random.default_rng(seed)
    X, Y = random.random((7, 9)) < 0.4, random.random((9, 70)) < 0.3
    ones = X @ Y
    rows, columns = np.nonzero(ones)
    listed = Ones(np.searchsorted(rows, np.arange(8)), rows, columns)
    order = random.permutation(9)
    stays = np.ones(9, dtype=bool)
    for t in order:
        stays[t] = False
        if ((X[:, stays] @ Y[stays]) != ones).any():
            stays[t] = True
    found = needed(listed, pack(ones), pack(X.T), pack(Y), order)
    # An empty tile has no ones that others could lack.
    np.testing.assert_array_equal(found.astype(bool), stays)


@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_lines_within_a_limit(seed, most):
    random = np.random.default_rng(seed)
    ones = random.random((20, 70)) < 0.5
    y = random.random(70) < 0.2
    nothing = np.zeros((0, 0))
    sides = [Entries(pack(side), pack(~side), nothing) for side in (ones, ones.T)]
    table, factors = Table(*sides, 1.0, False), empty_factors((20, 70), 1)
    chosen, saved = np.zeros(1, dtype=np.uint64), np.zeros(70)
    total = best_lines(
        table, table.rows, factors.rows, 0, pack(y[None])[0], most, chosen, saved
    )  # fmt: skip
    gain = (ones & y).sum(1) - (~ones & y).sum(1)
    expected = np.sort(gain[gain > 0])[::-1][:most]
    members = unpack(chosen[None], 20)[0].astype(bool)
    assert sorted(gain[members], reverse=True) == expected.tolist()
    assert total == expected.sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_differences(seed):
    random = np.random.default_rng(seed)
    drawn = random.random((7, 70))
    ones, missing = drawn < 0.3, drawn > 0.9
    X, Y = random.random((7, 3)) < 0.4, random.random((3, 70)) < 0.4
    parts = [sparse.csr_array(part) for part in (X, ones, missing)]
    indices = [array.astype(np.int64) for part in parts for array in (part.indptr, part.indices)]
    product = X @ Y
    expected = np.argwhere(ones & ~product), np.argwhere(product & ~ones & ~missing)
    pairs = [np.zeros_like(pair) for pair in expected]
    sizes = differences(*indices[:2], pack(Y), *indices[2:], *pairs)
    assert sizes == tuple(map(len, expected))
    for found, right in zip(pairs, expected, strict=True):
        np.testing.assert_array_equal(found, right)
