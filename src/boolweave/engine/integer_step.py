"""One iteration on small integers: what blocks are told, what they do, what comes back.

`update` is what a thread does with its blocks, and what a worker of a cluster does with its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave.engine.integer_sums import scale_of, set_beliefs, settle, tell
from boolweave.engine.integers import NARROW, entries_of
from boolweave.engine.kernels import groups, variables
from boolweave.engine.kernels import integer_max_sum as kernels
from boolweave.engine.kernels import integer_sum_product as sum_product_kernels
from boolweave.engine.kernels.max_sum import Messages
from boolweave.engine.kernels.vectors import TILE
from boolweave.runtime.storage import iterate_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from boolweave.engine.field import Field
    from boolweave.engine.integer_sums import Prior, Side, Sums
    from boolweave.engine.integers import Code, CompactBlock

# Its multiples fill the unit interval evenly.
GOLDEN = 0.6180339887498949


def step(
    problem: Any,
    state: Any,
    damping: float,
    run_all: Callable[[Callable[[list[int]], Any], list[list[int]]], Iterable[Any]],
    n_groups: int,
) -> None:
    """One iteration; the state is replaced by the next.

    Where the rows are a share of those on a cluster, columns are summed over all of it. The blocks
    are dealt to `n_groups` groups with one column sum each; `run_all` maps a function over them.
    Integer sums do not depend on the grouping. The residual is the largest change, as a share of L
    (max-sum) or in log-odds.
    """
    sums, code = state.sums, problem.code
    tell(problem, state)
    field = None if state.field is None else state.field.faded(damping)
    setting = (*code.levels.tolist(), damping)
    if sums.last_setting != setting:  # with other evidence nothing is settled
        for side in (*sums.rows, sums.columns):
            side.moved[:] = True
        sums.last_setting = setting
    told = Told(
        problem.model.product == "xor", state.semiring, code, damping,
        int((sums.n_steps + 1) * GOLDEN % 1.0 * kernels.DAMPING_STEPS),
        scale_of(problem, state.semiring), sums.columns,
        problem.settling_priors[0], field,
    )  # fmt: skip

    def one_group(numbers: list[int]) -> tuple[float, int, Any]:
        return update(told, [_member(problem, state, i) for i in numbers])

    change, n_changed, column_sums = 0.0, 0, np.zeros_like(sums.columns.sums)
    numbers = [list(range(g, len(problem.blocks), n_groups)) for g in range(n_groups)]
    for moved, changed, column_sum in run_all(one_group, numbers):
        change = max(change, moved)
        n_changed += changed
        column_sums += column_sum
    if problem.share is not None:
        column_sums = problem.share.reduce(column_sums)
    sums.columns.sums += column_sums
    scratch = variables.scratch_for(problem.n_components)
    field_of_columns = None if field is None else field.of_columns().T
    of_columns = settle(
        sums.columns, problem.settling_priors[1], told.scale, scratch, field_of_columns
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
    set_beliefs(problem, state)
    state.n_iter += 1


def _member(problem: Any, state: Any, i: int) -> Member:
    """Block `i` in a step."""
    return Member(problem.blocks[i], state.sums, i, state.to_row[i], state.to_column[i])


@dataclass(frozen=True, eq=False)
class Told:
    """What a step tells all blocks alike."""

    xor: bool
    semiring: Literal["max-sum", "sum-product"]
    code: Code
    damping: float
    phase: int  # in 0 … 127
    scale: variables.Scale
    columns: Side
    row_prior: Prior
    field: Field | None  # as it is after the step


@dataclass(frozen=True, eq=False)
class Member:
    """A block in a step, and where its arrays are."""

    block: CompactBlock
    sums: Sums
    number: int  # of the block in the lists of `sums`
    to_row: NDArray[Any]
    to_column: NDArray[Any]

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The large arrays, which may be in files."""
        return (*entries_of(self.block), self.to_row, self.to_column)


