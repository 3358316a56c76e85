"""The report: its numbers, its limits, and its first paragraph."""

import json
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from boolweave import BooleanMatrixFactorization, Observations, complete, cover, factorize
from boolweave.datasets import make_boolean
from boolweave.engine.result import Ending
from boolweave.facts import FactorFacts, HeldOutPredictions
from boolweave.recommend import NEUTRAL
from boolweave.report import contents, words
from boolweave.report import page as page_module
from boolweave.report.contents import N_BINS, calibration, histogram
from boolweave.report.grid import FULL, NOTHING
from boolweave.report.page import render_report, write_report

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<a href='javascript:window.hacked=1'>x</a>",
    "\"'><svg onload=window.hacked=1>",
    "{{ 7*7 }}<!--<script>",
    "%{customdata} $&amp; \\u003cb>",
]


def fitted(observations, rank=2, **parameters):
    return BooleanMatrixFactorization(
        rank, method="max-sum", random_state=0, **parameters
    ).fit(observations)  # fmt: skip


def factor_grid(model):
    return contents.factor_grid(model.result_)


def factor_facts(model):
    return contents.factor_facts(model.result_)


@pytest.fixture(scope="module")
def hostile():
    table = np.array([[1, 1, 0, 0, 1, 0], [1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 1]] * 2, float)
    table[0, 1] = np.nan
    labels = [text + " r" for text in HOSTILE]
    return fitted(Observations.from_dense(table, row_labels=labels, column_labels=HOSTILE))


# ---------------------------------------------------------------- numbers


def test_grid_holds_the_matrix_in_another_order():
    planted = make_boolean(30, 20, 3, flip=0.05, observed=0.7, random_state=0).observations
    grid = factor_grid(fitted(planted, 3))
    dense = planted.to_dense()
    rows = [int(label.split()[1]) - 1 for label in grid.row_labels]
    columns = [int(label.split()[1]) - 1 for label in grid.column_labels]
    expected = dense[np.ix_(rows, columns)]
    shown = np.where(np.isnan(expected), NOTHING, FULL * expected)
    np.testing.assert_array_equal(grid.observed, shown)
    assert not grid.summarized and len(grid.tiles) == 3


def test_large_matrices_are_summarized(monkeypatch):
    monkeypatch.setattr("boolweave.report.grid.MOST_CELLS", 100)
    monkeypatch.setattr("boolweave.report.grid.GRID_SIDE", 5)
    planted = make_boolean(33, 21, 2, random_state=0).observations
    grid = factor_grid(fitted(planted))
    assert grid.summarized and grid.observed.shape == grid.probability.shape == (5, 5)
    assert "(6 rows)" in grid.row_labels[0]
    sizes = np.outer(np.diff([0, 6, 13, 19, 26, 33]), np.diff([0, 4, 8, 12, 16, 21]))
    mean = np.average(grid.observed / FULL, weights=sizes)
    assert mean == pytest.approx(planted.share_of_ones, abs=0.01)


def test_facts_of_factors():
    table = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    model = fitted(table, 1, noise=0.3)
    model.result_ = replace(
        model.result_,
        row_log_odds=np.array([[1.0], [1.0], [-1.0]]),
        column_log_odds=np.array([[1.0, 1.0, -1.0]]),
    )
    (fact,) = factor_facts(model)
    figures = {"coverage": "100.0%", "alone": "100.0%", "precision": "75.0%", "found again": "100%"}
    assert fact["figures"] == figures
    assert (fact["rows"], fact["n_columns"]) == (["row 1", "row 2"], 2)


def test_numbers_of_a_report_are_counted_in_pieces(monkeypatch):
    """Before: 28 bytes for each entry and more."""
    planted = make_boolean(2000, 400, 3, flip=0.05, random_state=0).observations
    model = fitted(planted.take_rows(slice(100)), 3)
    monkeypatch.setattr("boolweave.report.grid.MOST_CELLS", 100)
    rows = np.resize(model.row_log_odds_, (2000, 3))
    model.result_ = replace(model.result_, observations=planted, row_log_odds=rows)
    for numbers in (
        factor_facts,
        factor_grid,
        lambda model: page_module._summary(FactorFacts(model), NEUTRAL),
    ):
        expected = numbers(model)
        tracemalloc.start()
        assert str(numbers(model)) == str(expected)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * planted.n_observed


