"""The inner loops on small integers: max-sum in 8 bits a message.

Where an entry can be seen as 1 or as 0 but every 1 weighs the same and every 0 the same, messages
and beliefs are whole numbers of one unit. Then sums are exact in whatever order they are taken,
16 numbers fit in a vector register, and a message of max-sum, which lies between 0 and L, fits in a
byte, as a share of L (XOR: between −L and L, stored with 128 added).

What a variable tells a factor only counts between −L and L, so beliefs are cut to 16 bits before
the loops. As in `boolweave.kernels` one pass over a chunk is gather → exchange → scatter. A chunk
always has `CHUNK` entries, the last one of a block padded with entries that say nothing: with
lengths known to the compiler and all scratch rows in one array, whole loops stay in registers.

A block is sparse (an index of columns; column arrays are (N, K), so that an entry touches one
place) or dense (all columns of its rows in order; column arrays are (K, N), contiguous).
"""

import numpy as np

from boolweave._jit import njit

CHUNK = 512

# Codes of entries: seen as 0, seen as 1, not seen.
MISSING = 2

# A byte for a share of L: 255 steps, or 127 to either side for XOR.
OR_STEPS = 255
XOR_STEPS = 127
XOR_OFFSET = 128

# Beliefs beyond this are as good as certain: twice the largest message and more.
MAX_SUM_LIMIT = 1023

# Damping in 128ths: then 128 · 255 still fits in 16 bits.
DAMPING_STEPS = 128

# Rows of the scratch array of 16-bit numbers.
_SIGN = 0
_BOUND = CHUNK
_FIRST = 2 * CHUNK
_SECOND = 3 * CHUNK
_TOTAL = 4 * CHUNK
_CHANGE = 5 * CHUNK
_ROWS = 6


def scratch(n_factors):
    """The scratch arrays of one thread: x, y and w below."""
    cavities = [np.zeros((n_factors, CHUNK), np.int16) for _ in range(2)]
    return [*cavities, np.zeros(_ROWS * CHUNK, np.int16)]


_i16 = np.int16
_i32 = np.int32
_f32 = np.float32


# ---------------------------------------------------------------- gather and scatter


@njit(nogil=True, cache=True)
def _gather_rows(indptr, first_row, start, n, row_belief, out):
    """out[k, j] = row_belief[row of entry j, k]; returns the last row seen."""
    row = first_row
    j = 0
    while j < n:
        while indptr[row + 1] <= start + j:
            row += 1
        stop = min(n, indptr[row + 1] - start)
        for k in range(row_belief.shape[1]):
            belief = row_belief[row, k]
            for i in range(np.uint64(j), np.uint64(stop)):
                out[k, i] = belief
        j = stop
    return row


@njit(nogil=True, cache=True)
def _scatter_rows(indptr, first_row, start, n, messages, row_sum):
    """row_sum[row of entry j, k] += messages[k, j]."""
    row = first_row
    j = 0
    while j < n:
        while indptr[row + 1] <= start + j:
            row += 1
        stop = min(n, indptr[row + 1] - start)
        for k in range(row_sum.shape[1]):
            total = _i32(0)
            for i in range(np.uint64(j), np.uint64(stop)):
                total += _i32(messages[k, i])
            row_sum[row, k] += total
        j = stop


@njit(nogil=True, cache=True)
def _gather_columns(dense, columns, start, n, column_belief, out):
    """out[k, j] = belief of the column of entry j, from (K, N) if dense, else from (N, K)."""
    if dense:
        n_columns = column_belief.shape[1]
        j = 0
        while j < n:
            first = (start + j) % n_columns
            length = min(n - j, n_columns - first)
            for k in range(column_belief.shape[0]):
                source = column_belief[k, first : first + length]
                target = out[k, j : j + length]
                for i in range(length):
                    target[i] = source[i]
            j += length
    else:
        for j in range(n):
            column = columns[start + j]
            for k in range(column_belief.shape[1]):
                out[k, j] = column_belief[column, k]


@njit(nogil=True, cache=True)
def _scatter_columns(dense, columns, start, n, messages, column_sum):
    """Add messages[k, j] to the sum of entry j's column, in (K, N) if dense, else in (N, K)."""
    if dense:
        n_columns = column_sum.shape[1]
        j = 0
        while j < n:
            first = (start + j) % n_columns
            length = min(n - j, n_columns - first)
            for k in range(column_sum.shape[0]):
                target = column_sum[k, first : first + length]
                source = messages[k, j : j + length]
                for i in range(length):
                    target[i] += _i32(source[i])
            j += length
    else:
        for j in range(n):
            column = columns[start + j]
            for k in range(column_sum.shape[1]):
                column_sum[column, k] += _i32(messages[k, j])


