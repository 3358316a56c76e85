"""objective="errors" through the whole estimator: parameters, weights, attributes, methods."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
import sklearn
from crashing import Crash, fail_at_round
from numba.core import event
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import has_fit_parameter

from boolweave import (
    BooleanMatrixFactorization,
    Channel,
    Observations,
    complete,
    factorize,
    load,
    select_rank,
)
from boolweave.cautions import DegenerateDataWarning
from boolweave.datasets import make_boolean
from boolweave.engine.result import Ending
from boolweave.model.products import boolean_product
from boolweave.runtime import run
from boolweave.runtime.checkpoint import Recorder
from boolweave.search import searching

NAN = np.nan

pytestmark = pytest.mark.usefixtures("quick_search")


def table(product="or", flip=0.08, observed=0.9, seed=0, shape=(18, 12)):
    planted = make_boolean(
        *shape, 3, flip=flip, observed=observed, product=product, random_state=seed
    )
    return planted.observations.to_dense()


def fitted(X, n_components=3, *, sample_weight=None, **parameters):
    parameters = {"objective": "errors", "random_state": 0, "n_init": 3, **parameters}
    model = BooleanMatrixFactorization(n_components, **parameters)
    return model.fit(X, sample_weight=sample_weight)


def errors(X, Z, false_one_weight=1.0, weights=1.0):
    """The obvious twin of `error_`."""
    missed, false = (X == 1) & (Z == 0), (X == 0) & (Z == 1)
    heavy = np.where(false, false_one_weight, 0)
    return float((np.broadcast_to(weights, X.shape) * (missed + heavy)).sum())


def product(model):
    how = model.result_.model.product
    return boolean_product(model.row_factors_, model.components_, how)


# ---------------------------------------------------------------- attributes and methods


@pytest.mark.parametrize("how", ["or", "xor"])
@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0])
def test_everything_says_the_same(how, weight):
    X = table(how)
    model = fitted(X, product=how, false_one_weight=weight)
    Z = product(model)
    assert model.error_ == pytest.approx(errors(X, Z, weight))
    assert 0 <= model.error_bound_ <= model.error_
    np.testing.assert_array_equal(model.result_.Z, Z)
    rows, columns = np.indices(X.shape).reshape(2, -1)
    np.testing.assert_array_equal(model.predict(rows, columns), Z.ravel())
    np.testing.assert_array_equal(model.predict_proba(rows, columns, "latent") > 0.5, Z.ravel())
    np.testing.assert_array_equal(model.inverse_transform(model.row_factors_), Z)
    np.testing.assert_array_equal(model.row_log_odds_ > 0, model.row_factors_)
    np.testing.assert_array_equal(model.column_log_odds_ > 0, model.components_)
    assert not model.marginal_ and np.isfinite(model.log_posterior_)
    holes = np.isnan(X)
    told = model.recommend(np.arange(len(X)), n=2)
    for row, column in zip(told.rows, told.columns[:, 0], strict=True):
        assert column == -1 or holes[row, column]
    why = model.explain(*np.argwhere(Z == 1)[0])
    assert why.value == 1 and sum(r.contribution for r in why.reasons) == pytest.approx(1)
    assert 0 <= model.score(X) <= 1


@pytest.mark.parametrize("how", ["or", "xor"])
def test_redundancy_is_what_is_lost_without_a_factor(how):
    X = table(how)
    model = fitted(X, product=how)
    for k, lost in enumerate(model.redundancy_):
        left = np.delete(np.arange(3), k)
        Z = boolean_product(model.row_factors_[:, left], model.components_[left], how)
        assert lost == pytest.approx(errors(X, Z) - model.error_)


@pytest.mark.parametrize("how", ["or", "xor"])
def test_log_odds_are_gains_in_the_unit_of_an_error(how):
    """Beyond the least log-odds; the twin flips one bit after the other."""
    X = table(how)
    model = fitted(X, product=how)
    up, down = float(model.noise_.one_given_zero), 1 - float(model.noise_.one_given_one)
    unit = (np.log((1 - down) / down) + np.log((1 - up) / up)) / 2
    least = np.log(2 * 3 + 1)
    for m, k in np.ndindex(*model.row_factors_.shape):
        costs = []
        for bit in (0, 1):
            bits = model.row_factors_.copy()
            bits[m, k] = bit
            costs.append(errors(X, boolean_product(bits, model.components_, how)))
        found, gain = model.row_log_odds_[m, k], unit * (costs[0] - costs[1])
        assert found == pytest.approx(gain) or abs(found) == pytest.approx(least)
        assert abs(found) >= max(least, abs(gain)) - 1e-9


@pytest.mark.parametrize("how", ["or", "xor"])
@pytest.mark.parametrize("weight", [0.5, 1.0, 3.0, np.inf])
def test_new_rows_get_the_factors_with_the_least_error(how, weight):
    X = table(how)
    model = fitted(X, product=how, false_one_weight=weight)
    new = table(how, seed=1)
    every = np.array(list(np.ndindex(2, 2, 2)), dtype=np.uint8)
    every = boolean_product(every, model.components_, how)
    for row, Z in zip(new, model.inverse_transform(model.transform(new)), strict=True):
        assert errors(row, Z, weight) == min(errors(row, other, weight) for other in every)
    np.testing.assert_array_equal(model.predict(new), Z_of(model, new))
    np.testing.assert_array_equal(model.predict_proba(new, kind="latent") > 0.5, Z_of(model, new))


def Z_of(model, rows):
    return model.inverse_transform(model.transform(rows))


@pytest.mark.parametrize("n_components", [3, 20])
def test_training_rows_cost_no_more_than_their_factors(n_components):
    X = table(shape=(30, 25), flip=0.15)
    model = fitted(X, n_components)
    again = errors(X, Z_of(model, X))
    assert again <= errors(X, product(model))
    np.testing.assert_array_equal(model.fit_transform(X), model.row_factors_)


def test_the_order_is_that_of_the_search():
    X = table(flip=0.0, observed=1.0)
    model = fitted(X)
    found = factorize(X, 3, random_state=0, n_init=3)
    np.testing.assert_array_equal(found.Y, model.components_)
    assert found.cost == model.error_


# ---------------------------------------------------------------- weights


def test_weight_0_is_missing():
    X = table(observed=1.0)
    hidden = np.random.default_rng(3).random(X.shape) < 0.2
    holes = np.where(hidden, NAN, X)
    model = fitted(X, sample_weight=1.0 - hidden)
    plain = fitted(holes)
    np.testing.assert_array_equal(model.components_, plain.components_)
    assert model.error_ == plain.error_
    assert model.observations_.n_observed == X.size  # the data stay whole


def test_whole_weights_are_repeated_rows():
    X = table(shape=(8, 7))
    times = np.array([1, 3, 1, 2, 0, 1, 4, 1])
    model = fitted(X, 2, sample_weight=times, n_init=20)
    repeated = fitted(np.repeat(X, times, axis=0), 2, n_init=20)
    assert model.error_ == repeated.error_ == errors(X, product(model), weights=times[:, None])


def test_dense_and_sparse_weights():
    X = table()
    weights = np.where(np.random.default_rng(0).random(X.shape) < 0.3, 5.0, 1.0)
    stored = scipy.sparse.csr_array(np.where(weights == 5, weights, 0))
    dense, sparse = (fitted(X, sample_weight=w) for w in (weights, stored))
    np.testing.assert_array_equal(dense.row_factors_, sparse.row_factors_)
    assert dense.error_ == pytest.approx(errors(X, product(dense), weights=weights))


def test_weights_reach_the_fit_through_other_calls():
    X, weights = table(), np.linspace(0.5, 2, 18)
    model = fitted(X, sample_weight=weights)
    again = clone(model)
    X_found = again.fit_transform(X, sample_weight=weights)
    np.testing.assert_array_equal(X_found, model.row_factors_)
    piped = make_pipeline(clone(model))
    piped.fit(X, booleanmatrixfactorization__sample_weight=weights)
    assert piped[-1].error_ == model.error_
    found = factorize(X, 3, random_state=0, n_init=3, sample_weight=weights)
    assert found.cost == model.error_
    assert has_fit_parameter(model, "sample_weight")
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(clone(model).set_fit_request(sample_weight=True))
        assert routed.fit(X, sample_weight=weights)[-1].error_ == model.error_


def test_weights_are_refused():
    X = table()
    with pytest.raises(ValueError, match=r'`sample_weight` weights.*set `objective="errors"`'):
        BooleanMatrixFactorization(2).fit(X, sample_weight=np.ones(18))
    with pytest.raises(ValueError, match=r"got shape \(5,\)"):
        fitted(X, sample_weight=np.ones(5))
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        BooleanMatrixFactorization(2, objective="errors").fit(X, weights=np.ones(18))


# ---------------------------------------------------------------- parameters

ONLY_POSTERIOR = {
    "method": "max-sum", "noise": Channel.symmetric(0.1), "row_prior": [0.5, 0.5],
    "column_prior": 0.3, "damping": 0.5, "max_iter": 150, "tol": 1e-2, "messages": "uint8",
    "decimation": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("name", ONLY_POSTERIOR)
def test_parameters_of_message_passing_are_refused(name):
    with pytest.raises(ValueError, match=f"does not use `{name}`; leave it out"):
        fitted(table(), **{name: ONLY_POSTERIOR[name]})
    result = factorize(table(), 2, random_state=0, **{name: ONLY_POSTERIOR[name]})
    assert result.cost is None  # the objective is "posterior" then


def test_several_are_named_at_once():
    with pytest.raises(ValueError, match="does not use `method`, `tol`; leave them out"):
        fitted(table(), method="max-sum", tol=0.1)


@pytest.mark.parametrize("wrong", [0, -1.0, NAN, "2"])
def test_false_one_weight_is_above_zero(wrong):
    with pytest.raises(ValueError, match="false_one_weight"):
        fitted(table(), false_one_weight=wrong)


def test_false_one_weight_needs_errors():
    with pytest.raises(ValueError, match='set `objective="errors"`'):
        BooleanMatrixFactorization(2, false_one_weight=2).fit(table())
    with pytest.raises(ValueError, match="objective"):
        BooleanMatrixFactorization(2, objective="least").fit(table())


def test_complete_is_for_what_is_not_seen():
    assert complete(table(), 2, random_state=0, method="max-sum").cost is None


def test_too_little_memory():
    with pytest.raises(MemoryError, match=r"fewest errors of 18 rows.*max_memory=100 bytes"):
        fitted(table(), max_memory=100)
    with pytest.raises(MemoryError, match='set `objective="posterior"`'):
        fitted(table(), max_memory=18 * 12 * 10, sample_weight=np.full((18, 12), 2.0))


@pytest.mark.parametrize("product", ["or", "xor"])
def test_more_factors_than_different_rows_and_columns_cost_nothing(product):
    """They are not searched: 10^15 factors of 18 rows would not fit into memory."""
    few = np.repeat(np.eye(3), 6, axis=0) @ np.repeat([[1, 0, 0], [1, 1, 0], [0, 0, 1]], 4, axis=1)
    few[0, 0] = np.nan
    for wanted in (10**15, 5000):
        found = fitted(few, n_components=wanted, product=product)
        assert found.error_ == 0 and len(found.components_) <= 4
        assert found.n_dropped_ == wanted - len(found.components_)
    chosen = select_rank(few, [1, 2, 2**62], objective="errors", product=product)
    assert chosen.ranks.tolist() == [1, 2, 4] and chosen.costs[-1] == 0


def test_as_many_factors_as_different_rows_explain_everything():
    """Also if the search is too short to find that."""
    noise = np.random.default_rng(0).integers(0, 2, (12, 40))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "MOST_WORK", 1e-9)
        patch.setattr(searching, "TASK_WORK", 0)
        patch.setattr(searching, "TASK_TRIALS", 0)
        assert fitted(noise, n_components=12).error_ == 0


def test_a_seed_gives_the_same_answer_on_any_number_of_threads():
    one, two = (fitted(table(), n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.row_log_odds_, two.row_log_odds_)
    np.testing.assert_array_equal(one.factor_stability_, two.factor_stability_)


# ---------------------------------------------------------------- tables at the edge


def test_no_false_one_is_allowed():
    X = table(flip=0.15)
    model = fitted(X, false_one_weight=np.inf)
    assert not ((X == 0) & (product(model) == 1)).any()
    assert model.error_ == ((X == 1) & (product(model) == 0)).sum()
    assert np.isfinite(model.row_log_odds_).all() and np.isfinite(model.column_log_odds_).all()


@pytest.mark.parametrize("how", ["or", "xor"])
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((4, 3)), np.ones((4, 3)), [[1, 0, 1]], [[1], [0], [1]], [[1]], [[0]],
        np.eye(4), 1 - np.eye(5),
    ],
    ids=["zeros", "ones", "row", "column", "one", "zero", "eye", "crown"],
)  # fmt: skip
def test_small_tables_with_more_factors_than_rows_are_exact(X, how):
    X = np.asarray(X, dtype=float)
    model = fitted(X, max(X.shape) + 2, product=how, n_init=10)
    assert model.error_ == model.error_bound_ == errors(X, product(model)) == 0
    n_left = len(model.components_)
    assert n_left == max(1, max(X.shape) + 2 - model.n_dropped_)
    assert X.any() == (model.redundancy_ > 0).all()  # no factor is needless
    np.testing.assert_array_equal(Z_of(model, X), X)


def test_nothing_observed():
    with pytest.warns(DegenerateDataWarning, match="every entry will be 0"):
        model = fitted(np.full((3, 4), NAN), 2)
    assert model.error_ == 0
    assert not product(model).any()
    with pytest.raises(ValueError, match="sample_weight must have a weight above zero, got only"):
        fitted(np.ones((3, 4)), 2, sample_weight=np.zeros((3, 4)))


def test_sparse_and_labelled_data():
    X = table(observed=1.0)
    dense = fitted(X)
    sparse = fitted(scipy.sparse.csr_array(X))
    np.testing.assert_array_equal(sparse.components_, dense.components_)
    labelled = Observations.from_dense(X, row_labels=[f"r{m}" for m in range(len(X))])
    assert fitted(labelled).predict(["r3"], [2]) == dense.predict([3], [2])


# ---------------------------------------------------------------- kept


def test_saved_loaded_pickled_and_cloned(tmp_path):
    model = fitted(table(), false_one_weight=np.inf, max_time=100.0)
    model.save(tmp_path / "m.npz")
    for again in (load(tmp_path / "m.npz"), pickle.loads(pickle.dumps(model))):
        assert again.get_params() == model.get_params()
        assert (again.error_, again.error_bound_) == (model.error_, model.error_bound_)
        for name in ("redundancy_", "factor_stability_", "row_factors_", "row_log_odds_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
        np.testing.assert_array_equal(again.history_["error"], model.history_["error"])
        np.testing.assert_array_equal(again.transform(table()), model.transform(table()))
    assert clone(model).get_params() == model.get_params()
    plain = BooleanMatrixFactorization(2, random_state=0).fit(table())
    assert plain.error_ is plain.error_bound_ is plain.redundancy_ is None


def test_the_bound_can_be_left_out(monkeypatch):
    """It is not computed, and the factors are the same; message passing has none."""
    table = np.eye(4, dtype=np.uint8)
    with_bound = BooleanMatrixFactorization(2, objective="errors", random_state=0).fit(table)
    assert with_bound.error_bound_ == with_bound.error_ == 2
    monkeypatch.setattr("boolweave.search.answer.lower_bound", None)
    without = clone(with_bound).set_params(bound=False).fit(table)
    assert without.error_bound_ == 0
    np.testing.assert_array_equal(without.components_, with_bound.components_)
    with pytest.raises(ValueError, match=r'`bound=False` .* set `objective="errors"`'):
        BooleanMatrixFactorization(2, bound=False).fit(table)


# ---------------------------------------------------------------- rank, checkpoints, Ctrl-C


def test_the_number_of_factors_is_chosen():
    planted = make_boolean(30, 30, 2, random_state=0)
    model = fitted(planted.observations, "auto")
    assert model.rank_selection_.best == 2 == len(model.components_) + model.n_dropped_
    assert model.error_ == 0
    timed = fitted(planted.observations, "auto", max_time=0.01)
    assert not timed.rank_selection_.interrupted and not timed.interrupted_
    assert timed.result_.ending is Ending.OUT_OF_TIME


def test_the_curve_is_kept_and_select_rank_shows_the_same(tmp_path):
    planted = make_boolean(30, 25, 2, flip=0.03, random_state=0)
    how = {"objective": "errors", "random_state": 0}
    model = fitted(planted.observations, "auto")
    found = model.rank_selection_
    assert found.costs[found.ranks == found.best] == model.error_
    model.save(tmp_path / "m.npz")
    assert load(tmp_path / "m.npz").rank_selection_.table() == found.table()
    curve = select_rank(planted.observations, **how)
    assert curve.best == found.best == 2
    np.testing.assert_array_equal(curve.ranks, found.ranks)
    weighed = select_rank(planted.observations, [2], sample_weight=np.full(30, 2.0), **how)
    assert weighed.costs[0] == 2 * (weighed.missed[0] + weighed.false_ones[0])
    with pytest.raises(ValueError, match='use criterion="mdl", or set `objective="posterior"`'):
        select_rank(planted.observations, criterion="heldout", **how)
    with pytest.raises(ValueError, match="`sample_weight` weights errors"):
        select_rank(planted.observations, sample_weight=np.ones(30), objective="posterior")


@pytest.mark.parametrize("n_components", [4, "auto"])
def test_a_search_goes_on_after_a_crash(tmp_path, n_components):
    X, weights, place = table(), np.linspace(0.5, 2, 18), tmp_path / "run"
    whole = fitted(X, n_components, sample_weight=weights)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(Recorder, "save_if_due", Recorder.save)
        fail_at_round(patch, 4)
        fitted(X, n_components, sample_weight=weights, checkpoint=place)
    assert list(place.iterdir())
    with pytest.raises(ValueError, match="weights"):
        fitted(X, n_components, checkpoint=place)
    with pytest.raises(ValueError, match="false_one_weight"):
        fitted(X, n_components, sample_weight=weights, checkpoint=place, false_one_weight=2)
    resumed = fitted(X, n_components, sample_weight=weights, checkpoint=place)
    np.testing.assert_array_equal(resumed.row_log_odds_, whole.row_log_odds_)
    np.testing.assert_array_equal(resumed.history_["error"], whole.history_["error"])
    assert list(place.iterdir()) == []


def test_ctrl_c_keeps_the_best_and_the_checkpoint(tmp_path, monkeypatch):
    X = table(shape=(30, 25), flip=0.15)
    monkeypatch.setattr(Recorder, "save_if_due", Recorder.save)
    fail_at_round(monkeypatch, 3, KeyboardInterrupt)
    model = fitted(X, 4, checkpoint=tmp_path / "run")
    assert model.interrupted_ and model.n_iter_ == 3
    assert model.error_ == errors(X, product(model)) <= model.history_["error"][-1]
    assert list((tmp_path / "run").iterdir())
    model.save(tmp_path / "m.npz")
    assert load(tmp_path / "m.npz").interrupted_


def test_time_ends_a_search():
    model = fitted(table(shape=(60, 50), flip=0.2), 8, max_time=1e-6)
    assert model.result_.ending is Ending.OUT_OF_TIME and not model.interrupted_
    assert model.error_ < np.nansum(table(shape=(60, 50), flip=0.2))
    assert model.factor_stability_ is None  # no other search could find the factors again


def test_the_time_to_compile_kernels_does_not_count(monkeypatch):
    now = 0.0

    def slow():
        nonlocal now
        with event.trigger_event("numba:compile"):
            now += 100.0

    monkeypatch.setattr(searching, "compile_kernels", slow)
    clocks = SimpleNamespace(monotonic=lambda: now, perf_counter=lambda: now)
    monkeypatch.setattr(run, "time", clocks)
    model = fitted(table(), max_time=50.0)
    assert now >= 100 and model.result_.ending is Ending.CONVERGED