def test_facts_of_factors_in_pieces(monkeypatch):
    model = fitted(make_boolean(40, 30, 3, flip=0.1, observed=0.7, random_state=0).observations, 3)
    facts, grid = factor_facts(model), factor_grid(model)
    monkeypatch.setattr("boolweave.data.observations.ENTRIES_PER_CHUNK", 50)
    assert factor_facts(model) == facts
    np.testing.assert_array_equal(factor_grid(model).observed, grid.observed)


def test_calibration_counts_everything():
    planted = make_boolean(40, 30, 2, flip=0.1, random_state=0).observations
    kept, rows, columns, values = planted.hide(0.2, random_state=0)
    found = calibration(HeldOutPredictions.of(fitted(kept), (rows, columns, values)))
    assert sum(found["count"]) == len(values)
    mean = np.average(found["frequency"], weights=found["count"])
    assert mean == pytest.approx(values.mean())


def test_held_out_entries_are_positions():
    """Rows that are labelled by other numbers are not mistaken for them, and no warning says so."""
    planted = make_boolean(12, 10, 2, random_state=0).observations
    labels = np.random.default_rng(0).permutation(12).astype(np.str_)
    seen = replace(planted, row_labels=labels)
    kept, rows, columns, values = seen.hide(0.3, random_state=0)
    model = fitted(kept)
    tested = HeldOutPredictions.of(model, (rows, columns, values))
    by_label = HeldOutPredictions.of(model, (labels[rows].tolist(), columns, values))
    np.testing.assert_array_equal(tested.chances, by_label.chances)
    np.testing.assert_array_equal(tested.predicted, model.result_.predict(rows, columns))


def test_what_has_no_page():
    """Factors alone, or a model that is not fitted, are refused in plain words."""
    with pytest.raises(TypeError, match="got a Result; fit an estimator"):
        render_report(factorize([[1, 0], [1, 1]], 1, random_state=0))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        render_report(BooleanMatrixFactorization())
    found = complete([[1, 0], [1, np.nan]], random_state=0)
    assert render_report(found) == render_report(found.model)
    model = fitted([[1, 0], [1, 1]])
    with pytest.raises(ValueError, match="columns must be from 0 to 1, got 5"):
        render_report(model, held_out=(np.array([0]), np.array([5]), np.array([1])))


def test_histogram_counts_every_belief():
    found = histogram("beliefs", np.array([[-np.inf, -0.1], [0.1, 99.0], [0.2, np.inf]]))
    assert (len(found["counts"]), len(found["edges"])) == (N_BINS, N_BINS + 1)
    assert (found["counts"][0], found["counts"][-1], sum(found["counts"])) == (1, 2, 6)
    assert sum(found["counts"][N_BINS // 2 :]) == 4


def test_page_needs_nothing_else(hostile):
    page = render_report(hostile, title="<b>title</b>")
    ours = page[: page.index('<script type="application/json"')]
    assert "&lt;b&gt;title&lt;/b&gt;" in ours
    assert "<img src=x" not in ours and "<svg" not in ours
    assert not re.search(r"""<(link|script|img|iframe)[^>]+(src|href)=""", ours)
    data = re.search(r'id="data">(.*?)</script>', page, re.S).group(1)
    assert "<" not in data
    assert json.loads(data)["grid"]["shape"] == [6, 6]
    assert "random_state=0" in page


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pages_are_small(hostile, tmp_path):
    """Two megabytes for a small table were asked for; a million entries take one."""
    planted = make_boolean(1000, 1000, 5, flip=0.1, random_state=0).observations
    for model, most in ((hostile, 1e5), (fitted(planted, 5, max_iter=5), 2e6)):
        write_report(model, tmp_path / "page.html")
        assert (tmp_path / "page.html").stat().st_size < most


@pytest.mark.filterwarnings("ignore:all . observed entries are")
@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([[1.0]], "a table of 1 row and 1 column without missing entries"),
        ([[0.0, np.nan]], "a table of 1 row and 2 columns, in which 50.0% of the entries were"),
        (np.ones((3, 2)), "a table of 3 rows and 2 columns without missing entries"),
    ],
)
def test_uninteresting_matrices_have_a_page(table, said):
    assert f"One factor explains {said}" in render_report(fitted(np.array(table), 1))


