"""The engine on small integers: max-sum against a slow twin, bit for bit; what must not matter.

`make test` runs this file twice, compiled and as plain Python: keep the problems small.
"""

import itertools
import math
from dataclasses import replace

import integer_reference as twin
import numpy as np
import pytest
from engines import (
    backend_of,
    beliefs,
    init,
    init_from,
    log_posterior,
    make_problem,
    quantization_for,
    step,
    with_model,
)
from hypothesis import given
from hypothesis import strategies as st
from integer_problems import (
    LONG,
    MANY,
    N_ITER,
    PLAIN,
    PRODUCTS,
    SEMIRINGS,
    assert_equal,
    assert_sums_are_those_of_the_messages,
    column_sums,
    even_small,
    few_examples,
    in_matrix,
    integer_problem,
    planted,
    row_sums,
    started,
    trajectory,
)
from reference import boolean_product_by_definition

from boolweave.data.observations import Observations
from boolweave.engine import backend, quantization
from boolweave.engine.backend import InitialBeliefs
from boolweave.engine.integers import quantise
from boolweave.engine.kernels import variables
from boolweave.engine.quantization import Prior, Variables, requantise
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.odds import HARD_BELIEF, sigmoid
from boolweave.runtime.threads import threads

# ---------------------------------------------------------------- max-sum against its twin


def assert_follows_the_twin(small, damping=0.4, n_iter=2 if PLAIN else 5, seed=0):
    problem, state = started(small, seed=seed)
    unit = twin.unit_of(**small.channel, product=small.product)
    assert problem.quantization.unit == pytest.approx(unit, rel=1e-12)
    L = twin.in_units(small.evidence, unit)
    a, b = small.prior_log_odds
    to_row, to_column = np.zeros((2, *small.shape), dtype=int)
    row, column = (twin.rounded(belief, unit) for belief in beliefs(problem, state))
    for _ in range(n_iter):
        before = to_row, to_column
        to_row, to_column = twin.max_sum_step(
            L, row, column, to_row, to_column, damping, small.product
        )
        row = twin.rounded(a + unit * to_row.sum(axis=1), unit)
        column = twin.rounded(b + unit * to_column.sum(axis=0).T, unit)
        step(problem, state, damping)
        assert_equal(in_matrix(problem, state), (to_row, to_column))
        sums = row_sums(problem, state), column_sums(problem, state)
        assert_equal(sums, (to_row.sum(1), to_column.sum(0).T))
        soft = np.isfinite(a)
        found, _ = beliefs(problem, state)
        np.testing.assert_allclose(
            found[soft], (a + unit * to_row.sum(axis=1))[soft], rtol=1e-5, atol=1e-5
        )
        assert (found[~soft] * np.sign(a[~soft]) > 1e29).all()
        moved = np.maximum(np.abs(to_row - before[0]), np.abs(to_column - before[1])).max(axis=2)
        bounds = problem.quantization.bounds[(L > 0).astype(int)]
        assert state.residual == pytest.approx((moved / bounds).max())


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("share", [1.0, 0.85, 0.3, 0.05])
def test_follows_the_twin(product, share):
    """Complete, dense with holes, sparse, and with rows that are short or empty."""
    small = even_small(3, (*LONG, 3), share, product)
    assert all(block.dense == (share > 0.7) for block in integer_problem(small).blocks)
    assert_follows_the_twin(small)


@pytest.mark.parametrize("product", PRODUCTS)
@few_examples
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 6)),
    share=st.sampled_from([1.0, 0.8, 0.4, 0.0]),
    hard=st.sampled_from([0.0, 0.3, 1.0]),
    damping=st.sampled_from([0.4, 0.1, 1.0]),
    channel=st.sampled_from([(0.1, 0.9), (0.02, 0.7), (0.3, 0.6), (0.05, 0.4)]),
)
def test_follows_the_twin_on_small_problems(product, seed, shape, share, hard, damping, channel):
    small = even_small(seed, shape, share, product, hard, channel)
    assert_follows_the_twin(small, damping, seed=seed)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("shape", [(1, 700, 2), (700, 1, 2), (2, 3, MANY), (1, 1, 1)])
