"""Sets of rows, columns and factors as bits in words of 64, and random numbers for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import compiled_or

Words = NDArray[np.uint64]

ZERO = np.uint64(0)
ONE = np.uint64(1)


@compiled_or(lambda word: np.int64(int(word).bit_count()))
def popcount(typing: Any, word: Any) -> Any:
    """The number of ones in a word."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), generate


@compiled_or(lambda word: np.int64((int(word) & -int(word)).bit_length() - 1))
def lowest(typing: Any, word: Any) -> Any:
    """The position of the lowest one of a word that is not zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def n_words(n: int) -> int:
    """The number of words that hold n bits."""
    return max(1, -(-n // 64))


def pack(bits: NDArray[Any]) -> Words:
    """Pack the rows of a matrix of zeros and ones: (L, n) to (L, words)."""
    bits = np.asarray(bits, dtype=bool)
    packed = np.zeros((len(bits), 8 * n_words(bits.shape[1])), dtype=np.uint8)
    packed[:, : -(-bits.shape[1] // 8)] = np.packbits(bits, axis=1, bitorder="little")
    return packed.view("<u8").astype(np.uint64, copy=False)


def unpack(words: Words, n: int) -> NDArray[np.uint8]:
    """Unpack rows of n bits: (L, words) to (L, n)."""
    packed = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(packed, axis=1, count=n, bitorder="little")


def random_words(random: np.random.Generator) -> Words:
    """The first state of a generator of random numbers for kernels, (1,)."""
    return random.integers(1, 2**63, size=1, dtype=np.uint64)


@njit(cache=True, nogil=True, inline="always")
def below(random: Words, n: int) -> int:
    """A random number from 0 to n − 1; `random` (1,) is the state of a xorshift generator."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return np.int64((x >> np.uint64(11)) % np.uint64(n))  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def size_of(words: Words) -> int:
    """The number of members of a set."""
    n = 0
    for w in range(words.shape[0]):
        n += popcount(words[w])
    return n


@njit(cache=True, nogil=True)
def members(words: Words) -> NDArray[np.int64]:
    """The members of a set in ascending order, (n,).

    In the innermost loops of the search, a loop over the bits takes some percent less time.
    """
    found = np.empty(size_of(words), dtype=np.int64)
    n = 0
    for w in range(words.shape[0]):
        left = words[w]
        while left != ZERO:
            found[n] = 64 * w + lowest(left)
            left &= left - ONE
            n += 1
    return found


@njit(cache=True, nogil=True)
def sizes_of(lines: Words) -> NDArray[np.int64]:
    """The number of members of each of some sets, (L, words) to (L,)."""
    sizes = np.zeros(lines.shape[0], dtype=np.int64)
    for line in range(lines.shape[0]):
        sizes[line] = size_of(lines[line])
    return sizes


@njit(cache=True, nogil=True)
def overlap(a: Words, b: Words) -> bool:
    """Whether two sets have a member in common."""
    common = ZERO
    for w in range(a.shape[0]):
        common |= a[w] & b[w]
    return common != ZERO


@njit(cache=True, nogil=True, inline="always")
def contains(words: Words, position: int) -> bool:
    """Whether a set contains a member."""
    return (words[position >> 6] >> np.uint64(position & 63)) & ONE != ZERO


@njit(cache=True, nogil=True)
def insert(words: Words, position: int) -> None:
    """Add a member to a set."""
    words[position >> 6] |= ONE << np.uint64(position & 63)


@njit(cache=True, nogil=True)
def flip(words: Words, position: int) -> None:
    """Remove a member from a set, or add it if it is not there."""
    words[position >> 6] ^= ONE << np.uint64(position & 63)


@njit(cache=True, nogil=True)
def copy(source: Words, target: Words) -> None:
    """Copy words in a loop, because NumPy's assignment takes far longer to compile."""
    for w in range(source.shape[0]):
        target[w] = source[w]


@njit(cache=True, nogil=True)
def clear(target: Words) -> None:
    """Set words to zero."""
    for w in range(target.shape[0]):
        target[w] = ZERO
