"""The engine on small integers: which problems allow it, their blocks, one step.

The Python side of `boolweave.compact_kernels`. `boolweave.message_passing` calls it for problems
whose entries weigh the same wherever they are; beliefs leave it as log-odds, as everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave import compact_kernels as kernels
from boolweave import compact_sum_product_kernels as sum_product_kernels
from boolweave.model import Model
from boolweave.storage import Memory, in_turn, release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from boolweave.observations import Observations

    Floats = NDArray[np.floating[Any]]
    Ints = NDArray[np.integer[Any]]

# A block is dense, without an index of columns, if so large a share of its cells is observed.
DENSE = 0.7

# The weaker kind of entry must keep at least 5 bits of the byte: rounding to 4 costs accuracy.
LARGEST_RATIO = 8.0

# Beyond this evidence a prior would be rounded too coarsely, and sum-product cut too early.
LARGEST_EVIDENCE = 12.0

# (Γ̂)₊ of all factors are added up in 16 bits.
MOST_FACTORS = 120

# Its multiples fill the unit interval evenly.
GOLDEN = 0.6180339887498949

# Arrays of observations are read-only; so are all of their kind: kernels are compiled once.
_NO_COLUMNS = np.zeros(0, dtype=np.uint32)
_NO_COLUMNS.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Code:
    """What the small integers of a problem mean."""

    levels: NDArray[np.float64]  # (3,) L of an entry seen as 0, seen as 1, not seen
    steps: int  # of the stronger level in a byte

    @property
    def unit(self) -> float:
        """Log-odds of one step of a max-sum message."""
        return float(np.abs(self.levels).max()) / self.steps

    @property
    def bounds(self) -> NDArray[np.int16]:
        """|L| of a 0 and of a 1 in units, (2,)."""
        return np.maximum(1, np.rint(np.abs(self.levels[:2]) / self.unit)).astype(np.int16)

    @property
    def small(self) -> NDArray[np.float32]:
        """The smaller likelihood of a 0 and of a 1, the larger being 1, (2,)."""
        return np.exp(-np.abs(self.levels[:2])).astype(np.float32)


@dataclass(frozen=True, eq=False)
class CompactBlock:
    """A run of consecutive rows: observed entries with their columns, or all cells in order."""

    start: int
    stop: int
    indptr: NDArray[np.int64]  # (rows + 1,), from 0
    index: NDArray[np.uint32]  # (entries,) columns; empty if dense
    codes: NDArray[np.uint8]  # (entries,) 0, 1, or 2 for a cell not observed
    dense: bool
    n_columns: int
    levels: NDArray[np.float64]

    @property
    def rows(self) -> slice:
        """Which rows of the matrix these are."""
        return slice(self.start, self.stop)

    @property
    def n_entries(self) -> int:
        """Number of entries held, observed or not."""
        return len(self.codes)

    @property
    def n_observed(self) -> int:
        """Number of entries observed."""
        return int(np.count_nonzero(self.codes != kernels.MISSING))

    @property
    def n_chunks(self) -> int:
        """Number of chunks of messages."""
        return -(-self.n_entries // kernels.CHUNK)

    @property
    def columns(self) -> NDArray[np.uint32]:
        """Column of every entry, (entries,)."""
        if not self.dense:
            return self.index
        return np.tile(np.arange(self.n_columns, dtype=np.uint32), self.stop - self.start)

    @property
    def evidence(self) -> NDArray[np.float32]:
        """L of every entry, (entries,)."""
        return self.levels[self.codes].astype(np.float32)


@dataclass(eq=False)
class Sums:
    """Sums of messages in units, kept up to date by what the messages move by."""

    rows: NDArray[Any]  # (M, K) int32, or int64 where that could overflow
    columns: NDArray[Any]  # (K, N) likewise
    still: list[NDArray[np.bool_]]  # per block: which chunks stayed as they were
    ones: list[NDArray[np.float64]]  # per block: expected ones of each chunk, (chunks, 2)
    last_rows: NDArray[np.int16] | None = None
    last_columns: NDArray[np.int16] | None = None
    last_setting: tuple[float, ...] | None = None  # levels and damping
    n_steps: int = 0


def code_for(model: Model) -> Code | str:
    """The integer code of a model, or why it cannot have one."""
    by_value = model.channel.log_probabilities_by_value()
    if by_value is None:
        return "the channel differs from entry to entry"
    if np.any(model.channel.missing_log_likelihood_ratio()):
        return "a missing entry is evidence"
    missing = model.channel.missing_given_zero
    if missing is not None and not np.all(missing):
        return "a missing entry would be impossible"
    zero, one = (by_value[1] - by_value[0]).tolist()
    if not zero < 0 < one:
        return "seeing a 1 does not speak for a 1, or a 0 for a 0"
    if max(one, -zero) > LARGEST_RATIO * min(one, -zero):
        return "zeros and ones weigh too differently"
    if max(one, -zero) > LARGEST_EVIDENCE:
        return "the evidence is next to certain"
    if model.n_components > MOST_FACTORS:
        return f"there are more than {MOST_FACTORS} factors"
    return code_of(model)


def code_of(model: Model) -> Code:
    """The integer code of a model known to allow one."""
    by_value = model.channel.log_probabilities_by_value()
    assert by_value is not None
    zero, one = (by_value[1] - by_value[0]).tolist()
    steps = kernels.XOR_STEPS if model.product == "xor" else kernels.OR_STEPS
    return Code(np.array([zero, one, 0.0]), steps)


def make_blocks(
    observations: Observations, code: Code, cuts: list[tuple[int, int]], store: Memory | None = None
) -> tuple[CompactBlock, ...]:
    """The rows between `cuts`, dense or sparse; observed entries are not copied.

    What has to be written down anew goes to the `store`.
    """
    n_columns = observations.shape[1]
    if observations.indices.dtype == np.int32:
        index = observations.indices.view(np.uint32)  # the same bits: no copy
    else:
        index = observations.indices.astype(np.uint32)
    sizes = [(stop - start) * n_columns for start, stop in cuts]
    seen = [int(observations.indptr[stop] - observations.indptr[start]) for start, stop in cuts]
    holes = [(n,) for n, m in zip(sizes, seen, strict=True) if DENSE * n <= m < n]
    new = iter((store or Memory()).zeros(holes, np.uint8))
    blocks = []
    for (start, stop), cells in zip(cuts, sizes, strict=True):
        first, last = observations.indptr[start], observations.indptr[stop]
        indptr = observations.indptr[start : stop + 1] - first
        codes = observations.values[first:last]
        dense = last - first >= DENSE * cells
        if dense and last - first < cells:
            rows = np.arange(stop - start, dtype=np.int64)
            flat = np.repeat(rows * n_columns, np.diff(indptr))
            full = next(new)
            full.fill(kernels.MISSING)
            full[flat + index[first:last]] = codes
            for array in (full, index[first:last], codes):
                release(array)
            full.flags.writeable = False
            codes = full
        if dense:
            indptr = np.arange(stop - start + 1, dtype=np.int64) * n_columns
        columns = _NO_COLUMNS if dense else index[first:last]
        blocks.append(
            CompactBlock(start, stop, indptr, columns, codes, dense, n_columns, code.levels)
        )
    return tuple(blocks)


# ---------------------------------------------------------------- messages


def random_beliefs(
    problem: Any, random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Beliefs as if from random messages: the priors, and as much as √n of them would add up to."""
    scale = np.float32(problem.code.unit * problem.code.steps)
    n_observed = sum(block.n_observed for block in in_turn(problem.blocks, entries_of))
    sides = []
    for prior, axis in ((problem.row_prior, 0), (problem.column_prior, 1)):
        n = max(1.0, n_observed / prior.shape[axis])
        noise = random.standard_normal(prior.shape, dtype=np.float32)
        sides.append(prior + noise * scale * np.float32(np.sqrt(n)))
    return sides[0], sides[1]


