"""Warnings come when there is something to do about it, and what they advise helps."""

from __future__ import annotations

import warnings

import engines
import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import short
from boolweave import (
    BooleanCompletion,
    BooleanMatrixFactorization,
    Channel,
    Observations,
    cautions,
    complete,
)
from boolweave.cautions import DegenerateDataWarning
from boolweave.datasets import load_senate, load_zoo, make_boolean
from boolweave.engine import loop
from boolweave.engine.result import Ending, Result
from boolweave.fit import judging
from boolweave.fit.judging import share_changing
from boolweave.fit.learn import UninformativeWarning
from boolweave.functions import factorize
from boolweave.model.model import Model

NAN = float("nan")


# ---------------------------------------------------------------- changes of the decoded factors


@pytest.mark.parametrize("messages", ["uint8", "float32"])
@pytest.mark.parametrize("semiring", ["max-sum", "sum-product"])
def test_changes_are_counted(messages, semiring):
    """Step by step, against the bits themselves."""
    seen = make_boolean(40, 30, 3, flip=0.1, observed=0.7, random_state=1).observations
    model = Model(3, Channel.symmetric(0.1))
    code = engines.quantization_for(model) if messages == "uint8" else None
    problem = engines.make_problem(seen, model, code=code)
    state = engines.init(problem, np.random.default_rng(0))
    if semiring == "sum-product":
        engines.step(problem, state, 0.4)
        state = engines.to_sum_product(problem, state)

    def bits():
        return [belief > 0 for belief in engines.beliefs(problem, state)]

    counted, expected = [], []
    engines.step(problem, state, 0.4)
    for _ in range(30):
        before = bits()
        engines.step(problem, state, 0.4)
        counted.append(state.n_changed)
        pairs = zip(before, bits(), strict=True)
        expected.append(tuple(int(np.count_nonzero(a != b)) for a, b in pairs))
    assert counted == expected
    assert any(sum(pair) for pair in counted)


def test_history_of_changes(monkeypatch):
    seen = make_boolean(40, 30, 3, flip=0.1, random_state=1).observations
    totals = []
    iterate = loop.iterate

    def watched(backend, problem, at, *options):
        iterate(backend, problem, at, *options)
        totals.append(sum(at.state.n_changed))

    monkeypatch.setattr(loop, "iterate", watched)
    model = BooleanMatrixFactorization(3, method="max-sum", random_state=0).fit(seen)
    assert model.history_["changes"].tolist() == totals


