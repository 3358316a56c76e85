"""Probabilities of whole rows, by products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.completion.ensemble import limited_log_odds
from boolweave.model.odds import sigmoid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from boolweave.completion.chain import Member
    from boolweave.completion.ensemble import Ensemble, PlainBoolean
    from boolweave.data.observations import Observations

    Doubles = NDArray[np.float64]
    Positions = NDArray[np.intp]

# Number of pairs of a row and a column that are computed at a time, with a few times 8 bytes each.
PIECE = 1 << 18


def row_probabilities(ensemble: Ensemble, rows: Positions) -> Doubles:
    """P(o = 1) of some rows at all columns.

    This is the same as `Ensemble.probabilities` of all these pairs, but faster. It takes a few
    arrays of the size of the answer; `row_pieces` processes many rows in bounded memory.

    Parameters
    ----------
    ensemble : Ensemble
        Of M rows and N columns.
    rows : array of int, shape (R,)

    Returns
    -------
    array of shape (R, N)

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import Observations
    >>> from boolweave.completion.answers.dense import row_probabilities
    >>> from boolweave.completion.chain import Chain, Structure
    >>> from boolweave.completion.ensemble import Ensemble, Family
    >>> from boolweave.completion.table import Table
    >>> votes = Observations.from_data([[1, 1, 0], [1, np.nan, 0], [0, 1, np.nan]])
    >>> chain = Chain.start(Table.of(votes), Structure(), np.random.default_rng(0))
    >>> family = Family(Structure(), (chain.member(10, 20),), 1.0)
    >>> chances = row_probabilities(Ensemble(votes.shape, (family,), None, 0.0), np.array([1, 2]))
    >>> chances.shape, bool(chances[0, 1] > chances[0, 2])
    ((2, 3), True)
    """
    total = np.full((len(rows), ensemble.shape[1]), ensemble.intercept)
    for family in ensemble.families:
        mean = np.zeros_like(total)
        for member in family.members:
            mean += _by_member(member, rows, ensemble.cut)
        mean /= len(family.members)
        total += family.weight * limited_log_odds(mean)
    if ensemble.plain is not None:
        total += ensemble.plain.weight * limited_log_odds(_by_plain(ensemble.plain, rows))
    return sigmoid(total)


def completed(ensemble: Ensemble, seen: Observations) -> Doubles:
    """The observed values, and P(o = 1) of all other entries of the rows of an ensemble, (M, N)."""
    filled = row_probabilities(ensemble, np.arange(seen.n_rows))
    filled[seen.rows_of_entries(), seen.indices] = seen.values
    return filled


def row_pieces(ensemble: Ensemble, rows: Positions) -> Iterator[tuple[slice, Doubles]]:
    """Yield `row_probabilities`, some rows at a time: a slice, and an array (some, N)."""
    step = max(1, PIECE // max(1, ensemble.shape[1]))
    for start in range(0, len(rows), step):
        some = slice(start, min(start + step, len(rows)))
        yield some, row_probabilities(ensemble, rows[some])


def _by_member(member: Member, rows: Positions, cut: int) -> Doubles:
    """P(the observed level is at least `cut`), (R, N)."""
    from scipy.special import ndtr

    u, v = member.rows[rows].astype(np.float64), member.columns.astype(np.float64)
    du, dv = (
        variance.astype(np.float64)
        for variance in (member.row_variance[rows], member.column_variance)
    )
    mean = u[:, -1:] + v[:, -1] - member.cuts[cut]
    variance = du[:, -1:] + dv[:, -1] + 1
    u, v, du, dv = u[:, :-1], v[:, :-1], du[:, :-1], dv[:, :-1]
    mean += u @ v.T
    variance += u**2 @ dv.T
    variance += du @ (v**2 + dv).T
    for layer in member.layers:
        chance = 1 - _product(layer.rows[rows], layer.columns, 1.0)
        mean += layer.strength * (2 * chance - 1)
        variance += 4 * layer.strength**2 * chance * (1 - chance)
    mean /= np.sqrt(variance, out=variance)
    out: Doubles = ndtr(mean, out=mean)
    return out


def _by_plain(plain: PlainBoolean, rows: Positions) -> Doubles:
    """P(o = 1) by the plain Boolean model, (R, N)."""
    if plain.product == "or":
        chance = 1 - _product(plain.rows[rows], plain.columns, 1.0)
    else:
        chance = (1 - _product(plain.rows[rows], plain.columns, 2.0)) / 2
    return plain.one_given_zero + (plain.one_given_one - plain.one_given_zero) * chance


def _product(x: NDArray[np.float32], y: NDArray[np.float32], times: float) -> Doubles:
    """Π_k (1 − times · x_k y_k) of rows (R, K) and columns (K, N), (R, N)."""
    out = np.ones((len(x), y.shape[1]))
    for of_rows, of_columns in zip(x.T.astype(np.float64), y.astype(np.float64), strict=True):
        out *= 1 - np.multiply.outer(times * of_rows, of_columns)
    return out
