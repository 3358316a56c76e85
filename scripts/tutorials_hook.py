"""Hooks for MkDocs: a page, a notebook and pictures for each tutorial, and the gallery.

`mkdocs.yml` has this file in `hooks`; `scripts/tutorials.py` runs the scripts.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

import tutorials
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from collections.abc import Callable

    from mkdocs.config.defaults import MkDocsConfig

# Where the gallery goes: all tutorials, or those that are named.
GALLERY = re.compile(r"<!-- gallery((?: \w+)*) -->")

_tutorials: list[tutorials.Tutorial] = []


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages, notebooks and pictures; the scripts themselves are copied by MkDocs."""
    _tutorials[:] = tutorials.tutorials()
    for each in _tutorials:
        made: dict[str, str | bytes] = {
            f"{each.name}.md": tutorials.page(each),
            f"{each.name}.ipynb": tutorials.notebook(each),
        }
        for outcome in each.outcomes:
            for picture in outcome.pictures:
                made[tutorials.picture_name(each.name, picture)] = picture.read_bytes()
        for name, content in made.items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Put cards in place of the comment: all in the order of the navigation, or those it names."""
    found = GALLERY.search(markdown)
    if found is None:
        if page.file.src_uri == "tutorials/index.md":
            raise ValueError("tutorials/index.md must have a line <!-- gallery -->, got none")
        return markdown

    def address(name: str) -> str:
        file = files.get_file_from_path(f"tutorials/{name}")
        assert file is not None
        return file.url_relative_to(page.file)

    every = {each.name: each for each in _in_order(config.nav)}
    shown = [every[name] for name in found[1].split() or every]
    return markdown.replace(found[0], gallery(shown, address))


def _in_order(nav: Any) -> list[tutorials.Tutorial]:
    """The tutorials in the order of the navigation, which must contain all of them."""
    text = repr(nav)
    for each in _tutorials:
        if f"tutorials/{each.name}.md" not in text:
            raise ValueError(f"mkdocs.yml must have tutorials/{each.name}.md in its nav, got none")
    return sorted(_tutorials, key=lambda each: text.index(f"tutorials/{each.name}.md"))


def gallery(shown: list[tutorials.Tutorial], address: Callable[[str], str]) -> str:
    """Cards in HTML, with the CSS classes of the theme.

    `address` returns the address of a file relative to the gallery.
    """
    cards = "\n".join(_card(each, address) for each in shown)
    return f'<div class="grid cards gallery"><ul>\n{cards}\n</ul></div>'


def _card(shown: tutorials.Tutorial, address: Callable[[str], str]) -> str:
    picture, caption = shown.gallery
    source = address(tutorials.picture_name(shown.name, picture))
    page = address(f"{shown.name}.md")
    image = f'<img src="{source}" alt="{escape(caption)}" loading="lazy">'
    return (
        f'<li><a href="{page}">{image}</a>\n'
        f'<p><a href="{page}"><strong>{escape(shown.title)}</strong></a></p>\n'
        f"<p>{_with_code(escape(shown.summary))}</p></li>"
    )


def _with_code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
