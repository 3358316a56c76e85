"""Fitted models as .npz files: arrays and one line of JSON, without any executable code.

The users of a loaded model, above all compiled code, rely on shapes that agree, on numbers in their
range and on beliefs that are not NaN. Therefore a whole file is checked before it is used.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from boolweave.data.frames import Frame
from boolweave.data.observations import Observations
from boolweave.data.ones import Cells, SparseObservations
from boolweave.engine.result import Ending, Result
from boolweave.fit.rank import RankSelection
from boolweave.io.files import FileError
from boolweave.model.channel import Channel, probability_array
from boolweave.model.model import Model
from boolweave.runtime.archives import CHECKSUM, Archive, write_arrays
from boolweave.runtime.atomic import replacing

if TYPE_CHECKING:
    from boolweave.runtime.types import Array

    Arrays: TypeAlias = Mapping[str, Array]
    Layout: TypeAlias = dict[str, tuple[tuple[type[np.generic], ...], Sequence[str | int] | None]]

FORMAT = "boolweave model"
# 1: without a checksum. 2: with one. 3: with the ending of a run, and with errors. 4: with only the
# ones if all other entries are zeros.
VERSION = 4
FIRST_SEALED = 2

NO_MODEL = "this is not a boolweave model, or it is damaged; expected a file written by save()"

_BITS, _FLOATS, _INTEGERS = (np.uint8,), (np.float32, np.float64), (np.int32, np.int64)
_TEXT = (np.str_,)
ANY_TYPE = (np.generic,)

# The arrays of a file: their types, and their sides as numbers or as letters, each of which stands
# for the same number throughout (None: any shape). The observations come first, because they
# determine M and N.
_SHAPE: Layout = {"observations/shape": (_INTEGERS, (2,))}
OBSERVATIONS: Layout = {
    **_SHAPE,
    "observations/indptr": (_INTEGERS, "P"),
    "observations/indices": (_INTEGERS, "E"),
    "observations/values": (_BITS, "E"),
}
# The same if all cells except the listed ones and the missing cells are zeros.
_ONES: Layout = {
    **_SHAPE,
    "ones/indptr": (_INTEGERS, "P"),
    "ones/columns": (_INTEGERS, "E"),
    "missing/indptr": (_INTEGERS, "P"),
    "missing/columns": (_INTEGERS, "H"),
}
LABELS: Layout = {
    "observations/row_labels": (_TEXT, "M"),
    "observations/column_labels": (_TEXT, "N"),
}
_REQUIRED: Layout = {
    "components_": (_BITS, "KN"),
    "row_log_odds_": (_FLOATS, "MK"),
    "column_log_odds_": (_FLOATS, "KN"),
    "row_prior_": (_FLOATS, None),
    "column_prior_": (_FLOATS, None),
}
# Additional arrays of a file with objective="posterior", and with objective="errors".
_OF_POSTERIOR: Layout = {
    "history/residual": (_FLOATS, "I"),
    "history/log_posterior": (_FLOATS, "I"),
}
_OF_ERRORS: Layout = {
    "history/error": (_FLOATS, "I"),
    "redundancy_": (_FLOATS, "K"),
}
_OPTIONAL: Layout = {
    **LABELS,
    "feature_names_in_": (_TEXT, "N"),
    "factor_stability_": (_FLOATS, "K"),  # absent after an interrupted run
    "history/changes": (_FLOATS, "I"),  # not in files of version 1
}
_RANKS: Layout = {
    "ranks/ranks": (_INTEGERS, "R"),
    "ranks/scores": (_FLOATS, "R"),
    "ranks/errors": (_FLOATS, "R"),
    "ranks/best": (_INTEGERS, ""),
    "ranks/criterion": (_TEXT, ""),
}
# Additional arrays of the ranks with objective="errors".
_CURVE: Layout = {
    "ranks/costs": (_FLOATS, "R"),
    "ranks/missed": (_INTEGERS, "R"),
    "ranks/false_ones": (_INTEGERS, "R"),
}
_NOISE = ("one_given_zero", "one_given_one")
_MISSING = ("missing_given_zero", "missing_given_one")
_COUNTS = ("n_iter_", "n_dropped_", "n_features_in_")
_SWITCHES = ("converged_", "interrupted_", "marginal_")
_PLAIN = (*_COUNTS, *_SWITCHES, "log_posterior_")
_ERRORS = ("error_", "error_bound_")


def save(path: str | Path, estimator: Any) -> None:
    """Write a fitted estimator; if that fails, an old file stays as it was."""
    estimator._validate_params()  # they may have changed: `load` would refuse wrong ones
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "parameters": {},
        "fitted": {
            **{name: getattr(estimator, name) for name in (*_PLAIN, *_ERRORS)},
            "ending": str(estimator.result_.ending),
        },
        "provenance": estimator.provenance_,
        "zeros": estimator.result_.zeros,
        "table": estimator._frame and estimator._frame.as_stored(),
    }
    seen = estimator.observations_
    sources = {
        "": estimator, "observations": seen, "noise": estimator.noise_,
        "ranks": estimator.rank_selection_,
    }  # fmt: skip
    if isinstance(seen, SparseObservations):
        sources |= {"ones": seen.ones, "missing": seen.holes}
    arrays = {f"history/{name}": values for name, values in estimator.history_.items()}
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Channel):
            header["parameters"][name] = {"channel": True}
            sources[f"parameter/{name}"] = value
        elif np.ndim(value):  # arrays, lists and tables
            header["parameters"][name] = {"array": True}
            arrays[f"parameter/{name}"] = np.asarray(value, dtype=np.float64)
        else:
            header["parameters"][name] = {"value": plain(value)}
    for name in {**_required(header), **_optional(header)}:
        prefix, _, attribute = name.rpartition("/")
        value = getattr(sources.get(prefix), attribute, None)
        if value is not None:
            arrays[name] = np.asarray(value, dtype=np.str_ if name == "feature_names_in_" else None)
    arrays["header"] = np.array(json.dumps(header, default=plain))
    with replacing(path) as file:
        write_arrays(file, arrays, compress=True)


def load(path: str | Path, make: type) -> Any:
    """Read what `save` wrote into a new estimator of class `make`.

    The whole file is checked before it is used; a `FileError` describes the damage.
    """
    arrays, header, sealed = read_file(path, {FORMAT: VERSION})
    with naming_damage(path):
        if header["version"] >= FIRST_SEALED and not sealed:
            raise KeyError(CHECKSUM)
        _check_plain(header)
        check_arrays(arrays, _required(header), _optional(header))
        return _restore(arrays, header, make, sealed)


def read_file(
    path: str | Path, newest: Mapping[str, int]
) -> tuple[dict[str, Array], dict[str, Any], bool]:
    """Arrays and header of a saved model, and whether it has a checksum.

    `newest` holds the formats that are expected, each with the newest version that is read.
    """
    try:
        with Archive(Path(path)) as stored:
            arrays = {name: stored[name] for name in stored.names}
            sealed = stored.sealed
        header = json.loads(str(arrays.pop("header")))
        latest = newest[header["format"]]
        version = header["version"]
        if type(version) is not int or version < 1:
            raise ValueError("version")
    except (FileNotFoundError, PermissionError):
        raise
    except Exception:  # a damaged file can fail anywhere: in zip, zlib, headers of arrays, JSON
        raise FileError(str(path), NO_MODEL) from None
    if version > latest:
        raise FileError(
            str(path),
            f"written by a newer version of boolweave (file version {version}; this one reads up "
            f"to {latest}); upgrade boolweave",
        )
    return arrays, header, sealed


def format_of(path: str | Path) -> str:
    """The kind of model in a file, according to its header."""
    try:
        with Archive(Path(path)) as stored:
            return str(json.loads(str(stored["header"]))["format"])
    except (FileNotFoundError, PermissionError):
        raise
    except Exception:
        raise FileError(str(path), NO_MODEL) from None


@contextmanager
def naming_damage(path: str | Path) -> Iterator[None]:
    """Turn any error while a model is made from a file into one error that names the file."""
    try:
        yield
        return
    except KeyError as missing:
        problem = f"it does not contain {str(missing.args[0])!r}"
    except (TypeError, ValueError, AttributeError) as error:
        problem = " ".join(str(error).split())[:300]
    raise FileError(str(path), f"this model is damaged: {problem}; save it again")


def _restore(arrays: dict[str, Array], header: dict[str, Any], make: type, sealed: bool) -> Any:
    """Make an estimator; the classes of its parts check the numbers."""
    parameters: dict[str, Any] = {}
    for name, kept in header["parameters"].items():
        if kept == {"channel": True}:
            parameters[name] = Channel(**_part(arrays, f"parameter/{name}"))
        elif kept == {"array": True}:
            parameters[name] = probability_array(name, arrays[f"parameter/{name}"])
        else:
            parameters[name] = kept["value"]
    estimator = make(**parameters)
    estimator._validate_params()
    fitted = header["fitted"]
    estimator.result_ = Result(
        model=Model(
            n_components=len(arrays["components_"]),
            channel=Channel(**_part(arrays, "noise")),
            row_prior=arrays["row_prior_"],
            column_prior=arrays["column_prior_"],
            product=estimator.product,
        ),
        observations=_observations_of(arrays),
        row_log_odds=arrays["row_log_odds_"],
        column_log_odds=arrays["column_log_odds_"],
        log_posterior=fitted["log_posterior_"],
        ending=_ending(fitted),
        n_iter=fitted["n_iter_"],
        history=_part(arrays, "history"),
        marginal=fitted["marginal_"],
        stability=arrays.get("factor_stability_"),
        cost=fitted.get("error_"),
        bound=fitted.get("error_bound_"),
        redundancy=arrays.get("redundancy_"),
    )
    _check_beliefs(estimator.result_, arrays["components_"], sealed or estimator.decimation)
    estimator.n_dropped_ = fitted["n_dropped_"]
    estimator.n_features_in_ = fitted["n_features_in_"]
    if estimator.n_features_in_ != estimator.observations_.n_columns:
        raise ValueError("'n_features_in_' must be the number of columns")
    estimator.provenance_ = header.get("provenance", {})  # not in files of version 1
    estimator._frame = Frame.stored(header.get("table"))
    estimator.rank_selection_ = None
    if any(name in arrays for name in (*_RANKS, *_CURVE)):
        names = {**_RANKS, **(_CURVE if any(name in arrays for name in _CURVE) else {})}
        found: dict[str, Any] = {name.removeprefix("ranks/"): arrays[name] for name in names}
        found["best"], found["criterion"] = int(found["best"]), str(found["criterion"])
        if found["best"] not in found["ranks"]:
            raise ValueError("'ranks/best' must be one of the ranks that were tried")
        if found["criterion"] not in ("mdl", "heldout"):
            raise ValueError("'ranks/criterion' must be mdl or heldout")
        estimator.rank_selection_ = RankSelection(**found)
    if "feature_names_in_" in arrays:
        estimator.feature_names_in_ = arrays["feature_names_in_"].astype(object)
    return estimator


def restored_observations(arrays: Arrays) -> Observations:
    """The observations, checked again."""
    seen = _part(arrays, "observations")
    return Observations(**{**seen, "shape": tuple(seen["shape"].tolist())})


def _observations_of(arrays: Arrays) -> Observations | SparseObservations:
    """The observations of a factorization, with zeros listed or not."""
    if "ones/indptr" not in arrays:
        return restored_observations(arrays)
    seen = _part(arrays, "observations")
    seen["shape"] = tuple(seen["shape"].tolist())
    ones, missing = (Cells(**_part(arrays, name)) for name in ("ones", "missing"))
    return SparseObservations(ones=ones, missing=missing, **seen)


def _ending(fitted: Mapping[str, Any]) -> Ending:
    """Why the run ended; files before version 3 do not distinguish time from iterations."""
    ending = Ending.of(fitted["converged_"], fitted["interrupted_"])
    stored = Ending(fitted.get("ending", ending))
    if stored is not ending and {stored, ending} != {Ending.OUT_OF_TIME, Ending.OUT_OF_ITERATIONS}:
        raise ValueError(f"'ending' must not be {str(stored)!r} if the run was {ending}")
    return stored


def _part(arrays: Arrays, prefix: str) -> dict[str, Any]:
    """The arrays whose names begin with a prefix, by the rest of their names."""
    start = f"{prefix}/"
    return {n.removeprefix(start): array for n, array in arrays.items() if n.startswith(start)}


def plain(value: Any) -> Any:
    """The JSON form of a parameter; only the name of a random generator is kept."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return None if isinstance(value, np.random.RandomState) else repr(value)


