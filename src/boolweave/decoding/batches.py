"""Message passing on a sparse Tanner graph, many words at once: the compiled loop.

A graph is a list of checks, each with the
variables it touches, in CSR form: ``graph.indptr`` (checks + 1,), ``graph.variables`` (edges,). All
log-odds are those of 1, log p(1)/p(0).
Indices are unsigned, because code for negative indices would prevent vectorization.

The words of a batch lie side by side, so that every loop runs over contiguous memory: an array with
one row per variable, edge or check holds `width` words per row and is stored flat, row by row. A
word that is done gives its place (its lane) to the next one; when no word is waiting and half of
the lanes are idle, the rows are packed to half the width. Words do not influence each other, so
that the outcome depends neither on the width nor on the number of threads.

One check is gather → message → scatter:

    gather    beliefs minus stored messages: the messages to the check (cavities)
    message   the messages from the check to each variable, from all others and the evidence
    scatter   the new messages, damped, are added to the beliefs
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from boolweave.engine.kernels.jit import njit
from boolweave.engine.kernels.rules import (
    claims_of,
    either,
    likelihoods,
    no_terms,
    to_one_term,
    with_term,
)
from boolweave.engine.kernels.vectors import LANES, like, maximum, pointer, read, write
from boolweave.runtime.types import Array

# Sum-product works with probabilities in 32-bit floats. Log-odds are first clipped to this: e^−40
# is as good as certain, and the product of two such numbers is still far from denormal floats.
LIMIT = np.float32(40.0)

# The probability that a large pool is all zero could become a denormal float; below this limit it
# makes no difference any more because of LIMIT.
TINY = np.float32(1e-18)

# Vector instructions process at least eight floats. Rows narrower than this, in max-sum those
# narrower than a vector, are processed word by word.
MIN_WIDTH = np.uint64(8)

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)


# ---------------------------------------------------------------- exp and log, vectorizable


@njit(nogil=True, cache=True)
def exp_minus(a):
    """exp(−a) for 0 ≤ a ≤ 80, relative error 1e-7: 2ⁿ times a polynomial, |r| ≤ ln(2)/2."""
    # Adding 1.5·2²³ rounds to an integer, which is then in the lowest bits.
    shifted = np.float32(a * np.float32(-1.4426950408889634) + np.float32(12582912.0))
    n = shifted - np.float32(12582912.0)
    r = -a - n * np.float32(0.693359375)  # ln 2 in two parts, the first with few bits
    r = r - n * np.float32(-2.12194440e-4)
    p = np.float32(1 / 5040)
    p = p * r + np.float32(1 / 720)
    p = p * r + np.float32(1 / 120)
    p = p * r + np.float32(1 / 24)
    p = p * r + np.float32(1 / 6)
    p = p * r + np.float32(1 / 2)
    p = p * r + np.float32(1)
    p = p * r + np.float32(1)
    exponent = np.int32(shifted.view(np.int32) - np.int32(0x4B400000 - 127))
    return np.float32(p * np.int32(exponent << np.int32(23)).view(np.float32))


@njit(nogil=True, cache=True, error_model="numpy")  # no test for division by zero in the loop
def log_of(x):
    """log(x) for normal positive x, absolute error 1e-7, exactly 0 at 1: 2 artanh((m−1)/(m+1))."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32(np.int32(bits - np.int32(0x3F3504F3)) >> np.int32(23))  # m in [√½, √2)
    m = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32)
    s = (m - np.float32(1)) / (m + np.float32(1))
    z = s * s
    p = np.float32(2 / 9)
    p = p * z + np.float32(2 / 7)
    p = p * z + np.float32(2 / 5)
    p = p * z + np.float32(2 / 3)
    p = p * z + np.float32(2)
    return np.float32(np.float32(exponent) * np.float32(0.6931471805599453) + s * p)


# ---------------------------------------------------------------- gather and scatter


@njit(nogil=True, cache=True)
def gather(variables, start, degree, width, belief, message, cavity):
    """cavity[i, w] = belief[variable of edge i, w] − message[i, w]."""
    if width < MIN_WIDTH:
        for w in range(width):
            for i in range(degree):
                row = np.uint64(variables[start + i]) * width + w
                cavity[i * width + w] = belief[row] - message[(start + i) * width + w]
        return
    for i in range(degree):
        row = np.uint64(variables[start + i]) * width
        edge = (start + i) * width
        here = i * width
        for w in range(width):
            cavity[here + w] = belief[row + w] - message[edge + w]


