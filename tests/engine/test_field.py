"""First beliefs: a field that fades."""

import engines as engine
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from trees import assert_same_log_odds, trees

from boolweave import BooleanMatrixFactorization, Channel
from boolweave.datasets import make_boolean
from boolweave.engine.backend import InitialBeliefs
from boolweave.model.model import Model


def problems(model, shape=(20, 15)):
    """The same problem with messages as floats and as integers."""
    seen = make_boolean(*shape, 3, random_state=0).observations
    return [
        engine.make_problem(seen, model, code=code)
        for code in (None, engine.quantization_for(model))
    ], seen


# ---------------------------------------------------------------- the field


def test_a_random_field_has_the_deviations_asked_for():
    field = InitialBeliefs.random((3000, 500), 4, (2.0, 5.0), 1e-3, np.random.default_rng(0))
    assert field.rows.shape == (3000, 4) and field.columns.shape == (4, 500)
    assert field.of_rows(slice(None)).std() == pytest.approx(2.0, rel=0.05)
    assert field.of_columns().std() == pytest.approx(5.0, rel=0.05)
    np.testing.assert_array_equal(field.part(slice(5, 9)).rows, field.rows[5:9])


def test_a_field_of_given_log_odds():
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(0, 3, (6, 2)), rng.normal(0, 9, (2, 5))
    field = InitialBeliefs.of_log_odds(rows, columns, 1e-3)
    np.testing.assert_allclose(field.of_rows(slice(None)), rows, atol=np.abs(rows).max() / 250)
    np.testing.assert_allclose(field.of_columns(), columns, atol=np.abs(columns).max() / 250)
    nothing = InitialBeliefs.of_log_odds(np.zeros((6, 2)), np.zeros((2, 5)), 1e-3)
    assert not nothing.rows.any() and not nothing.columns.any()


def test_a_field_fades_and_ends():
    field = InitialBeliefs.of_log_odds(np.full((2, 1), 8.0), np.full((1, 2), -2.0), 1.0)
    once = field.faded(0.5)
    np.testing.assert_allclose(once.of_rows(slice(None)), 4.0, rtol=1e-6)
    np.testing.assert_allclose(once.of_columns(), -1.0, rtol=1e-6)
    assert field.faded(1.0) is None
    assert once.faded(0.5).faded(0.4) is not None  # 1.2 is left
    assert once.faded(0.5).faded(0.6) is None  # 0.8


@pytest.mark.parametrize("damping", [0.4, 0.8])
def test_beliefs_are_priors_sums_and_what_is_left_of_the_field(damping):
    model = Model(3, Channel.symmetric(0.1), row_prior=0.3)
    both, _ = problems(model)
    field = InitialBeliefs.random((20, 15), 3, (4.0, 6.0), 1e-3, np.random.default_rng(1))
    for problem in both:
        state = engine.init_from(problem, field)
        for t in range(6):
            left = (1 - damping) ** t
            to_row, to_column = engine.messages_of(problem, state)
            rows = np.repeat(np.arange(20), 15)  # all entries are observed
            of_rows, of_columns = np.zeros((20, 3)), np.zeros((15, 3))
            np.add.at(of_rows, rows, to_row)
            np.add.at(of_columns, np.tile(np.arange(15), 20), to_column)
            expected = problem.row_prior + of_rows + left * field.of_rows(slice(None))
            found = engine.beliefs(problem, state)
            np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-4)
            expected = problem.column_prior + of_columns.T + left * field.of_columns()
            np.testing.assert_allclose(found[1], expected, rtol=1e-4, atol=1e-4)
            engine.step(problem, state, damping)


def test_nothing_has_settled_while_a_field_is_left():
    both, seen = problems(Model(1, Channel.symmetric(0.1)))
    field = InitialBeliefs.of_log_odds(np.full((20, 1), 50.0), np.full((1, 15), 50.0), 1e-2)
    for problem in both:
        result = engine.run(problem, engine.init_from(problem, field), seen, tol=np.inf)
        assert 0.6**result.n_iter * 50 <= 1e-2 < 0.6 ** (result.n_iter - 1) * 50


@pytest.mark.filterwarnings("ignore")  # so small a tree may hold nothing but ones, or no factor
@settings(max_examples=60)
@given(
    tree=trees(hard=False),
    method=st.sampled_from(["max-sum", "sum-product"]),
    seed=st.integers(0, 99),
)
def test_the_estimator_is_exact_on_trees(tree, method, seed):
    """Also XOR, whose starts hold a pattern as the prior of the columns before they let it go."""
    exact = tree.exact()
    assume(np.isfinite(exact.best))
    model = BooleanMatrixFactorization(
        tree.shape[2], product=tree.product, method=method, noise=Channel(**tree.channel),
        row_prior=tree.row_prior, column_prior=tree.column_prior, random_state=seed, tol=0,
    ).fit(tree.seen)  # fmt: skip
    kind = "max" if method == "max-sum" else "marginal"
    for found, name in ((model.row_log_odds_, "row"), (model.column_log_odds_, "column")):
        assert_same_log_odds(found, getattr(exact, f"{name}_{kind}"), atol=2e-4)