def no_messages(problem: Any) -> list[NDArray[np.uint8]]:
    """Messages that say nothing."""
    nothing = kernels.XOR_OFFSET if problem.model.product == "xor" else 0
    messages = problem.store.zeros(_shapes(problem), np.uint8)
    for array in in_turn(messages, lambda array: (array,)) if nothing else ():
        array.fill(nothing)
    return messages


def _shapes(problem: Any) -> list[tuple[int, int, int]]:
    """Of the messages of every block."""
    return [(block.n_chunks, problem.n_components, kernels.CHUNK) for block in problem.blocks]


def log_odds_of(problem: Any, semiring: str, packed: Iterable[Ints]) -> NDArray[np.float32]:
    """Messages as log-odds, (entries, K), in the order of the entries by rows."""
    parts = [np.zeros((0, problem.n_components), dtype=np.float32)]
    offset = np.float32(_offset(problem, semiring))
    for block, array in zip(problem.blocks, packed, strict=True):
        values = array.transpose(0, 2, 1).reshape(-1, problem.n_components)[: block.n_entries]
        scale = _signs(problem, semiring, block) * np.float32(_unit(problem, semiring))
        parts.append((values.astype(np.float32) - offset) * scale[:, None])
    return np.concatenate(parts)


def _offset(problem: Any, semiring: str) -> int:
    """What is added to a message to store it."""
    signed = semiring == "max-sum" and problem.model.product == "xor"
    return kernels.XOR_OFFSET if signed else 0