@njit(nogil=True, cache=True)
def damp(start, degree, width, damping, new, message):
    """message ← message + λ·(new − message)."""
    first = start * width
    for j in range(degree * width):
        old = message[first + j]
        message[first + j] = old + damping * (new[j] - old)


@njit(nogil=True, cache=True)
def add(variables, start, degree, width, message, total):
    """total[variable of edge i, w] += message[i, w]."""
    if width < MIN_WIDTH:
        for w in range(width):
            for i in range(degree):
                row = np.uint64(variables[start + i]) * width + w
                total[row] += message[(start + i) * width + w]
        return
    for i in range(degree):
        row = np.uint64(variables[start + i]) * width
        edge = (start + i) * width
        for w in range(width):
            total[row + w] += message[edge + w]


@njit(nogil=True, cache=True)
def replace(variables, start, degree, width, cavity, message, belief):
    """belief[variable of edge i, w] = cavity[i, w] + message[i, w]."""
    if width < MIN_WIDTH:
        for w in range(width):
            for i in range(degree):
                row = np.uint64(variables[start + i]) * width + w
                belief[row] = cavity[i * width + w] + message[(start + i) * width + w]
        return
    for i in range(degree):
        row = np.uint64(variables[start + i]) * width
        edge = (start + i) * width
        here = i * width
        for w in range(width):
            belief[row + w] = cavity[here + w] + message[edge + w]


# ---------------------------------------------------------------- max-sum


@njit(nogil=True, cache=True, forceinline=True, error_model="numpy")
def _max_sum(xor, vector, w, check, degree, width, scale, evidence, cavity, new):
    """`max_sum` for word w, or for 16 words from w on."""
    ratio = read(vector, evidence, check * width + w)
    zero = like(ratio, 0)
    bound, is_one = maximum(ratio, zero - ratio), ratio > zero
    terms = no_terms(xor, bound, is_one)
    for i in range(degree):
        terms = with_term(xor, terms, read(vector, cavity, i * width + w), bound)
    claims = claims_of(xor, terms, bound, is_one)
    for i in range(degree):
        x = read(vector, cavity, i * width + w)
        claim = to_one_term(xor, claims, x, bound)
        write(vector, new, i * width + w, like(ratio, scale) * claim)


@njit(nogil=True, cache=True, error_model="numpy")
def max_sum(xor, check, degree, width, scale, evidence, cavity, new):
    """The messages of a check to its variables, from their cavities and its evidence."""
    given, x, y = pointer(evidence), pointer(cavity), pointer(new)
    if width < LANES:
        for w in range(width):
            _max_sum(xor, None, w, check, degree, width, scale, given, x, y)
    else:
        for w in range(ZERO, width, np.uint64(LANES)):
            _max_sum(xor, True, w, check, degree, width, scale, given, x, y)


# ---------------------------------------------------------------- sum-product


@njit(nogil=True, cache=True, error_model="numpy")
def _probabilities(first, n, log_odds, zero, one):
    """Write p(0) and p(1) of n log-odds; each is accurate however close to 0 it is."""
    for j in range(n):
        x = log_odds[first + j]
        e = exp_minus(min(abs(x), LIMIT))
        high = np.float32(1) / (np.float32(1) + e)
        low = e * high
        positive = x > np.float32(0)
        one[j] = high if positive else low
        zero[j] = low if positive else high


@njit(nogil=True, cache=True, error_model="numpy")
def sum_product(xor, check, degree, width, evidence, cavity, new, work, edges):
    """The messages of a check to its variables, from their cavities and its evidence.

    In probabilities: the variables before k have the product 0 and 1 with probabilities a_k and
    b_k, those after k likewise, and everything is a sum of products, without subtractions.
    """
    if_zero = work[0]
    if_one = work[1]
    zero = edges[2]
    one = edges[3]
    _probabilities(ZERO, degree * width, cavity, zero, one)
    _probabilities(check * width, width, evidence, if_zero, if_one)
    if width < MIN_WIDTH:
        _scan_narrow(xor, degree, width, if_zero, if_one, zero, one, edges[4], edges[5], new)
    else:
        _scan(
            xor, degree, width, if_zero, if_one, zero, one, edges[4], edges[5], work[2], work[3],
            new,
        )  # fmt: skip
    for j in range(degree * width):
        new[j] = log_of(new[j])


