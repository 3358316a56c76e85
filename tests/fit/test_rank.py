"""How many factors: description length, held-out entries, what is dropped."""

import itertools
import warnings
from dataclasses import replace
from math import comb, log2

import numpy as np
import pytest
from crashing import Noting

import boolweave
from boolweave import (
    BooleanMatrixFactorization,
    Channel,
    factorize,
    select_rank,
)  # fmt: skip
from boolweave.baselines import GreConD
from boolweave.data.observations import Observations
from boolweave.data.ones import SparseObservations
from boolweave.datasets import load_votes84, load_zoo, make_boolean
from boolweave.engine.result import Result
from boolweave.fit import learn, memory, rank
from boolweave.fit.judging import best_rank, description_length, log_loss_by_rows
from boolweave.fit.learn import UninformativeWarning
from boolweave.fit.rank import drop_useless, search
from boolweave.fit.rank_selection import BAR, RankSelection
from boolweave.fit.settings import Settings
from boolweave.model.model import Model
from boolweave.model.products import boolean_product
from boolweave.runtime.run import Run


def result_of(X, Y, seen, product="or"):
    """A result that decodes to X and Y."""
    X, Y = np.asarray(X), np.asarray(Y)
    return Result(
        model=Model(X.shape[1], Channel.symmetric(0.1), product=product),
        observations=Observations.from_dense(np.asarray(seen, dtype=float)),
        row_log_odds=np.where(X, 1.0, -1.0),
        column_log_odds=np.where(Y, 1.0, -1.0),
        log_posterior=0.0,
        ending="converged",
        n_iter=1,
        history={"residual": np.zeros(1), "log_posterior": np.zeros(1)},
        stability=np.linspace(1, 0, X.shape[1]),
    )


# ---------------------------------------------------------------- description length


def test_description_length_by_hand():
    X = [[1, 0], [1, 0], [0, 1], [0, 0]]
    Y = [[1, 1, 0], [0, 1, 1]]
    # Z = 110, 110, 011, 000: six ones, six zeros. Seen: a one is 0, two zeros are 1, one is hidden.
    seen = [[1, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, np.nan]]
    rows = log2(5) + log2(comb(4, 2)) + log2(5) + log2(comb(4, 1))
    columns = 2 * (log2(4) + log2(comb(3, 2)))
    wrong_ones = log2(6 + 1) + log2(comb(6, 1))
    wrong_zeros = log2(5 + 1) + log2(comb(5, 2))
    expected = rows + columns + wrong_ones + wrong_zeros
    assert description_length(result_of(X, Y, seen)) == pytest.approx(expected)


def test_description_length_counts_the_errors_of_the_product_of_the_factors_that_it_writes():
    """Three factors of which none is sure make entries that are likely ones; written are zeros."""
    seen = np.ones((4, 5))
    seen[1, :3] = 0
    rows = np.full((4, 4), -0.1)
    rows[0, 3] = 5.0  # one factor is sure, and makes the first row
    columns = np.full((4, 5), -0.1)
    columns[3] = 5.0
    X, Y = rows > 0, columns > 0
    decoded = result_of(X, Y, seen)
    unsure = replace(decoded, marginal=True, row_log_odds=rows, column_log_odds=columns)
    assert unsure.Z.all() and decoded.Z.sum() == 5
    assert description_length(unsure) == pytest.approx(description_length(decoded))


def test_true_factors_are_shorter_than_none_and_than_the_data():
    planted = make_boolean(40, 40, 2, flip=0.05, random_state=0)
    seen = planted.observations.to_dense()
    true = description_length(result_of(planted.X, planted.Y, seen))
    nothing = description_length(result_of(np.zeros((40, 1)), np.zeros((1, 40)), seen))
    rows_themselves = description_length(result_of(np.eye(40), seen, seen))
    assert true < nothing
    assert true < rows_themselves


# ---------------------------------------------------------------- the search


