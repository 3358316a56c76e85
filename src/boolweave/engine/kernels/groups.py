"""Groups of 16 entries: what the two kernels on integer messages share.

Entries go by groups of 16, `LANES`. A group gathers the beliefs of its rows and columns, updates
its messages, and scatters what they changed by to the sums of its rows and columns. A chunk of
`GROUPS` groups is skipped if nothing in it would change.

A block is dense (all columns of its rows in order, a row in whole groups; arrays by column are
(K, N), contiguous for a group) or sparse (an index of columns; arrays by column are (N, stride),
and a group's are transposed in registers). Arrays are passed flat, with `SLACK` numbers behind: a
vector may reach beyond what it is about. Options that are None or True, `xor` and `dense`, are
types to numba: it compiles a kernel for those that are used, without what the others need.
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

# Groups in a chunk: few enough that chunks come to rest one by one, many enough not to be counted.
GROUPS = 32

# Numbers to keep behind the last of a flat array.
SLACK = LANES

# Numbers in a cache line, of 16 bits each.
LINE = 32

# Messages are asked for so many groups before their turn: about as long as memory takes to answer.
AHEAD = 4

# Codes of entries: seen as 0, seen as 1, not seen.
MISSING = 2

_i16 = np.int16


class Block(NamedTuple):
    """The entries of a run of consecutive rows."""

    dense: Literal[True] | None  # whether these are all cells of the rows, in order
    first_row: int  # number of the first row in the matrix
    indptr: Integers  # (rows + 1,) int64, where the entries of each row begin, from 0
    columns: Integers  # (entries,) uint32; empty if dense
    codes: Integers  # (entries,) uint8: 0, 1 or `MISSING`


class Variables(NamedTuple):
    """Beliefs of the rows or columns of a block, and sums of their messages; flat arrays."""

    # Of rows K, of columns of a sparse block a multiple of `TILE`: numbers from one row or column
    # to the next. Of columns of a dense block N: from one factor to the next.
    stride: int
    beliefs: Integers  # int16, in units
    sums: Integers  # to which changes of messages are added, in units
    changed: Array  # (n,) bool, whether the beliefs of a row or column differ from those before


class Scratch(NamedTuple):
    """Arrays of one thread, of one group each; kernels take them as a plain tuple.

    (For every call of a compiled function numba spends half a microsecond on a named tuple.)
    """

    x: Integers  # (K, LANES) int16: beliefs of rows, then changes of the messages to them
    y: Integers  # (K, LANES) int16, likewise of columns
    row_at: Integers  # (LANES,) int64, where the numbers of an entry's row begin
    column_at: Integers  # (LANES,) int64, likewise of its column
    codes: Integers  # (LANES,) uint8
    row_changes: Integers  # changes of messages to a row, added up until it ends


class Group(NamedTuple):
    """Where a group is in its block."""

    number: int
    row: int  # of its first entry
    column: int  # of its first entry, if dense
    start: int  # number of its first entry
    n: int  # how many entries it has
    one_row: bool  # whether they are all of one row


def arrays_apart(wanted: list[tuple[int, Any]]) -> list[Array]:
    """Zeros of (size, type), each on cache lines of its own, away from those of other threads.

    Small arrays one by one would be neighbours, and threads that write to them slow one another.
    """
    line = 128
    sizes = [-(-size * np.dtype(kind).itemsize // line) * line for size, kind in wanted]
    buffer = np.zeros(sum(sizes) + 2 * line, np.uint8)
    at = -buffer.ctypes.data % line
    arrays = []
    for n_bytes, (size, kind) in zip(sizes, wanted, strict=True):
        arrays.append(buffer[at : at + n_bytes].view(kind)[:size])
        at += n_bytes
    return arrays


def make_scratch(n_factors: int, row_changes: tuple[int, Any]) -> tuple[Array, ...]:
    """`Scratch` for K factors; size and type of `row_changes` are those of the kernel."""
    factors, places = (padded(n_factors) * LANES, np.int16), (LANES, np.int64)
    wanted = [factors, factors, places, places, (LANES, np.uint8), row_changes]
    return tuple(arrays_apart(wanted))


def padded(n_factors: int) -> int:
    """The number of factors in whole tiles."""
    return -(-n_factors // TILE) * TILE


# ---------------------------------------------------------------- finding and skipping groups


@njit(nogil=True, cache=True, error_model="numpy")
def count_groups(block: Block, n_columns: int) -> int:
    """Number of groups of a block."""
    if block.dense is not None:
        return (block.indptr.shape[0] - 1) * -(-n_columns // LANES)
    return -(-block.codes.shape[0] // LANES)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def first_entry(block: Block, n_columns: int, number: int, row: int) -> tuple[int, int]:
    """Row and column (0 if sparse) of the first entry of a group; `row` is not beyond it."""
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
    """A group by its number.

    `row` and `column`: those of the group before, the column one group further; or its own.
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
    """Whether the group after one that is of one row is not of that row alone."""
    return block.indptr[group.row + 1] < group.start + group.n + LANES


@njit(nogil=True, cache=True, error_model="numpy")
def rests(
    block: Block, rows: Variables, columns: Variables, first: int, last: int, row: int
) -> bool:
    """Whether no belief of the rows and columns of the groups from first to last has changed."""
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
    """Ask for the column beliefs of the next group: they lie wherever they lie in memory."""
    if block.dense is None and group.start + 2 * LANES <= n_entries:
        for i in range(group.start + LANES, group.start + 2 * LANES):
            at = np.int64(block.columns[i]) * columns.stride
            prefetch(columns.beliefs, at)
            if columns.stride > LINE:
                for part in range(LINE, columns.stride, LINE):
                    prefetch(columns.beliefs, at + part)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def prefetch_messages(messages: Messages, group: Group, n_factors: int, n_bytes: int) -> None:
    """Ask for the messages, of so many bytes each, of a group some way ahead."""
    at = (group.number + AHEAD) * n_factors * LANES
    for k in range(0, n_factors, 2 * LINE // (n_bytes * LANES)):
        prefetch(messages.to_row, at + k * LANES)
        prefetch(messages.to_column, at + k * LANES)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def read_codes(block: Block, group: Group, scratch: Scratch) -> Vector:
    """Codes of a group; what is behind the end counts as not seen."""
    if group.n == LANES:
        return as_int16(load(block.codes, group.start))
    for i in range(LANES):
        scratch.codes[i] = block.codes[group.start + i] if i < group.n else np.uint8(MISSING)
    return as_int16(load(scratch.codes, 0))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def gather(
    block: Block, rows: Variables, columns: Variables, group: Group, scratch: Scratch
) -> None:
    """x[k], y[k] = beliefs of the rows and columns of a group; row_at, column_at: their places."""
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
    """x[k] = 0 for the k beyond the last factor in the last tile, where neighbours were read."""
    for k in range(n_factors, -(-n_factors // TILE) * TILE):
        store(x, k * LANES, splat(_i16(0)))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def scatter_rows(block: Block, rows: Variables, scratch: Scratch) -> None:
    """Add x[k] to the sums of the rows of a group, where there are several."""
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