@njit(nogil=True, cache=True, forceinline=True)
def _above_tiny(xor, p):
    """P(all zero) of a pool, which is cut off at TINY; with XOR no probability becomes so small."""
    return max(p, TINY) if xor is None else p


@njit(nogil=True, cache=True, error_model="numpy")
def _scan(xor, degree, width, if_zero, if_one, zero, one, a, b, none, some, new):
    """Go over the edges of `sum_product` first to last and back, a row of words at a time."""
    last = (degree - ONE) * width
    for w in range(width):
        a[w] = np.float32(1)
        b[w] = np.float32(0)
        none[w] = np.float32(1)
        some[w] = np.float32(0)
    for i in range(degree - ONE):
        here = i * width
        after = here + width
        for w in range(width):
            j = here + w
            b[after + w] = either(xor, b[j], a[j], one[j], zero[j])[0]
        for w in range(width):
            j = here + w
            a[after + w] = _above_tiny(xor, either(xor, b[j], a[j], one[j], zero[j])[1])
    for i in range(degree):
        here = last - i * width
        for w in range(width):
            s, r = either(xor, b[here + w], a[here + w], some[w], none[w])
            told_one, told_zero = likelihoods(xor, if_one[w], if_zero[w], s, r)
            new[here + w] = told_one / told_zero
        for w in range(width):
            s, r = either(xor, some[w], none[w], one[here + w], zero[here + w])
            some[w] = s
            none[w] = _above_tiny(xor, r)


@njit(nogil=True, cache=True, error_model="numpy")
def _scan_narrow(xor, degree, width, if_zero, if_one, zero, one, a, b, new):
    """The same as `_scan` for few words: word by word, with the running values in registers."""
    last = (degree - ONE) * width
    for w in range(width):
        none = np.float32(1)
        some = np.float32(0)
        for i in range(degree):
            j = i * width + w
            a[j] = none
            b[j] = some
            some, none = either(xor, some, none, one[j], zero[j])
            none = _above_tiny(xor, none)
        none = np.float32(1)
        some = np.float32(0)
        for i in range(degree):
            j = last - i * width + w
            s, r = either(xor, b[j], a[j], some, none)
            b[j], new[j] = likelihoods(xor, if_one[w], if_zero[w], s, r)
            some, none = either(xor, some, none, one[j], zero[j])
            none = _above_tiny(xor, none)
    for j in range(degree * width):
        new[j] = b[j] / new[j]


# ---------------------------------------------------------------- batches of words


# Beliefs beyond this count as converged: a probability of e^−30 cannot be observed.
SETTLED = np.float32(30.0)

# If the messages to a bit cancel, as often over a symmetric channel, the prior decides. It has this
# weight in decisions, which is above the rounding errors of the sum.
TIE = np.float32(1e-5)

# Free lanes are filled only several at a time, because one pass over the rows then serves all.
REFILL_SHARE = np.uint64(8)

# After this many checks, the search for violated checks tests whether all words have one already.
CHECKS_A_LOOK = np.uint64(32)


class Update(NamedTuple):
    """How the messages of an iteration are computed; `scale` applies to max-sum."""

    xor: bool
    sum_product: bool
    serial: bool
    damping: np.float32
    scale: np.float32


class Stopping(NamedTuple):
    """When a word is done: its bits satisfy every check, or no belief changes by more than tol."""

    on_checks: bool
    tol: np.float32
    max_iter: int


class Batch(NamedTuple):
    """The state of the current words, as flat float32 arrays with `width` words per row."""

    prior: Array  # (variables, width)
    belief: Array  # (variables, width)
    previous: Array  # (variables, width), the beliefs before the last iteration
    message: Array  # (edges, width), from checks to variables
    evidence: Array  # L, (checks, width)


# ---------------------------------------------------------------- one iteration