def _signs(problem: Any, semiring: str, block: CompactBlock) -> NDArray[np.float32]:
    """The sign of the messages of every entry where it is not stored, (entries,)."""
    if semiring == "sum-product" or problem.model.product == "xor":
        return np.ones(block.n_entries, dtype=np.float32)
    return np.where(block.codes == 1, np.float32(1), np.float32(-1))


def no_sums(problem: Any) -> Sums:
    """The sums of messages that say nothing."""
    M, N = problem.shape
    kind = _sum_type(problem)
    return Sums(
        np.zeros((M, problem.n_components), dtype=kind),
        np.zeros((problem.n_components, N), dtype=kind),
        [np.zeros(block.n_chunks, dtype=bool) for block in problem.blocks],
        [np.zeros((block.n_chunks, 2)) for block in problem.blocks],
    )


def _sum_type(problem: Any) -> type[np.signedinteger[Any]]:
    """int32, unless the messages of a row or column, all at their limit and turning, overflow."""
    largest = 2 * sum_product_kernels.MESSAGE_LIMIT * sum_product_kernels.LOG_ODDS_STEPS
    return np.int32 if max(problem.shape) * largest < 2**31 else np.int64


def sums_of(problem: Any, semiring: str, to_row: list[Any], to_column: list[Any]) -> Sums:
    """The sums of given messages."""
    sums = no_sums(problem)
    offset = _offset(problem, semiring)
    blocks = zip(problem.blocks, to_row, to_column, strict=True)
    for block, phi, psi in in_turn(blocks, lambda part: (*entries_of(part[0]), *part[1:])):
        signs = _signs(problem, semiring, block).astype(np.int32)[:, None]
        row_of = np.repeat(np.arange(block.start, block.stop), np.diff(block.indptr))
        sides = ((phi, row_of, sums.rows.T), (psi, block.columns, sums.columns))
        for array, at, out in sides:
            values = array.transpose(0, 2, 1).reshape(-1, problem.n_components)[: block.n_entries]
            values = (values.astype(np.int32) - offset) * signs
            for k in range(problem.n_components):
                out[k] += np.bincount(at, values[:, k], out.shape[1]).astype(out.dtype)
    return sums


