"""Triples of row, column and value, and pairs of row and column, in text tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.observations import Absent, Duplicates, Observations
from boolweave.data.sparse import check_room
from boolweave.io.delimited import (
    MISSING,
    NUMERIC_BLANKS,
    WRONG,
    Chunk,
    NotPlain,
    bits_above,
    checked_chunks,
    codes_of_texts,
    numbers_of_texts,
    parse,
    refuse_cell,
)
from boolweave.io.dialect import Dialect
from boolweave.io.files import FileError
from boolweave.io.options import Above, Options

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

# A table from number to number is made for keys up to this range; wider keys are sorted.
_TABLE_RANGE = 50_000_000


def read_triples(path: Path, name: str, dialect: Dialect, options: Options) -> Observations:
    """Row, column and value in each line; or row and column of the ones."""
    above = options.above
    try:
        rows, columns, values = _read_triples(path, name, dialect, above, plain=True)
    except NotPlain:
        rows, columns, values = _read_triples(path, name, dialect, above, plain=False)
    row, row_labels = rows.finish()
    column, column_labels = columns.finish()
    if above is not None:
        values = bits_above(values, above)
    shape = len(row_labels), len(column_labels)
    absent = options.unnamed if dialect.layout == "pairs" else options.absent or "missing"
    plain = dialect.layout == "triples" and shape[1] and not (values == MISSING).any()
    if plain and absent == "missing":
        # As `Observations.from_triples` does it, but in the memory that is there: row, column and
        # value in one number, sorted. Entries that come twice are left to the general way.
        packed = row
        packed *= shape[1]
        packed += column
        del row, column
        packed <<= 1
        packed |= values
        packed.sort()
        if not (packed[1:] >> 1 == packed[:-1] >> 1).any():
            return _from_sorted(packed, shape, row_labels, column_labels)
        row, column = np.divmod(packed >> 1, shape[1])
        values = (packed & 1).astype(np.uint8)
    return observe(
        row, column, values, row_labels, column_labels, name,
        duplicates=options.duplicates, absent=absent,
    )  # fmt: skip


def _from_sorted(
    packed: NDArray[np.int64], shape: tuple[int, int], row_labels: NDArray[np.str_],
    column_labels: NDArray[np.str_],
) -> Observations:  # fmt: skip
    """Observations of the numbers (row · N + column) · 2 + value, in their order."""
    values = (packed & 1).astype(np.uint8)
    packed >>= 1
    starts = np.arange(shape[0] + 1, dtype=np.int64) * shape[1]
    indptr = np.searchsorted(packed, starts)
    packed %= shape[1]
    columns: NDArray[Any] = packed.astype(np.int32 if shape[1] < 2**31 else np.int64)
    return Observations(shape, indptr, columns, values, row_labels, column_labels)


def observe(
    row: NDArray[np.int64],
    column: NDArray[np.int64],
    bits: NDArray[np.uint8],
    row_labels: NDArray[np.str_] | None,
    column_labels: NDArray[np.str_] | None,
    name: str,
    *,
    shape: tuple[int, int] | None = None,
    duplicates: Duplicates = "error",
    absent: Absent = "missing",
) -> Observations:
    """Observations of coded triples; the messages speak of the file."""
    if shape is None:
        assert row_labels is not None and column_labels is not None
        shape = (len(row_labels), len(column_labels))
    known = bits != MISSING
    try:
        if absent == "zero":
            from scipy.sparse import coo_array

            check_size(shape, name)
            cells = bits if known.all() else np.where(known, bits, np.float32(np.nan))
            return Observations.from_sparse(
                coo_array((cells, (row, column)), shape=shape), absent="zero",
                row_labels=row_labels, column_labels=column_labels, duplicates=duplicates,
            )  # fmt: skip
        if not known.all():
            row, column, bits = row[known], column[known], bits[known]
        return Observations.from_triples(
            row, column, bits, shape=shape, row_labels=row_labels, column_labels=column_labels,
            duplicates=duplicates,
        )  # fmt: skip
    except ValueError as error:
        message = str(error).replace('pass `duplicates="majority"`', "say --duplicates majority")
        raise FileError(name, message) from None


def check_size(shape: tuple[int, int], name: str) -> None:
    """Refuse matrices whose zeros are too many to be written down."""
    try:
        check_room(shape, "say --absent missing to use only the entries that the file holds")
    except MemoryError as error:
        raise FileError(name, str(error)) from None


def _read_triples(
    path: Path, name: str, dialect: Dialect, above: Above | None, plain: bool
) -> tuple[_Keys, _Keys, NDArray[Any]]:
    import polars as pl

    at = dialect.picked()
    kinds: dict[str, Any] = {f"f{i}": pl.String for i in range(dialect.n_fields)}
    if plain:
        kinds[f"f{at[0]}"] = kinds[f"f{at[1]}"] = pl.Int64
        if len(at) > 2:
            kinds[f"f{at[2]}"] = pl.UInt8 if above is None else pl.Float64
    rows, columns = _Keys(), _Keys()
    values: list[NDArray[Any]] = [np.empty(0, np.uint8 if above is None else np.float64)]
    for chunk in checked_chunks(path, name, dialect):
        if plain and not chunk.plain:
            raise NotPlain
        frame = parse(chunk, name, dialect, kinds, NUMERIC_BLANKS if plain else None)
        for keys, i in ((rows, at[0]), (columns, at[1])):
            series = frame[f"f{i}"]
            if series.null_count():
                if plain:
                    raise NotPlain
                where = int(series.is_null().arg_max() or 0)
                raise FileError(
                    name, "expected the name of a row or column, got an empty field; fill it in or "
                    "remove the line", line=int(chunk.lines[where]), column=repr(dialect.names[i]),
                )  # fmt: skip
            keys.add(series)
        if len(at) == 2:
            values.append(np.ones(frame.height, np.uint8))
        else:
            values.append(_triple_values(frame[f"f{at[2]}"], chunk, name, dialect, above, plain))
    return rows, columns, np.concatenate(values)


def _triple_values(
    series: pl.Series, chunk: Chunk, name: str, dialect: Dialect, above: Above | None, plain: bool
) -> NDArray[Any]:
    if plain and above is not None:
        ratings = series.fill_null(np.nan).to_numpy()
        if np.isinf(ratings).any():
            raise NotPlain
        return ratings
    if plain:
        codes = series.fill_null(MISSING).to_numpy()
        if (codes > 1).sum() != series.null_count():
            raise NotPlain
        return codes
    if above is None:
        values: NDArray[Any] = codes_of_texts(series)
        wrong = values == WRONG
    else:
        values, wrong = numbers_of_texts(series)
    if wrong.any():
        where = int(np.argmax(wrong))
        column = dialect.names[dialect.picked()[2]]
        shown = repr(column) if dialect.header else column
        refuse_cell(name, int(chunk.lines[where]), shown, series[where], above)
    return values


class _Keys:
    """Names of rows or columns, numbered in the order of their first appearance."""

    def __init__(self) -> None:
        self.numbers: list[NDArray[np.signedinteger[Any]]] = []
        self.codes: list[NDArray[np.int64]] = []
        self.index: dict[str, int] = {}

    def add(self, series: pl.Series) -> None:
        """Take the names of one chunk, either always numbers or always texts."""
        import polars as pl

        if series.dtype == pl.Int64:
            numbers = series.to_numpy()
            small = len(numbers) and numbers.min() >= -(2**31) and numbers.max() < 2**31
            self.numbers.append(numbers.astype(np.int32) if small else numbers)
            return
        distinct = series.unique(maintain_order=True)
        number = np.array(
            [self.index.setdefault(key, len(self.index)) for key in distinct.to_list()], np.int64
        )
        local = pl.DataFrame({"key": series}).join(
            pl.DataFrame({"key": distinct, "code": number}), on="key", how="left",
            maintain_order="left",
        )  # fmt: skip
        self.codes.append(local["code"].to_numpy())

    def finish(self) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
        """The number of each key, and the labels in that order."""
        if not self.numbers:
            codes = np.concatenate([*self.codes, np.empty(0, np.int64)])
            return codes, np.array(list(self.index), dtype=np.str_)
        keys = np.concatenate(self.numbers)
        self.numbers = []
        keys = keys.astype(np.int64, copy=False)
        low, distinct = int(keys.min()), None
        if int(keys.max()) - low < _TABLE_RANGE:
            keys -= low
        else:
            distinct, keys = np.unique(keys, return_inverse=True)
        # Written from the back, the first appearance of a key is what stays.
        first = np.full(int(keys.max()) + 1, len(keys), dtype=np.int64)
        first[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(keys))]
        labels = (order + low if distinct is None else distinct[order]).astype(np.str_)
        first[order] = np.arange(len(order))
        return first[keys], labels
