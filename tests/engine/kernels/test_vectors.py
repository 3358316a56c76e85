"""Vectors of 16 in kernels: each operation against NumPy's, compiled and as plain Python."""

import numpy as np
import pytest

from boolweave.engine.kernels import tiles
from boolweave.engine.kernels import vectors as v
from boolweave.engine.kernels.jit import njit

RANDOM = np.random.default_rng(0)


def bits(low, high, kind):
    return RANDOM.integers(low, high, v.LANES).astype(kind)


@njit()
def arithmetic(a, b, out):
    x, y = v.load(v.pointer(a), 0), v.load(v.pointer(b), 0)
    out = v.pointer(out)
    v.store(out, 0, x + y)
    v.store(out, 16, x - y)
    v.store(out, 32, x * y)
    v.store(out, 48, v.minimum(x, y))
    v.store(out, 64, v.maximum(x, y))
    v.store(out, 80, v.where(x > y, x, y + y))
    v.store(out, 96, v.where(x == y, y, x + x))


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.float32, np.float64])
def test_arithmetic(kind):
    a, b = bits(-150, 150, kind), bits(-150, 150, kind)
    b[3] = a[3]
    out = np.zeros(7 * v.LANES, dtype=kind)
    arithmetic(a, b, out)
    expected = [a + b, a - b, a * b, np.minimum(a, b), np.maximum(a, b)]
    expected += [np.where(a > b, a, 2 * b), np.where(a == b, b, 2 * a)]
    np.testing.assert_array_equal(out.reshape(7, v.LANES), expected)


@njit()
def half_or_limit(a, limit, one, some):
    x, y = v.read(None, v.pointer(a), 1), v.read(True, v.pointer(a), 1)
    v.write(None, v.pointer(one), 1, v.maximum(x * v.like(x, 0.5), v.like(x, limit)))
    v.write(True, v.pointer(some), 1, v.maximum(y * v.like(y, 0.5), v.like(y, limit)))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_one_number_or_16(kind):
    a = np.append(bits(-9, 9, kind), kind(7))
    one, some = np.full((2, v.LANES + 1), 99, kind)
    half_or_limit(a, 1, one, some)
    expected = np.maximum(a / 2, 1)
    np.testing.assert_array_equal(one[:3], [99, expected[1], 99])
    np.testing.assert_array_equal(some, [99, *expected[1:]])


@njit()
def shifts(a, out):
    x = v.load(v.pointer(a), 0)
    v.store(v.pointer(out), 0, x >> v.splat(np.int16(3)))
    v.store(v.pointer(out), 16, x << v.splat(np.int16(2)))
    v.store(v.pointer(out), 32, x & v.splat(np.int16(255)))
    return v.total(x), v.largest(x)


def test_shifts_and_reductions():
    a = bits(-8000, 8000, np.int16)
    out = np.zeros(3 * v.LANES, dtype=np.int16)
    total, largest = shifts(a, out)
    np.testing.assert_array_equal(out.reshape(3, v.LANES), [a >> 3, a << 2, a & 255])
    assert (total, largest) == (a.sum(), a.max())


@njit()
def masks(a, b, out):
    x, y = v.load(v.pointer(a), 0), v.load(v.pointer(b), 0)
    v.prefetch(v.pointer(a), 10**9)  # a hint: no address is wrong
    out[0] = v.mask_bits(x > y)
    out[1] = v.mask_bits(x == y)


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.float32])
def test_masks_as_bits(kind):
    a, b = bits(0, 3, kind), bits(0, 3, kind)
    out = np.zeros(2, dtype=np.uint16)
    masks(a, b, out)
    powers = 1 << np.arange(v.LANES)
    assert out.tolist() == [int(powers[a > b].sum()), int(powers[a == b].sum())]


@njit()
def two_largest(best, second):
    return v.two_largest(v.load(v.pointer(best), 0), v.load(v.pointer(second), 0))


def test_two_largest():
    for one, other in ((3, 9), (0, 15), (5, 5)):  # also in the same lane
        a, b = bits(-99, 50, np.int16), bits(-99, 50, np.int16)
        for largest in (76, 77):
            a[one], b[other] = largest, 76
            assert two_largest(np.maximum(a, b), np.minimum(a, b)) == (largest, 76)


@njit()
def lowest(bits):
    return v.lowest_bit(bits)


@pytest.mark.parametrize("kind", [np.uint16, np.uint64])
def test_lowest_bit(kind):
    for bit in range(np.iinfo(kind).bits):
        assert lowest(kind(1 << bit)) == lowest(kind(np.iinfo(kind).max >> bit << bit)) == bit


def test_numbers_of_16_bits_wrap_around_but_their_total_does_not():
    a = np.full(v.LANES, 32767, dtype=np.int16)
    out = np.zeros(7 * v.LANES, dtype=np.int16)
    arithmetic(a, a, out)
    assert (out[: v.LANES] == -2).all()
    assert shifts(a, out)[0] == v.LANES * 32767


