"""The number of factors of a fit: description length, held-out entries, and nothing but noise."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Observations, select_rank
from boolweave.datasets import load_votes84, make_boolean
from boolweave.fit import judging, rank
from boolweave.fit.learn import UninformativeWarning
from boolweave.fit.rank import Search, SearchState, _by_held_out_entries, _plain
from boolweave.fit.settings import Settings
from boolweave.runtime.checkpoint import Checkpoint
from boolweave.runtime.run import Run


def test_a_fifth_of_the_votes_is_enough(monkeypatch):
    """The shortest description has no factors, but factors predict better than a constant."""
    kept, *hidden, values = load_votes84().observations.hide(0.8, random_state=0)
    monkeypatch.setattr(rank, "RANKS", (1, 3))
    given = {"random_state": 0, "n_init": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BooleanMatrixFactorization(**given).fit(kept)
    three = BooleanMatrixFactorization(3, **given).fit(kept)
    right, right_by_three = (np.mean(m.predict(*hidden) == values) for m in (model, three))
    assert right >= right_by_three - 0.005
    assert right > max(values.mean(), 1 - values.mean()) + 0.05
    selection = model.rank_selection_
    assert (selection.criterion, selection.best) == ("heldout", 3)
    assert len(model.components_) + model.n_dropped_ == 3
    shortest = judging.length_without_factors(kept)
    described = judging.description_length(model.result_)
    assert described > shortest  # as a description, it is worse than nothing


def test_columns_that_differ_are_found_in_a_twentieth_of_the_votes(monkeypatch):
    """Too few entries to predict held-out ones better; but columns differ beyond chance."""
    kept, *hidden, values = load_votes84().observations.hide(0.95, random_state=1)
    monkeypatch.setattr(rank, "RANKS", (1, 2))
    given = {"random_state": 0, "n_init": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UninformativeWarning)
        model = BooleanMatrixFactorization(**given).fit(kept)
    two = BooleanMatrixFactorization(2, **given).fit(kept)
    right, right_by_two = (np.mean(m.predict(*hidden) == values) for m in (model, two))
    assert right >= right_by_two - 0.005
    assert right > max(values.mean(), 1 - values.mean()) + 0.03
    assert model.row_factors_.all() and len(model.components_) == 1


def test_factors_that_are_all_alike_are_given_up(monkeypatch):
    """Two factors were chosen, but only one is left of the last fit, which predicts nothing."""
    kept, *hidden, values = load_votes84().observations.hide(0.95, random_state=10)
    monkeypatch.setattr(rank, "RANKS", (1, 2))
    model = BooleanMatrixFactorization(random_state=0).fit(kept)
    assert np.mean(model.predict(*hidden) == values) > max(values.mean(), 1 - values.mean()) + 0.03
    assert model.row_factors_.all() and len(model.components_) == 1
    assert model.rank_selection_.best == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_the_chance_of_differences(axis):
    """Equal rates give every chance equally often, different rates give a small one."""
    random = np.random.default_rng(0)
    shape = (8, 60) if axis == 0 else (60, 8)
    chances = [
        judging.chance_of_lines(Observations.from_dense(random.random(shape) < 0.4), axis)
        for _ in range(400)
    ]
    assert np.quantile(chances, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.06)
    rate = np.expand_dims(np.linspace(0.2, 0.7, 8), 1 - axis)
    assert (
        judging.chance_of_lines(Observations.from_dense(random.random(shape) < rate), axis) < 0.01
    )


def test_nothing_differs_in_a_table_of_ones_or_without_entries():
    ones = Observations.from_dense(np.ones((4, 5)))
    nothing = Observations.from_dense(np.full((4, 5), np.nan))
    assert [judging.chance_of_lines(table, 0) for table in (ones, nothing)] == [1.0, 1.0]


def searching(observations, **how):
    settings = Settings(1, alone=False, **how)
    return Search(observations, settings, 1, "heldout", Run(), SearchState())


@pytest.mark.parametrize(
    ("means", "tried", "best"),
    [
        ({1: 0.6, 2: 0.5, 3: 0.55, 5: 0.58, 8: 0.1}, [1, 2, 3, 5], 2),
        ({1: 0.6, 2: 0.5, 3: 0.55, 5: 0.4, 8: 0.45, 13: 0.5}, [1, 2, 3, 5, 8, 13], 5),
        ({1: 0.6, 2: 0.502, 3: 0.501, 5: 0.5, 8: 0.6, 13: 0.6}, [1, 2, 3, 5, 8, 13], 5),
    ],
)
def test_the_lowest_log_loss_chooses(monkeypatch, means, tried, best):
    """It chooses although it is known only to within 0.003."""
    seen = make_boolean(40, 40, 2, flip=0.1, observed=0.3, random_state=0).observations

    def hold_out(self, settings):
        self.state.ranks.append(settings.n_components)
        wave = 0.01 * np.tile([-1.0, 1.0], 8) * settings.n_components
        self.state.scores.append(means[settings.n_components] + wave)
        self.state.wrong.append(np.full(16, 0.3))

    monkeypatch.setattr(Search, "hold_out", hold_out)
    selection, plain = _by_held_out_entries(searching(seen))
    assert selection.ranks.tolist() == tried
    assert (selection.best, plain) == (best, None)


def test_fewer_wrong_predictions_come_before_a_log_loss():
    state = SearchState(ranks=[1, 2, 3, 5])
    wave = 0.02 * np.tile([-1.0, 1.0], 8)
    state.scores = [np.full(16, loss) for loss in (0.68, 0.64, 0.63, 0.62)]
    state.wrong = [0.4 + wave, 0.351 + wave[::-1], 0.35 + wave, 0.38 + wave[::-1]]
    assert rank._best_predictor(state) == 2  # 2 has as few, 5 has more beyond chance
    state.wrong[3] = 0.352 + wave[::-1]
    assert rank._best_predictor(state) == 3


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_whole_rows_and_columns_where_nothing_else_predicts(monkeypatch, kind):
    """Every line has a rate of its own, and a fit that predicts nothing."""
    random = np.random.default_rng(0)
    shape = (60, 12) if kind == "columns" else (12, 60)
    rate = np.where(np.arange(12) % 2, 0.8, 0.2)
    table = (random.random(shape) < (rate if kind == "columns" else rate[:, None])).astype(float)
    table[random.random(shape) < 0.8] = np.nan
    monkeypatch.setattr(rank, "CLEAR", 1.0)  # no description is clear
    fit = rank.fit

    def fit_of_search(observations, settings, *arguments, **options):
        assert not settings.alone, "no further fit is needed"
        return fit(observations, settings, *arguments, **options)

    monkeypatch.setattr(rank, "fit", fit_of_search)
    monkeypatch.setattr(Search, "tested", _with_useless_fits(Search.tested))
    model = BooleanMatrixFactorization(random_state=0, max_iter=20).fit(table)
    assert len(model.components_) == model.rank_selection_.best == 1
    members = model.components_[0] if kind == "columns" else model.row_factors_[:, 0]
    others = model.row_factors_ if kind == "columns" else model.components_
    np.testing.assert_array_equal(members, np.arange(12) % 2)
    assert others.all()
    p = model.predict_proba(np.arange(12) % shape[0], np.arange(12) % shape[1])
    assert ((p > 0.1) & (p < 0.9)).all()
    assert np.isfinite(model.log_posterior_)


def _with_useless_fits(tested):
    def changed(self, n_components, fitted):
        if getattr(fitted, "__name__", "") != "fitted":  # not a fit
            return tested(self, n_components, fitted)
        n_scores = self.n_folds * judging.n_row_groups(self.observations, self.n_folds)
        return np.full(n_scores, 9.0), np.full(n_scores, 0.5)

    return changed


def test_the_log_posterior_of_a_factor_that_is_not_fitted():
    seen = make_boolean(20, 15, 2, flip=0.1, observed=0.5, random_state=0).observations
    plain = _plain(Settings(1), "columns", seen)
    X, Y, model = plain.X, plain.Y, plain.model
    z = (X @ Y)[seen.rows_of_entries(), seen.indices]
    one = np.where(z, model.channel.one_given_one, model.channel.one_given_zero)
    expected = np.log(np.where(seen.values, one, 1 - one)).sum()
    for bits, prior in ((X, model.row_prior), (Y, model.column_prior)):
        expected += np.log(np.where(bits, prior, 1 - np.asarray(prior))).sum()
    assert plain.log_posterior == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seed", "shape", "share"), [(1, (30, 25), 0.3), (3, (40, 30), 0.4), (0, (40, 30), 0.5)]
)
def test_noise_is_called_noise(seed, shape, share):
    """Also where a factor that settles has fewer wrong entries than a constant."""
    noise = (np.random.default_rng(seed).random(shape) < share).astype(float)
    with pytest.warns(UninformativeWarning, match="nothing but noise was found") as caught:
        model = BooleanMatrixFactorization(random_state=0, n_init=2).fit(noise)
    assert len(caught) == 1
    assert not model.result_.Z.any()  # no worse than a constant
    assert model.predict_proba([0], [0])[0] == pytest.approx(noise.mean(), abs=0.02)


def test_clear_descriptions_are_not_held_out(monkeypatch):
    planted = make_boolean(80, 80, 3, flip=0.05, observed=0.5, random_state=1)
    monkeypatch.setattr(Search, "hold_out", lambda *_: pytest.fail("description lengths are clear"))
    model = BooleanMatrixFactorization(random_state=0).fit(planted.observations)
    assert model.rank_selection_.criterion == "mdl"
    assert len(model.components_) == 3


def test_a_last_fit_that_fails_does_not_replace_a_better_one(monkeypatch):
    planted = make_boolean(40, 40, 2, flip=0.05, random_state=0)
    real = rank.fit

    def fails_at_last(observations, settings, *arguments):
        result = real(observations, settings, *arguments)
        if settings.n_init < 3:  # a quick fit
            return result
        return replace(result, row_log_odds=np.full_like(result.row_log_odds, -1.0))

    monkeypatch.setattr(rank, "fit", fails_at_last)
    model = BooleanMatrixFactorization(random_state=0, n_init=3).fit(planted.observations)
    assert np.mean(model.result_.Z != planted.Z) < 0.02


@pytest.mark.filterwarnings("ignore:the decoded factors still change")
def test_a_choice_by_held_out_entries_is_resumed(tmp_path, monkeypatch):
    seen = load_votes84().observations.hide(0.85, random_state=0)[0]
    how = {"random_state": 0, "n_init": 1, "max_iter": 20}
    monkeypatch.setattr(rank, "RANKS", (1, 2, 3))
    whole = BooleanMatrixFactorization(**how).fit(seen)
    assert whole.rank_selection_.criterion == "heldout"

    class CrashError(Exception):
        pass

    def crash(self, settings):
        if settings.n_components == 3:
            self.run.recorder.save()
            raise CrashError
        real(self, settings)

    real = Search.hold_out
    place = Checkpoint(tmp_path, interval=0)
    with monkeypatch.context() as patch:
        patch.setattr(Search, "hold_out", crash)
        with pytest.raises(CrashError):
            BooleanMatrixFactorization(**how, checkpoint=place).fit(seen)
    with monkeypatch.context() as patch:
        patch.setattr(rank, "search", lambda *_, **__: pytest.fail("this is done"))
        resumed = BooleanMatrixFactorization(**how, checkpoint=place).fit(seen)
    np.testing.assert_array_equal(resumed.rank_selection_.scores, whole.rank_selection_.scores)
    np.testing.assert_array_equal(resumed.row_log_odds_, whole.row_log_odds_)


def test_whole_answers_are_held_out():
    """Each answer is three equal columns: one follows from the others, but no answer does."""
    random = np.random.default_rng(0)
    bits = np.repeat(random.integers(2, size=(80, 4)), 3, axis=1).astype(float)
    groups = np.repeat(np.arange(4), 3)
    given = {"ranks": [4], "criterion": "heldout", "random_state": 0}
    whole = select_rank(bits, groups=groups, **given)
    assert whole.scores[0] > np.log(2) - 0.02
    assert repr(whole) == f"RankSelection({whole.sentence})"
    assert select_rank(bits, groups=np.arange(12), **given).scores[0] < np.log(2) / 2
    with pytest.raises(ValueError, match='criterion="mdl" holds nothing out'):
        select_rank(bits, groups=groups)
    with pytest.raises(ValueError, match="groups must have a whole number for each of the 12"):
        select_rank(bits, groups=groups[1:], **given)
