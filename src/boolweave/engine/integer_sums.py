"""Sums of integer messages, and the beliefs that they are.

Sums are kept up to date by what the messages move by; they are exact in whatever order they are
taken. Beliefs as floats are worked out only when somebody looks: the next iteration needs them in
whole units only, and the log-posterior their signs, and both are written down in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine.integers import LARGEST_EVIDENCE, NARROW, entries_of, offsets_of, unit_of
from boolweave.engine.kernels import groups, integer_max_sum, variables
from boolweave.engine.kernels import integer_sum_product as sum_product_kernels
from boolweave.engine.kernels.variables import COARSE, FINE, LARGEST_PRIOR
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.lazy import Later
from boolweave.model.odds import HARD_BELIEF
from boolweave.runtime.storage import iterate_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.engine.field import Field

    Floats = NDArray[np.floating[Any]]


# With fewer variables than this a kernel for sums of 16 bits takes longer to compile than it saves.
WORTH_IT = 1 << 18


@dataclass(eq=False)
class Side:
    """The variables of n rows or columns, K each; flat arrays have `SLACK` numbers behind them."""

    n_factors: int
    sums: NDArray[Any]  # (n · K,) of their messages, in units
    units: NDArray[np.int16]  # (n · K,) what they tell next
    moved: NDArray[np.bool_]  # (n,) whether that is news
    words: NDArray[np.uint64]  # (n, ⌈K/64⌉) decoded bits
    totals: NDArray[np.int64]  # (2,) priors of the ones, in the steps of `kernels.decoded`

    @classmethod
    def of(cls, n: int, n_factors: int, kind: Any) -> Side:
        """Without messages, and nobody was told anything yet."""
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
        """As kernels take them."""
        return groups.Variables(self.n_factors, self.units, self.sums, self.moved)

    def table(self, flat: NDArray[Any]) -> NDArray[Any]:
        """One of the flat arrays as (n, K), without the slack behind it."""
        return flat[: -groups.SLACK].reshape(-1, self.n_factors)


@dataclass(eq=False)
class Sums:
    """Sums of messages, kept up to date by what the messages move by, and what follows."""

    rows: list[Side]  # by block
    columns: Side
    still: list[NDArray[np.bool_]]  # by block: which chunks stayed as they were
    ones: list[NDArray[np.int64]]  # by block: expected ones of each chunk, (chunks, 2), in 2⁻²⁰
    last_setting: tuple[float, ...] | None = None  # levels and damping
    n_steps: int = 0
    n_changes: int = 0  # of decoded bits, in all steps


class Beliefs(Later):
    """Log-odds (M, K) or (K, N) as sums tell them after an iteration, until the next one."""

    def __init__(
        self, sums: Sums, of_rows: bool, prior: Floats, unit: float, field: Field | None
    ) -> None:
        self.sums, self.of_rows, self.prior, self.unit = sums, of_rows, prior, unit
        self.field = field
        self._n_steps = sums.n_steps

    def to_local(self) -> Floats:
        """As an array of its own."""
        return self.written_to(None)

    def written_to(self, out: Floats | None) -> Floats:
        """As an array, a given one if there is one."""
        sums = self.sums
        if self._n_steps != sums.n_steps:
            raise RuntimeError("these beliefs are gone: there was another iteration")
        sides = sums.rows if self.of_rows else [sums.columns]
        tables = [side.table(side.sums) for side in sides]
        if out is None:
            n, n_factors = sum(map(len, tables)), sums.columns.n_factors
            out = np.empty((n, n_factors) if self.of_rows else (n_factors, n), dtype=np.float32)
        first = 0
        for table in tables:
            run = slice(first, first + len(table))
            (out[run] if self.of_rows else out.T)[...] = table
            first = run.stop
        out *= np.float32(self.unit)
        out += self.prior
        if self.field is not None:
            out += self.field.of_rows(slice(None)) if self.of_rows else self.field.of_columns()
        return out


# ---------------------------------------------------------------- the sums


def no_sums(problem: Any, semiring: str = "max-sum") -> Sums:
    """The sums of messages that say nothing."""
    K = problem.n_components
    of_rows, of_columns = _sum_types(problem, semiring)
    return Sums(
        rows=[Side.of(block.stop - block.start, K, of_rows) for block in problem.blocks],
        columns=Side.of(problem.shape[1], K, of_columns),
        still=[np.zeros(block.n_chunks, dtype=bool) for block in problem.blocks],
        ones=[np.zeros((block.n_chunks, 2), dtype=np.int64) for block in problem.blocks],
    )


def _sum_types(problem: Any, semiring: str) -> tuple[Any, Any]:
    """Of rows and of columns: int32, or int64 where the messages of a row or column could overflow.

    Those of all of them, at their limit and turning. Max-sum sums of many short rows have 16 bits.
    """
    in_row = max((int(np.diff(block.indptr).max(initial=0)) for block in problem.blocks), default=0)
    in_column = sum(block.most_in_column for block in problem.blocks)
    if problem.share is not None:  # columns go on elsewhere
        in_column = problem.share.n_rows
    largest = 2 * LARGEST_EVIDENCE * sum_product_kernels.LOG_ODDS_STEPS
    kind = np.int32 if max(in_row, in_column) * largest < 2**31 else np.int64
    many = problem.shape[0] * problem.n_components >= WORTH_IT
    narrow = many and semiring == "max-sum" and in_row * integer_max_sum.LARGEST_MOVE <= NARROW
    return np.int16 if narrow else kind, kind


def sums_of(problem: Any, semiring: str, to_row: list[Any], to_column: list[Any]) -> Sums:
    """The sums of given messages."""
    sums = no_sums(problem, semiring)
    columns = sums.columns
    blocks = zip(problem.blocks, to_row, to_column, sums.rows, strict=True)
    for block, phi, psi, side in iterate_blocks(
        blocks, lambda part: (*entries_of(part[0]), *part[1:3])
    ):
        offsets = offsets_of(problem, semiring, block)
        row_of = np.repeat(np.arange(block.stop - block.start), np.diff(block.indptr))
        for array, at, of in ((phi, row_of, side), (psi, block.columns, columns)):
            out = of.table(of.sums).T
            for k in range(problem.n_components):
                values = block.from_lanes(array[:, k : k + 1])[:, 0] - offsets
                out[k] += np.bincount(at, values, out.shape[1]).astype(out.dtype)
    if problem.share is not None:
        columns.sums = problem.share.reduce(columns.sums)
    return sums


# ---------------------------------------------------------------- what variables tell


def scale_of(problem: Any, semiring: str) -> variables.Scale:
    """How log-odds and units of a problem go together."""
    unit = unit_of(problem, semiring)
    max_sum = semiring == "max-sum"
    limit = integer_max_sum.MAX_SUM_LIMIT if max_sum else sum_product_kernels.SUM_PRODUCT_LIMIT
    return variables.Scale(np.float32(unit), np.float32(1 / unit), np.float32(limit))


def believe(problem: Any, state: Any) -> None:
    """Give a state the beliefs that follow from its sums with the priors of this problem."""
    sums, field = state.sums, state.field
    scale = scale_of(problem, state.semiring)
    scratch = variables.scratch_for(problem.n_components)
    row_prior, column_prior = problem.settling_priors

    def renew(side: Side, prior: Prior, of_field: Floats | None) -> int:
        not_yet_told = side.moved.copy()
        n_changed = settle(side, prior, scale, scratch, of_field)
        side.moved |= not_yet_told
        return n_changed

    for block, side in zip(problem.blocks, sums.rows, strict=True):
        of_rows = None if field is None else field.of_rows(block.rows)
        sums.n_changes += renew(side, row_prior.of(block.rows), of_rows)
    of_columns = None if field is None else field.of_columns().T
    sums.n_changes += renew(sums.columns, column_prior, of_columns)
    set_beliefs(problem, state)


def set_beliefs(problem: Any, state: Any) -> None:
    """The beliefs of a state are what its sums and its field tell with these priors."""
    unit = unit_of(problem, state.semiring)
    state.row_belief = Beliefs(state.sums, True, problem.row_prior, unit, state.field)
    state.column_belief = Beliefs(state.sums, False, problem.column_prior, unit, state.field)


def tell(problem: Any, state: Any) -> None:
    """See that units are those of the state's beliefs, which may come from somewhere else."""
    sums = state.sums
    scale = scale_of(problem, state.semiring)
    unit = unit_of(problem, state.semiring)
    if not _are_own(state.row_belief, sums, unit):
        belief = np.asarray(state.row_belief)
        for block, side in zip(problem.blocks, sums.rows, strict=True):
            _tell(side, belief[block.rows], scale)
    if not _are_own(state.column_belief, sums, unit):
        _tell(sums.columns, np.asarray(state.column_belief).T, scale)


