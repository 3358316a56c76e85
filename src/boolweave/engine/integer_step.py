"""One iteration on small integers: the data that blocks share, the update, and its results.

A thread calls `update` for its blocks, and a worker of a cluster does so for its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave.engine.backend import Beliefs, State
from boolweave.engine.integer_blocks import NARROW, Code, IntegerBlock, entries_of
from boolweave.engine.integer_sums import (
    IntegerMessages,
    IntegerProblem,
    Prior,
    Variables,
    messages_of,
    quantise,
    requantise,
    scale_of,
)
from boolweave.engine.kernels import groups, variables
from boolweave.engine.kernels import integer_max_sum as kernels
from boolweave.engine.kernels import integer_sum_product as sum_product_kernels
from boolweave.engine.kernels.max_sum import Messages as KernelMessages
from boolweave.engine.kernels.zeros import ones as ones_kernels
from boolweave.runtime.storage import iterate_blocks, release_pages
from boolweave.runtime.types import Array, Floats, Integers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
    run: Callable[[Callable[[Iterable[int]], Updated]], Iterable[Updated]],
    reduce: Callable[[Integers], Integers],
    out: Beliefs | None = None,
) -> None:
    """Do one iteration; the state is replaced by the next, whose beliefs are written to `out`.

    `run` maps a function over groups of blocks, each with column sums of its own; integer sums do
    not depend on the grouping. `reduce` adds up the changes of column sums over all parts of the
    matrix. The residual is the largest change, relative to |L| (max-sum) or in log-odds.
    """
    messages, code = messages_of(state), problem.code
    sums = messages.sums
    quantise(problem, state)
    field = None if state.field is None else state.field.faded(damping)
    setting = (*code.levels.tolist(), damping)
    # With other evidence, all messages may change again.
    if sums.last_setting != setting or problem.per_entry is not None:
        for side in (*sums.rows, sums.columns):
            side.changed[:] = True
        sums.last_setting = setting
    iteration = Iteration(
        problem.model.product == "xor", state.semiring, code, damping,
        int((sums.n_steps + 1) * GOLDEN % 1.0 * kernels.DAMPING_STEPS),
        scale_of(code, state.semiring), sums.columns,
        problem.quantised_row_prior, field, problem.per_entry, None if out is None else out.rows,
    )  # fmt: skip

    def one_group(numbers: Iterable[int]) -> Updated:
        return update(iteration, problem.blocks, messages, numbers)

    change, n_changed, column_sums = 0.0, 0, None
    for moved, changed, column_sum in run(one_group):
        change = max(change, moved)
        n_changed += changed
        column_sums = (
            column_sum if column_sums is None else np.add(column_sums, column_sum, out=column_sums)
        )
    if column_sums is None:  # there are no blocks
        column_sums = np.zeros_like(sums.columns.sums)
    sums.columns.sums += reduce(column_sums)
    scratch = variables.scratch_for(problem.n_components)
    field_of_columns = None if field is None else field.of_columns().T
    of_columns = requantise(
        sums.columns, problem.quantised_column_prior, iteration.scale, scratch, field_of_columns,
        None if out is None else out.columns.T,
    )  # fmt: skip
    state.n_changed = n_changed, of_columns
    sums.n_changes += sum(state.n_changed)
    if state.semiring == "max-sum":
        state.residual = change
    else:  # one step may be due to rounding
        state.residual = damping * max(0.0, change - 1) / sum_product_kernels.LOG_ODDS_STEPS
    ones = sum((ones.sum(axis=0) for ones in sums.ones), np.zeros(2))
    seen_one, seen_zero = (ones / sum_product_kernels.ONES_STEPS).tolist()
    state.expected_ones = (seen_one, seen_zero)
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
    counts = variables.count_covered(xor, block.for_kernels, row_words, column_words)
    for array in entries_of(block):
        release_pages(array)
    return np.array([*counts, 0])


@dataclass(frozen=True, eq=False)
class Iteration:
    """The data that all blocks share in an iteration."""

    xor: bool
    semiring: Literal["max-sum", "sum-product"]
    code: Code
    damping: float
    phase: int  # in 0 … 127
    scale: variables.Scale
    columns: Variables
    row_prior: Prior
    field: Field | None  # as it is after the step
    per_entry: tuple[sum_product_kernels.PerEntry, ...] | None = None  # by block
    row_beliefs: Floats | None = None  # (M, K), where to write them


def update(
    iteration: Iteration,
    blocks: Sequence[IntegerBlock],
    messages: IntegerMessages,
    numbers: Iterable[int],
) -> Updated:
    """Update the messages of some blocks, by their numbers, and the beliefs of their rows.

    Several threads may share an iterator of numbers, if all arrays are in memory. Returns the
    largest change (in max-sum relative to |L|, in sum-product in steps), the number of changed bits
    of the rows, and the changes of the column sums.
    """
    max_sum, sums = iteration.semiring == "max-sum", messages.sums
    columns = _Columns(iteration)
    n_factors = columns.beliefs.shape[1]
    decoding = variables.scratch_for(n_factors)
    if max_sum:
        damping, scratch = kernels.damping_of(iteration.damping), kernels.scratch_for(n_factors)
        of_ones = ones_kernels.scratch_for(n_factors)
    else:
        steps = kernels.damping_of(iteration.damping).steps
        by = sum_product_kernels.Damping(steps, iteration.phase)
        more = sum_product_kernels.scratch_for(n_factors)
    xor = True if iteration.xor else None
    change, n_changed = 0.0, 0

    def arrays_of(i: int) -> tuple[Array, ...]:
        """The large arrays of a block, which may be in files."""
        return (*entries_of(blocks[i]), messages.to_row[i], messages.to_column[i])

    if not isinstance(numbers, Iterator):
        numbers = iterate_blocks(numbers, arrays_of)
    for i in numbers:
        block, rows = blocks[i], sums.rows[i]
        to_row, to_column = messages.to_row[i].reshape(-1), messages.to_column[i].reshape(-1)
        by_entry = max_sum and messages.to_row[i].ndim == 2
        entries = (block.for_kernels, rows.for_kernels(), columns.of(block, by_entry))
        at_entries = (KernelMessages(to_row, to_column), sums.resting[i])
        if by_entry:  # ones alone
            bound = int(iteration.code.bounds[1])
            moved = ones_kernels.max_sum_of_ones(
                *entries, columns.wide, *at_entries, bound, damping, of_ones
            )
        elif max_sum:
            bounds = iteration.code.bounds
            moved = kernels.max_sum(xor, *entries, *at_entries, bounds, damping, scratch)
        else:
            own = None if iteration.per_entry is None else iteration.per_entry[i]
            moved = sum_product_kernels.sum_product(
                xor, *entries, *at_entries, iteration.code.small, by, sums.ones[i], *more, own
            )
        change = max(change, float(moved))
        of_field = None if iteration.field is None else iteration.field.of_rows(block.rows)
        prior = iteration.row_prior.of(block.rows)
        out = None if iteration.row_beliefs is None else iteration.row_beliefs[block.rows]
        n_changed += requantise(rows, prior, iteration.scale, decoding, of_field, out)
    return change, n_changed, columns.changes()


Layout = Literal["dense", "apart", "together"]


class _Columns:
    """Beliefs of the columns in the layouts of blocks, and the changes of their sums.

    There are three layouts. "dense" is (K, N). The others are (N, stride), with each column at a
    multiple of 16 bytes: the changes are "apart" from the beliefs, or "together" with them, if they
    are in 16 bits and both are in the same cache lines; with ten entries per row, that saves an
    eighth of the time. In max-sum, changes are in 16 bits as long as no sum can overflow; if
    messages are by entry, always: the kernel moves full sums to wide ones.
    """

    def __init__(self, iteration: Iteration) -> None:
        self.iteration = iteration
        self.beliefs = iteration.columns.table(iteration.columns.beliefs)
        self.half = groups.padded(self.beliefs.shape[1])
        self._move = int(kernels.LARGEST_MOVE * min(1.0, iteration.damping + 1 / 128)) + 1
        self._beliefs: dict[Layout, NDArray[np.int16]] = {}
        self._changes: dict[tuple[Layout, bool], Array] = {}  # and whether in 16 bits
        self._reach = {"dense": 0, "together": 0}  # the largest possible sum in 16 bits so far
        self._taken = np.zeros_like(iteration.columns.sums)  # in the layout of the column sums

    @cached_property
    def wide(self) -> ones_kernels.Wide:
        """Where sums of 16 bits go that are full."""
        counts = np.zeros(len(self.beliefs), dtype=np.int32)
        return ones_kernels.Wide(self._taken, counts, NARROW // self._move)

    def of(self, block: IntegerBlock, by_entry: bool) -> groups.Variables:
        """The columns in the layout of a block, whose messages may be by entry."""
        reach = 0 if by_entry else block.most_in_column * self._move
        narrow = self.iteration.semiring == "max-sum" and reach <= NARROW
        layout: Layout = "dense" if block.dense else "together" if narrow else "apart"
        if layout not in self._beliefs:
            self._beliefs[layout] = self._zeros(layout, np.dtype(np.int16))
            self._table(layout, self._beliefs[layout])[...] = self.beliefs
        if (layout, narrow) not in self._changes:
            kind = np.dtype(np.int16) if narrow else self._taken.dtype
            together = layout == "together"
            self._changes[layout, narrow] = (
                self._beliefs[layout][self.half :] if together else self._zeros(layout, kind)
            )
        changes = self._changes[layout, narrow]
        if narrow:
            if self._reach[layout] + reach > NARROW:
                self._take(layout, changes)
                self._table(layout, changes)[...] = 0
                self._reach[layout] = 0
            self._reach[layout] += reach
        changed = self.iteration.columns.changed
        return groups.Variables(self._stride(layout), self._beliefs[layout], changes, changed)

    def _stride(self, layout: Layout) -> int:
        return {"dense": len(self.beliefs), "apart": self.half, "together": 2 * self.half}[layout]

    def _zeros(self, layout: Layout, kind: np.dtype[Any]) -> Array:
        n_columns, n_factors = self.beliefs.shape
        size = n_columns * (n_factors if layout == "dense" else self._stride(layout))
        return groups.arrays_apart([(size + self.half + groups.SLACK, kind)])[0]

    def _table(self, layout: Layout, flat: Array) -> Array:
        """An array of one of the layouts as (N, K)."""
        n_columns, n_factors = self.beliefs.shape
        if layout == "dense":
            return flat[: self.beliefs.size].reshape(n_factors, n_columns).T
        stride = self._stride(layout)
        return flat[: n_columns * stride].reshape(n_columns, stride)[:, :n_factors]

    def _take(self, layout: Layout, changes: Array) -> None:
        groups.add_table(self._table(layout, changes), self._taken)

    def changes(self) -> Array:
        """The changes of the sums by all blocks."""
        for (layout, _), changes in self._changes.items():
            self._take(layout, changes)
        return self._taken
