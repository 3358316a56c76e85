"""What all back ends have in common: floats, integers, threads, files, a cluster, zeros at once."""

from itertools import product as product_of

import numpy as np
import pytest
from fitted import local_client
from matrices import sparse_of
from reference import log_probability

from boolweave import BooleanMatrixFactorization, Channel, load
from boolweave.datasets import make_boolean
from boolweave.engine import backend as blocks
from boolweave.engine import loop
from boolweave.engine.backend import InitialBeliefs
from boolweave.engine.floats import FloatBackend
from boolweave.engine.integers import IntegerBackend
from boolweave.engine.zeros.backend import SparseBackend
from boolweave.fit import memory
from boolweave.model.model import Model
from boolweave.model.odds import log_odds
from boolweave.runtime.storage import Files

KINDS = ["floats", "integers", "threads", "files", "cluster", "implicit zeros"]
SHAPE = (60, 45)


@pytest.fixture(scope="module")
def client():
    with local_client() as client:
        yield client


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "MIN_BLOCK", 500)


@pytest.fixture(scope="module")
def planted():
    return make_boolean(*SHAPE, 3, flip=0.08, observed=0.8, random_state=2)


def pytest_generate_tests(metafunc):
    """Every kind of back end with both products; implicit zeros are treated at once for OR only."""
    values = {"kind": KINDS, "product": ["or", "xor"]}
    names = [name for name in values if name in metafunc.fixturenames]
    cases = [
        case
        for case in product_of(*(values[name] for name in names))
        if case != ("implicit zeros", "xor")
    ]
    if names:
        metafunc.parametrize(",".join(names), cases if len(names) > 1 else sum(cases, ()))


@pytest.fixture
def backend(kind, planted, request):
    seen = planted.observations
    if kind == "floats":
        return FloatBackend(seen)
    if kind == "implicit zeros":
        return SparseBackend(sparse_of(seen.to_dense()))
    if kind == "cluster":
        from boolweave.distributed.backend import ClusterBackends
        from boolweave.distributed.cluster import Cluster
        from boolweave.runtime.cluster import Watch
        from boolweave.runtime.storage import Memory

        backends = ClusterBackends(Cluster(Watch(request.getfixturevalue("client"))))
        backends.choose_store(seen, 3, max_memory=None, n_jobs=1)
        return backends.make(seen, True, None, Memory())
    return IntegerBackend(
        seen, 2 if kind == "threads" else None, Files(4) if kind == "files" else None
    )


def model_of(row_prior=0.5, column_prior=0.5, product="or"):
    return Model(3, Channel.symmetric(0.1), row_prior, column_prior, product)


# ---------------------------------------------------------------- the protocol


def test_without_messages_beliefs_are_the_priors_and_the_field(backend):
    problem = backend.problem(model_of(0.3, 0.6))
    nothing = backend.beliefs(problem, backend.start(problem))
    np.testing.assert_allclose(nothing.rows, np.full((60, 3), log_odds(0.3)), rtol=1e-5)
    np.testing.assert_allclose(nothing.columns, np.full((3, 45), log_odds(0.6)), rtol=1e-5)
    field = InitialBeliefs.random(SHAPE, 3, (2.0, 3.0), 1e-3, np.random.default_rng(0))
    found = backend.beliefs(problem, backend.start(problem, field))
    np.testing.assert_allclose(found.rows, nothing.rows + field.of_rows(slice(None)), atol=1e-5)
    np.testing.assert_allclose(found.columns, nothing.columns + field.of_columns(), atol=1e-5)