@pytest.mark.parametrize(("n_components", "flip"), [(1, 0.1), (2, 0.0), (4, 0.05), (6, 0.1)])
def test_the_planted_rank_is_found(n_components, flip):
    planted = make_boolean(120, 120, n_components, flip=flip, random_state=n_components)
    model = BooleanMatrixFactorization(random_state=0).fit(planted.observations)
    assert len(model.components_) == n_components
    assert model.rank_selection_.best == n_components
    assert model.n_dropped_ == 0
    Z = model.inverse_transform(model.row_log_odds_ > 0)
    assert np.mean(Z != planted.Z) < 0.01


def test_the_planted_rank_is_found_in_a_table_with_holes():
    planted = make_boolean(150, 150, 3, flip=0.05, observed=0.4, random_state=1)
    model = BooleanMatrixFactorization(random_state=0).fit(planted.observations)
    assert len(model.components_) == 3


def test_the_planted_rank_is_found_for_xor():
    planted = make_boolean(100, 100, 3, product="xor", flip=0.03, random_state=0)
    model = BooleanMatrixFactorization(product="xor", random_state=0).fit(planted.observations)
    assert len(model.components_) == 3


@pytest.mark.parametrize("criterion", ["mdl", "heldout"])
def test_select_rank(criterion):
    planted = make_boolean(80, 80, 3, flip=0.05, random_state=0)
    selection = select_rank(
        planted.observations, range(1, 6), criterion, random_state=0, objective="posterior"
    )
    assert selection.best == 3
    assert selection.criterion == criterion
    np.testing.assert_array_equal(selection.ranks, [1, 2, 3, 4, 5])
    assert selection.scores.shape == selection.errors.shape == (5,)
    assert (selection.errors > 0).all() == (criterion == "heldout")
    if criterion == "heldout":  # what a perfect model pays for 5% of flips
        entropy = -(0.05 * np.log(0.05) + 0.95 * np.log(0.95))
        assert selection.scores[2] == pytest.approx(entropy, abs=0.03)


def test_a_rank_must_be_better_by_more_than_a_standard_error_of_the_difference():
    """Losses of two ranks vary together, so that only their difference counts."""
    shared = np.random.default_rng(0).normal(0.4, 0.1, 64)
    wave = np.tile([-1.0, 1.0], 32)  # of mean 0 and standard error 1 / √63
    scores = {2: shared + 0.2, 3: shared, 4: shared - 0.0010 + 0.01 * wave}
    assert best_rank(scores) == 3
    scores[4] = shared - 0.0015 + 0.01 * wave
    assert best_rank(scores) == 4
    assert best_rank(scores, 0.0015001) == 3
    assert best_rank({rank: score[:1] for rank, score in scores.items()}) == 4


@pytest.mark.parametrize(("seed", "larger"), [(0, 8), (7, 6)])
def test_useless_factors_do_not_win_by_luck(seed, larger):
    """A larger rank has a log-loss that is lower by about 0.0001 or less."""
    seen = make_boolean(150, 100, 5, flip=0.05, random_state=seed).observations
    selection = select_rank(seen, [5, larger], "heldout", random_state=seed)
    assert 0 < selection.scores[0] - selection.scores[1] < 2e-4
    assert selection.best == 5


@pytest.mark.parametrize("weighted", [False, True])
def test_log_loss_by_rows(weighted):
    """Groups of neighbouring rows, in any order of the entries; their mean is that of all."""
    random = np.random.default_rng(0)
    rows, values = random.integers(0, 40, 200), random.integers(0, 2, 200)
    p, weights = random.random(200), random.random(200) + 0.1 if weighted else None
    found = log_loss_by_rows(rows, values, p, weights, 8)
    losses = -np.log(np.where(values == 1, p, 1 - p))
    assert found.shape == (8,)
    assert found.mean() == pytest.approx(np.average(losses, weights=weights))
    w = np.ones(200) if weights is None else weights
    first = np.argsort(rows, kind="stable")[:25]  # an eighth of the entries
    assert found[0] == pytest.approx(8 * (w * losses)[first].sum() / w.sum())


def test_the_search_goes_up_until_nothing_is_gained():
    planted = make_boolean(60, 60, 2, flip=0.02, random_state=0)
    selection = select_rank(planted.observations, random_state=0, objective="posterior")
    assert selection.best == 2
    np.testing.assert_array_equal(selection.ranks, np.arange(1, 2 + rank.RANKS_BEYOND + 1))