def test_odd_shapes(product, shape):
    assert_follows_the_twin(even_small(0, shape, product=product), n_iter=2)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_several_blocks_follow_the_twin(monkeypatch, product, share):
    monkeypatch.setattr(backend, "MIN_BLOCK", 20)
    small = even_small(1, (*LONG, 2), share, product, hard=0.1)
    assert len(integer_problem(small).blocks) > 3
    assert_follows_the_twin(small)


# ---------------------------------------------------------------- what must not matter


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_dense_and_sparse_agree(monkeypatch, semiring, product, share):
    small = even_small(4, (*LONG, 2), share, product)
    runs = []
    for threshold in (0.0, 2.0):
        monkeypatch.setattr(quantization, "DENSE", threshold)
        problem, state = started(small, semiring)
        assert all(block.dense == (threshold == 0.0) for block in problem.blocks)
        runs.append(trajectory(problem, state, N_ITER))
    assert_equal(*runs)


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_sparse_blocks_between_dense_ones_agree(monkeypatch, semiring, product):
    """What one block leaves in the scratch of a thread is nothing to the next."""
    monkeypatch.setattr(backend, "MIN_BLOCK", 100)
    small = even_small(2, (*LONG, 2), product=product)
    small.seen[10:20, 5:] = np.nan
    runs = []
    for threshold, kinds in ((quantization.DENSE, {True, False}), (2.0, {False})):
        monkeypatch.setattr(quantization, "DENSE", threshold)
        problem, state = started(small, semiring)
        assert {block.dense for block in problem.blocks} == kinds
        runs.append(trajectory(problem, state, N_ITER))
    assert_equal(*runs)


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_the_number_of_threads_changes_nothing(monkeypatch, semiring, product, share):
    monkeypatch.setattr(backend, "MIN_BLOCK", 300 if PLAIN else 40)
    small = even_small(5, (*LONG, 2), share, product)
    runs = []
    for n_jobs in (1, 2, 3):
        problem, state = started(small, semiring)
        with threads(n_jobs) as pool:
            runs.append(trajectory(problem, state, N_ITER, pool=pool))
        runs[-1].append(np.array(state.expected_ones))
    assert_equal(runs[0], runs[1])
    assert_equal(runs[0], runs[2])


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_blocks_change_nothing(monkeypatch, semiring, product, share):
    small = even_small(6, (*LONG, 2), share, product)
    runs = []
    for min_block, max_blocks in ((10_000, 32), (200 if PLAIN else 30, 32), (30, 3)):
        monkeypatch.setattr(backend, "MIN_BLOCK", min_block)
        monkeypatch.setattr(backend, "MAX_BLOCKS", max_blocks)
        runs.append(trajectory(*started(small, semiring), N_ITER))
    assert_equal(runs[0], runs[1])
    assert_equal(runs[0], runs[2])


# ---------------------------------------------------------------- settled chunks


