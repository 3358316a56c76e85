"""Files that hold a matrix itself (Matrix Market, NumPy, pictures), and transactions."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from boolweave.data.cells import codes_above
from boolweave.data.convert import from_codes
from boolweave.data.entries import check_shape
from boolweave.data.observations import Observations
from boolweave.data.ones import Cells, SparseObservations
from boolweave.data.sparse import INDEX_ARRAYS, check_indices, check_rows
from boolweave.io.cells import Seen, check_size, lists_only_ones, naming_file, observe
from boolweave.io.files import FileError, by_value, expecting, listed, magic, text_chunks
from boolweave.io.market import read_market
from boolweave.io.options import Options
from boolweave.io.tables.contents import Contents
from boolweave.runtime.archives import Archive, read_array
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from boolweave.runtime.types import Array

MIDDLE_GREY = 127.5

# The arrays in a model file that hold cells.
_CELLS = ("indptr", "columns")


def read_matrix_market(path: Path, name: str, options: Options) -> Contents:
    """Read a Matrix Market file, in coordinate or array format."""
    with expecting(name, "a Matrix Market file", ValueError):
        matrix = read_market(path)
    return from_matrix(matrix, name, "Matrix Market", options)


def from_matrix(matrix: Any, name: str, kind: str, options: Options) -> Contents:
    """Convert a matrix in memory, with messages that name the file, and describe it."""
    sparse, only_ones = hasattr(matrix, "nnz"), False
    how: dict[str, Any] = {"absent": options.unlisted, "duplicates": options.duplicates}
    with naming_file(name):
        if sparse:
            options.check_matrix(name, "a sparse matrix", "above", "absent", "duplicates")
            words = f"{kind}, absent entries are {options.unlisted}"
            check_rows(matrix.shape, matrix.nnz)
            only_ones = lists_only_ones(matrix.shape, matrix.nnz, options.unlisted, options.zeros)
            if options.unlisted == "zero" and not only_ones:
                check_size(matrix.shape, name)
        else:
            options.check_matrix(name, "an array", "above")
            words = f"{kind}, an array"
        if options.above is None and only_ones:
            found = SparseObservations.from_sparse(matrix, duplicates=options.duplicates)
            return Contents(found, words, lists_entries=True)
        if options.above is None:
            return Contents(Observations.from_data(matrix, **how), words, lists_entries=sparse)
        matrix = matrix.tocoo() if sparse else matrix
        ratings = np.asarray(matrix.data if sparse else matrix)
        if ratings.dtype.kind not in "buif":
            raise ValueError(f"expected numbers, got {ratings.dtype}")
        codes = codes_above(ratings.astype(np.float64), options.above)
        if not sparse:
            return Contents(Observations(*from_codes(codes)), words)
        at = matrix.row, matrix.col
        how["zeros"] = options.zeros
        seen = observe(*at, codes, None, None, name, shape=matrix.shape, **how)
        return Contents(seen, words, lists_entries=True)


class _Arrays(dict[str, "Array"]):
    """Arrays by name; a missing array is an error in the file."""

    def __missing__(self, name: str) -> NoReturn:
        raise ValueError(f"it does not contain {name!r}")


def _check_members(path: Path, name: str) -> None:
    """Refuse a zip archive of other files than arrays, such as the tables of a download."""
    with zipfile.ZipFile(path) as archive:
        members = archive.namelist()
    if members and not any(member.endswith(".npy") for member in members):
        problem = f"expected one table, got a zip archive of {listed(members)}; unpack it"
        raise FileError(name, problem)


def read_numpy(path: Path, name: str, options: Options) -> Contents:
    """Read a boolweave model, a SciPy sparse matrix, or a single array."""
    # Damage can show up anywhere: in zip, in zlib, in the headers of arrays.
    with expecting(name, "NumPy arrays without Python objects", Exception):
        if magic(path) == "npy":
            arrays = _Arrays(array=read_array(path))
        else:
            _check_members(path, name)
            with Archive(path) as stored:
                arrays = _Arrays({key: stored[key] for key in stored.names})
    if "observations/shape" in arrays:
        options.check_matrix(name, "a boolweave model")
        with expecting(name, "a boolweave model", ValueError, TypeError):
            return Contents(_of_model(arrays), "the observations of a boolweave model")
    if "format" in arrays:
        with expecting(name, "a SciPy sparse matrix", ValueError, TypeError):
            matrix = from_arrays(arrays)
        return from_matrix(matrix, name, "NumPy", options)
    if len(arrays) != 1:
        raise FileError(
            name,
            "expected a boolweave model, a SciPy sparse matrix or a single array, got "
            f"{'the arrays ' + listed(list(arrays)) if arrays else 'no arrays'}",
        )
    return from_matrix(next(iter(arrays.values())), name, "NumPy", options)


def _of_model(arrays: _Arrays) -> Seen:
    """The observations in a model file."""
    shape = tuple(arrays["observations/shape"].tolist())
    labels = [arrays.get(f"observations/{axis}_labels") for axis in ("row", "column")]
    if "ones/indptr" in arrays:
        cells = [[arrays[f"{kind}/{part}"] for part in _CELLS] for kind in ("ones", "missing")]
        _check_whole_numbers(array for kind in cells for array in kind)
        ones, missing = (Cells(*kind) for kind in cells)
        return SparseObservations(shape, ones, missing, *labels)
    entries = [arrays[f"observations/{field}"] for field in ("indptr", "indices", "values")]
    _check_whole_numbers(entries)
    return Observations(shape, *entries, *labels)


def _check_whole_numbers(arrays: Iterable[Array]) -> None:
    if any(array.dtype.kind not in "iu" for array in arrays):
        raise ValueError("its entries are not whole numbers")


def from_arrays(arrays: _Arrays) -> Any:
    """The matrix that `scipy.sparse.save_npz` wrote; raise ValueError if the arrays are wrong."""
    import scipy.sparse

    stated: Any = arrays["format"][()]
    kind = stated.decode("ascii") if isinstance(stated, bytes) else str(stated)
    shape = check_shape(arrays["shape"].tolist())
    data = arrays["data"]
    if kind == "dia":
        offsets = _whole(arrays, "offsets")
        _expect(data.ndim == 2 and len(data) == len(offsets), "every diagonal needs an offset")
        _expect(
            not len(offsets) or (-shape[0] < offsets.min() and offsets.max() < shape[1]),
            "a diagonal is outside the matrix",
        )
        return scipy.sparse.dia_array((data, offsets), shape=shape)
    _expect(kind in INDEX_ARRAYS, f"there is no format {kind[:20]!r}")
    where = [_whole(arrays, name) for name in INDEX_ARRAYS[kind]]
    if kind == "bsr":
        _expect(data.ndim == 3 and min(data.shape[1:]) > 0, "data must be a list of blocks")
        height, width = data.shape[1:]
        _expect(
            shape[0] % height == 0 and shape[1] % width == 0,
            f"blocks of {height} x {width} do not fill a matrix of {shape[0]} x {shape[1]}",
        )
    else:
        _expect(data.ndim == 1, "data must be a list of numbers")
    check_indices(kind, where, data, shape)
    make = getattr(scipy.sparse, f"{kind}_array")
    return make((data, tuple(where)) if kind == "coo" else (data, *where[::-1]), shape=shape)


def _whole(arrays: _Arrays, name: str) -> Array:
    array = arrays[name]
    _expect(array.ndim == 1 and array.dtype.kind in "iu", f"{name} must be whole numbers")
    return array


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


# ---------------------------------------------------------------- transactions


def read_fimi(path: Path, name: str, options: Options) -> Contents:
    """Read one transaction per line: its items, separated by blanks; items keep their names."""
    options.check(name, "transactions", "delimiter", "absent")
    delimiter = None if options.dialect.delimiter in (None, " ") else options.dialect.delimiter
    separator = None if delimiter is None else delimiter.encode()
    index: dict[bytes, int] = {}
    rows: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.int64]] = []
    n_rows = 0
    for content, _ in text_chunks(path, name, "transactions"):
        for line in content.split(b"\n"):
            items = [item for field in line.split(separator) if (item := field.strip())]
            if items:
                codes = {index.setdefault(item, len(index)) for item in items}
                columns.append(np.fromiter(codes, np.int64, len(codes)))
                rows.append(np.full(len(codes), n_rows))
                n_rows += 1
    if not n_rows:
        raise FileError(name, "expected one transaction per line, got an empty file")
    try:
        names = [item.decode("utf-8") for item in index]
    except UnicodeDecodeError:
        raise FileError(name, "expected items in UTF-8; convert the file") from None
    row, column = np.concatenate(rows), np.concatenate(columns)
    if all(item.isdigit() for item in index):  # sort them as numbers
        order = sorted(range(len(names)), key=lambda i: by_value(names[i]))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        column, names = place[column], [names[i] for i in order]
    absent = options.unlisted
    seen = observe(
        row, column, np.ones(len(row), np.uint8), None, np.array(names, dtype=np.str_), name,
        shape=(n_rows, len(names)), absent=absent, zeros=options.zeros,
    )  # fmt: skip
    return Contents(seen, f"transactions, absent entries are {absent}", lists_entries=True)


# ---------------------------------------------------------------- pictures


def read_picture(path: Path, name: str, options: Options) -> Contents:
    """Read a 1-bit or grey picture: dark pixels are ones, transparent pixels are missing."""
    options.check_matrix(name, "a picture", "above")
    need("PIL", f"{name}: reading a picture")
    from PIL import Image

    # A damaged picture can fail anywhere in Pillow; its warnings are about large pictures.
    with expecting(name, "a PNG picture", Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(path) as picture:
            mode = picture.mode
            if mode not in {"1", "L", "LA", "I", "I;16"} and not _grey_palette(picture):
                raise FileError(
                    name, f"expected a 1-bit or grey picture, got a coloured one (mode {mode}); "
                    "convert it to grey first"
                )  # fmt: skip
            full = picture.convert("LA")
            if mode in {"I", "I;16"}:
                grey = np.asarray(picture, dtype=np.float64) / 257
            else:
                grey = np.asarray(full.getchannel(0), dtype=np.float64)
            alpha = np.asarray(full.getchannel(1))
    seen = np.where(alpha == 0, np.nan, grey)
    if options.above is None:
        codes, words = codes_above(-seen, -MIDDLE_GREY), "picture, dark pixels are ones"
    else:
        codes = codes_above(seen, options.above)
        words = f"picture, ones are pixels brighter than {options.above}"
    return Contents(Observations(*from_codes(codes)), words)


def _grey_palette(picture: Any) -> bool:
    if picture.mode not in {"P", "RGB", "RGBA"}:
        return False
    colour = np.asarray(picture.convert("RGB"))
    return bool((colour == colour[..., :1]).all())
