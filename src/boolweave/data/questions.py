"""Which columns of an encoded table belong to one question, and how they depend on each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.runtime.types import Doubles

Form: TypeAlias = Literal["levels", "thresholds"]


@dataclass(frozen=True, eq=False)
class Questions:
    """The question of each of N columns of zeros and ones.

    It can be passed wherever `groups` are expected: as an array, it is the question of each column.

    Attributes
    ----------
    groups : array of int, shape (N,)
        The question of each column. The entries of a row in the columns of one question are one
        answer, which is hidden as a whole.
    levels : array of int, shape (N,)
        Columns with the same number are the levels of one category, of which exactly one is 1;
        −1 for other columns.
    thresholds : array of int, shape (N,)
        Columns with the same number are increasing thresholds of one answer: after the first 0 of
        a row, all are 0; −1 for other columns.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.data.questions import Questions
    >>> colour = Questions.of_forms([("levels", 3), (None, 1)], [0, 0, 0, 1])
    >>> colour.consistent(np.array([[0.5, 0.5, 0.25, 0.9]]))
    array([[0.4, 0.4, 0.2, 0.9]])
    """

    groups: NDArray[np.int64]
    levels: NDArray[np.int64]
    thresholds: NDArray[np.int64]

    @classmethod
    def of(cls, groups: ArrayLike, n_columns: int) -> Questions:
        """Questions as they are, or those of plain groups, whose columns do not exclude others."""
        of_column = np.asarray(groups)
        if of_column.shape != (n_columns,) or of_column.dtype.kind not in "iu":
            raise ValueError(
                f"groups must have a whole number for each of the {n_columns} columns, but got "
                f"{of_column.dtype} of shape {of_column.shape}"
            )
        if isinstance(groups, Questions):
            return groups
        alone = np.full(n_columns, -1, dtype=np.int64)
        return cls(of_column.astype(np.int64), alone, alone)

    @classmethod
    def of_forms(cls, forms: list[tuple[Form | None, int]], groups: list[int]) -> Questions:
        """Questions of consecutive columns: the form and the number of columns of each part."""
        numbers = np.repeat(np.arange(len(forms)), [size for _, size in forms])

        def of_form(wanted: Form) -> NDArray[np.int64]:
            chosen = [form == wanted and size > 1 for form, size in forms]
            return np.where(np.repeat(chosen, [size for _, size in forms]), numbers, -1)

        return cls(np.array(groups, dtype=np.int64), of_form("levels"), of_form("thresholds"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The question of each column."""
        return np.array(self.groups, dtype=dtype)

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        forms = [form for form, _ in self.parts]
        return (
            f"Questions({self.n_questions} of {len(self)} columns: {forms.count('levels')} with "
            f"levels, {forms.count('thresholds')} with thresholds)"
        )

    @cached_property
    def parts(self) -> list[tuple[Form, NDArray[np.intp]]]:
        """The form and the columns of each set of levels or thresholds."""
        found: list[tuple[Form, NDArray[np.intp]]] = []
        forms: tuple[tuple[Form, NDArray[np.int64]], ...] = (
            ("levels", self.levels),
            ("thresholds", self.thresholds),
        )
        for form, numbers in forms:
            for number in np.unique(numbers[numbers >= 0]):
                found.append((form, np.flatnonzero(numbers == number)))
        return found

    @property
    def n_questions(self) -> int:
        """Number of questions."""
        return len(np.unique(self.groups))

    def consistent(self, chances: Doubles) -> Doubles:
        """P(1) of all columns, (R, N), such that levels add up to 1 and thresholds decrease.

        Levels are divided by their sum. Thresholds that increase are replaced by their mean, the
        nearest decreasing numbers.
        """
        out = chances.copy()
        for form, columns in self.parts:
            if form == "levels":
                some = chances[:, columns]
                out[:, columns] = some / some.sum(axis=1, keepdims=True)
            else:
                out[:, columns] = self._decreasing(chances[:, columns])
        return out

    def consistent_entries(
        self, rows: NDArray[Any], columns: NDArray[Any], chances: Doubles
    ) -> Doubles:
        """The same for entries (n,); answers that are not there as a whole stay as they are."""
        lines, place = np.unique(rows, return_inverse=True)
        dense = np.full((len(lines), len(self)), np.nan)
        dense[place, columns] = chances
        found = self.consistent(dense)[place, columns]
        return np.where(np.isnan(found), chances, found)

    @staticmethod
    def _decreasing(chances: Doubles) -> Doubles:
        """The nearest numbers (R, n) that decrease, and leave a little to each of n + 1 levels."""
        sums = np.pad(np.cumsum(chances, axis=1), ((0, 0), (1, 0)))
        n = chances.shape[1]
        size = np.arange(1, n + 1) - np.arange(n)[:, None]  # of the stretch from i to k
        means = (sums[:, None, 1:] - sums[:, :-1, None]) / np.maximum(size, 1)
        means = np.where(size > 0, means, -np.inf)
        largest = np.maximum.accumulate(means[:, :, ::-1], axis=2)[:, :, ::-1]
        at_most = np.minimum.accumulate(largest, axis=1)
        decreasing = np.diagonal(at_most, axis1=1, axis2=2)
        # No level is impossible, also where two thresholds are equally probable.
        least = 1e-3
        below = np.arange(n, 0, -1) * least
        return np.asarray((decreasing + below) / (1 + (n + 1) * least))

    def answers(
        self, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], chances: Doubles
    ) -> Iterator[tuple[Doubles, NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the answers in entries (n,): probabilities (answers, outcomes), and the outcomes.

        The position of the first entry of each answer comes last.

        An answer of which only some columns are among the entries, or which none of its levels
        describes, is several yes/no answers.
        """
        alone = np.ones(len(rows), dtype=bool)
        key = np.asarray(rows, dtype=np.int64) * len(self) + columns
        order = np.argsort(key, kind="stable")
        for form, own in self.parts:
            lines = np.unique(rows[np.isin(columns, own)])
            wanted = lines[:, None].astype(np.int64) * len(self) + own
            place = np.searchsorted(key[order], wanted)
            at = order[np.minimum(place, len(order) - 1)]
            bits, chance = values[at], chances[at]
            if form == "levels":
                right = bits.sum(axis=1) == 1
                outcome = bits.argmax(axis=1)
            else:
                right = (np.diff(bits.astype(np.int8), axis=1) <= 0).all(axis=1)
                outcome = bits.sum(axis=1).astype(np.intp)
                chance = -np.diff(
                    np.pad(chance, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
                )
            right &= (key[at] == wanted).all(axis=1)
            alone[at[right]] = False
            yield chance[right], outcome[right], at[right, 0]
        rest = np.flatnonzero(alone)
        yield np.column_stack([1 - chances, chances])[rest], values[rest].astype(np.intp), rest