def other_models(small):
    """Three models to change to: another channel, other priors, the first channel again."""
    louder = replace(small.model, channel=Channel(one_given_zero=0.03, one_given_one=0.9))
    sparser = replace(small.model, row_prior=0.2)
    return louder, sparser, small.model


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_skipping_settled_chunks_changes_nothing(semiring, product, share):
    """Also when the model changes on the way, as it does when it is learned."""
    small = planted(7, (6, 8, 1) if PLAIN else (30, 40, 2), share, product)
    runs, skipped = [], 0
    for skip in (True, False):
        problem, state = started(small, semiring)
        run = []
        for model in (small.model, *other_models(small)):
            problem = with_model(problem, model)
            for _ in range(1 if PLAIN else 25):
                for flags in state.messages.sums.converged_chunks:
                    skipped += int(flags.sum()) if skip else 0
                    flags &= skip
                run += trajectory(problem, state, 1, damping=0.8)
                run.append(np.array(state.expected_ones))
        runs.append(run)
    assert_equal(*runs)
    assert skipped > 0 or product == "xor" or PLAIN  # XOR may go on swinging


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_settled_chunks_are_not_looked_at(semiring, share):
    """Nor touched: a message that is changed behind the engine's back stays as it is."""
    small = even_small(8, (8, 30, 1), share, channel=(0.3, 0.7))
    small.seen[small.seen == 0] = 1
    problem, state = started(small, semiring)
    for _ in range(100):
        step(problem, state, 0.8)
        if all(flags.all() for flags in state.messages.sums.converged_chunks):
            break
    step(problem, state, 0.8)
    assert state.residual == 0
    assert all(flags.all() for flags in state.messages.sums.converged_chunks)
    for messages in state.messages.to_row:
        messages //= 2
    changed = [messages.copy() for messages in state.messages.to_row]
    before, columns = beliefs(problem, state)
    step(problem, state, 0.8)
    assert_equal(state.messages.to_row, changed)
    np.testing.assert_array_equal(beliefs(problem, state)[0], before)
    # now there is news: beliefs of columns are the opposite
    turned = replace(problem, column_prior=problem.column_prior - 2 * columns)
    backend_of(problem).step(turned, state, 0.8)
    assert any((new != old).any() for new, old in zip(state.messages.to_row, changed, strict=True))


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("product", PRODUCTS)
@few_examples
@given(
    seed=st.integers(0, 999),
    shape=st.tuples(st.integers(1, 25), st.integers(1, 25), st.integers(1, 3)),
    share=st.sampled_from([1.0, 0.8, 0.3]),
    dampings=st.lists(st.sampled_from([0.1, 0.4, 1.0]), min_size=1, max_size=4),
)
def test_sums_are_those_of_the_messages(semiring, product, seed, shape, share, dampings):
    small = even_small(seed, shape, share, product, hard=0.1)
    problem, state = started(small, semiring, seed)
    for damping in dampings:
        step(problem, state, damping)
        assert_sums_are_those_of_the_messages(problem, state)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("product", PRODUCTS)
@few_examples
@given(
    seed=st.integers(0, 999),
    n_factors=st.sampled_from([1, 2, MANY]),
    damping=st.sampled_from([0.4, 1.0]),
    channel=st.sampled_from([(0.1, 0.9), (0.45, 0.55), (0.02, 0.7), (1e-5, 1 - 1e-5)]),
)
def test_messages_stay_within_their_bounds(semiring, product, seed, n_factors, damping, channel):
    """Whatever the beliefs: a byte that went past 255 or below 0 would start again at the other."""
    small = even_small(seed, (3, 4, n_factors), 0.9, product, channel=channel)
    problem, state = started(small, semiring, seed)
    rng = np.random.default_rng(seed)
    extremes = np.float32([-1e30, -1e4, -40, -3, -0.1, 0, 0.1, 3, 40, 1e4, 1e30])
    L = small.evidence[:, :, None]
    low, high = np.minimum(L, 0), np.maximum(L, 0)
    if product == "xor":
        low, high = -np.abs(L), np.abs(L)
    slack = problem.quantization.unit * 0.51  # |L| itself is rounded to whole units
    if semiring == "sum-product":
        slack = 1.1 * twin.STEP + 0.02 * np.abs(L).max()
        step(problem, state, 1.0)  # forgets the start
    for _ in range(4):
        rows, columns = beliefs(problem, state)
        extreme = replace(  # a problem in which the same messages make other beliefs
            problem,
            row_prior=problem.row_prior + rng.choice(extremes, rows.shape) - rows,
            column_prior=problem.column_prior + rng.choice(extremes, columns.shape) - columns,
        )
        backend_of(problem).step(extreme, state, damping)
        assert_sums_are_those_of_the_messages(problem, state)
        unit = problem.quantization.unit if semiring == "max-sum" else twin.STEP
        for messages in in_matrix(problem, state):
            assert (messages * unit >= low - slack).all()
            assert (messages * unit <= high + slack).all()


