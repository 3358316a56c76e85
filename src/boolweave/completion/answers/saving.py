"""Fitted ensembles as .npz files: arrays and one line of JSON, without any executable code.

Members of a family are stacked, so that a file has a dozen arrays for each family. As with the
other estimator (`boolweave.saving`), a whole file is checked before it is used.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boolweave import saving
from boolweave.completion.chain import Member, Structure
from boolweave.completion.ensemble import Ensemble, Family, PlainBoolean
from boolweave.completion.features import Pattern
from boolweave.completion.layers import LayerFactors
from boolweave.runtime.archives import CHECKSUM, write_arrays
from boolweave.runtime.atomic import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Array

    Arrays = dict[str, Array]
    Header = Mapping[str, Any]

FORMAT = "boolweave completion"
VERSION = 2

_SINGLE, _DOUBLE = (np.float32,), (np.float64,)
_PRIORS = ("row_coefficients", "row_prior", "column_coefficients", "column_prior")
_PATTERN = ("rows", "columns", "loadings", "center")
_OF_PLAIN = ("one_given_zero", "one_given_one", "product", "weight")


class SavedCompletion(NamedTuple):
    """The contents of a file."""

    ensemble: Ensemble
    observations: Observations
    parameters: dict[str, Any]
    selection: list[dict[str, Any]]
    fitted: dict[str, Any]


def save(
    ensemble: Ensemble, observations: Observations, parameters: Mapping[str, Any],
    selection: Sequence[Mapping[str, Any]], path: str | Path,
    fitted: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write an ensemble and what belongs to it; if that fails, an old file stays as it was.

    Parameters
    ----------
    ensemble : Ensemble
        Of M rows and N columns.
    observations : Observations, shape (M, N)
    parameters : mapping
        Parameters of the estimator: numbers, texts, Booleans, None and lists of them. Anything
        else, such as a random generator, is restored as None.
    selection : sequence of mappings
        The models that were compared, as plain data as in JSON.
    path : path
    fitted : mapping, optional
        Other data that the estimator needs: arrays, and plain data as in JSON.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from boolweave import Observations
    >>> from boolweave.completion.answers.saving import load, save
    >>> from boolweave.completion.chain import Chain, Structure
    >>> from boolweave.completion.ensemble import Ensemble, Family
    >>> from boolweave.completion.table import Table
    >>> votes = Observations.from_data([[1, 1, 0], [1, np.nan, 0], [0, 1, np.nan]])
    >>> chain = Chain.start(Table.of(votes), Structure(), np.random.default_rng(0))
    >>> family = Family(Structure(), (chain.member(10, 20),), 1.0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.npz"
    >>> ensemble = Ensemble(votes.shape, (family,), None, 0.0)
    >>> save(ensemble, votes, {"n_members": 1}, [], path)
    >>> load(path).parameters
    {'n_members': 1}
    """
    given = {} if fitted is None else fitted
    own_arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    plain, pattern = ensemble.plain, ensemble.pattern
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "parameters": {name: _storable(value) for name, value in parameters.items()},
        "selection": [dict(tried) for tried in selection],
        "fitted": {name: value for name, value in given.items() if name not in own_arrays},
        "fitted_arrays": list(own_arrays),
        "ensemble": {
            "intercept": float(ensemble.intercept),
            "cut": int(ensemble.cut),
            "families": [
                {
                    "structure": asdict(family.structure),
                    "weight": float(family.weight),
                    "layers": [len(member.layers) for member in family.members],
                }
                for family in ensemble.families
            ],
            "plain": plain and {name: saving.plain(getattr(plain, name)) for name in _OF_PLAIN},
            "pattern": pattern and {"usual": float(pattern.usual)},
        },
    }
    arrays: Arrays = {f"fitted/{name}": value for name, value in own_arrays.items()}
    for name in {**saving.OBSERVATIONS, **saving.LABELS}:
        value = getattr(observations, name.removeprefix("observations/"))
        if value is not None:
            arrays[name] = np.asarray(value)
    for i, family in enumerate(ensemble.families):
        arrays |= {f"family/{i}/{name}": array for name, array in _stacked(family).items()}
    if plain is not None:
        arrays |= {"plain/rows": plain.rows, "plain/columns": plain.columns}
    if pattern is not None:
        arrays |= {f"pattern/{name}": getattr(pattern, name) for name in _PATTERN}
    arrays["header"] = np.array(json.dumps(header, default=saving.plain))
    with replacing(path) as file:
        write_arrays(file, arrays, compress=True)


