"""Functions that fit an estimator and return its result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave import saving
from boolweave.completion import BooleanCompletion
from boolweave.completion.answers import saving as completions
from boolweave.completion.estimator import FIT_PARAMETERS
from boolweave.covering.covering import find_cover
from boolweave.covering.matrix import Matrix, Requirements
from boolweave.covering.reviewing import attributes_of
from boolweave.data.frames import COLUMNS_SHOWN, ROWS_SHOWN, html_table, names_of, polars_table
from boolweave.data.labels import name_of
from boolweave.data.questions import Questions
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.estimator.parameters import check_output, check_sample_weight, settings_of
from boolweave.fit import rank
from boolweave.parameters import (
    CoverParameters,
    only_in_factorization,
    takes,
    with_objective,
    without_defaults,
)
from boolweave.runtime.checks import LARGEST, check_seconds, check_verbose, is_whole, seed_of
from boolweave.runtime.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from boolweave.covering.result import Cover
    from boolweave.data.observations import Observations
    from boolweave.engine.result import Result
    from boolweave.fit.rank_selection import RankSelection


def select_rank(
    X: Any,
    ranks: Iterable[int] | None = None,
    criterion: Literal["mdl", "heldout"] = "mdl",
    *,
    sample_weight: Any = None,
    groups: Any = None,
    **parameters: Any,
) -> RankSelection:
    """Choose the number of factors by description length or by held-out entries.

    The number is the one that `factorize` finds with the same parameters. With objective="errors",
    the default, one search finds the whole curve of errors against the number of factors:
    ``costs``, ``missed`` and ``false_ones`` in addition to the description length.

    Parameters
    ----------
    X : as in `BooleanMatrixFactorization.fit`, shape (M, N)
    ranks : iterable of int, optional
        The ranks to try. By default, they are 1, 2, ... until five ranks beyond the best one have
        not been better.
    criterion : {"mdl", "heldout"}
        "mdl" is the description length of factors and errors in bits; "heldout" is the log-loss of
        held-out entries in four-fold cross-validation, for objective="posterior".
    sample_weight : array or sparse matrix, optional
        As in `BooleanMatrixFactorization.fit`, with objective="errors".
    groups : array of whole numbers, shape (N,), optional
        The question of each column, such as `TableEncoder.questions_`: with criterion="heldout",
        whole answers are held out, because the levels of a category tell what each other is.
    **parameters
        Parameters of `BooleanMatrixFactorization`, with another default: as in `factorize`,
        objective="errors", unless a parameter that only "posterior" has is given, or
        criterion="heldout".

    Returns
    -------
    RankSelection
        Its attributes are ``ranks``, ``scores`` and ``best``; ``sentence`` says how clear the
        choice is, and ``elbow`` is where the curve bends. ``print`` shows the table, and ``plot``
        draws it. Ctrl-C ends the search early: the result contains the ranks tried so far,
        ``interrupted`` is True, and a checkpoint stays where it is. `max_time` does the same,
        except that ``interrupted`` is False and the checkpoint is removed.

    Examples
    --------
    >>> from boolweave import select_rank
    >>> from boolweave.datasets import make_boolean
    >>> planted = make_boolean(60, 60, 3, flip=0.02, random_state=0)
    >>> select_rank(planted.observations, ranks=range(1, 6), random_state=0).best
    3
    """
    if criterion not in ("mdl", "heldout"):
        raise ValueError(f'criterion must be "mdl" or "heldout", got {criterion!r}')
    if groups is not None and criterion == "mdl":
        raise ValueError(
            'groups say what is held out, but criterion="mdl" holds nothing out; leave them out, '
            'or set criterion="heldout"'
        )
    check_output("select_rank", parameters)
    wanted = None if ranks is None else _checked_ranks(ranks)
    chosen = with_objective(parameters, "errors" if criterion == "mdl" else "posterior")
    estimator = BooleanMatrixFactorization("auto", **chosen)
    check_sample_weight(estimator, sample_weight)
    observations = estimator._checked(X)
    if estimator.objective == "errors":
        if criterion == "heldout":
            raise ValueError(
                'criterion="heldout" looks for the best prediction and `objective="errors"` for '
                'the best description; use criterion="mdl", or set `objective="posterior"`'
            )
        return estimator._errors_by_rank(observations.to_local(), wanted, sample_weight)
    settings = settings_of(estimator, observations)
    questions = None
    if groups is not None:
        questions = Questions.of(groups, observations.n_columns).groups.tolist()
    with (
        estimator._recording(
            observations, settings, ranks=wanted, criterion=criterion, groups=questions
        ) as (recorder, random),
        estimator._surroundings(recorder) as run,
    ):
        try:
            selection, _ = rank.search(
                observations, settings, random, wanted, criterion, run, groups=questions
            )
        except KeyboardInterrupt:
            if not run.passed:
                raise
            raise ValueError(
                f"{estimator.max_time:g} seconds passed before one rank was judged; raise "
                "`max_time`"
            ) from None
        if run.passed:
            selection = replace(selection, interrupted=False)
        if not selection.interrupted:
            recorder.finish()
    return selection


def _checked_ranks(ranks: Any) -> list[int]:
    wanted = list(ranks) if isinstance(ranks, Iterable) else []
    if not wanted or not all(is_whole(k) and 1 <= k <= LARGEST for k in wanted):
        raise ValueError(
            f"ranks must be one or more positive whole numbers, such as range(1, 11), got {ranks!r}"
        )
    return [int(k) for k in wanted]


def load(path: str | Path) -> BooleanMatrixFactorization | BooleanCompletion:
    """Read a model that `BooleanMatrixFactorization.save` or `BooleanCompletion.save` wrote.

    Parameters
    ----------
    path : path
        File of the model (.npz).

    Returns
    -------
    BooleanMatrixFactorization or BooleanCompletion
        The fitted estimator.

    Examples
    --------
    >>> import tempfile, pathlib, boolweave
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> boolweave.BooleanMatrixFactorization(n_components=1).fit([[1, 0], [1, 0]]).save(path)
    >>> boolweave.load(path).components_
    array([[1, 0]], dtype=uint8)
    """
    if completions.is_completion(path):
        return completions.load(path, BooleanCompletion)
    return saving.load(path, BooleanMatrixFactorization)


def factorize(
    X: Any,
    n_components: int | Literal["auto", "few"] = "auto",
    *,
    sample_weight: Any = None,
    **parameters: Any,
) -> Result:
    """Find the factors of a Boolean matrix with the fewest wrong entries.

    Parameters
    ----------
    X : as in `BooleanMatrixFactorization.fit`, shape (M, N)
    n_components : int, "auto" or "few", default="auto"
        Number of factors K. "auto" is the number that `select_rank` finds, and "few" the elbow of
        its curve.
    sample_weight : array or sparse matrix, optional
        As in `BooleanMatrixFactorization.fit`.
    **parameters
        Parameters of `BooleanMatrixFactorization`, with another default: objective="errors". It is
        "posterior" if a parameter that only this objective has, such as `noise` or `method`, has
        another value than its default.

    Returns
    -------
    Result
        The result has ``X`` (M, K), ``Y`` (K, N), ``Z`` (M, N), their log-odds and the history of
        the run; ``cost`` is the number of wrong entries.

    Examples
    --------
    >>> from boolweave import factorize
    >>> found = factorize([[1, 1, 0], [1, 1, 0], [0, 0, 0]], n_components=1, random_state=0)
    >>> found.Y, found.cost
    (array([[1, 1, 0]], dtype=uint8), 0.0)
    """
    check_output("factorize", parameters)
    estimator = BooleanMatrixFactorization(n_components, **with_objective(parameters))
    return estimator._find(X, sample_weight)[0]


@dataclass(frozen=True, eq=False, repr=False)
class Completion:
    """A completed Boolean matrix, as `complete` returns it.

    Attributes
    ----------
    model : BooleanCompletion
        The fitted model, which explains entries, recommends columns and takes new rows.
    """

    model: BooleanCompletion

    @property
    def observations(self) -> Observations:
        """The observed entries, (M, N)."""
        return self.model.observations_

    @property
    def completed(self) -> Any:
        """The observed values, and the more probable value of missing entries, (M, N) of uint8.

        If the input was a table, this is a table of the same library, with the same names.
        """
        seen = self.observations
        filled = np.empty(seen.shape, dtype=np.uint8)
        for some, chance in self._pieces():
            filled[some] = chance > 0.5
        filled[seen.rows_of_entries(), seen.indices] = seen.values
        return self._in_form(filled)

    @property
    def probabilities(self) -> Any:
        """P(o = 1) of every entry, observed or not, (M, N); computed on each use.

        If the input was a table, this is a table of the same library, with the same names.
        """
        chances = np.empty(self.observations.shape)
        for some, chance in self._pieces():
            chances[some] = chance
        return self._in_form(chances)

    @property
    def filled(self) -> Any:
        """The missing entries: a table with row, column, value and probability of each.

        The table belongs to the library of the input table, or to polars.
        """
        seen, frame = self.observations, self.model._frame
        known = np.zeros(seen.shape, dtype=bool)
        known[seen.rows_of_entries(), seen.indices] = True
        m, n = np.nonzero(~known)
        chance = self.model.ensemble_.probabilities(m, n)
        names: Any = names_of if frame is None else frame.names
        lines = {
            "row": names(seen, "row", m),
            "column": names(seen, "column", n),
            "value": (chance > 0.5).astype(np.uint8),
            "probability": chance,
        }
        return polars_table(lines) if frame is None else frame.table(lines)

    def _in_form(self, values: NDArray[Any]) -> Any:
        frame = self.model._frame
        return values if frame is None else frame.matrix(values, self.observations)

    def __repr__(self) -> str:
        seen = self.observations
        n_holes = seen.n_rows * seen.n_columns - seen.n_observed
        return (
            f"Completion({seen.n_rows:,} rows × {seen.n_columns:,} columns, {n_holes:,} entries "
            f"filled in by {self.model.ensemble_.name})"
        )

    def _repr_html_(self) -> str:
        """The first rows and columns, with a coloured background for filled-in entries."""
        whole, n_rows = self.observations, min(self.observations.n_rows, ROWS_SHOWN)
        seen = whole.take_rows(slice(0, n_rows)).to_dense()[:, :COLUMNS_SHOWN]
        chance = self.model.ensemble_.row_probabilities(np.arange(n_rows))[:, :COLUMNS_SHOWN]
        holes = np.isnan(seen)
        values = np.where(holes, chance > 0.5, seen).astype(int)
        names = [name_of(whole, j, "column") for j in range(values.shape[1])]
        lines = [[name_of(whole, i, "row"), *map(str, line)] for i, line in enumerate(values)]
        marked = np.concatenate([np.zeros((n_rows, 1), dtype=bool), holes], axis=1)
        return html_table(["", *names], lines, f"{self!r}, filled-in entries in colour", marked)

    @property
    def selection(self) -> list[dict[str, Any]]:
        """The models that were compared on held-out entries, one line for each."""
        return self.model.selection_

    def predict_proba(self, rows: Any, cols: Any) -> Any:
        """P(o = 1) at pairs of rows and columns, (n,); see `BooleanCompletion.predict_proba`."""
        return self.model.predict_proba(rows, cols)

    def _pieces(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        return self.model.ensemble_.row_pieces(np.arange(self.observations.n_rows))


def complete(
    X: Any, n_components: int | Literal["auto"] = "auto", **parameters: Any
) -> Completion | Result:
    """Fill in the missing entries of a Boolean matrix.

    Parameters
    ----------
    X : as in `BooleanCompletion.fit`, shape (M, N)
        Entries that a sparse matrix does not store are missing, unless `absent` says otherwise.
    n_components : int or "auto", default="auto"
        Number of factors of a Boolean layer, or of a factorization.
    **parameters
        Parameters of `BooleanCompletion` and of its `fit`, such as `ratings` or `sample_weight`. If
        one that only `BooleanMatrixFactorization` has, such as `method`, `noise` or `product`, has
        another value than its default, or `objective` is given, that estimator fills in the missing
        entries.

    Returns
    -------
    Completion
        The result has ``completed`` (M, N), in which observed entries stay as they are,
        ``probabilities`` (M, N), ``filled``, a table of the missing entries,
        ``predict_proba(rows, cols)``, ``selection`` and ``model``. If X is a table, these are
        tables of the same library, with the same names. With a factorization, the result is a
        `Result`.

    Examples
    --------
    >>> from boolweave import complete
    >>> nan = float("nan")
    >>> found = complete([[1, 1, 0], [1, nan, 0], [1, 1, 0]], random_state=0)
    >>> found.completed
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 1, 0]], dtype=uint8)
    >>> bool(found.predict_proba([1], [1])[0] > 0.5)
    True
    """
    check_output("complete", parameters)
    of_factors = only_in_factorization(parameters)
    chosen = {"absent": "missing", **(parameters if of_factors else without_defaults(parameters))}
    of_fit = {} if of_factors else {n: chosen.pop(n) for n in FIT_PARAMETERS if n in chosen}
    make = BooleanMatrixFactorization if of_factors else BooleanCompletion
    if unknown := sorted(set(chosen) - set(signature(make).parameters)):
        why = f" together with {of_factors[0]!r}" if of_factors else ""
        raise TypeError(
            f"complete() got an unexpected argument {unknown[0]!r}{why}; it takes the parameters "
            f"of {make.__name__}"
        )
    if of_factors:
        return BooleanMatrixFactorization(n_components, **chosen)._find(X)[0]
    return Completion(BooleanCompletion(n_components, **chosen).fit(X, **of_fit))


@takes(CoverParameters)
def cover(
    X: Any,
    coverage: float = 1.0,
    false_ones: float = 0,
    n_components: int | None = None,
    objective: str = "roles",
    fixed: Any = None,
    max_rows: int | None = None,
    max_columns: int | None = None,
    min_rows: int | None = None,
    min_columns: int | None = None,
    max_roles_per_row: int | None = None,
    conflicts: Any = None,
    row_attributes: Any = None,
    closed: bool = False,
    max_time: float | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
) -> Cover:
    """Find the fewest factors that cover the ones of a Boolean matrix.

    A cover by rectangles of ones is also known as a biclique cover, a tiling, or, for users and
    their permissions, as role mining. See `factorize` for the fewest errors of a given number of
    factors.

    Parameters
    ----------
    X : as in `BooleanMatrixFactorization.fit`, shape (M, N)
        Entries that a sparse matrix does not store are zeros, which take no memory. Missing entries
        may be covered or not.

    Returns
    -------
    Cover
        A `Result` with ``X`` (M, K) and ``Y`` (K, N), and what they cover: ``coverage``, ``curve``,
        ``missed`` and ``false_ones``. ``cost`` is the number of factors K, or, with
        ``objective="assignments"``, factors and assignments, and ``bound`` is a proven lower bound
        of it: if both are equal, no cover has a lower cost. Ctrl-C ends the search early with the
        best cover so far, and ``interrupted`` is True.

    Examples
    --------
    >>> from boolweave import cover
    >>> grants = [[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]]
    >>> found = cover(grants, random_state=0)
    >>> found.Y
    array([[1, 1, 0, 0],
           [0, 0, 1, 1]], dtype=uint8)
    >>> found.cost, found.bound, found.coverage
    (2.0, 2.0, 1.0)
    >>> cover(grants, n_components=1, random_state=0).missed.tolist()
    [[1, 2], [1, 3], [2, 2], [2, 3]]
    """
    seconds, seed = check_seconds(max_time), seed_of(random_state)
    shown = check_verbose(verbose)
    matrix = X if isinstance(X, Matrix) else Matrix.of_data(X)
    required = Requirements.of(
        matrix,
        coverage,
        false_ones,
        n_components,
        fixed,
        max_rows,
        max_columns,
        min_rows,
        min_columns,
        max_roles_per_row,
        conflicts,
        objective,
        closed,
    )
    attributes = None
    if row_attributes is not None:
        attributes = attributes_of(row_attributes, matrix.observations)
    with Run(seconds, verbose=shown) as run:
        return find_cover(matrix, required, seed, run, attributes)
