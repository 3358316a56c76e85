"""Compiled loops that decode single rows for a known column factor.

Each row is decoded only from its own entries, in the order of its columns and in 64-bit floats.
Therefore equal rows get the same answers bit for bit, regardless of their positions.

In all functions, `entries` are `max_sum.Entries`, and `row_prior` (rows, K) holds log-odds.
"""

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.max_sum import Entries
from boolweave.engine.kernels.rules import (
    Xor,
    claims_of,
    likelihood,
    no_terms,
    to_one_term,
    with_term,
)
from boolweave.runtime.types import Floats, Integers

# Maximum number of iterations for a row, and its convergence tolerance in log-odds.
MOST_ITERATIONS = 30
TOLERANCE = 1e-4

# Number of iterations of sum-product without damping. It starts from decoded factors, from which
# most rows converge in a few iterations; the others continue with damping.
UNDAMPED = 5

# Absolute value of the log-odds of decoded bits from which sum-product starts.
FIRST_BELIEF = 2.0

# A flip must raise the log-posterior by more than a rounding error.
NO_GAIN = 1e-9

# Cavities are clipped to these log-odds, so that their exponentials stay finite.
LARGEST = 700.0


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum(
    xor: Xor, entries: Entries, row_prior: Floats, column_bits: Integers, damping: float,
    row_belief: Floats,
) -> None:  # fmt: skip
    """Compute beliefs (rows, K) by max-sum from neutral messages, with a known column factor.

    An entry is connected to those x_k whose bit is 1 in its row of column_bits (N, K).
    """
    indptr, columns, evidence = entries
    n_factors = row_prior.shape[1]
    member = np.empty(n_factors, np.int64)
    cavity = np.empty(n_factors)
    total = np.empty(n_factors)
    for row in range(indptr.shape[0] - 1):
        first, n = indptr[row], indptr[row + 1] - indptr[row]
        message = np.zeros((n, n_factors))
        belief = row_belief[row]
        belief[:] = row_prior[row]
        for _ in range(MOST_ITERATIONS):
            change = 0.0
            total[:] = row_prior[row]
            for j in range(n):
                bound, is_one = abs(evidence[first + j]), evidence[first + j] > 0
                terms = no_terms(xor, bound, is_one)
                n_members = 0
                for k in range(n_factors):
                    if column_bits[columns[first + j], k]:
                        member[n_members] = k
                        cavity[n_members] = belief[k] - message[j, k]
                        terms = with_term(xor, terms, cavity[n_members], bound)
                        n_members += 1
                claims = claims_of(xor, terms, bound, is_one)
                for i in range(n_members):
                    k = member[i]
                    undamped = to_one_term(xor, claims, cavity[i], bound)
                    new = (1.0 - damping) * message[j, k] + damping * undamped
                    change = max(change, abs(new - message[j, k]))
                    message[j, k] = new
                    total[k] += new
            belief[:] = total
            if change <= TOLERANCE:
                break


@njit(nogil=True, cache=True, error_model="numpy")
def sum_product(
    xor: Xor, entries: Entries, row_prior: Floats, column_chance: Floats, damping: float,
    bits: Integers, row_belief: Floats,
) -> None:  # fmt: skip
    """Compute marginal log-odds (rows, K) by sum-product, starting from decoded bits (rows, K).

    column_chance (N, K) is P(y = 1), and p_l is P(x_l = 1) without the message of the entry. With
    R = Π (1 − p_l y_l) over all l except k, P(z = 0) is R if x_k = 0, and R (1 − y_k) if x_k = 1.
    For XOR, the same holds for the mean of (−1)^z, with 2 p_l y_l and 2 y_k.
    """
    indptr, columns, evidence = entries
    n_factors = row_prior.shape[1]
    sign = 1.0 if xor is None else 2.0
    term = np.empty(n_factors)
    after = np.empty(n_factors + 1)
    total = np.empty(n_factors)
    for row in range(indptr.shape[0] - 1):
        first, n = indptr[row], indptr[row + 1] - indptr[row]
        message = np.zeros((n, n_factors))
        belief = row_belief[row]
        for k in range(n_factors):
            belief[k] = FIRST_BELIEF if bits[row, k] else -FIRST_BELIEF
            if abs(row_prior[row, k]) > LARGEST:  # known
                belief[k] = row_prior[row, k]
        for iteration in range(MOST_ITERATIONS):
            share = 1.0 if iteration < UNDAMPED else damping
            change = 0.0
            total[:] = row_prior[row]
            for j in range(n):
                strength = evidence[first + j]
                # Likelihoods p(o|1) and p(o|0), scaled so that the larger one is 1.
                like_one, like_zero = min(1.0, np.exp(strength)), min(1.0, np.exp(-strength))
                y = column_chance[columns[first + j]]
                after[n_factors] = 1.0
                for i in range(n_factors):
                    k = n_factors - 1 - i
                    cavity = min(max(message[j, k] - belief[k], -LARGEST), LARGEST)
                    term[k] = 1.0 - sign * y[k] / (1.0 + np.exp(cavity))
                    after[k] = after[k + 1] * term[k]
                before = 1.0
                for k in range(n_factors):
                    rest = before * after[k + 1]
                    before *= term[k]
                    if_zero = likelihood(xor, like_one, like_zero, rest)
                    if_one = likelihood(xor, like_one, like_zero, rest * (1.0 - sign * y[k]))
                    undamped = np.log(if_one / if_zero)
                    new = (1.0 - share) * message[j, k] + share * undamped
                    change = max(change, abs(new - message[j, k]))
                    message[j, k] = new
                    total[k] += new
            belief[:] = total
            if change <= TOLERANCE:
                break


@njit(nogil=True, cache=True)
def improve_rows(
    xor: Xor, entries: Entries, row_prior: Floats, column_bits: Integers, row_bits: Integers
) -> None:
    """Flip single bits of each row, the best flip first, as long as the log-posterior rises.

    column_bits (N, K) are known; row_bits (rows, K) are updated.
    """
    indptr, columns, evidence = entries
    n_factors = row_bits.shape[1]
    gain = np.empty(n_factors)
    for row in range(row_bits.shape[0]):
        first = indptr[row]
        terms = np.zeros(indptr[row + 1] - first, np.int64)  # number of factors that cover an entry
        for j in range(terms.shape[0]):
            for k in range(n_factors):
                terms[j] += row_bits[row, k] & column_bits[columns[first + j], k]
        while True:
            for k in range(n_factors):
                gain[k] = -row_prior[row, k] if row_bits[row, k] else row_prior[row, k]
            for j in range(terms.shape[0]):
                for k in range(n_factors):
                    if column_bits[columns[first + j], k]:
                        then = terms[j] - 1 if row_bits[row, k] else terms[j] + 1
                        if xor is not None:
                            gain[k] += evidence[first + j] * ((then & 1) - (terms[j] & 1))
                        else:
                            gain[k] += evidence[first + j] * (min(then, 1) - min(terms[j], 1))
            best = np.argmax(gain)
            if gain[best] <= NO_GAIN:
                break
            change = -1 if row_bits[row, best] else 1
            row_bits[row, best] = 1 - row_bits[row, best]
            for j in range(terms.shape[0]):
                if column_bits[columns[first + j], best]:
                    terms[j] += change
