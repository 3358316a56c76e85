"""Message passing on the Tanner graph: exact on trees, equal to its slow twin elsewhere."""

import numpy as np
import pytest
import scipy.sparse
from decoding_reference import enumerate_words, propagate_reference, random_tree
from hypothesis import given, settings
from hypothesis import strategies as st

from boolweave.decoding import batches, infer_factor, set_search, tanner
from boolweave.decoding.tanner import DecoderSettings, TannerGraph, propagate

PRODUCTS = ("or", "xor")
METHODS = ("max-sum", "sum-product")
SCHEDULES = ("flooding", "serial")


def log_ratio(above, below):
    """log(above / below) of probabilities, ±∞ where one is 0."""
    with np.errstate(divide="ignore"):
        return np.log(above) - np.log(below)


def random_problem(rng, matrix, product, certain=0.0):
    """Priors (n,) and evidence (checks, 2) that some word explains; a share of them is certain."""
    n_checks, n = matrix.shape
    prior = rng.random(n)
    hard = rng.random(n) < certain
    prior[hard] = rng.integers(0, 2, hard.sum())
    word = (rng.random(n) < prior).astype(int)
    z = matrix @ word
    z = (z > 0).astype(int) if product == "or" else z % 2
    evidence = rng.random((n_checks, 2))
    hard = rng.random(n_checks) < certain
    evidence[hard, 1 - z[hard]] = 0.0
    silent = rng.random(n_checks) < 0.1
    evidence[silent] = 1.0
    return prior, evidence


# ---------------------------------------------------------------- exactness


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("schedule", SCHEDULES)
@given(seed=st.integers(0, 10**6), certain=st.sampled_from([0.0, 0.3]))
@settings(max_examples=25)
def test_trees_are_exact(product, method, schedule, seed, certain):
    rng = np.random.default_rng(seed)
    matrix = random_tree(rng)
    prior, evidence = random_problem(rng, matrix, product, certain)
    by_sum, by_max = enumerate_words(matrix, prior, evidence, product)
    found = propagate(
        TannerGraph.from_matrix(matrix),
        log_ratio(prior, 1 - prior)[None],
        log_ratio(evidence[:, 1], evidence[:, 0])[None],
        DecoderSettings(product=product, method=method, schedule=schedule, max_iter=60, tol=0.0),
    )
    wanted = by_sum if method == "sum-product" else by_max
    # 32-bit floats; past ±20 a certain bit and a nearly certain one need not be told apart
    np.testing.assert_allclose(
        np.clip(found.log_odds[0], -20, 20), np.clip(wanted, -20, 20), atol=2e-4, rtol=1e-4
    )


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("damping", [1.0, 0.6])
@pytest.mark.parametrize("n_words", [1, 3, 9, 40])
def test_equal_to_the_slow_twin(product, method, schedule, damping, n_words):
    rng = np.random.default_rng(n_words)
    matrix = (rng.random((7, 12)) < 0.35).astype(np.uint8)
    matrix[3] = 0  # a check without variables
    prior = rng.normal(-1, 2, (n_words, 12))
    ratios = rng.normal(0, 3, (n_words, 7))
    scale = 0.8 if method == "max-sum" else 1.0
    found = propagate(
        TannerGraph.from_matrix(matrix), prior, ratios,
        DecoderSettings(product=product, method=method, schedule=schedule, damping=damping,
                        scale=scale, max_iter=6, tol=0.0),
    )  # fmt: skip
    for word in range(n_words):
        twin = propagate_reference(
            matrix, prior[word], ratios[word], product, method, schedule, damping, scale, 6
        )
        np.testing.assert_allclose(found.log_odds[word], twin, atol=2e-4, rtol=2e-4)
    np.testing.assert_array_equal(found.bits, found.log_odds > 0)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("on_checks", [False, True])
