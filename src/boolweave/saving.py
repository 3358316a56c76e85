"""Fitted models as .npz files: arrays and one line of JSON, nothing that can run.

Whoever uses a loaded model, compiled code above all, relies on shapes that agree, on numbers in
their range and on beliefs that are not NaN. So a file is checked as a whole before anything is made
of it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from boolweave.data.observations import Observations
from boolweave.engine.result import Ending, Result
from boolweave.fit.rank import RankSelection
from boolweave.io.files import FileError
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.runtime.archives import CHECKSUM, Archive, write_arrays
from boolweave.runtime.atomic import replacing

if TYPE_CHECKING:
    from boolweave.runtime.types import Array, Floats

    Arrays: TypeAlias = Mapping[str, Array]

FORMAT = "boolweave model"
# 1: without a checksum. 2: with one.
VERSION = 2
FIRST_SEALED = 2

FLOATS = (np.float32, np.float64)
INTEGERS = (np.int32, np.int64)

_ARRAYS = ("components_", "row_log_odds_", "column_log_odds_", "row_prior_", "column_prior_")
_COUNTS = ("n_iter_", "n_dropped_", "n_features_in_")
_SWITCHES = ("converged_", "interrupted_", "marginal_")
_PLAIN = (*_COUNTS, *_SWITCHES, "log_posterior_")
_RANKS = ("ranks", "scores", "errors", "best", "criterion")
_CRITERIA = ("mdl", "heldout")
_LABELS = ("row_labels", "column_labels")
_OBSERVATIONS = ("shape", "indptr", "indices", "values", *_LABELS)
_CHANNEL = ("one_given_zero", "one_given_one", "missing_given_zero", "missing_given_one")
_HISTORY = ("residual", "log_posterior", "changes")  # the last is not in files of version 1


def save(path: str | Path, estimator: Any) -> None:
    """Write a fitted estimator; if that fails, an old file stays as it was."""
    estimator._validate_params()  # those changed since the fit: `load` would refuse wrong ones
    arrays: dict[str, Any] = {name: getattr(estimator, name) for name in _ARRAYS}
    if estimator.factor_stability_ is not None:  # a run that was interrupted has none
        arrays["factor_stability_"] = estimator.factor_stability_
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "parameters": {},
        "fitted": {name: getattr(estimator, name) for name in _PLAIN},
        "provenance": estimator.provenance_,
    }
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Channel):
            header["parameters"][name] = {"channel": True}
            _put_channel(arrays, f"parameter/{name}", value)
        elif np.ndim(value):  # arrays, lists and tables
            header["parameters"][name] = {"array": True}
            arrays[f"parameter/{name}"] = np.asarray(value, dtype=np.float64)
        else:
            header["parameters"][name] = {"value": _plain(value)}
    _put_channel(arrays, "noise", estimator.noise_)
    for name in _OBSERVATIONS:
        value = getattr(estimator.observations_, name)
        if value is not None:
            arrays[f"observations/{name}"] = np.asarray(value)
    for name, values in estimator.history_.items():
        arrays[f"history/{name}"] = values
    if estimator.rank_selection_ is not None:
        for name in _RANKS:
            arrays[f"ranks/{name}"] = np.asarray(getattr(estimator.rank_selection_, name))
    if hasattr(estimator, "feature_names_in_"):
        arrays["feature_names_in_"] = estimator.feature_names_in_.astype(np.str_)
    arrays["header"] = np.array(json.dumps(header, default=_plain))
    with replacing(path) as file:
        write_arrays(file, arrays, compress=True)


def load(path: str | Path, make: type) -> Any:
    """Read what `save` wrote into a new estimator of class `make`.

    The file is checked as a whole before anything is made of it; `FileError` says what is wrong.
    """
    try:
        with Archive(Path(path)) as stored:
            arrays = {name: stored[name] for name in stored.names}
            sealed = stored.sealed
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT:
            raise KeyError("format")
        version = header["version"]
        if type(version) is not int or version < 1:
            raise ValueError("version")
    except (FileNotFoundError, PermissionError):
        raise
    except Exception:  # a damaged file fails anywhere: in zip, zlib, the arrays' headers, the JSON
        raise FileError(
            str(path),
            "this is not a boolweave model, or it is damaged; expected a file written by save()",
        ) from None
    if version > VERSION:
        raise FileError(
            str(path),
            f"written by a newer boolweave (file version {version}, this one reads up to "
            f"{VERSION}); upgrade boolweave",
        )
    try:
        if version >= FIRST_SEALED and not sealed:
            raise KeyError(CHECKSUM)
        _check_model(arrays, header, sealed=sealed)
        return _restore(arrays, header, make)
    except KeyError as missing:
        problem = f"{str(missing.args[0])!r} is missing in it"
    except (TypeError, ValueError, AttributeError) as error:
        problem = " ".join(str(error).split())[:300]
    raise FileError(str(path), f"this model is damaged: {problem}; save it again")


def _restore(arrays: dict[str, Any], header: dict[str, Any], make: type) -> Any:
    """An estimator of what `_check_model` has found to be right."""
    parameters = {}
    for name, kept in header["parameters"].items():
        if "channel" in kept:
            parameters[name] = _channel_of(arrays, f"parameter/{name}")
        elif "array" in kept:
            parameters[name] = arrays[f"parameter/{name}"]
        else:
            parameters[name] = kept["value"]
    estimator = make(**parameters)
    estimator._validate_params()
    seen: dict[str, Any] = {name: arrays.get(f"observations/{name}") for name in _OBSERVATIONS}
    seen["shape"] = tuple(int(side) for side in arrays["observations/shape"])
    fitted = header["fitted"]
    estimator.result_ = Result(
        model=Model(
            n_components=len(arrays["components_"]),
            channel=_channel_of(arrays, "noise"),
            row_prior=arrays["row_prior_"],
            column_prior=arrays["column_prior_"],
            product=estimator.product,
        ),
        observations=Observations(**seen),
        row_log_odds=arrays["row_log_odds_"],
        column_log_odds=arrays["column_log_odds_"],
        log_posterior=fitted["log_posterior_"],
        ending=Ending.of(fitted["converged_"], fitted["interrupted_"]),
        n_iter=fitted["n_iter_"],
        history={
            name: arrays[f"history/{name}"] for name in _HISTORY if f"history/{name}" in arrays
        },
        marginal=fitted["marginal_"],
        stability=arrays.get("factor_stability_"),
    )
    estimator.n_dropped_ = fitted["n_dropped_"]
    estimator.n_features_in_ = fitted["n_features_in_"]
    estimator.provenance_ = header.get("provenance", {})  # not in files of version 1
    estimator.rank_selection_ = None
    if "ranks/best" in arrays:
        ranks = {name: arrays[f"ranks/{name}"] for name in _RANKS}
        ranks["best"], ranks["criterion"] = int(ranks["best"]), str(ranks["criterion"])
        estimator.rank_selection_ = RankSelection(**ranks)
    if "feature_names_in_" in arrays:
        estimator.feature_names_in_ = arrays["feature_names_in_"].astype(object)
    return estimator


def _put_channel(arrays: dict[str, Any], prefix: str, channel: Channel) -> None:
    for name in _CHANNEL:
        value = getattr(channel, name)
        if value is not None:
            arrays[f"{prefix}/{name}"] = value


def _plain(value: Any) -> Any:
    """The JSON form of a parameter; a random generator is remembered by name only."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return None if isinstance(value, np.random.RandomState) else repr(value)