def _are_own(belief: Any, sums: Sums, unit: float) -> bool:
    """Whether beliefs are those of the sums, in units of the same size."""
    return isinstance(belief, Beliefs) and belief.sums is sums and belief.unit == unit


def _tell(side: Side, belief: Any, scale: variables.Scale) -> None:
    """Units of given beliefs (n, K), as `variables.quantise_and_decode` finds them."""
    value = np.array(belief, dtype=np.float32)
    value *= scale.per_odds
    np.clip(value, -scale.limit, scale.limit, out=value)
    value += np.float32(0.5)
    np.floor(value, out=value)
    units = side.table(side.units)
    side.moved |= (units != value).any(axis=1)
    units[...] = value


class Prior:
    """Prior log-odds (n, K), or 1 for what they do not depend on, as `settle` needs them."""

    def __init__(self, odds: Floats, n_factors: int) -> None:
        self.odds, self.n_factors = odds, n_factors
        self.by_row = len(odds) != 1
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
        """Of some of the rows."""
        return Prior(self.odds[rows], self.n_factors) if self.by_row else self


def settle(
    side: Side,
    prior: Prior,
    scale: variables.Scale,
    scratch: tuple[NDArray[Any], ...],
    field: Floats | None = None,
) -> int:
    """What variables tell next, and their bits, from their sums; how many bits changed.

    field (n, K) is added to the priors.
    """
    by_row = prior.by_row or field is not None
    if by_row:
        pattern = np.zeros(len(side.sums), dtype=np.float32)
        side.table(pattern)[...] = prior.odds
        if field is not None:
            side.table(pattern)[...] += field
    else:
        pattern = prior.pattern
    scratch[0][:] = 0
    n_changed = variables.quantise_and_decode(
        side.for_kernels(),
        side.words,
        pattern,
        scale,
        scratch,
    )
    if prior.by_row:
        hard = np.float32(HARD_BELIEF)
        side.totals[:] = variables.prior_totals(side.words, prior.odds, hard)
    else:
        n_ones = scratch[0].reshape(LANES, -1).sum(axis=0)
        side.totals[:] = prior.steps @ n_ones
    return int(n_changed)
