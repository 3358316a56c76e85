"""The inner loops on small integers: max-sum in 8 bits a message.

Where an entry can be seen as 1 or as 0 but every 1 weighs the same and every 0 the same, messages
and beliefs are whole numbers of one unit. Then sums are exact in whatever order they are taken,
16 numbers fit in a vector register, and a message of max-sum, which for an entry seen as 1 lies
between 0 and L, fits in a byte. Seen as 0 it lies between −L and 0 and is stored with `OR_STEPS`
added; for XOR, where it lies between −L and L, with `XOR_OFFSET` added.

Entries go by groups of 16, `LANES`. A group takes the beliefs of its rows and columns, updates its
messages, and adds what they moved by to the sums of its rows and columns. What a variable tells a
factor only counts between −L and L, so beliefs are cut to 16 bits before. A chunk of `GROUPS`
groups is skipped if nothing in it would change.

A block is dense (all columns of its rows in order, a row in whole groups; arrays by column are
(K, N), contiguous for a group) or sparse (an index of columns; arrays by column are (N, stride),
and a group's are transposed in registers). Arrays are passed flat, with `SLACK` numbers behind: a
vector may reach beyond what it is about. Options that are None or True, `xor` and `dense`, are
types to numba: it compiles a kernel for those that are used, without what the others need.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import (
    LANES,
    TILE,
    as_int16,
    as_uint8,
    gather_tile,
    largest,
    load,
    maximum,
    minimum,
    pointer,
    prefetch,
    scatter_sorted_tile,
    scatter_tile,
    splat,
    store,
    total,
    where,
    widened,
)

# Groups in a chunk: few enough that chunks settle one by one, many enough not to be counted.
GROUPS = 32

# Numbers to keep behind the last of a flat array.
SLACK = LANES

# Numbers in a cache line, of 16 bits each.
LINE = 32

# Messages are asked for so many groups before their turn: about as long as memory takes to answer.
AHEAD = 4

# Codes of entries: seen as 0, seen as 1, not seen.
MISSING = 2

# A byte for a share of L: 255 steps, or 127 to either side for XOR.
OR_STEPS = 255
XOR_STEPS = 127
XOR_OFFSET = 128

# Beliefs beyond this are as good as certain: twice the largest message and more.
MAX_SUM_LIMIT = 1023

# The most that a message can move by in an iteration.
LARGEST_MOVE = 255

# Damping in 128ths: then 128 · 255 still fits in 16 bits.
DAMPING_STEPS = 128

# More than any (Γ̂)₊ and than any message less a belief, and not near the end of 16 bits.
_COVERED = 16000
_NEVER = 32000

_i16 = np.int16


def arrays_apart(wanted):
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


def scratch(n_factors, more=()):
    """The scratch arrays of one thread: x, y, held, row_at, column_at and seen below."""
    size = -(-n_factors // TILE) * TILE * LANES
    factors = [(size, np.int16)] * 3
    places = [(LANES, np.int64)] * 2
    return arrays_apart([*factors, *places, (LANES, np.uint8), *more])


# ---------------------------------------------------------------- groups of entries


@njit(nogil=True, cache=True, error_model="numpy")
def n_groups_of(dense, n_columns, n_rows, n_entries):
    """Number of groups of a block."""
    if dense is not None:
        return n_rows * -(-n_columns // LANES)
    return -(-n_entries // LANES)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def first_entry(dense, n_columns, indptr, group, row):
    """Row and column (0 if sparse) of the first entry of a group; `row` is not beyond it."""
    if dense is not None:
        per_row = -(-n_columns // LANES)
        return group // per_row, group % per_row * LANES
    while indptr[row + 1] <= group * LANES:
        row += 1
    return row, 0


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def find_group(dense, n_columns, indptr, n_entries, group, row, column):
    """Row and column of a group's first entry, its number; how many entries, if all of one row.

    `row` and `column`: those of the group before, the column one group further; or its own.
    """
    if dense is not None:
        if column >= n_columns:
            row += 1
            column = 0
        return row, column, row * n_columns + column, min(LANES, n_columns - column), True
    start = group * LANES
    n = min(LANES, n_entries - start)
    while indptr[row + 1] <= start:
        row += 1
    return row, 0, start, n, indptr[row + 1] >= start + n


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def read_codes(codes, start, n, seen):
    """Codes of a group; what is behind the end counts as not seen."""
    if n == LANES:
        return as_int16(load(codes, start))
    for i in range(LANES):
        seen[i] = codes[start + i] if i < n else np.uint8(MISSING)
    return as_int16(load(seen, 0))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _gather_rows(dense, indptr, row, start, n, n_factors, row_belief, x, row_at):
    """The rows of `gather`, where there are several; in dense blocks there never are."""
    if dense is None:
        for i in range(n):
            while indptr[row + 1] <= start + i:
                row += 1
            row_at[i] = row * n_factors
        for i in range(n, LANES):
            row_at[i] = row * n_factors
        for k in range(0, n_factors, TILE):
            gather_tile(row_belief, row_at, k, x)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def gather(
    dense, n_columns, indptr, columns, row, column, start, n, one_row, n_factors, row_belief,
    column_belief, x, y, row_at, column_at,
):  # fmt: skip
    """x[k], y[k] = beliefs of the rows and columns of a group; row_at, column_at: their places."""
    if one_row:
        for k in range(n_factors):
            store(x, k * LANES, splat(row_belief[row * n_factors + k]))
    else:
        _gather_rows(dense, indptr, row, start, n, n_factors, row_belief, x, row_at)
    if dense is not None:
        for k in range(n_factors):
            store(y, k * LANES, load(column_belief, k * n_columns + column))
    else:
        for i in range(n):
            column_at[i] = np.int64(columns[start + i]) * n_columns
        for k in range(0, n_factors, TILE):
            gather_tile(column_belief, column_at, k, y)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def fetch_ahead(dense, stride, columns, start, n_entries, column_belief):
    """Ask for what the columns of the next group are told: it lies wherever it lies in memory."""
    if dense is None and start + 2 * LANES <= n_entries:
        for i in range(start + LANES, start + 2 * LANES):
            at = np.int64(columns[i]) * stride
            prefetch(column_belief, at)
            if stride > LINE:
                for part in range(LINE, stride, LINE):
                    prefetch(column_belief, at + part)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def fetch_messages(group, n_factors, n_bytes, to_row, to_column):
    """Ask for the messages, of so many bytes each, of a group some way ahead."""
    at = (group + AHEAD) * n_factors * LANES
    for k in range(0, n_factors, 2 * LINE // (n_bytes * LANES)):
        prefetch(to_row, at + k * LANES)
        prefetch(to_column, at + k * LANES)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def clear_rest(n_factors, x):
    """x[k] = 0 for the k beyond the last factor in the last tile, where neighbours were read."""
    for k in range(n_factors, -(-n_factors // TILE) * TILE):
        store(x, k * LANES, splat(_i16(0)))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def scatter_rows(dense, n_factors, x, row_at, row_sum):
    """Add x[k] to the sums of the rows of a group, where there are several."""
    if dense is None:
        clear_rest(n_factors, x)
        for k in range(0, n_factors, TILE):
            scatter_sorted_tile(x, row_at, k, row_sum)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def scatter_columns(dense, n_columns, column, n_factors, y, column_at, column_sum):
    """Add y[k] to the sums of the columns of a group."""
    if dense is not None:
        for k in range(n_factors):
            at = k * n_columns + column
            store(column_sum, at, load(column_sum, at) + widened(load(y, k * LANES), column_sum))
    else:
        clear_rest(n_factors, y)
        for k in range(0, n_factors, TILE):
            scatter_tile(y, column_at, k, column_sum)


@njit(nogil=True, cache=True, error_model="numpy")
def settled(
    dense, n_columns, n_rows, n_entries, indptr, columns, first, last, row, row_moved, column_moved
):  # fmt: skip
    """Whether no row and no column of the groups from first to last has moved."""
    if dense is not None:
        per_row = -(-n_columns // LANES)
        for r in range(first // per_row, (last - 1) // per_row + 1):
            if row_moved[r]:
                return False
        begin = first % per_row * LANES
        for i in range(min(n_columns, (last - first) * LANES)):
            if column_moved[(begin + i) % n_columns]:
                return False
        return True
    stop = min(last * LANES, n_entries)
    while row < n_rows and indptr[row] < stop:
        if indptr[row + 1] > first * LANES and row_moved[row]:
            return False
        row += 1
    for i in range(first * LANES, stop):  # noqa: SIM110
        if column_moved[columns[i]]:
            return False
    return True


# ---------------------------------------------------------------- max-sum


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _damped(gap, damping, up, down):
    """A damped step over a gap, in 128ths, rounded: `up` of them are added to what is above 0.

    `down` is None, or what is added to `up` below 0: with little damping messages would stop far
    from where they are going if all were rounded to nearest.
    """
    share = gap * damping
    if down is None:
        return (share + up) >> splat(_i16(7))
    return (share + up + ((share >> splat(_i16(15))) & splat(down))) >> splat(_i16(7))


def rounding(damping):
    """`damping`, `up` and `down` of `_damped` for a damping in (0, 1].

    To nearest, if then a gap of two units is closed. If not, a gap of 1 stays, as closing it might
    go to and fro for ever, and one of 2 becomes 1.
    """
    steps = max(1, round(damping * DAMPING_STEPS))
    if 2 * steps > DAMPING_STEPS // 2:
        return _i16(steps), _i16(DAMPING_STEPS // 2), None
    up = DAMPING_STEPS - 1 - steps
    return _i16(steps), _i16(up), _i16(steps - up)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _send(claim, other, old, damping, up, down, at, messages, i, moves):
    """Damped update of messages towards (claim + other)₊ − (other)₊; returns how far they moved.

    The messages are those stored from `at` on; what they moved by goes to `moves` from `i` on.
    """
    low = minimum(other, splat(_i16(0)))
    moved = _damped(maximum(claim + low, low - other) - old, damping, up, down)
    store(messages, at, as_uint8(as_int16(load(messages, at)) + moved))
    store(moves, i, moved)
    return maximum(moved, splat(_i16(0)) - moved)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _or_group(
    n_factors, offset, bound, damping, up, down, first, to_row, to_column, x, y
):  # fmt: skip
    """Damped update of one group, as `max_sum._max_sum_or_exchange` explains it.

    Vectors: offset, what is added to a message to store it, 255 for a 0; bound, |L|. The messages
    are those from `first` on. x, y (K, LANES): in, the beliefs; out, what the messages moved by.
    Returns the largest of these, a vector.
    """
    zero = splat(_i16(0))
    change = zero
    best = splat(_i16(-_NEVER))
    second = best
    covered = zero
    for k in range(n_factors):
        i = k * LANES
        a = load(x, i) - (as_int16(load(to_row, first + i)) - offset)
        b = load(y, i) - (as_int16(load(to_column, first + i)) - offset)
        both = minimum(a + b, minimum(a, b))
        second = maximum(second, minimum(best, both))
        best = maximum(best, both)
        covered = covered + minimum(maximum(both, zero), bound)
    # What the others claim of a term: of an entry seen as 1 that no other is 1, of an entry seen
    # as 0 that some other is. Either is 0 for the other kind.
    seen_as_zero = offset > zero
    covered = where(seen_as_zero, covered - bound, splat(_i16(_COVERED)))
    if_best = where(seen_as_zero, zero, minimum(maximum(zero - second, zero), bound))
    if_not = where(seen_as_zero, zero, minimum(maximum(zero - best, zero), bound))
    for k in range(n_factors):
        i = k * LANES
        old_row = as_int16(load(to_row, first + i)) - offset
        old_column = as_int16(load(to_column, first + i)) - offset
        a = load(x, i) - old_row
        b = load(y, i) - old_column
        both = minimum(a + b, minimum(a, b))
        claim = where(both == best, if_best, if_not) + minimum(
            covered - minimum(maximum(both, zero), bound), zero
        )
        moved = _send(claim, b, old_row, damping, up, down, first + i, to_row, i, x)
        moved_column = _send(claim, a, old_column, damping, up, down, first + i, to_column, i, y)
        change = maximum(change, maximum(moved, moved_column))
    return change


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _xor_group(
    n_factors, sign, bound, damping, up, down, first, to_row, to_column, x, y
):  # fmt: skip
    """As `_or_group` for XOR; `sign` is +1 for an entry seen as 1, else −1."""
    zero = splat(_i16(0))
    change = zero
    offset = splat(_i16(XOR_OFFSET))
    smallest = splat(_i16(_NEVER))
    second = smallest
    parity = sign
    for k in range(n_factors):
        i = k * LANES
        a = load(x, i) - (as_int16(load(to_row, first + i)) - offset)
        b = load(y, i) - (as_int16(load(to_column, first + i)) - offset)
        both = minimum(a + b, minimum(a, b))
        size = maximum(both, zero - both)
        second = minimum(second, maximum(smallest, size))
        smallest = minimum(smallest, size)
        parity = where(both > zero, zero - parity, parity)
    for k in range(n_factors):
        i = k * LANES
        old_row = as_int16(load(to_row, first + i)) - offset
        old_column = as_int16(load(to_column, first + i)) - offset
        a = load(x, i) - old_row
        b = load(y, i) - old_column
        both = minimum(a + b, minimum(a, b))
        size = maximum(both, zero - both)
        others = minimum(where(size == smallest, second, smallest), bound)
        claim = others * where(both > zero, zero - parity, parity)
        moved = _send(claim, b, old_row, damping, up, down, first + i, to_row, i, x)
        moved_column = _send(claim, a, old_column, damping, up, down, first + i, to_column, i, y)
        change = maximum(change, maximum(moved, moved_column))
    return change


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum(
    xor, dense, n_columns, indptr, columns, codes, bounds, damping, up, down, n_factors, row_belief,
    column_belief, row_moved, column_moved, still, to_row, to_column, row_sum, column_sum,
    x, y, held, row_at, column_at, seen,
):  # fmt: skip
    """One iteration of max-sum over one block of rows.

    Fixed: xor and dense, None or True; n_columns N if dense, else the stride, the numbers from one
    column to the next, a multiple of `TILE`; indptr (rows + 1,) from 0; columns (entries,) uint32,
    unused if dense; codes (entries,) uint8; bounds (2,) int16, |L| of a 0 and of a 1 in units;
    damping, up and down of `rounding`. Read: row_belief (rows, K) and column_belief, (K, N) if
    dense, else (N, stride), int16 in units; row_moved (rows,), column_moved (N,), whether these
    changed since the last iteration. Updated: still (chunks,), whether a chunk's messages stayed as
    they were; to_row, to_column (groups, K, LANES) uint8. What they moved by is added to row_sum
    (rows, K) and column_sum (as column_belief). The rest is scratch. A chunk that was still and
    none of whose beliefs moved is skipped: nothing in it would change. Returns the largest change
    as a share of |L|.
    """
    n_entries, n_rows = codes.shape[0], indptr.shape[0] - 1
    n_groups = n_groups_of(dense, n_columns, n_rows, n_entries)
    indptr, columns, codes = pointer(indptr), pointer(columns), pointer(codes)
    row_belief, column_belief = pointer(row_belief), pointer(column_belief)
    to_row, to_column = pointer(to_row), pointer(to_column)
    row_sum, column_sum = pointer(row_sum), pointer(column_sum)
    x, y, held, seen = pointer(x), pointer(y), pointer(held), pointer(seen)
    row_at, column_at = pointer(row_at), pointer(column_at)
    zero = splat(_i16(0))
    steps = splat(damping)
    bound_of_zero = splat(bounds[0])
    bound_of_one = splat(bounds[1])
    round_up = splat(up)
    residual_of_zero, residual_of_one = _i16(0), _i16(0)
    row = 0
    for c in range(still.shape[0]):
        first = c * GROUPS
        last = min(n_groups, first + GROUPS)
        row, column = first_entry(dense, n_columns, indptr, first, row)
        if still[c] and settled(
            dense, n_columns, n_rows, n_entries, indptr, columns, first, last, row, row_moved,
            column_moved,
        ):  # fmt: skip
            continue
        change_of_zero, change_of_one = zero, zero
        for g in range(first, last):
            row, column, start, n, one_row = find_group(
                dense, n_columns, indptr, n_entries, g, row, column
            )
            fetch_ahead(dense, n_columns, columns, start, n_entries, column_belief)
            if dense is None:
                fetch_messages(g, n_factors, 1, to_row, to_column)
            gather(
                dense, n_columns, indptr, columns, row, column, start, n, one_row, n_factors,
                row_belief, column_belief, x, y, row_at, column_at,
            )  # fmt: skip
            code = read_codes(codes, start, n, seen)
            seen_as_one = code == splat(_i16(1))
            bound = where(code == zero, bound_of_zero, where(seen_as_one, bound_of_one, zero))
            at = g * n_factors * LANES
            if xor is None:
                offset = where(code == zero, splat(_i16(OR_STEPS)), zero)
                change = _or_group(
                    n_factors, offset, bound, steps, round_up, down, at, to_row, to_column,
                    x, y,
                )  # fmt: skip
            else:
                sign = where(seen_as_one, splat(_i16(1)), splat(_i16(-1)))
                change = _xor_group(
                    n_factors, sign, bound, steps, round_up, down, at, to_row, to_column,
                    x, y,
                )  # fmt: skip
            change_of_one = maximum(change_of_one, where(seen_as_one, change, zero))
            change_of_zero = maximum(change_of_zero, where(seen_as_one, zero, change))
            scatter_columns(dense, n_columns, column, n_factors, y, column_at, column_sum)
            if one_row:
                for k in range(n_factors):  # 32 moves of 255 at most: within 16 bits
                    store(held, k * LANES, load(held, k * LANES) + load(x, k * LANES))
                if g + 1 == last or indptr[row + 1] < start + n + LANES:  # the next is not its own
                    for k in range(n_factors):
                        row_sum[row * n_factors + k] += total(load(held, k * LANES))
                        store(held, k * LANES, zero)
            else:
                scatter_rows(dense, n_factors, x, row_at, row_sum)
            column += LANES
        moved_zero, moved_one = largest(change_of_zero), largest(change_of_one)
        still[c] = moved_zero == 0 and moved_one == 0
        residual_of_zero = max(residual_of_zero, moved_zero)
        residual_of_one = max(residual_of_one, moved_one)
    return max(residual_of_zero / bounds[0], residual_of_one / bounds[1])