# ---------------------------------------------------------------- checks


def _check_model(arrays: Arrays, header: Mapping[str, Any], *, sealed: bool) -> None:
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
    _check_plain(header, shape[1])
    _check_parameters(arrays, header["parameters"])
    certain = header["parameters"].get("decimation", {}).get("value") is not None
    for side, size in (("row", (shape[0], n_factors)), ("column", (n_factors, shape[1]))):
        prior = _check_probabilities(arrays, f"{side}_prior_", size)
        odds = _table(arrays, f"{side}_log_odds_", FLOATS, size)
        if np.isnan(odds).any():
            raise ValueError(f"'{side}_log_odds_' must not hold NaN")
        known = np.broadcast_to((prior == 0) | (prior == 1), size)
        if not (sealed or certain or np.isfinite(odds[~known]).all()):
            raise ValueError(f"'{side}_log_odds_' is infinite where nothing is known for certain")
    if not np.array_equal(components, arrays["column_log_odds_"] > 0):
        raise ValueError("'components_' must be 1 where 'column_log_odds_' is above 0, and else 0")
    _channel_of(arrays, "noise").broadcasts_to(shape)
    _check_rest(arrays, n_factors, shape[1])
    _check_names(arrays, header)


def _check_observations(arrays: Arrays) -> tuple[int, int]:
    """The types; `Observations` itself checks the numbers."""
    sides = _table(arrays, "observations/shape", INTEGERS, (2,)).tolist()
    for name, types in (
        ("indptr", INTEGERS), ("indices", INTEGERS), ("values", (np.uint8,))
    ):  # fmt: skip
        _table(arrays, f"observations/{name}", types, (None,))
    for name, size in zip(_LABELS, sides, strict=True):
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
    _check_known(fitted, _PLAIN)


