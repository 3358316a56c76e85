"""The kernel of new rows against its slow twin, and against exact answers where there are any."""

from itertools import product

import numpy as np
import pytest
from folding_reference import Row, log_likelihood
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from boolweave.completion.chain import BINARY_CUTS, LOGS, SLOPES
from boolweave.completion.kernels.drawing import Link, Prior, lines_of
from boolweave.completion.kernels.folding import FixedColumns, FoldedRows, fold_rows

LEVELS = np.array([-np.inf, -0.6, 0.1, 0.9, np.inf])
SHIFTED = np.array([-np.inf, 0.4, np.inf])


def make_fixed(random, N, D, L, K, certain=False):
    chance = random.uniform(size=(N, L, K))
    if certain:
        chance = np.round(chance)
    return FixedColumns(
        random.normal(size=(N, D)).astype(np.float32),
        random.gamma(1.0, 0.0 if certain else 0.2, size=(N, D)).astype(np.float32),
        chance.astype(np.float32),
        random.uniform(0.3, 1.0, size=L) * (-1.0) ** np.arange(L),
    )


def make_lines(random, counts, N, n_levels):
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    other = np.concatenate(
        [np.sort(random.choice(N, n, replace=False)) for n in counts] or [[]]
    ).astype(np.int32)
    level = random.integers(0, n_levels, len(other)).astype(np.uint8)
    return lines_of(indptr, other, level, np.arange(len(other)))


def folded(lines, cuts, prior, factor_prior, fixed, n_rounds):
    R, D = prior.mean.shape
    out = FoldedRows(
        np.full((R, D), np.nan), np.full((R, D), np.nan), np.full((R, *factor_prior.shape), np.nan)
    )
    fold_rows(lines, Link(cuts, SLOPES, LOGS), prior, factor_prior, fixed, n_rounds, out)
    return out


@pytest.mark.parametrize("cuts", [BINARY_CUTS, SHIFTED, LEVELS], ids=["bits", "shifted", "levels"])
@given(
    seed=st.integers(0, 10**6), D=st.integers(1, 3), L=st.integers(0, 2), K=st.integers(1, 3),
    n_rounds=st.integers(1, 4),
)  # fmt: skip
@settings(max_examples=12)
def test_against_the_slow_twin(cuts, seed, D, L, K, n_rounds):
    random = np.random.default_rng(seed)
    N, counts = 12, [0, 1, *random.integers(2, 10, 2)]
    fixed = make_fixed(random, N, D, L, K)
    lines = make_lines(random, counts, N, len(cuts) - 1)
    prior = Prior(0.5 * random.normal(size=(4, D)), random.uniform(0.2, 1.0, D))
    factor_prior = logit(random.uniform(0.1, 0.9, (L, K)))
    out = folded(lines, cuts, prior, factor_prior, fixed, n_rounds)
    for line in range(len(counts)):
        own = slice(*lines.indptr[[line, line + 1]])
        row = Row(
            lines.other[own], lines.level[own], cuts, prior.mean[line], prior.variance,
            factor_prior, fixed,
        ).fold(n_rounds)  # fmt: skip
        np.testing.assert_allclose(out.lines[line], row.at, atol=3e-3)
        np.testing.assert_allclose(out.variance[line], row.variance, atol=3e-3)
        np.testing.assert_allclose(out.factors[line], row.belief, atol=1e-2)


def test_a_row_without_entries_keeps_its_priors():
    random = np.random.default_rng(0)
    fixed = make_fixed(random, 5, 3, 2, 2)
    prior = Prior(random.normal(size=(2, 3)), random.uniform(0.2, 1.0, 3))
    factor_prior = random.normal(size=(2, 2))
    out = folded(make_lines(random, [0, 0], 5, 2), BINARY_CUTS, prior, factor_prior, fixed, 3)
    np.testing.assert_allclose(out.lines, prior.mean, atol=1e-12)
    np.testing.assert_allclose(out.variance, np.tile(prior.variance, (2, 1)), atol=1e-12)
    np.testing.assert_array_equal(out.factors, np.tile(factor_prior, (2, 1, 1)))


@pytest.mark.parametrize("cuts", [BINARY_CUTS, LEVELS], ids=["bits", "levels"])
def test_the_most_probable_line(cuts):
    """Without layers and with certain columns, the maximum of the posterior."""
    random = np.random.default_rng(1)
    fixed = make_fixed(random, 30, 3, 0, 0, certain=True)
    lines = make_lines(random, [25], 30, len(cuts) - 1)
    prior = Prior(random.normal(size=(1, 3)), np.array([0.5, 1.0, 0.7]))

    def loss(at):
        total = 0.5 * np.sum((at - prior.mean[0]) ** 2 / prior.variance)
        for n, level in zip(lines.other, lines.level, strict=True):
            v = fixed.lines[n].astype(float)
            total -= log_likelihood(level, at[:-1] @ v[:-1] + at[-1] + v[-1], 0.0, cuts)
        return total

    expected = minimize(loss, prior.mean[0], tol=1e-10).x
    out = folded(lines, cuts, prior, np.empty((0, 0)), fixed, 6)
    np.testing.assert_allclose(out.lines[0], expected, atol=2e-3)


@pytest.mark.parametrize(("n_entries", "K"), [(1, 3), (9, 1)])
def test_exact_marginals_where_the_graph_is_a_tree(n_entries, K):
    """One entry, or one factor, and a line that is known: all values of the factors are tried."""
    random = np.random.default_rng(2)
    fixed = make_fixed(random, 9, 2, 1, K)
    fixed.variance[:] = 0
    lines = make_lines(random, [n_entries], 9, 2)
    prior = Prior(random.normal(size=(1, 2)), np.full(2, 1e-12))
    factor_prior = random.normal(size=(1, K))
    out = folded(lines, BINARY_CUTS, prior, factor_prior, fixed, 3)
    total, ones = 0.0, np.zeros(K)
    for bits in product((0, 1), repeat=K):
        x = np.array(bits)
        weight = np.prod(np.where(x, expit(factor_prior[0]), expit(-factor_prior[0])))
        for n, level in zip(lines.other, lines.level, strict=True):
            v = fixed.lines[n].astype(float)
            mean = prior.mean[0, 0] * v[0] + prior.mean[0, 1] + v[1]
            away = np.prod(1 - x * fixed.chance[n, 0].astype(float))
            zero, one = (
                np.exp(log_likelihood(level, mean + d, 0.0, BINARY_CUTS))
                for d in (-fixed.strength[0], fixed.strength[0])
            )
            weight *= away * zero + (1 - away) * one
        total += weight
        ones += weight * x
    np.testing.assert_allclose(out.factors[0, 0], logit(ones / total), atol=2e-3)


def test_many_entries_that_agree():
    """Beliefs are sums of logarithms: they neither overflow nor end in NaN."""
    N = 3000
    fixed = FixedColumns(
        np.zeros((N, 1), np.float32), np.zeros((N, 1), np.float32),
        np.tile(np.float32([1, 0]), (N, 1, 1)), np.array([3.0]),
    )  # fmt: skip
    lines = lines_of(
        np.array([0, N]), np.arange(N, dtype=np.int32), np.ones(N, np.uint8), np.arange(N)
    )
    prior = Prior(np.zeros((1, 1)), np.array([1e-6]))
    out = folded(lines, BINARY_CUTS, prior, np.zeros((1, 2)), fixed, 3)
    assert np.isfinite(out.lines).all() and np.isfinite(out.factors).all()
    assert out.factors[0, 0, 0] > 1000
    assert out.factors[0, 0, 1] == pytest.approx(0.0, abs=1e-9)
