"""Groups of 16 entries: the parts that the two kernels with integer messages have in common.

Entries are processed in groups of 16, `LANES`. A group gathers the beliefs of its rows and columns,
updates its messages, and scatters (adds) the changes of the messages to the sums of its rows and
columns. A chunk of `GROUPS` groups is skipped if nothing in it would change.

A block is dense or sparse. In a dense block, all columns of its rows are in order, and each row
begins a new group; arrays by column are (K, N), so that those of a group are contiguous. A sparse
block has an index of columns; arrays by column are (N, stride), and those of a group are transposed
in registers. Arrays are passed flat, with `SLACK` additional numbers at the end, because a vector
may reach beyond the last number. Options that are None or True, `xor` and `dense`, are types for
numba: it compiles a separate kernel for each combination that is used.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import Messages
from boolweave.engine.kernels.tiles import TILE, gather_tile, scatter_sorted_tile, scatter_tile
from boolweave.engine.kernels.vectors import (
    LANES,
    Vector,
    as_int16,
    load,
    prefetch,
    splat,
    store,
    widened,
)
from boolweave.runtime.types import Array, Integers

# Number of groups in a chunk: few enough that some chunks converge before others, many enough that
# the bookkeeping for chunks takes no noticeable time.
GROUPS = 32

# Number of additional numbers at the end of a flat array.
SLACK = LANES

# Number of 16-bit numbers in a cache line.
LINE = 32

# Messages are prefetched this many groups ahead, which is about the latency of the memory.
AHEAD = 4

# The code of a missing entry; an observed entry has its value, 0 or 1, as its code.
MISSING = 2

_i16 = np.int16


class Block(NamedTuple):
    """The entries of a run of consecutive rows."""

    dense: Literal[True] | None  # whether the entries are all cells of the rows, in order
    first_row: int  # number of the first row in the matrix
    indptr: Integers  # (rows + 1,) int64, where the entries of each row begin, starting with 0
    columns: Integers  # (entries,) uint32; empty if dense
    codes: Integers  # (entries,) uint8: 0, 1 or `MISSING`


class Variables(NamedTuple):
    """Beliefs of the rows or columns of a block, and sums of their messages; flat arrays."""

    # Distance from one row or column to the next: K for rows, a multiple of `TILE` for the columns
    # of a sparse block. For the columns of a dense block: N, the distance between factors.
    stride: int
    beliefs: Integers  # int16, in units
    sums: Integers  # in units; changes of messages are added to them
    changed: Array  # (n,) bool, whether the beliefs of a row or column changed in the last step


class Scratch(NamedTuple):
    """Arrays of one thread for one group; kernels are passed a plain tuple of them.

    (With a named tuple, numba takes half a microsecond more for every call of a compiled function.)
    """

    x: Integers  # (K, LANES) int16: beliefs of rows, then changes of the messages to them
    y: Integers  # (K, LANES) int16: the same for columns
    row_at: Integers  # (LANES,) int64: where the numbers of the row of each entry begin
    column_at: Integers  # (LANES,) int64: the same for its column
    codes: Integers  # (LANES,) uint8
    row_changes: Integers  # sums of the changes of messages to the current row


class Group(NamedTuple):
    """The position of a group in its block."""

    number: int
    row: int  # row of the first entry
    column: int  # column of the first entry, if the block is dense
    start: int  # number of the first entry
    n: int  # number of entries
    one_row: bool  # whether all entries are in the same row


def arrays_apart(wanted: list[tuple[int, Any]]) -> list[Array]:
    """Make arrays of zeros of (size, type), none of which shares a cache line with another array.

    Small arrays that are allocated one by one may share a cache line, and threads that write to the
    same cache line slow each other down.
    """
    line = 128
    sizes = [-(-size * np.dtype(kind).itemsize // line) * line for size, kind in wanted]
    buffer = np.zeros(sum(sizes) + 2 * line, np.uint8)
    at = -buffer.__array_interface__["data"][0] % line
    arrays = []
    for n_bytes, (size, kind) in zip(sizes, wanted, strict=True):
        arrays.append(buffer[at : at + n_bytes].view(kind)[:size])
        at += n_bytes
    return arrays


def make_scratch(n_factors: int, row_changes: tuple[int, Any]) -> tuple[Array, ...]:
    """Make `Scratch` for K factors; the kernel determines size and type of `row_changes`."""
    factors, places = (padded(n_factors) * LANES, np.int16), (LANES, np.int64)
    wanted = [factors, factors, places, places, (LANES, np.uint8), row_changes]
    return tuple(arrays_apart(wanted))


def padded(n_factors: int) -> int:
    """The number of factors, rounded up to whole tiles."""
    return -(-n_factors // TILE) * TILE


@njit(nogil=True, cache=True, error_model="numpy")
def add_table(table: Integers, out: Integers) -> None:
    """out[n · K + k] += table[n, k]."""
    n_factors = table.shape[1]
    for n in range(table.shape[0]):
        for k in range(n_factors):
            out[n * n_factors + k] += table[n, k]


# ---------------------------------------------------------------- finding and skipping groups


@njit(nogil=True, cache=True, error_model="numpy")
def count_groups(block: Block, n_columns: int) -> int:
    """Number of groups of a block."""
    if block.dense is not None:
        return (block.indptr.shape[0] - 1) * -(-n_columns // LANES)
    return -(-block.codes.shape[0] // LANES)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def first_entry(block: Block, n_columns: int, number: int, row: int) -> tuple[int, int]:
    """Row and column (0 if sparse) of the first entry of a group; the search begins at `row`."""
    if block.dense is not None:
        per_row = -(-n_columns // LANES)
        return number // per_row, number % per_row * LANES
    while block.indptr[row + 1] <= number * LANES:
        row += 1
    return row, 0


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def find_group(
    block: Block, n_columns: int, n_entries: int, number: int, row: int, column: int
) -> Group:
    """Find a group by its number.

    `row` and `column` are those of its first entry, or those that follow the previous group, even
    if that column is beyond the end of the row.
    """
    if block.dense is not None:
        if column >= n_columns:
            row += 1
            column = 0
        start = row * n_columns + column
        return Group(number, row, column, start, min(LANES, n_columns - column), True)
    start = number * LANES
    n = min(LANES, n_entries - start)
    while block.indptr[row + 1] <= start:
        row += 1
    return Group(number, row, 0, start, n, block.indptr[row + 1] >= start + n)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def ends_row(block: Block, group: Group) -> bool:
    """Whether the next group is not entirely in the row of this group, which has a single row."""
    return block.indptr[group.row + 1] < group.start + group.n + LANES


@njit(nogil=True, cache=True, error_model="numpy")
def is_unchanged(
    block: Block, rows: Variables, columns: Variables, first: int, last: int, row: int
) -> bool:
    """Whether no belief of the rows and columns of groups `first` to `last` − 1 has changed."""
    n_columns, row_changed, column_changed = columns.stride, rows.changed, columns.changed
    if block.dense is not None:
        per_row = -(-n_columns // LANES)
        for r in range(first // per_row, (last - 1) // per_row + 1):
            if row_changed[r]:
                return False
        begin = first % per_row * LANES
        for i in range(min(n_columns, (last - first) * LANES)):
            if column_changed[(begin + i) % n_columns]:
                return False
        return True
    stop = min(last * LANES, block.codes.shape[0])
    while row < block.indptr.shape[0] - 1 and block.indptr[row] < stop:
        if block.indptr[row + 1] > first * LANES and row_changed[row]:
            return False
        row += 1
    for i in range(first * LANES, stop):  # noqa: SIM110
        if column_changed[block.columns[i]]:
            return False
    return True


# ---------------------------------------------------------------- gather


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def prefetch_columns(block: Block, columns: Variables, group: Group, n_entries: int) -> None:
    """Prefetch the column beliefs of the next group, which are scattered over memory."""
    if block.dense is None and group.start + 2 * LANES <= n_entries:
        for i in range(group.start + LANES, group.start + 2 * LANES):
            at = np.int64(block.columns[i]) * columns.stride
            prefetch(columns.beliefs, at)
            if columns.stride > LINE:
                for part in range(LINE, columns.stride, LINE):
                    prefetch(columns.beliefs, at + part)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def prefetch_messages(messages: Messages, group: Group, n_factors: int, n_bytes: int) -> None:
    """Prefetch the messages, of `n_bytes` bytes each, of the group that is `AHEAD` groups ahead."""
    at = (group.number + AHEAD) * n_factors * LANES
    for k in range(0, n_factors, 2 * LINE // (n_bytes * LANES)):
        prefetch(messages.to_row, at + k * LANES)
        prefetch(messages.to_column, at + k * LANES)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def read_codes(block: Block, group: Group, scratch: Scratch) -> Vector:
    """The codes of a group; entries beyond the end count as missing."""
    if group.n == LANES:
        return as_int16(load(block.codes, group.start))
    for i in range(LANES):
        scratch.codes[i] = block.codes[group.start + i] if i < group.n else np.uint8(MISSING)
    return as_int16(load(scratch.codes, 0))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def gather(
    block: Block, rows: Variables, columns: Variables, group: Group, scratch: Scratch
) -> None:
    """Set x[k] and y[k] to the beliefs of the rows and columns of a group, and their positions."""
    n_factors = rows.stride
    if group.one_row:
        for k in range(n_factors):
            store(scratch.x, k * LANES, splat(rows.beliefs[group.row * n_factors + k]))
    elif block.dense is None:
        row = group.row
        for i in range(group.n):
            while block.indptr[row + 1] <= group.start + i:
                row += 1
            scratch.row_at[i] = row * n_factors
        for i in range(group.n, LANES):
            scratch.row_at[i] = row * n_factors
        for k in range(0, n_factors, TILE):
            gather_tile(rows.beliefs, scratch.row_at, k, scratch.x)
    if block.dense is not None:
        for k in range(n_factors):
            belief = load(columns.beliefs, k * columns.stride + group.column)
            store(scratch.y, k * LANES, belief)
    else:
        for i in range(group.n):
            column = np.int64(block.columns[group.start + i])
            scratch.column_at[i] = column * columns.stride
        for k in range(0, n_factors, TILE):
            gather_tile(columns.beliefs, scratch.column_at, k, scratch.y)


# ---------------------------------------------------------------- scatter


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _clear_rest(n_factors: int, x: Array) -> None:
    """Set x[k] = 0 for the k beyond the last factor in the last tile, which hold other numbers."""
    for k in range(n_factors, -(-n_factors // TILE) * TILE):
        store(x, k * LANES, splat(_i16(0)))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def scatter_rows(block: Block, rows: Variables, scratch: Scratch) -> None:
    """Add x[k] to the sums of the rows of a group that has several rows."""
    if block.dense is None:
        _clear_rest(rows.stride, scratch.x)
        for k in range(0, rows.stride, TILE):
            scatter_sorted_tile(scratch.x, scratch.row_at, k, rows.sums)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def scatter_columns(
    block: Block, n_factors: int, columns: Variables, group: Group, scratch: Scratch
) -> None:
    """Add y[k] to the sums of the columns of a group."""
    if block.dense is not None:
        for k in range(n_factors):
            at = k * columns.stride + group.column
            change = widened(load(scratch.y, k * LANES), columns.sums)
            store(columns.sums, at, load(columns.sums, at) + change)
    else:
        _clear_rest(n_factors, scratch.y)
        for k in range(0, n_factors, TILE):
            scatter_tile(scratch.y, scratch.column_at, k, columns.sums)
