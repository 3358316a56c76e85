"""Files of matrices that are not what they say: each is refused before compiled code sees it."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from read_files import message, table

from boolweave import Observations
from boolweave.io import formats

# ---------------------------------------------------------------- sparse matrices


SPARSE = {
    "csr": {"indices": [0, 2], "indptr": [0, 1, 2], "data": [1, 1]},
    "csc": {"indices": [0, 1], "indptr": [0, 1, 1, 2], "data": [1, 1]},
    "coo": {"row": [0, 1], "col": [0, 2], "data": [1, 1]},
    "bsr": {"indices": [0, 2], "indptr": [0, 1, 2], "data": np.ones((2, 1, 1), int)},
    "dia": {"offsets": [0], "data": [[1, 0, 0]]},
}


def put_sparse(path, kind, **changes):
    arrays = {"format": kind.encode(), "shape": [2, 3], **SPARSE[kind], **changes}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_matrices(tmp_path, kind):
    path = put_sparse(tmp_path / "a.npz", kind)
    expected = [[1, 0, 0], [0, 0, 0]] if kind == "dia" else [[1, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(table(path), expected)
    np.testing.assert_array_equal(scipy.sparse.load_npz(path).toarray(), expected)


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("csr", {"indices": [0, 90_000_000]}, "from 0 to 2, but go from 0 to 90000000"),
        ("csr", {"indices": [0, -90_000_000]}, "from 0 to 2"),
        ("csc", {"indices": [0, 2]}, "from 0 to 1"),
        ("coo", {"row": [0, 2]}, "from 0 to 1"),
        ("coo", {"col": [-1, 0]}, "from 0 to 2"),
        ("coo", {"col": [0]}, "the same number of each"),
        ("coo", {"col": [0.0, 1.0]}, "whole numbers"),
        ("csr", {"indptr": [0, 90_000_000, 2]}, "do not decrease"),
        ("csr", {"indptr": [0, 1, 90_000_000]}, "there are 2 indices and 2 values"),
        ("csr", {"indptr": [1, 1, 2]}, "begin with 0"),
        ("csr", {"indptr": [0, 2]}, "3 numbers"),
        ("csr", {"data": [1]}, "1 values"),
        ("csr", {"data": [[1, 1]]}, "list of numbers"),
        ("bsr", {"indices": [0, 3]}, "from 0 to 2"),
        ("bsr", {"data": np.ones((2, 1, 2), int)}, "do not fill"),
        ("bsr", {"data": np.ones((2, 0, 1), int)}, "list of blocks"),
        ("dia", {"offsets": [3]}, "outside"),
        ("dia", {"offsets": [0, 1]}, "needs an offset"),
        ("csr", {"shape": [2, -3]}, "two whole numbers"),
        ("csr", {"shape": [2, 3, 4]}, "two whole numbers"),
        ("coo", {"shape": [10**12, 3]}, "empty rows"),
        ("csr", {"indices": None}, "does not contain 'indices'"),
        ("csr", {"format": b"lil"}, "no format 'lil'"),
    ],
)
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_sparse_matrices_that_scipy_would_follow_out_of_their_arrays(
    tmp_path, kind, changes, words, absent
):
    assert words in message(put_sparse(tmp_path / "a.npz", kind, **changes), absent=absent)


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_indices_out_of_range_in_memory(make):
    matrix = make(np.eye(3))
    matrix.indices[1] = 90_000_000
    with pytest.raises(ValueError, match="from 0 to 2, but go from 0 to 90000000"):
        Observations.from_data(matrix)


@pytest.mark.parametrize(
    ("head", "body", "words"),
    [
        ("array integer symmetric\n2 300", "1\n" * 600, "must be square"),
        ("array integer symmetric\n3 3", "1\n", "expected 6 entries, got 1"),
        ("coordinate integer symmetric\n2 3 1", "1 3 1\n", "must be square"),
        ("coordinate integer general\n2 3 1", "3 1 1\n", "rows from 1 to 2, got 3"),
        ("coordinate integer general\n2 3 1", "1 -1 1\n", "columns from 1 to 3, got -1"),
        ("coordinate integer general\n2 3 99999999999999", "1 1 1\n", "more than it can hold"),
        ("coordinate integer general\n9999999999 3 1", "1 1 1\n", "empty rows"),
        ("array integer general\n99999 99999", "1\n", "more than it can hold"),
        ("coordinate pattern symmetric\n3 3 2", "2 1\x0e3 \x00", "line 3: expected 2 numbers"),
        ("coordinate integer general\n2 3 2", "1 1 1\n1 1\n2 2 1 1\n", "line 4: expected 3"),
        ("coordinate integer general\n2 3 2", "1 1 1\n\n1 1 e\n", "line 5: expected 3"),
        ("coordinate integer general\n2 3 1", "1.5 1 1\n", "rows from 1 to 2, got 1.5"),
        ("coordinate integer general\n2 3 1", "nan 1 1\n", "rows from 1 to 2, got nan"),
        ("coordinate integer general\n2 3 1", "1 1 1\n1 2 1\n", "expected 1 entries, got more"),
        ("coordinate integer general\n2 3 -1", "", "line 2: expected the numbers of rows"),
        ("coordinate complex general\n2 3 1", "1 1 1 0\n", "complex"),
        ("coordinate real skew-symmetric\n2 2 1", "2 1 1\n", "holds -1.0"),
    ],
)
def test_matrix_market_heads_that_do_not_fit(put, head, body, words):
    assert words in message(put(f"%%MatrixMarket matrix {head}\n{body}", "a.mtx"))


@pytest.mark.parametrize("piece", [1, 30, formats.CHUNK_BYTES])
def test_matrix_market_as_scipy_reads_it(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(formats, "CHUNK_BYTES", piece)
    path = tmp_path / "a.mtx"
    rng = np.random.default_rng(0)
    for n in range(60):
        symmetry = ("general", "symmetric", "skew-symmetric")[n % 3]
        least = 0 if n % 4 else 1  # SciPy divides by the sides of an array
        sides = rng.integers(least, 6, 2)
        shape = sides if n % 3 == 0 else sides[[0, 0]]
        matrix = rng.integers(0, 2, shape) if n % 2 else rng.integers(-1, 4, shape)
        if symmetry != "general":
            sign = 1 if symmetry == "symmetric" else -1
            diagonal = np.diag(np.diag(matrix)) if symmetry == "symmetric" else 0
            matrix = np.tril(matrix, -1) + sign * np.tril(matrix, -1).T + diagonal
        kept = matrix if n % 4 == 0 else scipy.sparse.coo_array(matrix)
        field = "pattern" if n % 12 == 3 else "real" if n % 5 == 0 else "integer"
        kept = kept.astype(float) if field == "real" else kept
        scipy.io.mmwrite(path, kept, field=field, symmetry=symmetry, comment="two\nlines")
        found, expected = formats.read_market(path), scipy.io.mmread(path)
        assert scipy.sparse.issparse(found) == scipy.sparse.issparse(expected)
        if scipy.sparse.issparse(found):
            found, expected = found.toarray(), expected.toarray()
        np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------- arrays


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_that_are_not_what_their_head_says(tmp_path, suffix):
    """NumPy would give the memory that the head asks for, or unpack Python objects."""
    path = tmp_path / f"a{suffix}"
    save = np.save if suffix == ".npy" else np.savez
    save(path, np.array([[1, 0], [0, 1]], dtype=np.uint8))
    good = path.read_bytes()
    assert table(path).shape == (2, 2)
    if suffix == ".npy":
        for wrong in (b"(99999999, 2)", b"(-2, -2)", b"(2, 2, 2)"):
            path.write_bytes(good.replace(b"(2, 2)", wrong))
            message(path)
        path.write_bytes(good + b"more")
        assert "does not take 8 bytes" in message(path)
        path.write_bytes(good[:-1])
        assert "does not take 3 bytes" in message(path)
        path.write_bytes(good.replace(b"'|u1'", b"'|b1'")[:-1] + b"\x07")
        assert "neither 0 nor 1" in message(path)
    save(path, np.array([[1, None]], dtype=object))
    assert "without Python objects" in message(path)
    save(path, np.zeros(2, dtype=[("a", int)]))
    assert "expected numbers or text" in message(path)
