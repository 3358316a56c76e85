"""The weights of observed entries, from an array, a table or a sparse matrix."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse

from boolweave.data.entries import find_sorted
from boolweave.data.sparse import is_sparse

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Observations


def entry_weights(sample_weight: object, observations: Observations) -> NDArray[np.float64]:
    """The weight of every observed entry, in the order of `observations.values`.

    Parameters
    ----------
    sample_weight : array of shape (M,) or (M, N), table, or sparse matrix of shape (M, N)
        One weight for each row or for each entry, finite and non-negative. A sparse matrix holds
        the weights of some entries, and all others have the weight 1.
    observations : Observations, shape (M, N)

    Returns
    -------
    (n_observed,) array

    Examples
    --------
    >>> from boolweave import Observations
    >>> from boolweave.data.weights import entry_weights
    >>> entry_weights([2, 1], Observations.from_data([[1, 0], [float("nan"), 1]]))
    array([2., 2., 1.])
    """
    if is_sparse(sample_weight):
        return _of_stored(scipy.sparse.coo_array(sample_weight), observations)
    weights = _numbers(np.asarray(cast("ArrayLike", sample_weight)))
    if weights.shape == (observations.n_rows,):
        _check(weights, lambda place: f"row {place}")
        return np.repeat(weights, np.diff(observations.indptr))
    _check_shape(weights.shape, observations)
    _check(weights.ravel(), lambda place: _entry(*divmod(place, weights.shape[1])))
    return weights[observations.rows_of_entries(), observations.indices]


def _of_stored(stored: scipy.sparse.coo_array, observations: Observations) -> NDArray[np.float64]:
    """The weights of a sparse matrix; entries that it does not store have the weight 1."""
    _check_shape(stored.shape, observations)
    data = _numbers(stored.data)
    rows, columns = (np.asarray(places, dtype=np.int64) for places in stored.coords)
    _check(data, lambda place: _entry(int(rows[place]), int(columns[place])))
    place = rows * observations.n_columns + columns
    order = np.argsort(place, kind="stable")
    place, data = place[order], data[order]
    twice = np.flatnonzero(np.diff(place) == 0)
    if len(twice):
        where = _entry(*divmod(int(place[twice[0]]), observations.n_columns))
        raise ValueError(f"sample_weight stores {where} more than once; store each weight once")
    at, known = find_sorted(place, observations.cell_numbers())
    weights = np.ones(len(known))
    weights[known] = data[at[known]]
    return weights


def _numbers(array: NDArray[np.generic]) -> NDArray[np.float64]:
    if array.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"sample_weight must hold numbers, one for each row or entry, got {array.dtype}; "
            "leave out labels and other text"
        )
    return array.astype(np.float64)


def _check_shape(shape: tuple[int, ...], observations: Observations) -> None:
    if shape != observations.shape:
        (n_rows, n_columns) = observations.shape
        raise ValueError(
            f"sample_weight must have a weight for each row, shape ({n_rows},), or for each "
            f"entry, shape ({n_rows}, {n_columns}), like the data; got shape {shape}"
        )


def _check(weights: NDArray[np.float64], name_of: Callable[[int], str]) -> None:
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise ValueError(
            f"sample_weight must be finite and at least 0, got {weights[wrong[0]]:g} at "
            f"{name_of(int(wrong[0]))} (counted from 0); use the weight 0 for entries that must "
            "not count"
        )


def _entry(row: int, column: int) -> str:
    return f"row {row}, column {column}"