@pytest.mark.parametrize("load", [load_zoo, load_votes84])
def test_the_rank_does_not_depend_on_the_seed(load):
    """On votes84 it was anything from 3 to 6."""
    seen = load().observations
    found = [BooleanMatrixFactorization(random_state=seed).fit(seen) for seed in range(3)]
    assert np.ptp([len(model.components_) for model in found]) <= 1
    assert len({model.rank_selection_.best for model in found}) == 1


def test_many_small_factors_of_a_sparse_table_are_found():
    """The search goes on until it is shorter than factors that cover no zero."""
    random = np.random.default_rng(0)
    X = random.random((300, 20)) < 0.02
    Y = random.random((20, 60)) < 0.06
    seen = Observations.from_dense(boolean_product(X, Y) ^ (random.random((300, 60)) < 0.001))
    assert seen.share_of_ones < 0.03
    selection = select_rank(seen, random_state=0, objective="posterior")
    covers = GreConD(20).fit(seen)
    cover = result_of(covers.row_factors_, covers.components_, seen.to_dense())
    assert selection.scores.min() < description_length(cover)
    assert 15 <= selection.best <= 20


def test_no_rank_is_worse_than_the_one_below_with_an_empty_factor(monkeypatch):
    planted = make_boolean(50, 40, 4, flip=0.05, random_state=0)
    fit = rank.fit

    def fails_at_three(observations, settings, *arguments):
        result = fit(observations, settings, *arguments)
        if settings.n_components != 3:
            return result
        nonsense = np.random.default_rng(0).standard_normal(result.row_log_odds.shape)
        return replace(result, row_log_odds=nonsense)

    monkeypatch.setattr(rank, "fit", fails_at_three)
    selection = select_rank(planted.observations, random_state=0, objective="posterior")
    scores = dict(zip(selection.ranks.tolist(), selection.scores, strict=True))
    assert scores[3] == pytest.approx(scores[2] + np.log2(51) + np.log2(41))
    assert selection.best == 4  # which begins with the factors of rank 2, and two more
    assert (np.diff(selection.scores) <= np.log2(51) + np.log2(41) + 1e-9).all()


def test_long_steps_are_filled_in_beside_the_best(monkeypatch):
    planted = make_boolean(
        60, 60, 10, row_density=0.2, column_density=0.2, flip=0.01, random_state=0
    )
    monkeypatch.setattr(rank, "MANY_MESSAGES", 1)
    monkeypatch.setattr(rank, "STEP", 2)  # by a half of the rank
    selection = select_rank(planted.observations, random_state=0, objective="posterior")
    assert {selection.best - 1, selection.best, selection.best + 1} <= set(selection.ranks.tolist())
    assert len(selection.ranks) < selection.ranks[-1]  # not all of them
    assert selection.best == 10


def test_given_ranks_begin_with_the_factors_of_the_one_below():
    planted = make_boolean(60, 50, 3, flip=0.02, random_state=0)
    first, best = search(
        planted.observations, Settings(1, n_init=1), np.random.default_rng(0), [3, 6]
    )
    empty = np.log2(61) + np.log2(51)
    assert first.scores[1] <= first.scores[0] + 3 * empty + 1e-9
    assert best.X.shape[1] == first.best == 3


def test_the_answer_warns_and_the_fits_that_judge_ranks_do_not(monkeypatch):
    planted = make_boolean(30, 30, 2, observed=0.9, random_state=0)
    monkeypatch.setattr(learn.judging, "is_informative", lambda *_: False)
    with pytest.warns(UninformativeWarning) as warned:
        BooleanMatrixFactorization(random_state=0).fit(planted.observations)
    assert sum(issubclass(w.category, UninformativeWarning) for w in warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UninformativeWarning)
        select_rank(planted.observations, [1, 2], random_state=0, objective="posterior")


