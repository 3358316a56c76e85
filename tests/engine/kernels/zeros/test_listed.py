"""Listed zeros in max-sum, compared with the kernel for all entries."""

import numba
import numpy as np
import pytest

from boolweave.data.ones import Cells
from boolweave.engine.backend import Beliefs
from boolweave.engine.kernels import max_sum
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.zeros import listed as of_zeros
from boolweave.engine.zeros.listed import Listed, ListedSums
from boolweave.runtime.threads import pool_of

SHAPE = (9, 7) if numba.config.DISABLE_JIT else (60, 50)


def listed_at_random(K, random):
    """Some zeros with messages, and beliefs, of which some are positive."""
    there = random.random(SHAPE) < 0.2
    there[2] = False
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    cells = Cells(indptr, np.nonzero(there)[1].astype(np.int32))
    beliefs = Beliefs(
        random.normal(-2, 3, (SHAPE[0], K)).astype("f4"),
        random.normal(-2, 3, (SHAPE[1], K)).astype("f4").T,
    )
    found = Listed.none(SHAPE[0], K).replaced(cells, 2.3, beliefs)
    for messages in (found.to_row, found.to_column):
        own = messages[:, :K]
        own[random.random(own.shape) < 0.1] = -random.random() * 2.3
    return found, beliefs


def sums_of(listed, K, n_jobs=1):
    """Sums of all columns, to which nothing was added."""
    rows = np.zeros((SHAPE[0], K), "f4")
    return ListedSums.of([listed], rows, SHAPE[1], True, pool_of(n_jobs))


def by_lanes(messages, K):
    """Messages (cells, stride) as one chunk (1, K, size), where the size is a whole of vectors."""
    padding = -len(messages) % LANES
    return np.ascontiguousarray(np.pad(messages[:, :K].T, ((0, 0), (0, padding)))[None])


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("K", [1, 16, 37])
def test_same_bits_as_with_a_lane_for_each_entry(K, n_jobs, monkeypatch):
    monkeypatch.setattr(of_zeros, "CELLS", 30)
    found, beliefs = listed_at_random(K, np.random.default_rng(K))
    lanes = max_sum.Messages(by_lanes(found.to_row, K), by_lanes(found.to_column, K))
    evidence = np.full(len(found.columns), -2.3, dtype=np.float32)
    entries = max_sum.Entries(found.indptr, found.columns.view(np.uint32), evidence)
    sides = max_sum.Sides(beliefs.rows, beliefs.columns)
    for _ in range(3):
        sums = sums_of(found, K, n_jobs)
        change, _ = found.step(2.3, 0.4, beliefs, sums)
        expected_sums = sums_of(found, K)
        found.add(expected_sums)
        np.testing.assert_array_equal(sums.rows, expected_sums.rows)
        np.testing.assert_array_equal(sums.columns, expected_sums.columns)
        unused = max_sum.Sides(*(np.zeros_like(side) for side in sides))
        expected = max_sum.max_sum(None, entries, np.float32(0.4), sides, lanes, unused)
        assert change == expected > 0
        for messages, other in zip((found.to_row, found.to_column), lanes, strict=True):
            np.testing.assert_array_equal(by_lanes(messages, K), other)
            assert not messages[:, K:].any()


def test_a_new_list_keeps_messages_and_begins_others():
    K, random = 20, np.random.default_rng(0)
    before, beliefs = listed_at_random(K, random)
    other, _ = listed_at_random(K, random)
    found = before.replaced(other.cells, 2.3, beliefs)
    old = dict(zip(before.cells.numbers(SHAPE[1]).tolist(), before.to_row, strict=True))
    rows, columns = found.cells.rows(), found.columns
    x, y = beliefs.rows[rows], beliefs.columns.T[columns]
    fresh = -np.clip(y + np.clip(x, 0, np.float32(2.3)), 0, np.float32(2.3))
    kept = 0
    for i, number in enumerate(found.cells.numbers(SHAPE[1]).tolist()):
        expected = old[number][:K] if number in old else fresh[i]
        kept += number in old
        np.testing.assert_array_equal(found.to_row[i, :K], expected)
    assert 0 < kept < len(columns)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_sums_are_those_of_all_messages(semiring, n_jobs, monkeypatch):
    monkeypatch.setattr(of_zeros, "CELLS", 30)
    K, (M, N) = 20, SHAPE
    listed, _ = listed_at_random(K, np.random.default_rng(1))
    odds = listed.to_row[:, :K], listed.to_column[:, :K]
    if semiring == "sum-product":
        listed = listed.to_sum_product(K)
    sums, columns = sums_of(listed, K, n_jobs), np.zeros((N, K), "f4")
    listed.add(sums, -1)
    sums.finish(columns, lambda steps: steps)
    expected_rows, expected_columns = np.zeros((M, K)), np.zeros((N, K))
    np.add.at(expected_rows, listed.cells.rows(), -odds[0])
    np.add.at(expected_columns, listed.columns, -odds[1])
    np.testing.assert_allclose(sums.rows, expected_rows, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(columns, expected_columns, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_parts_of_rows_make_the_whole(semiring):
    K = 20
    whole, _ = listed_at_random(K, np.random.default_rng(2))
    if semiring == "sum-product":
        whole = whole.to_sum_product(K)
    middle = SHAPE[0] // 2
    parts = [whole.take_rows(slice(0, middle)), whole.take_rows(slice(middle, SHAPE[0]))]
    again = Listed.joined(parts)
    again.check(SHAPE, K, semiring)
    for name in ("indptr", "columns", "to_row", "to_column"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