def test_beliefs_in_units():
    problem = integer_problem(even_small(3, (2, 1, 5), 1.0))
    state = init_from(problem)  # without messages, priors are the beliefs
    units = np.float32([[0, 0.26, -0.26, 1.2, -1.3], [np.inf, -np.inf, 99.9, -99.9, 5e4]])
    prior = np.clip(units * np.float32(problem.quantization.unit), -HARD_BELIEF, HARD_BELIEF)
    problem = replace(problem, row_prior=prior)
    quantise(problem, state)
    (side,) = state.messages.sums.rows
    expected = [[0, 0, 0, 1, -1], [1023, -1023, 100, -100, 1023]]
    assert side.table(side.beliefs).tolist() == expected
    assert side.changed.all()  # nobody was told anything before
    side.changed[:] = False
    for changed, moved in (((0, 3), [True, False]), ((1, 2), [True, True])):  # no step between
        prior = prior.copy()
        prior[changed] = 0
        quantise(replace(problem, row_prior=prior), state)
        assert side.changed.tolist() == moved


@pytest.mark.parametrize("n_factors", [1, 3, 70])
@pytest.mark.parametrize("same", list(itertools.product([True, False], repeat=2)))
def test_what_follows_from_sums(n_factors, same):
    """Units, news, bits and sums of priors against their definitions."""
    n_factors = min(n_factors, 3) if PLAIN else n_factors
    rng = np.random.default_rng(n_factors)
    shape = n, _ = (3 if PLAIN else 37), n_factors
    prior = rng.standard_normal([1 if one else full for one, full in zip(same, shape, strict=True)])
    prior = (10 * prior).astype(np.float32)
    prior[0, 0] = HARD_BELIEF
    side = Variables.of(n, n_factors, np.int32)
    sums, units = side.table(side.sums), side.table(side.beliefs)
    sums[...] = rng.integers(-300, 300, shape)
    odds = prior + np.float32(0.25) * sums.astype(np.float32)
    told = np.clip(np.floor(odds * np.float32(4) + np.float32(0.5)), -1023, 1023)
    used = np.where((odds > 0) & (prior < HARD_BELIEF), prior, 0).astype(np.float64)
    units[...] = told
    units[2, 0] += 1
    for news in (True, False):
        scale = variables.Scale(*map(np.float32, (0.25, 4, 1023)))
        scratch = variables.scratch_for(n_factors)
        n_changed = requantise(side, Prior(prior, n_factors), scale, scratch)
        assert n_changed == (np.count_nonzero(odds > 0) if news else 0)  # all bits were 0 before
        np.testing.assert_array_equal(units, told)
        assert side.changed.tolist() == [news and i == 2 for i in range(n)]
    bits = [[int(word) >> k & 1 for word in row for k in range(64)] for row in side.words]
    np.testing.assert_array_equal(np.array(bits)[:, :n_factors], odds > 0)
    total = side.totals[0] / variables.COARSE + side.totals[1] / variables.FINE
    assert total == pytest.approx(math.fsum(used.ravel()), abs=1e-6)
    decoded = variables.decoded(odds, np.broadcast_to(prior, shape).copy(), HARD_BELIEF, True)
    assert side.totals.tolist() == list(decoded[1:])