def test_neither_threads_nor_tiles_change_a_bit(monkeypatch, product, method, schedule, on_checks):
    rng = np.random.default_rng(0)
    graph = TannerGraph.from_matrix((rng.random((20, 50)) < 0.12).astype(np.uint8))
    prior = rng.normal(-2, 1.5, (70, 50))
    evidence = np.where(rng.random((70, 20)) < 0.2, 2.0, -2.0)
    how = DecoderSettings(
        product=product, method=method, schedule=schedule, max_iter=15, tol=0.05, damping=0.9,
        stop_on_checks=on_checks,
    )  # fmt: skip
    first = propagate(graph, prior, evidence, how, n_jobs=1)
    runs = [propagate(graph, prior, evidence, how, n_jobs=2)]
    for width in (1, 2, 8, 16):
        monkeypatch.setattr(tanner, "MAX_WIDTH", width)
        runs.append(propagate(graph, prior, evidence, how, n_jobs=3))
    for other in runs:
        for name in ("log_odds", "bits", "converged", "n_iter"):
            np.testing.assert_array_equal(getattr(first, name), getattr(other, name), err_msg=name)
    assert len(set(first.n_iter.tolist())) > 1  # words did come and go


def test_large_pools_neither_overflow_nor_stall():
    graph = TannerGraph.from_matrix(np.ones((2, 3000), dtype=np.uint8))
    for product in PRODUCTS:
        for method in METHODS:
            for level in (-30.0, -5.0, 0.0, 5.0, 300.0):
                found = propagate(
                    graph, np.full((1, 3000), level), np.array([[4.0, -np.inf]]),
                    DecoderSettings(product=product, method=method, max_iter=10, damping=0.5),
                )  # fmt: skip
                assert np.isfinite(found.log_odds).all(), (product, method, level)


# ---------------------------------------------------------------- parts


def test_exp_and_log_are_those_of_numpy():
    a = np.linspace(0, 80, 5001, dtype=np.float32)
    found = np.array([batches.exp_minus(x) for x in a])
    np.testing.assert_allclose(found, np.exp(-a.astype(float)), rtol=3e-7)
    x = np.exp(np.linspace(-85, 85, 5001)).astype(np.float32)
    found = np.array([batches.log_of(value) for value in x])
    np.testing.assert_allclose(found, np.log(x.astype(float)), rtol=3e-7, atol=2e-7)
    assert batches.log_of(np.float32(1)) == 0


def test_the_prior_breaks_ties():
    # One check of two bits, one says 0 and the other 1, equally loud: the beliefs are zero.
    found = propagate(
        TannerGraph.from_matrix([[1, 1]]), np.array([[2.0, -2.0]]), np.array([[-np.inf]]),
        DecoderSettings(product="xor", method="max-sum", max_iter=1),
    )  # fmt: skip
    np.testing.assert_array_equal(found.log_odds, [[0, 0]])
    np.testing.assert_array_equal(found.bits, [[1, 0]])


def test_words_leave_when_they_are_done():
    graph = TannerGraph.from_matrix([[1, 1, 1]])
    prior = np.array([[-1.0, -1, -1], [1, -3, -2], [-1, 0, 0]])
    how = DecoderSettings(product="xor", method="max-sum", max_iter=5, stop_on_checks=True)
    found = propagate(graph, prior, np.array([[-np.inf]]), how)
    np.testing.assert_array_equal(found.n_iter, [0, 1, 5])
    np.testing.assert_array_equal(found.converged, [True, True, False])


def test_the_set_search_finds_the_best_set():
    rng = np.random.default_rng(3)
    for _ in range(20):
        matrix = (rng.random((8, 9)) < 0.35).astype(np.uint8)
        odds, evidence = rng.normal(-2, 1, 9), rng.normal(0, 3, 8)
        graph = TannerGraph.from_matrix(matrix)
        posterior = set_search.Posterior(
            graph, graph.transposed(), odds, evidence, np.ones(9, dtype=bool)
        )
        chosen = np.zeros(9, np.uint8)
        score = set_search.improve_set(posterior, chosen, 10)

        def score_of(x, matrix=matrix, odds=odds, evidence=evidence):
            return odds @ x + evidence @ (matrix @ x > 0)

        assert score == pytest.approx(score_of(chosen))
        for i in range(9):  # no single change is better
            other = chosen.copy()
            other[i] ^= 1
            assert score_of(other) <= score + 1e-6
            for j in range(9):  # nor an exchange
                if chosen[i] and not chosen[j]:
                    exchanged = other.copy()
                    exchanged[j] = 1
                    assert score_of(exchanged) <= score + 1e-6


