"""Group testing: probabilities against enumeration, sets, designs, rules, bad input."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from decoding_reference import enumerate_words, random_tree
from hypothesis import given, settings
from hypothesis import strategies as st

from boolweave.decoding import (
    comp,
    definite_defectives,
    design_pools,
    group_testing,
    pools_to_matrix,
    scomp,
    simulate,
)
from boolweave.metrics import expected_calibration_error


def draw(design, prevalence, sensitivity, specificity, n_columns, seed=0):
    rng = np.random.default_rng(seed)
    truth = (rng.random((design.shape[1], n_columns)) < prevalence).astype(np.uint8)
    pools = design.astype(int) @ truth > 0
    chance = np.where(pools, sensitivity, 1 - specificity)
    return truth, (rng.random(pools.shape) < chance).astype(float)


# ---------------------------------------------------------------- exactness


@given(seed=st.integers(0, 10**6), errs=st.booleans())
@settings(max_examples=50)
def test_trees_are_exact(seed, errs):
    rng = np.random.default_rng(seed)
    design = random_tree(rng)
    n_pools, n_items = design.shape
    prevalence = rng.random(n_items)
    prevalence[rng.random(n_items) < 0.2] = rng.integers(0, 2)
    sens, spec = rng.uniform(0.5, 1, (2, n_pools)) if errs else np.ones((2, n_pools))
    truth = rng.random(n_items) < prevalence
    positive = design @ truth > 0
    outcomes = (rng.random(n_pools) < np.where(positive, sens, 1 - spec)).astype(float)
    outcomes[rng.random(n_pools) < 0.2] = np.nan
    seen = np.stack(
        [np.where(outcomes == 1, 1 - spec, spec), np.where(outcomes == 1, sens, 1 - sens)]
    )
    seen[:, np.isnan(outcomes)] = 1.0
    wanted, _ = enumerate_words(design, prevalence, seen.T, "or")
    found = group_testing(design, outcomes, prevalence, sens, spec, tol=1e-6)
    assert found.converged
    np.testing.assert_allclose(found.probabilities, 1 / (1 + np.exp(-wanted)), atol=2e-5)


def test_the_most_likely_set_against_enumeration():
    design = design_pools(11, 7, pools_per_item=3, random_state=0)
    _, outcomes = draw(design, 0.15, 0.9, 0.9, 12)
    found = group_testing(design, outcomes, 0.15, 0.9, 0.9)
    words = np.array(list(itertools.product((0, 1), repeat=11))).T
    covered = design.astype(int) @ words > 0
    for column in range(12):
        one = outcomes[:, column, None] == 1
        chance = np.where(one, np.where(covered, 0.9, 0.1), np.where(covered, 0.1, 0.9))
        score = np.log(chance).sum(axis=0) + words.sum(axis=0) * np.log(0.15 / 0.85)
        mine = found.most_likely[:, column]
        at = int(np.flatnonzero((words == mine[:, None]).all(axis=0))[0])
        assert score[at] == pytest.approx(score.max())


# ---------------------------------------------------------------- what users get


@pytest.fixture(scope="module")
def problem():
    design = design_pools(200, 60, prevalence=0.02, random_state=1)
    truth, outcomes = draw(design, 0.02, 0.95, 0.99, 150)
    return design, truth, outcomes, group_testing(design, outcomes, 0.02, 0.95, 0.99)


def test_better_than_the_rules(problem):
    design, truth, outcomes, found = problem
    assert found.converged.mean() > 0.95
    mine = (found.positive != truth).sum(axis=0)
    for rule in (comp, definite_defectives, scomp):
        theirs = (rule(design, outcomes) != truth).sum(axis=0)
        assert mine.mean() < theirs.mean()
        assert (mine == 0).mean() > (theirs == 0).mean()


def test_probabilities_mean_what_they_say(problem):
    _, truth, _, found = problem
    assert expected_calibration_error(truth.ravel(), found.probabilities.ravel()) < 0.01
    wrong = (found.positive != truth).sum(axis=0)
    assert found.expected_errors.mean() == pytest.approx(wrong.mean(), rel=0.35)
    report = found.at(0.2)
    above = found.probabilities >= 0.2
    assert report.expected_missed.mean() == pytest.approx((truth & ~above).sum() / 150, rel=0.35)
    assert report.expected_false.mean() == pytest.approx((~truth & 1 & above).sum() / 150, rel=0.35)


def test_one_column_is_the_batch_of_one(problem):
    design, _, outcomes, found = problem
    one = group_testing(design, outcomes[:, 7], 0.02, 0.95, 0.99)
    np.testing.assert_array_equal(one.probabilities, found.probabilities[:, 7])
    np.testing.assert_array_equal(one.items, found.items[7])
    assert isinstance(one.expected_errors, float) and isinstance(one.converged, bool)
    np.testing.assert_array_equal(one.at(0.3).items, found.at(0.3).items[7])
    np.testing.assert_array_equal(one.retest(5), found.retest(5)[7])
    assert isinstance(one.at(0.3).expected_missed, float)
    two = group_testing(design, outcomes, 0.02, 0.95, 0.99, n_jobs=2)
    np.testing.assert_array_equal(two.probabilities, found.probabilities)
    np.testing.assert_array_equal(two.positive, found.positive)


def test_retest_names_the_doubtful(problem):
    found = problem[3]
    for column in range(3):
        doubt = np.minimum(found.probabilities, 1 - found.probabilities)[:, column]
        if (found.positive[:, column] == (found.probabilities[:, column] > 0.5)).all():
            order = found.retest(4)[column]
            np.testing.assert_allclose(doubt[order], np.sort(doubt)[::-1][:4])
    assert len(found.retest(0)[0]) == 0


def test_the_prevalence_is_learned(problem):
    design, truth, outcomes, _ = problem
    found = group_testing(design, outcomes, "learn", 0.95, 0.99)
    assert found.prevalence == pytest.approx(truth.mean(), rel=0.2)
    nobody = group_testing(design, np.zeros(60), "learn", 0.95, 0.99)
    assert nobody.prevalence < 1e-3 and len(nobody.items) == 0


def test_designs_in_any_form():
    lists = [[0, 1, 2], [3, 4, 5], [0, 3], [1, 4], [2, 5]]
    matrix = pools_to_matrix(lists)
    outcomes = [1, 0, 0, 1, 0]
    wanted = group_testing(matrix, outcomes, 0.1).probabilities
    forms = (lists, tuple(map(tuple, lists)), matrix.toarray(), matrix.toarray().tolist(),
             scipy.sparse.csc_matrix(matrix), matrix.toarray().astype(bool))  # fmt: skip
    for form in forms:
        np.testing.assert_array_equal(group_testing(form, outcomes, 0.1).probabilities, wanted)
    more = group_testing(lists, outcomes, 0.1, n_items=8).probabilities
    np.testing.assert_allclose(more, [*wanted, 0.1, 0.1], rtol=1e-5)
    np.testing.assert_array_equal(
        group_testing(lists, outcomes, np.full(8, 0.1)).probabilities, more
    )


def test_dilution_and_single_tests():
    pools = [[0, 1, 2, 3], [0], [1, 2]]
    by_function = group_testing(pools, [1, 0, 1], 0.1, sensitivity=lambda size: 1 - 0.05 * size)
    by_array = group_testing(pools, [1, 0, 1], 0.1, sensitivity=[0.8, 0.95, 0.9])
    np.testing.assert_array_equal(by_function.probabilities, by_array.probabilities)
    alone = group_testing([[0], [1, 2, 3]], [1, np.nan], 0.1, 0.9, 0.95)
    np.testing.assert_allclose(
        alone.probabilities, [0.09 / (0.09 + 0.9 * 0.05), 0.1, 0.1, 0.1], rtol=1e-3
    )


def test_known_items():
    found = group_testing([[0, 1, 2]], [1], [0.0, 0.2, 1.0], 0.9, 0.9)
    np.testing.assert_allclose(found.probabilities, [0, 0.2, 1], rtol=1e-5)
    np.testing.assert_array_equal(found.items, [2])


def test_without_errors_the_answer_is_certain():
    found = group_testing([[0, 1, 2], [3, 4], [0, 3], [1, 4], [2, 3]], [1, 0, 0, 1, 0], 0.01)
    np.testing.assert_allclose(found.probabilities, [0, 1, 0, 0, 0], atol=1e-9)
    assert found.expected_errors < 1e-9


# ---------------------------------------------------------------- rules


def test_rules_by_hand():
    pools = [[0, 1, 2], [2, 3], [3, 4], [0, 4]]
    outcomes = [1, 0, 0, 1]
    np.testing.assert_array_equal(comp(pools, outcomes), [1, 1, 0, 0, 0])
    np.testing.assert_array_equal(definite_defectives(pools, outcomes), [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(scomp(pools, outcomes), [1, 0, 0, 0, 0])
    # DD finds nobody, SCOMP takes the item that explains both pools
    pools = [[0, 1], [1, 2], [3, 4]]
    np.testing.assert_array_equal(definite_defectives(pools, [1, 1, 0]), 0)
    np.testing.assert_array_equal(scomp(pools, [1, 1, 0]), [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(comp(pools, [1, np.nan, 0]), [1, 1, 1, 0, 0])
    both = scomp(pools, np.array([[1, 0], [1, 1], [0, 0]]))
    np.testing.assert_array_equal(both, [[0, 0], [1, 0], [0, 1], [0, 0], [0, 0]])


@given(seed=st.integers(0, 10**6))
@settings(max_examples=25)
def test_rules_without_errors(seed):
    rng = np.random.default_rng(seed)
    design = design_pools(40, 15, pools_per_item=4, random_state=rng)
    truth, outcomes = draw(design, 0.05, 1, 1, 6, seed)
    assert (comp(design, outcomes) >= truth).all()  # misses nobody
    assert (definite_defectives(design, outcomes) <= truth).all()  # no false alarm
    covered = design.astype(int) @ scomp(design, outcomes) > 0
    np.testing.assert_array_equal(covered, outcomes == 1)  # explains everything


# ---------------------------------------------------------------- designs


@given(
    items=st.integers(1, 80),
    pools=st.integers(1, 30),
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_constant_designs(items, pools, share, seed):
    weight = 1 + int(share * (pools - 1))
    design = design_pools(items, pools, pools_per_item=weight, random_state=seed)
    assert design.shape == (pools, items) and design.dtype == np.uint8
    assert (design.toarray().sum(axis=0) == weight).all()
    sizes = design.toarray().sum(axis=1)
    assert sizes.max() - sizes.min() <= 1


def test_designs_follow_the_prevalence():
    for kind in ("constant", "random"):
        design = design_pools(1000, 120, kind=kind, prevalence=0.01, random_state=0)
        _, outcomes = draw(design, 0.01, 1, 1, 400)
        assert outcomes.mean() == pytest.approx(0.5, abs=0.06)
    dense = design_pools(100, 50, kind="random", density=0.3, random_state=0)
    assert dense.toarray().mean() == pytest.approx(0.3, abs=0.03)
    again = design_pools(100, 50, kind="random", density=0.3, random_state=0)
    np.testing.assert_array_equal(dense.toarray(), again.toarray())


def test_simulation():
    design = design_pools(150, 60, prevalence=0.02, random_state=0)
    found = simulate(design, 0.02, 0.95, 0.99, trials=100, random_state=0)
    same = simulate(design, 0.02, 0.95, 0.99, trials=100, random_state=0, n_jobs=2)
    assert found == same
    assert set(found.baselines) == {"COMP", "DD", "SCOMP"}
    assert found.errors.exact > max(rule.exact for rule in found.baselines.values())
    assert found.errors.wrong < min(rule.wrong for rule in found.baselines.values())
    assert found.calibration_error < 0.02
    assert found.tests_per_item == 0.4 and found.trials == 100
    worse = simulate(design, 0.02, 0.7, 0.9, trials=100, random_state=0)
    assert worse.errors.wrong > found.errors.wrong


# ---------------------------------------------------------------- bad input

POOLS = [[0, 1, 2], [2, 3]]
INVERTED = {"outcomes": [1, 0], "sensitivity": 0, "specificity": 0}  # each test is wrong


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"design": [[0, 1], [1, 0]]}, "can be read as a 0/1 matrix and as lists"),
        ({"design": [0, 1]}, "got a list of single values"),
        ({"design": [[0, -1, 2], [1]]}, "item -1"),
        ({"design": [[0, 0, 3], [1]]}, "twice"),
        ({"design": [["a", "b"], ["c"]]}, "item numbers"),
        ({"design": [[], []]}, "no pool"),
        ({"design": np.array([[0, 2], [1, 1]])}, "only 0 and 1"),
        ({"n_items": 3}, "expected numbers from 0 to 2"),
        ({"design": np.eye(2), "n_items": 3}, "column for each of the 3 items"),
        ({"outcomes": [1, 0, 1]}, "one row for each pool"),
        ({"outcomes": [1, 2]}, "got 2.0 for pool 1"),
        ({"outcomes": ["yes", "no"]}, "0, 1 or NaN"),
        ({"outcomes": 1}, "shape"),
        ({"prevalence": 1.5}, "percentage"),
        ({"prevalence": "guess"}, "learn"),
        ({"prevalence": [0.1, 0.2]}, "expected numbers from 0 to 1"),
        ({"design": np.eye(2), "prevalence": [0.1, 0.2, 0.3]}, "one for each item"),
        ({"prevalence": "learn", "outcomes": [np.nan, np.nan]}, "needs outcomes"),
        ({"sensitivity": 1.2}, "sensitivity must be between 0 and 1"),
        ({"specificity": [0.9]}, "one for each pool"),
        ({"sensitivity": "x"}, "sensitivity must be between 0 and 1, got 'x'"),
        ({"sensitivity": lambda size: 1 - size}, "sensitivity must be between"),
        ({"sensitivity": 0.0, "outcomes": [1, 0]}, "outcome of pool 0 is impossible"),
        ({"outcomes": [0, 1], "prevalence": [0.1, 0.1, 0.1, 0.0]}, "certainly negative"),
        ({"outcomes": [0, 1], "prevalence": [1.0, 0.1, 0.1, 0.1]}, "prevalence 1"),
        (INVERTED | {"prevalence": [0.1, 0.1, 0.1, 0.0]}, "certainly negative"),
        (INVERTED | {"prevalence": [1.0, 0.1, 0.1, 0.1]}, "prevalence 1"),
        ({"max_iter": 0}, "max_iter"),
        ({"schedule": "x"}, "schedule"),
        ({"damping": 0}, "damping"),
    ],
)
def test_bad_input(change, says):
    given = {"design": POOLS, "outcomes": [1, 0], "prevalence": 0.1} | change
    with pytest.raises(ValueError, match=says):
        group_testing(**given)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"items": 0}, "items"),
        ({"pools": 2.5}, "pools"),
        ({"kind": "grid"}, "kind"),
        ({"prevalence": None}, "either prevalence or pools_per_item"),
        ({"pools_per_item": 2}, "either prevalence or pools_per_item"),
        ({"density": 0.5}, "density does not fit"),
        ({"kind": "random", "pools_per_item": 2}, "pools_per_item does not fit"),
        ({"kind": "random", "prevalence": None, "density": 0}, "density must be above 0"),
        ({"prevalence": 0}, "prevalence must lie between"),
        ({"prevalence": None, "pools_per_item": 6}, "from 1 to 5"),
    ],
)
def test_bad_designs(options, says):
    given = {"items": 10, "pools": 5, "prevalence": 0.1} | options
    with pytest.raises(ValueError, match=says):
        design_pools(**given)


@pytest.mark.parametrize("kind", [{"pools_per_item": 2**60}, {"kind": "random", "density": 0.1}])
def test_designs_beyond_memory(kind):
    with pytest.raises(
        MemoryError, match=r"a random design with .* takes .* of memory, but .* are free"
    ):
        design_pools(2**62, 2**61, **kind)


@pytest.mark.parametrize("prevalence", [1e-300, 1e-30, 1 - 1e-16])
def test_certain_outcomes_outweigh_any_uncertain_prior(prevalence):
    positive = prevalence < 0.5
    found = group_testing([[0], [1], [0, 1]], [positive] * 3, prevalence)
    assert found.most_likely.tolist() == [positive] * 2
    assert found.probabilities == pytest.approx([float(positive)] * 2, abs=1e-4)


def test_other_bad_input():
    found = group_testing(POOLS, [1, 0], 0.1)
    with pytest.raises(ValueError, match="threshold"):
        found.at(2)
    with pytest.raises(ValueError, match="negative"):
        found.retest(-1)
    with pytest.raises(ValueError, match="trials"):
        simulate(POOLS, 0.1, trials=0)
    with pytest.raises(ValueError, match="prevalence"):
        simulate(POOLS, [0.1, 0.2])


def test_a_pool_that_is_certainly_positive_needs_an_item():
    """Beliefs that have not converged say that every item is improbable."""
    pools = [[0, 1, 2], [0, 2, 3], [0, 1, 2], [0, 1, 2, 3]]
    options = {"sensitivity": 0.0, "specificity": 0.0, "schedule": "flooding", "damping": 1.0}
    found = group_testing(pools, np.zeros(4), 1e-300, n_items=4, **options)
    assert (found.probabilities < 1e-4).all()
    assert all(found.most_likely[pool].any() for pool in pools)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("schedule", np.ones((2, 2)), 'schedule must be "flooding" or "serial"'),
        ("sensitivity", object, "sensitivity must be between 0 and 1"),
    ],
)
def test_arrays_and_classes_are_no_options(option, value, message):
    with pytest.raises(ValueError, match=message):
        group_testing(np.eye(2), [1, 0], 0.1, **{option: value})
