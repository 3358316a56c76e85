"""Entries for messages that are small integers: which models allow them, and blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from boolweave.engine.kernels import groups
from boolweave.engine.kernels import integer_max_sum as kernels
from boolweave.engine.kernels.vectors import LANES
from boolweave.model.model import Model
from boolweave.runtime.storage import Memory, release_pages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.data.observed import ObservedEntries
    from boolweave.runtime.types import Array


# A block is dense, without an index of columns, if at least this fraction of its cells is observed.
DENSE = 0.7

# The weaker kind of entry must keep at least 5 bits of the byte: rounding to 4 costs accuracy.
LARGEST_RATIO = 8.0

# Beyond this evidence, a prior would be rounded too coarsely, and sum-product clipped too early.
LARGEST_EVIDENCE = 12.0

# (Γ̂)₊ of all factors are added up in 16 bits.
MOST_FACTORS = 120

# The largest number in a sum of 16 bits.
NARROW = 32767

# Arrays of observations are read-only, and so are all others of their kind, so that kernels are
# compiled only once.
_NO_COLUMNS = np.zeros(0, dtype=np.uint32)
_NO_COLUMNS.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Code:
    """The meaning of the small integers of a problem."""

    levels: NDArray[np.float64]  # (3,) L of an entry observed as 0, observed as 1, missing
    steps: int  # of the stronger level in a byte

    @property
    def unit(self) -> float:
        """Log-odds of one step of a max-sum message."""
        return float(np.abs(self.levels).max()) / self.steps

    @cached_property
    def bounds(self) -> NDArray[np.int16]:
        """|L| of a 0 and of a 1 in units, (2,)."""
        return np.maximum(1, np.rint(np.abs(self.levels[:2]) / self.unit)).astype(np.int16)

    @cached_property
    def small(self) -> NDArray[np.float32]:
        """The smaller likelihood of a 0 and of a 1, the larger being 1, (2,)."""
        return np.exp(-np.abs(self.levels[:2])).astype(np.float32)


@dataclass(frozen=True, eq=False)
class IntegerBlock:
    """A run of consecutive rows: observed entries with their columns, or all cells in order."""

    start: int
    stop: int
    indptr: NDArray[np.int64]  # (rows + 1,), from 0
    index: NDArray[np.uint32]  # (entries,) columns; empty if dense
    codes: NDArray[np.uint8]  # (entries,) 0, 1, or 2 for a missing cell
    dense: bool
    n_columns: int
    most_in_column: int  # no column has more entries than this
    first_row: int = 0  # number in the whole matrix of the first row of the observations

    @cached_property
    def for_kernels(self) -> groups.Block:
        """The block in the form of kernels."""
        dense: Literal[True] | None = True if self.dense else None
        first_row = self.first_row + self.start
        return groups.Block(dense, first_row, self.indptr, self.index, self.codes)

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

    def to_lanes(self, values: Array) -> Array:
        """Numbers of the entries, (entries,), as groups hold them, (groups, 16); 0 elsewhere."""
        if not self.dense:
            lanes = np.zeros(self.n_groups * LANES, dtype=values.dtype)
            lanes[: self.n_entries] = values
            return lanes.reshape(-1, LANES)
        n_rows = self.stop - self.start
        lanes = np.zeros((n_rows, self.n_groups // n_rows * LANES), dtype=values.dtype)
        lanes[:, : self.n_columns] = values.reshape(n_rows, self.n_columns)
        return lanes.reshape(-1, LANES)

    def from_lanes(self, packed: Array) -> Array:
        """Messages of groups (groups, K, 16), or by entry already, by entry: (entries, K)."""
        if packed.ndim == 2:
            return packed[: self.n_entries]
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


def code_for(model: Model, ones_alone: bool = False) -> Code | str:
    """The integer code of a model, or the reason why it cannot have one.

    With `ones_alone`, no entry with messages is observed as 0: then neither the steps of a zero nor
    sums over factors, which only a zero needs, can be too coarse or too large.
    """
    if not model.channel.is_uniform:
        return "the channel differs from entry to entry"
    if np.any(model.channel.missing_log_likelihood_ratio()):
        return "a missing entry is evidence"
    missing = model.channel.missing_given_zero
    if missing is not None and not np.all(missing):
        return "a missing entry would be impossible"
    zero, one = model.channel.evidence_by_value()
    if not zero < 0 < one:
        return "an observed 1 is not evidence for a 1, or an observed 0 not for a 0"
    weaker = one if ones_alone else min(one, -zero)
    if max(one, -zero) > LARGEST_RATIO * weaker:
        return "the evidence of zeros and ones differs too much"
    if max(one, -zero) > LARGEST_EVIDENCE:
        return "the evidence is almost certain"
    if model.n_components > MOST_FACTORS and not ones_alone:
        return f"there are more than {MOST_FACTORS} factors"
    return code_of(model)


def code_of(model: Model) -> Code:
    """The integer code of a model known to allow one."""
    zero, one = model.channel.evidence_by_value()
    steps = kernels.XOR_STEPS if model.product == "xor" else kernels.OR_STEPS
    levels = np.clip([zero, one, 0.0], -LARGEST_EVIDENCE, LARGEST_EVIDENCE)
    return Code(levels, steps)


def make_blocks(
    observations: Observations, cuts: list[tuple[int, int]], store: Memory, first_row: int = 0
) -> tuple[IntegerBlock, ...]:
    """Divide the rows at `cuts` into blocks, dense or sparse; observed entries are not copied.

    New arrays go to the `store`.
    """
    n_columns = observations.shape[1]
    if observations.indices.dtype == np.int32:
        index = observations.indices.view(np.uint32)  # the same bits: no copy
    else:
        index = observations.indices.astype(np.uint32)
    sizes = [(stop - start) * n_columns for start, stop in cuts]
    seen = [int(observations.indptr[stop] - observations.indptr[start]) for start, stop in cuts]
    holes = [(n,) for n, m in zip(sizes, seen, strict=True) if DENSE * n <= m < n]
    new = iter(store.zeros(holes, np.uint8))
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
            IntegerBlock(start, stop, indptr, columns, codes, dense, n_columns, most, first_row)
        )
    return tuple(blocks)


def _most_in_column(n_rows: int, columns: NDArray[np.uint32], n_columns: int) -> int:
    """A bound on the entries of a column: the number of rows, or counted if that is too large."""
    if not len(columns) or n_rows * kernels.LARGEST_MOVE <= NARROW:
        return n_rows
    return int(np.bincount(columns, minlength=n_columns).max())


def entries_of(block: IntegerBlock) -> tuple[Array, ...]:
    """The large arrays of a block, which may be in files."""
    return block.index, block.codes


def log_probability_of_zeros(observations: ObservedEntries, model: Model) -> float:
    """Σ log p(o | z = 0) over all entries, including missing ones if their probability is given."""
    ones = observations.n_ones
    given_zero, _ = model.channel.log_probabilities_by_value()
    total = ones * given_zero[1] + (observations.n_observed - ones) * given_zero[0]
    n_missing = observations.shape[0] * observations.shape[1] - observations.n_observed
    missing = model.channel.missing_given_zero
    if missing is not None and n_missing:
        total += n_missing * float(np.log(np.asarray(missing)))
    return float(total)
