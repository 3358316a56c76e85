"""The report about a completion: its numbers, and the page in a real browser."""

import html
import json
import re

import numpy as np
import pytest
from completions import model_of, random_ensemble, random_observations

from boolweave import BooleanCompletion, Observations
from boolweave.cli.results import judged
from boolweave.completion.ensemble import Structure
from boolweave.facts import CompletionFacts
from boolweave.report.contents import ENDS, EXPLAINED, layer_facts, offsets
from boolweave.report.page import render_report, write_report

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"


@pytest.fixture(scope="module")
def model():
    """Of a table with offsets and two blocks; the last row has no entries."""
    random = np.random.default_rng(0)
    odds = random.normal(size=(40, 1)) + random.normal(size=20)
    odds[:20, :10] += 3
    odds[20:, 10:] += 3
    cells = (random.random(odds.shape) < 1 / (1 + np.exp(1.5 - odds))).astype(float)
    cells[random.random(odds.shape) < 0.3] = np.nan
    cells[-1] = np.nan
    names = {
        "row_labels": [HOSTILE, *(f"row {i}" for i in range(1, 40))],
        "column_labels": [HOSTILE, *(f"c{j}" for j in range(1, 20))],
    }
    seen = Observations.from_dense(cells, **names)
    return BooleanCompletion(4, n_layers=2, n_members=2, n_jobs=1, random_state=0).fit(seen)


@pytest.fixture(scope="module")
def held_out():
    random = np.random.default_rng(1)
    sides = random.integers(40, size=200), random.integers(20, size=200)
    return *sides, random.integers(0, 2, 200).astype(np.uint8)


def test_offsets_are_the_ends(model):
    found = offsets(model.observations_, model.row_bias_, "row")
    order = np.argsort(-model.row_bias_[:-1])  # the last row has no entries
    np.testing.assert_allclose(found["values"][:ENDS], model.row_bias_[order[:ENDS]])
    np.testing.assert_allclose(found["values"][ENDS:], model.row_bias_[order[-ENDS:]])
    assert "row 39" not in found["names"]
    few = Observations.from_dense([[1.0, 0.0, np.nan]])
    assert offsets(few, np.array([0.1, 0.2, 0.3]), "column")["values"] == [0.2, 0.1]


def test_a_table_with_few_entries_has_a_page():
    cells = np.indices((3, 5)).sum(axis=0) % 2
    model = BooleanCompletion(n_members=1, random_state=0).fit(cells)
    assert model.selection_ == []
    held_out = np.array([0]), np.array([0]), np.array([1], dtype=np.uint8)
    page = render_report(model, held_out=held_out)
    assert "There are too few entries to hold some out and to compare models on them." in page
    assert "Its quality is unknown." in page
    assert 'id="calibration"' in page


def test_a_fit_without_time_to_compare_models():
    """A large table is not said to have too few entries."""
    cells = np.random.default_rng(0).integers(0, 2, (30, 20))
    model = BooleanCompletion(n_members=1, max_time=1e-6, random_state=0).fit(cells)
    assert model.selection_ == []
    page = render_report(model)
    assert "too few entries" not in page
    assert "The fit ended before models could be compared on held-out entries." in page


def test_factors_are_named_by_their_surest_members(model):
    facts = layer_facts(model)
    layers = [m.layers for family in model.ensemble_.families for m in family.members[:1]]
    n_factors = sum(layer.rows.shape[1] for own in layers for layer in own)
    assert len(facts) <= n_factors + (0 if model.ensemble_.plain is None else 4)
    for fact in facts:
        assert fact["n_rows"] >= 1 and fact["n_columns"] >= 1
        assert len(fact["rows"]) == fact["n_rows"] and len(fact["columns"]) == fact["n_columns"]


