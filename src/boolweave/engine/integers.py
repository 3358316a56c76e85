"""The engine on small integers: which problems allow it, their blocks and messages.

The Python side of `kernels.integer_max_sum`. `loop` calls it for problems whose entries weigh the
same wherever they are; beliefs leave it as log-odds, as everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave.engine.field import Field
from boolweave.engine.kernels import groups, variables
from boolweave.engine.kernels import integer_max_sum as kernels
from boolweave.engine.kernels import integer_sum_product as sum_product_kernels
from boolweave.engine.kernels.vectors import LANES
from boolweave.model.model import Model
from boolweave.runtime.storage import Memory, iterate_blocks, release_pages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from boolweave.data.observations import Observations

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

# What a sum of 16 bits can hold.
NARROW = 32767

# Messages that are turned into others at a time; they are 32-bit floats meanwhile.
CONVERTED = 1 << 16

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
    most_in_column: int  # no column has more entries than this
    levels: NDArray[np.float64]
    top: int = 0  # rows of the matrix above those of the problem: on a cluster it is a part

    def for_kernels(self) -> groups.Block:
        """As kernels take it."""
        dense: Literal[True] | None = True if self.dense else None
        return groups.Block(dense, self.top + self.start, self.indptr, self.index, self.codes)

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
        return int(np.count_nonzero(self.codes != groups.MISSING))

    @property
    def n_groups(self) -> int:
        """Number of groups of messages, each for 16 entries."""
        if self.dense:
            return (self.stop - self.start) * -(-self.n_columns // LANES)
        return -(-self.n_entries // LANES)

    @property
    def n_chunks(self) -> int:
        """Number of chunks of groups."""
        return -(-self.n_groups // groups.GROUPS)

    def to_lanes(self, values: NDArray[Any]) -> NDArray[Any]:
        """Numbers of the entries, (entries,), as groups hold them, (groups, 16); 0 elsewhere."""
        if not self.dense:
            lanes = np.zeros(self.n_groups * LANES, dtype=values.dtype)
            lanes[: self.n_entries] = values
            return lanes.reshape(-1, LANES)
        n_rows = self.stop - self.start
        lanes = np.zeros((n_rows, self.n_groups // n_rows * LANES), dtype=values.dtype)
        lanes[:, : self.n_columns] = values.reshape(n_rows, self.n_columns)
        return lanes.reshape(-1, LANES)

    def from_lanes(self, packed: NDArray[Any]) -> NDArray[Any]:
        """Messages of groups (groups, K, 16) by entry, (entries, K)."""
        n_factors = packed.shape[1]
        flat = packed.transpose(0, 2, 1)
        if not self.dense:
            return flat.reshape(-1, n_factors)[: self.n_entries]
        by_row = flat.reshape(self.stop - self.start, -1, n_factors)
        return by_row[:, : self.n_columns].reshape(-1, n_factors)

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
    levels = np.clip([zero, one, 0.0], -LARGEST_EVIDENCE, LARGEST_EVIDENCE)
    return Code(levels, steps)


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
            full.fill(groups.MISSING)
            full[flat + index[first:last]] = codes
            for array in (full, index[first:last], codes):
                release_pages(array)
            full.flags.writeable = False
            codes = full
        if dense:
            indptr = np.arange(stop - start + 1, dtype=np.int64) * n_columns
        columns = _NO_COLUMNS if dense else index[first:last]
        most = _most_in_column(stop - start, columns, n_columns)
        blocks.append(
            CompactBlock(start, stop, indptr, columns, codes, dense, n_columns, most, code.levels)
        )
    return tuple(blocks)


def _most_in_column(n_rows: int, columns: NDArray[np.uint32], n_columns: int) -> int:
    """No column has more entries: as many as there are rows, or counted, where that is too many."""
    if not len(columns) or n_rows * kernels.LARGEST_MOVE <= NARROW:
        return n_rows
    return int(np.bincount(columns, minlength=n_columns).max())


# ---------------------------------------------------------------- messages


def random_field(problem: Any, random: np.random.Generator) -> Field:
    """First beliefs as if from random messages: as much as n of them would add up to, √n."""
    evidence = problem.code.unit * problem.code.steps
    n_observed = sum(block.n_observed for block in iterate_blocks(problem.blocks, entries_of))
    M, N = problem.shape
    by_row, by_column = (evidence * np.sqrt(max(1.0, n_observed / max(1, n))) for n in (M, N))
    return Field.random(
        problem.shape, problem.n_components, (by_row, by_column), problem.code.unit / 2, random
    )


def no_messages(problem: Any) -> list[NDArray[np.uint8]]:
    """Messages that say nothing."""
    messages = problem.store.zeros(_shapes(problem), np.uint8)
    blocks = zip(problem.blocks, messages, strict=True)
    for block, array in iterate_blocks(blocks, lambda part: (part[0].codes, part[1])):
        array[...] = _stored_zeros(problem, block)[:, None, :]
    return messages


def _shapes(problem: Any) -> list[tuple[int, int, int]]:
    """Of the messages of every block."""
    return [(block.n_groups, problem.n_components, LANES) for block in problem.blocks]


def _stored_zeros(problem: Any, block: CompactBlock) -> NDArray[np.uint8]:
    """What a max-sum message that says nothing is stored as, (groups, 16)."""
    if problem.model.product == "xor":
        return np.full((block.n_groups, LANES), kernels.XOR_OFFSET, dtype=np.uint8)
    return block.to_lanes(np.array([kernels.OR_STEPS, 0, 0], dtype=np.uint8)[block.codes])


def log_odds_of(problem: Any, semiring: str, packed: Iterable[Ints]) -> NDArray[np.float32]:
    """Messages as log-odds, (entries, K), in the order of the entries by rows."""
    parts = [np.zeros((0, problem.n_components), dtype=np.float32)]
    unit = np.float32(unit_of(problem, semiring))
    for block, array in zip(problem.blocks, packed, strict=True):
        values = block.from_lanes(array).astype(np.float32)
        parts.append((values - offsets_of(problem, semiring, block)[:, None]) * unit)
    return np.concatenate(parts)


def offsets_of(problem: Any, semiring: str, block: CompactBlock) -> NDArray[np.float32]:
    """What is added to the messages of every entry to store them, (entries,)."""
    if semiring == "sum-product":
        return np.zeros(block.n_entries, dtype=np.float32)
    return block.from_lanes(_stored_zeros(problem, block)[:, None, :])[:, 0].astype(np.float32)


def unit_of(problem: Any, semiring: str) -> float:
    """Log-odds of one step of a message."""
    return problem.code.unit if semiring == "max-sum" else 1 / sum_product_kernels.LOG_ODDS_STEPS


def to_sum_product(problem: Any, packed: list[Any]) -> list[NDArray[np.int16]]:
    """Max-sum messages as sum-product ones, in 16 bits."""
    scale = np.float32(problem.code.unit * sum_product_kernels.LOG_ODDS_STEPS)
    converted = problem.store.zeros(_shapes(problem), np.int16)
    blocks = zip(problem.blocks, packed, converted, strict=True)
    for block, array, out in iterate_blocks(blocks, lambda part: (part[0].codes, *part[1:])):
        zeros = _stored_zeros(problem, block)[:, None, :].astype(np.float32)
        step = max(1, CONVERTED // max(1, out[:1].size))
        for start in range(0, len(out), step):
            some = slice(start, start + step)
            out[some] = np.rint((array[some] - zeros[some]) * scale)
    return converted


# ---------------------------------------------------------------- entries


def entries_of(block: CompactBlock) -> tuple[NDArray[Any], ...]:
    """The large arrays of a block, which may be in files."""
    return block.index, block.codes


def covered(
    problem: Any, block: CompactBlock, row_words: Any, column_words: Any
) -> NDArray[np.int64]:
    """How many entries of each code the decoded product makes 1 in a block, (3,)."""
    xor = True if problem.model.product == "xor" else None
    counts = variables.count_covered(xor, block.for_kernels(), row_words, column_words)
    for array in entries_of(block):
        release_pages(array)
    return np.array([*counts, 0])


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
