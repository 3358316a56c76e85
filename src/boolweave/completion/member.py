"""The predictions of single members for pairs of a row and a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion.chain import Member

    Doubles = NDArray[np.float64]

# Number of pairs that are predicted at a time.
PIECE = 1 << 18


class Moments(NamedTuple):
    """Mean and variance of the sum of all parts at pairs, each (n,)."""

    mean: Doubles
    variance: Doubles


def moments(member: Member, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Moments:
    """Mean and variance of offsets, directions and layers at pairs of positions."""
    u, v = member.rows[rows].astype(np.float64), member.columns[columns].astype(np.float64)
    du, dv = member.row_variance[rows], member.column_variance[columns]
    mean = u[:, -1] + v[:, -1]
    variance = du[:, -1] + dv[:, -1].astype(np.float64)
    u, v, du, dv = u[:, :-1], v[:, :-1], du[:, :-1], dv[:, :-1]
    mean += np.einsum("nd,nd->n", u, v)
    variance += np.einsum("nd,nd->n", u**2, dv) + np.einsum("nd,nd->n", du, v**2 + dv)
    for layer in member.layers:
        chance = 1 - np.prod(1 - layer.rows[rows] * layer.columns[:, columns].T, axis=1)
        mean += layer.strength * (2 * chance - 1)
        variance += 4 * layer.strength**2 * chance * (1 - chance)
    return Moments(mean, np.asarray(variance, dtype=np.float64))


def probabilities(
    member: Member, rows: NDArray[np.intp], columns: NDArray[np.intp], cut: int = 1
) -> Doubles:
    """P(the observed level is at least `cut`) at pairs of positions, (n,)."""
    from scipy.special import ndtr

    out = np.empty(len(rows))
    for start in range(0, len(rows), PIECE):
        some = slice(start, start + PIECE)
        mean, variance = moments(member, rows[some], columns[some])
        out[some] = ndtr((mean - member.cuts[cut]) / np.sqrt(1 + variance))
    return out