# ---------------------------------------------------------------- max-sum


@njit(nogil=True, cache=True)
def _share(gap, damping):
    """A damped step over a gap, rounded away from 0: messages end where they are going.

    But for a gap of 1, which is rounded to nearest: else a message might go to and fro for ever.
    """
    up = _i16(DAMPING_STEPS - 1) if gap > _i16(1) else _i16(0)
    up = _i16(DAMPING_STEPS // 2) if _i16(-2) < gap and gap < _i16(2) else up
    return _i16(_i16(_i16(gap * damping) + up) >> 7)


@njit(nogil=True, cache=True)
def _read_codes(codes, start, n, bound_of_zero, bound_of_one, w):
    """Sign (±1) and bound |L| (0 for what says nothing) of the entries of a chunk."""
    for j in range(n):
        code = codes[start + j]
        w[_SIGN + j] = _i16(1) if code == 1 else _i16(-1)
        w[_BOUND + j] = bound_of_one if code == 1 else (bound_of_zero if code == 0 else _i16(0))
    for j in range(n, CHUNK):
        w[_SIGN + j] = _i16(1)
        w[_BOUND + j] = _i16(0)


@njit(nogil=True, cache=True)
def _or_exchange(damping, to_row, to_column, row_belief, column_belief, w):
    """Damped update of one chunk, as `boolweave.kernels._max_sum_or_exchange` explains it.

    to_row, to_column (K, CHUNK) uint8: |Φ| and |Ψ|, updated. row_belief, column_belief (K, CHUNK)
    int16: in, the beliefs; out, what Φ and Ψ moved by.
    """
    zero = _i16(0)
    for j in range(CHUNK):
        w[_FIRST + j] = _i16(-32000)
        w[_SECOND + j] = _i16(-32000)
        w[_TOTAL + j] = zero
    for k in range(to_row.shape[0]):
        for j in range(CHUNK):
            sign = w[_SIGN + j]
            x = _i16(row_belief[k, j] - _i16(sign * _i16(to_row[k, j])))
            y = _i16(column_belief[k, j] - _i16(sign * _i16(to_column[k, j])))
            both = min(_i16(x + y), min(x, y))
            largest = w[_FIRST + j]
            w[_SECOND + j] = max(w[_SECOND + j], min(largest, both))
            w[_FIRST + j] = max(largest, both)
            w[_TOTAL + j] = _i16(w[_TOTAL + j] + min(max(both, zero), w[_BOUND + j]))
    for k in range(to_row.shape[0]):
        for j in range(CHUNK):
            sign = w[_SIGN + j]
            bound = w[_BOUND + j]
            largest = w[_FIRST + j]
            second = w[_SECOND + j]
            old_row = _i16(to_row[k, j])
            old_column = _i16(to_column[k, j])
            x = _i16(row_belief[k, j] - _i16(sign * old_row))
            y = _i16(column_belief[k, j] - _i16(sign * old_column))
            both = min(_i16(x + y), min(x, y))
            others = second if both == largest else largest
            if_one = min(max(_i16(-others), zero), bound)
            others_sum = _i16(w[_TOTAL + j] - min(max(both, zero), bound))
            if_zero = min(_i16(others_sum - bound), zero)
            claim = if_one if sign > zero else if_zero
            x_low = min(x, zero)
            y_low = min(y, zero)
            new_row = _i16(sign * max(_i16(claim + y_low), _i16(y_low - y)))
            new_column = _i16(sign * max(_i16(claim + x_low), _i16(x_low - x)))
            moved = _share(_i16(new_row - old_row), damping)
            moved_column = _share(_i16(new_column - old_column), damping)
            to_row[k, j] = np.uint8(_i16(old_row + moved))
            to_column[k, j] = np.uint8(_i16(old_column + moved_column))
            row_belief[k, j] = _i16(sign * moved)
            column_belief[k, j] = _i16(sign * moved_column)
            w[_CHANGE + j] = max(
                w[_CHANGE + j],
                max(max(moved, _i16(-moved)), max(moved_column, _i16(-moved_column))),
            )


@njit(nogil=True, cache=True)
def _xor_exchange(damping, to_row, to_column, row_belief, column_belief, w):
    """As `_or_exchange` for XOR; messages have signs of their own and are stored with an offset."""
    zero = _i16(0)
    offset = _i16(XOR_OFFSET)
    for j in range(CHUNK):
        w[_FIRST + j] = _i16(32000)
        w[_SECOND + j] = _i16(32000)
        w[_TOTAL + j] = w[_SIGN + j]
    for k in range(to_row.shape[0]):
        for j in range(CHUNK):
            x = _i16(row_belief[k, j] - _i16(_i16(to_row[k, j]) - offset))
            y = _i16(column_belief[k, j] - _i16(_i16(to_column[k, j]) - offset))
            both = min(_i16(x + y), min(x, y))
            size = max(both, _i16(-both))
            smallest = w[_FIRST + j]
            w[_SECOND + j] = min(w[_SECOND + j], max(smallest, size))
            w[_FIRST + j] = min(smallest, size)
            turn = _i16(-1) if both > zero else _i16(1)
            w[_TOTAL + j] = _i16(w[_TOTAL + j] * turn)
    for k in range(to_row.shape[0]):
        for j in range(CHUNK):
            bound = w[_BOUND + j]
            smallest = w[_FIRST + j]
            second = w[_SECOND + j]
            old_row = _i16(_i16(to_row[k, j]) - offset)
            old_column = _i16(_i16(to_column[k, j]) - offset)
            x = _i16(row_belief[k, j] - old_row)
            y = _i16(column_belief[k, j] - old_column)
            both = min(_i16(x + y), min(x, y))
            size = max(both, _i16(-both))
            others = min(second if size == smallest else smallest, bound)
            turn = _i16(-1) if both > zero else _i16(1)
            claim = _i16(others * _i16(w[_TOTAL + j] * turn))
            x_low = min(x, zero)
            y_low = min(y, zero)
            new_row = max(_i16(claim + y_low), _i16(y_low - y))
            new_column = max(_i16(claim + x_low), _i16(x_low - x))
            moved = _share(_i16(new_row - old_row), damping)
            moved_column = _share(_i16(new_column - old_column), damping)
            to_row[k, j] = np.uint8(_i16(_i16(old_row + moved) + offset))
            to_column[k, j] = np.uint8(_i16(_i16(old_column + moved_column) + offset))
            row_belief[k, j] = moved
            column_belief[k, j] = moved_column
            w[_CHANGE + j] = max(
                w[_CHANGE + j],
                max(max(moved, _i16(-moved)), max(moved_column, _i16(-moved_column))),
            )


@njit(nogil=True, cache=True)
def _settled(dense, indptr, columns, first_row, start, n, row_moved, column_moved):
    """Whether no row and no column of a chunk's entries has moved since the chunk was last seen."""
    row = first_row
    while row + 1 < indptr.shape[0] and indptr[row] < start + n:
        if indptr[row + 1] > start and row_moved[row]:
            return False
        row += 1
    if dense:
        n_columns = column_moved.shape[0]
        for j in range(min(n, n_columns)):
            if column_moved[(start + j) % n_columns]:
                return False
    else:
        for j in range(n):
            if column_moved[columns[start + j]]:
                return False
    return True


@njit(nogil=True, cache=True)
def _largest_change(w):
    change = _i16(0)
    for j in range(CHUNK):
        change = max(change, w[_CHANGE + j])
        w[_CHANGE + j] = _i16(0)
    return change


@njit(nogil=True, cache=True)
def max_sum_or(
    dense, indptr, columns, codes, bounds, damping, row_belief, column_belief,
    row_moved, column_moved, still, to_row, to_column, row_sum, column_sum, x, y, w,
):  # fmt: skip
    """One iteration of max-sum for the OR product over one block of rows.

    Fixed: indptr (rows + 1,) from 0; columns (entries,) uint32, unused if dense; codes (entries,)
    uint8; bounds (2,) int16, |L| of a 0 and of a 1 in units; damping in 128ths. Read: row_belief
    (rows, K) and column_belief, (K, N) if dense, else (N, K), int16 in units; row_moved (rows,),
    column_moved (N,), whether these changed since the last iteration. Updated: still (chunks,),
    whether a chunk's messages stayed as they were; to_row, to_column (chunks, K, CHUNK) uint8. What
    they moved by is added to row_sum (rows, K) and column_sum (as column_belief). x, y (K, CHUNK)
    and w int16: scratch. A chunk that was still and none of whose beliefs moved is skipped: nothing
    in it would change. Returns the largest change of a message in units.
    """
    residual = _i16(0)
    row = 0
    for c in range(to_row.shape[0]):
        start = c * CHUNK
        n = min(CHUNK, codes.shape[0] - start)
        while indptr[row + 1] <= start:
            row += 1
        if still[c] and _settled(dense, indptr, columns, row, start, n, row_moved, column_moved):
            continue
        _gather_rows(indptr, row, start, n, row_belief, x)
        _gather_columns(dense, columns, start, n, column_belief, y)
        _read_codes(codes, start, n, bounds[0], bounds[1], w)
        _or_exchange(damping, to_row[c], to_column[c], x, y, w)
        change = _largest_change(w)
        residual = max(residual, change)
        still[c] = change == 0
        if change:
            _scatter_rows(indptr, row, start, n, x, row_sum)
            _scatter_columns(dense, columns, start, n, y, column_sum)
    return residual


@njit(nogil=True, cache=True)
def max_sum_xor(
    dense, indptr, columns, codes, bounds, damping, row_belief, column_belief,
    row_moved, column_moved, still, to_row, to_column, row_sum, column_sum, x, y, w,
):  # fmt: skip
    """As `max_sum_or`, for the XOR product; written out, as each compiles only when it is used."""
    residual = _i16(0)
    row = 0
    for c in range(to_row.shape[0]):
        start = c * CHUNK
        n = min(CHUNK, codes.shape[0] - start)
        while indptr[row + 1] <= start:
            row += 1
        if still[c] and _settled(dense, indptr, columns, row, start, n, row_moved, column_moved):
            continue
        _gather_rows(indptr, row, start, n, row_belief, x)
        _gather_columns(dense, columns, start, n, column_belief, y)
        _read_codes(codes, start, n, bounds[0], bounds[1], w)
        _xor_exchange(damping, to_row[c], to_column[c], x, y, w)
        change = _largest_change(w)
        residual = max(residual, change)
        still[c] = change == 0
        if change:
            _scatter_rows(indptr, row, start, n, x, row_sum)
            _scatter_columns(dense, columns, start, n, y, column_sum)
    return residual


# ---------------------------------------------------------------- beliefs and bits


@njit(nogil=True, cache=True)
def _floor(a):
    """The largest integer not above a float, int32."""
    whole = _i32(a)
    return _i32(whole - (_i32(1) if _f32(whole) > a else _i32(0)))


@njit(nogil=True, cache=True)
def to_units(belief, scale, limit):
    """Log-odds (a, b) in units, rounded and cut to ±limit: int16 (a, b)."""
    out = np.empty(belief.shape, np.int16)
    for i in range(belief.shape[0]):
        for j in range(belief.shape[1]):
            value = min(max(belief[i, j] * scale, -limit), limit)
            out[i, j] = _i16(_floor(_f32(value + _f32(0.5))))
    return out


@njit(nogil=True, cache=True)
def to_log_odds(prior, sums, unit):
    """Prior + unit · sums, float32."""
    out = np.empty(prior.shape, np.float32)
    for i in range(prior.shape[0]):
        for j in range(prior.shape[1]):
            out[i, j] = prior[i, j] + unit * _f32(sums[i, j])
    return out


@njit(nogil=True, cache=True)
def covered(xor, dense, indptr, columns, codes, row_words, column_words):
    """How many entries of each code the decoded product makes 1, (3,).

    row_words (rows, W), column_words (N, W): the decoded bits of the factors, 64 to a word.
    """
    counts = np.zeros(3, np.int64)
    n_words = row_words.shape[1]
    for row in range(row_words.shape[0]):
        start = indptr[row]
        for i in range(indptr[row + 1] - start):
            column = i if dense else np.int64(columns[start + i])
            folded = np.uint64(0)
            for word in range(n_words):
                term = row_words[row, word] & column_words[column, word]
                folded = folded ^ term if xor else folded | term
            if xor:  # the parity of the bits
                for shift in (32, 16, 8, 4, 2, 1):
                    folded ^= folded >> np.uint64(shift)
                folded &= np.uint64(1)
            if folded:
                counts[codes[start + i]] += 1
    return counts
