"""The tutorials: scripts that run, print what they say, and become pages and notebooks."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
tutorials = pytest.importorskip("tutorials")  # a source distribution has no scripts

SCRIPTS = tutorials.scripts()
each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
# A script is run by the first test that asks for it; the others, and the build of the
# documentation, find its outcome in the cache.
runs_scripts = [pytest.mark.slow, pytest.mark.timeout(900)]

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Code in a line, addresses of links, and years are no claims about the output.
NO_CLAIM = re.compile(r"`[^`]*`|\]\([^)]*\)|\b(?:19|20)\d\d\b")


def texts(script, kind):
    return [cell.text for cell in tutorials.parse(script.read_text("utf-8")) if cell.kind == kind]


class TestScripts:
    pytestmark = runs_scripts

    @each_script
    def test_prints_what_it_says(self, script):
        done = tutorials.tutorial(script)
        for cell, outcome in zip(done.cells, done.outcomes, strict=True):
            assert tutorials.plain_lines(outcome.output) == cell.expected.splitlines(), cell.line

    @each_script
    def test_numbers_in_the_text_are_printed_or_in_the_code(self, script):
        done = tutorials.tutorial(script)
        known = NUMBER.findall(" ".join(texts(script, "code")))
        known += [f"{100 * float(number):g}" for number in known if number.startswith("0.")]
        for outcome in done.outcomes:
            known += NUMBER.findall(outcome.output)
        for text in texts(script, "markdown"):
            claimed = NUMBER.findall(NO_CLAIM.sub("", text))
            assert set(claimed) <= set(known), text

    @each_script
    def test_page_has_output_and_pictures(self, script):
        done = tutorials.tutorial(script)
        page = tutorials.page(done)
        drawn = [picture for outcome in done.outcomes for picture in outcome.pictures]
        captions = [caption for outcome in done.outcomes for caption in outcome.captions]
        assert 1 <= len(drawn) <= 3
        assert all(captions)
        assert page.count("![") == len(drawn)
        assert page.count("```text") >= 3
        for outcome in done.outcomes:
            assert "\n".join(tutorials.plain_lines(outcome.output)) in page
        assert tutorials.EXPECTED not in page
        for picture in drawn:
            content = picture.read_bytes()
            assert content.startswith(b"\x89PNG")
            assert int.from_bytes(content[16:20], "big") >= 700  # points from left to right

    @each_script
    def test_notebook_has_the_code_of_the_script(self, script):
        nbformat = pytest.importorskip("nbformat")
        done = tutorials.tutorial(script)
        made = nbformat.reads(tutorials.notebook(done), as_version=4)
        nbformat.validate(made)
        code = "\n".join(cell.source for cell in made.cells if cell.cell_type == "code")
        assert ast.dump(ast.parse(code)) == ast.dump(ast.parse(script.read_text("utf-8")))
        pictures = sum(
            "image/png" in output.get("data", {})
            for cell in made.cells
            for output in cell.get("outputs", [])
        )
        assert pictures == sum(len(outcome.pictures) for outcome in done.outcomes)

    @each_script
    def test_update_changes_nothing(self, script):
        source = script.read_text("utf-8")
        assert tutorials.updated(source, tutorials.tutorial(script).outcomes) == source

    def test_gallery_shows_all_in_the_order_of_the_navigation(self):
        pytest.importorskip("mkdocs")
        import tutorials_hook

        tutorials_hook._tutorials[:] = tutorials.tutorials()
        nav = [{"Tutorials": [f"tutorials/{script.stem}.md" for script in reversed(SCRIPTS)]}]
        shown = tutorials_hook.gallery(tutorials_hook._in_order(nav), lambda name: f"../{name}")
        assert re.findall(r'<li><a href="../(\w+).md">', shown) == [
            s.stem for s in reversed(SCRIPTS)
        ]
        assert shown.count("<img ") == len(SCRIPTS)
        assert "`" not in shown
        with pytest.raises(ValueError, match=r"tutorials/senate\.md in its nav"):
            tutorials_hook._in_order([page for page in nav[0]["Tutorials"] if "senate" not in page])

    def test_gallery_of_some(self):
        pytest.importorskip("mkdocs")
        import tutorials_hook

        tutorials_hook._tutorials[:] = tutorials.tutorials()
        config = SimpleNamespace(nav=[f"tutorials/{script.stem}.md" for script in SCRIPTS])
        files = mock.Mock()
        files.get_file_from_path = lambda name: mock.Mock(url_relative_to=lambda page: name)

        def made(markdown, name="index.md"):
            page = SimpleNamespace(file=SimpleNamespace(src_uri=name))
            return tutorials_hook.on_page_markdown(markdown, page, config, files)

        shown = made("before\n<!-- gallery zoo films -->\nafter")
        assert re.findall(r'<li><a href="tutorials/(\w+).md">', shown) == ["zoo", "films"]
        assert made("no comment") == "no comment"
        with pytest.raises(KeyError, match="nothing"):
            made("<!-- gallery nothing -->")
        with pytest.raises(ValueError, match="must have a line"):
            made("no comment", "tutorials/index.md")


@each_script
def test_a_story_is_complete(script):
    """A title, a question, what it means and what to read next; links lead somewhere."""
    text = "\n\n".join(texts(script, "markdown"))
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    for heading in ("The question", "What it means", "What to read next"):
        assert f"## {heading}\n" in text
    for target in re.findall(r"\]\(([^)#]+)", text):
        if not target.startswith("http"):
            file = script.parent / target
            assert file.exists() or file.with_suffix(".py").exists(), target
    assert sum('"gallery"' in line for line in script.read_text("utf-8").splitlines()) == 1


def test_every_tutorial_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    missing = [script.stem for script in SCRIPTS if f"tutorials/{script.stem}.md" not in nav]
    assert len(SCRIPTS) >= 10
    assert missing == []


# ---------------------------------------------------------------- cells

STORY = """# %% [markdown]
# # A story
#
# In short.

