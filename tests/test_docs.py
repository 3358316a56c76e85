"""The pages of the documentation as Markdown shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))

# What Markdown takes as it stands: code, fenced, indented or inside a line; comments; the
# addresses of links and pictures; names for mkdocstrings.
VERBATIM = re.compile(
    r"```.*?```|^(?: {4,}|\t).*?$|`[^`]*`|<!--.*?-->|\]\([^)]*\)|^::: .*?$",
    re.DOTALL | re.MULTILINE,
)


def test_there_are_pages():
    assert "mathematics.md" in [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_underscore_in_running_text(page):
    """It would begin or end emphasis; subscripts are written with <sub>."""
    text = VERBATIM.sub("", page.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if "_" in line] == []


def test_formulas_as_they_are_built():
    import markdown

    page = next(page for page in PAGES if page.name == "mathematics.md")
    built = markdown.markdown(page.read_text(encoding="utf-8"), extensions=["tables", "toc"])
    assert "<em>" not in built  # this page stresses with ** only
    for formula in (
        "min{ (−max<sub>j≠k</sub> Γ̂<sub>j</sub>)₊ , L + Σ<sub>j≠k</sub> (Γ̂<sub>j</sub>)₊ }</td>",
        "min(abs L, min<sub>j≠k</sub> abs Γ̂<sub>j</sub>)</td>",
        "z<sub>mn</sub> = ⋁<sub>k</sub> (x<sub>mk</sub> ∧ y<sub>kn</sub>)",
    ):
        assert formula in built