def update(told: Told, members: list[Member]) -> tuple[float, int, NDArray[Any]]:
    """One iteration of some blocks.

    Returns the largest change (of max-sum as a share of |L|, of sum-product in steps), how many
    bits of the rows changed, and the changes of the column sums, as those are laid out. This is
    what a thread does, and what a worker of a cluster does.
    """
    max_sum = told.semiring == "max-sum"
    columns = _Columns(told)
    n_factors = columns.n_factors
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
        messages = Messages(to_row, to_column)
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
    """What the columns tell blocks, and where these add the changes of their sums.

    Three layouts. "dense": units and sums (K, N). Otherwise the numbers of a column are together,
    from a multiple of 16 bytes on. "apart": units (N, stride), and sums likewise. "together":
    sums of 16 bits behind the units of their column, so that both come with the same cache lines,
    (N, stride); for max-sum, as long as no sum can overflow. Of "dense" sums can have 16 bits, too.
    """

    def __init__(self, told: Told) -> None:
        self.told = told
        self.units = told.columns.table(told.columns.units)
        self.n_columns, self.n_factors = len(self.units), told.columns.n_factors
        self.half = -(-self.n_factors // TILE) * TILE
        self._told: dict[str, NDArray[np.int16]] = {}
        self._wide: dict[str, NDArray[Any]] = {}
        self._narrow: dict[str, NDArray[np.int16]] = {}
        self._reach = {"dense": 0, "together": 0}  # what a sum in 16 bits may have come to
        self._move = int(kernels.LARGEST_MOVE * min(1.0, told.damping + 1 / 128)) + 1

    def of(self, block: CompactBlock) -> groups.Variables:
        """Units, and where to add the changes of sums, as a block takes them."""
        reach = block.most_in_column * self._move
        narrow = self.told.semiring == "max-sum" and reach <= NARROW
        layout = "dense" if block.dense else "together" if narrow else "apart"
        if layout not in self._told:
            self._told[layout] = self._laid_out(layout)
        units = self._told[layout]
        if not narrow:
            if layout not in self._wide:
                self._wide[layout] = self._zeros(layout, self.told.columns.sums.dtype)
            return self._variables(layout, self._wide[layout])
        if layout not in self._narrow:
            self._narrow[layout] = (
                self._zeros(layout, np.int16) if block.dense else units[self.half :]
            )
        if self._reach[layout] + reach > NARROW:
            self._empty(layout)
        self._reach[layout] += reach
        return self._variables(layout, self._narrow[layout])

    def _variables(self, layout: str, sums: NDArray[Any]) -> groups.Variables:
        moved = self.told.columns.moved
        return groups.Variables(self._stride(layout), self._told[layout], sums, moved)

    def _stride(self, layout: str) -> int:
        return {"dense": self.n_columns, "apart": self.half, "together": 2 * self.half}[layout]

    def _zeros(self, layout: str, kind: Any) -> NDArray[Any]:
        per_column = self.n_factors if layout == "dense" else self._stride(layout)
        return groups.arrays_apart([(self.n_columns * per_column + groups.SLACK, kind)])[0]

    def _laid_out(self, layout: str) -> NDArray[np.int16]:
        flat = self._zeros(layout, np.int16)
        if layout == "dense":
            flat[: self.units.size].reshape(self.units.T.shape)[...] = self.units.T
        else:
            records = flat[: -groups.SLACK].reshape(self.n_columns, self._stride(layout))
            records[:, : self.n_factors] = self.units
        return flat

    @cached_property
    def _taken(self) -> NDArray[Any]:
        """Changes taken out of the layouts, as sums of columns are kept."""
        return np.zeros_like(self.told.columns.sums)

    def _take(self, layout: str, part: NDArray[Any]) -> None:
        if layout == "dense":
            turned = part[: self.units.size].reshape(self.units.T.shape).T
            self.told.columns.table(self._taken)[...] += turned
        else:
            taken = self._taken[: -groups.SLACK]
            variables.add_records(part, self._stride(layout), self.n_factors, taken)

    def _empty(self, layout: str) -> None:
        """Take sums of 16 bits before they overflow."""
        self._take(layout, self._narrow[layout])
        if layout == "dense":
            self._narrow[layout][:] = 0
        else:
            self._told[layout][: -groups.SLACK].reshape(-1, 2 * self.half)[:, self.half :] = 0
        self._reach[layout] = 0

    def changes(self) -> NDArray[Any]:
        """The changes of the sums by all blocks."""
        for parts in (self._narrow, self._wide):
            for layout, part in parts.items():
                self._take(layout, part)
        return self._taken
