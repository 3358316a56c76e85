"""What to show to whom, and why: views on a fitted model, without inference of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from boolweave.data.labels import name_of, positions
from boolweave.data.ones import SparseObservations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.result import Result
    from boolweave.runtime.types import Integers

# How many members of a factor its sentence names.
NAMES_IN_SENTENCE = 4


class Fitted(Protocol):
    """An estimator after its fit."""

    @property
    def result_(self) -> Result:
        """What it found."""
        ...


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best unseen columns of some rows.

    Attributes
    ----------
    rows : array of shape (R,)
        The rows asked for.
    columns : array of shape (R, n)
        Columns, the most probable first; −1 where a row has fewer than n unseen ones.
    probabilities : array of shape (R, n)
        P(o = 1); NaN beside a −1.
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    probabilities: NDArray[np.float64]


def recommend(model: Fitted, rows: ArrayLike, n: int = 10) -> Recommendations:
    """The n columns of each row that were not observed and are most probably 1.

    Where all zeros of a row were treated at once (zeros="collective"), nothing but the ones counts
    as observed here: a zero is what may become a one.

    Parameters
    ----------
    model : BooleanMatrixFactorization
        Fitted.
    rows : positions or labels, shape (R,)
    n : int
        How many, at least 1.

    Examples
    --------
    >>> from boolweave import BooleanMatrixFactorization
    >>> from boolweave.recommend import recommend
    >>> nan = float("nan")
    >>> likes = [[1, 1, 1, 0], [1, 1, nan, nan], [1, 1, 1, 0], [0, 0, 0, 0]]
    >>> model = BooleanMatrixFactorization(n_components=1, random_state=0).fit(likes)
    >>> recommend(model, [1], n=1).columns
    array([[2]])
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    seen = model.result_.observations
    wanted = positions(rows, seen, "row")
    return Recommendations(wanted, *best_unseen(model.result_.predict_proba_rows, seen, wanted, n))