def load(path: str | Path) -> SavedCompletion:
    """Read what `save` wrote.

    The whole file is checked before it is used; `FileError` says what is wrong.
    """
    arrays, header, sealed = saving.read_file(path, {FORMAT: VERSION})
    with saving.naming_damage(path):
        if not sealed:
            raise KeyError(CHECKSUM)
        _check_header(header)
        required = _required(header)
        saving.check_arrays(arrays, required, saving.LABELS)
        for name in required:
            if not name.startswith(("observations/", "fitted/")):
                _check_numbers(name, arrays[name])
            if name.endswith("/cuts") and header["ensemble"]["cut"] > arrays[name].shape[1] - 2:
                raise ValueError("'cut' must be one of the levels")
        _check_pattern(arrays, header["ensemble"])
        observations = saving.restored_observations(arrays)
        own_arrays = {name: arrays[f"fitted/{name}"] for name in header["fitted_arrays"]}
        return SavedCompletion(
            _restored(arrays, header["ensemble"], observations.shape),
            observations,
            dict(header["parameters"]),
            list(header["selection"]),
            {**header["fitted"], **own_arrays},
        )


def is_completion(path: str | Path) -> bool:
    """Whether a model file holds a completion; raise `FileError` if it is not a model at all."""
    return saving.format_of(path) == FORMAT


# ---------------------------------------------------------------- members and arrays


def _stacked(family: Family) -> Arrays:
    """The arrays of all members of a family, by name."""
    members = family.members
    arrays: Arrays = {
        name: np.stack([getattr(member, name) for member in members])
        for name in ("rows", "row_variance", "columns", "column_variance", "cuts")
    }
    for i, name in enumerate(_PRIORS):
        arrays[name] = np.stack([member.priors[i] for member in members])
    layers = [layer for member in members for layer in member.layers]
    if layers:
        arrays["layers/rows"] = np.stack([layer.rows for layer in layers])
        arrays["layers/columns"] = np.stack([layer.columns for layer in layers])
        arrays["layers/strength"] = np.array([layer.strength for layer in layers], np.float64)
    return arrays


def _restored(arrays: Arrays, header: Header, shape: tuple[int, int]) -> Ensemble:
    families = []
    for i, stored in enumerate(header["families"]):
        own = {
            name.removeprefix(f"family/{i}/"): array
            for name, array in arrays.items()
            if name.startswith(f"family/{i}/")
        }
        layers = [
            LayerFactors(rows, columns, float(strength))
            for rows, columns, strength in zip(
                *(own.get(f"layers/{name}", ()) for name in ("rows", "columns", "strength")),
                strict=True,
            )
        ]
        members = []
        for j, n_layers in enumerate(stored["layers"]):
            first = sum(stored["layers"][:j])
            members.append(
                Member(
                    own["rows"][j], own["row_variance"][j], own["columns"][j],
                    own["column_variance"][j], tuple(layers[first : first + n_layers]),
                    own["cuts"][j], tuple(own[name][j] for name in _PRIORS),
                )
            )  # fmt: skip
        families.append(Family(Structure(**stored["structure"]), tuple(members), stored["weight"]))
    plain = header["plain"] and PlainBoolean(
        arrays["plain/rows"], arrays["plain/columns"], **header["plain"]
    )
    pattern = None
    if header.get("pattern") is not None:  # files of version 1 have none
        own = {name: arrays[f"pattern/{name}"] for name in _PATTERN}
        pattern = Pattern(**own, usual=header["pattern"]["usual"])
    return Ensemble(shape, tuple(families), plain, header["intercept"], header["cut"], pattern)


def _required(header: Header) -> saving.Layout:
    """The arrays that a file with this header must have."""
    layout = {**saving.OBSERVATIONS}
    for name in header["fitted_arrays"]:
        layout[f"fitted/{name}"] = (saving.ANY_TYPE, None)
    for i, family in enumerate(header["ensemble"]["families"]):
        n, D = len(family["layers"]), family["structure"]["n_directions"] + 1
        more = " with pattern" if family["structure"].get("pattern", False) else ""
        own: saving.Layout = {
            "rows": (_SINGLE, (n, "M", D)),
            "row_variance": (_SINGLE, (n, "M", D)),
            "columns": (_SINGLE, (n, "N", D)),
            "column_variance": (_SINGLE, (n, "N", D)),
            "cuts": (_DOUBLE, (n, "levels")),
            "row_coefficients": (_DOUBLE, (n, f"row features{more}", D)),
            "row_prior": (_DOUBLE, (n, D)),
            "column_coefficients": (_DOUBLE, (n, f"column features{more}", D)),
            "column_prior": (_DOUBLE, (n, D)),
        }
        if total := sum(family["layers"]):
            K = family["structure"]["n_components"]
            own |= {
                "layers/rows": (_SINGLE, (total, "M", K)),
                "layers/columns": (_SINGLE, (total, K, "N")),
                "layers/strength": (_DOUBLE, (total,)),
            }
        layout |= {f"family/{i}/{name}": kind for name, kind in own.items()}
    if header["ensemble"]["plain"] is not None:
        layout |= {
            "plain/rows": (_SINGLE, ("M", "factors")),
            "plain/columns": (_SINGLE, ("factors", "N")),
        }
    if header["ensemble"].get("pattern") is not None:
        layout |= {
            "pattern/rows": (_DOUBLE, ("M", "pattern")),
            "pattern/columns": (_DOUBLE, ("N", "pattern")),
            "pattern/loadings": (_DOUBLE, ("N", "pattern")),
            "pattern/center": (_DOUBLE, ("pattern",)),
        }
    return layout