def test_the_search_ends_where_memory_does(monkeypatch):
    planted = make_boolean(40, 40, 4, random_state=0)
    store_for = memory.store_for

    def scarce(observations, n_components, **how):
        if n_components > 3:
            raise MemoryError("4 factors need more than there is")
        return store_for(observations, n_components, **how)

    monkeypatch.setattr(memory, "store_for", scarce)
    with pytest.warns(UserWarning, match="ended before 4: 4 factors need more than there is"):
        model = BooleanMatrixFactorization(random_state=0).fit(planted.observations)
    assert model.rank_selection_.ranks.tolist() == [1, 2, 3]
    assert len(model.components_) == 3
    monkeypatch.setattr(memory, "store_for", lambda *_, **__: scarce(None, 4))
    with pytest.raises(MemoryError, match="4 factors need"):
        BooleanMatrixFactorization(random_state=0).fit(planted.observations)


def test_ranks_are_tried_once_and_in_order():
    planted = make_boolean(30, 30, 2, random_state=0)
    selection = select_rank(planted.observations, [3, 1, 3], random_state=0, objective="posterior")
    np.testing.assert_array_equal(selection.ranks, [1, 3])


def test_a_seed_is_a_seed():
    planted = make_boolean(50, 50, 3, flip=0.1, random_state=0)
    one, two = (
        select_rank(planted.observations, [2, 3, 4], random_state=7, objective="posterior")
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranks": []}, "ranks must be one or more positive whole numbers"),
        ({"ranks": [0, 1]}, "ranks must be one or more positive whole numbers"),
        ({"ranks": [1.5]}, r"ranks must be one or more positive whole numbers.*got \[1.5\]"),
        ({"ranks": 5}, "ranks must be one or more positive whole numbers.*got 5"),
        ({"criterion": "bic"}, 'criterion must be "mdl" or "heldout"'),
        ({"method": "magic"}, "'method' parameter"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        select_rank(np.eye(4), **arguments)


# ---------------------------------------------------------------- showing it


@pytest.fixture
def selection():
    return RankSelection(
        ranks=np.array([1, 2, 3]),
        scores=np.array([500.0, 312.25, 330.0]),
        errors=np.array([0.0, 0.0, 0.0]),
        best=2,
        criterion="mdl",
    )


def test_table(selection):
    assert selection.table()[1] == {"rank": 2, "score": 312.25, "error": 0.0, "best": True}
    assert [row["best"] for row in selection.table()] == [False, True, False]


def test_str(selection):
    lines = str(selection).splitlines()
    assert len(lines) == 5
    assert "bits" in lines[0]
    assert lines[2].endswith("<- best")
    assert "312.25" in lines[2]
    assert "log-loss" in str(replace(selection, criterion="heldout"))


@pytest.mark.parametrize("criterion", ["mdl", "heldout"])
def test_plot(selection, criterion, tmp_path):
    from matplotlib.image import imread

    path = tmp_path / "rank.png"
    figure = replace(selection, criterion=criterion, errors=np.full(3, 10.0)).plot(path)
    picture = imread(path)
    assert picture.shape[0] > 300 and picture.shape[1] > 500
    assert picture[..., :3].std() > 0.02  # something is drawn
    (axes,) = figure.axes
    assert axes.get_xlabel() == "number of factors"
    assert ("bits" in axes.get_ylabel()) == (criterion == "mdl")
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), selection.scores)


def test_errors_are_shown_with_the_ranks(selection, tmp_path):
    counted = replace(
        selection, costs=np.array([60.0, 20.0, 0.0]), missed=np.array([40, 20, 0]),
        false_ones=np.array([10, 0, 0]),
    )  # fmt: skip
    assert counted.table()[0] == {
        "rank": 1, "score": 500.0, "error": 0.0, "best": False, "cost": 60.0, "missed": 40,
        "false_ones": 10,
    }  # fmt: skip
    first, *lines, sentence = str(counted).splitlines()
    assert sentence == counted.sentence
    assert first.split()[:5] == ["rank", "bits", "missed", "false", "ones"]
    assert "cost" in first and "less is better" in first
    assert [line.count("#") for line in lines] == [BAR, BAR // 3, 0]
    assert lines[1].endswith("#  <- best")
    above, below = counted.plot(tmp_path / "curve.png").axes
    assert below.get_ylabel() == "errors" and below.get_xlabel() == "number of factors"
    np.testing.assert_array_equal(below.lines[0].get_ydata(), counted.costs)
    np.testing.assert_array_equal(above.lines[0].get_ydata(), counted.scores)
    assert (tmp_path / "curve.png").stat().st_size > 1000


# ---------------------------------------------------------------- useless factors


def test_empty_and_repeated_factors_are_dropped():
    X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 0]])
    Y = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]])  # the last one has no rows
    result = result_of(X, Y, np.eye(3))
    priors = {"row_prior": np.full((1, 4), 0.3), "column_prior": np.linspace(0.1, 0.4, 4)[:, None]}
    result = replace(result, model=replace(result.model, **priors))
    kept, n_dropped = drop_useless(result)
    assert n_dropped == 2
    np.testing.assert_array_equal(kept.X, X[:, [0, 2]])
    np.testing.assert_array_equal(kept.Y, Y[[0, 2]])
    np.testing.assert_array_equal(kept.Z, result.Z)
    assert kept.model.n_components == 2
    assert kept.model.row_prior.shape == (1, 2)
    np.testing.assert_allclose(kept.model.column_prior, [[0.1], [0.3]])
    np.testing.assert_allclose(kept.stability, result.stability[[0, 2]])


