"""Small integers as messages: their meaning, blocks of entries, and quantised beliefs.

Sums of messages are exact in any order. The next iteration needs only beliefs in whole units, and
the log-posterior their signs; one pass over the sums computes both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from boolweave.data.observations import Observations
from boolweave.engine.backend import Semiring
from boolweave.engine.footprint import DENSE
from boolweave.engine.kernels import groups, integer_max_sum, integer_sum_product, variables
from boolweave.engine.kernels.variables import COARSE, FINE, LARGEST_PRIOR
from boolweave.engine.kernels.vectors import LANES
from boolweave.model.model import Model
from boolweave.model.odds import HARD_BELIEF
from boolweave.runtime.storage import Memory, release_pages
from boolweave.runtime.types import Array, Floats

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
class Quantization:
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

    def unit_in(self, semiring: Semiring) -> float:
        """Log-odds of one step of a message."""
        return self.unit if semiring == "max-sum" else 1 / integer_sum_product.LOG_ODDS_STEPS

    def scale(self, semiring: Semiring) -> variables.Scale:
        """The relation between log-odds and units."""
        unit, limit = self.unit_in(semiring), integer_sum_product.SUM_PRODUCT_LIMIT
        if semiring == "max-sum":
            limit = integer_max_sum.MAX_SUM_LIMIT
        return variables.Scale(np.float32(unit), np.float32(1 / unit), np.float32(limit))


def quantization_for(model: Model, implicit_zeros: bool = False) -> Quantization | str:
    """The quantization of a model, or the reason why it cannot have one.

    With `implicit_zeros`, no entry with messages is observed as 0: then neither the steps of a zero
    nor sums over factors, which only a zero needs, can be too coarse or too large.
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
    weaker = one if implicit_zeros else min(one, -zero)
    # The weaker kind of entry must keep at least 5 bits of the byte: rounding to 4 costs accuracy.
    largest_ratio = 8.0
    if max(one, -zero) > largest_ratio * weaker:
        return "the evidence of zeros and ones differs too much"
    if max(one, -zero) > LARGEST_EVIDENCE:
        return "the evidence is almost certain"
    if model.n_components > MOST_FACTORS and not implicit_zeros:
        return f"there are more than {MOST_FACTORS} factors"
    return quantization_of(model)


def quantization_of(model: Model) -> Quantization:
    """The quantization of a model known to allow one."""
    zero, one = model.channel.evidence_by_value()
    steps = integer_max_sum.XOR_STEPS if model.product == "xor" else integer_max_sum.OR_STEPS
    levels = np.clip([zero, one, 0.0], -LARGEST_EVIDENCE, LARGEST_EVIDENCE)
    return Quantization(levels, steps)


# ---------------------------------------------------------------- blocks of entries


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
        """The block in the form of integer_max_sum."""
        dense: Literal[True] | None = True if self.dense else None
        first_row = self.first_row + self.start
        return groups.Block(dense, first_row, self.indptr, self.index, self.codes)

    @property
    def arrays(self) -> tuple[Array, Array]:
        """The large arrays, which may be in files."""
        return self.index, self.codes

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
    n_observed = [
        int(observations.indptr[stop] - observations.indptr[start]) for start, stop in cuts
    ]
    holes = [(n,) for n, m in zip(sizes, n_observed, strict=True) if DENSE * n <= m < n]
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
    if not len(columns) or n_rows * integer_max_sum.LARGEST_MOVE <= NARROW:
        return n_rows
    return int(np.bincount(columns, minlength=n_columns).max())


# ---------------------------------------------------------------- rows and columns


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
    of_field = None if field is None else _flat_and_rest(field)
    n_changed = variables.quantise_and_decode(
        side.for_kernels(), side.words, pattern, scale, scratch, of_field, kept
    )
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
