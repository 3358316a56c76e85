"""From one run to an answer: learn, restarts, decimation, fall-back, Ctrl-C."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from crashing import Noting

from boolweave import BooleanMatrixFactorization, Channel
from boolweave.datasets import make_boolean
from boolweave.engine import backend
from boolweave.fit import learn, stages
from boolweave.fit.learn import UninformativeWarning, fit
from boolweave.fit.settings import PAPER_FLIP, PAPER_PRIOR, Settings
from boolweave.fit.stages import LEAST_DENSITY, channel_from_counts, density
from boolweave.metrics import match_factors
from boolweave.runtime.run import Run


def error(model, planted):
    rows, columns = (index.ravel() for index in np.indices(planted.Z.shape))
    return float(np.mean(model.predict(rows, columns) != planted.Z.ravel()))


@pytest.fixture(scope="module")
def planted():
    return make_boolean(100, 110, 3, flip=0.08, random_state=5)


def generator(seed=0):
    return np.random.default_rng(seed)


# ---------------------------------------------------------------- the channel


@pytest.mark.parametrize("flip", [0.02, 0.2, (0.01, 0.15), (0.2, 0.03)])
def test_flips_are_learned(flip):
    problem = make_boolean(150, 150, 3, flip=flip, random_state=1)
    model = BooleanMatrixFactorization(3, random_state=0).fit(problem.observations)
    zero_to_one, one_to_zero = np.broadcast_to(flip, 2)
    assert float(model.noise_.one_given_zero) == pytest.approx(zero_to_one, abs=0.006)
    assert 1 - float(model.noise_.one_given_one) == pytest.approx(one_to_zero, abs=0.006)
    assert error(model, problem) < 0.005


def test_noiseless_data_teach_nearly_no_noise_but_never_certainty():
    problem = make_boolean(80, 80, 2, random_state=0)
    model = BooleanMatrixFactorization(2, random_state=0).fit(problem.observations)
    for flip in (float(model.noise_.one_given_zero), 1 - float(model.noise_.one_given_one)):
        assert 0 < flip < 0.002


def test_a_learned_channel_always_prefers_the_truth():
    """Even where the counts say the opposite: a channel that lies would swap zeros and ones."""
    backwards = channel_from_counts([[2, 40], [50, 1]])
    assert float(backwards.one_given_one) > float(backwards.one_given_zero)
    empty = channel_from_counts([[0, 0], [0, 0]])
    assert 0 < float(empty.one_given_zero) < float(empty.one_given_one) < 1


# ---------------------------------------------------------------- densities


def test_densities_are_learned():
    problem = make_boolean(
        200, 150, 4, row_density=0.15, column_density=0.5, flip=0.02, random_state=2
    )
    model = BooleanMatrixFactorization(4, random_state=0).fit(problem.observations)
    assert np.mean(model.row_prior_) == pytest.approx(problem.X.mean(), abs=0.02)
    assert np.mean(model.column_prior_) == pytest.approx(problem.Y.mean(), abs=0.03)


def test_one_density_where_all_are_alike():
    p = generator().random((300, 5)) < 0.3
    found = density(p.astype(float))
    assert found.shape == (1, 1)
    assert found[0, 0] == pytest.approx(0.3, abs=0.03)


def test_a_density_per_factor_where_factors_differ():
    true = np.array([0.05, 0.3, 0.7, 0.9])
    found = density((generator().random((300, 4)) < true).astype(float))
    assert found.shape == (1, 4)
    np.testing.assert_allclose(found[0], true, atol=0.06)


def test_a_density_per_row_where_rows_differ():
    true = np.where(np.arange(60) % 2, 0.05, 0.95)[:, None]
    found = density((generator().random((60, 30)) < true).astype(float))
    assert found.shape == (60, 1)
    np.testing.assert_allclose(found, true, atol=0.2)


def test_densities_are_never_certain():
    for value in (0.0, 1.0):
        found = density(np.full((5000, 3), value))
        assert (found >= LEAST_DENSITY).all()
        assert (found <= 1 - LEAST_DENSITY).all()
    assert density(np.zeros((0, 3))).shape == (1, 1)


def test_unequal_factors_get_priors_of_their_own():
    rng = generator(3)
    X = rng.random((250, 3)) < [0.05, 0.3, 0.7]
    Y = rng.random((3, 250)) < 0.4
    Z = (X.astype(int) @ Y.astype(int)) > 0
    model = BooleanMatrixFactorization(3, random_state=0).fit(Z ^ (rng.random(Z.shape) < 0.03))
    assert model.row_prior_.shape == (1, 3)
    order = match_factors(X, Y, model.row_log_odds_ > 0, model.components_).permutation
    np.testing.assert_allclose(model.row_prior_[0][order], X.mean(axis=0), atol=0.04)


# ---------------------------------------------------------------- methods


NOISES = {"learn": "learn", "number": 0.08, "channel": Channel(0.07, 0.92)}


@pytest.mark.parametrize("method", ["auto", "sum-product", "max-sum"])
@pytest.mark.parametrize("noise", list(NOISES))
@pytest.mark.parametrize("prior", ["learn", 0.4])
def test_every_method_with_learned_and_with_given_parameters(planted, method, noise, prior):
    model = BooleanMatrixFactorization(
        3, method=method, noise=NOISES[noise], row_prior=prior, column_prior=prior,
        n_init=3, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(planted.observations)
    assert error(model, planted) < 0.01
    if noise == "learn":
        assert float(model.noise_.one_given_zero) == pytest.approx(0.08, abs=0.015)
    elif noise == "channel":
        assert model.noise_ is NOISES[noise]
    else:
        assert float(model.noise_.one_given_zero) == 0.08
    if prior == 0.4:
        assert float(model.row_prior_) == float(model.column_prior_) == 0.4
    else:
        assert np.mean(model.row_prior_) == pytest.approx(planted.X.mean(), abs=0.03)


def test_what_is_left_out_is_learned_but_for_max_sum(planted):
    model = BooleanMatrixFactorization(3, random_state=0).fit(planted.observations)
    assert model.marginal_
    paper = BooleanMatrixFactorization(3, method="max-sum", random_state=0)
    paper.fit(planted.observations)
    assert not paper.marginal_
    assert float(paper.noise_.one_given_zero) == PAPER_FLIP
    assert float(paper.row_prior_) == PAPER_PRIOR


def test_marginals_are_calibrated():
    """Of the entries said to be ones with probability p, about the share p are."""
    problem = make_boolean(200, 200, 5, flip=0.25, observed=0.3, random_state=4)
    model = BooleanMatrixFactorization(5, random_state=0).fit(problem.observations)
    rows, columns = (index.ravel() for index in np.indices(problem.Z.shape))
    p = model.predict_proba(rows, columns, kind="latent")
    truth = problem.Z.ravel()
    for low, high in ((0.0, 0.1), (0.1, 0.4), (0.6, 0.9), (0.9, 1.01)):
        here = (p >= low) & (p < high)
        assert truth[here].mean() == pytest.approx(p[here].mean(), abs=0.12)


def test_a_channel_of_its_own_for_every_entry(planted):
    """Every second column is noisy, and the channel says so: the others do not suffer from it."""
    flip = np.where(np.arange(110) % 2, 0.42, 0.1) * np.ones((100, 1))
    seen = planted.Z ^ (generator(7).random(planted.Z.shape) < flip)
    model = BooleanMatrixFactorization(3, noise=Channel.symmetric(flip), random_state=0).fit(seen)
    assert np.mean(model.predict(*every_second(planted)) != planted.Z[:, ::2].ravel()) < 0.01
    assert error(model, planted) < 0.12
    assert np.shape(model.noise_.one_given_zero) == (100, 110)
    assert np.mean(model.row_prior_) == pytest.approx(planted.X.mean(), abs=0.05)


def every_second(planted):
    """Pairs of all rows and every second column."""
    rows, columns = np.indices(planted.Z.shape)
    return rows[:, ::2].ravel(), columns[:, ::2].ravel()


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "max-sum"},
        {"method": "sum-product"},
        {"method": "sum-product", "decimation": 0.3},
        {"method": "auto"},
        {"method": "auto", "decimation": 0.3},
    ],
)
def test_known_entries_stay_as_they_are(product, options):
    problem = make_boolean(30, 25, 2, product=product, flip=0.1, random_state=0)
    rng = generator(1)
    rows = np.where(rng.random((30, 2)) < 0.3, rng.integers(0, 2, (30, 2)), 0.4)
    columns = np.where(rng.random((2, 25)) < 0.3, rng.integers(0, 2, (2, 25)), 0.4)
    model = BooleanMatrixFactorization(
        2, product=product, row_prior=rows, column_prior=columns, random_state=0, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(problem.observations)
    for odds, prior in ((model.row_log_odds_, rows), (model.column_log_odds_, columns)):
        known = (prior == 0) | (prior == 1)
        np.testing.assert_array_equal(odds[known] > 0, prior[known] == 1)
        assert np.isinf(odds[known]).all()
        assert not np.isnan(odds).any()


# ---------------------------------------------------------------- starts


@pytest.mark.parametrize("method", ["auto", "sum-product", "max-sum"])
@pytest.mark.parametrize("product", ["or", "xor"])
def test_a_seed_is_a_seed_whatever_the_number_of_threads(monkeypatch, method, product):
    monkeypatch.setattr(backend, "MIN_BLOCK", 200)  # several blocks
    problem = make_boolean(40, 40, 3, product=product, flip=0.1, random_state=0)
    results = []
    for n_jobs in (1, 1, 2):
        settings = Settings(
            3, product=product, method=method, n_init=3, n_jobs=n_jobs, max_iter=120
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(fit(problem.observations, settings, generator(3)))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].row_log_odds, other.row_log_odds)
        np.testing.assert_array_equal(results[0].column_log_odds, other.column_log_odds)
        np.testing.assert_array_equal(results[0].stability, other.stability)
        assert results[0].log_posterior == other.log_posterior
        assert results[0].n_iter == other.n_iter


def test_stability_is_the_share_of_starts_in_which_a_factor_came_back(planted):
    model = BooleanMatrixFactorization(3, random_state=0).fit(planted.observations)
    np.testing.assert_array_equal(model.factor_stability_, 1.0)
    noise = generator(0).integers(0, 2, (40, 40))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unsure = BooleanMatrixFactorization(6, random_state=0).fit(noise)
    assert unsure.factor_stability_.shape == (6,)
    assert ((unsure.factor_stability_ >= 0) & (unsure.factor_stability_ <= 1)).all()
    assert unsure.factor_stability_.mean() < 0.6


def test_starts_end_early_where_they_agree(planted, monkeypatch):
    begun = []
    start = learn._Fit._start
    monkeypatch.setattr(
        learn._Fit, "_start", lambda self, seed: (begun.append(seed), start(self, seed))[1]
    )
    fit(planted.observations, Settings(3, n_init=30), generator())
    assert stages.N_AGREE <= len(begun) < 30


def test_more_starts_are_no_worse():
    problem = make_boolean(60, 60, 6, flip=0.1, random_state=3)
    for method in ("max-sum", "sum-product"):
        scores = []
        for n_init in (1, 4):
            settings = Settings(
                6, method=method, n_init=n_init, noise=Channel.symmetric(0.1),
                row_prior=0.35, column_prior=0.35, max_iter=100,
            )  # fmt: skip
            scores.append(fit(problem.observations, settings, generator(0)).log_posterior)
        assert scores[1] >= scores[0]


# ---------------------------------------------------------------- the fall-back


def test_the_answer_is_max_sums_where_sum_product_forgets(planted, monkeypatch):
    def forget(self, candidate, n_iter):
        flat = replace(
            candidate.result,
            row_log_odds=np.full_like(candidate.result.row_log_odds, -1e-3),
            column_log_odds=np.full_like(candidate.result.column_log_odds, -1e-3),
            marginal=True,
        )
        return stages.Candidate(candidate.state, flat)

    monkeypatch.setattr(learn._Fit, "_refine", forget)
    with_holes = planted.observations.hide(0.2, random_state=0)[0]
    for observations in (with_holes, planted.observations):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = BooleanMatrixFactorization(3, random_state=0).fit(observations)
        said = [str(w.message) for w in caught if w.category is UninformativeWarning]
        # On a complete table where max-sum has most of the information, there is nothing to do.
        assert len(said) == (observations is with_holes)
        assert all("the answer is that of max-sum" in message for message in said)
        assert not model.marginal_
        assert error(model, planted) < 0.02
        assert float(model.noise_.one_given_zero) == pytest.approx(0.08, abs=0.02)


def test_no_warning_where_nothing_was_lost(planted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", UninformativeWarning)
        BooleanMatrixFactorization(3, random_state=0).fit(planted.observations)
        BooleanMatrixFactorization(2, random_state=0).fit(np.full((4, 4), np.nan))
        BooleanMatrixFactorization(1, random_state=0).fit(np.zeros((5, 4)))


# ---------------------------------------------------------------- decimation


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("share", [0.05, 1.0])
def test_decimation_breaks_the_symmetry_between_factors(size, share):
    """All orders of the factors of an identity matrix are equally good: marginals say nothing."""
    given = {"noise": 0.05, "row_prior": 0.4, "column_prior": 0.4, "method": "sum-product"}
    undecided = BooleanMatrixFactorization(size, n_init=1, random_state=0, **given)
    with pytest.warns(UninformativeWarning, match="no start found factors"):
        undecided.fit(np.eye(size))
    odds = np.abs(np.concatenate([undecided.row_log_odds_, undecided.column_log_odds_]))
    assert odds.max() < 1
    assert not (undecided.inverse_transform(undecided.row_log_odds_ > 0)).any()
    decided = BooleanMatrixFactorization(size, n_init=5, random_state=1, decimation=share, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decided.fit(np.eye(size))
    assert np.isinf(decided.row_log_odds_).all()
    assert np.isinf(decided.column_log_odds_).all()
    if share < 1:  # all at once decides by the rounding errors of the first marginals
        product = decided.inverse_transform(decided.row_log_odds_ > 0)
        np.testing.assert_array_equal(product, np.eye(size))


def test_a_smaller_share_takes_more_rounds():
    problem = make_boolean(30, 30, 2, flip=0.05, random_state=0)
    rounds = {}
    for share in (0.1, 0.5):
        model = BooleanMatrixFactorization(2, decimation=share, random_state=0)
        model.fit(problem.observations)
        assert error(model, problem) < 0.02
        rounds[share] = model.n_iter_
    assert rounds[0.1] > rounds[0.5]


def test_decimation_wants_marginals():
    with pytest.raises(ValueError, match="decimation fixes marginals"):
        BooleanMatrixFactorization(2, method="max-sum", decimation=0.1).fit(np.eye(3))
    with pytest.raises(ValueError, match="decimation"):
        BooleanMatrixFactorization(2, decimation=0.0).fit(np.eye(3))


# ---------------------------------------------------------------- Ctrl-C


def count_iterations(observations, settings):
    done = itertools.count()
    fit(observations, settings, generator(), Run(progress=Noting(lambda *_: next(done))))
    return next(done)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "auto"},
        {"method": "auto", "decimation": 0.3},
        {"method": "sum-product", "decimation": 0.3},
        {"method": "max-sum"},
        {"method": "max-sum", "noise": Channel.symmetric(0.1), "row_prior": 0.5},
        {"method": "auto", "product": "xor"},
    ],
)
def test_an_interrupt_at_any_stage_returns_the_best_so_far(options):
    product = options.get("product", "or")
    problem = make_boolean(30, 30, 3, product=product, flip=0.15, random_state=0)
    settings = Settings(3, n_init=4, max_iter=80, **options)
    total = count_iterations(problem.observations, settings)
    best_start = -np.inf
    for stop in np.unique(np.linspace(1, total, 14).astype(int)):
        iterations = itertools.count(1)

        def interrupt(*_, iterations=iterations, stop=stop):
            if next(iterations) == stop:
                raise KeyboardInterrupt

        result = fit(problem.observations, settings, generator(), Run(progress=Noting(interrupt)))
        assert result.interrupted
        assert not np.isnan(result.row_log_odds).any()
        assert not np.isnan(result.column_log_odds).any()
        assert result.Z.shape == (30, 30)
        if not result.marginal and result.model.row_prior.ndim == 0:
            # Max-sum with the first model: the best start so far can only get better.
            assert result.log_posterior >= best_start
            best_start = result.log_posterior


def test_an_interrupt_between_two_runs_keeps_what_is_finished(planted, monkeypatch):
    begun = itertools.count(1)
    start = learn._Fit._start

    def second_is_interrupted(self, seed):
        if next(begun) == 2:
            raise KeyboardInterrupt
        return start(self, seed)

    monkeypatch.setattr(learn._Fit, "_start", second_is_interrupted)
    for method in ("auto", "max-sum", "sum-product"):
        begun = itertools.count(1)
        result = fit(planted.observations, Settings(3, method=method, n_init=5), generator())
        assert result.interrupted
        assert np.mean(result.Z != planted.Z) < 0.2
    begun = itertools.count(2)
    with pytest.raises(KeyboardInterrupt):  # nothing to return yet
        fit(planted.observations, Settings(3), generator())


def test_many_factors_do_not_begin_by_covering_everything():
    """Factors that are half ones make a product of ones alone, from which nothing is learned."""
    planted = make_boolean(400, 400, 40, observed=0.6, random_state=0)
    model = BooleanMatrixFactorization(40, random_state=0).fit(planted.observations)
    rows, columns = np.divmod(np.arange(400 * 400), 400)
    assert np.mean(model.predict(rows, columns) != planted.Z.ravel()) < 0.02