@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_beliefs_have_the_priors_of_the_problem_that_is_asked(backend, semiring, product):
    """The messages stay, the priors are others: none of the old ones is left in a state."""
    old, new = (backend.problem(model_of(p, q, product)) for p, q in ((0.5, 0.5), (0.1, 0.8)))
    state = backend.random_start(old, np.random.default_rng(1))
    if semiring == "sum-product":
        state = backend.to_sum_product(old, state)
    for _ in range(4):
        backend.step(old, state, 0.4)
    before, after = backend.beliefs(old, state), backend.beliefs(new, state)
    np.testing.assert_allclose(after.rows, before.rows + log_odds(0.1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(after.columns, before.columns + log_odds(0.8), rtol=1e-4, atol=1e-4)
    again = backend.beliefs(old, state)
    np.testing.assert_allclose(again.rows, before.rows, rtol=1e-6, atol=1e-6)


def test_the_log_posterior_is_that_of_the_decoded_factors(backend, planted, product):
    problem = backend.problem(model_of(0.3, 0.4, product))
    state = backend.random_start(problem, np.random.default_rng(0))
    for _ in range(5):
        backend.step(problem, state, 0.4)
        beliefs = backend.beliefs(problem, state)
        X, Y = (np.uint8(odds > 0) for odds in (beliefs.rows, beliefs.columns))
        seen = planted.observations.to_dense()
        given = np.where(np.isnan(seen), 1.0, np.where(np.stack([seen == 0, seen == 1]), 0.9, 0.1))
        priors = np.full((60, 3), 0.3), np.full((3, 45), 0.4)
        direct = log_probability(X, Y, *priors, given, product)
        assert backend.log_posterior(problem, state) == pytest.approx(direct, rel=1e-6)


def test_kept_beliefs_are_those_of_their_iterate(backend):
    problem = backend.problem(model_of())
    state = backend.random_start(problem, np.random.default_rng(0))
    backend.step(problem, state, 0.4)
    kept, expected = backend.keep_beliefs(problem, state, None), backend.beliefs(problem, state)
    expected = expected.rows.copy(), expected.columns.copy()
    backend.step(problem, state, 0.4)
    np.testing.assert_array_equal(kept.rows, expected[0])
    np.testing.assert_array_equal(kept.columns, expected[1])


def test_a_model_that_changed_is_given_its_iterations(backend, planted):
    """A run from settled messages with other priors does not say that it has converged at once."""
    problem = backend.problem(model_of())
    state = backend.random_start(problem, np.random.default_rng(0))
    first = loop.run(backend, problem, state, planted.observations, max_iter=150, tol=1e-2)
    other = backend.problem(model_of(0.01, 0.99))
    second = loop.run(backend, other, state, planted.observations, max_iter=150, tol=1e-2)
    assert second.n_iter >= loop.LEAST_ITERATIONS
    assert len(second.history["residual"]) == second.n_iter
    assert np.abs(second.row_log_odds - first.row_log_odds).max() > 1


def test_messages_can_become_floats(backend, kind):
    problem = backend.problem(model_of())
    state = backend.random_start(problem, np.random.default_rng(0))
    for _ in range(40):
        backend.step(problem, state, 0.4)
    state.field = None
    expected = backend.beliefs(problem, state)
    floats, posed, after = backend.to_floats(problem, state)
    found = floats.beliefs(posed, after)
    assert isinstance(floats, FloatBackend) or (kind == "implicit zeros" and floats is backend)
    assert after.n_iter == state.n_iter == 40
    np.testing.assert_allclose(found.rows, expected.rows, rtol=1e-3, atol=2e-2)
    np.testing.assert_allclose(found.columns, expected.columns, rtol=1e-3, atol=2e-2)


def test_messages_of_another_table_are_refused(backend, kind):
    other = make_boolean(30, 45, 3, observed=0.8, random_state=0).observations
    stranger = FloatBackend(other) if kind == "floats" else IntegerBackend(other)
    state = stranger.start(stranger.problem(model_of()))
    with pytest.raises(ValueError, match=r"other blocks|expected"):
        backend.check(backend.problem(model_of()), state)


# ---------------------------------------------------------------- through the estimator


def tight(how):
    """Memory for the factors, and for blocks of twenty entries."""
    learns = how["method"] != "max-sum"
    size = memory.FitSize(
        SHAPE, 0, 3, n_init=2, learns=learns, method=how["method"], product=how["product"]
    )
    return size.n_bytes + memory.LEAST_ROOM * 3 * 20


def estimator(kind, request, **parameters):
    how = {"n_components": 3, "random_state": 0, "n_init": 2, "max_iter": 80, **parameters}
    if kind == "cluster":
        from boolweave.distributed import DaskBooleanMatrixFactorization

        return DaskBooleanMatrixFactorization(client=request.getfixturevalue("client"), **how)
    own = {
        "floats": {"messages": "float32"},
        "integers": {},
        "threads": {"n_jobs": 2},
        "files": {"max_memory": tight(how)},
        "implicit zeros": {"zeros": "collective"},
    }
    return BooleanMatrixFactorization(**how, **own[kind])


@pytest.mark.parametrize("method", ["auto", "max-sum", "sum-product"])
def test_every_method_of_the_estimator(kind, method, product, request, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "SMALLEST_BLOCK", 16)
    zeros, in_files = Files.zeros, []
    monkeypatch.setattr(Files, "zeros", lambda *a: in_files.append(1) or zeros(*a))
    planted = make_boolean(*SHAPE, 3, product=product, flip=0.05, observed=0.8, random_state=4)
    model = estimator(kind, request, method=method, product=product)
    factors = model.fit_transform(planted.observations)
    assert factors.shape == (60, 3)
    assert bool(in_files) is (kind == "files")
    rows, columns = np.arange(45), np.arange(45)
    probabilities = model.predict_proba(rows, columns)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    latent = model.predict_proba(rows, columns, kind="latent")
    np.testing.assert_array_equal(model.predict(rows, columns), latent > 0.5)
    new = planted.observations.take_rows(np.arange(10))
    assert model.transform(new).shape == (10, 3)
    assert model.inverse_transform(model.transform(new)).shape == (10, 45)
    assert 0.5 < model.score(planted.observations) <= 1
    best = model.recommend([0, 1], n=2)
    table = planted.observations.to_dense()
    unseen = table != 1 if kind == "implicit zeros" else np.isnan(table)
    assert unseen[np.repeat([0, 1], 2), best.columns.ravel()].all()
    assert model.explain(0, 0) is not None
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(rows, columns), probabilities)
    if kind in ("threads", "files", "cluster"):
        one = estimator("integers", request, method=method, product=product)
        one.fit(planted.observations)
        if kind != "files" or method == "sum-product":  # max_memory rules floats at the end out
            np.testing.assert_array_equal(model.row_log_odds_, one.row_log_odds_)
            np.testing.assert_array_equal(model.column_log_odds_, one.column_log_odds_)