def test_numbers_on_the_page(model, held_out):
    page = render_report(model, held_out=held_out)
    ours = page[: page.index('<script type="application/json"')]
    assert "<img src=x" not in ours and "window.hacked=1</script>" not in ours
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", page))
    losses = {row["model"]: row["log_loss"] for row in model.selection_}
    assert facts["cross-validated log-loss"] == f"{losses['blend']:.4f}"
    assert facts["the same with offsets alone"] == f"{losses['offsets']:.4f}"
    assert ours.count('<th scope="row">') == len(model.selection_)
    assert {"held-out log-loss", "held-out area under the curve"} < set(facts)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    assert len(data["reasons"]) == 2 * EXPLAINED  # of the holes, and of what was observed
    for reasons in data["reasons"]:
        *parts, total = reasons["values"]
        assert sum(parts) == pytest.approx(total, abs=1e-3)
        assert len(reasons["sentences"]) >= len(parts)
    short = re.search(r'<p id="short"[^>]*>(.*?)</p>', page, re.S).group(1)
    assert "One row has no entries and got the predictions of an average row." in short
    assert "missing entries of a table of 40 rows and 20 columns" in short
    expected = "BooleanCompletion(n_components=4, n_layers=2, n_members=2, random_state=0)"
    assert f"{expected}.fit(data)" in page


STRUCTURES = [
    Structure(n_directions, n_layers, 3, 0.8, pattern)
    for n_directions in (0, 1, 16)
    for n_layers in (0, 1, 6)
    for pattern in (False, True)
]


@pytest.mark.parametrize("tried", [STRUCTURES, STRUCTURES[1::2], [Structure(2, pattern=True)], []])
def test_every_structure_that_can_be_chosen_has_words(tried):
    """Models with and without the pattern of entries; a fit may end before offsets are tried."""
    figures = {"log_loss": 0.5, "standard_error": 0.1, "accuracy": 0.7, "weight": 0, "seconds": 1}
    names = ["blend", *(structure.name for structure in tried)] if tried else []
    selection = [{"model": name, **figures} for name in names]
    ensemble = random_ensemble(1, n_pattern=2 * bool(tried))
    model = model_of(ensemble, random_observations(1), selection)
    rows, columns = np.arange(5), np.arange(5)
    page = render_report(model, held_out=(rows, columns, np.ones(5, dtype=np.uint8)))
    assert f"The model is {html.escape(ensemble.name)}." in page
    sentence = judged(CompletionFacts(model))
    alone = {"offsets": "offsets alone", "offsets + pattern": "offsets + pattern alone"}
    expected = next((words for name, words in alone.items() if name in names), None)
    for text in (sentence, page):
        assert expected is None or f"with {expected}" in text
    assert (expected is None) == ("with offsets" not in sentence)


@pytest.mark.browser
def test_opened_in_a_browser(model, held_out, opened, tmp_path):
    write_report(model, tmp_path / "page.html", title=HOSTILE, held_out=held_out)
    page = opened(tmp_path / "page.html")
    page.locator("#offsets-row rect").first.wait_for()
    assert page.locator("#offsets-row rect").count() == 2 * ENDS
    assert page.locator("#calibration").is_hidden()
    page.locator("#technical summary").click()
    page.wait_for_selector("#calibration circle")
    # The reasons of a hole, as parts and in words.
    page.locator("#list-holes tbody button").first.click()
    why = page.locator("#list-holes .why")
    why.locator("rect").first.wait_for()  # charts are drawn when their size is known
    assert why.locator("rect").count() >= 3 and "base" in why.text_content()
    page.locator("#tiles canvas").nth(1).click(position={"x": 150, "y": 100})
    assert "P(observing 1) " in page.locator("#detail").text_content()
    page.locator("#theme").click()
    page.wait_for_function("() => document.documentElement.dataset.theme == 'dark'")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src='x']").count() == 0
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function("() => document.documentElement.scrollWidth <= 360")


@pytest.mark.browser
def test_nothing_is_cut_and_panels_are_alike(opened, tmp_path):
    """Names of factors, and the entries in all three panels."""
    shape = (40, 25)
    fitted = model_of(random_ensemble(1, shape), random_observations(1, shape))
    write_report(fitted, tmp_path / "page.html")
    page = opened(tmp_path / "page.html")
    names = page.locator(".card .name")
    cut = "inputs => inputs.filter(i => i.scrollWidth > i.clientWidth).map(i => i.value)"
    assert names.count() > 3 and names.evaluate_all(cut) == []
    assert "Ones are more probable here." in page.locator(".card .note").all_text_contents()
    boxes = [page.locator("#tiles canvas").nth(i).bounding_box()["width"] for i in range(3)]
    assert boxes[0] > boxes[1] + 20  # the names of rows
    assert boxes[1] == pytest.approx(boxes[2], abs=1)