# %% tags=["gallery"]
x = 6 * 7
print(x)
# > 42

# %% [markdown]
# Nothing more.
"""


@pytest.fixture
def story(tmp_path, monkeypatch):
    monkeypatch.setattr(tutorials, "CACHE", tmp_path / "cache")
    file = tmp_path / "story.py"
    file.write_text(STORY)
    return file


def test_cells():
    first, code, last = tutorials.parse(STORY)
    assert (first.kind, first.text) == ("markdown", "# A story\n\nIn short.")
    assert (code.kind, code.text, code.line) == ("code", "x = 6 * 7\nprint(x)", 7)
    assert (code.tags, code.expected) == (("gallery",), "42")
    assert last.text == "Nothing more."


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("print(1)\n", "must begin with a line"),
        ("import os\n# %% [markdown]\n# # Title\n", "must begin with a line"),
        ("# %%\nprint(1)\n", "a text cell that has a title"),
        ("# %% [markdown]\n# no title\n", "a text cell that has a title"),
        ("# %% [markdown]\n# # Title\nprint(1)\n", r"consist of comments, got 'print\(1\)'"),
    ],
)
def test_what_is_no_tutorial(source, words):
    with pytest.raises(ValueError, match=words):
        tutorials.parse(source)


def test_what_is_printed_now_takes_the_place_of_what_was(story):
    story.write_text(STORY.replace("# > 42", "# > 41\n# > 40"))
    done = tutorials.tutorial(story)
    assert [outcome.output for outcome in done.outcomes] == ["", "42\n", ""]
    assert tutorials.updated(story.read_text(), done.outcomes) == STORY
    with pytest.raises(ValueError, match="at least one picture"):
        done.gallery  # noqa: B018


def test_text_may_change_without_a_run_and_code_may_not(story, monkeypatch):
    tutorials.tutorial(story)

    def refuse(script, folder):
        raise AssertionError("run again")

    monkeypatch.setattr(tutorials, "_run_apart", refuse)
    story.write_text(STORY.replace("Nothing", "Little").replace("# > 42", "# > 43"))
    done = tutorials.tutorial(story)
    assert (done.cells[2].text, done.outcomes[1].output) == ("Little more.", "42\n")
    story.write_text(STORY.replace("6 * 7", "7 * 6"))
    with pytest.raises(AssertionError, match="run again"):
        tutorials.tutorial(story)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x = 1 / 0", r'story\.py", line 7, in <module>(?s:.*)ZeroDivisionError'),
        ("import warnings; warnings.warn('careful')", "UserWarning: careful"),
    ],
)
def test_an_error_or_a_warning_ends_the_build(story, line, words):
    story.write_text(STORY.replace("x = 6 * 7", line))
    for _ in range(2):  # what failed is not kept
        with pytest.raises(RuntimeError, match=words):
            tutorials.tutorial(story)


def test_pictures_by_pyplot_and_as_a_last_line(story):
    drawing = (
        "from boolweave.plot import plot_run\nimport numpy as np\nplot_run(np.ones(3), 'a', 'b')"
    )
    pyplot = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title('Points\\nand lines')"
    cells = f"# %%\n{drawing}\n\n# %%\n{pyplot}\nplt.show()\n"
    story.write_text(STORY + "\n" + cells)
    done = tutorials.tutorial(story)
    assert [len(outcome.pictures) for outcome in done.outcomes] == [0, 0, 0, 1, 1]
    assert done.outcomes[-1].captions == ("Points and lines",)
    assert "![Points and lines](pictures/story-04-0.png)" in tutorials.page(done)


def test_notebooks_stand_alone():
    text = "See [this](../files.md#csv) and [that](https://example.org/x)."
    assert tutorials.without_links(text) == "See this and [that](https://example.org/x)."