@pytest.mark.parametrize("shape", [(0, 5), (4, 0), (3, 5)])
def test_nothing_seen(shape):
    """No rows, no columns, or no entries: the priors remain."""
    seen = Observations.from_triples([], [], [], shape=shape)
    model = Model(2, Channel.symmetric(0.1), row_prior=0.3)
    problem = make_problem(seen, model, code=quantization_for(model))
    state = init(problem, np.random.default_rng(0))
    step(problem, state, 1.0)
    rows, columns = beliefs(problem, state)
    assert [rows.shape, columns.shape] == [(shape[0], 2), (2, shape[1])]
    np.testing.assert_allclose(rows, np.log(0.3 / 0.7), rtol=1e-6)
    expected = shape[0] * 2 * np.log(0.7) + shape[1] * 2 * np.log(0.5)
    assert log_posterior(problem, state) == pytest.approx(expected)


def test_kept_beliefs_stay_those_of_their_iteration():
    """Until the arrays are given back for those of a later one."""
    problem, state = started(even_small(3, (4, 5, 2), 1.0))
    step(problem, state, 0.4)
    kept = backend_of(problem).keep_beliefs(problem, state, None)
    before = kept.rows.copy(), kept.columns.copy()
    assert_equal(before, beliefs(problem, state))
    step(problem, state, 0.4)
    assert_equal(before, (kept.rows, kept.columns))
    after = beliefs(problem, state)
    assert all((new != old).any() for new, old in zip(after, before, strict=True))
    later = backend_of(problem).keep_beliefs(problem, state, kept)
    assert later.rows is kept.rows and later.columns is kept.columns
    assert_equal(after, (later.rows, later.columns))


# ---------------------------------------------------------------- the log-posterior


def decoding_to(problem, X, Y):
    """A state without messages, whose field is stronger than the priors."""
    rows, columns = (np.where(bits, 5.0, -5.0) for bits in (X, Y))
    state = init_from(problem, InitialBeliefs.of_log_odds(rows, columns, least=0.1))
    assert_equal([belief > 0 for belief in beliefs(problem, state)], (X, Y))
    return state


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("share", [1.0, 0.8, 0.3])
@pytest.mark.parametrize("n_factors", [3, 70])
def test_log_posterior_is_that_of_floats(product, share, n_factors):
    small = even_small(2, (9, 8, n_factors), share, product)
    rng = np.random.default_rng(0)
    problem, floats = integer_problem(small), make_problem(small.observations, small.model)
    for density in (0.0, 0.2, 0.6):
        X, Y = rng.random((9, n_factors)) < density, rng.random((n_factors, 8)) < density
        found = log_posterior(problem, decoding_to(problem, X, Y))
        expected = log_posterior(floats, decoding_to(floats, X, Y))
        assert found == pytest.approx(expected, rel=1e-6)
        Z = boolean_product_by_definition(X, Y, product)
        bits = np.where(X, problem.row_prior, 0).sum() + np.where(Y, problem.column_prior, 0).sum()
        gained = found - log_posterior(problem, decoding_to(problem, X & False, Y & False))
        assert gained == pytest.approx(bits + small.evidence[Z == 1].sum(), abs=1e-3)


@pytest.mark.parametrize("product", PRODUCTS)
def test_log_posterior_is_counted_anew(product):
    """After a step that changed bits, and with other priors for the same bits."""
    small = even_small(2, (9, 8, 3), 0.8, product)
    problem, state = started(small)

    def decoded_and_checked(problem):
        floats = make_problem(small.observations, problem.model)
        bits = [belief > 0 for belief in beliefs(problem, state)]
        found = log_posterior(problem, state)
        expected = log_posterior(floats, decoding_to(floats, *bits))
        assert found == pytest.approx(expected, rel=1e-6)
        return bits, found

    n_changed = 0
    for _ in range(2 if PLAIN else 5):
        decoded_and_checked(problem)
        step(problem, state, 0.8)
        n_changed += sum(state.n_changed)
    assert n_changed > 0
    bits, before = decoded_and_checked(problem)
    likelier = sigmoid(small.prior_log_odds[0] + np.where(bits[0], 1, -1))
    same_bits, after = decoded_and_checked(
        with_model(problem, replace(small.model, row_prior=likelier))
    )
    assert_equal(bits, same_bits)
    assert after > before + 1
