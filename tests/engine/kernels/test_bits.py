"""Bits in words against NumPy's arrays of bits."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from boolweave.engine.kernels.bits import (
    below,
    flip,
    lowest,
    members,
    n_words,
    overlap,
    pack,
    popcount,
    sizes_of,
    unpack,
)
from boolweave.engine.kernels.jit import njit

few_examples = settings(max_examples=15 if numba.config.DISABLE_JIT else 100)
matrices = hnp.arrays(
    np.uint8, st.tuples(st.integers(0, 4), st.integers(0, 130)), elements=st.integers(0, 1)
)


@njit()
def popcount_of(word):
    return popcount(word)


@njit()
def lowest_of(word):
    return lowest(word)


@njit()
def numbers_below(random, n, out):
    for i in range(len(out)):
        out[i] = below(random, n)


@few_examples
@given(matrices)
def test_sets(bits):
    words = pack(bits)
    np.testing.assert_array_equal(sizes_of(words), bits.sum(axis=1))
    for own, line in zip(bits, words, strict=True):
        np.testing.assert_array_equal(members(line), np.flatnonzero(own))
        for other, packed in zip(bits, words, strict=True):
            assert overlap(line, packed) == (own & other).any()
    for line, entry in np.ndindex(bits.shape):
        flip(words[line], entry)
    np.testing.assert_array_equal(unpack(words, bits.shape[1]), 1 - bits)


@few_examples
@given(matrices)
def test_unpack_gives_back_what_was_packed(bits):
    words = pack(bits)
    assert words.shape == (len(bits), n_words(bits.shape[1]))
    assert words.dtype == np.uint64
    np.testing.assert_array_equal(unpack(words, bits.shape[1]), bits)


@few_examples
@given(matrices)
def test_bit_i_of_a_word_is_entry_i(bits):
    words = pack(bits)
    for line, entry in np.ndindex(bits.shape):
        assert (int(words[line, entry // 64]) >> (entry % 64)) & 1 == bits[line, entry]
    assert sum(int(word).bit_count() for word in words.flat) == bits.sum()


@few_examples
@given(st.integers(1, 2**64 - 1))
def test_popcount_and_lowest(word):
    digits = bin(word)[2:]
    assert popcount_of(np.uint64(word)) == digits.count("1")
    assert lowest_of(np.uint64(word)) == len(digits) - len(digits.rstrip("0"))


def test_popcount_of_nothing():
    assert popcount_of(np.uint64(0)) == 0


@pytest.mark.parametrize("n", [1, 3, 10])
def test_random_numbers_are_even(n):
    found = np.zeros(500, dtype=np.int64)
    numbers_below(np.array([2**40], dtype=np.uint64), n, found)
    shares = np.bincount(found, minlength=n) / len(found)
    assert len(shares) == n
    assert abs(shares - 1 / n).max() < 0.1
