"""One iteration on small integers: what blocks are told, what they do, what comes back.

`update` is what a thread does with its blocks, and what a worker of a cluster does with its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave import compact_kernels as kernels
from boolweave import compact_sum_product_kernels as sum_product_kernels
from boolweave.compact import NARROW, entries_of, unit_of
from boolweave.storage import in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from boolweave.compact import Code, CompactBlock, Sums

    Floats = NDArray[np.floating[Any]]

# Its multiples fill the unit interval evenly.
GOLDEN = 0.6180339887498949


def step(
    problem: Any,
    semiring: Literal["max-sum", "sum-product"],
    to_row: list[Any],
    to_column: list[Any],
    row_belief: Floats,
    column_belief: Floats,
    sums: Sums,
    damping: float,
    run_all: Callable[[Callable[[list[int]], Any], list[list[int]]], Iterable[Any]],
    n_groups: int,
) -> tuple[float, tuple[float, float]]:
    """One iteration; messages and `sums` are updated.

    Where the rows are a share of those on a cluster, columns are summed over all of it. The blocks
    are dealt to `n_groups` groups with one column sum each; `run_all` maps a function over them.
    Integer sums do not depend on the grouping. Returns the largest change, as a share of L
    (max-sum) or in log-odds, and the expected ones of `State`.
    """
    code, max_sum = problem.code, semiring == "max-sum"
    limit = kernels.MAX_SUM_LIMIT if max_sum else sum_product_kernels.SUM_PRODUCT_LIMIT
    scale = np.float32(1 / unit_of(problem, semiring))
    rows = kernels.to_units(row_belief, scale, np.float32(limit))
    columns = kernels.to_units(column_belief, scale, np.float32(limit))
    row_moved, column_moved = _moved(sums, rows, columns)
    setting = (*code.levels.tolist(), damping)
    if sums.last_setting != setting:  # with other evidence nothing is settled
        row_moved[:], column_moved[:] = True, True
        sums.last_setting = setting
    sums.n_steps += 1
    told = Told(
        problem.model.product == "xor", semiring, code, damping,
        int(sums.n_steps * GOLDEN % 1.0 * kernels.DAMPING_STEPS), columns, column_moved,
        sums.columns.dtype,
    )  # fmt: skip

    def one_group(numbers: list[int]) -> tuple[int, Any]:
        return update(told, [
            Member(
                problem.blocks[i], rows[problem.blocks[i].rows],
                row_moved[problem.blocks[i].rows], sums.rows[problem.blocks[i].rows],
                to_row[i], to_column[i], sums.still[i], sums.ones[i],
            )
            for i in numbers
        ])  # fmt: skip

    change, column_sums = 0, np.zeros_like(sums.columns)
    groups = [list(range(g, len(problem.blocks), n_groups)) for g in range(n_groups)]
    for moved, column_sum in run_all(one_group, groups):
        change = max(change, moved)
        column_sums += column_sum
    if problem.share is not None:
        column_sums = problem.share.reduce(column_sums)
    sums.columns += column_sums
    expected = [ones.sum(axis=0) for ones in sums.ones]
    sums.last_rows, sums.last_columns = rows, columns
    if max_sum:
        residual = change / code.steps
    else:  # one step is rounding
        residual = damping * max(0, change - 1) / sum_product_kernels.LOG_ODDS_STEPS
    ones = sum(expected, np.zeros(2)) / sum_product_kernels.ONES_STEPS
    return residual, (float(ones[0]), float(ones[1]))


@dataclass(frozen=True, eq=False)
class Told:
    """What a step tells all blocks alike."""

    xor: bool
    semiring: Literal["max-sum", "sum-product"]
    code: Code
    damping: float
    phase: int  # in 0 … 127
    columns: NDArray[np.int16]  # (K, N) beliefs in units
    column_moved: NDArray[np.bool_]  # (N,)
    sum_type: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class Member:
    """A block in a step: what its rows are told, where it adds up, and what it keeps."""

    block: CompactBlock
    rows: NDArray[np.int16]  # (rows, K) beliefs in units
    row_moved: NDArray[np.bool_]  # (rows,)
    row_sums: NDArray[Any]  # (rows, K), added to
    to_row: NDArray[Any]
    to_column: NDArray[Any]
    still: NDArray[np.bool_]
    ones: NDArray[np.int64]

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The large arrays, which may be in files."""
        return (*entries_of(self.block), self.to_row, self.to_column)


