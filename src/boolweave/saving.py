"""Fitted models as .npz files: arrays and one line of JSON, nothing that can run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from boolweave.data.observations import Observations
from boolweave.fit.rank import RankSelection
from boolweave.io.files import FileError
from boolweave.model.channel import Channel
from boolweave.runtime.archives import CHECKSUM, Archive, write_arrays
from boolweave.runtime.atomic import replacing
from boolweave.saving_check import CHANNEL, HISTORY, channel_of, check_model

FORMAT = "boolweave model"
# 1: without a checksum. 2: with one.
VERSION = 2
FIRST_SEALED = 2

_ARRAYS = ("components_", "row_log_odds_", "column_log_odds_", "row_prior_", "column_prior_")
_PLAIN = (
    "n_iter_", "converged_", "interrupted_", "log_posterior_", "marginal_", "n_dropped_",
    "n_features_in_",
)  # fmt: skip
_RANKS = ("ranks", "scores", "errors", "best", "criterion")
_OBSERVATIONS = ("shape", "indptr", "indices", "values", "row_labels", "column_labels")


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
        check_model(arrays, header, sealed=sealed)
        return _restore(arrays, header, make)
    except KeyError as missing:
        problem = f"{str(missing.args[0])!r} is missing in it"
    except (TypeError, ValueError, AttributeError) as error:
        problem = " ".join(str(error).split())[:300]
    raise FileError(str(path), f"this model is damaged: {problem}; save it again")


def _restore(arrays: dict[str, Any], header: dict[str, Any], make: type) -> Any:
    """An estimator of what `check_model` has found to be right."""
    parameters = {}
    for name, kept in header["parameters"].items():
        if "channel" in kept:
            parameters[name] = channel_of(arrays, f"parameter/{name}")
        elif "array" in kept:
            parameters[name] = arrays[f"parameter/{name}"]
        else:
            parameters[name] = kept["value"]
    estimator = make(**parameters)
    estimator._validate_params()
    for name in _ARRAYS:
        setattr(estimator, name, arrays[name])
    estimator.factor_stability_ = arrays.get("factor_stability_")
    for name in _PLAIN:
        setattr(estimator, name, header["fitted"][name])
    estimator.provenance_ = header.get("provenance", {})  # not in files of version 1
    seen: dict[str, Any] = {name: arrays.get(f"observations/{name}") for name in _OBSERVATIONS}
    seen["shape"] = tuple(int(side) for side in arrays["observations/shape"])
    estimator.observations_ = Observations(**seen)
    estimator.noise_ = channel_of(arrays, "noise")
    estimator.rank_selection_ = None
    if "ranks/best" in arrays:
        ranks = {name: arrays[f"ranks/{name}"] for name in _RANKS}
        ranks["best"], ranks["criterion"] = int(ranks["best"]), str(ranks["criterion"])
        estimator.rank_selection_ = RankSelection(**ranks)
    history = {name: arrays.get(f"history/{name}") for name in HISTORY}
    estimator.history_ = {name: values for name, values in history.items() if values is not None}
    if "feature_names_in_" in arrays:
        estimator.feature_names_in_ = arrays["feature_names_in_"].astype(object)
    return estimator


def _put_channel(arrays: dict[str, Any], prefix: str, channel: Channel) -> None:
    for name in CHANNEL:
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
