"""More than 2³¹ entries: no position of an entry is cut to 32 bits.

Files with holes stand in for large arrays: a hole reads as zeros and takes no room. Only the last
rows, whose entries lie beyond 2³¹, hold anything, and only they are looked at.
"""

import os

import engines
import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Channel, Observations
from boolweave.data import observations
from boolweave.engine import backend, integers
from boolweave.engine.kernels.groups import GROUPS
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.quantization import Prior, make_blocks
from boolweave.engine.result import Result
from boolweave.model.model import Model
from boolweave.runtime import storage

LIMIT = 2**31
K = 2


def with_holes(path, dtype, n):
    """An array of zeros of any length in a file."""
    with open(path, "wb") as file:
        file.truncate(n * np.dtype(dtype).itemsize)
    return np.memmap(path, dtype, mode="r+", shape=(n,))


def unchecked(shape, indptr, indices, values, n_ones):
    """Observations without the pass over all entries that checks them."""
    made = object.__new__(Observations)
    fields = {"shape": shape, "indptr": indptr, "indices": indices, "values": values,
              "row_labels": None, "column_labels": None, "n_ones": n_ones}  # fmt: skip
    for name, field in fields.items():
        vars(made)[name] = field
    for array in (indices, values):
        array.flags.writeable = False
    return made


def few_and_many(tmp_path, n_columns, columns_of_last, n_last=300):
    """Some rows, and the same rows below so many others that their entries are beyond 2³¹."""
    random = np.random.default_rng(0)
    per_row = len(columns_of_last)
    n_before = LIMIT // per_row + 1
    n_rows = n_before + n_last
    n, n_few = n_rows * per_row, n_last * per_row
    values = with_holes(tmp_path / "values", np.uint8, n)
    indices = with_holes(tmp_path / "indices", np.int32, n)
    values[-n_few:] = random.integers(0, 2, n_few)
    indices[-n_few:] = np.tile(columns_of_last, n_last)
    indptr = np.arange(n_rows + 1, dtype=np.int64) * per_row
    few = Observations(
        (n_last, n_columns), np.arange(n_last + 1) * per_row,
        np.array(indices[-n_few:]), np.array(values[-n_few:]),
    )  # fmt: skip
    arrays = (indptr, np.asarray(indices), np.asarray(values))
    return few, unchecked((n_rows, n_columns), *arrays, few.n_ones)


