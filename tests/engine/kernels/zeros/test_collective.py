"""What all zeros send at once, against the sum over zeros one by one."""

import numpy as np
import pytest
from matrices import codes_at_random, sparse_of
from reference import sums_of_zeros

from boolweave.engine.kernels.zeros import collective as kernels
from boolweave.engine.zeros.collective import Scale, Side, quantised, renew_sums
from boolweave.runtime.threads import pool_of


def sides_of(seen, rows, columns, scale):
    """Rows and columns as `renew_sums` takes them, of beliefs (M, K) and (K, N)."""
    found = []
    for beliefs, listed in (
        (rows, [seen.ones, seen.holes]),
        (columns.T, [cells.by_columns(seen.n_columns) for cells in (seen.ones, seen.holes)]),
    ):
        steps = quantised(*beliefs.shape)
        low, high = (np.float32(limit) for limit in scale.limits)
        given = beliefs.astype(np.float32)
        kernels.quantise(given, np.float32(scale.per_odds), low, high, steps)
        found.append(Side(steps, listed))
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
    to_rows, to_columns = np.ones((shape[0], K), "f4"), np.ones((K, shape[1]), "f4")
    renew_sums(scale, of_rows, of_columns, 1.0, to_rows, None)
    renew_sums(scale, of_columns, of_rows, 1.0, to_columns.T, None)
    expected = sums_of_zeros(rows, columns, table == 0, 2.3, semiring)
    # max-sum is exact; in sum-product t is rounded to 1/32 and F taken for linear in between
    tolerance = (
        {"rtol": 1e-5, "atol": 1e-4} if semiring == "max-sum" else {"rtol": 0.01, "atol": 0.1}
    )
    np.testing.assert_allclose(to_rows, expected[0], **tolerance)
    np.testing.assert_allclose(to_columns, expected[1], **tolerance)


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
    steps = quantised(1, 2)
    limits = np.float32(-127), np.float32(127)
    assert kernels.quantise(np.array([[-5.0, 3.0]], "f4"), np.float32(10), *limits, steps) == 30
    assert steps[0, :2].tolist() == [-50, 30]
    assert kernels.quantise(np.array([[-9.0, 2.0]], "f4"), np.float32(10), *limits, steps) == 10
