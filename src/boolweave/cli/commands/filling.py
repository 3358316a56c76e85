"""The output of `complete`, in blocks of rows, so that it need not fit into memory as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeGuard, TypeVar

import numpy as np

from boolweave.cli.output import print_message
from boolweave.io.origin import encoded_frames, entries_in_block

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

    from boolweave.cli.common import Model
    from boolweave.cli.options import Keeping, Writing
    from boolweave.data.observations import Observations
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.io import Reading

    Bits = NDArray[np.uint8]
    Chances = NDArray[np.float64]

Number = TypeVar("Number", bound=np.generic)

# Number of entries that are written at a time. Every block costs time for each of its columns, and
# the blocks of a prediction are smaller.
ENTRIES_AT_A_TIME = 1 << 20

# From this number of entries on, which takes seconds, it is announced how many are written.
MANY = 10**7


def values(fitted: Model, seen: Observations, denoise: bool) -> Iterator[NDArray[np.uint8]]:
    """Yield decoded values, (some rows, N) at a time; observed ones stay unless `denoise`."""
    start = 0
    for matrix in _joined(value for _, value in _decoded(fitted)):
        if not denoise:
            row, column, value = entries_in_block(seen, slice(start, start + len(matrix)))
            matrix[row, column] = value
        start += len(matrix)
        yield matrix


def write_table_again(
    fitted: Model, contents: Reading, output: Path | None, kind: str, denoise: bool, mark: bool
) -> None:
    """Write the input table with its missing entries filled in."""
    from boolweave.io.write import write_again

    if contents.encoded is not None:
        frames = encoded_frames(contents.encoded, probabilities(fitted))
        form = contents.encoded.form
    else:
        assert contents.origin is not None
        seen = contents.observations.to_local()
        frames = contents.origin.frames(values(fitted, seen, denoise), seen)
        form = contents.origin.form
    write_again(frames, output, kind, form, mark)


def probabilities(fitted: Model) -> Iterator[NDArray[np.float64]]:
    """Yield P(o = 1), (some rows, N) at a time."""
    for matrix in _joined(chance for _, chance in _chances(fitted)):
        yield matrix.round(6)


def holes(fitted: Model, seen: Observations) -> Iterator[pl.DataFrame]:
    """Yield tables with a line for each missing entry: row, column, value, probability."""
    import polars as pl

    from boolweave.io.write import column_names, row_names

    names = [pl.Series(of(seen), dtype=pl.String) for of in (row_names, column_names)]
    for piece, value, chance in _both(fitted):
        missing = np.ones(value.shape, dtype=bool)
        missing[entries_in_block(seen, piece)[:2]] = False
        m, n = np.nonzero(missing)
        yield pl.DataFrame(
            {
                "row": names[0].gather(m + piece.start),
                "column": names[1].gather(n),
                "value": value[missing],
                "probability": chance[missing].round(6),
            }
        )


def check_size(seen: Observations, kind: str, what: str, max_memory: str | None) -> None:
    """Refuse, before the work begins, an output that would take more memory than --max-memory.

    Text is written block by block, other formats as a whole.
    """
    from boolweave.runtime.free_memory import check_answer, in_bytes

    if max_memory is None or kind in ("csv", "tsv"):
        return
    shape, itemsize = seen.shape, 8 if what == "probabilities" else 1
    # Number of bytes of a line about one missing entry.
    line = 48
    if what == "both":
        shape, itemsize = (seen.n_rows * seen.n_columns - seen.n_observed, 4), line // 4
    remedy = "write CSV, which is kept in memory only in part, or raise --max-memory"
    check_answer(shape, itemsize, f"the output as {kind}", remedy, in_bytes(max_memory))


def check_nothing_written(writing: Writing, keeping: Keeping) -> None:
    """Check the options of a completion of which only the model or the report is wanted."""
    if keeping.model is None and keeping.report is None and not writing.json:
        raise ValueError("--fill none writes no table: add --model or --report")
    if writing.output is not None:
        raise ValueError("--fill none writes no table: leave out --output")


def announce(seen: Observations, what: str, quiet: bool) -> None:
    """Say how much is about to be written, if that takes a while."""
    n_entries = seen.n_rows * seen.n_columns - (seen.n_observed if what == "both" else 0)
    if n_entries >= MANY:
        remedy = "if you only need the model, use --fill none --model FILE"
        print_message(f"writing {n_entries:,} entries; {remedy}", quiet)


def _has_factors(fitted: Model) -> TypeGuard[BooleanMatrixFactorization]:
    """Whether a model is a factorization; the estimators are loaded only when there is a model."""
    from boolweave.estimator import BooleanMatrixFactorization

    return isinstance(fitted, BooleanMatrixFactorization)


def _decoded(fitted: Model) -> Iterator[tuple[slice, Bits]]:
    """Yield the values of all entries, some rows at a time."""
    if _has_factors(fitted):
        yield from fitted.result_.predict_rows()
    else:
        yield from ((piece, value) for piece, value, _ in _both(fitted))


def _chances(fitted: Model) -> Iterator[tuple[slice, Chances]]:
    """Yield P(o = 1) of all entries, some rows at a time."""
    if _has_factors(fitted):
        yield from fitted.result_.predict_proba_rows()
    else:
        yield from fitted.ensemble_.row_pieces(np.arange(fitted.observations_.n_rows))


def _both(fitted: Model) -> Iterator[tuple[slice, Bits, Chances]]:
    """Yield values and probabilities together."""
    if _has_factors(fitted):
        for (piece, value), (_, chance) in zip(_decoded(fitted), _chances(fitted), strict=True):
            yield piece, value, chance
    else:
        for piece, chance in _chances(fitted):
            yield piece, (chance > 0.5).astype(np.uint8), chance


def _joined(pieces: Iterable[NDArray[Number]]) -> Iterator[NDArray[Number]]:
    """Join blocks of rows into larger ones, of about `ENTRIES_AT_A_TIME` entries."""
    waiting: list[NDArray[Number]] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(part.size for part in waiting) >= ENTRIES_AT_A_TIME:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)
