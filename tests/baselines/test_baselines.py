"""The baselines against cases worked out by hand, other packages and optimality conditions."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from boolweave.baselines import (
    GLRM,
    PAPER_THRESHOLDS,
    Asso,
    BiasModel,
    GreConD,
    Majority,
    OneBitCompletion,
    bias,
    glrm,
    one_bit,
)
from boolweave.baselines.base import Triplets, entries_of, platt
from boolweave.baselines.boolean_factors import concept_gains, confidences, pack, rates_of
from boolweave.data.observations import Observations
from boolweave.datasets import load_senate, make_boolean
from boolweave.metrics import accuracy, log_loss

NAN = float("nan")
EVERY = [
    Majority(),
    BiasModel(random_state=0),
    *(GLRM(loss=loss, random_state=0) for loss in ("quadratic", "logistic", "hinge", "ordinal")),
    OneBitCompletion(random_state=0),
    Asso(random_state=0),
    GreConD(random_state=0),
]


def names(model):
    return f"{type(model).__name__}-{getattr(model, 'loss', '')}".rstrip("-")


@pytest.fixture(scope="module")
def planted():
    """Two factors, a tenth hidden, no noise: every method with factors should find most of it."""
    return make_boolean(60, 50, 2, observed=0.9, flip=0.02, random_state=0)


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("model", EVERY, ids=names)
def test_face(model, planted):
    model = clone(model).fit(planted.observations)
    rows, columns = (i.ravel() for i in np.indices(planted.Z.shape))
    p = model.predict_proba(rows, columns)
    assert p.shape == rows.shape and p.min() > 0 and p.max() < 1
    bits = model.predict(rows, columns)
    assert bits.dtype == np.uint8 and set(np.unique(bits)) <= {0, 1}
    assert model.n_components_ >= 0
    again = clone(model).fit(planted.observations).predict_proba(rows, columns)
    np.testing.assert_array_equal(p, again)
    # better than knowing nothing
    assert log_loss(planted.Z.ravel(), p) < 0.7
    if model.n_components_ > 0:
        assert accuracy(planted.Z.ravel(), bits) > 0.9


@pytest.mark.parametrize("model", EVERY, ids=names)
def test_bad_input(model):
    with pytest.raises(ValueError, match=r"must be 0, 1|expected"):
        clone(model).fit([[0, 2], [1, 0]])
    with pytest.raises(ValueError, match="at least one observed entry"):
        clone(model).fit([[NAN, NAN]])
    fitted = clone(model).fit([[0, 1], [1, NAN], [0, 1]])
    with pytest.raises(ValueError, match="rows must be from 0 to 2"):
        fitted.predict([3], [0])
    with pytest.raises(ValueError, match="cols must be from 0 to 1"):
        fitted.predict_proba([0], [-1])
    with pytest.raises(ValueError, match="the same length"):
        fitted.predict([0, 1], [0])
    with pytest.raises(ValueError, match="whole numbers"):
        fitted.predict([0.5], [0])


@pytest.mark.parametrize("model", EVERY, ids=names)
def test_tiny_and_constant(model):
    for table in ([[1]], [[0, 0], [0, 0]], [[1, NAN], [1, 1]]):
        p = clone(model).fit(table).predict_proba([0], [0])
        assert np.isfinite(p).all()


def test_not_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        Majority().predict([0], [0])


@pytest.mark.parametrize(
    ("model", "parameter"),
    [
        (GLRM(0), "n_components"),
        (GLRM(loss="square"), "loss"),
        (GLRM(regularization=-1.0), "regularization"),
        (Asso(threshold=1.5), "threshold"),
        (Asso(threshold=[0.5, 0.0]), "threshold"),
        (GreConD(missing="two"), "missing"),
        (OneBitCompletion(beta=0), "beta"),
        (OneBitCompletion(max_iter=2.5), "max_iter"),
        (BiasModel(regularization="none"), "regularization"),
        (Majority(absent="one"), "absent"),
    ],
)
def test_bad_parameters(model, parameter):
    with pytest.raises(ValueError, match=parameter):
        model.fit([[0, 1], [1, 0]])


# ---------------------------------------------------------------- Boolean factors


def test_confidences_by_hand():
    """Column 0 is 1 in rows 0 and 1; column 1 is 1 in row 0 and unknown in row 1."""
    seen = Observations.from_data([[1, 1, 0], [1, NAN, 1], [0, 1, 1]])
    expected = [[1, 1, 0.5], [0.5, 1, 0.5], [0.5, 1, 1]]
    np.testing.assert_allclose(confidences(seen), expected)


def test_asso_takes_the_larger_tile_first():
    table = np.zeros((7, 6), int)
    table[:4, :3] = 1
    table[4:, 3:5] = 1
    model = Asso(5, threshold=0.8).fit(table)
    np.testing.assert_array_equal(model.components_, [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0]])
    np.testing.assert_array_equal(model.row_factors_[:, 0], [1, 1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(model.inverse_transform(), table)


def test_asso_weights():
    """A tile with one zero in four is worth it only while zeros are cheap."""
    table = [[1, 1], [1, 1], [1, 0]]
    full = Asso(1, threshold=0.5, bonus=1, penalty=0.5).fit(table)
    np.testing.assert_array_equal(full.inverse_transform(), [[1, 1], [1, 1], [1, 1]])
    strict = Asso(1, threshold=0.5, bonus=1, penalty=3).fit(table)
    np.testing.assert_array_equal(strict.inverse_transform(), [[1, 1], [1, 1], [0, 0]])


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_asso_against_its_definition(share):
    """The greedy choice, candidate by candidate and row by row; dense and sparse."""
    seen = make_boolean(30, 20, 3, flip=0.1, observed=share, random_state=1).observations
    model = Asso(3, threshold=0.52)
    X, Y = model._greedy(seen, 3, 0.52)
    weight = np.nan_to_num(
        np.where(seen.to_dense() == 1, 1.0, np.where(seen.to_dense() == 0, -1, 0))
    )
    candidates = confidences(seen) >= np.float32(0.52)
    for k in range(Y.shape[0]):
        gains = [sum(max(0, row[c].sum()) for row in weight) for c in candidates]
        taken = np.maximum(weight[:, Y[k].astype(bool)].sum(axis=1), 0).sum()
        assert taken == pytest.approx(max(gains))
        weight[np.ix_(X[:, k].astype(bool), Y[k].astype(bool))] = 0


def test_asso_thresholds():
    planted = make_boolean(80, 60, 3, random_state=0)
    model = Asso(3, random_state=0).fit(planted.observations)
    assert model.threshold_ in PAPER_THRESHOLDS
    given = Asso(3, threshold=(0.7, 0.9), random_state=0).fit(planted.observations)
    assert given.threshold_ in (0.7, 0.9)


def test_grecond_by_hand():
    """The example of Belohlavek and Vychodil's kind: concepts, the largest first."""
    table = np.array([[1, 1, 0, 0, 0], [1, 1, 0, 0, 1], [1, 1, 1, 1, 0], [0, 0, 1, 1, 1]])
    model = GreConD(10).fit(table)
    np.testing.assert_array_equal(model.components_[0], [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(model.row_factors_[:, 0], [1, 1, 1, 0])
    np.testing.assert_array_equal(model.components_[1], [0, 0, 1, 1, 0])
    np.testing.assert_array_equal(model.inverse_transform(), table)


@pytest.mark.parametrize("seed", range(5))
def test_grecond_covers_all_ones_and_no_zero(seed):
    table = (np.random.default_rng(seed).random((25, 70)) < 0.3).astype(int)
    for k in (1, 4, 100):
        product = GreConD(k).fit(table).inverse_transform()
        assert not (product & (1 - table)).any()
    np.testing.assert_array_equal(product, table)


def test_grecond_gains_against_sets():
    rng = np.random.default_rng(0)
    table, left = rng.random((12, 9)) < 0.6, rng.random((12, 9)) < 0.4
    extent = rng.random(12) < 0.8
    intent = table[extent].all(axis=0)
    gains = concept_gains(pack(table), pack(left), extent, intent)
    for j in range(9):
        rows = extent & table[:, j]
        columns = table[rows].all(axis=0)
        assert gains[j] == (0 if intent[j] or not rows.any() else left[np.ix_(rows, columns)].sum())


def test_grecond_and_holes():
    """A hole inside a tile: as a zero it parts the tile, as a one it does not."""
    table = np.kron(np.eye(2), np.ones((6, 6)))
    table[0, 0] = NAN
    assert GreConD(2, missing="one").fit(table).predict([0], [0]) == 1
    assert GreConD(1, missing="zero").fit(table).predict([0], [0]) == 0
    assert GreConD(2, random_state=0).fit(table).missing_ == "one"


def test_rates():
    X, Y = np.array([[1]], np.uint8), np.array([[1, 1, 0]], np.uint8)
    check = Triplets(np.zeros(3, int), np.arange(3), np.array([1, 0, 0], np.uint8))
    assert rates_of(X, Y, check) == (1 / 3, 0.5)


# ---------------------------------------------------------------- bias


def test_bias_against_logistic_regression():
    """Our strength counts squares once, scikit-learn's 1/(2C) times."""
    seen = make_boolean(12, 9, 2, flip=0.2, observed=0.8, random_state=0).observations
    model = BiasModel(regularization=0.5).fit(seen)
    one_hot = np.zeros((seen.n_observed, 21))
    one_hot[np.arange(seen.n_observed), seen.rows_of_entries()] = 1
    one_hot[np.arange(seen.n_observed), 12 + seen.indices] = 1
    peer = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(one_hot, seen.values)
    np.testing.assert_allclose(model.row_logits_, peer.coef_[0][:12], atol=1e-3)
    np.testing.assert_allclose(model.column_logits_, peer.coef_[0][12:], atol=1e-3)
    assert model.intercept_ == pytest.approx(peer.intercept_[0], abs=1e-3)


def test_bias_gradient():
    seen = make_boolean(6, 5, 2, random_state=0).observations
    at = np.random.default_rng(0).normal(size=12)
    arguments = (entries_of(seen), seen.shape, 0.3)
    gradient = bias.loss_and_gradient(at, *arguments)[1]
    np.testing.assert_allclose(
        gradient, numerical(lambda x: bias.loss_and_gradient(x, *arguments)[0], at), atol=1e-5
    )


def test_bias_hessian():
    """The product with the Hessian is the change of the gradient."""
    seen = make_boolean(6, 5, 2, observed=0.7, random_state=0).observations
    rng = np.random.default_rng(0)
    at, along = rng.normal(size=12), rng.normal(size=12)
    rows, columns = seen.rows_of_entries(), seen.indices
    p = 1 / (1 + np.exp(-(at[0] + at[1:7][rows] + at[7:][columns])))
    weights = csr_array((p * (1 - p), columns, seen.indptr), shape=seen.shape)
    diagonal, product = bias._hessian(weights, 0.3)

    def gradient(x):
        return bias.loss_and_gradient(x, entries_of(seen), seen.shape, 0.3)[1]

    change = (gradient(at + 1e-5 * along) - gradient(at - 1e-5 * along)) / 2e-5
    np.testing.assert_allclose(product(along), change, atol=1e-6)
    np.testing.assert_allclose(diagonal, [product(e)[i] for i, e in enumerate(np.eye(12))])


@pytest.mark.parametrize("strength", ["auto", 0.0, 0.03, 10.0])
def test_bias_ends_where_the_gradient_vanishes(strength):
    """Whatever it started from; without regularization too, where some rows have no optimum."""
    seen = make_boolean(200, 80, 3, observed=0.05, flip=0.1, random_state=0).observations
    model = BiasModel(strength, random_state=0).fit(seen)
    logits = np.concatenate([[model.intercept_], model.row_logits_, model.column_logits_])
    gradient = bias.loss_and_gradient(
        logits, entries_of(seen), seen.shape, model.regularization_
    )[1]  # fmt: skip
    assert np.abs(gradient).max() < 1e-4


# ---------------------------------------------------------------- generalized low rank models


def numerical(function, at, step=1e-6):
    unit = np.eye(len(at)) * step
    return np.array([(function(at + e) - function(at - e)) / (2 * step) for e in unit])


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_loss_slopes(kind):
    for target in (0.0, 2.0, 4.0) if kind == 3 else (-1.0, 1.0):
        for v in np.linspace(-3, 6, 37) + 0.013:
            slope = glrm.loss_of(kind, v, target, 5)[1]
            above, below = (glrm.loss_of(kind, v + h, target, 5)[0] for h in (1e-6, -1e-6))
            assert slope == pytest.approx((above - below) / 2e-6, abs=1e-4)


def test_losses_by_hand():
    corner = glrm.CORNER / 2
    assert glrm.loss_of(glrm.QUADRATIC, 0.5, 1.0, 2)[0] == 0.25
    assert glrm.loss_of(glrm.LOGISTIC, 0.0, 1.0, 2)[0] == pytest.approx(np.log(2))
    assert glrm.loss_of(glrm.HINGE, -1.0, 1.0, 2)[0] == pytest.approx(2 - corner)
    assert glrm.loss_of(glrm.HINGE, 1.5, 1.0, 2)[0] == 0
    # level 3 of 0..4 at score 1: too low by 2 against level 2, 1 against level 1
    assert glrm.loss_of(glrm.ORDINAL, 1.0, 3.0, 5)[0] == pytest.approx(3 - 2 * corner)
    assert glrm.loss_of(glrm.ORDINAL, 3.0, 3.0, 5)[0] == 0


@pytest.mark.parametrize("size", [1.0, 8.0, 40.0])
@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_losses_of_a_row(kind, size):
    """The same as entry by entry, to the last digits of however small a sum."""
    rng = np.random.default_rng(0)
    n = 1300  # several products of the logistic loss
    targets = rng.integers(0, 5, n).astype(float) if kind == 3 else rng.choice([-1.0, 1.0], n)
    fixed, linear = np.full(n, 0.01), size * targets * (1 + rng.random(n))
    slopes = np.zeros(n)
    total = glrm.losses_of_row(kind, 5, n, fixed, linear, targets, slopes)
    each = [glrm.loss_of(kind, v, t, 5) for v, t in zip(fixed + linear, targets, strict=True)]
    assert total == pytest.approx(sum(loss for loss, _ in each), rel=1e-11, abs=0)
    np.testing.assert_allclose(slopes, [slope for _, slope in each], rtol=1e-11, atol=1e-300)


def plain_objective(kind, seen, targets, own, other, strength):
    """Of one row: its losses and its regularization, entry by entry."""
    scores = 0.3 + own[-1] + other[seen, -1] + other[seen, :-1] @ own[:-1]
    losses = [glrm.loss_of(kind, v, t, 5)[0] for v, t in zip(scores, targets, strict=True)]
    return sum(losses) + strength * own @ own


@pytest.mark.parametrize("offset", [True, False])
@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_steps_of_a_row(kind, offset):
    """A proximal step along the numerical gradient, halved until it helps, and its objective."""
    rng = np.random.default_rng(kind)
    other, own, strength, step = rng.normal(size=(8, 4)), rng.normal(size=4), 0.2, 2.0
    own[-1] *= offset
    seen = np.array([0, 2, 3, 7])
    targets = rng.integers(0, 5, 4).astype(float) if kind == 3 else rng.choice([-1.0, 1.0], 4)
    expected = own.copy()
    for _ in range(3):
        slope = numerical(
            lambda u: plain_objective(kind, seen, targets, u, other, 0.0), expected
        )  # fmt: skip
        slope[-1] *= offset
        before = plain_objective(kind, seen, targets, expected, other, strength)
        while True:
            trial = (expected - step * slope) / (1 + 2 * step * strength)
            if plain_objective(kind, seen, targets, trial, other, strength) < before:
                break
            step *= glrm.SHRINK
        expected, step = trial, step * glrm.GROW
    factor, steps = own[None].copy(), np.array([2.0])
    value = glrm.improve_factor(
        kind, glrm.Targets(np.array([0, 4]), seen, targets, 5), 0.3, offset, factor, other,
        strength, steps, 3,
    )  # fmt: skip
    np.testing.assert_allclose(factor[0], expected, atol=1e-5)
    assert value == pytest.approx(
        plain_objective(kind, seen, targets, expected, other, strength), abs=1e-5
    )
    assert steps[0] == pytest.approx(step)


def test_quadratic_glrm_is_a_soft_thresholded_svd():
    """min |A − UVᵀ|² + γ(|U|² + |V|²): singular values of A less γ."""
    table = (np.random.default_rng(0).random((20, 15)) < 0.5).astype(int)
    strength = 2.0
    model = GLRM(
        6, loss="quadratic", regularization=strength, offset=False, max_iter=3000, tol=1e-12,
        random_state=0,
    ).fit(table)  # fmt: skip
    s = np.linalg.svd(2.0 * table - 1, compute_uv=False)
    left = np.maximum(s[:6] - strength, 0)
    expected = np.sum((s[:6] - left) ** 2) + np.sum(s[6:] ** 2) + 2 * strength * left.sum()
    assert model.objective_ == pytest.approx(expected, rel=1e-4)
    product = model.row_factors_ @ model.column_factors_.T
    np.testing.assert_allclose(np.linalg.svd(product, compute_uv=False)[:6], left, atol=0.1)


def test_hinge_rows_against_a_support_vector_machine():
    """With one factor fixed every row is a linear support vector machine."""
    rng = np.random.default_rng(0)
    other = np.hstack([rng.normal(size=(60, 3)), np.zeros((60, 1))])
    bits = (other[:, :3] @ [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=60) > 0).astype(int)
    targets = 2.0 * bits - 1
    own, steps = np.zeros((1, 4)), np.ones(1) / 60
    goal = glrm.Targets(np.array([0, 60]), np.arange(60), targets, 2)
    for _ in range(300):
        value = glrm.improve_factor(glrm.HINGE, goal, 0.0, False, own, other, 0.5, steps, 5)
    peer = LinearSVC(loss="hinge", C=1.0, fit_intercept=False, tol=1e-8, max_iter=200_000)
    w = peer.fit(other[:, :3], bits).coef_[0]
    expected = np.maximum(0, 1 - targets * (other[:, :3] @ w)).sum() + 0.5 * w @ w
    assert value == pytest.approx(expected, abs=60 * glrm.CORNER / 2)
    assert value <= expected + 1e-6  # the rounded corner only lowers it


def test_glrm_objective_falls():
    seen = load_senate(107).observations.hide(0.9, 0)[0]
    values = [
        GLRM(2, regularization=1.0, offset=False, max_iter=n, tol=0, random_state=0)
        .fit(seen).objective_
        for n in (1, 2, 5, 20)
    ]  # fmt: skip
    assert values == sorted(values, reverse=True)


def test_ordinal_ratings():
    """Ratings 1 to 5 from one factor; bits are ratings above 3."""
    rng = np.random.default_rng(0)
    ratings = np.clip(np.round(3 + np.outer(rng.normal(size=40), rng.normal(size=30)) * 1.5), 1, 5)
    kept, rows, columns, values = Observations.from_data((ratings > 3).astype(int)).hide(0.3, 0)
    given = ratings[kept.rows_of_entries(), kept.indices]
    model = GLRM(2, loss="ordinal", regularization=0.1, random_state=0).fit(kept, ratings=given)
    assert model.cut_ == 2.5 and model.n_levels_ == 5
    assert accuracy(values, model.predict(rows, columns)) > 0.9
    with pytest.raises(ValueError, match="one for each observed entry"):
        model.fit(kept, ratings=given[:-1])
    with pytest.raises(ValueError, match='loss="ordinal"'):
        GLRM(2).fit(kept, ratings=given)


def test_platt_recovers_log_odds():
    rng = np.random.default_rng(0)
    score = rng.normal(size=20_000)
    values = (rng.random(20_000) < 1 / (1 + np.exp(-(2 * score - 1)))).astype(np.uint8)
    a, b = platt(score, values)
    assert a == pytest.approx(2, abs=0.1) and b == pytest.approx(-1, abs=0.1)


# ---------------------------------------------------------------- 1-bit completion


def test_simplex_cut_by_hand():
    assert one_bit.simplex_cut(np.array([3.0, 1.0]), 5.0) == 0
    assert one_bit.simplex_cut(np.array([3.0, 1.0]), 2.0) == 1
    assert one_bit.simplex_cut(np.array([3.0, 2.0]), 3.0) == 1


@pytest.mark.parametrize("shape", [(20, 15), (15, 20), (220, 180)])
def test_one_bit_optimality(shape):
    """At the optimum on the ball, −⟨gradient, Q⟩ = radius · largest singular value of it."""
    seen = make_boolean(*shape, 2, flip=0.1, observed=0.6, random_state=0).observations
    model = OneBitCompletion(0.5, max_iter=3000, tol=1e-10, random_state=0).fit(seen)
    radius = 0.5 * np.sqrt(shape[0] * shape[1])
    q = model.left_ @ model.right_.T
    assert np.linalg.svd(q, compute_uv=False).sum() == pytest.approx(radius, rel=1e-6)
    rows = seen.rows_of_entries()
    p = model.predict_proba(rows, seen.indices)
    gradient = np.zeros(shape)
    gradient[rows, seen.indices] = p - seen.values
    largest = np.linalg.svd(gradient, compute_uv=False)[0]
    assert -(gradient * q).sum() == pytest.approx(radius * largest, rel=2e-3)


def test_leading_triples_are_those_of_the_matrix():
    from scipy.sparse import random_array

    rng = np.random.default_rng(0)
    sparse = random_array((200, 180), density=0.05, rng=rng).tocsr() * 0.1
    point = one_bit.LowRank(rng.normal(size=(200, 3)), rng.normal(size=(180, 3)))
    s = one_bit.leading(sparse, point, np.zeros((180, 0)), 3, rng)[1]
    dense = sparse.toarray() + point.left @ point.right.T
    np.testing.assert_allclose(s, np.linalg.svd(dense, compute_uv=False)[:3], rtol=1e-6)
    np.testing.assert_allclose(
        one_bit.all_triples(dense[:50])[1], np.linalg.svd(dense[:50], compute_uv=False), atol=1e-5
    )


def test_orthonormal():
    rng = np.random.default_rng(0)
    block = rng.normal(size=(40, 6)) * 10.0 ** np.arange(6)
    q = one_bit.orthonormal(one_bit.orthonormal(block))
    np.testing.assert_allclose(q.T @ q, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(q @ (q.T @ block), block, rtol=1e-6, atol=1e-6)
    dependent = np.hstack([block[:, :2], np.zeros((40, 1))])
    q = one_bit.orthonormal(dependent)
    np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-12)


# ---------------------------------------------------------------- none is a straw man


def test_defaults_on_votes():
    """What a tenth of the votes held out chooses is not worse than the paper's settings."""
    kept, rows, columns, values = load_senate(107).observations.take_rows(slice(250)).hide(0.8, 0)

    def error(model):
        return 1 - accuracy(values, model.fit(kept).predict(rows, columns))

    assert error(BiasModel(random_state=0)) < error(Majority())
    assert error(GLRM(random_state=0)) < 0.13
    assert error(OneBitCompletion(random_state=0)) < error(OneBitCompletion(1.0, random_state=0))
    hinge = error(GLRM(loss="hinge", random_state=0))
    paper = GLRM(2, loss="hinge", regularization=1.0, offset=False, random_state=0)
    assert hinge < error(paper) + 0.01
    assert error(Asso(random_state=0)) < error(Majority())
    assert error(GreConD(random_state=0)) < error(Majority())