# ---------------------------------------------------------------- checks


def _required(header: Mapping[str, Any]) -> Layout:
    """The arrays that a file with this header must have."""
    parameters = header["parameters"]
    arrays = {f"parameter/{name}" for name, kept in parameters.items() if kept == {"array": True}}
    channels = {f"{prefix}/{name}" for prefix in _channels(parameters) for name in _NOISE}
    own = _OF_POSTERIOR if header["fitted"].get("error_") is None else _OF_ERRORS
    seen = _ONES if header.get("zeros", "exact") == "collective" else OBSERVATIONS
    return {**seen, **_REQUIRED, **own, **dict.fromkeys(arrays | channels, (_FLOATS, None))}


def _optional(header: Mapping[str, Any]) -> Layout:
    """The arrays that a file with this header may have in addition."""
    of = _channels(header["parameters"])
    channels = [f"{prefix}/{name}" for prefix in of for name in _MISSING]
    return {**_OPTIONAL, **_RANKS, **_CURVE, **dict.fromkeys(channels, (_FLOATS, None))}


def _channels(parameters: Mapping[str, Any]) -> list[str]:
    given = [name for name, kept in parameters.items() if kept == {"channel": True}]
    return ["noise", *(f"parameter/{name}" for name in given)]


def check_arrays(arrays: Arrays, required: Layout, optional: Layout) -> None:
    """Raise unless all arrays are present, none is unknown, and types and shapes are right."""
    missing = [name for name in required if name not in arrays]
    if missing:
        raise KeyError(missing[0])
    check_known(arrays, {**required, **optional})
    sides: dict[str | int, int] = {}
    for name, (types, wanted) in {**required, **optional}.items():
        if name not in arrays:
            continue
        array = arrays[name]
        if (
            types != ANY_TYPE
            and array.dtype not in types
            and not (types is _TEXT and array.dtype.kind == "U")
        ):
            kinds = " or ".join(np.dtype(kind).name for kind in types)
            raise ValueError(f"{name!r} must be of the type {kinds}, but is {array.dtype}")
        if wanted is not None:
            for side, size in zip(wanted, array.shape, strict=False):
                sides.setdefault(side, side if isinstance(side, int) else size)
            if array.shape != tuple(sides.get(side, -1) for side in wanted):
                expected = " × ".join(str(sides.get(side, "any")) for side in wanted)
                raise ValueError(
                    f"{name!r} must be {expected or 'one number'}, but its shape is {array.shape}"
                )
        if name == "observations/shape":
            sides["M"], sides["N"] = array.tolist()