def update(told: Told, members: list[Member]) -> tuple[int, NDArray[Any]]:
    """One iteration of some blocks; also the largest change and the change of column sums (K, N).

    This is what a thread does, and what a worker of a cluster does.
    """
    code, max_sum = told.code, told.semiring == "max-sum"
    n_factors, n_columns = told.columns.shape
    scratch = (kernels if max_sum else sum_product_kernels).scratch(n_factors)
    steps, *rounding = kernels.rounding(told.damping)
    xor = True if told.xor else None
    bounds, small = code.bounds, code.small
    changes = _ColumnChanges(told)
    change = 0
    for member in in_turn(members, Member.arrays):
        block = member.block
        dense = True if block.dense else None
        row_sums = _flat(member.row_sums.size, told.sum_type)
        fixed = (dense, n_columns, block.indptr, block.index, block.codes)
        read = (n_factors, _with_slack(member.rows), changes.beliefs(block.dense))
        settled = (member.row_moved, told.column_moved, member.still)
        kept = (member.to_row.reshape(-1), member.to_column.reshape(-1))
        added = (row_sums, changes.sums(block))
        if max_sum:
            moved = kernels.max_sum(
                xor, *fixed, bounds, steps, *rounding, *read, *settled, *kept, *added, *scratch
            )
        else:
            moved = sum_product_kernels.sum_product(
                xor, block.top + block.start, *fixed, small, steps, np.int16(told.phase), *read,
                *settled, member.ones, *kept, *added, *scratch,
            )  # fmt: skip
        member.row_sums[...] += row_sums[: member.row_sums.size].reshape(member.row_sums.shape)
        change = max(change, int(moved))
    return change, changes.total()


class _ColumnChanges:
    """Beliefs of the columns and the changes of their sums, laid out for dense and sparse blocks.

    The changes of max-sum are added up in 16 bits as long as no sum can overflow.
    """

    def __init__(self, told: Told) -> None:
        self.told = told
        self.by_layout: dict[bool, NDArray[np.int16]] = {}
        self.wide: dict[bool, NDArray[Any]] = {}
        self.narrow: dict[bool, NDArray[np.int16]] = {}
        self.reach = dict.fromkeys((True, False), 0)  # what a sum in 16 bits may have come to
        self.move = int(kernels.LARGEST_MOVE * min(1.0, told.damping + 1 / 128)) + 1

    def beliefs(self, dense: bool) -> NDArray[np.int16]:
        """(K, N) if dense, else (N, K), flat."""
        if dense not in self.by_layout:
            columns = self.told.columns if dense else self.told.columns.T
            self.by_layout[dense] = _with_slack(columns)
        return self.by_layout[dense]

    def sums(self, block: CompactBlock) -> NDArray[Any]:
        """Where a block is to add its changes."""
        size, dense = self.told.columns.size, block.dense
        reach = block.most_in_column * self.move
        if self.told.semiring != "max-sum" or reach > NARROW:
            if dense not in self.wide:
                self.wide[dense] = _flat(size, self.told.sum_type)
            return self.wide[dense]
        if dense not in self.narrow:
            self.narrow[dense] = _flat(size, np.int16)
        if self.reach[dense] + reach > NARROW:
            self._empty(dense)
        self.reach[dense] += reach
        return self.narrow[dense]

    def _empty(self, dense: bool) -> None:
        narrow = self.narrow[dense]
        self.wide[dense] = self.wide.get(dense, 0) + narrow.astype(self.told.sum_type)
        narrow[:] = 0
        self.reach[dense] = 0

    def total(self) -> NDArray[Any]:
        """The changes of all blocks, (K, N)."""
        n_factors, n_columns = self.told.columns.shape
        total = np.zeros((n_factors, n_columns), dtype=self.told.sum_type)
        for parts in (self.narrow, self.wide):
            for dense, part in parts.items():
                if dense:
                    total += part[: total.size].reshape(total.shape)
                else:
                    kernels.add_turned(part, total)
        return total


def _flat(size: int, kind: Any) -> NDArray[Any]:
    """Zeros, with slack behind them."""
    return np.zeros(size + kernels.SLACK, dtype=kind)


def _with_slack(array: NDArray[np.int16]) -> NDArray[np.int16]:
    """A flat copy with slack behind."""
    flat = _flat(array.size, array.dtype)
    flat[: array.size].reshape(array.shape)[...] = array
    return flat


def _moved(
    sums: Sums, rows: NDArray[np.int16], columns: NDArray[np.int16]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows (M,) and columns (N,) changed what they tell since the last step."""
    if sums.last_rows is None or sums.last_columns is None:
        return np.ones(len(rows), dtype=bool), np.ones(columns.shape[1], dtype=bool)
    return (
        kernels.which_moved(rows, sums.last_rows, True),
        kernels.which_moved(columns, sums.last_columns, False),
    )