def test_rows_are_cut_by_entries():
    indptr = np.arange(10**5 + 1, dtype=np.int64) * 10**6  # 10¹¹ entries
    for at_least in (1, 9000):
        cuts = backend.split_rows(indptr, at_least)
        assert len(cuts) == max(10**11 // backend.MAX_BLOCK, at_least)
        assert cuts[0][0] == 0 and cuts[-1][1] == 10**5
        sizes = np.diff([indptr[[start, stop]] for start, stop in cuts], axis=1)
        assert sizes.min() > 0.9 * 10**11 / len(cuts) and sizes.sum() == 10**11


@pytest.mark.parametrize("dense", [True, False])
def test_blocks_beyond_the_limit(tmp_path, dense):
    n_columns = 4096 if dense else 10**6
    columns = np.arange(4096) if dense else np.arange(4096) * 3 + 5
    few, many = few_and_many(tmp_path, n_columns, columns)
    first = many.n_rows - few.n_rows
    (block,) = make_blocks(many, [(first, many.n_rows)], storage.Memory())
    (same,) = make_blocks(few, [(0, few.n_rows)], storage.Memory())
    assert bool(block.dense) is bool(same.dense) is dense
    for name in ("indptr", "index", "codes"):
        np.testing.assert_array_equal(getattr(block, name), getattr(same, name))


def test_a_block_of_more_entries_than_the_limit(tmp_path, monkeypatch):
    """Of all chunks of one block only those of the last rows are not settled."""
    monkeypatch.setattr(
        storage, "_allocate", lambda file, n_bytes: os.truncate(file.fileno(), n_bytes)
    )
    few, many = few_and_many(tmp_path, 4096, np.arange(4096), n_last=8)
    model = Model(K, Channel.symmetric(0.1))
    random = np.random.default_rng(1)
    beliefs = random.integers(-300, 300, (8, K), dtype=np.int16)
    columns = random.integers(-300, 300, (K, 4096), dtype=np.int16)
    found = []
    for seen in (few, many):
        store = storage.Files(1)
        part = integers.Part([(0, seen.n_rows)], 0, seen.n_rows, lambda array: array)
        problem = integers.IntegerBackend(seen, store=store, part=part).problem(model)
        (block,) = problem.blocks
        assert block.dense and block.n_entries == seen.n_observed
        # whatever messages: all bytes 0, so that files have holes
        shapes = problem.shapes("max-sum")
        (to_row,), (to_column,) = (store.zeros(shapes, np.uint8) for _ in range(2))
        sums = integers.no_sums(problem, "max-sum")
        (side,), (still,) = sums.rows, sums.converged_chunks
        side.table(side.beliefs)[-8:] = beliefs
        side.changed[:] = False
        sums.columns.table(sums.columns.beliefs)[...] = columns.T
        sums.columns.changed[:] = False
        still[: -8 * 4096 // (LANES * GROUPS)] = True
        scale = problem.quantization.scale("max-sum")
        prior = Prior(problem.row_prior, K)
        iteration = integers.Iteration(
            None, "max-sum", problem.quantization, 0.4, 0, scale, sums.columns, prior, None
        )
        messages = integers.IntegerMessages([to_row], [to_column], sums)
        change, _, column_sum = integers.update(iteration, problem.blocks, messages, [0])
        rows = side.table(side.sums)
        assert not rows[:-8].any()
        n_last = 8 * 4096 // LANES
        last = (to_row[-n_last:], to_column[-n_last:])
        found.append((change, column_sum, rows[-8:], *last))
    assert found[0][0] > 0
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_decoded_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(
        observations, "iterate_blocks", lambda runs, arrays_of: runs
    )  # nothing is read
    few, many = few_and_many(tmp_path, 10**6, np.arange(4096) * 3 + 5, n_last=20)
    runs = many.row_chunks()
    *_, (start, stop, columns, values) = runs
    assert stop == many.n_rows
    n = (stop - start) * 4096
    np.testing.assert_array_equal(columns[-20 * 4096 :], few.indices[-n:])
    np.testing.assert_array_equal(values[-20 * 4096 :], few.values[-n:])
    last = many.take_rows(np.arange(many.n_rows - 20, many.n_rows))
    np.testing.assert_array_equal(last.values, few.values)
    np.testing.assert_array_equal(last.indices, few.indices)


def test_files_beyond_the_limit(monkeypatch):
    monkeypatch.setattr(
        storage, "_allocate", lambda file, n_bytes: os.truncate(file.fileno(), n_bytes)
    )
    arrays = storage.Files(3).zeros([(2**15, 2**15), (2**15, 2**15 + 1), (5, 7)], np.int16)
    for number, array in enumerate(arrays):
        array[-1, -1] = number + 1
        storage.release_pages(array)
    assert [int(array[-1, -1]) for array in arrays] == [1, 2, 3]
    assert not arrays[2].ravel()[:-1].any()


def test_too_many_columns():
    seen = Observations((1, 2**32 + 1), [0, 1], np.array([2**32]), [1])
    with pytest.raises(ValueError, match="at most 4294967296 columns are possible, got 4294967297"):
        engines.make_problem(seen, Model(1, Channel.symmetric(0.1)))


@pytest.mark.big
@pytest.mark.timeout(3600)
@pytest.mark.skipif(
    not os.environ.get("BOOLWEAVE_BIG"),
    reason="needs BOOLWEAVE_BIG=1: writes 17 GB to the directory for temporary files",
)
def test_a_real_one(tmp_path):
    """A planted factor in 2³¹ + 2²⁰ entries, all of them observed, all of them on disk."""
    n_rows, n_columns = 65_568, 32_768
    random = np.random.default_rng(0)
    x, y = random.random(n_rows) < 0.5, random.random(n_columns) < 0.5
    with open(tmp_path / "values", "wb") as values, open(tmp_path / "indices", "wb") as indices:
        row = np.arange(n_columns, dtype=np.int32).tobytes()
        for bit in x:
            flips = random.integers(0, 256, n_columns, dtype=np.uint8) < 13
            values.write(((bit & y) ^ flips).astype(np.uint8).tobytes())
            indices.write(row)
    seen = Observations(
        (n_rows, n_columns), np.arange(n_rows + 1, dtype=np.int64) * n_columns,
        np.memmap(tmp_path / "indices", np.int32, mode="r"),
        np.memmap(tmp_path / "values", np.uint8, mode="r"),
    )  # fmt: skip
    assert seen.n_observed > LIMIT
    model = BooleanMatrixFactorization(
        1, method="max-sum", max_iter=8, random_state=0, max_memory="1GiB", n_jobs=2
    ).fit(seen)
    np.testing.assert_array_equal(model.components_[0], y)
    np.testing.assert_array_equal(model.row_log_odds_[:, 0] > 0, x)
    result = Result(
        Model(1, Channel.symmetric(0.05)), seen, model.row_log_odds_, model.column_log_odds_,
        0.0, "converged", 1, {},
    )  # fmt: skip
    assert np.trace(result.counts(seen)) / seen.n_observed == pytest.approx(243 / 256, abs=1e-4)
