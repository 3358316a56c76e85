"""Parity-check matrices as alist files, the format of David MacKay's code collection.

    columns rows
    largest column weight, largest row weight
    the weight of each column
    the weight of each row
    for each column, the rows of its ones, counted from 1
    for each row, the columns of its ones, counted from 1

Short lists may be padded with zeros. Text after a # is a comment.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse

from boolweave.decoding.tanner import Matrix, as_sparse_bits, ones_at
from boolweave.io.files import FileError, decoded
from boolweave.runtime.words import shortened


class _Numbers:
    """The whole numbers of a file in order, with their lines for error messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: list[int] = []
        self.lines: list[int] = []
        self.next = 0
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            for token in decoded(line, str(path), number).split("#", 1)[0].split():
                try:
                    self.values.append(int(token))
                except ValueError:
                    shown = repr(shortened(token, 40))
                    raise FileError(
                        str(path),
                        f"expected whole numbers, got {shown}; is this an alist file?",
                        line=number,
                    ) from None
                self.lines.append(number)

    def wrong(self, message: str, back: int = 1) -> ValueError:
        at = min(max(self.next - back, 0), len(self.lines) - 1)
        line = self.lines[at] if self.lines else 1
        return FileError(str(self.path), message, line=line)

    def take(self, count: int, what: str) -> list[int]:
        found = self.values[self.next : self.next + count]
        self.next += len(found)
        if len(found) < count:
            raise self.wrong(
                f"the file ends within {what}: expected {count} numbers, got {len(found)}"
            )
        return found

    def skip_zeros(self) -> None:
        while self.next < len(self.values) and self.values[self.next] == 0:
            self.next += 1

    def take_nonzero(self, count: int, what: str) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            self.skip_zeros()
            found += self.take(1, what)
        return found


def read_alist(path: str | os.PathLike[str]) -> scipy.sparse.csr_array:
    r"""Read a binary matrix from an alist file.

    Parameters
    ----------
    path : path
        The file. Lists may be padded with zeros; lines may have ``#`` comments.

    Returns
    -------
    scipy.sparse.csr_array of shape (rows, columns), uint8

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from boolweave.decoding import read_alist
    >>> text = "3 2\n2 2\n1 2 1\n2 2\n1\n1 2\n2\n1 2\n2 3\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "repeat.alist")
    ...     _ = path.write_text(text)
    ...     read_alist(path).toarray()
    array([[1, 1, 0],
           [0, 1, 1]], dtype=uint8)
    """
    numbers = _Numbers(Path(path))
    n_columns, n_rows = numbers.take(2, "the size of the matrix")
    if n_columns < 1 or n_rows < 1:
        raise numbers.wrong(f"expected columns and rows of at least 1, got {n_columns} {n_rows}")
    numbers.take(2, "the largest weights")
    column_weights = numbers.take(n_columns, "the weights of the columns")
    row_weights = numbers.take(n_rows, "the weights of the rows")
    for name, weights, most in (
        ("column", column_weights, n_rows),
        ("row", row_weights, n_columns),
    ):
        for index, weight in enumerate(weights, 1):
            if not 0 <= weight <= most:
                raise numbers.wrong(
                    f"{name} {index} has weight {weight}, expected 0 to {most}; the file must "
                    f"begin with the number of columns, followed by the number of rows"
                )
    by_column = _read_lists(numbers, "column", column_weights, n_rows)
    by_row = _read_lists(numbers, "row", row_weights, n_columns)
    numbers.skip_zeros()
    if numbers.next < len(numbers.values):
        raise numbers.wrong("there are more numbers after the last row", back=0)
    rows = np.array([row for listed in by_column for row in listed], dtype=np.int64)
    columns = np.repeat(np.arange(n_columns), column_weights)
    matrix = ones_at(rows, columns, (n_rows, n_columns))
    for row, listed in enumerate(by_row):
        start, stop = matrix.indptr[row], matrix.indptr[row + 1]
        if sorted(listed) != matrix.indices[start:stop].tolist():
            raise FileError(
                str(path), f"the list of row {row + 1} does not agree with the lists of the columns"
            )
    return matrix


def _read_lists(numbers: _Numbers, name: str, weights: list[int], size: int) -> list[list[int]]:
    lists = []
    for index, weight in enumerate(weights, 1):
        found = numbers.take_nonzero(weight, f"the list of {name} {index}")
        if min(found, default=1) < 1 or max(found, default=1) > size or len(set(found)) < weight:
            raise numbers.wrong(
                f"the list of {name} {index} must hold {weight} different numbers from 1 to "
                f"{size}, got {found}"
            )
        lists.append([value - 1 for value in found])
    return lists


def write_alist(path: str | os.PathLike[str], matrix: Matrix) -> None:
    """Write a binary matrix as an alist file, with short lists padded with zeros.

    Parameters
    ----------
    path : path
    matrix : (rows, columns) array or sparse matrix of 0 and 1
    """
    by_row = as_sparse_bits(matrix, "matrix")
    by_column = by_row.T.tocsr()
    lines = [f"{by_row.shape[1]} {by_row.shape[0]}"]
    weights = [np.diff(lists.indptr) for lists in (by_column, by_row)]
    lines.append(" ".join(str(int(each.max())) for each in weights))
    lines += [" ".join(map(str, each)) for each in weights]
    for lists, each in zip((by_column, by_row), weights, strict=True):
        for i in range(lists.shape[0]):
            found = lists.indices[lists.indptr[i] : lists.indptr[i + 1]] + 1
            lines.append(" ".join(map(str, [*found, *[0] * int(each.max() - len(found))])))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