# ---------------------------------------------------------------- checks


def _check_numbers(name: str, array: Array) -> None:
    """Raise unless the numbers of an array are in their range."""
    kind = name.rpartition("/")[2]
    if kind == "cuts":
        ends = array.shape[1] >= 3 and (array[:, [0, -1]] == [-np.inf, np.inf]).all()
        inner = array[:, 1:-1]
        if not (ends and np.isfinite(inner).all() and (np.diff(inner) > 0).all()):
            raise ValueError(f"{name!r} must increase from −∞ to ∞")
        return
    if not np.isfinite(array).all():
        raise ValueError(f"{name!r} must hold only finite numbers")
    is_chance = "layers/" in name or name.startswith("plain/")
    if kind in ("rows", "columns") and is_chance and not ((array >= 0) & (array <= 1)).all():
        raise ValueError(f"{name!r} must hold probabilities, from 0 to 1")
    if kind in ("row_variance", "column_variance") and (array < 0).any():
        raise ValueError(f"{name!r} must not hold variances below 0")
    if kind in ("row_prior", "column_prior") and (array <= 0).any():
        raise ValueError(f"{name!r} must hold variances above 0")


def _check_pattern(arrays: Arrays, header: Header) -> None:
    """Raise unless families that use the pattern of entries have coefficients for all of it."""
    for i, family in enumerate(header["families"]):
        if family["structure"].get("pattern", False):
            for name in ("row_coefficients", "column_coefficients"):
                n_features = arrays[f"family/{i}/{name}"].shape[1]
                if n_features < 2 + len(arrays["pattern/center"]):
                    raise ValueError(f"{name!r} must be for all features of the pattern")


def _check_header(header: Header) -> None:
    """Raise unless all values in the JSON header are of the right kind."""
    known = ("format", "version", "parameters", "selection", "fitted", "fitted_arrays", "ensemble")
    saving.check_known(header, known)
    for name, kind in (("parameters", dict), ("selection", list), ("fitted", dict),
                       ("fitted_arrays", list), ("ensemble", dict)):  # fmt: skip
        _check(type(header[name]) is kind, name, f"a {kind.__name__}", header[name])
    selection, names = header["selection"], header["fitted_arrays"]
    _check(all(type(row) is dict for row in selection), "selection", "a list of dicts", selection)
    _check(all(type(name) is str for name in names), "fitted_arrays", "names", names)
    ensemble = header["ensemble"]
    saving.check_known(ensemble, ("intercept", "cut", "families", "plain", "pattern"))
    _check(_is_number(ensemble["intercept"]), "intercept", "a number", ensemble["intercept"])
    _check(_is_count(ensemble["cut"], 1), "cut", "a whole number from 1 up", ensemble["cut"])
    for family in ensemble["families"]:
        saving.check_known(family, ("structure", "weight", "layers"))
        _check_weight(family["weight"])
        counts = family["layers"]
        good = type(counts) is list and counts and all(_is_count(n) for n in counts)
        _check(bool(good), "layers", "the number of layers of each member", counts)
        structure = family["structure"]
        saving.check_known(structure, [field.name for field in fields(Structure)])
        for name in ("n_directions", "n_layers", "n_components"):
            _check(_is_count(structure[name]), name, "a whole number from 0 up", structure[name])
        _check(_is_number(structure["strength"]), "strength", "a number", structure["strength"])
        used = structure.get("pattern", False)
        _check(type(used) is bool, "pattern", "true or false", used)
        _check(not used or ensemble.get("pattern") is not None, "pattern", "in the file", None)
    pattern = ensemble.get("pattern")
    if pattern is not None:
        saving.check_known(pattern, ("usual",))
        usual = pattern["usual"]
        _check(_is_number(usual) and usual > 0, "usual", "a number above 0", usual)
    plain = ensemble["plain"]
    if plain is not None:
        saving.check_known(plain, _OF_PLAIN)
        _check_weight(plain["weight"])
        _check(plain["product"] in ("or", "xor"), "product", "or or xor", plain["product"])
        for name in ("one_given_zero", "one_given_one"):
            good = _is_number(plain[name]) and 0 <= plain[name] <= 1
            _check(good, name, "a probability", plain[name])


def _check(good: bool, name: str, expected: str, got: object) -> None:
    if not good:
        raise ValueError(f"{name!r} must be {expected}, but is {saving.cut(got)}")


def _check_weight(weight: object) -> None:
    _check(_is_number(weight) and weight >= 0, "weight", "a number from 0 up", weight)  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _is_count(value: object, least: int = 0) -> bool:
    return type(value) is int and value >= least


def _storable(value: object) -> object:
    """A parameter in a form that JSON can hold; None if there is none."""
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    kept = saving.plain(value)
    return kept if kept is value or isinstance(value, np.generic | os.PathLike) else None