def beliefs(problem: Any, semiring: str, sums: Sums) -> tuple[Floats, Floats]:
    """Prior log-odds plus the sums: Ξ (M, K) and Υ (K, N)."""
    unit = np.float32(_unit(problem, semiring))
    return (
        kernels.to_log_odds(problem.row_prior, sums.rows, unit),
        kernels.to_log_odds(problem.column_prior, sums.columns, unit),
    )


def _unit(problem: Any, semiring: str) -> float:
    return problem.code.unit if semiring == "max-sum" else 1 / sum_product_kernels.LOG_ODDS_STEPS


def to_sum_product(problem: Any, packed: list[Any]) -> list[NDArray[np.int16]]:
    """Max-sum messages as sum-product ones: 16 bits, in steps of 1/1024."""
    offset = np.float32(_offset(problem, "max-sum"))
    scale = np.float32(problem.code.unit * sum_product_kernels.LOG_ODDS_STEPS)
    converted = problem.store.zeros(_shapes(problem), np.int16)
    blocks = zip(problem.blocks, packed, converted, strict=True)
    for block, array, out in in_turn(blocks, lambda part: (part[0].codes, *part[1:])):
        factor = np.ones(block.n_chunks * kernels.CHUNK, dtype=np.float32)
        factor[: block.n_entries] = _signs(problem, "max-sum", block)
        factor = factor.reshape(block.n_chunks, 1, kernels.CHUNK) * scale
        out[...] = np.rint((array.astype(np.float32) - offset) * factor)
    return converted


# ---------------------------------------------------------------- one step


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
    """One iteration; messages and `sums` are updated, here or on the problem's cluster.

    The blocks are dealt to `n_groups` groups with one column sum each; `run_all` maps a function
    over them. Integer sums do not depend on the grouping. Returns the largest change, as a share
    of L (max-sum) or in log-odds, and the expected ones of `State`.
    """
    code, max_sum = problem.code, semiring == "max-sum"
    limit = kernels.MAX_SUM_LIMIT if max_sum else sum_product_kernels.SUM_PRODUCT_LIMIT
    scale = np.float32(1 / _unit(problem, semiring))
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
        np.float32(sums.n_steps * GOLDEN % 1.0), columns, column_moved, sums.columns.dtype,
    )  # fmt: skip
    if problem.cluster is not None:
        change, expected = problem.cluster.update(
            problem.blocks, told, to_row, rows, row_moved, sums
        )
    else:

        def one_group(numbers: list[int]) -> tuple[int, Any]:
            return update(told, [
                Member(
                    problem.blocks[i], rows[problem.blocks[i].rows],
                    row_moved[problem.blocks[i].rows], sums.rows[problem.blocks[i].rows],
                    to_row[i], to_column[i], sums.still[i], sums.ones[i],
                )
                for i in numbers
            ])  # fmt: skip

        change = 0
        groups = [list(range(g, len(problem.blocks), n_groups)) for g in range(n_groups)]
        for moved, column_sum in run_all(one_group, groups):
            change = max(change, moved)
            sums.columns += column_sum
        expected = [ones.sum(axis=0) for ones in sums.ones]
    sums.last_rows, sums.last_columns = rows, columns
    if max_sum:
        residual = change / code.steps
    else:  # one step is rounding
        residual = damping * max(0, change - 1) / sum_product_kernels.LOG_ODDS_STEPS
    ones = sum(expected, np.zeros(2))
    return residual, (float(ones[0]), float(ones[1]))