def test_a_pair_of_equal_factors_is_not_a_repetition_for_xor():
    """They cancel each other: dropping one of the two would change the product."""
    result = result_of([[1, 1], [1, 1]], [[1, 0], [1, 0]], np.zeros((2, 2)), product="xor")
    assert drop_useless(result) == (result, 0)


def test_nothing_is_dropped_where_nothing_would_be_left():
    result = result_of(np.zeros((3, 2)), np.zeros((2, 3)), np.zeros((3, 3)))
    kept, n_dropped = drop_useless(result)
    assert (kept.model.n_components, n_dropped) == (2, 0)


@pytest.mark.parametrize("value", [0, 1])
def test_a_constant_table(value):
    model = BooleanMatrixFactorization(random_state=0).fit(np.full((12, 9), value))
    assert len(model.components_) == 1
    np.testing.assert_array_equal(model.inverse_transform(model.row_log_odds_ > 0), value)


# ---------------------------------------------------------------- the rest of the library


def test_save_and_load_keep_the_selection(tmp_path):
    planted = make_boolean(40, 40, 2, random_state=0)
    model = BooleanMatrixFactorization(random_state=0).fit(planted.observations)
    model.save(tmp_path / "model.npz")
    again = boolweave.load(tmp_path / "model.npz")
    assert again.rank_selection_.table() == model.rank_selection_.table()
    assert again.rank_selection_.criterion == "mdl"
    assert again.n_dropped_ == model.n_dropped_
    given = BooleanMatrixFactorization(2, random_state=0).fit(planted.observations)
    given.save(tmp_path / "given.npz")
    assert boolweave.load(tmp_path / "given.npz").rank_selection_ is None


def test_factorize_finds_the_rank():
    planted = make_boolean(50, 50, 2, random_state=0)
    assert factorize(planted.observations, random_state=0).Y.shape == (2, 50)


@pytest.mark.parametrize("criterion", ["mdl", "heldout"])
def test_an_interrupt_ends_the_search_with_what_was_tried(criterion, monkeypatch):
    planted = make_boolean(40, 40, 3, flip=0.05, random_state=0)
    fits = itertools.count(1)
    fit = rank.fit
    stop = 5 if criterion == "mdl" else 2 * rank.N_FOLDS + 2  # the third rank has no fit yet

    def interrupted(*arguments):
        if next(fits) == stop:
            raise KeyboardInterrupt
        return fit(*arguments)

    monkeypatch.setattr(rank, "fit", interrupted)
    selection, best = search(
        planted.observations, Settings(1), np.random.default_rng(0), criterion=criterion
    )
    assert selection.ranks.tolist() == [1, 2]
    if criterion == "mdl":
        assert best.interrupted
        assert best.X.shape[1] == selection.best


def test_an_interrupt_inside_a_fit_ends_the_search():
    planted = make_boolean(40, 40, 3, flip=0.05, random_state=0)
    iterations = itertools.count(1)

    def interrupt(*_):
        if next(iterations) == 200:
            raise KeyboardInterrupt

    run, random = Run(progress=Noting(interrupt)), np.random.default_rng(0)
    selection, best = search(planted.observations, Settings(1), random, run=run)
    assert best.interrupted
    assert 1 <= len(selection.ranks) <= 4


