"""The loop of decoding: messages on a sparse Tanner graph, many words at once.

This file and `rules` import numpy and `_jit` only. A graph is a list of checks, each with the
variables it touches, in CSR form: ``indptr`` (checks + 1,), ``variables`` (edges,). All log-odds
are those of 1, log p(1)/p(0).

The words of a tile lie side by side, so that every loop runs over neighbours in memory: an array
with one row per variable, edge or check holds `width` words to a row and is stored flat, row by
row. A word that is done gives its place (its lane) to the next one; when none is waiting and half
of the lanes are idle, the rows are packed to half the width. No word sees its neighbours, so that
the outcome depends neither on the width nor on the number of threads.

One check is gather → rule → scatter:

    gather    beliefs minus stored messages: what the variables tell the check (cavities)
    rule      what the check tells each variable, from all the others and the evidence of the check
    scatter   the new messages, damped, into the beliefs
"""

import numpy as np

from boolweave.decoding.rules import (
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

# Beliefs further out than this count as settled: e^−30 is nothing that can be observed.
SETTLED = np.float32(30.0)

# Where the messages to a bit balance, in particular over a symmetric channel, the prior decides.
# It has this weight in decisions, above the rounding errors of the sum.
TIE = np.float32(1e-5)

# A free lane is filled only together with others: one pass over the rows then serves them all.
REFILL_SHARE = np.uint64(8)

# Every so many checks the search for a violated one looks whether all words have one already.
CHECKS_A_LOOK = np.uint64(32)


# ---------------------------------------------------------------- one iteration


@njit(nogil=True, cache=True)
def iterate(
    indptr, variables, width, xor, sum_product, serial, damping, scale,
    prior, belief, other, message, evidence, edges, work,
):  # fmt: skip
    """One iteration over all checks.

    Fixed: indptr (checks + 1,) uint64, variables (edges,) uint32, prior (variables, width) and
    evidence L (checks, width), flat. Updated: message (edges, width). Flooding reads `belief` and
    leaves the next beliefs in `other`; the serial schedule updates `belief` check by check and
    leaves the previous ones in `other`. Scratch: edges (6, largest degree · width), work
    (4, width).
    """
    n_checks = np.uint64(indptr.shape[0] - 1)
    n = np.uint64(prior.shape[0])
    cavity = edges[0]
    new = edges[1]
    zero = edges[2]
    one = edges[3]
    a = edges[4]
    b = edges[5]
    if serial:
        for j in range(n):
            other[j] = belief[j]
    else:
        for j in range(n):
            other[j] = prior[j]
    for c in range(n_checks):
        start = indptr[c]
        degree = indptr[c + ONE] - start
        if degree == ZERO:
            continue
        gather(variables, start, degree, width, belief, message, cavity)
        if sum_product:
            if xor:
                sum_product_xor(c, degree, width, evidence, cavity, new, work, zero, one, a, b)
            else:
                sum_product_or(c, degree, width, evidence, cavity, new, work, zero, one, a, b)
        elif xor:
            max_sum_xor(c, degree, width, scale, evidence, cavity, new, work)
        else:
            max_sum_or(c, degree, width, scale, evidence, cavity, new, work)
        damp(start, degree, width, damping, new, message)
        if serial:
            replace(variables, start, degree, width, cavity, message, belief)
        else:
            add(variables, start, degree, width, message, other)


# ---------------------------------------------------------------- is a word done?


@njit(nogil=True, cache=True)
def find_violated(indptr, variables, width, prior, belief, evidence, bits, odd, wrong):
    """wrong[w] = 1 if word w breaks a check or has a bit of which nothing is known.

    bits (variables, width), odd and wrong (width,) are uint8.
    """
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
            odd[w] = evidence[c * width + w] > zero
        for e in range(indptr[c], indptr[c + ONE]):
            row = np.uint64(variables[e]) * width
            for w in range(width):
                odd[w] ^= bits[row + w]
        for w in range(width):
            wrong[w] |= odd[w]
        if c % CHECKS_A_LOOK == ZERO:
            right = 0
            for w in range(width):
                right += 1 - wrong[w]
            if right == 0:
                return


@njit(nogil=True, cache=True)
def find_moved(width, tol, belief, other, change, wrong):
    """wrong[w] = 1 if a belief of word w moved by more than `tol`, log-odds past ±30 aside."""
    zero = np.float32(0)
    for w in range(width):
        change[w] = zero
    for row in range(ZERO, np.uint64(belief.shape[0]), width):
        for w in range(width):
            now = min(max(belief[row + w], -SETTLED), SETTLED)
            then = min(max(other[row + w], -SETTLED), SETTLED)
            change[w] = max(change[w], abs(now - then)) + zero
    for w in range(width):
        wrong[w] = change[w] > tol


# ---------------------------------------------------------------- lanes


@njit(nogil=True, cache=True)
def _admit(waiting, width, word_of, age, log_odds, evidence_in, prior, belief, message, evidence):
    """Let waiting words into idle lanes, with messages of zero; return how many."""
    lanes = np.empty(width, np.uint64)
    n_lanes = ZERO
    for w in range(width):
        if word_of[w] < 0 and waiting + n_lanes < np.uint64(log_odds.shape[0]):
            lanes[n_lanes] = w
            word_of[w] = np.int64(waiting + n_lanes)
            age[w] = 0
            n_lanes += ONE
    for row in range(np.uint64(log_odds.shape[1])):
        for k in range(n_lanes):
            value = log_odds[waiting + k, row]
            prior[row * width + lanes[k]] = value
            belief[row * width + lanes[k]] = value
    for row in range(np.uint64(evidence_in.shape[1])):
        for k in range(n_lanes):
            word = waiting + k if evidence_in.shape[0] > 1 else ZERO
            evidence[row * width + lanes[k]] = evidence_in[word, row]
    for row in range(np.uint64(message.shape[0]) // width):
        for k in range(n_lanes):
            message[row * width + lanes[k]] = np.float32(0)
    return n_lanes


@njit(nogil=True, cache=True)
def _take_out(lane, width, prior, belief, belief_out, bits_out):
    """Copy beliefs and decisions of one lane, each (variables,)."""
    for row in range(np.uint64(belief_out.shape[0])):
        value = belief[row * width + lane]
        belief_out[row] = value
        bits_out[row] = value + TIE * prior[row * width + lane] > np.float32(0)


@njit(nogil=True, cache=True)
def _pack(lanes, width, array):
    """Keep the given lanes, half of `width`, in ascending order; in place, front to back."""
    half = width // TWO
    for row in range(np.uint64(array.shape[0]) // width):
        for k in range(half):
            array[row * half + k] = array[row * width + lanes[k]]


@njit(nogil=True, cache=True)
def _busy_lanes(width, word_of):
    """The lanes in use, ascending, filled up with the last lane to half of `width`."""
    lanes = np.full(width // TWO, width - ONE, np.uint64)
    k = ZERO
    for w in range(width):
        if word_of[w] >= 0:
            lanes[k] = w
            k += ONE
    return lanes


@njit(nogil=True, cache=True)
def run_words(
    indptr, variables, xor, sum_product, serial, on_checks, damping, scale, tol, max_iter, width,
    log_odds, evidence_in, belief_out, bits_out, converged, n_iter,
):  # fmt: skip
    """Iterate each word until it is done or had `max_iter` iterations.

    A word is done when its decision meets every check (on_checks) or its beliefs stand still.
    log_odds (words, variables), evidence_in (words or 1, checks). Written: belief_out and bits_out
    (words, variables), converged and n_iter (words,). `width` is a power of two.
    """
    n_words = np.uint64(log_odds.shape[0])
    n_checks = np.uint64(indptr.shape[0] - 1)
    n_edges = np.uint64(variables.shape[0])
    n_variables = np.uint64(log_odds.shape[1])
    largest = ONE
    for c in range(n_checks):
        largest = max(largest, indptr[c + ONE] - indptr[c])
    prior = np.zeros(n_variables * width, np.float32)
    belief = np.zeros(n_variables * width, np.float32)
    other = np.zeros(n_variables * width, np.float32)
    message = np.zeros(n_edges * width, np.float32)
    evidence = np.zeros(n_checks * width, np.float32)
    edges = np.zeros((6, largest * width), np.float32)
    work = np.zeros((4, width), np.float32)
    bits = np.zeros(n_variables * width, np.uint8)
    odd = np.zeros(width, np.uint8)
    wrong = np.ones(width, np.uint8)
    word_of = np.full(width, -1, np.int64)  # −1: the lane is idle
    age = np.zeros(width, np.int64)
    waiting = ZERO  # the next word to be let in
    active = ZERO
    while waiting < n_words or active > ZERO:
        as_they_came = False
        if waiting < n_words and (width - active) * REFILL_SHARE >= width:
            admitted = _admit(
                waiting,
                width,
                word_of,
                age,
                log_odds,
                evidence_in,
                prior,
                belief,
                message,
                evidence,
            )
            waiting += admitted
            active += admitted
            as_they_came = on_checks  # new words may be right without an iteration
        if not as_they_came:
            iterate(
                indptr, variables, width, xor, sum_product, serial, damping, scale,
                prior, belief, other, message, evidence, edges, work,
            )  # fmt: skip
            if not serial:
                belief, other = other, belief
            age += 1
        if on_checks:
            find_violated(indptr, variables, width, prior, belief, evidence, bits, odd, wrong)
        else:
            find_moved(width, tol, belief, other, work[0], wrong)
        for w in range(width):
            word = word_of[w]
            if word >= 0 and (wrong[w] == 0 or age[w] >= max_iter):
                _take_out(w, width, prior, belief, belief_out[word], bits_out[word])
                converged[word] = wrong[w] == 0
                n_iter[word] = age[w]
                word_of[w] = -1
                active -= ONE
        while waiting == n_words and width > MIN_WIDTH and active > ZERO and active * TWO <= width:
            lanes = _busy_lanes(width, word_of)
            for array in (prior, belief, other, message, evidence):
                _pack(lanes, width, array)
            for k in range(width // TWO):
                word_of[k] = word_of[lanes[k]] if k < active else -1
                age[k] = age[lanes[k]]
            width = width // TWO
            prior = prior[: n_variables * width]
            belief = belief[: n_variables * width]
            other = other[: n_variables * width]
            bits = bits[: n_variables * width]
            message = message[: n_edges * width]
            evidence = evidence[: n_checks * width]
            word_of = word_of[:width]
            age = age[:width]


# ---------------------------------------------------------------- the most likely set


@njit(nogil=True, cache=True)
def _gain(item, item_indptr, pools_of, odds, evidence, chosen, count):
    """What the log-posterior gains if an item goes into the set, or out of it."""
    alone = np.float64(0)
    own = 1 if chosen[item] else 0
    for at in range(item_indptr[item], item_indptr[item + ONE]):
        pool = np.uint64(pools_of[at])
        if count[pool] == own:  # no other item of the set covers the pool
            alone += evidence[pool]
    return -odds[item] - alone if chosen[item] else odds[item] + alone


@njit(nogil=True, cache=True)
def _flip(
    item, indptr, variables, item_indptr, pools_of, odds, evidence, free, chosen, count, gain
):
    """Put an item in or out; counts and gains of all that share a pool with it follow."""
    step = -1 if chosen[item] else 1
    chosen[item] = 1 - chosen[item]
    for at in range(item_indptr[item], item_indptr[item + ONE]):
        count[np.uint64(pools_of[at])] += step
    gain[item] = _gain(item, item_indptr, pools_of, odds, evidence, chosen, count)
    for at in range(item_indptr[item], item_indptr[item + ONE]):
        pool = np.uint64(pools_of[at])
        for e in range(indptr[pool], indptr[pool + ONE]):
            other = np.uint64(variables[e])
            if free[other]:
                gain[other] = _gain(other, item_indptr, pools_of, odds, evidence, chosen, count)


@njit(nogil=True, cache=True)
def improve_set(indptr, variables, item_indptr, pools_of, odds, evidence, free, passes, chosen):
    """Climb: put items in or out, or exchange one for another, as long as the posterior rises.

    indptr and variables: the items of each pool; item_indptr and pools_of: the pools of each item.
    odds (items,): prior log-odds; evidence L (pools,); free (items,) bool: which items may move.
    chosen (items,) uint8 is updated. Returns Σ odds over the set + Σ L over the pools it covers.
    """
    enough = 1e-9  # gains below are rounding errors
    n_items = np.uint64(chosen.shape[0])
    count = np.zeros(evidence.shape[0], np.int64)
    for item in range(n_items):
        if chosen[item]:
            for at in range(item_indptr[item], item_indptr[item + ONE]):
                count[np.uint64(pools_of[at])] += 1
    gain = np.full(chosen.shape[0], -np.inf)
    for item in range(n_items):
        if free[item]:
            gain[item] = _gain(item, item_indptr, pools_of, odds, evidence, chosen, count)
    for _ in range(passes):
        best = np.uint64(np.argmax(gain))
        while gain[best] > enough:
            _flip(
                best, indptr, variables, item_indptr, pools_of, odds, evidence, free, chosen,
                count, gain,
            )  # fmt: skip
            best = np.uint64(np.argmax(gain))
        improved = False
        for out in range(n_items):
            if not (chosen[out] and free[out]):
                continue
            loss = -gain[out]
            _flip(
                out, indptr, variables, item_indptr, pools_of, odds, evidence, free, chosen, count,
                gain,
            )  # fmt: skip
            # Only an item that shares a pool can gain more than it did before, which was nothing.
            best, best_gain = np.uint64(out), loss + enough
            for at in range(item_indptr[out], item_indptr[out + ONE]):
                pool = np.uint64(pools_of[at])
                for e in range(indptr[pool], indptr[pool + ONE]):
                    other = np.uint64(variables[e])
                    if other != out and not chosen[other] and gain[other] > best_gain:
                        best, best_gain = other, gain[other]
            _flip(
                best, indptr, variables, item_indptr, pools_of, odds, evidence, free, chosen, count,
                gain,
            )  # fmt: skip
            improved = improved or best != out  # else it went back
        if not improved:
            break
    total = 0.0
    for item in range(n_items):
        if chosen[item]:
            total += odds[item]
    total += evidence[count > 0].sum()
    return total
