"""The report: its numbers, and the page in a real browser."""

import json
import re
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Observations
from boolweave.datasets import load_senate, make_boolean
from boolweave.report import page as page_module
from boolweave.report.contents import (
    N_BINS,
    calibration,
    factor_facts,
    factor_grid,
    histogram,
)
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
    assert not grid.summarised and len(grid.tiles) == 3


def test_large_matrices_are_summarised(monkeypatch):
    monkeypatch.setattr("boolweave.report.grid.MOST_CELLS", 100)
    monkeypatch.setattr("boolweave.report.grid.GRID_SIDE", 5)
    planted = make_boolean(33, 21, 2, random_state=0).observations
    grid = factor_grid(fitted(planted))
    assert grid.summarised and grid.observed.shape == grid.probability.shape == (5, 5)
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
    fact = factor_facts(model)[0]
    assert (fact["coverage"], fact["alone"], fact["precision"]) == ("100.0%", "100.0%", "75.0%")


def test_numbers_of_a_report_are_counted_in_pieces(monkeypatch):
    """Before: 28 bytes for each entry and more."""
    planted = make_boolean(2000, 400, 3, flip=0.05, random_state=0).observations
    model = fitted(planted.take_rows(slice(100)), 3)
    monkeypatch.setattr("boolweave.report.grid.MOST_CELLS", 100)
    rows = np.resize(model.row_log_odds_, (2000, 3))
    model.result_ = replace(model.result_, observations=planted, row_log_odds=rows)
    for numbers in (factor_facts, factor_grid, lambda model: page_module._summary(model, None)):
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
    found = calibration(fitted(kept), (rows, columns, values))
    assert sum(found["count"]) == len(values)
    mean = np.average(found["frequency"], weights=found["count"])
    assert mean == pytest.approx(values.mean())


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
def test_a_thousand_by_a_thousand_is_under_8_megabytes(tmp_path):
    planted = make_boolean(1000, 1000, 5, flip=0.1, random_state=0).observations
    model = fitted(planted, 5, max_iter=5)
    write_report(model, tmp_path / "large.html")
    assert (tmp_path / "large.html").stat().st_size < 8e6


@pytest.mark.filterwarnings("ignore:all . observed entries are")
def test_uninteresting_matrices_have_a_page(tmp_path):
    for table in ([[1.0]], [[0.0, np.nan]], np.ones((3, 2))):
        write_report(fitted(np.array(table), 1), tmp_path / "small.html")


@pytest.mark.usefixtures("quick_search")
def test_the_curve_of_errors_is_drawn():
    table = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    model = BooleanMatrixFactorization(objective="errors", random_state=0).fit(table)
    text = render_report(model)
    assert 'id="costs"' in text and 'id="rank"' in text
    assert '"cost": 0.0, "missed": 0, "false_ones": 0' in text
    assert 'id="costs"' not in render_report(fitted(table, "auto"))


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def senate(tmp_path_factory):
    votes = load_senate(107).observations
    kept, *held_out = votes.hide(0.2, random_state=0)
    path = tmp_path_factory.mktemp("senate") / "senate.html"
    model = fitted(kept, 2)
    start = time.perf_counter()
    write_report(model, path, title="107th Senate", held_out=tuple(held_out))
    return path, time.perf_counter() - start


@pytest.mark.browser
def test_made_and_opened_in_ten_seconds(senate, opened):
    path, making = senate
    start = time.perf_counter()
    page = opened(path)
    assert making + time.perf_counter() - start < 10
    for chart in ("tiles", "residual", "posterior", "changes", "beliefs", "calibration"):
        assert page.locator(f"#{chart} .main-svg").count() > 0
    assert page.locator("#tiles .hm, #tiles .heatmaplayer image").count() >= 3


@pytest.mark.browser
def test_hover_shows_labels_and_probability(senate, opened):
    page = opened(senate[0])
    box = page.locator("#tiles").bounding_box()
    for panel in (0.15, 0.5, 0.85):
        page.mouse.move(box["x"] + panel * box["width"], box["y"] + 0.4 * box["height"], steps=3)
        page.wait_for_function("document.querySelector('#tiles .hoverlayer').textContent != ''")
        tip = page.locator("#tiles .hoverlayer").text_content()
        assert (
            "roll call" in tip and re.search(r"\([DRI]-[A-Z]{2}\)", tip) and "P(true 1) = " in tip
        )
        detail = page.locator("#detail").text_content()
        assert "roll call" in detail and "P(true 1) = " in detail and "factor" in detail.lower()


def outlined(page):
    widths = page.evaluate("document.getElementById('tiles').layout.shapes.map(s => s.line.width)")
    return len(widths), set(widths)


@pytest.mark.browser
def test_click_and_keyboard_choose_a_factor(senate, opened):
    page = opened(senate[0])
    before = outlined(page)
    first, second = page.locator(".pick").nth(0), page.locator(".pick").nth(1)
    first.click()
    assert first.get_attribute("aria-pressed") == "true"
    assert outlined(page)[1] == {4} != before[1]
    page.keyboard.press("ArrowRight")
    assert second.evaluate("b => b === document.activeElement")
    page.keyboard.press("Enter")
    assert second.get_attribute("aria-pressed") == "true"
    assert first.get_attribute("aria-pressed") == "false"
    page.keyboard.press("Escape")
    assert outlined(page) == before
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") in {"SUMMARY", "BUTTON", "PRE"}


@pytest.mark.browser
def test_dark_and_light(senate, opened):
    page = opened(senate[0], scheme="dark")

    def colours():
        return page.evaluate(
            "[getComputedStyle(document.body).backgroundColor,"
            " document.getElementById('tiles').layout.font.color]"
        )

    dark = colours()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.locator("#theme").click()
    page.wait_for_function("document.documentElement.dataset.theme == 'light'")
    assert colours()[0] != dark[0]
    page.wait_for_function(
        "c => document.getElementById('tiles').layout.font.color != c", arg=dark[1]
    )


@pytest.mark.browser
def test_fits_a_phone_and_paper(senate, opened, tmp_path):
    page = opened(senate[0], width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("document.getElementById('tiles').layout.xaxis.domain") == [0, 1]
    page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 10_000


@pytest.mark.browser
def test_hostile_labels_are_only_text(hostile, opened, tmp_path):
    write_report(hostile, tmp_path / "hostile.html", title=HOSTILE[0])
    page = opened(tmp_path / "hostile.html")
    box = page.locator("#tiles").bounding_box()
    for x in np.linspace(0.05, 0.95, 12):
        for y in (0.2, 0.5, 0.8):
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=2)
    page.locator(".pick").first.click()
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src='x'], a[href^='javascript'], svg[onload]").count() == 0
    assert (
        "<img src=x"
        in page.locator(".names").first.text_content()
        + (page.locator(".names").nth(1).text_content())
        + page.locator("main").text_content()
    )
    assert page.title().startswith(HOSTILE[0])
