"""The draws of lines: against quadrature, against Newton's method in NumPy, on any cut of lines."""

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from boolweave.completion.kernels.channels import evidence_of, log_normal_table
from boolweave.completion.kernels.drawing import (
    Draws,
    Link,
    Mixed,
    Prior,
    draw_lines,
    entry_means,
    lines_of,
    slope_table,
)
from boolweave.completion.kernels.random import normal, seeded, uniform

BINARY = np.array([-np.inf, 0.0, np.inf])
ORDINAL = np.array([-np.inf, -0.7, 0.0, 0.9, np.inf])


@pytest.fixture(autouse=True)
def numbers_wrap_around():
    """As plain Python, where NumPy would warn of what is meant: whole numbers modulo 2⁶⁴."""
    with np.errstate(over="ignore"):
        yield


def link_of(cuts):
    return Link(cuts, slope_table(), log_normal_table())


def problem(rng, n_lines, n_other, n_parameters, n_levels=2, share=0.6):
    """Random entries of lines, their prior and the parameters of the lines that cross them."""
    seen = rng.random((n_lines, n_other)) < share
    line, other = np.nonzero(seen)
    indptr = np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64)
    level = rng.integers(0, n_levels, len(line)).astype(np.uint8)
    place = rng.permutation(len(line)).astype(np.int64)
    lines = lines_of(indptr, other.astype(np.int32), level, place)
    prior = Prior(rng.normal(size=(n_lines, n_parameters)) * 0.3, rng.uniform(0.3, 2, n_parameters))
    return lines, prior, rng.normal(size=(n_other, n_parameters))


def log_posterior(lines, cuts, mixed, weights, prior, line, at, other):
    """Straight from the formula."""
    total = -0.5 * np.sum((at - prior.mean[line]) ** 2 / prior.variance)
    for e in range(lines.indptr[line], lines.indptr[line + 1]):
        mean = at[:-1] @ other[lines.other[e], :-1] + at[-1] + other[lines.other[e], -1]
        deviation = 1.0
        if mixed is not None:
            mean += mixed.shift[lines.place[e]]
            deviation = np.sqrt(1 + mixed.variance[lines.place[e]])
        low, high = ((cuts[lines.level[e] + i] - mean) / deviation for i in (0, 1))
        log = np.log(ndtr(high) - ndtr(low))
        total += log if weights is None else log * weights[lines.place[e]]
    return total


@pytest.mark.parametrize("cuts", [BINARY, ORDINAL], ids=["bits", "levels"])
@pytest.mark.parametrize("extra", [False, True], ids=["plain", "mixed and weighted"])
def test_draws_have_the_distribution_of_the_posterior(cuts, extra):
    """One parameter, so that the posterior can be added up on a grid."""
    rng = np.random.default_rng(1)
    lines, prior, other = problem(rng, 1, 8, 1, len(cuts) - 1)
    n = len(lines.other)
    mixed = Mixed(rng.normal(size=n).astype(np.float32), rng.random(n).astype(np.float32))
    weights = rng.integers(1, 3, n).astype(np.float64)
    mixed, weights = (mixed, weights) if extra else (None, None)
    grid = np.linspace(-6, 6, 2001)
    logs = [
        log_posterior(lines, cuts, mixed, weights, prior, 0, np.array([x]), other) for x in grid
    ]
    density = np.exp(logs - np.max(logs))
    density /= density.sum()
    expected = density @ grid
    deviation = np.sqrt(density @ (grid - expected) ** 2)
    own = Draws(np.zeros((1, 1)), np.zeros((1, 1)))
    drawn = []
    n_draws = 400 if not hasattr(draw_lines, "signatures") else 20_000
    for seed in range(n_draws):
        draw_lines(lines, link_of(cuts), mixed, weights, prior, own, other, seed, 0, 1)
        drawn.append(own.draw[0, 0])
    error = 4 * deviation / np.sqrt(n_draws)
    assert abs(np.mean(drawn) - expected) < error
    assert abs(np.std(drawn) - deviation) < error
    if n_draws > 1000:  # the whole distribution
        shares = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
        quantiles = np.interp(shares, np.cumsum(density), grid)
        found = [np.mean(np.array(drawn) < q) for q in quantiles]
        np.testing.assert_allclose(found, shares, atol=0.02)


