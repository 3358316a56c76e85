"""Results in the form of the input table: pandas, polars or Arrow.

Internally, rows and columns are positions, and names are labels. A user gets back the names of the
input, in a table of the same library. Tables are read in `boolweave.data.convert`.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.convert import has_label_column, is_sparse, is_table
from boolweave.data.labels import name_for_labels, whole_numbers
from boolweave.data.observed import ObservedEntries
from boolweave.runtime.types import Array

Axis = Literal["row", "column"]

# An object of pandas, polars or Arrow: a table, a series, an index.
Table: TypeAlias = Any

Library = Literal["pandas", "polars", "pyarrow"]

# Numbers of rows and columns that an HTML table shows.
ROWS_SHOWN, COLUMNS_SHOWN = 12, 14


@dataclass(frozen=True, eq=False)
class Frame:
    """The form of a table: its library, and the names that labels stand for.

    Attributes
    ----------
    library : {"pandas", "polars", "pyarrow"}
        Other kinds of tables use polars.
    rows, columns : pandas Index, optional
        The original names, which need not be text.
    label : str, optional
        The name of the column that holds the names of the rows, or of the index.
    in_column : bool
        Whether a pandas table has the names of the rows in its first column.

    Examples
    --------
    >>> import polars
    >>> from boolweave.data.frames import Frame
    >>> Frame.of(polars.DataFrame({"name": ["Ann", "Bo"], "tea": [1, 0]})).label
    'name'
    >>> Frame.of([[1, 0]]) is None
    True
    """

    library: Library
    rows: Table = None
    columns: Table = None
    label: str | None = None
    in_column: bool = False

    @classmethod
    def of(cls, data: Table) -> Frame | None:
        """The form of a table; None for arrays, sparse matrices and observations."""
        library = _library(data)
        if library is None:
            return None
        label = _label_column(data)
        if library != "pandas":
            return cls(library, label=label)
        if label is not None:
            return cls(library, data.index, data.columns[1:], label, in_column=True)
        name = data.index.name
        return cls(library, data.index, data.columns, None if name is None else str(name))

    @classmethod
    def stored(cls, kept: Mapping[str, str | None] | None) -> Frame | None:
        """The form stored in a file; polars if its library is not installed."""
        if kept is None:
            return None
        label = kept.get("label")
        libraries: tuple[Library, ...] = ("pandas", "polars", "pyarrow")
        library = next((each for each in libraries if each == kept["library"]), None)
        if library is None or not isinstance(label, str | None):
            raise ValueError("'table' must name a library and a label")
        return cls(library if find_spec(library) else "polars", label=label)

    def as_stored(self) -> dict[str, str | None]:
        """The form as it is stored in a file."""
        return {"library": self.library, "label": self.label}

    # ------------------------------------------------------------ names

    def names(self, seen: ObservedEntries, axis: Axis, at: NDArray[np.intp] | None = None) -> Table:
        """Names of rows or columns, of all or of those at some positions.

        These are the names in the table, or else labels, or else positions.
        """
        own = self.rows if axis == "row" else self.columns
        if own is not None and len(own) == seen.shape[0 if axis == "row" else 1]:
            return own if at is None else own.take(at)
        names = names_of(seen, axis, at)
        if self.library == "pandas" and names.dtype.kind == "U":
            numbers = whole_numbers(names)
            names = names.astype(object) if numbers is None else numbers
        return names

    # ------------------------------------------------------------ tables

    def table(self, columns: Mapping[str, ArrayLike]) -> Table:
        """A table of columns of one length."""
        if self.library == "pandas":
            return _pandas().DataFrame({name: _flat(values) for name, values in columns.items()})
        return self._of_polars(polars_table(columns))

    def matrix(self, values: Array, seen: ObservedEntries) -> Table:
        """A matrix with the rows and columns of `seen` as a table."""
        names = self.names(seen, "column")
        if self.library == "pandas":
            pandas, rows = _pandas(), self.names(seen, "row")
            index = rows if isinstance(rows, pandas.Index) else pandas.Index(rows, name=self.label)
            frame = pandas.DataFrame(values, index=index, columns=names)
            if self.in_column and seen.row_labels is not None:
                frame.insert(0, self.label, seen.row_labels.astype(object))
            return frame
        cells: dict[str, ArrayLike] = {}
        texts = [str(name) for name in names]
        if seen.row_labels is not None:
            label = name_for_labels(texts, self.label or "row")
            cells[label] = seen.row_labels.tolist()
        for j, name in enumerate(texts):
            cells[name] = values[:, j]
        return self._of_polars(polars_table(cells))

    def _of_polars(self, table: Table) -> Table:
        if self.library != "pyarrow":
            return table
        # A NUL in a name is a panic in polars.
        plain = table.rename({name: str(j) for j, name in enumerate(table.columns)})
        return plain.to_arrow().rename_columns(table.columns)


def is_matrix(asked: Table) -> bool:
    """Whether rows are given by their entries, as a matrix or table, not by name or number.

    Examples
    --------
    >>> from boolweave.data.frames import is_matrix
    >>> is_matrix([[1, 0, 1]]), is_matrix(["Ann", "Bo"]), is_matrix(3)
    (True, False, False)
    """
    if isinstance(asked, ObservedEntries) or is_sparse(asked):
        return True
    if isinstance(asked, list | tuple):
        return bool(asked) and np.ndim(asked[0]) == 1
    return _library(asked) is not None or np.ndim(asked) == 2


def only_row(seen: ObservedEntries) -> np.intp:
    """The position of the only row of a matrix; raise if there are more rows."""
    if seen.n_rows != 1:
        raise ValueError(
            f"expected one row, got a matrix of {seen.n_rows} rows; explain one row at a time"
        )
    return np.intp(0)


def like(asked: Table, values: Array, name: str) -> Table:
    """Values in the form of `asked`: a series with its index for a series, else an array.

    Examples
    --------
    >>> import numpy as np
    >>> import polars
    >>> from boolweave.data.frames import like
    >>> like(polars.Series(["Ann", "Bo"]), np.array([0.5, 0.25]), "probability").name
    'probability'
    >>> like(["Ann", "Bo"], np.array([0.5, 0.25]), "probability")
    array([0.5 , 0.25])
    """
    home, kind = type(asked).__module__.partition(".")[0], type(asked).__name__
    if values.ndim != 1 or kind != "Series" or len(asked) != len(values):
        return values
    if home == "pandas":
        return _pandas().Series(values, index=asked.index, name=name)
    if home == "polars":
        import polars as pl

        return pl.Series(name, values)
    return values


def polars_table(columns: Mapping[str, ArrayLike]) -> Table:
    """A polars table of columns of one length; text may hold lone surrogates."""
    import polars as pl

    series = []
    for name, values in columns.items():
        flat = _flat(values)
        if flat.dtype.kind == "O":
            texts = [
                None if text is None else text.encode("utf-8", "backslashreplace").decode()
                for text in flat
            ]
            series.append(pl.Series(name, texts, dtype=pl.String))
        else:
            series.append(pl.Series(name, flat))
    return pl.DataFrame(series)


def names_of(seen: ObservedEntries, axis: Axis, at: NDArray[np.intp] | None = None) -> Array:
    """Labels of rows or columns, of all or of those at some positions; else the positions.

    Examples
    --------
    >>> from boolweave import Observations
    >>> from boolweave.data.frames import names_of
    >>> names_of(Observations.from_data([[1, 0], [0, 1]]), "row")
    array([0, 1])
    """
    labels = seen.row_labels if axis == "row" else seen.column_labels
    if labels is not None:
        return labels if at is None else labels[at]
    return np.arange(seen.shape[0 if axis == "row" else 1]) if at is None else np.asarray(at)


# ---------------------------------------------------------------- HTML


def html_table(
    head: Sequence[str],
    lines: Sequence[Sequence[str]],
    caption: str = "",
    marked: NDArray[np.bool_] | None = None,
) -> str:
    """A small HTML table; `marked` cells (lines, cells) have a coloured background."""
    escape = html.escape
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption style='text-align:left'>{escape(caption)}</caption>")
    parts.append("<thead><tr>" + "".join(f"<th>{escape(name)}</th>" for name in head))
    parts.append("</tr></thead><tbody>")
    for i, line in enumerate(lines):
        cells = []
        for j, cell in enumerate(line):
            on = marked is not None and marked[i, j]
            style = " style='background:#ffe9a8;color:#222'" if on else ""
            cells.append(f"<td{style}>{escape(cell)}</td>")
        parts.append(f"<tr>{''.join(cells)}</tr>")
    return "".join([*parts, "</tbody></table>"])


# ---------------------------------------------------------------- libraries


def _library(data: Table) -> Library | None:
    """The library of a table in memory; None if it is not a table."""
    home, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if kind == "DataFrame" and home in ("pandas", "polars"):
        return "pandas" if home == "pandas" else "polars"
    if home == "pyarrow" and kind in ("Table", "RecordBatch"):
        return "pyarrow"
    if isinstance(data, np.ndarray | list | tuple) or not hasattr(data, "columns"):
        return None
    return "polars" if is_table(data) else None


def _pandas() -> Table:
    import pandas

    return pandas


def _label_column(data: Table) -> str | None:
    """The name of the first column of a table, if it holds the labels of the rows."""
    import narwhals.stable.v1 as nw

    frame = nw.from_native(data, eager_only=True)
    return str(frame.columns[0]) if has_label_column(frame) else None


def _flat(values: ArrayLike) -> Array:
    """An array of numbers, or of texts as objects."""
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind == "U" else array
