"""The inner loops of sum-product with floats: as in `max_sum`, but with probabilities.

A message is stored as the ratio ρ = e^Φ = p(1)/p(0). With the odds O = e^Ξ of a variable (one
exponential per variable), the cavity of the variable is the probability O / (O + ρ), and the new
ratio is a quotient of sums of products of probabilities. So a message needs no exponential, and one
logarithm, computed by a polynomial, for the sums that are the next beliefs. (Products of ratios
would need no logarithm, but they must be checked before they leave the range of floats, which takes
longer if rows are short.)
"""

from typing import Any, NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import (
    Entries,
    Messages,
    Sides,
    scatter_columns,
    scatter_rows,
    spread_columns,
    spread_rows,
)
from boolweave.engine.kernels.rules import Xor, either, likelihoods
from boolweave.runtime.types import Floats, Integers

# Ratios are clipped to e^±60, and beliefs to ±85 before they become odds, so that a certain belief
# stays practically certain without its strongest message. The ratio of the likelihoods of a term is
# clipped only at a larger number, because it may be multiplied by a very small probability.
RATIO_LIMIT = np.float32(1.1e26)
GAIN_LIMIT = np.float32(1e37)
BELIEF_LIMIT = 85.0

# Smaller likelihoods than this are replaced by it; its inverse is still a 32-bit float.
SMALLEST = np.float32(1e-37)

_BITS_OF_TWO_THIRDS = np.int32(0x3F2AAAAB)
_EXPONENT = np.int32(-(1 << 23))  # sign and exponent bits
_LN2_PER_EXPONENT_UNIT = np.float32(np.log(2.0) / (1 << 23))


class Chances(NamedTuple):
    """Probabilities of 1 and of 0, each (K, n) or (n,); even small ones have full precision."""

    one: Floats
    zero: Floats


@njit(nogil=True, cache=True, error_model="numpy")
def _logarithm(
    n: int, value_bits: Integers, part: Floats, part_bits: Integers, out: Floats
) -> None:
    """Compute logarithms of positive 32-bit floats, with the accuracy of such floats.

    value_bits are the bits of the floats as int32. part (n,) is scratch memory, and part_bits is a
    view of it as int32. A float is 2^e·m with m in [2/3, 4/3); log(1 + f) = f + f²·P(f) with a
    polynomial P that was fitted on this interval (largest error 7e-8).
    """
    one = np.float32(1)
    for j in range(n):
        part_bits[j] = value_bits[j] - ((value_bits[j] - _BITS_OF_TWO_THIRDS) & _EXPONENT)
    for j in range(n):
        exponent = np.float32((value_bits[j] - _BITS_OF_TWO_THIRDS) & _EXPONENT)
        f = part[j] - one
        p = np.float32(-0.15690498)
        p = p * f + np.float32(0.1699253)
        p = p * f + np.float32(-0.1636067)
        p = p * f + np.float32(0.19817844)
        p = p * f + np.float32(-0.25010553)
        p = p * f + np.float32(0.33336747)
        p = p * f + np.float32(-0.49999908)
        out[j] = (p * f * f + f) + exponent * _LN2_PER_EXPONENT_UNIT


@njit(nogil=True, cache=True, error_model="numpy")
def log_odds(ratios: Floats) -> Floats:
    """Logarithms of ratios (chunks, K, size), computed in the same way as in an iteration."""
    n_chunks, n_factors, size = ratios.shape
    logs = np.empty(ratios.shape, np.float32)
    part = np.empty(size, np.float32)
    for c in range(n_chunks):
        for k in range(n_factors):
            ratio = ratios[c, k]
            _logarithm(size, ratio.view(np.int32), part, part.view(np.int32), logs[c, k])
    return logs


@njit(nogil=True, cache=True, error_model="numpy")
def _probabilities(n: int, chances: Chances, ratio: Floats) -> None:
    """Turn odds O in chances.one into P(1) = O/(O + ρ) and P(0) = ρ/(O + ρ) without message ρ."""
    p, not_p = chances
    for k in range(p.shape[0]):
        for j in range(n):
            not_p[k, j] = ratio[k, j] / (p[k, j] + ratio[k, j])
        for j in range(n):
            p[k, j] = p[k, j] / (p[k, j] + ratio[k, j])


