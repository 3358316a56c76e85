"""Message passing on a sparse Tanner graph, many words at once: the compiled loop.

This file and `check_nodes` use only numpy and `jit`. A graph is a list of checks, each with the
variables it touches, in CSR form: ``graph.indptr`` (checks + 1,), ``graph.variables`` (edges,). All
log-odds are those of 1, log p(1)/p(0).

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

from typing import NamedTuple

import numpy as np

from boolweave.decoding.check_nodes import (
    MIN_WIDTH,
    ONE,
    TWO,
    ZERO,
    add,
    damp,
    gather,
    max_sum_or,
    max_sum_xor,
    replace,
    sum_product_or,
    sum_product_xor,
)
from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Array

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
            sum_product_xor(c, degree, width, evidence, cavity, new, work, edges)
        elif by_sum:
            sum_product_or(c, degree, width, evidence, cavity, new, work, edges)
        elif xor:
            max_sum_xor(c, degree, width, scale, evidence, cavity, new, work)
        else:
            max_sum_or(c, degree, width, scale, evidence, cavity, new, work)
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
        while waiting == n_words and width > MIN_WIDTH and active > ZERO and active * TWO <= width:
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
