"""The update rules, each written once: what terms say to an entry, and an entry to its terms.

Kernels for all layouts and types of numbers are loops around these functions, which are inlined.
Their numbers are scalars or vectors, floats or integers. An option `xor` that is None means OR, and
is a type for numba: no code is compiled for the other product. A term that is a known variable, as
in decoding, has the cavity of that variable as its Γ̂.
"""

from typing import Any, Literal, TypeAlias

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.vectors import like, maximum, minimum, where

Xor: TypeAlias = Literal[True] | None

# A number, or a vector of them; a mask is a bool, or a vector of them.
Numbers: TypeAlias = Any
Mask: TypeAlias = Numbers
Terms: TypeAlias = tuple[Numbers, Numbers, Numbers]
Claims: TypeAlias = tuple[Numbers, Numbers, Numbers, Numbers]


def xor_of(product: str) -> Xor:
    """The option `xor` of kernels for a product, "or" or "xor"."""
    return True if product == "xor" else None


# ---------------------------------------------------------------- max-sum


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def to_term(x: Numbers, y: Numbers) -> Numbers:
    """Γ̂ = min(x + y, x, y) of a term with the cavities x = Φ̂ and y = Ψ̂."""
    return minimum(x + y, minimum(x, y))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def no_terms(xor: Xor, bound: Numbers, is_one: Mask) -> Terms:
    """The state of an entry before its first term, where bound = |L|, and is_one says if L > 0.

    OR: the two largest Γ̂, at least −|L|, and the sum of (Γ̂)₊. XOR: the two smallest |Γ̂|, at most
    |L|, and sign(L) · Π sign(−Γ̂). Γ is within ±|L|, so that nothing is lost beyond.
    """
    zero, one = like(bound, 0), like(bound, 1)
    if xor is None:
        return zero - bound, zero - bound, zero
    return bound, bound, where(is_one, one, zero - one)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def with_term(xor: Xor, terms: Terms, term: Numbers, bound: Numbers) -> Terms:
    """The state of an entry with one more term Γ̂."""
    first, second, rest = terms
    zero = like(bound, 0)
    if xor is None:
        second = maximum(second, minimum(first, term))
        return maximum(first, term), second, rest + positive_part(term, bound)
    size = maximum(term, zero - term)
    sign = where(term > zero, zero - rest, rest)
    return minimum(first, size), minimum(second, maximum(first, size)), sign


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def positive_part(term: Numbers, bound: Numbers) -> Numbers:
    """(Γ̂)₊, at most |L|: so sums without one of their terms are exact even if beliefs are huge."""
    return minimum(maximum(term, like(bound, 0)), bound)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def claims_of(xor: Xor, terms: Terms, bound: Numbers, is_one: Mask) -> Claims:
    """What Γ of all terms of an entry has in common, once the state has all of them.

    The term that is the first of the state, and its message; that of the other terms; and the sum,
    or the sign. With OR, Γ is a sum of two parts, one of which is 0: see `to_one_term`.
    """
    first, second, rest = terms
    zero = like(bound, 0)
    if xor is None:
        if_first = where(is_one, maximum(zero - second, zero), zero)
        if_other = where(is_one, maximum(zero - first, zero), zero)
        return first, if_first, if_other, where(is_one, bound + bound, rest)
    return first, second, first, rest


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def to_one_term(xor: Xor, claims: Claims, term: Numbers, bound: Numbers) -> Numbers:
    """Γ, the message of the likelihood to the term k with this Γ̂.

        OR:  Γ = min{ (−max_{j≠k} Γ̂_j)₊ , Σ_{j≠k} (Γ̂_j)₊ + L }
        XOR: Γ = sign(L) · Π_{j≠k} sign(−Γ̂_j) · min(|L|, min_{j≠k} |Γ̂_j|)

    With OR, if L > 0, the first is the smaller one, but at most L; if L < 0, the second, but at
    most 0.
    """
    zero, rest = like(bound, 0), claims[3]
    if xor is None:
        return to_term_of_one(claims, term) + to_term_of_zero(rest, term, bound)
    size = maximum(term, zero - term)
    return to_term_of_one(claims, size) * where(term > zero, zero - rest, rest)


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def to_term_of_one(claims: Claims, term: Numbers) -> Numbers:
    """(−max_{j≠k} Γ̂_j)₊, at most L: Γ with OR if L > 0."""
    return where(term == claims[0], claims[1], claims[2])


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def to_term_of_zero(rest: Numbers, term: Numbers, bound: Numbers) -> Numbers:
    """Σ_{j≠k} (Γ̂_j)₊ + L, at most 0: Γ with OR if L < 0."""
    return minimum((rest - positive_part(term, bound)) - bound, like(bound, 0))


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def to_variable(claim: Numbers, cavity: Numbers) -> Numbers:
    """Φ = (Γ + Ψ̂)₊ − (Ψ̂)₊, or Ψ with Φ̂: exact even if the cavity is huge."""
    low = minimum(cavity, like(cavity, 0))
    return maximum(claim + low, low - cavity)


# ---------------------------------------------------------------- sum-product


@njit(nogil=True, cache=True, inline="always")
def either(
    xor: Xor, one: Numbers, zero: Numbers, other_one: Numbers, other_zero: Numbers
) -> tuple[Numbers, Numbers]:
    """P(the product of two groups of terms is 1), and is 0, from those of the groups.

    All terms of the sums are positive, so that small probabilities keep their relative precision.
    """
    if xor is None:
        return one + zero * other_one, zero * other_zero
    return other_zero * one + other_one * zero, other_zero * zero + other_one * one


@njit(nogil=True, cache=True, inline="always")
def likelihoods(
    xor: Xor, like_one: Numbers, like_zero: Numbers, rest_one: Numbers, rest_zero: Numbers
) -> tuple[Numbers, Numbers]:
    """p(o | term = 1) and p(o | term = 0), where the product of the other terms is 1 or 0.

    term 0:  p(o|1)·P(rest = 1) + p(o|0)·P(rest = 0)
    OR, 1:   p(o|1)
    XOR, 1:  p(o|1)·P(rest = 0) + p(o|0)·P(rest = 1)
    """
    if_zero = like_one * rest_one + like_zero * rest_zero
    if xor is None:
        return like_one, if_zero
    return like_one * rest_zero + like_zero * rest_one, if_zero


@njit(nogil=True, cache=True, inline="always")
def likelihood(xor: Xor, like_one: Numbers, like_zero: Numbers, rest: Numbers) -> Numbers:
    """p(o), given P(z = 0) = Π (1 − c) over terms that are 1 with probability c.

    For XOR, the product is Π (1 − 2c), the mean of (−1)^z.
    """
    zero = rest if xor is None else 0.5 * (1.0 + rest)
    return like_one * (1.0 - zero) + like_zero * zero
