"""What `complete` writes, in pieces of rows: it need not be in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.runtime.types import Integers

# Entries in a piece.
PIECE = 1 << 20

# Bytes of a line about one missing entry.
LINE = 48


def values(
    fitted: BooleanMatrixFactorization, seen: Observations, denoise: bool
) -> Iterator[NDArray[np.uint8]]:
    """Decoded values, (some rows, N) at a time; what was observed stays, unless `denoise`."""
    for piece, matrix in fitted.result_.predict_rows():
        if not denoise:
            row, column, value = _observed(seen, piece)
            matrix[row, column] = value
        yield matrix


def probabilities(
    fitted: BooleanMatrixFactorization, seen: Observations
) -> Iterator[NDArray[np.float64]]:
    """P(o = 1), (some rows, N) at a time."""
    for _, matrix in fitted.result_.predict_proba_rows():
        yield matrix.round(6)


def holes(fitted: BooleanMatrixFactorization, seen: Observations) -> Iterator[pl.DataFrame]:
    """A line for each entry that was missing: row, column, value, probability."""
    import polars as pl

    from boolweave.io.write import column_names, row_names

    names = [pl.Series(of(seen), dtype=pl.String) for of in (row_names, column_names)]
    for piece in _pieces(seen):
        missing = np.ones((piece.stop - piece.start, seen.n_columns), dtype=bool)
        missing[_observed(seen, piece)[:2]] = False
        m, n = np.nonzero(missing)
        m += piece.start
        yield pl.DataFrame(
            {
                "row": names[0].gather(m),
                "column": names[1].gather(n),
                "value": fitted.predict(m, n),
                "probability": fitted.predict_proba(m, n).round(6),
            }
        )


def check_size(seen: Observations, kind: str, what: str, max_memory: str | None) -> None:
    """Refuse before the work is done what would be more than --max-memory when it is written.

    Text is written piece by piece, other formats as a whole.
    """
    from boolweave.fit.memory import check_answer, in_bytes

    if max_memory is None or kind in ("csv", "tsv"):
        return
    shape, itemsize = seen.shape, 8 if what == "probabilities" else 1
    if what == "both":
        shape, itemsize = (seen.n_rows * seen.n_columns - seen.n_observed, 4), LINE // 4
    remedy = "write CSV, of which only a piece is in memory at a time, or raise --max-memory"
    check_answer(shape, itemsize, f"the output as {kind}", remedy, in_bytes(max_memory))


def _pieces(seen: Observations) -> Iterator[slice]:
    """The rows, some at a time; at least one piece, also of no rows."""
    step = max(1, PIECE // max(1, seen.n_columns))
    for start in range(0, max(1, seen.n_rows), step):
        yield slice(start, min(start + step, seen.n_rows))


def _observed(seen: Observations, piece: slice) -> tuple[Integers, Integers, NDArray[np.uint8]]:
    """Row, counted from the first of the piece, column and value of its observed entries."""
    per_row = np.diff(seen.indptr[piece.start : piece.stop + 1])
    own = slice(seen.indptr[piece.start], seen.indptr[piece.stop])
    return np.repeat(np.arange(len(per_row)), per_row), seen.indices[own], seen.values[own]
