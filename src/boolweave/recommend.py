"""What to show to whom, and why: views on a fitted model, without inference of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.labels import positions
from boolweave.engine.prediction import decoded_rows, latent_rows
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# How many members of a factor its sentence names.
NAMES_IN_SENTENCE = 4


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


def recommend(model: Any, rows: ArrayLike, n: int = 10) -> Recommendations:
    """The n columns of each row that were not observed and are most probably 1.

    Parameters
    ----------
    model : BooleanMatrixFactorization
        Fitted.
    rows : positions or labels, shape (R,)
    n : int
        How many, at least 1.

    Returns
    -------
    Recommendations

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
    wanted = positions(rows, model.observations_, "row")
    seen = model.observations_
    n_columns = seen.shape[1]
    columns = np.full((len(wanted), n), -1, dtype=np.intp)
    probabilities = np.full((len(wanted), n), np.nan)
    for i, (row, chance) in enumerate(zip(wanted, each_row(model, wanted), strict=True)):
        unseen = np.ones(n_columns, dtype=bool)
        unseen[seen.indices[seen.indptr[row] : seen.indptr[row + 1]]] = False
        candidates = np.flatnonzero(unseen)
        best = candidates[_largest(chance[candidates], n)]
        columns[i, : len(best)] = best
        probabilities[i, : len(best)] = chance[best]
    return Recommendations(wanted, columns, probabilities)


def _largest(values: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Where the n largest values are: by value, then by position, so that ties are no accident."""
    places = np.arange(len(values))
    if n < len(values):
        places = np.flatnonzero(values >= -np.partition(-values, n - 1)[n - 1])
    return places[np.argsort(-values[places], kind="stable")[:n]]


def each_row(
    model: Any, rows: NDArray[np.intp], kind: str = "observed"
) -> Iterator[NDArray[np.float64]]:
    """P(o = 1), or of kind "latent" P(z = 1), of all columns, (N,), one row after the other."""
    columns = np.arange(model.observations_.shape[1])[None]
    for piece, latent in latent_rows(*_factors(model), rows):
        if kind == "observed":
            at = rows[piece][:, None], columns, model.observations_.shape
            latent = model.noise_.seen_one(latent, *at)
        yield from latent


def decoded(model: Any, rows: NDArray[np.intp]) -> Iterator[NDArray[np.uint8]]:
    """The decoded value of all columns, shape (N,), for one row after the other."""
    if model.marginal_:
        for _, latent in latent_rows(*_factors(model), rows):
            yield from (latent > 0.5).astype(np.uint8)
    else:
        for _, product in decoded_rows(*_factors(model), rows):
            yield from product


def _factors(model: Any) -> tuple[Any, Any, Any]:
    return model.row_log_odds_, model.column_log_odds_, model.product


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


def explain(model: Any, row: Any, column: Any) -> Explanation:
    """Which factors make an entry a one, with their members by name.

    With the OR product a factor's contribution is its share of −log P(z = 0) = −Σ log(1 − p_k),
    where p_k is the probability that row and column both belong to factor k. With XOR it is its
    share of Σ p_k.

    Parameters
    ----------
    model : BooleanMatrixFactorization
        Fitted.
    row, column : position or label

    Returns
    -------
    Explanation

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
    m = int(positions([row], model.observations_, "row")[0])
    n = int(positions([column], model.observations_, "column")[0])
    value = int(model.predict([m], [n])[0])
    chance = float(model.predict_proba([m], [n])[0])
    both = sigmoid(model.row_log_odds_[m]) * sigmoid(model.column_log_odds_[:, n])
    member = (model.row_log_odds_[m] > 0) & (model.components_[:, n] > 0)
    weight = both if model.product == "xor" else -np.log1p(-np.minimum(both, 1 - 1e-12))
    if value and not member.any():  # several factors that are each unlikely, but not together
        member = weight >= 0.1 * weight.sum()
    weight = np.where(member, weight, 0.0)
    total = float(weight.sum())
    reasons = tuple(
        _reason(model, int(k), float(both[k]), float(weight[k] / total) if total else 1.0)
        for k in np.argsort(-weight, kind="stable")
        if member[k]
    )
    row_name, column_name = name_of(model, m, "row"), name_of(model, n, "column")
    seen = model.observations_
    entries = slice(seen.indptr[m], seen.indptr[m + 1])
    at = np.flatnonzero(seen.indices[entries] == n)
    observed = int(seen.values[entries][at[0]]) if len(at) else None
    if value and reasons:
        why = "; ".join(reason.sentence for reason in reasons)
    elif reasons:  # an even number of factors under XOR
        why = f"because its {len(reasons)} factors cancel out"
    else:
        why = "because no factor has both"
    sentence = f"{row_name}, {column_name}: {value} with P(observing 1) = {chance:.2f}, {why}"
    return Explanation(row_name, column_name, value, chance, observed, reasons, sentence)


def _reason(model: Any, k: int, both: float, share: float) -> Reason:
    rows, columns = members(model, k, "row"), members(model, k, "column")
    sentence = f"because factor {k + 1}: {{{some(rows)}}} like {{{some(columns)}}}"
    return Reason(k + 1, both, share, rows, columns, sentence)


# ---------------------------------------------------------------- names


def members(model: Any, k: int, axis: str) -> tuple[str, ...]:
    """Names of the rows or columns of factor k (from 0), the surest first."""
    odds = model.row_log_odds_[:, k] if axis == "row" else model.column_log_odds_[k]
    inside = (odds > 0) if axis == "row" else (model.components_[k] > 0)
    order = np.argsort(-odds, kind="stable")
    return tuple(name_of(model, int(i), axis) for i in order if inside[i])


def name_of(model: Any, position: int, axis: str) -> str:
    """The label of a row or column, or its number from 1."""
    seen = model.observations_
    labels = seen.row_labels if axis == "row" else seen.column_labels
    return f"{axis} {position + 1}" if labels is None else str(labels[position])


def some(names: tuple[str, ...]) -> str:
    """The first few names, and how many more there are."""
    if len(names) <= NAMES_IN_SENTENCE + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_IN_SENTENCE])} and {len(names) - NAMES_IN_SENTENCE} more"
