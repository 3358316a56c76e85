"""What all zeros send at once, against the sum over zeros one by one."""

import numpy as np
import pytest
from matrices import codes_at_random, sparse_of
from reference import sums_of_zeros

from boolweave.engine.zeros.collective import Scale, Side, quantised, renew_sums
from boolweave.runtime.threads import pool_of


def sides_of(seen, rows, columns, scale):
    """Rows and columns as `renew_sums` takes them, of beliefs (M, K) and (K, N)."""
    found = []
    for beliefs, listed in (
        (rows, [seen.ones, seen.holes]),
        (columns.T, [cells.by_columns(seen.n_columns) for cells in (seen.ones, seen.holes)]),
    ):
        steps, given = quantised(*beliefs.shape), beliefs.astype(np.float32)
        found.append(Side.of(scale, given, steps, listed, None)[0])
    return found


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
@pytest.mark.parametrize(("shape", "K"), [((7, 5), 1), ((40, 33), 5), ((23, 60), 18)])
def test_sums_are_those_of_all_zeros(semiring, shape, K):
    random = np.random.default_rng(K)
    table = codes_at_random(shape, random)
    seen = sparse_of(table)
    scale = Scale(2.3, semiring)
    # whole steps: rounding is no part of this comparison
    rows = np.rint(random.normal(0, 3, (shape[0], K)) * scale.per_odds) / scale.per_odds
    columns = np.rint(random.normal(0, 3, (K, shape[1])) * scale.per_odds) / scale.per_odds
    of_rows, of_columns = sides_of(seen, rows, columns, scale)
    to_rows, to_columns = np.ones((shape[0], K), "f4"), np.ones((shape[1], K), "f4")
    renew_sums(scale, of_rows, of_columns, 1.0, to_rows, None)
    renew_sums(scale, of_columns, of_rows, 1.0, to_columns, None)
    expected = sums_of_zeros(rows, columns, table == 0, 2.3, semiring)
    # max-sum is exact; in sum-product t is rounded to 1/32 and F taken for linear in between
    tolerance = (
        {"rtol": 1e-5, "atol": 1e-4} if semiring == "max-sum" else {"rtol": 0.01, "atol": 0.1}
    )
    np.testing.assert_allclose(to_rows, expected[0], **tolerance)
    np.testing.assert_allclose(to_columns.T, expected[1], **tolerance)


def test_long_rows_do_not_overflow():
    """A row with more ones than sums of 16 bits could hold."""
    n = 3000
    seen = sparse_of(np.ones((2, n)))
    scale = Scale(4.0, "max-sum")
    of_rows, of_columns = sides_of(seen, np.full((2, 3), 9.0), np.full((3, n), 9.0), scale)
    sums = np.zeros((2, 3), "f4")
    renew_sums(scale, of_rows, of_columns, 1.0, sums, None)
    np.testing.assert_allclose(sums, 0, atol=1e-3)  # no zeros: what all cells send is taken back


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_damping_and_threads(semiring, monkeypatch):
    monkeypatch.setattr("boolweave.engine.zeros.collective.ROWS", 16)
    random = np.random.default_rng(0)
    table = codes_at_random((70, 50), random)
    scale = Scale(3.0, semiring)
    beliefs = random.normal(0, 3, (70, 4)), random.normal(0, 3, (4, 50))
    sides = sides_of(sparse_of(table), *beliefs, scale)
    found = []
    for damping, n_jobs in ((1.0, 1), (0.3, 1), (0.3, 3)):
        sums = np.full((70, 4), -7.0, dtype="f4")
        renew_sums(scale, *sides, damping, sums, pool_of(n_jobs))
        found.append(sums)
    np.testing.assert_allclose(found[1], 0.7 * -7 + 0.3 * found[0], rtol=1e-5)
    np.testing.assert_array_equal(found[1], found[2])


def test_change_counts_what_is_told_to_zeros():
    steps, scale = quantised(1, 2), Scale(12.7, "max-sum")  # ten steps for 1 of log-odds
    assert Side.of(scale, np.array([[-5.0, 3.0]], "f4"), steps, [], None)[1] == 30
    assert steps[0, :2].tolist() == [-50, 30]
    assert Side.of(scale, np.array([[-9.0, 2.0]], "f4"), steps, [], None)[1] == 10


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_beliefs_are_counted_and_listed(semiring, monkeypatch):
    monkeypatch.setattr("boolweave.engine.zeros.collective.ROWS", 8)
    scale = Scale(2.0, semiring)
    beliefs = np.random.default_rng(0).normal(-3, 12, (40, 5)).astype("f4")
    side, _ = Side.of(scale, beliefs, quantised(40, 5), [], pool_of(2))
    low, high = scale.limits
    values = np.clip(np.rint(beliefs * np.float32(scale.per_odds)), low, high).astype(int)
    expected = [np.bincount(v - low, minlength=scale.n_levels) for v in values.T]
    np.testing.assert_array_equal(side.counts, expected)
    if semiring == "max-sum":
        rows, factors = np.nonzero(values > low)
        np.testing.assert_array_equal(np.repeat(range(40), np.diff(side.alive.starts)), rows)
        np.testing.assert_array_equal(side.alive.factors, factors)
        np.testing.assert_array_equal(side.alive.values, values[rows, factors])


def test_few_and_many_beliefs_add_the_same():
    """Beliefs above the lowest are taken one by one, or all in vectors."""
    random = np.random.default_rng(3)
    table = codes_at_random((30, 40), random)
    scale, found = Scale(3.0, "max-sum"), []
    for shift in (-4.0, 2.0):  # hardly any is above the lowest; nearly all are
        rows, columns = random.normal(shift, 2, (30, 20)), random.normal(shift, 2, (20, 40))
        rows, columns = (np.rint(b * scale.per_odds) / scale.per_odds for b in (rows, columns))
        of_rows, of_columns = sides_of(sparse_of(table), rows, columns, scale)
        found.append(len(of_columns.alive.values) / columns.size)
        sums = np.zeros((30, 20), "f4")
        renew_sums(scale, of_rows, of_columns, 1.0, sums, None)
        expected = sums_of_zeros(rows, columns, table == 0, 3.0, "max-sum")[0]
        np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-4)
    assert found[0] < 12 / 20 < found[1]
