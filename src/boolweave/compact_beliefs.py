"""Sums of integer messages, and the beliefs that they are.

Sums are kept up to date by what the messages move by; they are exact in whatever order they are
taken. Beliefs as floats are worked out only when somebody looks: the next iteration needs them in
whole units only, and the log-posterior their signs, and both are written down in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave import belief_kernels
from boolweave import compact_kernels as kernels
from boolweave import compact_sum_product_kernels as sum_product_kernels
from boolweave.compact import LARGEST_EVIDENCE, NARROW, entries_of, offsets_of, unit_of
from boolweave.later import Later
from boolweave.model import HARD_BELIEF
from boolweave.storage import in_turn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]


@dataclass(eq=False)
class Sums:
    """Sums of messages in units, and what follows from them. Rows: a list, by block.

    Arrays of rows are flat, with `compact_kernels.SLACK` numbers behind them.
    """

    rows: list[NDArray[Any]]  # (rows · K,)
    columns: NDArray[Any]  # (K, N)
    row_units: list[NDArray[np.int16]]  # (rows · K,) what rows tell next
    column_units: NDArray[np.int16]  # (K, N)
    row_moved: list[NDArray[np.bool_]]  # (rows,) whether that is news
    column_moved: NDArray[np.bool_]  # (N,)
    row_words: list[NDArray[np.uint64]]  # (rows, ⌈K/64⌉) decoded bits
    column_words: NDArray[np.uint64]  # (N, ⌈K/64⌉)
    row_totals: list[NDArray[np.int64]]  # (2,) priors of the ones, in steps of `kernels.decoded`
    column_totals: NDArray[np.int64]  # (2,)
    still: list[NDArray[np.bool_]]  # which chunks stayed as they were
    ones: list[NDArray[np.int64]]  # expected ones of each chunk, (chunks, 2), in 2⁻²⁰
    last_setting: tuple[float, ...] | None = None  # levels and damping
    n_steps: int = 0
    n_changes: int = 0  # of decoded bits, by steps in which there were some


class Beliefs(Later):
    """Log-odds (M, K) or (K, N) as sums tell them after an iteration, until the next one."""

    def __init__(self, sums: Sums, of_rows: bool, prior: Floats, unit: float) -> None:
        self.sums, self.of_rows, self.prior, self.unit = sums, of_rows, prior, unit
        self._n_steps = sums.n_steps

    def to_local(self) -> Floats:
        """As an array of its own."""
        return self.written_to(None)

    def written_to(self, out: Floats | None) -> Floats:
        """As an array, a given one if there is one."""
        sums = self.sums
        if self._n_steps != sums.n_steps:
            raise RuntimeError("these beliefs are gone: there was another iteration")
        parts = [self._as_table(part) for part in sums.rows] if self.of_rows else [sums.columns]
        if out is None:
            shape = sum(map(len, parts)), self._n_columns
            out = np.empty(shape, dtype=np.float32)
        first = 0
        for part in parts:
            run = slice(first, first + len(part))
            prior = self.prior[run] if len(self.prior) > 1 else self.prior
            belief_kernels.to_log_odds(prior, part, np.float32(self.unit), out[run])
            first = run.stop
        return out

    @property
    def _n_columns(self) -> int:
        columns = self.sums.columns
        return columns.shape[0] if self.of_rows else columns.shape[1]

    def _as_table(self, flat: NDArray[Any]) -> NDArray[Any]:
        return as_table(flat, self._n_columns)


def as_table(flat: NDArray[Any], n_factors: int) -> NDArray[Any]:
    """The numbers of rows (rows, K), without the slack behind them."""
    size = (len(flat) - kernels.SLACK) // n_factors * n_factors
    return flat[:size].reshape(-1, n_factors)


# ---------------------------------------------------------------- the sums


def no_sums(problem: Any, semiring: str = "max-sum") -> Sums:
    """The sums of messages that say nothing; nobody was told anything yet."""
    K, N = problem.n_components, problem.shape[1]
    of_rows, of_columns = _sum_types(problem, semiring)
    n_words = -(-K // 64)
    sizes = [block.stop - block.start for block in problem.blocks]
    return Sums(
        rows=[np.zeros(n * K + kernels.SLACK, dtype=of_rows) for n in sizes],
        columns=np.zeros((K, N), dtype=of_columns),
        row_units=[np.zeros(n * K + kernels.SLACK, dtype=np.int16) for n in sizes],
        column_units=np.zeros((K, N), dtype=np.int16),
        row_moved=[np.ones(n, dtype=bool) for n in sizes],
        column_moved=np.ones(N, dtype=bool),
        row_words=[np.zeros((n, n_words), dtype=np.uint64) for n in sizes],
        column_words=np.zeros((N, n_words), dtype=np.uint64),
        row_totals=[np.zeros(2, dtype=np.int64) for _ in sizes],
        column_totals=np.zeros(2, dtype=np.int64),
        still=[np.zeros(block.n_chunks, dtype=bool) for block in problem.blocks],
        ones=[np.zeros((block.n_chunks, 2), dtype=np.int64) for block in problem.blocks],
    )


def _sum_types(problem: Any, semiring: str) -> tuple[Any, Any]:
    """Of rows and of columns: int32, or int64 where the messages of a row or column could overflow.

    Those of all of them, at their limit and turning. Max-sum sums of short rows have 16 bits.
    """
    in_row = max((int(np.diff(block.indptr).max(initial=0)) for block in problem.blocks), default=0)
    in_column = sum(block.most_in_column for block in problem.blocks)
    if problem.share is not None:  # columns go on elsewhere
        in_column = problem.share.n_rows
    largest = 2 * LARGEST_EVIDENCE * sum_product_kernels.LOG_ODDS_STEPS
    kind = np.int32 if max(in_row, in_column) * largest < 2**31 else np.int64
    narrow = semiring == "max-sum" and in_row * kernels.LARGEST_MOVE <= NARROW
    return np.int16 if narrow else kind, kind


def sums_of(problem: Any, semiring: str, to_row: list[Any], to_column: list[Any]) -> Sums:
    """The sums of given messages."""
    sums = no_sums(problem, semiring)
    blocks = zip(problem.blocks, to_row, to_column, sums.rows, strict=True)
    for block, phi, psi, rows in in_turn(blocks, lambda part: (*entries_of(part[0]), *part[1:3])):
        offsets = offsets_of(problem, semiring, block)[:, None]
        row_of = np.repeat(np.arange(block.stop - block.start), np.diff(block.indptr))
        own = as_table(rows, problem.n_components).T
        for array, at, out in ((phi, row_of, own), (psi, block.columns, sums.columns)):
            values = block.from_lanes(array) - offsets
            for k in range(problem.n_components):
                out[k] += np.bincount(at, values[:, k], out.shape[1]).astype(out.dtype)
    if problem.share is not None:
        sums.columns = problem.share.reduce(sums.columns)
    return sums


# ---------------------------------------------------------------- what variables tell


def told_units(problem: Any, state: Any) -> None:
    """See that the units are those of the state's beliefs, which may come from somewhere else."""
    sums = state.sums
    how = scale_and_limit(problem, state.semiring)
    if not _are_own(state.row_belief, problem, state):
        belief = _floats(state.row_belief)
        for block, units, moved in zip(problem.blocks, sums.row_units, sums.row_moved, strict=True):
            table = as_table(units, problem.n_components)
            belief_kernels.to_units(belief[block.rows], *how, True, table, moved)
    if not _are_own(state.column_belief, problem, state):
        belief = _floats(state.column_belief)
        belief_kernels.to_units(belief, *how, False, sums.column_units, sums.column_moved)