def best_unseen(
    predict: Callable[[NDArray[np.intp]], Iterable[tuple[slice, NDArray[np.float64]]]],
    seen: ObservedEntries,
    wanted: NDArray[np.intp],
    n: int,
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Columns (R, n) and probabilities (R, n) of `Recommendations` for R wanted rows.

    `predict` gives the probabilities of rows at all columns, some rows at a time: which of them,
    and an array (some, N), which is overwritten.
    """
    rows, place = np.unique(wanted, return_inverse=True)
    columns = np.full((len(rows), n), -1, dtype=np.intp)
    probabilities = np.full((len(rows), n), np.nan)
    for some, chances in predict(rows):
        chances[known_cells(seen, rows[some])] = -1  # below all that may be recommended
        for i, chance in enumerate(chances, some.start):
            best = largest(chance, n)
            best = best[chance[best] >= 0]
            columns[i, : len(best)] = best
            probabilities[i, : len(best)] = chance[best]
    return columns[place], probabilities[place]


def known_cells(seen: ObservedEntries, rows: Integers) -> tuple[Integers, Integers]:
    """Positions among some rows, and columns, of what is not to be recommended.

    That is what was observed; where zeros are not listed, the ones.
    """
    if isinstance(seen, SparseObservations):
        ones = seen.ones.take_rows(rows)
        return ones.rows(), ones.columns
    own = seen.take_rows(rows)
    return own.rows_of_entries(), own.indices


def largest(values: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Where the n largest values are: by value, then by position, so that ties are no accident."""
    places = np.arange(len(values))
    if n < len(values):
        places = np.flatnonzero(values >= -np.partition(-values, n - 1)[n - 1])
    return places[np.argsort(-values[places], kind="stable")[:n]]


@dataclass(frozen=True)
class Reason:
    """One factor's part in an entry.

    Attributes
    ----------
    factor : int
        Its number, from 1.
    probability : float
        That both the row and the column belong to it.
    contribution : float
        Its share of the reasons, all of which add up to 1.
    rows, columns : tuples of str
        Names of its members, the surest first.
    sentence : str
    """

    factor: int
    probability: float
    contribution: float
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sentence: str


@dataclass(frozen=True)
class Explanation:
    """Why an entry is what it is.

    Attributes
    ----------
    row, column : str
        Names.
    value : int
        What the factors say, 0 or 1.
    probability : float
        P(o = 1), that a 1 would be observed.
    observed : int or None
        What was observed, if anything.
    reasons : tuple of Reason
        The factors responsible, the strongest first; none where the value is 0.
    sentence : str
    """

    row: str
    column: str
    value: int
    probability: float
    observed: int | None
    reasons: tuple[Reason, ...]
    sentence: str

    def reason(self) -> str:
        """In one line, why the value is what it is."""
        if self.value and self.reasons:
            return "; ".join(reason.sentence for reason in self.reasons)
        if self.reasons:  # an even number of factors under XOR
            return f"because its {len(self.reasons)} factors cancel out"
        return "because no factor has both"


def explain(model: Fitted, row: int | str, column: int | str) -> Explanation:
    """Which factors make an entry a one, with their members by name.

    With the OR product a factor's contribution is its share of −log P(z = 0) = −Σ log(1 − p_k),
    where p_k is the probability that row and column both belong to factor k. With XOR it is its
    share of Σ p_k.

    Parameters
    ----------
    model : BooleanMatrixFactorization
        Fitted.
    row, column : position or label

    Examples
    --------
    >>> from numpy import nan
    >>> from boolweave import BooleanMatrixFactorization
    >>> from boolweave.recommend import explain
    >>> likes = [[1, 1, 0], [1, nan, 0], [0, 0, 0]]
    >>> model = BooleanMatrixFactorization(n_components=1, random_state=0).fit(likes)
    >>> print(explain(model, 0, 1).reasons[0].sentence)
    because factor 1: {row 1, row 2} like {column 1, column 2}
    """
    result = model.result_
    seen = result.observations
    at = positions([row], seen, "row"), positions([column], seen, "column")
    m, n = int(at[0][0]), int(at[1][0])
    value, chance = int(result.predict(*at)[0]), float(result.predict_proba(*at)[0])
    both, shares = result.contributions(m, n)
    reasons = tuple(
        _reason(model, int(k), float(both[k]), float(shares[k]))
        for k in np.argsort(-shares, kind="stable")
        if shares[k] > 0
    )
    row_name, column_name = name_of(seen, m, "row"), name_of(seen, n, "column")
    own = seen.take_rows([m])
    observed = int(own.values[own.indices == n][0]) if n in own.indices else None
    found = Explanation(row_name, column_name, value, chance, observed, reasons, "")
    what = f"{row_name}, {column_name}: {value} with P(observing 1) = {chance:.2f}"
    return replace(found, sentence=f"{what}, {found.reason()}")


def _reason(model: Fitted, k: int, both: float, share: float) -> Reason:
    rows, columns = members(model, k, "row"), members(model, k, "column")
    sentence = f"because factor {k + 1}: {{{some_names(rows)}}} like {{{some_names(columns)}}}"
    return Reason(k + 1, both, share, rows, columns, sentence)


# ---------------------------------------------------------------- names


def members(model: Fitted, k: int, axis: str) -> tuple[str, ...]:
    """Names of the rows or columns of factor k (from 0), the surest first."""
    result = model.result_
    odds = result.row_log_odds[:, k] if axis == "row" else result.column_log_odds[k]
    inside = np.flatnonzero(odds > 0)
    order = inside[np.argsort(-odds[inside], kind="stable")]
    return tuple(name_of(result.observations, int(i), axis) for i in order)


def some_names(names: tuple[str, ...], n: int | None = None) -> str:
    """The first few names, and how many more there are of n, or of those given."""
    size = len(names) if n is None else n
    if size <= NAMES_IN_SENTENCE + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_IN_SENTENCE])} and {size - NAMES_IN_SENTENCE} more"
