"""What the arrays and the header of a model file must fulfil before anything is made of them.

Whoever uses a loaded model, compiled code above all, relies on shapes that agree, on numbers in
their range and on beliefs that are not NaN. All of it is checked here, once, in one place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.model.channel import Channel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

FLOATS = (np.float32, np.float64)
INTEGERS = (np.int32, np.int64)

CHANNEL = ("one_given_zero", "one_given_one", "missing_given_zero", "missing_given_one")
HISTORY = ("residual", "log_posterior", "changes")  # the last is not in files of version 1
CRITERIA = ("mdl", "heldout")
LABELS = ("row_labels", "column_labels")

_COUNTS = ("n_iter_", "n_dropped_", "n_features_in_")
_SWITCHES = ("converged_", "interrupted_", "marginal_")


def check_model(arrays: Arrays, header: Mapping[str, Any], *, sealed: bool) -> None:
    """Raise ValueError, with the reason, or KeyError, unless the file can be used.

    Parameters
    ----------
    arrays : dict of arrays
    header : dict
        The JSON of the file.
    sealed : bool
        Whether a checksum has vouched for the file. If not, beliefs must also be finite wherever
        nothing was known for certain.
    """
    shape = _check_observations(arrays)
    components = _table(arrays, "components_", (np.uint8,), (None, shape[1]))
    n_factors = len(components)
    if n_factors < 1:
        raise ValueError("'components_' must have at least one row")
    if components.max(initial=0) > 1:
        raise ValueError(f"'components_' must hold 0 and 1, but holds {components.max()}")
    _check_plain(header, shape[1])
    _check_parameters(arrays, header["parameters"])
    certain = header["parameters"].get("decimation", {}).get("value") is not None
    for side, size in (("row", (shape[0], n_factors)), ("column", (n_factors, shape[1]))):
        prior = check_probabilities(arrays, f"{side}_prior_", size)
        odds = _table(arrays, f"{side}_log_odds_", FLOATS, size)
        if np.isnan(odds).any():
            raise ValueError(f"'{side}_log_odds_' must not hold NaN")
        known = np.broadcast_to((prior == 0) | (prior == 1), size)
        if not (sealed or certain or np.isfinite(odds[~known]).all()):
            raise ValueError(f"'{side}_log_odds_' is infinite where nothing is known for certain")
    channel_of(arrays, "noise").broadcasts_to(shape)
    _check_rest(arrays, n_factors, shape[1])
    _check_names(arrays, header)


def _check_observations(arrays: Arrays) -> tuple[int, int]:
    """The types; `Observations` itself checks the numbers."""
    sides = _table(arrays, "observations/shape", INTEGERS, (2,)).tolist()
    for name, types in (
        ("indptr", INTEGERS), ("indices", INTEGERS), ("values", (np.uint8,))
    ):  # fmt: skip
        _table(arrays, f"observations/{name}", types, (None,))
    for name, size in zip(LABELS, sides, strict=True):
        if f"observations/{name}" in arrays:
            _table(arrays, f"observations/{name}", (np.str_,), (size,))
    return sides[0], sides[1]


def _check_plain(header: Mapping[str, Any], n_columns: int) -> None:
    fitted = header["fitted"]
    for name in _COUNTS:
        value = fitted[name]
        if type(value) is not int or value < 0:
            raise ValueError(f"{name!r} must be a whole number from 0 up, but is {_cut(value)}")
    for name in _SWITCHES:
        if type(fitted[name]) is not bool:
            raise ValueError(f"{name!r} must be true or false, but is {_cut(fitted[name])}")
    score = fitted["log_posterior_"]
    if type(score) not in (int, float) or not math.isfinite(score):
        raise ValueError(f"'log_posterior_' must be a finite number, but is {_cut(score)}")
    if fitted["n_features_in_"] != n_columns:
        raise ValueError(f"'n_features_in_' must be {n_columns}, the number of columns")
    told = header.get("provenance", {})
    kinds = {"command": str, "hold_out": float}
    if type(told) is not dict or any(type(told[name]) is not kinds.get(name) for name in told):
        raise ValueError(f"'provenance' must tell command and hold_out, but is {_cut(told)}")
    unknown = set(fitted) - {*_COUNTS, *_SWITCHES, "log_posterior_"}
    if unknown:
        raise ValueError(f"it holds {_cut(min(unknown))}, which is not known")


def _check_parameters(arrays: Arrays, parameters: Any) -> None:
    """How each is kept; the estimator itself checks what they are."""
    for name, kept in parameters.items():
        if kept == {"channel": True}:
            channel_of(arrays, f"parameter/{name}")
        elif kept == {"array": True}:
            values = arrays[f"parameter/{name}"]
            check_probabilities(arrays, f"parameter/{name}", values.shape)
        elif list(kept) != ["value"] or not isinstance(
            kept["value"], str | bool | int | float | None
        ):
            raise ValueError(f"the parameter {_cut(name)} is not understood")


def _check_rest(arrays: Arrays, n_factors: int, n_columns: int) -> None:
    if "factor_stability_" in arrays:
        _table(arrays, "factor_stability_", FLOATS, (n_factors,))
        check_probabilities(arrays, "factor_stability_", (n_factors,))
    length = None
    for name in HISTORY:
        if name != "changes" or f"history/{name}" in arrays:
            length = len(_table(arrays, f"history/{name}", FLOATS, (length,)))
    if "feature_names_in_" in arrays:
        _table(arrays, "feature_names_in_", (np.str_,), (n_columns,))
    if any(name.startswith("ranks/") for name in arrays):
        ranks = _table(arrays, "ranks/ranks", INTEGERS, (None,))
        for name in ("scores", "errors"):
            _table(arrays, f"ranks/{name}", FLOATS, ranks.shape)
        if int(_table(arrays, "ranks/best", INTEGERS, ())) not in ranks:
            raise ValueError("'ranks/best' must be one of the ranks that were tried")
        if str(_table(arrays, "ranks/criterion", (np.str_,), ())) not in CRITERIA:
            raise ValueError(f"'ranks/criterion' must be {' or '.join(CRITERIA)}")


def _check_names(arrays: Arrays, header: Mapping[str, Any]) -> None:
    """Whether every array is one that was looked at."""
    parameters = [f"parameter/{name}" for name in header["parameters"]]
    known = {
        "components_", "row_log_odds_", "column_log_odds_", "row_prior_", "column_prior_",
        "factor_stability_", "feature_names_in_", *parameters,
        *(f"{prefix}/{name}" for prefix in ("noise", *parameters) for name in CHANNEL),
        *(f"observations/{name}" for name in ("shape", "indptr", "indices", "values", *LABELS)),
        *(f"history/{name}" for name in HISTORY),
        *(f"ranks/{name}" for name in ("ranks", "scores", "errors", "best", "criterion")),
    }  # fmt: skip
    unknown = set(arrays) - known
    if unknown:
        raise ValueError(f"it holds {_cut(min(unknown))}, which is not known")


# ---------------------------------------------------------------- single arrays


def channel_of(arrays: Arrays, prefix: str) -> Channel:
    """The channel under a name, checked."""
    found = {name: arrays[f"{prefix}/{name}"] for name in CHANNEL if f"{prefix}/{name}" in arrays}
    if "one_given_zero" not in found or "one_given_one" not in found:
        raise KeyError(prefix)
    for name in found:
        _table(arrays, f"{prefix}/{name}", FLOATS, None)
    return Channel(**found)


def check_probabilities(
    arrays: Arrays, name: str, shape: tuple[int, ...]
) -> NDArray[np.floating[Any]]:  # fmt: skip
    """Numbers from 0 to 1 that broadcast to a shape of at most two sides."""
    array = _table(arrays, name, FLOATS, None)
    try:
        np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name!r} must broadcast to {shape}, but is {array.shape}") from None
    if array.ndim > 2 or not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"{name!r} must hold probabilities")
    return array


def _table(
    arrays: Arrays, name: str, types: tuple[Any, ...], shape: tuple[int | None, ...] | None
) -> NDArray[Any]:
    """An array of one of the types and of the shape; None stands for any side, or any shape."""
    array = arrays[name]
    if array.dtype not in types and not (np.str_ in types and array.dtype.kind == "U"):
        wanted = " or ".join(np.dtype(kind).name for kind in types)
        raise ValueError(f"{name!r} must be of the type {wanted}, but is {array.dtype}")
    if shape is not None and (
        array.ndim != len(shape)
        or any(side not in (None, found) for side, found in zip(shape, array.shape, strict=True))
    ):
        wanted = " × ".join("any" if side is None else str(side) for side in shape) or "one number"
        raise ValueError(f"{name!r} must be {wanted}, but its shape is {array.shape}")
    return array


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