def _check_beliefs(result: Result, components: Array, certain: Any) -> None:
    """Raise unless beliefs are numbers, which may be infinite only if a prior is `certain`."""
    shape = result.observations.shape
    result.model.channel.broadcasts_to(shape)
    result.model.prior_log_odds(shape)
    for side, odds, prior in (
        ("row", result.row_log_odds, np.asarray(result.model.row_prior)),
        ("column", result.column_log_odds, np.asarray(result.model.column_prior)),
    ):
        if np.isnan(odds).any():
            raise ValueError(f"'{side}_log_odds_' must not hold NaN")
        known = np.broadcast_to((prior == 0) | (prior == 1), odds.shape)
        if not (certain or np.isfinite(odds[~known]).all()):
            raise ValueError(f"'{side}_log_odds_' must be finite, because no entry is certain")
    if not np.array_equal(components, result.Y):
        raise ValueError("'components_' must be 1 where 'column_log_odds_' > 0, and 0 elsewhere")
    if result.stability is not None:
        probability_array("factor_stability_", result.stability)
    if result.redundancy is not None and np.isnan(result.redundancy).any():
        raise ValueError("'redundancy_' must not hold NaN")


def _check_plain(header: Mapping[str, Any]) -> None:
    """Raise unless all values in the JSON header are of the right kind."""
    fitted = header["fitted"]
    for name in _COUNTS:
        value = fitted[name]
        if type(value) is not int or value < 0:
            raise ValueError(f"{name!r} must be a non-negative integer, but is {cut(value)}")
    for name in _SWITCHES:
        if type(fitted[name]) is not bool:
            raise ValueError(f"{name!r} must be true or false, but is {cut(fitted[name])}")
    score = fitted["log_posterior_"]
    if type(score) not in (int, float) or not math.isfinite(score):
        raise ValueError(f"'log_posterior_' must be a finite number, but is {cut(score)}")
    _check_errors(fitted)
    origin = header.get("provenance", {})
    kinds = {"command": str, "hold_out": float}
    if type(origin) is not dict or any(type(origin[n]) is not kinds.get(n) for n in origin):
        raise ValueError(f"'provenance' must have command and hold_out, but is {cut(origin)}")
    check_known(fitted, (*_PLAIN, *_ERRORS, "ending"))
    for name, kept in header["parameters"].items():
        if kept in ({"channel": True}, {"array": True}):
            continue
        if list(kept) != ["value"] or not isinstance(kept["value"], str | int | float | None):
            raise ValueError(f"the parameter {cut(name)} is not understood")


def _check_errors(fitted: Mapping[str, Any]) -> None:
    """Raise unless the error and its bound are consistent numbers, or both are absent."""
    counted: list[Any] = [fitted.get(name) for name in _ERRORS]
    if counted == [None, None]:
        return
    for name, value in zip(_ERRORS, counted, strict=True):
        if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
            raise ValueError(f"{name!r} must be a non-negative number, but is {cut(value)}")
    if counted[1] > counted[0]:
        raise ValueError("'error_bound_' must not be above 'error_'")


def check_known(found: Iterable[str], known: Iterable[str]) -> None:
    """Raise if there are unknown names."""
    unknown = set(found) - set(known)
    if unknown:
        raise ValueError(f"it holds {cut(min(unknown))}, which is unknown")


def cut(value: object) -> str:
    """A value as it is shown in an error, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