@pytest.mark.parametrize("cuts", [BINARY, ORDINAL], ids=["bits", "levels"])
def test_centers_go_to_the_maximum(cuts):
    from scipy.optimize import minimize

    rng = np.random.default_rng(2)
    lines, prior, other = problem(rng, 3, 9, 3, len(cuts) - 1)
    own = Draws(np.zeros((3, 3)), np.zeros((3, 3)))
    for seed in range(8):
        draw_lines(lines, link_of(cuts), None, None, prior, own, other, seed, 0, 3)
    for line in range(3):
        best = minimize(
            lambda at, line=line: -log_posterior(lines, cuts, None, None, prior, line, at, other),
            np.zeros(3),
        ).x
        np.testing.assert_allclose(own.center[line], best, atol=2e-3)


def test_cuts_of_the_lines_do_not_matter():
    rng = np.random.default_rng(3)
    lines, prior, other = problem(rng, 10, 8, 3)
    whole, parts = (Draws(np.zeros((10, 3)), np.zeros((10, 3))) for _ in range(2))
    for seed in range(3):
        draw_lines(lines, link_of(BINARY), None, None, prior, whole, other, seed, 0, 10)
        for first, last in ((6, 10), (0, 1), (1, 6)):
            draw_lines(lines, link_of(BINARY), None, None, prior, parts, other, seed, first, last)
    np.testing.assert_array_equal(whole.draw, parts.draw)
    np.testing.assert_array_equal(whole.center, parts.center)


def test_lines_without_entries_are_drawn_from_the_prior():
    n = 20_000
    none = np.zeros(0, np.int64)
    lines = lines_of(np.zeros(n + 1, np.int64), none.astype(np.int32), none.astype(np.uint8), none)
    own = Draws(np.full((n, 2), 7.0), np.full((n, 2), 7.0))
    prior = Prior(np.tile([1.0, -2.0], (n, 1)), np.array([0.25, 4.0]))
    draw_lines(lines, link_of(BINARY), None, None, prior, own, np.zeros((1, 2)), 0, 0, n)
    np.testing.assert_allclose(own.center, prior.mean, atol=1e-9)
    # tolerances of some five standard errors
    np.testing.assert_allclose(own.draw.mean(axis=0), [1.0, -2.0], atol=0.07)
    np.testing.assert_allclose(own.draw.var(axis=0), [0.25, 4.0], rtol=0.05)


def test_entry_means():
    rng = np.random.default_rng(4)
    lines, _, other = problem(rng, 5, 6, 3)
    own, out = rng.normal(size=(5, 3)), np.empty(len(lines.other))
    entry_means(lines, own, other, out)
    row = np.repeat(np.arange(5), np.diff(lines.indptr))
    u, v = own[row], other[lines.other]
    np.testing.assert_allclose(out, (u[:, :-1] * v[:, :-1]).sum(axis=1) + u[:, -1] + v[:, -1])


@pytest.mark.parametrize("cuts", [BINARY, ORDINAL], ids=["bits", "levels"])
def test_evidence_of_a_layer(cuts):
    rng = np.random.default_rng(5)
    n, strength = 200, 0.8
    mean, variance = rng.normal(size=n) * 1.5, rng.random(n) * 2
    levels = rng.integers(0, len(cuts) - 1, n).astype(np.uint8)
    out = np.empty(n)
    evidence_of(mean, variance, levels, cuts, strength, log_normal_table(), 12.0, out)
    deviation = np.sqrt(1 + variance)
    logs = []
    for s in (mean + strength, mean - strength):
        low, high = (cuts[levels] - s) / deviation, (cuts[levels + 1] - s) / deviation
        flipped = low > 0  # differences of small numbers, not of numbers next to 1
        low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
        logs.append(log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high))))
    expected = np.clip(logs[0] - logs[1], -12, 12)
    np.testing.assert_allclose(out, expected, atol=2e-3)


def test_random_numbers():
    state = seeded(7, 0)
    uniforms, normals = [], []
    for _ in range(4000):
        state, u = uniform(np.uint64(state))
        state, x = normal(np.uint64(state))
        uniforms.append(u)
        normals.append(x)
    assert min(uniforms) > 0 and max(uniforms) < 1
    assert abs(np.mean(uniforms) - 0.5) < 0.02 and abs(np.std(uniforms) - 12**-0.5) < 0.02
    assert abs(np.mean(normals)) < 0.07 and abs(np.std(normals) - 1) < 0.05
    states = {int(seeded(seed, line)) for seed in range(40) for line in range(40)}
    assert len(states) > 1590  # all different, but for the last bit, which is always 1
