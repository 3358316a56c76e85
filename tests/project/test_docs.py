"""The pages of the documentation: their code runs, and Markdown shows them as meant."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import polars
import pytest
from pages import Run, blocks_of, fault_of

from short import shorten_bounds, shorten_chains, shorten_covers, shorten_searches

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
WITH_CODE = [
    page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES)
    if page.exists() and blocks_of(page)
]

# What Markdown takes as it stands: code, fenced, indented or inside a line; formulas; comments;
# the addresses of links and pictures.
VERBATIM = re.compile(
    r"```.*?```|^(?: {4,}|\t).*?$|`[^`]*`|\$\$.*?\$\$|\$[^$\n]+\$|<!--.*?-->|\]\([^)]*\)",
    re.DOTALL | re.MULTILINE,
)


def test_there_are_pages():
    assert "mathematics.md" in [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_underscore_in_running_text(page):
    """It would begin or end emphasis; subscripts are written in formulas."""
    text = VERBATIM.sub("", page.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if "_" in line] == []


def public_names():
    """Functions and classes that the package and its public folders offer."""
    for folder in ("", ".baselines", ".datasets", ".decoding", ".distributed", ".metrics"):
        module = importlib.import_module(f"boolweave{folder}")
        yield from (name for name in module.__all__ if callable(getattr(module, name)))


def test_every_public_name_has_a_page(site):
    pages = [page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html")]
    shown = [re.findall(r'<h1 id="(boolweave[\w.]+)"', page) for page in pages]
    assert sorted(map(len, shown)) == [0] + [1] * (len(pages) - 1)  # one each, and the overview
    names = {identity.rpartition(".")[2] for identities in shown for identity in identities}
    assert sorted(set(public_names()) - names) == []


def test_pages_of_the_api_begin_with_the_heading_and_have_no_empty_descriptions(site):
    for page in (site / "api").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        if page.name != "index.html":
            [imported] = re.finditer(r"<p><code[^>]*>from \S+ import \w+</code></p>", text)
            assert 0 < text.index("</h1>") < imported.start()
        assert not re.search(r"–\s*<div class=\"doc-md-description\">\s*</div>", text), page.name


def test_pictures_and_classes_are_linked(site):
    text = (site / "benchmarks.html").read_text(encoding="utf-8")
    assert re.search(r'<a href="pictures/speed.png"><img [^>]*src="pictures/speed.png"', text)
    links = re.findall(r'<a href="api/BooleanCompletion.html"><code[^>]*>BooleanCompletion<', text)
    assert len(links) == 1


def test_no_page_loads_anything_from_elsewhere(site):
    """A link may lead anywhere; scripts, styles, fonts and pictures are part of the site."""
    pages = list(site.rglob("*.html"))
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]* src="?(?:https?:)?//|<link[^>]* href="?(?:https?:)?//'
    )
    assert len(pages) > 50
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []


def test_links_of_the_page_for_wrong_addresses_work_below_a_path(site):
    text = (site / "404.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:href|src)="([^"]*)"', text) == ["index.html"]
    folders = {page.parent for page in site.rglob("*.html")}
    assert all((folder / "index.html").exists() for folder in folders)


PATH = re.compile(r"`((?:src|tests|docs|benchmarks|experiments|scripts)/[\w./-]+)`")


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *PAGES], ids=lambda page: page.name)
def test_paths_on_the_pages_exist(page):
    named = PATH.findall(page.read_text(encoding="utf-8")) if page.name != "CHANGELOG.md" else []
    assert [path for path in named if not (ROOT / path).exists()] == []


# ---------------------------------------------------------------- code

LIKES = """name,tea,rum,gin,milk,cake
Ann,1,,0,1,1
Bo,1,0,0,1,1
Cy,0,1,1,,0
Di,0,1,1,0,
Ed,1,0,0,1,1
"""


HAMMING = np.array([[1, 1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 1]])


def what_readers_have(folder):
    """Files and names that the pages take for granted: data of the reader's own."""
    from boolweave.datasets import make_boolean
    from boolweave.decoding import design_pools, write_alist

    (folder / "votes.csv").write_text(LIKES)
    (folder / "grants.csv").write_text("user,permission\nAnn,read\nBo,read\nBo,write\n")
    write_alist(folder / "code.alist", HAMMING)
    np.save(folder / "ratios.npy", np.full((2, 7), 3.0))
    (folder / "received.txt").write_text("1000000\n0000000\n")
    (folder / "new.csv").write_text("name,tea,cake,rum\nZoe,1,,0\n")
    np.savetxt(folder / "pools.csv", np.eye(4, 6), fmt="%d", delimiter=",")
    np.savetxt(folder / "outcomes.csv", [1, 0, 0, 1], fmt="%d")
    (folder / "big").mkdir()
    triples = np.indices((30, 20)).reshape(2, -1)
    planted = make_boolean(30, 20, 2, flip=0.02, random_state=0)
    values = planted.observations.to_dense()[tuple(triples)].astype(int)
    for number, part in enumerate(np.array_split(np.arange(len(values)), 2)):
        columns = {"row": triples[0][part], "column": triples[1][part], "value": values[part]}
        polars.DataFrame(columns).write_parquet(folder / "big" / f"{number}.parquet")
    design = design_pools(items=1000, pools=120, prevalence=0.01, random_state=0)
    return {
        "X": planted.observations,
        "outcomes": design[:, [3]].toarray().ravel(),
        "received": np.array([1, 0, 0, 0, 0, 0, 0]),
        "message": np.array([1, 0, 1, 1]),
    }


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_not(page):
    assert [(b.line, fault) for b in blocks_of(page) if (fault := fault_of(b))] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_code_runs(page, tmp_path, monkeypatch):
    """Where no output is compared, searches and chains are short: the same calls, less work."""
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(page)
    if not any(block.has_output for block in blocks):
        for shorten in (shorten_searches, shorten_bounds, shorten_chains, shorten_covers):
            shorten(monkeypatch)
    run = Run(page, tmp_path, what_readers_have(tmp_path))
    for block in blocks:
        run.block(block)