@njit(nogil=True, cache=True, error_model="numpy")
def _multiply(n: int, row_chances: Chances, column_chances: Chances, terms: Chances) -> None:
    """P(a term is 1) = x·y and P(it is 0) = 1 − x·y = not_x + x·not_y."""
    x, not_x = row_chances
    y, not_y = column_chances
    c, q = terms
    for k in range(x.shape[0]):
        for j in range(n):
            c[k, j] = x[k, j] * y[k, j]
        for j in range(n):
            q[k, j] = not_x[k, j] + x[k, j] * not_y[k, j]


@njit(nogil=True, cache=True, error_model="numpy")
def _chains(xor: Xor, n: int, terms: Chances, after: Chances) -> None:
    """Set after[k] to P(the product of the terms from k to the last is 1), and is 0: (K + 1, n)."""
    c, q = terms
    one, zero = after
    n_factors = c.shape[0]
    for j in range(n):
        one[n_factors, j] = np.float32(0)
        zero[n_factors, j] = np.float32(1)
    for i in range(n_factors):
        k = n_factors - 1 - i
        for j in range(n):
            one[k, j] = either(xor, one[k + 1, j], zero[k + 1, j], c[k, j], q[k, j])[0]
        for j in range(n):
            zero[k, j] = either(xor, one[k + 1, j], zero[k + 1, j], c[k, j], q[k, j])[1]


@njit(nogil=True, cache=True, error_model="numpy")
def _damp_ratio(
    n: int, damping: Any, other: Chances, k: int, gain: Floats, ratio: Floats, new: Floats,
    change: Floats,
) -> None:  # fmt: skip
    """Update ratio ← (1 − λ)·ratio + λ·(P(0) + P(1)·gain), where P is that of the other variable.

    change[j] becomes the larger of itself and |ρ' − ρ| / (ρ' + ρ), which for small changes is half
    the change of log ρ.
    """
    chance, not_chance = other.one[k], other.zero[k]
    zero = np.float32(0)
    low = np.float32(1) / RATIO_LIMIT
    keep = np.float32(1) - damping
    for j in range(n):
        new[j] = min(max(not_chance[j] + chance[j] * gain[j], low), RATIO_LIMIT)
    for j in range(n):
        new[j] = keep * ratio[j] + damping * new[j]
    for j in range(n):
        change[j] = max(change[j], abs(new[j] - ratio[j]) / (new[j] + ratio[j])) + zero
    for j in range(n):
        ratio[j] = new[j]


@njit(nogil=True, cache=True, error_model="numpy")
def _exchange(
    xor: Xor, n: int, damping: Any, likelihood: Chances, row_chances: Chances,
    column_chances: Chances, terms: Chances, after: Chances, messages: Messages, scratch: Floats,
) -> None:  # fmt: skip
    """Replace the messages of one chunk by their damped update.

    `likelihood` holds p(o|1) and p(o|0) up to a common factor, (n,). Afterwards, scratch[1] and
    scratch[2] hold P(z = 1) and P(z = 0) without the evidence of the entry, and scratch[5] the
    change of each entry. There are many short loops, so that each of them is vectorized.
    """
    like_one, like_zero = likelihood
    c, q = terms
    after_one, after_zero = after
    gain, one, zero = scratch[0], scratch[1], scratch[2]
    rest_one, rest_zero, change = scratch[3], scratch[4], scratch[5]
    for j in range(n):
        one[j] = np.float32(0)
        zero[j] = np.float32(1)
        change[j] = np.float32(0)
    for k in range(c.shape[0]):
        others_one, others_zero = after_one[k + 1], after_zero[k + 1]
        for j in range(n):
            rest_one[j] = either(xor, one[j], zero[j], others_one[j], others_zero[j])[0]
        for j in range(n):
            rest_zero[j] = either(xor, one[j], zero[j], others_one[j], others_zero[j])[1]
        for j in range(n):
            if_zero = likelihoods(xor, like_one[j], like_zero[j], rest_one[j], rest_zero[j])[1]
            gain[j] = max(if_zero, SMALLEST)
        for j in range(n):
            if_one = likelihoods(xor, like_one[j], like_zero[j], rest_one[j], rest_zero[j])[0]
            gain[j] = min(if_one / gain[j], GAIN_LIMIT) + np.float32(0)
        for j in range(n):
            rest_one[j] = either(xor, one[j], zero[j], c[k, j], q[k, j])[0]
        for j in range(n):
            zero[j] = either(xor, one[j], zero[j], c[k, j], q[k, j])[1]
        for j in range(n):
            one[j] = rest_one[j]
        _damp_ratio(n, damping, column_chances, k, gain, messages.to_row[k], rest_one, change)
        _damp_ratio(n, damping, row_chances, k, gain, messages.to_column[k], rest_one, change)