@dataclass(frozen=True, eq=False)
class Told:
    """What a step tells all blocks alike."""

    xor: bool
    semiring: Literal["max-sum", "sum-product"]
    code: Code
    damping: float
    phase: np.float32
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
    ones: NDArray[np.float64]

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The large arrays, which may be in files."""
        return (*entries_of(self.block), self.to_row, self.to_column)


def entries_of(block: CompactBlock) -> tuple[NDArray[Any], ...]:
    """The large arrays of a block, which may be in files."""
    return block.index, block.codes


def update(told: Told, members: list[Member]) -> tuple[int, NDArray[Any]]:
    """One iteration of some blocks; also the largest change and the change of column sums (K, N).

    This is what a thread does, and what a worker of a cluster does.
    """
    code, max_sum, xor = told.code, told.semiring == "max-sum", told.xor
    columns = told.columns
    scratch = (kernels if max_sum else sum_product_kernels).scratch(len(columns))
    steps = np.int16(max(1, round(told.damping * kernels.DAMPING_STEPS)))
    max_sum_kernel: Any = kernels.max_sum_xor if xor else kernels.max_sum_or
    sum_product_kernel: Any = sum_product_kernels.sum_product
    some_sparse = any(not member.block.dense for member in members)
    by_column = np.ascontiguousarray(columns.T) if some_sparse else columns[:, :0]
    dense_sum = np.zeros(columns.shape, dtype=told.sum_type)
    sparse_sum = np.zeros(by_column.shape, dtype=told.sum_type)
    change = 0
    for member in in_turn(members, Member.arrays):
        block = member.block
        fixed = (block.dense, block.indptr, block.index, block.codes)
        read = (member.rows, columns if block.dense else by_column)
        settled = (member.row_moved, told.column_moved, member.still)
        kept = (member.to_row, member.to_column)
        added = (member.row_sums, dense_sum if block.dense else sparse_sum)
        if max_sum:
            moved = max_sum_kernel(
                *fixed, code.bounds, steps, *read, *settled, *kept, *added, *scratch
            )
        else:
            moved = sum_product_kernel(
                xor, block.start, *fixed, code.small, np.float32(told.damping), told.phase, *read,
                *settled, member.ones, *kept, *added, *scratch,
            )  # fmt: skip
        change = max(change, int(moved))
    return change, dense_sum + sparse_sum.T if some_sparse else dense_sum


def _moved(
    sums: Sums, rows: NDArray[np.int16], columns: NDArray[np.int16]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows (M,) and columns (N,) changed what they tell since the last step."""
    if sums.last_rows is None or sums.last_columns is None:
        return np.ones(len(rows), dtype=bool), np.ones(columns.shape[1], dtype=bool)
    return (rows != sums.last_rows).any(axis=1), (columns != sums.last_columns).any(axis=0)


def explained_evidence(
    problem: Any,
    row_words: Any,
    column_words: Any,
    run_all: Callable[[Callable[[CompactBlock], Any], Iterable[CompactBlock]], Iterable[Any]],
) -> float:
    """Sum of L over the entries at which the decoded product is 1; `run_all` maps over blocks."""

    def one_block(block: CompactBlock) -> NDArray[np.int64]:
        return covered(problem, block, row_words[block.rows], column_words)

    if problem.cluster is not None:
        counts = problem.cluster.covered(problem, row_words, column_words)
    else:
        counts = sum(run_all(one_block, problem.blocks), np.zeros(3, dtype=np.int64))
    return float(counts @ problem.code.levels)


def covered(
    problem: Any, block: CompactBlock, row_words: Any, column_words: Any
) -> NDArray[np.int64]:
    """How many entries of each code the decoded product makes 1 in a block, (3,)."""
    counts = kernels.covered(
        problem.model.product == "xor", block.dense, block.indptr, block.index, block.codes,
        row_words, column_words,
    )  # fmt: skip
    for array in entries_of(block):
        release(array)
    return counts


def log_probability_of_zeros(observations: Observations, model: Model) -> float:
    """Σ log p(o | z = 0) over all entries; a missing one counts if its probability is given."""
    by_value = model.channel.log_probabilities_by_value()
    assert by_value is not None
    ones = observations.n_ones
    given_zero = by_value[0]
    total = ones * given_zero[1] + (observations.n_observed - ones) * given_zero[0]
    n_missing = observations.shape[0] * observations.shape[1] - observations.n_observed
    missing = model.channel.missing_given_zero
    if missing is not None and n_missing:
        total += n_missing * float(np.log(np.asarray(missing)))
    return float(total)