# ---------------------------------------------------------------- input


def test_matrices_in_any_form():
    dense = np.array([[1, 0, 1], [0, 1, 1]])
    sparse = scipy.sparse
    for form in (
        dense, dense.astype(bool), dense.tolist(), sparse.csc_matrix(dense),
        sparse.coo_array(dense), sparse.csr_array(dense.astype(float)),
    ):  # fmt: skip
        graph = TannerGraph.from_matrix(form)
        np.testing.assert_array_equal(graph.to_sparse().toarray(), dense)
    assert graph.n_checks == 2 and graph.n_edges == 4
    np.testing.assert_array_equal(graph.degrees, [2, 2])
    np.testing.assert_array_equal(graph.transposed().to_sparse().toarray(), dense.T)


@pytest.mark.parametrize(
    ("matrix", "error", "says"),
    [
        ([[2, 0]], ValueError, "only 0 and 1"),
        ([1, 0], ValueError, "2 dimensions"),
        ([["a"]], TypeError, "0 and 1"),
        (scipy.sparse.csr_array([[0.5, 1.0]]), ValueError, "only 0 and 1"),
        (scipy.sparse.csr_array([[1j, 1]]), TypeError, "0 and 1"),
        (scipy.sparse.coo_array(([1, 1], ([0, 0], [1, 1])), (1, 2)), ValueError, "listed twice"),
        (np.zeros((0, 3), dtype=int), ValueError, "at least one row"),
    ],
)
def test_bad_matrices(matrix, error, says):
    with pytest.raises(error, match=says):
        TannerGraph.from_matrix(matrix)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"method": "guess"}, "max-sum"),
        ({"schedule": "random"}, "serial"),
        ({"damping": 0}, "damping"),
        ({"damping": 1.5}, "damping"),
        ({"scale": float("nan")}, "scale"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 2.5}, "max_iter"),
        ({"tol": -1}, "tol"),
    ],
)
def test_bad_settings(option, says):
    with pytest.raises(ValueError, match=says):
        DecoderSettings(**option)


# ---------------------------------------------------------------- the general case


def test_a_low_density_generator_code():
    rng = np.random.default_rng(1)
    k, n_words = 60, 20
    X = np.vstack([np.eye(k), np.eye(k), (rng.random((120, k)) < 3 / k)]).astype(np.uint8)
    Y = rng.integers(0, 2, (k, n_words))
    Z = X @ Y % 2
    seen = np.where(rng.random(Z.shape) < 0.04, 1 - Z, Z).astype(float)
    seen[rng.random(Z.shape) < 0.1] = np.nan
    found = infer_factor(X, seen, noise=0.04)
    plain = seen[:k]  # the systematic part as it came
    assert (found.bits != Y).mean() < 0.3 * (plain != Y).mean()
    assert found.probabilities.shape == (k, n_words)
    one = infer_factor(scipy.sparse.csr_array(X), seen[:, 0], noise=0.04)
    np.testing.assert_array_equal(one.bits[:, 0], found.bits[:, 0])


def test_infer_factor_equals_enumeration_with_or_and_known_entries():
    X = np.array([[1, 1, 0], [0, 1, 1]])
    prior = np.array([[0.2], [0.0], [1.0]])
    found = infer_factor(X, [1, 1], noise=0.1, prior=prior, product="or")
    np.testing.assert_allclose(found.probabilities[:, 0], [0.9 * 0.2 / (0.18 + 0.08), 0, 1])
    assert found.log_odds[1, 0] == -np.inf and found.log_odds[2, 0] == np.inf


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"observed": [1, 0, 1]}, "a row for each of the 2 rows"),
        ({"prior": 1.2}, "between 0 and 1"),
        ({"prior": np.full((2, 1), 0.5)}, "broadcast"),
        ({"product": "and"}, "product"),
        ({"noise": 2.0}, "between 0 and 1"),
        ({"observed": [2, 0]}, "2"),
    ],
)
def test_infer_factor_bad_input(change, says):
    given = {"X": [[1, 1, 0], [0, 1, 1]], "observed": [1, 0]} | change
    with pytest.raises(ValueError, match=says):
        infer_factor(**given)