@njit(nogil=True, cache=True)
def _empty_chances(n_factors: int, size: int) -> Chances:
    return Chances(np.empty((n_factors, size), np.float32), np.empty((n_factors, size), np.float32))


@njit(nogil=True, cache=True, error_model="numpy")
def sum_product(
    xor: Xor, entries: Entries, damping: Any, odds: Sides, messages: Messages, sums: Sides,
    expected_ones: Floats,
) -> np.float32:  # fmt: skip
    """Do one iteration of sum-product over one block of rows.

    It is like `max_sum.max_sum`, with odds e^Ξ and e^Υ instead of beliefs, and ratios e^Φ and e^Ψ
    instead of messages; `sums` are sums of their logarithms. The sums of P(z = 1 | o) over the
    entries with L > 0, and over those with L < 0, are added to `expected_ones` (2,). Returns the
    largest change of a message, in log-odds.
    """
    indptr, columns, evidence = entries
    to_row, to_column = messages
    n_chunks, n_factors, size = to_row.shape
    n_entries = columns.shape[0]
    row_chances = _empty_chances(n_factors, size)
    column_chances = _empty_chances(n_factors, size)
    terms = _empty_chances(n_factors, size)
    after = _empty_chances(n_factors + 1, size)
    scratch = np.empty((8, size), np.float32)
    likelihood = Chances(scratch[6], scratch[7])
    like_one, like_zero = likelihood
    x, y = row_chances.one, column_chances.one
    part = np.empty(size, np.float32)
    part_bits = part.view(np.int32)
    residual = np.float32(0)
    row = 0
    for c in range(n_chunks):
        start = c * size
        n = min(size, n_entries - start)
        phi = to_row[c]
        psi = to_column[c]
        for j in range(n):  # scaled so that the larger of p(o|1) and p(o|0) is 1
            other = np.exp(-abs(evidence[start + j]))
            like_one[j] = np.float32(1) if evidence[start + j] > 0 else other
            like_zero[j] = other if evidence[start + j] > 0 else np.float32(1)
        first_row = row
        row = spread_rows(indptr, first_row, start, n, odds.rows, x)
        spread_columns(columns[start:], n, odds.columns, y)
        _probabilities(n, row_chances, phi)
        _probabilities(n, column_chances, psi)
        _multiply(n, row_chances, column_chances, terms)
        _chains(xor, n, terms, after)
        _exchange(
            xor, n, damping, likelihood, row_chances, column_chances, terms, after,
            Messages(phi, psi), scratch,
        )  # fmt: skip
        for j in range(n):
            one = like_one[j] * scratch[1, j]
            posterior = one / max(one + like_zero[j] * scratch[2, j], SMALLEST)
            if evidence[start + j] > 0:
                expected_ones[0] += posterior
            else:
                expected_ones[1] += posterior
            residual = max(residual, np.float32(2) * scratch[5, j])
        for k in range(n_factors):
            _logarithm(n, phi[k].view(np.int32), part, part_bits, x[k])
            _logarithm(n, psi[k].view(np.int32), part, part_bits, y[k])
        scatter_rows(indptr, first_row, start, n, x, sums.rows)
        scatter_columns(columns[start:], n, y, sums.columns)
    return residual