@njit()
def conversions(small, steps, reals, wide, floats, whole, narrow, patterns):
    v.store(v.pointer(wide), 0, v.as_int16(v.load(v.pointer(small), 0)))
    v.store(v.pointer(floats), 0, v.as_float32(v.as_int32(v.load(v.pointer(steps), 0))))
    v.store(v.pointer(whole), 0, v.as_int32(v.load(v.pointer(reals), 0)))
    v.store(v.pointer(narrow), 0, v.as_uint8(v.load(v.pointer(steps), 0)))
    v.store(v.pointer(patterns), 0, v.bits_of(v.float_of(v.bits_of(v.load(v.pointer(reals), 0)))))


def test_conversions():
    small, steps = bits(0, 256, np.uint8), bits(-32768, 32768, np.int16)
    reals = (bits(-1000, 1000, np.float32) / 7).astype(np.float32)
    kinds = (np.int16, np.float32, np.int32, np.uint8, np.int32)
    found = [np.zeros(v.LANES, dtype=kind) for kind in kinds]
    conversions(small, steps, reals, *found)
    expected = [small, steps, np.trunc(reals), steps.astype(np.uint8), reals.view(np.int32)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@njit()
def halves(steps, wide, narrow):
    upper = v.in_upper_halves(v.load(v.pointer(steps), 0))
    v.store(v.pointer(wide), 0, upper >> v.splat(np.int32(16)))
    v.store(v.pointer(narrow), 0, v.from_upper_halves(upper))


def test_upper_halves():
    """The even ones before the odd ones, and back."""
    steps = bits(-32768, 32768, np.int16)
    wide, narrow = np.zeros(v.LANES, dtype=np.int32), np.zeros(v.LANES, dtype=np.int16)
    halves(steps, wide, narrow)
    np.testing.assert_array_equal(wide, np.concatenate([steps[0::2], steps[1::2]]))
    np.testing.assert_array_equal(narrow, steps)


@njit()
def pairs(steps, sums):
    v.add_pairs(v.load(v.pointer(steps), 0), v.pointer(sums), 8)


def test_sums_of_pairs():
    steps = bits(-32768, 32768, np.int16)
    steps[:4] = [32767, 32767, -32768, -32768]
    sums = np.arange(24, dtype=np.int32)
    pairs(steps, sums)
    expected = np.arange(24)
    expected[8:16] += steps.reshape(8, 2).sum(axis=1, dtype=int)
    np.testing.assert_array_equal(sums, expected)


@njit()
def turned(source, index, n_factors, out):
    for k in range(0, n_factors, tiles.TILE):
        tiles.gather_tile(v.pointer(source), v.pointer(index), k, v.pointer(out))


@njit()
def added(source, index, n_factors, out):
    for k in range(0, n_factors, tiles.TILE):
        tiles.scatter_tile(v.pointer(source), v.pointer(index), k, v.pointer(out))


@njit()
def added_in_order(source, index, n_factors, out):
    for k in range(0, n_factors, tiles.TILE):
        tiles.scatter_sorted_tile(v.pointer(source), v.pointer(index), k, v.pointer(out))


@pytest.mark.parametrize("n_factors", [1, 3, 8, 10, 17])
def test_rows_of_factors_become_factors_of_entries(n_factors):
    table = RANDOM.integers(-999, 999, (50, n_factors)).astype(np.int16)
    flat = np.concatenate([table.ravel(), np.zeros(v.LANES, np.int16)])
    rows = RANDOM.integers(0, 50, v.LANES)
    out = np.zeros((n_factors + tiles.TILE, v.LANES), dtype=np.int16)
    turned(flat, rows * n_factors, n_factors, out.reshape(-1))
    np.testing.assert_array_equal(out[:n_factors], table[rows].T)


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("n_factors", [1, 3, 8, 10, 17])
@pytest.mark.parametrize("in_order", [False, True])
def test_factors_of_entries_are_added_to_rows(n_factors, kind, in_order):
    """Also where several entries are of one row, and where a tile reaches into the next rows."""
    rows = RANDOM.integers(0, 6, v.LANES)
    rows = np.sort(rows) if in_order else rows
    moves = np.zeros((n_factors + tiles.TILE, v.LANES), dtype=np.int16)
    moves[:n_factors] = RANDOM.integers(-99, 99, (n_factors, v.LANES))
    before = RANDOM.integers(-99, 99, (6, n_factors))
    sums = np.concatenate([before.ravel(), np.zeros(v.LANES, int)]).astype(kind)
    (added_in_order if in_order else added)(moves.reshape(-1), rows * n_factors, n_factors, sums)
    expected = before.copy()
    np.add.at(expected, rows, moves[:n_factors].T)
    np.testing.assert_array_equal(sums[: before.size].reshape(before.shape), expected)
    assert not sums[before.size :].any()
