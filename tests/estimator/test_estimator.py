"""The estimator: parameters, attributes, methods and their errors."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from boolweave import BooleanMatrixFactorization, Channel, Observations, complete, factorize
from boolweave.datasets import make_boolean
from boolweave.engine.result import Result
from boolweave.model.products import boolean_product

NAN = np.nan
BLOCKS = np.array(
    [[1, 1, 0, 0], [1, NAN, 0, 0], [1, 1, 0, NAN], [0, 0, 1, 1], [NAN, 0, 1, 1], [0, 0, 1, NAN]]
)
COMPLETE = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 3, axis=0)
NAMES = {"row_labels": list("abcdef"), "column_labels": ["w", "x", "y", "z"]}


@pytest.fixture(scope="module")
def planted():
    return make_boolean(60, 80, 3, flip=0.05, observed=0.9, random_state=0)


@pytest.fixture(scope="module")
def fitted(planted):
    return BooleanMatrixFactorization(3, method="max-sum", n_init=3, random_state=0).fit(
        planted.observations
    )


def blocks_model(X=BLOCKS, **parameters):
    settings = {"method": "max-sum", "random_state": 0, "n_init": 3, **parameters}
    return BooleanMatrixFactorization(2, **settings).fit(X)


# ---------------------------------------------------------------- fit


def test_attributes(planted, fitted):
    assert fitted.components_.shape == (3, 80)
    assert fitted.components_.dtype == np.uint8
    assert fitted.row_log_odds_.shape == (60, 3)
    assert fitted.column_log_odds_.shape == (3, 80)
    np.testing.assert_array_equal(fitted.components_, fitted.column_log_odds_ > 0)
    assert repr(fitted.noise_) == "Channel(one_given_zero=0.1, one_given_one=0.9)"
    assert (fitted.row_prior_, fitted.column_prior_) == (0.5, 0.5)
    assert fitted.converged_
    assert not fitted.interrupted_
    assert fitted.n_features_in_ == 80
    assert set(fitted.history_) == {"residual", "log_posterior", "changes"}
    for values in fitted.history_.values():
        assert values.shape == (fitted.n_iter_,)
    assert fitted.log_posterior_ == fitted.history_["log_posterior"].max()
    assert fitted.observations_ is planted.observations


def test_log_posterior_by_hand():
    model = blocks_model(noise=0.2, row_prior=0.3, column_prior=0.6)
    X, Y = model.row_log_odds_ > 0, model.components_
    seen = ~np.isnan(BLOCKS)
    wrong = (boolean_product(X, Y) != BLOCKS)[seen].sum()
    expected = wrong * np.log(0.2) + (seen.sum() - wrong) * np.log(0.8)
    expected += np.log(np.where(X, 0.3, 0.7)).sum() + np.log(np.where(Y, 0.6, 0.4)).sum()
    assert model.log_posterior_ == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X,
        lambda X: X.tolist(),
        lambda X: X.astype(np.float32),
        np.asfortranarray,
        lambda X: np.ma.array(np.nan_to_num(X), mask=np.isnan(X)),
        lambda X: pd.DataFrame(X, columns=list("wxyz")),
        lambda X: pl.DataFrame(X, schema=list("wxyz")).fill_nan(None),
        lambda X: pl.DataFrame(X, schema=list("wxyz")).fill_nan(None).to_arrow(),
        Observations.from_dense,
    ],
)
def test_every_kind_of_input_gives_the_same(convert):
    expected, model = blocks_model(), blocks_model(convert(BLOCKS))
    np.testing.assert_array_equal(model.row_log_odds_, expected.row_log_odds_)
    np.testing.assert_array_equal(model.transform(convert(BLOCKS)), expected.transform(BLOCKS))
    assert model.score(convert(BLOCKS)) == expected.score(BLOCKS)


@pytest.mark.filterwarnings("ignore:all 12 observed entries are 1")
def test_absent_entries_of_sparse_input():
    ones = sp.csr_array(COMPLETE)
    assert blocks_model(ones).observations_.n_observed == 24
    assert blocks_model(ones, absent="missing").observations_.n_observed == 12
    np.testing.assert_array_equal(blocks_model(ones).predict(ones), COMPLETE)


def test_seeds(planted):
    def beliefs(seed):
        model = BooleanMatrixFactorization(3, method="max-sum", random_state=seed, max_iter=20)
        return model.fit(planted.observations).row_log_odds_

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        np.testing.assert_array_equal(beliefs(1), beliefs(1))
        np.testing.assert_array_equal(beliefs(np.random.RandomState(1)), beliefs(1))
        assert (beliefs(1) != beliefs(2)).any()


def test_several_starts_keep_the_best(planted):
    generator = np.random.RandomState(5)
    one_by_one = [
        factorize(planted.observations, 3, method="max-sum", random_state=generator).log_posterior
        for _ in range(4)
    ]
    together = factorize(planted.observations, 3, method="max-sum", n_init=4, random_state=5)
    assert together.log_posterior == max(one_by_one)


def test_more_factors_than_rows_or_columns_are_empty():
    table = np.array([[1, 0], [0, 1], [1, 1]])
    two = BooleanMatrixFactorization(2, random_state=0).fit(table)
    many = BooleanMatrixFactorization(5000, random_state=0).fit(table)
    assert many.row_factors_.shape == (3, 5000)
    assert many.components_.shape == (5000, 2)
    assert not many.components_[2:].any()
    assert not many.factor_stability_[2:].any()
    np.testing.assert_array_equal(many.components_[:2], two.components_)
    np.testing.assert_allclose(many.predict_proba(table), two.predict_proba(table), atol=1e-6)
    np.testing.assert_array_equal(many.predict(table), table)
    # A given prior says that there are more.
    given = BooleanMatrixFactorization(3, row_prior=0.9, column_prior=0.9, random_state=0)
    assert given.fit(table).row_factors_[:, 2].any()


def test_known_entries_are_kept(planted):
    prior = np.where(np.arange(80) < 25, planted.Y, 0.5)
    model = BooleanMatrixFactorization(3, column_prior=prior, random_state=0)
    model.fit(planted.observations)
    np.testing.assert_array_equal(model.components_[:, :25], planted.Y[:, :25])
    assert np.isinf(model.column_log_odds_[:, :25]).all()
    assert np.isfinite(model.column_log_odds_[:, 25:]).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 2.5}, "n_components"),
        ({"product": "and"}, "product"),
        ({"method": "gibbs"}, "method"),
        ({"noise": 1.5}, "noise"),
        ({"noise": NAN}, "noise"),
        ({"row_prior": -0.1}, "row_prior"),
        ({"column_prior": "high"}, "column_prior"),
        ({"absent": "one"}, "absent"),
        ({"damping": 0}, "damping"),
        ({"damping": 1.1}, "damping"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1}, "tol"),
        ({"n_init": 0}, "n_init"),
        ({"messages": "float16"}, "messages"),
        ({"n_jobs": "two"}, "n_jobs"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_bad_parameters(parameters, message):
    model = BooleanMatrixFactorization(**{"n_components": 2, **parameters})
    with pytest.raises(InvalidParameterError, match=f"The '{message}' parameter"):
        model.fit(BLOCKS)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0"),
        ({"row_prior": [[0.5, 2.0]]}, "row_prior must hold probabilities"),
        ({"row_prior": np.full((5, 2), 0.5)}, r"row_prior must .* broadcast to .* = \(6, 2\)"),
        ({"column_prior": np.full((3, 4), 0.5)}, r"column_prior must .* = \(2, 4\)"),
        ({"noise": Channel(0.0, 0.0)}, "row 0, column 0 cannot be observed as 1"),
        ({"noise": Channel([0.1, 0.2])}, "one_given_zero must broadcast to the matrix 6 × 4"),
    ],
)
def test_parameters_that_do_not_fit_the_data(parameters, message):
    with pytest.raises(ValueError, match=message):
        blocks_model(**parameters)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0, 2]], "row 0, column 1 holds 2"),
        ([0, 1], "Reshape your data"),
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (np.zeros((3, 0)), r"0 feature\(s\)"),
    ],
)
def test_bad_data(X, message):
    with pytest.raises(ValueError, match=message):
        BooleanMatrixFactorization(2).fit(X)


def test_data_without_observations():
    with pytest.warns(UserWarning, match="no entry was observed"):
        model = blocks_model(np.full((3, 4), NAN))
    assert model.components_.shape == (2, 4)
    assert not np.isnan(model.predict_proba([0, 2], [1, 3])).any()
    with pytest.raises(ValueError, match="score needs at least one observed entry"):
        model.score(np.full((3, 4), NAN))


# ---------------------------------------------------------------- new rows


def test_fit_transform_is_fit_then_transform(planted, fitted):
    rows = clone(fitted).fit_transform(planted.observations)
    assert rows.dtype == np.uint8
    np.testing.assert_array_equal(rows, fitted.transform(planted.observations))
    np.testing.assert_array_equal(fitted.inverse_transform(rows), planted.Z)


def test_fit_transform_respects_known_rows(planted):
    model = BooleanMatrixFactorization(3, row_prior=planted.X, random_state=0)
    np.testing.assert_array_equal(model.fit_transform(planted.observations), planted.X)
    assert model.transform(planted.observations.take_rows([0, 1])).shape == (2, 3)


def test_new_rows(planted, fitted):
    truth = boolean_product([[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]], fitted.components_)
    noisy = truth.astype(float)
    noisy[:, ::5] = NAN
    np.testing.assert_array_equal(fitted.predict(noisy), truth)
    assert fitted.score(noisy) == 1.0
    probability = fitted.predict_proba(noisy)
    assert probability.shape == (4, 80)
    np.testing.assert_array_equal(probability > 0.5, truth)
    alone = fitted.predict_proba(noisy[1:2])
    np.testing.assert_allclose(alone[0], probability[1], rtol=1e-6)


def test_rows_of_the_wrong_width(fitted):
    for method in (fitted.transform, fitted.predict, fitted.predict_proba, fitted.score):
        with pytest.raises(ValueError, match=r"X has 4 features.* expecting 80 features"):
            method(BLOCKS)


def test_inverse_transform(fitted):
    rows = np.eye(3, dtype=np.uint8)
    np.testing.assert_array_equal(fitted.inverse_transform(rows), fitted.components_)
    with pytest.raises(ValueError, match="2 components"):
        fitted.inverse_transform([[1, 0]])
    with pytest.raises(ValueError, match="only 0 and 1"):
        fitted.inverse_transform([[1, 0, 2]])


def test_score_is_the_share_of_hidden_entries_predicted():
    model = blocks_model()
    assert model.score(COMPLETE) == 1.0  # what is hidden, the other one of its pair tells
    one_wrong = COMPLETE.astype(float)
    one_wrong[0, 0] = 0
    assert isinstance(model.score(COMPLETE), float)
    # It is wrong itself, and misleads about the other two of its pair.
    assert model.score(one_wrong) == pytest.approx(22 / 24)


# ---------------------------------------------------------------- pairs


def test_predict_pairs():
    model = blocks_model()
    rows, cols = np.indices(COMPLETE.shape)
    predicted = model.predict(rows.ravel(), cols.ravel())
    assert predicted.dtype == np.uint8
    np.testing.assert_array_equal(predicted.reshape(COMPLETE.shape), COMPLETE)
    assert model.predict(1, 1) == 1
    assert model.predict([], []).shape == (0,)


def test_predict_proba_by_hand():
    model = blocks_model(noise=Channel(0.2, 0.9))
    x = 1 / (1 + np.exp(-model.row_log_odds_[1].astype(float)))
    y = 1 / (1 + np.exp(-model.column_log_odds_[:, 1].astype(float)))
    latent = 1 - np.prod(1 - x * y)
    assert model.predict_proba([1], [1], kind="latent") == pytest.approx(latent)
    assert model.predict_proba([1], [1]) == pytest.approx(0.2 + 0.7 * latent)
    with pytest.raises(ValueError, match='kind must be "observed" or "latent", got \'seen\''):
        model.predict_proba([1], [1], kind="seen")


@pytest.mark.parametrize(
    "convert", [list, np.array, pd.Series, pd.Index, pl.Series, lambda x: np.array(x, dtype=object)]
)
def test_labels(convert):
    model = blocks_model(Observations.from_dense(BLOCKS, **NAMES))
    predicted = model.predict(convert(["f", "a", "b"]), convert(["z", "z", "x"]))
    np.testing.assert_array_equal(predicted, [1, 0, 1])
    np.testing.assert_array_equal(model.predict([5, 0, 1], convert(["z", "z", "x"])), predicted)


@pytest.mark.parametrize(
    ("rows", "cols", "message"),
    [
        ([0, 1], [0, 1, 2], "pairs and must have the same length, or shapes that broadcast, got"),
        ([6], [0], "rows must be from 0 to 5, got 6"),
        ([0], [-1], "columns must be from 0 to 3, got -1"),
        ([0.5], [0], "rows must be whole numbers or labels, got float64"),
        ([True], [0], "rows must be whole numbers or labels, got bool"),
        (["nobody"], [0], "there is no row named 'nobody'"),
        ([0], ["zz"], "there is no column named 'zz'"),
        ([None], [0], "rows must be whole numbers or labels, got object"),
    ],
)
def test_bad_pairs(rows, cols, message):
    model = blocks_model(Observations.from_dense(BLOCKS, **NAMES))
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match=message):
            method(rows, cols)


def test_labels_without_labels():
    with pytest.raises(ValueError, match="the fitted data had no row labels; pass row numbers"):
        blocks_model().predict(["a"], [0])


# ---------------------------------------------------------------- the ecosystem


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("transform", (BLOCKS,)),
        ("inverse_transform", ([[1, 0]],)),
        ("predict", ([0], [0])),
        ("predict_proba", ([0], [0])),
        ("predict", (BLOCKS,)),
        ("predict_proba", (BLOCKS,)),
        ("score", (BLOCKS,)),
        ("save", ("never.npz",)),
        ("get_feature_names_out", ()),
    ],
)
def test_unfitted(method, arguments):
    with pytest.raises(NotFittedError):
        getattr(BooleanMatrixFactorization(2), method)(*arguments)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(fitted, duplicate):
    again = duplicate(fitted)
    np.testing.assert_array_equal(again.components_, fitted.components_)
    np.testing.assert_array_equal(again.predict([0, 1], [2, 3]), fitted.predict([0, 1], [2, 3]))


def test_clone():
    model = BooleanMatrixFactorization(2, noise=Channel(0.2, 0.7), row_prior=[0.1, 0.2])
    copied = clone(model.fit(COMPLETE))
    assert not hasattr(copied, "components_")
    assert copied.noise.one_given_zero == 0.2
    assert copied.row_prior == [0.1, 0.2]


def test_output_frames(fitted, planted):
    names = ["factor1", "factor2", "factor3"]
    assert fitted.get_feature_names_out().tolist() == names
    plain = fitted.transform(planted.observations)
    for output, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        model = copy.deepcopy(fitted).set_output(transform=output)
        for frame in (
            model.transform(planted.observations),
            clone(model).set_output(transform=output).fit_transform(planted.observations),
        ):
            assert isinstance(frame, kind)
            assert list(frame.columns) == names
            np.testing.assert_array_equal(frame.to_numpy(), plain)
        np.testing.assert_array_equal(model.inverse_transform(frame), planted.Z)
        assert model.score(planted.observations) == fitted.score(planted.observations)


def test_feature_names():
    table = pd.DataFrame(COMPLETE, columns=list("wxyz"), index=list("abcdef"))
    model = blocks_model(table)
    assert model.feature_names_in_.tolist() == list("wxyz")
    assert model.predict(["a"], ["z"]) == 0
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(table[list("zyxw")])


@pytest.mark.parametrize("method", ["transform", "predict", "predict_proba", "score"])
@pytest.mark.parametrize(
    "fit_to",
    [
        lambda table: Observations.from_table(table),
        lambda table: pl.from_pandas(table.reset_index()),  # the first column names the rows
    ],
)
def test_columns_in_another_order_are_refused_however_the_model_was_fitted(method, fit_to):
    """Before: taken by position, silently, unless fitted to a data frame."""
    table = pd.DataFrame(COMPLETE, columns=list("wxyz"), index=list("abcdef"))
    model = blocks_model(fit_to(table))
    call = getattr(model, method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(table)
    call(COMPLETE)  # without names, by position
    call(pd.DataFrame(COMPLETE))
    for wrong in (table[list("wxzy")], Observations.from_table(table[list("wxzy")])):
        with pytest.raises(ValueError, match=r"column 2 is 'z', but was 'y' in fit; put them in"):
            call(wrong)
    with pytest.raises(ValueError, match=r"feature names should match .* 'q' was not a column"):
        call(table.rename(columns={"w": "q"}))


# ---------------------------------------------------------------- functions


def test_factorize():
    result = factorize(COMPLETE, 2, method="max-sum", random_state=0, n_init=3)
    np.testing.assert_array_equal(result.Z, COMPLETE)
    np.testing.assert_array_equal(boolean_product(result.X, result.Y), COMPLETE)
    assert result.X.shape == (6, 2)
    model = blocks_model(COMPLETE)
    np.testing.assert_array_equal(result.row_log_odds, model.row_log_odds_)
    assert result.log_posterior == model.log_posterior_


@pytest.mark.filterwarnings("ignore:all 12 observed entries are 1")
def test_complete():
    result = complete(BLOCKS, 2, method="max-sum", random_state=0, n_init=3)
    np.testing.assert_array_equal(result.completed, COMPLETE)
    ones = sp.csr_array(COMPLETE)
    assert complete(ones, 1, random_state=0).observations.n_observed == 12
    assert complete(ones, 1, random_state=0, noise=0.1).observations.n_observed == 12
    assert isinstance(complete(ones, 1, random_state=0, noise=0.1), Result)
    assert factorize(ones, 2, random_state=0).observations.n_observed == 24


def test_functions_check_their_parameters():
    with pytest.raises(InvalidParameterError, match="damping"):
        factorize(COMPLETE, 2, damping=2)
    with pytest.raises(TypeError, match="nonsense"):
        complete(COMPLETE, 2, nonsense=1)
    with pytest.raises(ValueError, match="holds 3"):
        complete([[3]], 1)