def _check_parameters(arrays: Arrays, parameters: Any) -> None:
    """How each is kept; the estimator itself checks what they are."""
    for name, kept in parameters.items():
        if kept == {"channel": True}:
            _channel_of(arrays, f"parameter/{name}")
        elif kept == {"array": True}:
            values = arrays[f"parameter/{name}"]
            _check_probabilities(arrays, f"parameter/{name}", values.shape)
        elif list(kept) != ["value"] or not isinstance(
            kept["value"], str | bool | int | float | None
        ):
            raise ValueError(f"the parameter {_cut(name)} is not understood")


def _check_rest(arrays: Arrays, n_factors: int, n_columns: int) -> None:
    if "factor_stability_" in arrays:
        _table(arrays, "factor_stability_", FLOATS, (n_factors,))
        _check_probabilities(arrays, "factor_stability_", (n_factors,))
    length = None
    for name in _HISTORY:
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
        if str(_table(arrays, "ranks/criterion", (np.str_,), ())) not in _CRITERIA:
            raise ValueError(f"'ranks/criterion' must be {' or '.join(_CRITERIA)}")


def _check_names(arrays: Arrays, header: Mapping[str, Any]) -> None:
    """Raise unless every array is one that was looked at."""
    parameters = [f"parameter/{name}" for name in header["parameters"]]
    parts = {
        "observations": _OBSERVATIONS, "history": _HISTORY, "ranks": _RANKS, "noise": _CHANNEL,
        **dict.fromkeys(parameters, _CHANNEL),
    }  # fmt: skip
    nested = (f"{prefix}/{name}" for prefix, names in parts.items() for name in names)
    _check_known(arrays, (*_ARRAYS, "factor_stability_", "feature_names_in_", *parameters, *nested))


def _check_known(found: Iterable[str], known: Iterable[str]) -> None:
    unknown = set(found) - set(known)
    if unknown:
        raise ValueError(f"it holds {_cut(min(unknown))}, which is not known")


# ---------------------------------------------------------------- single arrays


def _channel_of(arrays: Arrays, prefix: str) -> Channel:
    """The channel under a name, checked."""
    found = {name: arrays[f"{prefix}/{name}"] for name in _CHANNEL if f"{prefix}/{name}" in arrays}
    if "one_given_zero" not in found or "one_given_one" not in found:
        raise KeyError(prefix)
    for name in found:
        _table(arrays, f"{prefix}/{name}", FLOATS, None)
    return Channel(**found)


def _check_probabilities(arrays: Arrays, name: str, shape: tuple[int, ...]) -> Floats:
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
) -> Array:
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
