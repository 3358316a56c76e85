"""Cognitive diagnosis: exact likelihood by enumeration, recovery, given Q-matrices, bad input."""

import itertools

import numpy as np
import pytest

from boolweave.diagnosis import CognitiveDiagnosis

Q = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]] * 4 + [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=int
)


def able(skills, q, rule):
    shared = skills @ q.T
    return shared > 0 if rule == "dino" else shared == q.sum(axis=1)


def simulated(rule, seed=0, n=800, q=Q, missing=0.0):
    random = np.random.default_rng(seed)
    skills = random.integers(0, 2, (n, q.shape[1]))
    slip, guess = random.uniform(0.05, 0.3, (2, len(q)))
    right = random.random((n, len(q))) < np.where(able(skills, q, rule), 1 - slip, guess)
    answers = np.where(random.random(right.shape) < missing, np.nan, right)
    return skills, slip, guess, answers


def matched(model, q=Q):
    """The order of the fitted skills that agrees best with a Q-matrix."""
    orders = itertools.permutations(range(q.shape[1]))
    return list(min(orders, key=lambda order: np.sum(model.q_[:, list(order)] != q)))


@pytest.mark.parametrize("rule", ["dino", "dina"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_q_matrix_and_the_skills_are_recovered(rule, missing):
    skills, slip, guess, answers = simulated(rule, missing=missing)
    model = CognitiveDiagnosis(3, rule=rule, random_state=0).fit(answers)
    order = matched(model)
    np.testing.assert_array_equal(model.q_[:, order], Q)
    assert np.mean(model.skills_[:, order] == skills) > 0.85
    assert np.abs(model.slip_ - slip).mean() < 0.05
    assert np.abs(model.guess_ - guess).mean() < 0.05
    assert model.q_probability_[:, order][Q == 1].min() > 0.5


@pytest.mark.parametrize("rule", ["dino", "dina"])
def test_the_likelihood_is_that_of_all_profiles(rule):
    _, _, _, answers = simulated(rule, n=30, missing=0.1)
    model = CognitiveDiagnosis(3, rule=rule, random_state=0, tol=0.0, max_iter=3000).fit(answers)
    total, skill = 0.0, np.zeros((30, 3))
    for i, line in enumerate(answers):
        weights = []
        for profile, frequency in zip(model.profiles_, model.profile_frequency_, strict=True):
            p = np.where(
                able(profile[None].astype(int), model.q_.astype(int), rule)[0],
                1 - model.slip_,
                model.guess_,
            )
            given = ~np.isnan(line)
            weights.append(frequency * np.prod(np.where(line == 1, p, 1 - p)[given]))
        total += np.log(sum(weights))
        skill[i] = np.array(weights) @ model.profiles_ / sum(weights)
    assert model.log_likelihood_ == pytest.approx(total, abs=0.02)
    np.testing.assert_allclose(model.transform(answers), skill, atol=1e-9)
    np.testing.assert_allclose(model.skill_probability_, skill, atol=0.01)
    n_numbers = 2 * len(Q) + 7
    assert model.aic_ == pytest.approx(2 * n_numbers - 2 * model.log_likelihood_)
    assert model.bic_ == pytest.approx(n_numbers * np.log(30) - 2 * model.log_likelihood_)


def test_a_given_q_matrix_is_kept_and_a_partly_given_one_completed():
    _, _, _, answers = simulated("dina")
    given = CognitiveDiagnosis(q=Q, rule="dina", random_state=0).fit(answers)
    np.testing.assert_array_equal(given.q_, Q)
    part = Q.astype(float)
    part[6:] = np.nan
    found = CognitiveDiagnosis(q=part, rule="dina", random_state=0).fit(answers)
    np.testing.assert_array_equal(found.q_, Q)
    free = CognitiveDiagnosis(3, rule="dina", random_state=0).fit(answers)
    assert free.log_likelihood_ >= given.log_likelihood_ - 1


def test_the_number_of_skills_is_chosen():
    _, _, _, answers = simulated("dina", n=1500)
    model = CognitiveDiagnosis(rule="dina", random_state=0).fit(answers)
    assert model.n_skills_ == 3
    assert model.get_feature_names_out().tolist() == ["skill1", "skill2", "skill3"]


def test_new_people_are_predicted():
    _, _, _, answers = simulated("dina", n=1000)
    model = CognitiveDiagnosis(3, rule="dina", random_state=0).fit(answers[:800])
    hidden = answers[800:].copy()
    hidden[:, ::4] = np.nan
    chance = model.predict_proba(hidden)[:, ::4]
    truth = answers[800:, ::4]
    loss = -np.mean(np.log(np.where(truth == 1, chance, 1 - chance)))
    mean = answers[:800, ::4].mean(axis=0)
    assert loss < -np.mean(np.log(np.where(truth == 1, mean, 1 - mean))) - 0.03
    with pytest.raises(ValueError, match="expected 16 items, got 3"):
        model.transform(answers[:, :3])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_skills": 0}, "n_skills must be"),
        ({"n_skills": 13}, "n_skills must be"),
        ({"n_skills": True}, "n_skills must be"),
        ({"rule": "dinx"}, "rule must be"),
        ({"q": np.ones((3, 2))}, "q must have a line for each of 16 items"),
        ({"q": Q, "n_skills": 2}, "q has 3 skills, but n_skills is 2"),
        ({"q": Q * 2}, "q must hold 0, 1 and NaN"),
        ({"q": Q * 0}, "item 1 needs no skill"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    _, _, _, answers = simulated("dina", n=20)
    with pytest.raises(ValueError, match=message):
        CognitiveDiagnosis(**parameters).fit(answers)


def test_no_answers_are_refused():
    with pytest.raises(ValueError, match="expected at least one answer"):
        CognitiveDiagnosis(2).fit(np.full((3, 4), np.nan))