@pytest.mark.usefixtures("quick_search")
def test_the_curve_of_errors_is_drawn():
    table = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    model = BooleanMatrixFactorization(objective="errors", random_state=0).fit(table)
    text = render_report(model)
    assert 'id="costs"' in text and 'id="rank"' in text
    assert '"cost": 0.0, "missed": 0, "false_ones": 0' in text
    assert 'id="costs"' not in render_report(fitted(table, "auto"))


# ---------------------------------------------------------------- in plain words


def in_short(model, held_out=None):
    said = words.of_factors(FactorFacts(model, held_out))
    return " ".join(said.found), " ".join(said.sure), " ".join(said.trouble)


def with_result(model, **changed):
    model.result_ = replace(model.result_, **changed)
    return model


def test_paragraph_says_what_was_found_and_how_sure():
    planted = make_boolean(40, 30, 2, flip=0.05, observed=0.8, random_state=0).observations
    kept, *held_out = planted.hide(0.1, random_state=0)
    model = fitted(kept, 2, n_init=2)
    found, sure, trouble = in_short(model, held_out)
    counts = model.result_.counts(kept)
    assert found.startswith("Two factors explain a table of 40 rows and 30 columns, in which 72.0%")
    assert f"cover {counts[1, 1] / kept.n_ones:.1%} of the observed ones" in found
    assert f"with {counts[0, 1]:,} false ones" in found
    assert f"Of {len(held_out[2])} held-out entries" in sure and not trouble
    with_result(model, stability=np.array([1.0, 1.0]))
    assert "Every search, from different starts, found each of them again." in in_short(model)[1]
    assert "only one search" in in_short(fitted(kept, 2))[1]


def test_paragraph_says_what_did_not_work():
    table = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    model = fitted(table, 2, n_init=3)
    with_result(model, stability=np.array([1.0, 0.2]))
    assert "Only 1 of 2 factors was found again by at least half" in in_short(model)[2]
    with_result(model, stability=np.array([0.1, 0.2]))
    assert "None of 2 factors were found again" in in_short(model)[2]
    changing = {**model.history_, "changes": np.full(9, 50.0)}
    with_result(model, ending=Ending.OUT_OF_ITERATIONS, history=changing)
    assert "did not converge" in in_short(model)[2]
    assert '<strong class="trouble">' in render_report(model)
    with_result(model, ending=Ending.INTERRUPTED)
    assert "was interrupted" in in_short(model)[2]
    nothing = np.full((3, 2), -1.0)
    with_result(model, row_log_odds=nothing, ending=Ending.CONVERGED)
    said = in_short(model)[2]
    assert "Two factors are empty." in said and "do not explain more" in said


@pytest.mark.usefixtures("quick_search")
def test_paragraph_about_fewest_errors():
    table = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    model = BooleanMatrixFactorization(2, objective="errors", random_state=0).fit(table)
    assert "proven that no 2 factors have fewer errors" in in_short(model)[1]
    with_result(model, cost=7.0, bound=3.0, redundancy=np.array([3.0, 0.0]))
    _, sure, trouble = in_short(model)
    assert "at least 3; here it is 7" in sure and "One factor could be left out" in trouble


def test_nouns_of_rows_and_columns(tmp_path):
    """The page speaks of guests and drinks, and nowhere of rows and columns."""
    table = [[1, 1, 0, None], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    said = re.compile(r"\b(rows?|columns?)\b")
    names = {
        "row_labels": ["Ann", "Bo", "Cy", "Di"],
        "column_labels": ["tea", "milk", "rum", "gin"],
    }
    likes = Observations.from_dense(table, **names)
    for model in (fitted(likes, 2), cover(likes, random_state=0)):
        write_report(model, tmp_path / "page.html", rows="guests", columns="drinks")
        page = (tmp_path / "page.html").read_text("utf-8")
        text = re.sub(r"<(style|script|details)\b.*?</\1>|<[^>]*>", " ", page, flags=re.S)
        assert "a table of 4 guests and 4 drinks" in text and "Find a guest or drink" in text
        assert [found.group(0) for found in said.finditer(text[: text.index("What was run")])] == []
