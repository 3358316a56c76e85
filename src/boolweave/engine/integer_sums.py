"""Sums of integer messages, and the quantised beliefs that follow from them.

Sums are updated by the changes of the messages; they are exact in any order. The next iteration
needs only beliefs in whole units, and the log-posterior their signs; one pass over the sums
computes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.backend import Messages, Problem, Semiring, State, from_steps
from boolweave.engine.integer_blocks import (
    LARGEST_EVIDENCE,
    NARROW,
    Code,
    IntegerBlock,
    entries_of,
)
from boolweave.engine.kernels import groups, integer_max_sum, variables
from boolweave.engine.kernels import integer_sum_product as sum_product_kernels
from boolweave.engine.kernels.variables import COARSE, FINE, LARGEST_PRIOR
from boolweave.engine.kernels.vectors import LANES
from boolweave.model.odds import HARD_BELIEF
from boolweave.runtime.storage import iterate_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.runtime.types import Array, Floats, Integers

# With fewer variables than this, compiling a kernel for sums of 16 bits takes more time than it
# saves.
WORTH_IT = 1 << 18


@dataclass(eq=False)
class Variables:
    """The variables of n rows or columns, K each; flat arrays have `SLACK` extra numbers."""

    n_factors: int
    sums: Array  # (n · K,) of their messages, in units
    beliefs: NDArray[np.int16]  # (n · K,) in units
    changed: NDArray[np.bool_]  # (n,) whether they changed in the last iteration
    words: NDArray[np.uint64]  # (n, ⌈K/64⌉) decoded bits
    totals: NDArray[np.int64]  # (2,) priors of the ones, in the steps of `variables.decoded`

    @classmethod
    def of(cls, n: int, n_factors: int, kind: type[np.signedinteger]) -> Variables:
        """Make variables without messages, all changed."""
        size = n * n_factors + groups.SLACK
        return cls(
            n_factors,
            np.zeros(size, dtype=kind),
            np.zeros(size, dtype=np.int16),
            np.ones(n, dtype=bool),
            np.zeros((n, -(-n_factors // 64)), dtype=np.uint64),
            np.zeros(2, dtype=np.int64),
        )

    def for_kernels(self) -> groups.Variables:
        """The variables in the form of kernels."""
        return groups.Variables(self.n_factors, self.beliefs, self.sums, self.changed)

    def table(self, flat: Array) -> Array:
        """One of the flat arrays as (n, K), without the slack."""
        return flat[: -groups.SLACK].reshape(-1, self.n_factors)


@dataclass(eq=False)
class Sums:
    """Sums of messages, which are updated by changes of messages, and what can be skipped."""

    rows: list[Variables]  # by block
    columns: Variables
    resting: list[NDArray[np.bool_]]  # by block: which chunks did not change
    ones: list[NDArray[np.int64]]  # by block: expected ones of each chunk, (chunks, 2), in 2⁻²⁰
    last_setting: tuple[float, ...] | None = None  # levels and damping
    n_steps: int = 0
    n_changes: int = 0  # of decoded bits, in all steps


@dataclass(frozen=True, eq=False)
class IntegerProblem(Problem):
    """A problem in which all entries have the same evidence, unless `per_entry` is given."""

    code: Code
    blocks: tuple[IntegerBlock, ...]
    most_in_column: int  # no column of the whole matrix has more entries than this
    # By block, if evidence differs from entry to entry; only for sum-product
    per_entry: tuple[sum_product_kernels.PerEntry, ...] | None = None
    by_entry: bool = False  # whether max-sum messages are (entries + 1, K), in sparse blocks

    def is_by_entry(self, block: IntegerBlock) -> bool:
        """Whether the max-sum messages of each entry of a block are stored together."""
        return self.by_entry and not block.dense

    @cached_property
    def quantised_row_prior(self) -> Prior:
        """The prior of rows."""
        return Prior(self.row_prior, self.n_components)

    @cached_property
    def quantised_column_prior(self) -> Prior:
        """The prior of columns."""
        return Prior(np.ascontiguousarray(self.column_prior.T), self.n_components)

    def stored_zeros(self, block: IntegerBlock) -> NDArray[np.uint8]:
        """Neutral max-sum messages in their stored form, (groups, 16)."""
        if self.model.product == "xor":
            return np.full((block.n_groups, LANES), integer_max_sum.XOR_OFFSET, dtype=np.uint8)
        return block.to_lanes(
            np.array([integer_max_sum.OR_STEPS, 0, 0], dtype=np.uint8)[block.codes]
        )

    def offsets(self, block: IntegerBlock, semiring: Semiring) -> NDArray[np.float32]:
        """The offsets of the stored messages of every entry, (entries,)."""
        if semiring == "sum-product":
            return np.zeros(block.n_entries, dtype=np.float32)
        return block.from_lanes(self.stored_zeros(block)[:, None, :])[:, 0].astype(np.float32)


@dataclass(eq=False)
class IntegerMessages(Messages):
    """Messages as small integers, and their sums.

    One array for each block, (groups, K, 16), or (entries + 1, K): see `IntegerProblem.by_entry`.
    """

    to_row: list[Integers]
    to_column: list[Integers]
    sums: Sums

    def __post_init__(self) -> None:
        # the problem whose priors are in the quantised beliefs of `sums`
        self.quantised_for: IntegerProblem | None = None


@dataclass(frozen=True, eq=False)
class Score:
    """The contribution of the rows of a problem, or of some of them, to the log-posterior."""

    covered: NDArray[np.int64]  # (3,) entries of each code that the decoded product makes 1
    rows: NDArray[np.int64]  # (2,) prior log-odds of the ones of X, in steps
    columns: NDArray[np.int64]  # (2,) and of Y

    def log_posterior(self, problem: IntegerProblem) -> float:
        """Add evidence and priors to the log-probability of zeros."""
        priors = from_steps(self.rows + self.columns)
        return float(problem.log_probability_of_zeros + self.covered @ problem.code.levels + priors)


# ---------------------------------------------------------------- the sums


def no_sums(problem: IntegerProblem, semiring: Semiring) -> Sums:
    """Make the sums of neutral messages."""
    K = problem.n_components
    of_rows, of_columns = _sum_types(problem, semiring)
    return Sums(
        rows=[Variables.of(block.stop - block.start, K, of_rows) for block in problem.blocks],
        columns=Variables.of(problem.shape[1], K, of_columns),
        resting=[np.zeros(block.n_chunks, dtype=bool) for block in problem.blocks],
        ones=[np.zeros((block.n_chunks, 2), dtype=np.int64) for block in problem.blocks],
    )


def _sum_types(problem: IntegerProblem, semiring: Semiring) -> tuple[type[np.signedinteger], ...]:
    """Types for rows and columns: int32, or int64 if the sum of a row or column could overflow.

    This assumes that all messages change from one limit to the other. Max-sum sums of many short
    rows have 16 bits.
    """
    in_row = max((int(np.diff(block.indptr).max(initial=0)) for block in problem.blocks), default=0)
    in_column = problem.most_in_column
    largest = 2 * LARGEST_EVIDENCE * sum_product_kernels.LOG_ODDS_STEPS
    kind = np.int32 if max(in_row, in_column) * largest < 2**31 else np.int64
    many = problem.shape[0] * problem.n_components >= WORTH_IT
    narrow = many and semiring == "max-sum" and in_row * integer_max_sum.LARGEST_MOVE <= NARROW
    return np.int16 if narrow else kind, kind


def sums_of(
    problem: IntegerProblem, semiring: Semiring, to_row: list[Integers], to_column: list[Integers]
) -> Sums:
    """Add up given messages."""
    sums = no_sums(problem, semiring)
    columns = sums.columns
    blocks = zip(problem.blocks, to_row, to_column, sums.rows, strict=True)
    for block, phi, psi, side in iterate_blocks(
        blocks, lambda part: (*entries_of(part[0]), *part[1:3])
    ):
        offsets = problem.offsets(block, semiring)
        row_of = np.repeat(np.arange(block.stop - block.start), np.diff(block.indptr))
        for array, at, of in ((phi, row_of, side), (psi, block.columns, columns)):
            out = of.table(of.sums).T
            for k in range(problem.n_components):
                values = block.from_lanes(array[:, k : k + 1])[:, 0] - offsets
                out[k] += np.bincount(at, values, out.shape[1]).astype(out.dtype)
    return sums


# ---------------------------------------------------------------- quantised beliefs


def unit_of(code: Code, semiring: Semiring) -> float:
    """Log-odds of one step of a message."""
    return code.unit if semiring == "max-sum" else 1 / sum_product_kernels.LOG_ODDS_STEPS


def scale_of(code: Code, semiring: Semiring) -> variables.Scale:
    """The relation between log-odds and the units of a code."""
    unit = unit_of(code, semiring)
    max_sum = semiring == "max-sum"
    limit = integer_max_sum.MAX_SUM_LIMIT if max_sum else sum_product_kernels.SUM_PRODUCT_LIMIT
    return variables.Scale(np.float32(unit), np.float32(1 / unit), np.float32(limit))


def messages_of(state: State) -> IntegerMessages:
    """The messages of a state of this back end."""
    assert isinstance(state.messages, IntegerMessages)
    return state.messages


def quantise(problem: IntegerProblem, state: State) -> None:
    """Give the variables of a state the quantised beliefs that it has in this problem."""
    messages = messages_of(state)
    if messages.quantised_for is problem:
        return
    sums, field = messages.sums, state.field
    scale = scale_of(problem.code, state.semiring)
    scratch = variables.scratch_for(problem.n_components)

    def renew(side: Variables, prior: Prior, of_field: Floats | None) -> int:
        unsent = side.changed.copy()
        n_changed = requantise(side, prior, scale, scratch, of_field)
        side.changed |= unsent
        return n_changed

    for block, side in zip(problem.blocks, sums.rows, strict=True):
        of_rows = None if field is None else field.of_rows(block.rows)
        sums.n_changes += renew(side, problem.quantised_row_prior.of(block.rows), of_rows)
    of_columns = None if field is None else field.of_columns().T
    sums.n_changes += renew(sums.columns, problem.quantised_column_prior, of_columns)
    messages.quantised_for = problem


class Prior:
    """Prior log-odds for `requantise`, (n, K), or 1 along axes on which they do not depend."""

    def __init__(self, odds: Floats, n_factors: int) -> None:
        self.odds, self.n_factors = odds, n_factors
        self.by_row = len(odds) != 1
        self.pattern: Floats = odds
        if not self.by_row:
            one = np.broadcast_to(odds[0], n_factors)
            self.pattern = np.tile(one, LANES)
            counted = one < HARD_BELIEF
            exact = np.maximum(one.astype(np.float64), -LARGEST_PRIOR)
            coarse = np.floor(exact * COARSE + 0.5)
            fine = np.floor((exact - coarse / COARSE) * FINE + 0.5)
            # the steps of `kernels.decoded`, for a one of each factor
            self.steps = np.where(counted, [coarse, fine], 0).astype(np.int64)

    def of(self, rows: slice) -> Prior:
        """The prior of some of the rows."""
        return Prior(self.odds[rows], self.n_factors) if self.by_row else self


def requantise(
    side: Variables,
    prior: Prior,
    scale: variables.Scale,
    scratch: tuple[Array, ...],
    field: Floats | None = None,
    out: Floats | None = None,
) -> int:
    """Turn the sums of variables into beliefs, quantise these and decode bits; count changed bits.

    field (n, K) is added to the priors. The beliefs are also written to `out`, (n, K).
    """
    pattern = prior.pattern
    if prior.by_row:
        pattern = np.zeros(len(side.sums), dtype=np.float32)
        side.table(pattern)[...] = prior.odds
    scratch[0][:] = 0
    kept = None if out is None else _flat_and_rest(out)
    n_changed = variables.quantise_and_decode(
        side.for_kernels(), side.words, pattern, scale, scratch,
        None if field is None else _flat_and_rest(field), kept,
    )  # fmt: skip
    if out is not None and kept is not None:
        whole = len(out) // LANES * LANES
        out[whole:] = kept[1][: (len(out) - whole) * side.n_factors].reshape(-1, side.n_factors)
    if prior.by_row:
        hard = np.float32(HARD_BELIEF)
        side.totals[:] = variables.prior_totals(side.words, prior.odds, hard)
    else:
        n_ones = scratch[0].reshape(LANES, -1).sum(axis=0)
        side.totals[:] = prior.steps @ n_ones
    return int(n_changed)


def _flat_and_rest(table: Floats) -> tuple[Floats, Floats]:
    """A table (n, K) as a flat array, and a copy of the rows after the last complete 16 rows."""
    n, n_factors = table.shape
    table = np.ascontiguousarray(table, dtype=np.float32)
    rest = np.zeros(LANES * n_factors, dtype=np.float32)
    rows = table[n // LANES * LANES :]
    rest[: rows.size] = rows.reshape(-1)
    return table.reshape(-1), rest