@njit(nogil=True, cache=True)
def iterate(graph, update, width, batch, edges, work):
    """Do one iteration over all checks, in place; return the batch with its new beliefs.

    Flooding reads `belief` and adds up the next beliefs in `previous`, and the two are exchanged at
    the end. The serial schedule updates `belief` check by check. Scratch: edges (6, largest degree
    · width), work (4, width).
    """
    indptr, variables = graph.indptr, graph.variables
    prior, belief, previous, message, evidence = batch
    xor, by_sum, serial, damping, scale = update
    cavity, new = edges[0], edges[1]
    n = np.uint64(prior.shape[0])
    if serial:
        for j in range(n):
            previous[j] = belief[j]
    else:
        for j in range(n):
            previous[j] = prior[j]
    for c in range(np.uint64(indptr.shape[0] - 1)):
        start = indptr[c]
        degree = indptr[c + ONE] - start
        if degree == ZERO:
            continue
        gather(variables, start, degree, width, belief, message, cavity)
        if by_sum and xor:
            sum_product(True, c, degree, width, evidence, cavity, new, work, edges)
        elif by_sum:
            sum_product(None, c, degree, width, evidence, cavity, new, work, edges)
        elif xor:
            max_sum(True, c, degree, width, scale, evidence, cavity, new)
        else:
            max_sum(None, c, degree, width, scale, evidence, cavity, new)
        damp(start, degree, width, damping, new, message)
        if serial:
            replace(variables, start, degree, width, cavity, message, belief)
        else:
            add(variables, start, degree, width, message, previous)
    if serial:
        return batch
    return Batch(prior, previous, belief, message, evidence)


# ---------------------------------------------------------------- is a word done?


@njit(nogil=True, cache=True)
def find_violated(graph, width, batch, bits, parity, wrong):
    """wrong[w] = 1 if word w violates a check or has a bit about which nothing is known.

    Scratch: bits (variables, width) and parity (width,), uint8 as is `wrong` (width,).
    """
    indptr, variables = graph.indptr, graph.variables
    prior, belief, evidence = batch.prior, batch.belief, batch.evidence
    zero = np.float32(0)
    n = np.uint64(belief.shape[0])
    for w in range(width):
        wrong[w] = 0
    for j in range(n):
        bits[j] = belief[j] + TIE * prior[j] > zero
    for row in range(ZERO, n, width):
        for w in range(width):
            wrong[w] |= belief[row + w] + TIE * prior[row + w] == zero
    for c in range(np.uint64(indptr.shape[0] - 1)):
        for w in range(width):
            parity[w] = evidence[c * width + w] > zero
        for e in range(indptr[c], indptr[c + ONE]):
            row = np.uint64(variables[e]) * width
            for w in range(width):
                parity[w] ^= bits[row + w]
        for w in range(width):
            wrong[w] |= parity[w]
        if c % CHECKS_A_LOOK == ZERO:
            right = 0
            for w in range(width):
                right += 1 - wrong[w]
            if right == 0:
                return


@njit(nogil=True, cache=True)
def find_moved(width, tol, batch, change, wrong):
    """wrong[w] = 1 if a belief of word w within ±30 changed by more than `tol`."""
    belief, previous = batch.belief, batch.previous
    zero = np.float32(0)
    for w in range(width):
        change[w] = zero
    for row in range(ZERO, np.uint64(belief.shape[0]), width):
        for w in range(width):
            now = min(max(belief[row + w], -SETTLED), SETTLED)
            then = min(max(previous[row + w], -SETTLED), SETTLED)
            change[w] = max(change[w], abs(now - then)) + zero
    for w in range(width):
        wrong[w] = change[w] > tol


# ---------------------------------------------------------------- lanes