def test_a_few_flickering_entries_are_no_news():
    """The first example of the README, whose messages never settle."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BooleanMatrixFactorization(3, random_state=0).fit(load_senate(107).observations)
    assert not model.converged_
    assert model.history_["changes"][-10:].sum() > 0


def test_factors_on_their_way_warn(monkeypatch):
    """And what the warning advises helps."""
    monkeypatch.setattr(judging, "FLICKER", 0.001)
    votes = load_senate(107).observations
    words = r'after 200 iterations.*`method="auto"` continues'
    with pytest.warns(ConvergenceWarning, match=words) as caught:
        one = BooleanMatrixFactorization(8, method="max-sum", random_state=1).fit(votes)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = BooleanMatrixFactorization(8, random_state=1).fit(votes)
    assert share_changing(other.result_) < share_changing(one.result_)
    votes, *hidden, values = votes.hide(0.2, random_state=0)  # to be filled
    with pytest.warns(ConvergenceWarning, match=r"Set `decimation=0\.1`"):
        undecided = factorize(votes, 8, objective="posterior", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decided = factorize(votes, 8, random_state=0, decimation=0.1)
    assert share_changing(decided) == 0
    right, before = (np.mean(r.predict(*hidden) == values) for r in (decided, undecided))
    assert right > before - 0.005


def test_too_few_iterations_and_what_helps():
    planted = make_boolean(40, 40, 3, flip=0.02, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Raise `max_iter`, which is 2"):
        BooleanMatrixFactorization(3, max_iter=2, random_state=0).fit(planted.observations)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BooleanMatrixFactorization(3, random_state=0).fit(planted.observations)
    assert np.mean(model.result_.Z != planted.Z) < 0.01


@pytest.mark.parametrize("failed", [False, True])
def test_too_little_time_and_what_helps(monkeypatch, failed):
    """A fit that has found nothing yet says so; another one, that it was not done."""
    monkeypatch.setattr(judging, "failed", lambda *_: failed)
    seen = Observations.from_data(np.ones((5, 5)))
    odds, history = np.ones((5, 1)), {"changes": np.full(10, 5.0)}
    model = Model(1, Channel.symmetric(0.1))
    result = Result(model, seen, odds, odds.T, 0.0, Ending.OUT_OF_TIME, 10, history, True)
    words = (
        "in time.*Raise `max_time`, which is 2 s" if failed else "Raise `max_time`, which is 2 s"
    )
    with pytest.warns(ConvergenceWarning, match=words):
        cautions.about_changes(result, BooleanMatrixFactorization(1, max_time=2))


# ---------------------------------------------------------------- nothing but noise


def noise_table():
    return np.random.default_rng(0).integers(0, 2, (30, 25))


def test_max_sum_that_fits_noise_advises_nothing():
    """More starts, fewer factors or other methods do not find anything in noise."""
    with pytest.warns(ConvergenceWarning, match=r"nothing but noise; the best ones are kept\.$"):
        BooleanMatrixFactorization(4, method="max-sum", random_state=0).fit(noise_table())


def test_a_number_of_factors_that_finds_nothing_and_what_helps(monkeypatch):
    short.shorten_searches(monkeypatch)
    noise = noise_table()
    constant = min(noise.sum(), (1 - noise).sum())
    words = r'better than a constant.*`n_components="auto"` finds out.*`objective="errors"`'
    with pytest.warns(UninformativeWarning, match=words) as caught:
        BooleanMatrixFactorization(10, n_init=2, random_state=0).fit(noise)
    assert len(caught) == 1
    with pytest.warns(UninformativeWarning, match="nothing but noise was found"):
        looked = BooleanMatrixFactorization("auto", n_init=2, random_state=0).fit(noise)
    assert np.count_nonzero(noise != looked.result_.Z) == constant
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explained = factorize(noise, 10, objective="errors", bound=False, random_state=0)
    assert explained.cost < constant


def test_uninformative_marginals_and_what_helps():
    """A tenth of the entries of the zoo is too little for eight factors."""
    kept, *hidden, values = load_zoo().observations.hide(0.9, random_state=0)
    given = {"decimation": 0.1, "n_init": 2, "random_state": 0}
    words = r'the answer is that of max-sum.*`n_components="auto"` looks for the number'
    with pytest.warns(UninformativeWarning, match=words):
        lost = BooleanMatrixFactorization(8, **given).fit(kept)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BooleanMatrixFactorization("auto", **given).fit(kept)
    before, right = (np.mean(m.predict(*hidden) == values) for m in (lost, model))
    assert right > before


# ---------------------------------------------------------------- certain, but impossible


@pytest.mark.parametrize(
    ("table", "given", "remedies"),
    [
        (
            np.zeros((5, 4)),
            {"n_components": 2, "row_prior": 1, "column_prior": 1, "noise": 0},
            [{"noise": 0.01}, {"row_prior": 0.5}],
        ),
        (
            np.zeros((5, 4)),
            {
                "n_components": 2, "row_prior": np.ones((5, 2)), "column_prior": 1,
                "noise": Channel(np.zeros((5, 4)), np.ones((5, 4))),
            },
            [{"noise": 0.01}, {"column_prior": 0.5}],
        ),
        (np.eye(3), {"n_components": 1, "noise": 0}, [{"noise": 0.01}, {"n_components": 3}]),
    ],
)  # fmt: skip
def test_impossible_knowledge_and_what_helps(table, given, remedies):
    with pytest.warns(cautions.ContradictionWarning, match="although the given `noise`") as caught:
        BooleanMatrixFactorization(random_state=0, **given).fit(table)
    priors = "row_prior" in given
    assert ("Check `row_prior` and `column_prior`" in str(caught[0].message)) == priors
    for remedy in remedies:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UninformativeWarning)
            BooleanMatrixFactorization(random_state=0, **given | remedy).fit(table)


@pytest.mark.parametrize(("share", "warns"), [(0.019, False), (0.021, True)])
def test_from_which_share_on(share, warns):
    """Ten ones in the factors; the changes of the last ten iterations count."""
    odds = np.ones((5, 1))
    history = {"changes": np.array([50.0] * 20 + [10 * share] * 10)}
    seen = Observations.from_data(np.ones((5, 5)))
    model, ending = Model(1, Channel.symmetric(0.1)), Ending.OUT_OF_ITERATIONS
    result = Result(model, seen, odds, odds.T, 0.0, ending, 30, history, True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cautions.about_changes(result, BooleanMatrixFactorization(1))
    assert bool(caught) == warns


# ---------------------------------------------------------------- data that say nothing


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ([[1, NAN], [NAN, 1]], r'all 2 observed entries are 1.*absent="zero"'),
        ([[0, NAN], [NAN, 0]], "all 2 observed entries are 0.*add observed ones"),
        ([[NAN, NAN], [NAN, NAN]], r'no entry was observed.*absent="zero"'),
    ],
)
def test_one_value_or_none(table, text):
    model = BooleanMatrixFactorization(1, random_state=0)
    for method in (model.fit, model.fit_transform):  # scikit-learn wraps the second one
        with pytest.warns(DegenerateDataWarning, match=text) as caught:
            method(table)
        assert caught[0].filename == __file__
    remedied = np.array(table)
    remedied[0, 1], remedied[1, 0] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", DegenerateDataWarning)
        model.fit(remedied)


def test_one_iteration_is_not_enough():
    noise = np.random.default_rng(0).integers(0, 2, (30, 30))
    words = r"after 1 iteration, .*Raise `max_iter`, which is 1"
    with pytest.warns(ConvergenceWarning, match=words):
        BooleanMatrixFactorization(8, method="max-sum", max_iter=1, random_state=0).fit(noise)


def test_ones_only_and_what_helps():
    likes = sparse.csr_array(np.kron(np.eye(2), np.ones((5, 4))))
    with pytest.warns(DegenerateDataWarning) as caught:
        assert complete(likes, 2, random_state=0).completed.all()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", DegenerateDataWarning)
        found = complete(likes, 2, random_state=0, absent="zero")
    np.testing.assert_array_equal(found.completed, likes.toarray())


@pytest.mark.parametrize(
    ("table", "given"),
    [
        ([[1, 1], [1, 1]], {}),  # nothing is missing
        ([[1, NAN], [0, 1]], {}),
        ([[1, NAN], [NAN, 1]], {"row_prior": 0.1, "column_prior": 0.1}),
        ([[1, NAN], [NAN, 1]], {"noise": Channel(0.01, 0.4, 0.9, 0.5)}),
    ],
)
def test_nothing_to_warn_of(table, given):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DegenerateDataWarning)
        cautions.about_data(Observations.from_data(table), BooleanMatrixFactorization(1, **given))


def test_completion_of_one_value():
    with pytest.warns(DegenerateDataWarning, match="all 3 observed entries are 0") as caught:
        BooleanCompletion(n_members=1, random_state=0).fit([[0, NAN], [0, 0]])
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match=r"at least one observed entry.*check how"):
        BooleanCompletion().fit([[NAN, NAN]])
