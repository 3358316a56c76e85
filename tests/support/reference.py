"""The slow twins: message passing on six full arrays, and the answer by enumeration.

Both are written to be read beside the formulas, not to be fast. Messages are (M, N, K) arrays of
log-odds, and sums run over Ω only, the entries whose evidence L is not 0. Nothing here is
shared with the package; infinite priors stay infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

# ---------------------------------------------------------------- message passing


@dataclass
class Messages:
    """All messages after an iteration, (M, N, K) each, and the beliefs that follow from them."""

    to_row: np.ndarray  # Φ
    to_column: np.ndarray  # Ψ
    from_row: np.ndarray  # Φ̂, damped
    from_column: np.ndarray  # Ψ̂, damped
    to_product: np.ndarray  # Γ̂
    from_product: np.ndarray  # Γ
    row_belief: np.ndarray  # Ξ (M, K)
    column_belief: np.ndarray  # Υ (K, N)


def max_sum_reference(evidence, row_prior, column_prior, to_row, to_column, **options):
    """Iterate max-sum; see `_iterate`."""
    return _iterate(MAX_SUM, evidence, row_prior, column_prior, to_row, to_column, **options)


def sum_product_reference(evidence, row_prior, column_prior, to_row, to_column, **options):
    """Iterate sum-product; see `_iterate`."""
    return _iterate(SUM_PRODUCT, evidence, row_prior, column_prior, to_row, to_column, **options)


def _iterate(
    rules: Rules,
    evidence: np.ndarray,
    row_prior: np.ndarray,
    column_prior: np.ndarray,
    to_row: np.ndarray,
    to_column: np.ndarray,
    *,
    damping: float = 0.4,
    n_iter: int = 200,
    product: str = "or",
) -> Iterator[Messages]:
    """Yield the messages after each of `n_iter` iterations.

    evidence L (M, N); row_prior a (M, K) and column_prior b (K, N) as log-odds, ±∞ where known;
    to_row Φ and to_column Ψ (M, N, K), the messages to start from. Damping acts on Φ̂ and Ψ̂.
    """
    observed = (evidence != 0)[:, :, None]
    L = evidence[:, :, None].astype(to_row.dtype)
    a = row_prior[:, None, :].astype(to_row.dtype)  # (M, 1, K)
    b = column_prior.T[None, :, :].astype(to_row.dtype)  # (1, N, K)
    phi = np.where(observed, to_row, 0)
    psi = np.where(observed, to_column, 0)
    phi_hat = a + phi.sum(axis=1, keepdims=True) - phi
    psi_hat = b + psi.sum(axis=0, keepdims=True) - psi
    for _ in range(n_iter):
        gamma_hat = rules.to_product(phi_hat, psi_hat)
        gamma = np.empty_like(gamma_hat)
        for k in range(gamma.shape[2]):
            others = np.delete(gamma_hat, k, axis=2)
            gamma[:, :, k] = rules.from_product[product](L[:, :, 0], others)
        phi = np.where(observed, rules.to_variable(gamma, psi_hat), 0)
        psi = np.where(observed, rules.to_variable(gamma, phi_hat), 0)
        xi = a + phi.sum(axis=1, keepdims=True)
        upsilon = b + psi.sum(axis=0, keepdims=True)
        phi_hat = _damped(phi_hat, xi - phi, damping)
        psi_hat = _damped(psi_hat, upsilon - psi, damping)
        yield Messages(
            phi, psi, phi_hat, psi_hat, gamma_hat, gamma, xi[:, 0, :], upsilon[0, :, :].T
        )


def printed_reference(evidence, row_prior, column_prior, six, *, damping=0.4, n_iter=200):
    """Algorithm 1 as it is printed: yield all six arrays (M, N, K) after each iteration.

    `six` are Φ, Ψ, Φ̂, Ψ̂, Γ̂ and Γ at time 0. Every array of time t + 1 follows from those of time t.
    """
    (M, N), K = evidence.shape, row_prior.shape[1]
    phi, psi, phi_hat, psi_hat, gamma_hat, gamma = six
    for _ in range(n_iter):
        new = [np.zeros((M, N, K)) for _ in six]
        for m, n in np.argwhere(evidence != 0):
            for k in range(K):
                others = [gamma_hat[m, n, j] for j in range(K) if j != k]
                in_row = [phi[m, i, k] for i in range(N) if i != n and evidence[m, i] != 0]
                in_column = [psi[i, n, k] for i in range(M) if i != m and evidence[i, n] != 0]
                x, y, z = phi_hat[m, n, k], psi_hat[m, n, k], gamma[m, n, k]
                new[0][m, n, k] = max(0, z + y) - max(0, y)
                new[1][m, n, k] = max(0, z + x) - max(0, x)
                new[2][m, n, k] = (1 - damping) * x + damping * (row_prior[m, k] + sum(in_row))
                new[3][m, n, k] = (1 - damping) * y + damping * (
                    column_prior[k, n] + sum(in_column)
                )
                new[4][m, n, k] = min(x + y, x, y)
                new[5][m, n, k] = min(
                    max(0, -max(others, default=-np.inf)),
                    sum(max(0, other) for other in others) + evidence[m, n],
                )
        phi, psi, phi_hat, psi_hat, gamma_hat, gamma = new
        yield new


def _damped(old, new, damping):
    mixed = (1 - damping) * np.where(np.isinf(old), 0, old) + damping * new
    return np.where(np.isinf(new), new, mixed)


def _sum_of_log_odds(one, other):
    """one + other, where knowing that one of the two is 0 (−∞) decides."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        total = one + other
    return np.where(np.isnan(total), -np.inf, total)