@njit(nogil=True, cache=True)
def _admit(waiting, width, word_of, age, prior, evidence, batch):
    """Put waiting words into idle lanes, with messages of zero; return their number."""
    lanes = np.empty(width, np.uint64)
    n_lanes = ZERO
    for w in range(width):
        if word_of[w] < 0 and waiting + n_lanes < np.uint64(prior.shape[0]):
            lanes[n_lanes] = w
            word_of[w] = np.int64(waiting + n_lanes)
            age[w] = 0
            n_lanes += ONE
    for row in range(np.uint64(prior.shape[1])):
        for k in range(n_lanes):
            value = prior[waiting + k, row]
            batch.prior[row * width + lanes[k]] = value
            batch.belief[row * width + lanes[k]] = value
    for row in range(np.uint64(evidence.shape[1])):
        for k in range(n_lanes):
            word = waiting + k if evidence.shape[0] > 1 else ZERO
            batch.evidence[row * width + lanes[k]] = evidence[word, row]
    for row in range(np.uint64(batch.message.shape[0]) // width):
        for k in range(n_lanes):
            batch.message[row * width + lanes[k]] = np.float32(0)
    return n_lanes


@njit(nogil=True, cache=True)
def _take_out(lane, width, batch, log_odds, bits):
    """Copy beliefs and decisions of one lane, each (variables,)."""
    for row in range(np.uint64(log_odds.shape[0])):
        value = batch.belief[row * width + lane]
        log_odds[row] = value
        bits[row] = value + TIE * batch.prior[row * width + lane] > np.float32(0)


@njit(nogil=True, cache=True)
def _packed(lanes, width, array):
    """Keep the given lanes, half of `width`, in ascending order; in place, front to back."""
    half = width // TWO
    n_rows = np.uint64(array.shape[0]) // width
    for row in range(n_rows):
        for k in range(half):
            array[row * half + k] = array[row * width + lanes[k]]
    return array[: n_rows * half]


@njit(nogil=True, cache=True)
def _busy_lanes(width, word_of):
    """The lanes in use, ascending, padded with the last lane to half of `width`."""
    lanes = np.full(width // TWO, width - ONE, np.uint64)
    k = ZERO
    for w in range(width):
        if word_of[w] >= 0:
            lanes[k] = w
            k += ONE
    return lanes


@njit(nogil=True, cache=True)
def run_words(graph, update, stopping, width, prior, evidence, found):
    """Iterate each word until it is done or has had `max_iter` iterations.

    prior (words, variables), evidence (words or 1, checks). Written: log_odds and bits (words,
    variables), converged and n_iter (words,) of `found`. `width` is a power of two.
    """
    indptr = graph.indptr
    n_words = np.uint64(prior.shape[0])
    n_variables = np.uint64(prior.shape[1])
    n_checks = np.uint64(indptr.shape[0] - 1)
    largest = ONE
    for c in range(n_checks):
        largest = max(largest, indptr[c + ONE] - indptr[c])
    batch = Batch(
        np.zeros(n_variables * width, np.float32),
        np.zeros(n_variables * width, np.float32),
        np.zeros(n_variables * width, np.float32),
        np.zeros(np.uint64(graph.variables.shape[0]) * width, np.float32),
        np.zeros(n_checks * width, np.float32),
    )
    edges = np.zeros((6, largest * width), np.float32)
    work = np.zeros((4, width), np.float32)
    bits = np.zeros(n_variables * width, np.uint8)
    parity = np.zeros(width, np.uint8)
    wrong = np.ones(width, np.uint8)
    word_of = np.full(width, -1, np.int64)  # −1: the lane is idle
    age = np.zeros(width, np.int64)
    least_width = MIN_WIDTH if update.sum_product else np.uint64(LANES)
    waiting = ZERO  # the next word to be admitted
    active = ZERO
    while waiting < n_words or active > ZERO:
        as_they_came = False
        if waiting < n_words and (width - active) * REFILL_SHARE >= width:
            admitted = _admit(waiting, width, word_of, age, prior, evidence, batch)
            waiting += admitted
            active += admitted
            as_they_came = stopping.on_checks  # new words may be right without an iteration
        if not as_they_came:
            batch = iterate(graph, update, width, batch, edges, work)
            age += 1
        if stopping.on_checks:
            find_violated(graph, width, batch, bits, parity, wrong)
        else:
            find_moved(width, stopping.tol, batch, work[0], wrong)
        for w in range(width):
            word = word_of[w]
            if word >= 0 and (wrong[w] == 0 or age[w] >= stopping.max_iter):
                _take_out(w, width, batch, found.log_odds[word], found.bits[word])
                found.converged[word] = wrong[w] == 0
                found.n_iter[word] = age[w]
                word_of[w] = -1
                active -= ONE
        while (
            waiting == n_words and width > least_width and active > ZERO and active * TWO <= width
        ):
            lanes = _busy_lanes(width, word_of)
            batch = Batch(
                _packed(lanes, width, batch.prior),
                _packed(lanes, width, batch.belief),
                _packed(lanes, width, batch.previous),
                _packed(lanes, width, batch.message),
                _packed(lanes, width, batch.evidence),
            )
            width = width // TWO
            for k in range(width):
                word_of[k] = word_of[lanes[k]] if k < active else -1
                age[k] = age[lanes[k]]
            word_of = word_of[:width]
            age = age[:width]
