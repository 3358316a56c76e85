"""One iteration on small integers: what blocks are told, what they do, what comes back.

`update` is what a thread does with its blocks, and what a worker of a cluster does with its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave.engine.backend import State
from boolweave.engine.integer_blocks import NARROW, Code, IntegerBlock, entries_of
from boolweave.engine.integer_sums import (
    IntegerProblem,
    Prior,
    Sums,
    Variables,
    own,
    quantise,
    scale_of,
    settle,
)
from boolweave.engine.kernels import groups, variables
from boolweave.engine.kernels import integer_max_sum as kernels
from boolweave.engine.kernels import integer_sum_product as sum_product_kernels
from boolweave.engine.kernels.max_sum import Messages as KernelMessages
from boolweave.runtime.storage import iterate_blocks, release_pages
from boolweave.runtime.types import Array, Integers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from boolweave.engine.field import Field

# Largest change, changed bits of the rows, changes of the column sums.
Updated = tuple[float, int, Integers]

# Its multiples fill the unit interval evenly.
GOLDEN = 0.6180339887498949


def step(
    problem: IntegerProblem,
    state: State,
    damping: float,
    run: Callable[[Callable[[list[int]], Updated]], Iterable[Updated]],
    reduce: Callable[[Integers], Integers],
) -> None:
    """Do one iteration; the state is replaced by the next.

    `run` maps a function over groups of blocks, each with column sums of its own; integer sums do
    not depend on the grouping. `reduce` adds the changes of column sums up over all parts of the
    matrix. The residual is the largest change, as a share of |L| (max-sum) or in log-odds.
    """
    messages, code = own(state), problem.code
    sums = messages.sums
    quantise(problem, state)
    field = None if state.field is None else state.field.faded(damping)
    setting = (*code.levels.tolist(), damping)
    if sums.last_setting != setting:  # with other evidence nothing is settled
        for side in (*sums.rows, sums.columns):
            side.moved[:] = True
        sums.last_setting = setting
    told = Told(
        problem.model.product == "xor", state.semiring, code, damping,
        int((sums.n_steps + 1) * GOLDEN % 1.0 * kernels.DAMPING_STEPS),
        scale_of(code, state.semiring), sums.columns,
        problem.quantised_row_prior, field,
    )  # fmt: skip

    def one_group(numbers: list[int]) -> Updated:
        members = [
            Member(problem.blocks[i], sums, i, messages.to_row[i], messages.to_column[i])
            for i in numbers
        ]
        return update(told, members)

    change, n_changed, column_sums = 0.0, 0, np.zeros_like(sums.columns.sums)
    for moved, changed, column_sum in run(one_group):
        change = max(change, moved)
        n_changed += changed
        column_sums += column_sum
    sums.columns.sums += reduce(column_sums)
    scratch = variables.scratch_for(problem.n_components)
    field_of_columns = None if field is None else field.of_columns().T
    of_columns = settle(
        sums.columns, problem.quantised_column_prior, told.scale, scratch, field_of_columns
    )
    state.n_changed = n_changed, of_columns
    sums.n_changes += sum(state.n_changed)
    if state.semiring == "max-sum":
        state.residual = change
    else:  # one step is rounding
        state.residual = damping * max(0.0, change - 1) / sum_product_kernels.LOG_ODDS_STEPS
    ones = sum((ones.sum(axis=0) for ones in sums.ones), np.zeros(2))
    zero, one = (ones / sum_product_kernels.ONES_STEPS).tolist()
    state.expected_ones = (zero, one)
    sums.n_steps += 1
    state.field = field
    state.n_iter += 1


def n_covered(
    problem: IntegerProblem,
    block: IntegerBlock,
    row_words: NDArray[np.uint64],
    column_words: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """Count the entries of each code that the decoded product makes 1 in a block, (3,)."""
    xor = True if problem.model.product == "xor" else None
    counts = variables.count_covered(xor, block.for_kernels(), row_words, column_words)
    for array in entries_of(block):
        release_pages(array)
    return np.array([*counts, 0])


@dataclass(frozen=True, eq=False)
class Told:
    """What a step tells all blocks alike."""

    xor: bool
    semiring: Literal["max-sum", "sum-product"]
    code: Code
    damping: float
    phase: int  # in 0 … 127
    scale: variables.Scale
    columns: Variables
    row_prior: Prior
    field: Field | None  # as it is after the step


@dataclass(frozen=True, eq=False)
class Member:
    """A block in a step, and where its arrays are."""

    block: IntegerBlock
    sums: Sums
    number: int  # of the block in the lists of `sums`
    to_row: Array
    to_column: Array

    def arrays(self) -> tuple[Array, ...]:
        """The large arrays, which may be in files."""
        return (*entries_of(self.block), self.to_row, self.to_column)


def update(told: Told, members: list[Member]) -> Updated:
    """One iteration of some blocks.

    Returns the largest change (of max-sum as a share of |L|, of sum-product in steps), how many
    bits of the rows changed, and the changes of the column sums, as those are laid out. This is
    what a thread does, and what a worker of a cluster does.
    """
    max_sum = told.semiring == "max-sum"
    columns = _Columns(told)
    n_factors = columns.units.shape[1]
    decoding = variables.scratch_for(n_factors)
    scratch: Any
    if max_sum:
        damping, scratch = kernels.damping_of(told.damping), kernels.scratch_for(n_factors)
    else:
        steps = kernels.damping_of(told.damping).steps
        by = sum_product_kernels.Damping(steps, told.phase)
        scratch = sum_product_kernels.scratch_for(n_factors)
    xor = True if told.xor else None
    change, n_changed = 0.0, 0
    for member in iterate_blocks(members, Member.arrays):
        block, sums, i = member.block, member.sums, member.number
        side = sums.rows[i]
        to_row, to_column = member.to_row.reshape(-1), member.to_column.reshape(-1)
        messages = KernelMessages(to_row, to_column)
        arguments = (
            xor, block.for_kernels(), side.for_kernels(), columns.of(block), messages, sums.still[i]
        )  # fmt: skip
        if max_sum:
            moved = kernels.max_sum(*arguments, told.code.bounds, damping, scratch)
        else:
            moved = sum_product_kernels.sum_product(
                *arguments, told.code.small, by, sums.ones[i], *scratch
            )
        change = max(change, float(moved))
        of_rows = None if told.field is None else told.field.of_rows(block.rows)
        prior = told.row_prior.of(block.rows)
        n_changed += settle(side, prior, told.scale, decoding, of_rows)
    return change, n_changed, columns.changes()


class _Columns:
    """Beliefs of the columns as blocks take them, and where these add the changes of their sums.

    Two layouts: for dense blocks (K, N), for sparse ones (N, stride), the numbers of a column
    together from a multiple of 16 bytes on. Changes are added up in 16 bits as long as no sum can
    overflow, in max-sum: a sparse iteration then takes up to a fifth less time.
    """

    def __init__(self, told: Told) -> None:
        self.told = told
        self.units = told.columns.table(told.columns.units)
        self._move = int(kernels.LARGEST_MOVE * min(1.0, told.damping + 1 / 128)) + 1
        self._beliefs: dict[bool, NDArray[np.int16]] = {}  # by whether blocks are dense
        self._changes: dict[tuple[bool, bool], Array] = {}  # and whether in 16 bits
        self._reach = {True: 0, False: 0}  # what a sum in 16 bits may have come to
        self._taken = np.zeros_like(told.columns.sums)  # as sums of columns are kept

    def of(self, block: IntegerBlock) -> groups.Variables:
        """The columns as a block takes them."""
        dense, reach = block.dense, block.most_in_column * self._move
        narrow = self.told.semiring == "max-sum" and reach <= NARROW
        if dense not in self._beliefs:
            self._beliefs[dense] = self._zeros(dense, np.int16)
            self._table(dense, self._beliefs[dense])[...] = self.units
        if (dense, narrow) not in self._changes:
            kind = np.int16 if narrow else self._taken.dtype
            self._changes[dense, narrow] = self._zeros(dense, kind)
        changes = self._changes[dense, narrow]
        if narrow:
            if self._reach[dense] + reach > NARROW:
                self._take(dense, changes)
                changes[:] = 0
                self._reach[dense] = 0
            self._reach[dense] += reach
        stride = len(self.units) if dense else groups.padded(self.units.shape[1])
        return groups.Variables(stride, self._beliefs[dense], changes, self.told.columns.moved)

    def _zeros(self, dense: bool, kind: Any) -> Array:
        n_columns, n_factors = self.units.shape
        size = n_columns * (n_factors if dense else groups.padded(n_factors))
        return groups.arrays_apart([(size + groups.SLACK, kind)])[0]

    def _table(self, dense: bool, flat: Array) -> Array:
        """An array of one of the layouts as (N, K)."""
        n_columns, n_factors = self.units.shape
        if dense:
            return flat[: self.units.size].reshape(n_factors, n_columns).T
        return flat[: -groups.SLACK].reshape(n_columns, -1)[:, :n_factors]

    def _take(self, dense: bool, changes: Array) -> None:
        self.told.columns.table(self._taken)[...] += self._table(dense, changes)

    def changes(self) -> Array:
        """The changes of the sums by all blocks."""
        for (dense, _), changes in self._changes.items():
            self._take(dense, changes)
        return self._taken