def _positive_part(v):
    return np.maximum(v, 0)


def _softplus(v):
    return np.logaddexp(0, v)


def _max_sum_to_product(phi_hat, psi_hat):
    """Γ̂ = min(Φ̂ + Ψ̂, Φ̂, Ψ̂)."""
    return np.minimum(_sum_of_log_odds(phi_hat, psi_hat), np.minimum(phi_hat, psi_hat))


def _sum_product_to_product(phi_hat, psi_hat):
    """Γ̂ = Φ̂ + Ψ̂ − log(1 + e^Φ̂ + e^Ψ̂) = −log(e^−(Φ̂+Ψ̂) + e^−Ψ̂ + e^−Φ̂)."""
    both = _sum_of_log_odds(phi_hat, psi_hat)
    return -np.logaddexp(np.logaddexp(-both, -psi_hat), -phi_hat)


def _max_sum_or(L, others):
    """Γ_k = min{ (−max_{j≠k} Γ̂_j)₊ , Σ_{j≠k} (Γ̂_j)₊ + L }."""
    largest = others.max(axis=2, initial=-np.inf)
    return np.minimum(_positive_part(-largest), _positive_part(others).sum(axis=2) + L)


def _max_sum_xor(L, others):
    """Γ_k = sign(L)·Π_{j≠k} sign(−Γ̂_j)·min(|L|, min_{j≠k} |Γ̂_j|)."""
    sign = np.sign(L) * np.sign(-others).prod(axis=2)
    return sign * np.minimum(np.abs(L), np.abs(others).min(axis=2, initial=np.inf))


def _sum_product_or(L, others):
    """Γ_k = S + L − log(1 + e^L (e^S − 1)) = L − log(e^−S + e^L (1 − e^−S)), S = Σ_{j≠k} φ(Γ̂_j)."""
    S = _softplus(others).sum(axis=2)
    with np.errstate(divide="ignore"):  # S = 0: nobody else can make it a one
        log_somebody_else = np.log(-np.expm1(-S))
    return L - np.logaddexp(-S, L + log_somebody_else)


def _sum_product_xor(L, others):
    """Γ_k = 2 artanh( tanh(L/2) · Π_{j≠k} (−tanh(Γ̂_j/2)) ), one factor after the other."""
    gamma = L
    for j in range(others.shape[2]):
        gamma = _log_odds_of_xor(gamma, others[:, :, j])
    return gamma


def _log_odds_of_xor(one, other):
    """2 artanh(−tanh(u/2) tanh(v/2)) = log(e^u + e^v) − log(1 + e^(u+v)); v may be ±∞."""
    finite = np.where(np.isinf(other), 0, other)
    unsure = np.logaddexp(one, finite) - np.logaddexp(0, one + finite)
    return np.where(np.isinf(other), -np.sign(other) * one, unsure)


def _max_sum_to_variable(gamma, other):
    """Φ = (Γ + Ψ̂)₊ − (Ψ̂)₊, which is Γ where Ψ̂ = +∞."""
    finite = np.where(np.isposinf(other), 0, other)
    message = _positive_part(gamma + finite) - _positive_part(finite)
    return np.where(np.isposinf(other), gamma, message)


def _sum_product_to_variable(gamma, other):
    """Φ = φ(Γ + Ψ̂) − φ(Ψ̂), which is Γ where Ψ̂ = +∞."""
    finite = np.where(np.isposinf(other), 0, other)
    return np.where(np.isposinf(other), gamma, _softplus(gamma + finite) - _softplus(finite))


@dataclass(frozen=True)
class Rules:
    """The three kinds of factors of one semiring."""

    to_product: Callable  # Γ̂ from Φ̂, Ψ̂
    from_product: dict[str, Callable]  # Γ_k from L and the other Γ̂_j
    to_variable: Callable  # Φ from Γ, Ψ̂; Ψ from Γ, Φ̂


MAX_SUM = Rules(_max_sum_to_product, {"or": _max_sum_or, "xor": _max_sum_xor}, _max_sum_to_variable)
SUM_PRODUCT = Rules(
    _sum_product_to_product,
    {"or": _sum_product_or, "xor": _sum_product_xor},
    _sum_product_to_variable,
)


# ---------------------------------------------------------------- enumeration

MOST_UNKNOWN_BITS = 18