def _are_own(belief: Any, problem: Any, state: Any) -> bool:
    """Whether beliefs are those of the state's sums, in units of the same size."""
    own = isinstance(belief, Beliefs) and belief.sums is state.sums
    return own and belief.unit == unit_of(problem, state.semiring)


def _floats(belief: Any) -> Floats:
    return np.ascontiguousarray(belief, dtype=np.float32)


def scale_and_limit(problem: Any, semiring: str) -> tuple[np.float32, np.float32]:
    """Units in 1 of log-odds, and the largest number of units."""
    max_sum = semiring == "max-sum"
    limit = kernels.MAX_SUM_LIMIT if max_sum else sum_product_kernels.SUM_PRODUCT_LIMIT
    return np.float32(1 / unit_of(problem, semiring)), np.float32(limit)


def settle_columns(problem: Any, state: Any) -> None:
    """What columns tell next, and their bits, from their sums."""
    sums = state.sums
    changed = belief_kernels.settle_columns(
        problem.column_prior, sums.columns, np.float32(unit_of(problem, state.semiring)),
        *scale_and_limit(problem, state.semiring), np.float32(HARD_BELIEF), sums.column_units,
        sums.column_moved, sums.column_words, sums.column_totals,
    )  # fmt: skip
    sums.n_changes += changed
