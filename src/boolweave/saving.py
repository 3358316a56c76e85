"""Fitted models as .npz files: arrays and one line of JSON, without any executable code.

A file holds one tree of dataclasses (`runtime.tree`). The users of a loaded model, above all
compiled code, rely on shapes that agree, on numbers in their range and on beliefs that are not NaN.
Therefore a whole file is checked before it is used, and shapes before any array is read.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from boolweave.data.frames import Frame
from boolweave.data.observations import Observations
from boolweave.data.observed import ObservedEntries
from boolweave.data.ones import SparseObservations
from boolweave.engine.result import Result
from boolweave.fit.rank_selection import RankSelection
from boolweave.io.files import FileError, words_of_ours
from boolweave.model.channel import Channel, probability_array
from boolweave.runtime.archives import CHECKSUM, Archive, write_arrays
from boolweave.runtime.atomic import replacing
from boolweave.runtime.storage import LazyArray
from boolweave.runtime.threads import effective_jobs
from boolweave.runtime.tree import Node, Packer, Unpacker, check_known
from boolweave.runtime.words import shortened

FORMAT = "boolweave model"
VERSION = 5

NO_MODEL = "this is not a boolweave model, or it is damaged; expected a file written by save()"

Plain: TypeAlias = bool | int | float | str | None
Stored = TypeVar("Stored")

# The sides of arrays as letters, each of which stands for the same number throughout a file, or as
# None for any number. M and N are those of the observations.
Layout: TypeAlias = Mapping[str, Sequence[str | None]]
OBSERVATIONS: Layout = {
    "observations/indptr": "P",
    "observations/indices": "E",
    "observations/values": "E",
    "observations/row_labels": "M",
    "observations/column_labels": "N",
    "feature_names": "N",
}
_LAYOUT: Layout = {
    **OBSERVATIONS,
    "observations/ones/indptr": "P",
    "observations/ones/columns": "E",
    "observations/missing/indptr": "P",
    "observations/missing/columns": "H",
    "result/row_log_odds": "MK",
    "result/column_log_odds": "KN",
    "result/stability": "K",
    "result/redundancy": "K",
    **{f"result/history/{name}": "I" for name in ("residual", "log_posterior", "changes", "error")},
    **{
        f"ranks/{name}": "R"
        for name in ("ranks", "scores", "errors", "costs", "missed", "false_ones")
    },
}
_OF_POSTERIOR = {"residual", "log_posterior", "changes"}


@dataclass(frozen=True, eq=False)
class StoredFactorization:
    """The contents of the file of a factorization."""

    observations: ObservedEntries
    result: Result
    ranks: RankSelection | None
    n_dropped: int
    parameters: dict[str, Plain | NDArray[np.float64] | Channel]
    provenance: dict[str, str | float]
    table: dict[str, str | None] | None
    feature_names: NDArray[np.str_] | None

    @property
    def answers(self) -> Result:
        """What predicts."""
        return self.result

    def check(self) -> None:
        """Raise ValueError unless all parts fit together."""
        check_provenance(self.provenance)
        result, ranks = self.result, self.ranks
        expect(result.observations is self.observations, "'result' must be of the observations")
        expect(min(result.n_iter, self.n_dropped) >= 0, "numbers must not be negative")
        expect(math.isfinite(result.log_posterior), "'log_posterior' must be a finite number")
        _check_beliefs(result)
        _check_errors(result)
        if ranks is not None:
            expect(ranks.best in ranks.ranks, "'best' must be one of the ranks that were tried")
            curve = {part is None for part in (ranks.costs, ranks.missed, ranks.false_ones)}
            expect(len(curve) == 1, "'ranks' must have costs, missed and false_ones, or none")


def save(path: str | Path, estimator: Any) -> None:
    """Write a fitted estimator; if that fails, an old file stays as it was."""
    estimator._validate_params()  # they may have changed: `load` would refuse wrong ones
    parameters: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        is_array = np.ndim(value) > 0  # arrays, lists and tables
        parameters[name] = np.asarray(value, dtype=np.float64) if is_array else plain(value)
    stored = StoredFactorization(
        estimator.observations_,
        estimator.result_,
        estimator.rank_selection_,
        int(estimator.n_dropped_),
        parameters,
        estimator.provenance_,
        estimator._frame and estimator._frame.as_stored(),
        feature_names(estimator),
    )
    write_file(path, FORMAT, VERSION, stored)


def read(path: str | Path) -> StoredFactorization:
    """Read the contents of a file, which predict and explain without the estimator.

    The whole file is checked before it is used; a `FileError` describes the damage.
    """
    with reading(path, FORMAT, VERSION) as (node, arrays):
        fields = fields_of(node, StoredFactorization)
        n_factors = fields_of(fields_of(fields["result"], Result)["model"], "Model")["n_components"]
        check_shapes(arrays, _LAYOUT, {**sides_of(fields), "K": n_factors})
        classes = Observations, SparseObservations
        stored = unpacked(StoredFactorization, node, arrays, _LAYOUT, classes)
        stored.check()
        return stored


def load(path: str | Path, make: type) -> Any:
    """Read what `save` wrote into a new estimator of class `make`."""
    stored = read(path)
    with naming_damage(path):
        estimator = made(make, stored)
        estimator.result_, estimator.rank_selection_ = stored.result, stored.ranks
        estimator.n_dropped_ = stored.n_dropped
        return restored(estimator, stored)


# ---------------------------------------------------------------- files of any kind of model


def write_file(path: str | Path, kind: str, version: int, stored: object) -> None:
    """Write a tree with its header; if that fails, an old file stays as it was."""
    packer = Packer()
    header = {"format": kind, "version": version, "tree": packer.node(stored, "")}
    arrays = {"header": np.array(json.dumps(header)), **packer.arrays}
    with replacing(path) as file:
        write_arrays(file, arrays, compress=True)


@contextmanager
def reading(
    path: str | Path, kind: str, version: int
) -> Iterator[tuple[Node, dict[str, LazyArray]]]:
    """Open a file of this kind and version: its tree as a node, and its arrays.

    Any error while a model is made from them becomes one error that names the file.
    """
    with _opened(path) as (archive, header):
        if header["format"] != kind or type(header["version"]) is not int:
            raise ValueError("format")
        if header["version"] > version:
            raise FileError(
                str(path),
                f"written by a newer version of boolweave (file version {header['version']}; this "
                f"one reads up to {version}); upgrade boolweave",
            )
        if header["version"] < version:
            raise ValueError("version")
        arrays = {}
        for name in archive.names:
            if name != "header":
                shape, dtype, _ = archive.header(name)
                arrays[name] = LazyArray(shape, dtype, partial(archive.__getitem__, name))
        with naming_damage(path):
            if not archive.sealed:
                raise KeyError(CHECKSUM)
            check_known(header, ("format", "version", "tree"))
            yield header["tree"], arrays


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[Archive, dict[str, Any]]]:
    """A file and its JSON header; any error that is not described yet means that it is no model."""
    # Number of bytes of the JSON header of a file, in which a character takes four.
    longest_header = 1 << 28
    try:
        with Archive(Path(path)) as stored:
            if stored.header("header").shape or stored.size("header") > longest_header:
                raise ValueError("header")
            yield stored, json.loads(str(stored["header"]))
    except (FileNotFoundError, PermissionError, FileError, MemoryError):
        raise
    except Exception:  # a damaged file can fail anywhere: in zip, zlib, headers of arrays, JSON
        raise FileError(str(path), NO_MODEL) from None


def format_of(path: str | Path) -> str:
    """The kind of model in a file, according to its header."""
    with _opened(path) as (_, header):
        return str(header["format"])


@contextmanager
def naming_damage(path: str | Path) -> Iterator[None]:
    """Turn any error while a model is made from a file into one error that names the file."""
    try:
        yield
        return
    except KeyError as missing:
        problem = f"it does not contain {str(missing.args[0])!r}"
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        problem = words_of_ours(error)[:300] or "its parts do not fit together"
    raise FileError(str(path), f"this model is damaged: {problem}; save it again")


def fields_of(node: Node, kind: type | str) -> dict[str, Node]:
    """The fields of the node of an object, before it is made."""
    name = kind if isinstance(kind, str) else kind.__name__
    fields: dict[str, Node] = node[name]
    return fields


def sides_of(fields: Mapping[str, Node]) -> dict[str, int]:
    """The numbers of rows and of columns of the observations in a tree, by letter."""
    expect(len(fields["observations"]) == 1, "'observations' must be of one kind")
    (observations,) = fields["observations"].values()
    expect(len(observations["shape"]) == 2, "'shape' must be two numbers")
    M, N = observations["shape"]
    return {"M": M, "N": N, "P": M + 1}


def check_shapes(arrays: Mapping[str, LazyArray], layout: Layout, sides: dict[str, Any]) -> None:
    """Raise ValueError unless the arrays of a file have the shapes of the layout."""
    for name, wanted in layout.items():
        if name not in arrays:
            continue
        shape = arrays[name].shape
        expected = tuple(
            size if side is None else sides.setdefault(side, size)
            for side, size in zip(wanted, shape, strict=False)
        )
        if len(shape) != len(wanted) or shape != expected:
            words = " × ".join(str(sides.get(side or "", "any")) for side in wanted)
            raise ValueError(f"{name!r} must be {words}, but its shape is {shape}")
    n_cells = sides["M"] * sides["N"]
    if max(sides.get("E", 0), sides.get("H", 0)) > n_cells:
        raise ValueError(f"it has more entries than cells: {n_cells}")


def unpacked(
    kind: type[Stored],
    node: Node,
    arrays: Mapping[str, LazyArray],
    layout: Layout,
    classes: Sequence[type],
) -> Stored:
    """The tree of a file, to which every array must belong, and those of the layout by name."""
    unpacker = Unpacker(arrays, classes)
    unpacker.places = layout
    stored: Stored = unpacker.value(kind, node, "")
    check_known(arrays, set(arrays) - unpacker.unread())
    return stored


def made(make: Any, stored: Any) -> Any:
    """A new estimator with the parameters of a file."""
    check_known(stored.parameters, make._get_param_names())
    estimator = make(**stored.parameters)
    estimator._validate_params()
    effective_jobs(estimator.n_jobs)
    return estimator


def restored(estimator: Any, stored: Any) -> Any:
    """The estimator with the attributes that every kind of model has."""
    estimator.n_features_in_ = stored.observations.n_columns
    estimator.provenance_ = stored.provenance
    estimator._frame = Frame.stored(stored.table)
    if stored.feature_names is not None:
        estimator.feature_names_in_ = stored.feature_names.astype(object)
    return estimator


def feature_names(estimator: Any) -> NDArray[np.str_] | None:
    """The names of the columns of the fitted table as text, if it had names."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else np.asarray(names, dtype=np.str_)