def test_held_out_zeros_are_sampled_where_they_are_not_listed(monkeypatch):
    """Ones are held out in turn, and some zeros, so that no zero is ever listed."""
    made = make_boolean(
        90, 80, 3, row_density=0.25, column_density=0.25, flip=(0.01, 0.05), random_state=0
    )
    seen = SparseObservations.from_observations(made.observations)
    monkeypatch.setattr(SparseObservations, "to_local", None)
    settings = Settings(1, method="max-sum", max_iter=40)
    random = np.random.default_rng(0)
    selection, best = search(seen, settings, random, range(1, 5), "heldout")
    assert (selection.best, best) == (3, None)
    assert selection.scores[2] < 0.5 * selection.scores[0]


# ---------------------------------------------------------------- how clear a choice is


def of_scores(*scores, best, ranks=None, **more):
    return RankSelection(
        ranks=np.arange(1, len(scores) + 1) if ranks is None else np.array(ranks),
        scores=np.array(scores, dtype=float),
        errors=np.zeros(len(scores)),
        best=best,
        criterion="mdl",
        **more,
    )


@pytest.mark.parametrize(
    "scores, best, without, elbow",
    [
        ([500, 420, 410, 405, 400], 5, 1000.0, 1),  # one factor does most of the work
        ([900, 500, 480, 470, 460], 5, 1000.0, 2),
        ([800, 600, 400], 3, 1000.0, 3),  # a straight line has no elbow
        ([900, 500, 480, 470, 460], 5, np.nan, 2),  # without the score of no factors
        ([300], 1, 1000.0, 1),
        ([300], 1, np.nan, 1),
    ],
)
def test_the_elbow_is_farthest_below_the_line(scores, best, without, elbow):
    assert of_scores(*scores, best=best, without=without).elbow == elbow


@pytest.mark.parametrize(
    "selection, sentence",
    [
        (of_scores(900, 400, 600, best=2), "2 factors; no other number that was tried is nearly"),
        (of_scores(900, 402, 400, 600, best=3), "3 factors; 2 would be nearly as good; the curve"),
        (of_scores(900, 400, 401, 600, best=2), "2 factors; 3 would be nearly as good"),
        (of_scores(900, 407, 400, 403, 600, best=3), "3 factors; 2 to 4 are nearly as good"),
        (of_scores(900, 600, 400, best=3), "3 is the largest number that was tried, so more may"),
        (of_scores(300, best=1), "1 factor; no other number"),
    ],
)
def test_the_sentence_says_how_clear_the_choice_is(selection, sentence):
    assert sentence in selection.sentence


def test_ranks_that_leave_no_errors_are_not_at_a_limit():
    costs = {"costs": np.array([9.0, 0.0]), "missed": np.zeros(2), "false_ones": np.zeros(2)}
    assert not of_scores(900, 400, best=2, **costs).is_at_limit
    assert of_scores(900, 400, best=2).is_at_limit


def test_held_out_entries_allow_one_standard_error():
    chosen = replace(
        of_scores(0.5, 0.31, 0.3, 0.305, best=3), criterion="heldout", errors=np.full(4, 0.02)
    )
    assert chosen.nearly_as_good == (2, 4)
    assert replace(chosen, errors=np.full(4, 0.001)).nearly_as_good == (3, 3)


@pytest.mark.parametrize("objective", ["errors", "posterior"])
def test_few_factors_are_the_elbow(objective):
    zoo = load_zoo().observations
    how = {"objective": objective, "random_state": 0}
    curve = select_rank(zoo, **how)
    model = BooleanMatrixFactorization("few", **how).fit(zoo)
    assert len(model.components_) == curve.elbow == model.rank_selection_.elbow < curve.best
    assert model.rank_selection_.best == curve.best


def test_one_number_of_factors():
    zoo = load_zoo().observations
    assert len(factorize(zoo).Y) == select_rank(zoo).best
    assert "held-out" not in str(select_rank(zoo))
    assert select_rank(zoo, [1, 2], "heldout").criterion == "heldout"