@dataclass
class Exact:
    """What enumeration says: log-odds of every bit, and the best factors.

    ±∞ where a bit can have one value only; NaN where all factors are impossible.
    """

    row_max: np.ndarray  # max-marginals of x (M, K)
    column_max: np.ndarray  # max-marginals of y (K, N)
    row_marginal: np.ndarray  # marginals of x (M, K)
    column_marginal: np.ndarray  # marginals of y (K, N)
    best: float  # max over (X, Y) of log p(X) + log p(Y) + log p(O | X • Y)


def likelihood(
    seen, one_given_zero, one_given_one, missing_given_zero=None, missing_given_one=None
):
    """Array p(o|z) of shape (2, M, N), z first, of a matrix of 0, 1 and NaN."""
    given = []
    for one, missing in (
        (one_given_zero, missing_given_zero),
        (one_given_one, missing_given_one),
    ):
        one = np.broadcast_to(one, seen.shape)
        if missing is None:  # then a missing entry says nothing
            given.append(np.select([seen == 1, seen == 0], [one, 1 - one], 1.0))
        else:
            missing = np.broadcast_to(missing, seen.shape)
            zero = np.maximum(1 - one - missing, 0)
            given.append(np.select([seen == 1, seen == 0], [one, zero], missing))
    return np.array(given)


def boolean_product_by_definition(X, Y, product):
    """Z (..., M, N) of X (..., M, K) and Y (..., K, N)."""
    terms = X[..., :, :, None] & Y[..., None, :, :]  # (..., M, K, N)
    return np.bitwise_or.reduce(terms, axis=-2) if product == "or" else terms.sum(axis=-2) % 2


def log_probability(X, Y, row_prior, column_prior, given, product):
    """Log p(X) + log p(Y) + log p(O | X • Y), for stacks of X (..., M, K) and Y (..., K, N).

    row_prior (M, K) and column_prior (K, N) are probabilities, given p(o|z) is (2, M, N).
    """
    with np.errstate(divide="ignore"):
        log_x = np.log([1 - row_prior, row_prior])
        log_y = np.log([1 - column_prior, column_prior])
        log_o = np.log(given)
    Z = boolean_product_by_definition(X, Y, product)
    total = 0.0
    for logs, bits in ((log_x, X), (log_y, Y), (log_o, Z)):
        total = total + np.where(bits == 1, logs[1], logs[0]).sum(axis=(-2, -1))
    return total


def enumerate_exactly(row_prior, column_prior, given, product="or") -> Exact:
    """Try all factors that the priors allow; arguments as in `log_probability`."""
    (M, K), N = row_prior.shape, column_prior.shape[1]
    prior = np.concatenate([row_prior.ravel(), column_prior.ravel()])
    unknown = np.flatnonzero((prior > 0) & (prior < 1))
    assert len(unknown) <= MOST_UNKNOWN_BITS, "too many to enumerate"
    bits = np.tile((prior == 1).astype(np.uint8), (2 ** len(unknown), 1))
    bits[:, unknown] = (np.arange(len(bits))[:, None] >> np.arange(len(unknown))) & 1
    X = bits[:, : M * K].reshape(-1, M, K)
    Y = bits[:, M * K :].reshape(-1, K, N)
    logs = log_probability(X, Y, row_prior, column_prior, given, product)
    odds = {}
    for name, reduce in (("max", _log_max), ("marginal", _log_sum)):
        with np.errstate(invalid="ignore"):  # −∞ − (−∞): impossible either way
            flat = np.array([reduce(logs[one == 1]) - reduce(logs[one == 0]) for one in bits.T])
        odds[f"row_{name}"] = flat[: M * K].reshape(M, K)
        odds[f"column_{name}"] = flat[M * K :].reshape(K, N)
    return Exact(best=float(logs.max()), **odds)


def _log_max(logs):
    return logs.max(initial=-np.inf)


def _log_sum(logs):
    return np.logaddexp.reduce(logs) if len(logs) else -np.inf


# ---------------------------------------------------------------- all zeros of a row at once


def sent_by_zero(belief, strength, semiring):
    """h(v): what a zero that says −strength sends, given the cavity of the other variable."""
    if semiring == "max-sum":
        return np.maximum(belief - strength, 0) - np.maximum(belief, 0)
    return np.logaddexp(0, belief - strength) - np.logaddexp(0, belief)


def sums_of_zeros(rows, columns, is_zero, strength, semiring):
    """What all zeros send to every row and column: (M, K) and (K, N).

    rows Ξ (M, K); columns Υ (K, N); is_zero (M, N): which cells are zeros that are not listed.
    """
    told_by_row = sent_by_zero(rows, strength, semiring)  # Ψ = h(Ξ), to first order
    told_by_column = sent_by_zero(columns, strength, semiring)
    M, K = rows.shape
    to_rows, to_columns = np.zeros(rows.shape), np.zeros(columns.shape)
    for m in range(M):
        for k in range(K):
            own = sent_by_zero(columns[k] - told_by_row[m, k], strength, semiring)
            to_rows[m, k] = own[is_zero[m]].sum()
    for n in range(columns.shape[1]):
        for k in range(K):
            own = sent_by_zero(rows[:, k] - told_by_column[k, n], strength, semiring)
            to_columns[k, n] = own[is_zero[:, n]].sum()
    return to_rows, to_columns
