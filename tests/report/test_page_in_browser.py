"""The page in a real browser: what a reader does with it, on a desk and on a phone."""

import csv
import re

import numpy as np
import pytest
import scipy.sparse
from test_report import HOSTILE, fitted

from boolweave import BooleanMatrixFactorization, Observations, cover
from boolweave.datasets import load_senate
from boolweave.report import write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def votes():
    return load_senate(107).observations.hide(0.2, random_state=0)


@pytest.fixture(scope="module")
def model(votes):
    return fitted(votes[0])


@pytest.fixture(scope="module")
def senate(model, votes, tmp_path_factory):
    path = tmp_path_factory.mktemp("senate") / "senate.html"
    write_report(model, path, title="107th Senate", held_out=votes[1:])
    return path


def canvas_of(page, panel):
    return page.locator("#tiles canvas").nth(panel)


def picture(page, panel=0):
    """What is drawn on a panel, after what was asked for is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    return canvas_of(page, panel).evaluate("canvas => canvas.toDataURL()")


def saved(page, button):
    with page.expect_download() as download:
        button.click()
    text = download.value.path().read_text("utf-8-sig")
    return download.value.suggested_filename, list(csv.reader(text.splitlines()))


def test_pointing_and_clicking(senate, opened):
    page = opened(senate)
    assert len({picture(page, panel) for panel in range(3)}) == 3
    for panel in range(3):
        canvas_of(page, panel).hover(position={"x": 130, "y": 200})
        tip = page.locator("#tip").text_content()
        assert "roll call" in tip and re.search(r"\([DRI]-[A-Z]{2}\)", tip)
        assert "P(true 1) " in tip and "Factor" in tip
    canvas_of(page, 0).click(position={"x": 60, "y": 60})
    why = page.locator("#detail").text_content()
    assert "Both belong to Factor" in why and re.search(r"has \d+ ones in \d+ observed", why)
    # Dragging enlarges a part; the whole matrix comes back.
    before = picture(page)
    box = canvas_of(page, 0).bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 80, box["y"] + 45, steps=4)
    page.mouse.up()
    assert picture(page) != before
    page.locator("#whole").click()
    assert picture(page) == before


def test_lists_are_searched_sorted_and_exported(senate, model, opened):
    page = opened(senate)
    holes, doubtful = page.locator("#list-holes"), page.locator("#list-doubtful")
    lines = doubtful.locator("tbody tr")
    assert lines.count() == 50
    doubtful.get_by_role("button", name="Show more").click()
    assert lines.count() == 250
    doubtful.get_by_role("searchbox").fill("feingold")
    assert all("Feingold" in text for text in lines.all_text_contents())
    doubtful.get_by_role("button", name="row", exact=True).click()
    names = [text.split("Feingold")[0] for text in lines.all_text_contents()]
    numbers = [int(name.split()[-1]) for name in names]
    assert numbers == sorted(numbers)
    name, table = saved(page, doubtful.get_by_role("button", name="Export as CSV"))
    assert name == "doubtful.csv"
    assert table[0] == ["row", "column", "observed", "P(1)", "doubt"]
    assert f"{len(table) - 1} of " in doubtful.get_by_role("status").text_content()
    rows, columns = zip(*[line[:2] for line in table[1:]], strict=True)
    chances = model.predict_proba(list(rows), list(columns))
    np.testing.assert_allclose([float(line[3]) for line in table[1:]], chances, atol=1e-5)
    why = doubtful.get_by_role("button", name="Why?").first
    why.click()
    assert why.get_attribute("aria-expanded") == "true"
    assert "Feingold" in doubtful.locator(".why").text_content()
    # A row or column is looked for in the matrix, and from there in the lists.
    page.locator("#find").fill("byrd")
    page.locator("#find").press("Enter")
    assert re.search(
        r"Column Byrd .* belongs to .*has [\d,]+ ones", page.locator("#detail").text_content()
    )
    page.get_by_role("button", name="Show its entries in the lists").click()
    assert all("Byrd" in text for text in holes.locator("tbody tr").all_text_contents())
    page.locator("#find").fill("nobody of this name")
    assert "no such row or column" in page.locator("#matches").text_content()


def test_factors_are_selected_renamed_and_exported(senate, model, opened):
    page = opened(senate)
    plain = picture(page)
    first, second = page.locator(".pick").nth(0), page.locator(".pick").nth(1)
    first.focus()
    page.keyboard.press("ArrowRight")
    assert second.evaluate("b => b === document.activeElement")
    page.keyboard.press("Enter")
    assert second.get_attribute("aria-pressed") == "true"
    assert picture(page) != plain
    name = page.locator(".card .name").nth(1)
    name.fill("Conservatives")
    name.press("Enter")
    file, table = saved(page, page.locator("#export-factors"))
    assert (file, table[0]) == ("factors.csv", ["factor", "name", "axis", "label"])
    assert {tuple(line[:2]) for line in table[1:]} == {("2", "Conservatives")}
    members = {line[3] for line in table[1:] if line[2] == "column"}
    labels = model.observations_.column_labels
    assert members == set(labels[model.components_[1] > 0].tolist())
    page.keyboard.press("Escape")
    assert second.get_attribute("aria-pressed") == "false"
    assert len(saved(page, page.locator("#export-factors"))[1]) > len(table)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator(".card .name").nth(1).input_value() == "Conservatives"


def test_keyboard_walks_the_matrix(senate, opened):
    page = opened(senate)
    canvas_of(page, 0).focus()
    page.keyboard.press("ArrowDown")
    first = page.locator("#detail").text_content()
    for key in ("ArrowDown", "ArrowRight", "+", "+", "0"):
        page.keyboard.press(key)
    assert page.locator("#detail").text_content() != first
    page.keyboard.press("Enter")
    assert page.locator("#detail .why").count() == 1
    assert page.locator("#technical").evaluate("d => d.open") is False


def test_a_phone_in_the_dark_and_paper(senate, opened, tmp_path):
    page = opened(senate, scheme="dark", width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    boxes = [canvas_of(page, panel).bounding_box() for panel in range(3)]
    assert boxes[0]["x"] == boxes[1]["x"] and boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"]
    dark = picture(page)
    page.locator("#theme").click()
    assert picture(page) != dark
    page.locator("#technical summary").click()
    for chart in ("residual", "posterior", "changes", "beliefs-rows", "calibration"):
        page.wait_for_selector(f"#{chart} svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.pdf(path=tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").stat().st_size > 10_000


def test_hostile_labels_are_only_text(opened, tmp_path):
    table = np.array([[1, 1, 0, 0, 1, 0], [1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 1]] * 2, float)
    table[0, 1] = np.nan
    labels = [text + " r" for text in HOSTILE]
    seen = Observations.from_dense(table, row_labels=labels, column_labels=HOSTILE)
    write_report(fitted(seen), tmp_path / "hostile.html", title=HOSTILE[0])
    page = opened(tmp_path / "hostile.html")
    box = page.locator("#tiles").bounding_box()
    for x in np.linspace(0.05, 0.95, 8):
        for y in (0.2, 0.5, 0.8):
            page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    page.locator(".pick").first.click()
    page.locator(".card .name").first.fill(HOSTILE[1])
    for button in page.get_by_role("button", name="Why?").all()[:4]:
        button.click()
    page.locator("#find").fill("img")
    page.locator("#matches button").first.click()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src='x'], a[href^='javascript'], svg[onload]").count() == 0
    assert "<img src=x" in page.locator("main").text_content()
    assert page.title().startswith(HOSTILE[0])


def test_a_cover(opened, tmp_path):
    grants = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
    seen = Observations.from_dense(grants, row_labels=["Ann", "Bo", "Cy", "Di"])
    write_report(cover(seen, n_components=2, random_state=0), tmp_path / "roles.html")
    page = opened(tmp_path / "roles.html")
    assert "Two roles cover 88.9% of the 9 ones" in page.locator("#short").text_content()
    page.locator("#coverage circle").first.wait_for()
    assert page.locator("#coverage circle").count() == 2
    assert page.locator("#list-missed tbody tr").count() == 1
    page.locator("#list-missed tbody button").click()
    assert "No role has both the row and the column." in page.locator(".why").text_content()
    name = page.locator("#held-by-few tbody th [data-factor='0']")
    assert name.text_content() == "Role 1"
    page.locator(".card .name").first.fill("Operators")
    page.locator(".card .name").first.press("Enter")
    assert name.text_content() == "Operators"
    canvas_of(page, 1).click(position={"x": 100, "y": 20})
    assert "covered" in page.locator("#detail").text_content()


@pytest.mark.parametrize("sampled", [True, False], ids=["sample of tiles", "means of blocks"])
def test_large_tables(sampled, opened, tmp_path, monkeypatch):
    monkeypatch.setattr("boolweave.report.grid.MOST_CELLS", 100)
    monkeypatch.setattr("boolweave.report.grid.GRID_SIDE", 20)
    cells = np.kron(np.eye(2, dtype=np.int8), np.ones((30, 20), np.int8))
    cells[0, 39] = 1
    table = scipy.sparse.csr_array(cells) if sampled else cells
    zeros = "collective" if sampled else "exact"
    how = {"method": "max-sum", "random_state": 0, "zeros": zeros}
    write_report(BooleanMatrixFactorization(2, **how).fit(table), tmp_path / "page.html")
    page = opened(tmp_path / "page.html", width=400)
    canvas_of(page, 1).click(position={"x": 250, "y": 60})
    assert "P(true 1) " in page.locator("#detail").text_content()
    first = page.locator("#list-doubtful tbody tr").first
    assert "row 1" in first.text_content() and "column 40" in first.text_content()
    first.get_by_role("button").click()
    assert "No factor has both" in page.locator(".why").last.text_content()
    page.locator("#find").fill("column 40")
    page.locator("#find").press("Enter")
    assert "Column column 40 belongs to Factor 2" in page.locator("#detail").text_content()
    table = saved(page, page.locator("#export-factors"))[1]
    assert len(table) - 1 == 2 * (30 + 20)