def plain(value: Any) -> Any:
    """The stored form of a parameter; only the name of a random generator is kept."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str | Channel):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return None if isinstance(value, np.random.RandomState) else repr(value)


# ---------------------------------------------------------------- checks


def _check_beliefs(result: Result) -> None:
    """Raise unless channel and priors fit the matrix, and beliefs are numbers."""
    shape = result.observations.shape
    result.model.channel.broadcasts_to(shape)
    result.model.prior_log_odds(shape)
    for side, odds in (("row", result.row_log_odds), ("column", result.column_log_odds)):
        right = odds.dtype in (np.float32, np.float64) and not np.isnan(odds).any()
        expect(right, f"'{side}_log_odds' must be numbers")
    if result.stability is not None:
        probability_array("stability", result.stability)


def _check_errors(result: Result) -> None:
    """Raise unless error, bound and what belongs to them are there together, or absent together."""
    cost, bound, redundancy = result.cost, result.bound, result.redundancy
    if cost is None or bound is None or redundancy is None:
        absent = cost is None and bound is None and redundancy is None
        expect(absent, "'cost', 'bound' and 'redundancy' belong together")
        expect(result.history.keys() == _OF_POSTERIOR, "'history' must be that of messages")
        return
    expect(0 <= bound <= cost < math.inf, "'bound' must not be above 'cost', nor below 0")
    expect(not np.isnan(redundancy).any(), "'redundancy' must not hold NaN")
    expect(result.history.keys() == {"error"}, "'history' must be that of errors")
    channel = result.model.channel
    for given in (channel.one_given_zero, channel.one_given_one):
        rate = np.asarray(given)
        expect(rate.ndim == 0 and 0 < rate < 1, "'channel' must be numbers above 0 and below 1")


def check_provenance(origin: dict[str, Any]) -> None:
    """Raise unless this is what is known of the origin of a model."""
    kinds = {"command": str, "hold_out": float, "plan": str}
    right = all(type(value) is kinds.get(name) for name, value in origin.items())
    expect(
        right,
        f"'provenance' must have command, hold_out and plan, but is {shortened(repr(origin), 60)}",
    )


def expect(holds: Any, otherwise: str) -> None:
    """Raise ValueError with these words unless a condition holds."""
    if not holds:
        raise ValueError(otherwise)
