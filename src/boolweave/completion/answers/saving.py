"""Fitted completions as .npz files: arrays and one line of JSON, without any executable code.

As with the other estimator (`boolweave.saving`), a whole file is checked before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boolweave import saving
from boolweave.completion.ensemble import Ensemble, Fitted, LayerFactors, Member, Structure
from boolweave.completion.table import (
    MOST_LEVELS,
    FeatureColumn,
    FeatureEncoding,
    Pattern,
    Table,
)
from boolweave.data.convert import LARGEST_WEIGHT
from boolweave.data.observations import Observations
from boolweave.engine.backend import no_array
from boolweave.runtime.storage import LazyArray
from boolweave.runtime.tree import Unpacker, check_known
from boolweave.saving import Plain, expect

if TYPE_CHECKING:
    from pathlib import Path

    from boolweave.runtime.types import Array

FORMAT = "boolweave completion"
VERSION = 5

# The limits of all numbers, in standard deviations of the noise of an entry, and of variances:
# far beyond those of any fit, and their products are finite.
LARGEST, LEAST_VARIANCE = 1e9, 1e-12

_CLASSES = (Member, Structure, Pattern, LayerFactors, FeatureEncoding, FeatureColumn)
_LAYOUT: saving.Layout = {
    **saving.OBSERVATIONS,
    "levels": "E",
    "weights": "E",
    "row_features": ("M", None),
    "column_features": ("N", None),
}
_OF_TRIAL = ("log_loss", "standard_error", "accuracy", "weight", "seconds")


@dataclass(frozen=True, eq=False)
class StoredCompletion:
    """The contents of the file of a completion."""

    observations: Observations
    levels: NDArray[np.uint8] | None  # None if there are no others than 0 and 1
    n_levels: int
    weights: NDArray[np.float64] | None
    row_features: NDArray[np.float64]
    column_features: NDArray[np.float64]
    row_encoding: FeatureEncoding
    ensemble: Ensemble
    selection: list[dict[str, str | float]]
    interrupted: bool
    parameters: dict[str, Plain]
    provenance: dict[str, str | float]
    table: dict[str, str | None] | None
    feature_names: NDArray[np.str_] | None

    @property
    def answers(self) -> Ensemble:
        """What predicts."""
        return self.ensemble


def save(path: str | Path, model: Any) -> None:
    """Write a fitted completion; if that fails, an old file stays as it was.

    Parameters
    ----------
    path : path
    model : BooleanCompletion
        A random generator and a client among its parameters are restored as None.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from boolweave import BooleanCompletion, load
    >>> model = BooleanCompletion(n_members=1, random_state=0).fit([[1, 1, 0], [1, 0, 0]])
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "votes.npz"
    >>> model.save(path)
    >>> load(path)
    BooleanCompletion(n_members=1, random_state=0)
    """
    model._validate_params()  # they may have changed: `load` would refuse wrong ones
    table = model.table_
    parameters = {**model.get_params(deep=False), "client": None}
    stored = StoredCompletion(
        table.observations,
        table.levels if table.n_levels > 2 else None,
        int(table.n_levels),
        table.weights,
        table.row_features.here[:, 2:],
        table.column_features.here[:, 2:],
        model._row_encoding,
        model.ensemble_,
        [{name: saving.plain(value) for name, value in line.items()} for line in model.selection_],
        bool(model.interrupted_),
        {name: saving.plain(value) for name, value in parameters.items()},
        model.provenance_,
        model._frame and model._frame.as_stored(),
        saving.feature_names(model),
    )
    saving.write_file(path, FORMAT, VERSION, stored)


def read(path: str | Path) -> StoredCompletion:
    """Read the contents of a file, which predict and explain without the estimator.

    All that they use is checked before; `FileError` says what is wrong.
    """
    with saving.reading(path, FORMAT, VERSION) as (node, arrays):
        fields = saving.fields_of(node, StoredCompletion)
        sides = saving.sides_of(fields)
        saving.check_shapes(arrays, _LAYOUT, sides)
        # the ensemble without its numbers: shapes are checked before any array is read
        empty = {
            name: LazyArray(array.shape, array.dtype, partial(no_array, array.shape, array.dtype))
            for name, array in arrays.items()
        }
        template = Unpacker(empty, _CLASSES).value(Ensemble, fields["ensemble"], "ensemble")
        n_given = [arrays[f"{axis}_features"].shape[1] for axis in ("row", "column")]
        _check_shapes(template, (sides["M"], sides["N"]), fields["n_levels"], n_given)
        stored = saving.unpacked(StoredCompletion, node, arrays, _LAYOUT, _CLASSES)
        saving.check_provenance(stored.provenance)
        _check_selection(stored.selection)
        _check_numbers(stored)
        return stored


def load(path: str | Path, make: type) -> Any:
    """Read what `save` wrote into a new estimator of class `make`."""
    stored = read(path)
    with saving.naming_damage(path):
        model = saving.made(make, stored)
        fitted = Fitted(stored.ensemble, stored.selection, stored.interrupted)
        model._keep(_table(stored), fitted, stored.row_encoding)
        return saving.restored(model, stored)


def is_completion(path: str | Path) -> bool:
    """Whether a model file holds a completion; raise `FileError` if it is not a model at all."""
    return saving.format_of(path) == FORMAT


def _table(stored: StoredCompletion) -> Table:
    """The table of the fit, whose levels must agree with its entries."""
    from boolweave.completion.chain import cut_of  # not loaded for predictions

    seen, cut = stored.observations, stored.ensemble.cut
    expect((stored.levels is None) == (stored.n_levels == 2), "'levels' must be there if some are")
    table = Table.of(
        seen,
        stored.levels,
        stored.weights,
        stored.row_features,
        stored.column_features,
        stored.n_levels,
    )
    expect(seen.n_observed, "it has no entries")
    lowest = cut_of(table.levels, seen.values) if table.n_levels > 2 else 1
    expect(cut == lowest, "'cut' must be the lowest level that counts as a one")
    right = table.levels.max() < table.n_levels and ((table.levels >= cut) == seen.values).all()
    expect(right, "'levels' must be from 'cut' on where there is a one")
    return table


# ---------------------------------------------------------------- checks


def _check_shapes(
    ensemble: Ensemble, shape: tuple[int, int], n_levels: int, n_given: list[int]
) -> None:
    """Raise unless all arrays of an ensemble have the shapes that its structures ask for."""
    M, N = shape
    expect(ensemble.shape == shape, "'shape' must be that of the observations")
    expect(2 <= n_levels <= MOST_LEVELS + 1, "'n_levels' must be a number of levels")
    expect(1 <= ensemble.cut < n_levels, "'cut' must be one of the levels")
    plain, pattern = ensemble.plain, ensemble.pattern
    P = 0
    if pattern is not None:
        P = pattern.center.size
        _check_shape("pattern/center", pattern.center, (P,))
        for name, n in (("rows", M), ("columns", N), ("loadings", N)):
            _check_shape(f"pattern/{name}", getattr(pattern, name), (n, P))
    questions, regressions = ensemble.questions, ensemble.regressions
    if questions is not None:
        for name in ("groups", "levels", "thresholds"):
            _check_shape(f"questions/{name}", getattr(questions, name), (N,))
    if regressions is not None:
        expect(questions is not None, "'questions' must be in the file")
        for name, wanted in {"rows": (M, N), "offsets": (N,), "slopes": (N, N)}.items():
            _check_shape(f"regressions/{name}", getattr(regressions, name), wanted)
    if plain is not None:
        _check_shape("plain/rows", plain.rows, (M, len(plain.columns)))
        _check_shape("plain/columns", plain.columns, (len(plain.columns), N))
    for family in ensemble.families:
        structure = family.structure
        expect(not structure.pattern or pattern is not None, "'pattern' must be in the file")
        counts = structure.n_directions, structure.n_layers, structure.n_components
        expect(min(counts) >= 0, "'structure' must hold whole numbers from 0 up")
        expect(family.members, "'members' must not be empty")
        D, K = structure.n_directions + 1, structure.n_components
        F = [2 + n + (P if structure.pattern else 0) for n in n_given]
        for member in family.members:
            expect(len(member.layers) <= structure.n_layers, "'layers' must be at most 'n_layers'")
            sides = {
                "rows": (M, D),
                "row_variance": (M, D),
                "columns": (N, D),
                "column_variance": (N, D),
                "cuts": (n_levels + 1,),
            }
            for name, wanted in sides.items():
                _check_shape(name, getattr(member, name), wanted)
            of_priors = (F[0], D), (D,), (F[1], D), (D,)
            for prior, wanted in zip(member.priors, of_priors, strict=True):
                _check_shape("priors", prior, wanted)
            for layer in member.layers:
                _check_shape("layers/rows", layer.rows, (M, K))
                _check_shape("layers/columns", layer.columns, (K, N))


def _check_shape(name: str, array: Array, wanted: tuple[int, ...]) -> None:
    expect(array.shape == wanted, f"{name!r} must be {wanted}, but its shape is {array.shape}")


def _check_numbers(stored: StoredCompletion) -> None:
    """Raise unless all numbers of a completion are in their range."""
    ensemble = stored.ensemble
    _check_range("intercept", ensemble.intercept)
    _check_range("row_features", stored.row_features)
    _check_encoding(stored.row_encoding, stored.row_features.shape[1])
    _check_range("column_features", stored.column_features)
    if stored.weights is not None:
        _check_range("weights", stored.weights, 5e-324, LARGEST_WEIGHT)
    if ensemble.pattern is not None:
        for name in ("rows", "columns", "loadings", "center"):
            _check_range(f"pattern/{name}", getattr(ensemble.pattern, name))
        _check_range("usual", ensemble.pattern.usual, LEAST_VARIANCE)
    plain = ensemble.plain
    if plain is not None:
        _check_range("weight", plain.weight, 0.0)
        expect(plain.product in ("or", "xor"), "'product' must be or or xor")
        for name in ("rows", "columns", "one_given_zero", "one_given_one"):
            _check_range(f"plain/{name}", getattr(plain, name), 0.0, 1.0)
    regressions = ensemble.regressions
    if regressions is not None:
        _check_range("weight", regressions.weight, 0.0)
        _check_range("penalty", regressions.penalty, 0.0)
        _check_range("regressions/rows", regressions.rows, -1.0, 1.0)
        for name in ("offsets", "slopes"):
            _check_range(f"regressions/{name}", getattr(regressions, name))
    for family in ensemble.families:
        _check_range("weight", family.weight, 0.0)
        _check_range("strength", family.structure.strength)
        for member in family.members:
            _check_member(member)


def _check_encoding(encoding: FeatureEncoding, n_features: int) -> None:
    """Raise unless features of new rows become as many numbers as those of the fit."""
    columns = encoding.columns or ()
    for column in columns:
        expect(len(column.means) == max(1, len(column.levels)), "'means' must be of all categories")
        _check_range("means", column.means)
        _check_range("center", column.center)
        _check_range("deviation", column.deviation, 0.0)
        _check_range("largest", column.largest, 5e-324, np.finfo(np.float64).max)
    expect(sum(len(column.means) for column in columns) == n_features, "'row_encoding' must fit")


def _check_member(member: Member) -> None:
    for name in ("rows", "columns"):
        _check_range(name, getattr(member, name))
    for name in ("row_variance", "column_variance"):
        _check_range(name, getattr(member, name), 0.0)
    cuts = member.cuts
    right = cuts[0] == -np.inf and cuts[-1] == np.inf and (np.diff(cuts) > 0).all()
    expect(right, "'cuts' must increase from −∞ to ∞")
    _check_range("cuts", cuts[1:-1])
    for coefficients, variances in (member.priors[:2], member.priors[2:]):
        _check_range("coefficients", coefficients)
        _check_range("prior", variances, LEAST_VARIANCE)
    for layer in member.layers:
        _check_range("layers/rows", layer.rows, 0.0, 1.0)
        _check_range("layers/columns", layer.columns, 0.0, 1.0)
        _check_range("strength", layer.strength)


def _check_selection(selection: list[dict[str, Any]]) -> None:
    """Raise unless these are lines about models that were compared, the blend first."""
    for i, line in enumerate(selection):
        check_known(line, ("model", *_OF_TRIAL))
        right = type(line["model"]) is str and (i > 0 or line["model"] == "blend")
        expect(right, "'model' must be a name, and that of the blend first")
        for number in _OF_TRIAL:
            expect(type(line[number]) is not str, f"{number!r} must be a number")
            _check_range(number, line[number], 0.0)


def _check_range(name: str, values: Any, low: float = -LARGEST, high: float = LARGEST) -> None:
    """Raise unless a number, or all numbers of an array, are within their limits."""
    values = np.asarray(values)
    right = ((values >= low) & (values <= high)).all()
    expect(right, f"{name!r} must hold numbers from {low:g} to {high:g}")
