"""Sparse matrices in files: what SciPy does not check, before it sees them.

Its compiled conversions follow the indices that a matrix holds wherever they point to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from boolweave.data.convert import check_shape
from boolweave.data.sparse import INDEX_ARRAYS, check_indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

# A matrix with more rows than this, nearly all of them empty, is taken for damaged: each row takes
# some bytes, entries or not.
_MOST_EMPTY_ROWS = 10_000_000
_EMPTY_FOR_EACH_ENTRY = 100


def from_arrays(arrays: Arrays) -> Any:
    """The matrix that `scipy.sparse.save_npz` wrote; ValueError or KeyError if it cannot be one."""
    import scipy.sparse

    stated: Any = arrays["format"][()]
    kind = stated.decode("ascii") if isinstance(stated, bytes) else str(stated)
    shape = check_shape(arrays["shape"].tolist())
    data = arrays["data"]
    if kind == "dia":
        offsets = _whole(arrays, "offsets")
        _expect(data.ndim == 2 and len(data) == len(offsets), "a diagonal needs its offset")
        _expect(
            not len(offsets) or (-shape[0] < offsets.min() and offsets.max() < shape[1]),
            "a diagonal is outside of the matrix",
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


def _whole(arrays: Arrays, name: str) -> NDArray[Any]:
    array = arrays[name]
    _expect(array.ndim == 1 and array.dtype.kind in "iu", f"{name} must be whole numbers")
    return array


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def check_rows(shape: tuple[int, int], n_stored: int) -> None:
    """Raise ValueError for a matrix of next to nothing but empty rows."""
    if shape[0] > max(_MOST_EMPTY_ROWS, _EMPTY_FOR_EACH_ENTRY * n_stored):
        raise ValueError(
            f"a matrix of {shape[0]} x {shape[1]} with {n_stored} entries has next to nothing but "
            "empty rows; correct its shape, or leave out the empty rows"
        )
