"""The messages of all zeros at once, compared with the sum over single zeros."""

import numpy as np
import pytest
from matrices import codes_at_random, sparse_of
from reference import sums_of_zeros

from boolweave.engine.backend import InitialBeliefs
from boolweave.engine.zeros import collective
from boolweave.engine.zeros.collective import Side, ZeroScale, ZeroSums, quantised, renew_sums
from boolweave.runtime.threads import pool_of


def sides_of(rows, columns, scale):
    """Rows and columns as `renew_sums` takes them, of beliefs (M, K) and (K, N)."""
    given = [np.ascontiguousarray(beliefs, dtype=np.float32) for beliefs in (rows, columns.T)]
    rooms = [quantised(*beliefs.shape, scale.semiring) for beliefs in given]
    return [Side.of(scale, *side, None)[0] for side in zip(given, rooms, strict=True)]


def renewed(seen, rows, columns, scale, first=0.0, damping=1.0, n_jobs=1, field=None):
    """What zeros send to rows and columns, and that with a field."""
    shapes = [beliefs.shape for beliefs in (rows, columns.T)]
    sums = ZeroSums(*(np.full(shape, first, dtype="f4") for shape in (*shapes, *shapes)))
    sides = sides_of(rows, columns, scale)
    listed = [seen.ones, seen.holes]
    turned = [cells.by_columns(len(columns.T)) for cells in listed]
    renew_sums(scale, *sides, listed, turned, damping, sums, pool_of(n_jobs), field)
    return sums


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
@pytest.mark.parametrize(
    ("shape", "K", "mean"),
    [((7, 5), 1, 0), ((40, 33), 5, 0), ((23, 60), 18, 0), ((23, 60), 18, -4), ((23, 60), 18, 4)],
)
def test_sums_are_those_of_all_zeros(semiring, shape, K, mean):
    """Whether few beliefs are positive, or most."""
    random = np.random.default_rng(K)
    table = codes_at_random(shape, random)
    seen = sparse_of(table)
    scale = ZeroScale(2.3, semiring)
    # whole steps: rounding is no part of this comparison
    rows = np.rint(random.normal(mean, 3, (shape[0], K)) * scale.per_odds) / scale.per_odds
    columns = np.rint(random.normal(mean, 3, (K, shape[1])) * scale.per_odds) / scale.per_odds
    found = renewed(seen, rows, columns, scale, first=1.0)
    expected = sums_of_zeros(rows, columns, table == 0, 2.3, semiring)
    # Max-sum is exact; in sum-product, t is rounded to 1/32, and F is interpolated.
    tolerance = (
        {"rtol": 1e-5, "atol": 1e-4} if semiring == "max-sum" else {"rtol": 0.01, "atol": 0.1}
    )
    np.testing.assert_allclose(found.rows, expected[0], **tolerance)
    np.testing.assert_allclose(found.columns.T, expected[1], **tolerance)


def test_long_rows_do_not_overflow():
    """A row with more ones than sums of 16 bits could hold."""
    n = 3000
    seen, scale = sparse_of(np.ones((2, n))), ZeroScale(4.0, "max-sum")
    found = renewed(seen, np.full((2, 3), 9.0), np.full((3, n), 9.0), scale)
    np.testing.assert_allclose(found.rows, 0, atol=1e-3)  # no zeros: all is taken back
    np.testing.assert_allclose(found.columns, 0, atol=1e-3)


@pytest.mark.parametrize(
    ("semiring", "n", "kind"),
    [("max-sum", 10**7, np.int32), ("max-sum", 10**8, np.int64), ("sum-product", 10, np.int64)],
)
def test_sums_of_listed_cells_have_room(semiring, n, kind):
    assert collective._kind_of_sums(ZeroScale(2.0, semiring), n) is kind


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_damping_threads_and_field(semiring, monkeypatch):
    monkeypatch.setattr("boolweave.runtime.threads.LEAST_ROWS", 16)
    monkeypatch.setattr("boolweave.engine.zeros.collective.CELLS", 50)
    random = np.random.default_rng(0)
    seen = sparse_of(codes_at_random((70, 50), random))
    scale = ZeroScale(3.0, semiring)
    beliefs = random.normal(0, 3, (70, 4)), random.normal(0, 3, (4, 50))
    field = InitialBeliefs.random((70, 50), 4, (1.0, 2.0), 0.01, random)
    whole = renewed(seen, *beliefs, scale)
    part = renewed(seen, *beliefs, scale, -7.0, 0.3)
    in_threads = renewed(seen, *beliefs, scale, -7.0, 0.3, 3, field)
    for side in ("rows", "columns"):
        damped = getattr(part, side)
        np.testing.assert_allclose(damped, 0.7 * -7 + 0.3 * getattr(whole, side), rtol=1e-5)
        np.testing.assert_array_equal(damped, getattr(in_threads, side))
        np.testing.assert_array_equal(damped, getattr(part, f"after_{side}"))
    rows, columns = field.of_rows(slice(None)), field.of_columns().T
    np.testing.assert_array_equal(in_threads.after_rows, part.rows + rows)
    np.testing.assert_array_equal(in_threads.after_columns, part.columns + columns)


def test_change_is_that_of_messages_to_zeros():
    steps, scale = (
        quantised(1, 2, "max-sum"),
        ZeroScale(12.7, "max-sum"),
    )  # ten steps for 1 of log-odds
    assert Side.of(scale, np.array([[-5.0, 3.0]], "f4"), steps, None)[1] == 30
    assert steps[0, :2].tolist() == [-50, 30]
    assert Side.of(scale, np.array([[-9.0, 2.0]], "f4"), steps, None)[1] == 10


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_beliefs_are_counted(semiring, monkeypatch):
    monkeypatch.setattr("boolweave.runtime.threads.LEAST_ROWS", 8)
    scale = ZeroScale(2.0, semiring)
    beliefs = np.random.default_rng(0).normal(-3, 12, (40, 5)).astype("f4")
    side, _ = Side.of(scale, beliefs, quantised(40, 5, semiring), pool_of(2))
    low, high = scale.limits
    values = np.clip(np.rint(beliefs * np.float32(scale.per_odds)), low, high).astype(int)
    expected = [np.bincount(v - low, minlength=scale.n_levels) for v in values.T]
    np.testing.assert_array_equal(side.counts, expected)
