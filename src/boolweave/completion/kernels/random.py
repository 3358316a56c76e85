"""Random numbers that depend on a seed and a line only: the same on any number of threads.

Each line (a row or a column) has a generator of its own, seeded by the draw and its number. A
generator is one number of 64 bits that the caller keeps: xorshift, multiplied (Vigna 2016).
"""

import math
from typing import Any

import numpy as np

from boolweave.engine.kernels.jit import njit

_u64 = np.uint64

# The golden ratio and two odd numbers with irregular bits, which spread seeds over all 64 bits.
GOLDEN = 0x9E3779B97F4A7C15
MIX_A = 0xBF58476D1CE4E5B9
MIX_B = 0x94D049BB133111EB
SCALE = 0x2545F4914F6CDD1D


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def seeded(seed: int, line: int) -> Any:
    """The generator of a line, never 0."""
    state = _u64(seed) + _u64(GOLDEN) * _u64(line + 1)
    state = (state ^ (state >> _u64(30))) * _u64(MIX_A)
    state = (state ^ (state >> _u64(27))) * _u64(MIX_B)
    state = state ^ (state >> _u64(31))
    return state | _u64(1)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def uniform(state: Any) -> tuple[Any, float]:
    """The next state, and a number between 0 and 1, neither of them included."""
    state ^= state >> _u64(12)
    state ^= state << _u64(25)
    state ^= state >> _u64(27)
    bits = (state * _u64(SCALE)) >> _u64(11)
    return state, (float(bits) + 0.5) * (1.0 / (1 << 53))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def normal(state: Any) -> tuple[Any, float]:
    """The next state, and a standard normal number (Box and Muller 1958)."""
    state, u = uniform(state)
    state, v = uniform(state)
    return state, math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
