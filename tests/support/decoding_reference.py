"""Slow, obvious twins of the decoding kernels, and enumeration of all words."""

import itertools

import numpy as np


def enumerate_words(matrix, prior, evidence, product):
    """Log-odds of marginals and of max-marginals over all words: exact, 2ⁿ terms.

    matrix (checks, n), prior (n,) probabilities of 1, evidence (checks, 2): p(seen | 0 or 1).
    """
    n = matrix.shape[1]
    sums = np.zeros((n, 2))
    tops = np.zeros((n, 2))
    for word in itertools.product((0, 1), repeat=n):
        x = np.array(word)
        z = matrix @ x
        z = (z > 0).astype(int) if product == "or" else z % 2
        weight = np.prod(np.where(x == 1, prior, 1 - prior))
        weight *= np.prod(evidence[np.arange(len(z)), z])
        for i in range(n):
            sums[i, x[i]] += weight
            tops[i, x[i]] = max(tops[i, x[i]], weight)
    with np.errstate(divide="ignore"):
        return [np.log(table[:, 1]) - np.log(table[:, 0]) for table in (sums, tops)]


def check_message(others, ratio, product, method):
    """What a check tells a variable: log-odds, from those of the others and of the check."""
    if method == "max-sum":
        if product == "or":
            largest = max(others, default=-np.inf)
            return min(max(-largest, 0.0), sum(max(x, 0.0) for x in others) + ratio)
        sign = np.sign(ratio) * np.prod([-np.sign(x) for x in others])
        return float(sign * min([abs(ratio), *map(abs, others)]))
    if product == "or":
        S = sum(np.logaddexp(0.0, x) for x in others)
        return S + ratio - np.logaddexp(0.0, ratio + S + np.log(-np.expm1(-S)) if S else -np.inf)
    product_of = np.tanh(ratio / 2) * np.prod([-np.tanh(x / 2) for x in others])
    return 2 * np.arctanh(product_of)


def propagate_reference(matrix, prior, ratios, product, method, schedule, damping, scale, n_iter):
    """Message passing in 64 bits, edge by edge; prior (n,), ratios (checks,); beliefs (n,)."""
    matrix, prior = np.asarray(matrix), np.asarray(prior, float)
    message = np.zeros(matrix.shape)
    for _ in range(n_iter):
        read = message if schedule == "serial" else message.copy()
        for c in range(matrix.shape[0]):
            variables = np.flatnonzero(matrix[c])
            belief = prior + read.sum(axis=0)
            cavity = {v: belief[v] - read[c, v] for v in variables}
            for v in variables:
                others = [cavity[u] for u in variables if u != v]
                new = check_message(others, ratios[c], product, method)
                new *= scale if method == "max-sum" else 1.0
                message[c, v] += damping * (new - message[c, v])
    return prior + message.sum(axis=0)


def random_tree(rng, max_variables=9):
    """A matrix (checks, variables) whose Tanner graph has no cycle."""
    rows, n = [], 1
    while n < max_variables and (len(rows) < 1 or rng.random() < 0.85):
        old = int(rng.integers(n))
        new = int(rng.integers(0, min(3, max_variables - n) + 1))
        rows.append([old, *range(n, n + new)])
        n += new
    matrix = np.zeros((len(rows), n), dtype=np.uint8)
    for c, row in enumerate(rows):
        matrix[c, row] = 1
    return matrix


def regular_code(n, column_weight, row_weight, seed=0):
    """A parity-check matrix with (nearly) constant weights: shuffled places, doubles dropped."""
    rng = np.random.default_rng(seed)
    n_checks = n * column_weight // row_weight
    matrix = np.zeros((n_checks, n), dtype=np.uint8)
    for _ in range(column_weight):
        order = rng.permutation(n)
        matrix[order % n_checks, np.arange(n)] = 1
    return matrix


HAMMING = np.array(
    [[1, 1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 1]], dtype=np.uint8
)
