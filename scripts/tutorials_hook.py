"""Gives MkDocs the tutorials: a page, a notebook and pictures for each script, and the gallery.

`mkdocs.yml` names this file under `hooks`; `scripts/tutorials.py` runs the scripts.
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

GALLERY = "<!-- gallery -->"

_told: list[tutorials.Tutorial] = []


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the scripts made; the scripts themselves are copied as they are."""
    _told[:] = tutorials.tutorials()
    for told in _told:
        made: dict[str, str | bytes] = {
            f"{told.name}.md": tutorials.page(told),
            f"{told.name}.ipynb": tutorials.notebook(told),
        }
        for outcome in told.outcomes:
            for picture in outcome.pictures:
                made[tutorials.picture_name(told.name, picture)] = picture.read_bytes()
        for name, content in made.items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Put the gallery where its page has the comment for it, in the order of the navigation."""
    if page.file.src_uri != "tutorials/index.md":
        return markdown
    if GALLERY not in markdown:
        raise ValueError(f"tutorials/index.md must have a line {GALLERY}, got none")

    def address(name: str) -> str:
        file = files.get_file_from_path(f"tutorials/{name}")
        assert file is not None
        return file.url_relative_to(page.file)

    return markdown.replace(GALLERY, gallery(_in_order(config.nav), address))


def _in_order(nav: Any) -> list[tutorials.Tutorial]:
    """The tutorials as the navigation has them; one that is not in it is an error."""
    text = repr(nav)
    for told in _told:
        if f"tutorials/{told.name}.md" not in text:
            raise ValueError(f"mkdocs.yml must have tutorials/{told.name}.md in its nav, got none")
    return sorted(_told, key=lambda told: text.index(f"tutorials/{told.name}.md"))


def gallery(told: list[tutorials.Tutorial], address: Callable[[str], str]) -> str:
    """Cards in HTML, with the classes that the theme has for them.

    `address` gives the address of a file of the folder, seen from the gallery.
    """
    cards = "\n".join(_card(each, address) for each in told)
    return f'<div class="grid cards"><ul>\n{cards}\n</ul></div>'


def _card(told: tutorials.Tutorial, address: Callable[[str], str]) -> str:
    picture, caption = told.gallery
    source = address(tutorials.picture_name(told.name, picture))
    page = address(f"{told.name}.md")
    image = (
        f'<img src="{source}" alt="{escape(caption)}" loading="lazy" '
        'style="width:100%;height:11rem;object-fit:contain;background:#fff;border-radius:.2rem">'
    )
    return (
        f'<li><a href="{page}">{image}</a>\n'
        f'<p><a href="{page}"><strong>{escape(told.title)}</strong></a></p>\n'
        f"<p>{_with_code(escape(told.summary))}</p></li>"
    )


def _with_code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
