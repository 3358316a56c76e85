"""Hooks for MkDocs: the version, the address of the repository, and the pages of the API.

MkDocs calls the functions `on_…` while it builds the site (`hooks` in mkdocs.yml). The API has one
page for each public class and function. These pages are generated from the list below, and
tests/project/test_docs.py compares the list with the public names of the package, so that no page
is forgotten.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import boolweave
from boolweave.parameters import parameters_of

ROOT = Path(__file__).resolve().parent.parent

# The public names by section of the navigation and by the module from which users import them.
API: dict[str, dict[str, list[str]]] = {
    "Factorization": {
        "boolweave": ["BooleanMatrixFactorization", "factorize", "select_rank", "load", "Channel"],
        "boolweave.engine.result": ["Result"],
        "boolweave.fit.rank_selection": ["RankSelection"],
        "boolweave.fit.learn": ["UninformativeWarning"],
        "boolweave.cautions": ["DegenerateDataWarning"],
    },
    "Completion": {
        "boolweave": ["BooleanCompletion", "complete"],
        "boolweave.functions": ["Completion"],
        "boolweave.completion.answers.explaining": [
            "CompletionExplanation", "ExplanationPart", "FactorPart", "Alike",
        ],
        "boolweave.completion.ensemble": [
            "Ensemble", "Family", "PlainBoolean", "Structure", "Member",
        ],
    },
    "Covers": {"boolweave": ["cover"], "boolweave.covering.result": ["Cover"]},
    "Observations and tables": {
        "boolweave": ["Observations", "TableEncoder"],
        "boolweave.data.ones": ["SparseObservations"],
        "boolweave.encoding.encoder": ["ColumnsLeftOutWarning"],
        "boolweave.io": ["read", "Reading"],
        "boolweave.io.dialect": ["Dialect"],
    },
    "Recommendations": {
        "boolweave.recommend": ["Recommendations", "Explanation", "Reason"],
    },
    "Reports and pictures": {
        "boolweave.report": ["write_report"],
        "boolweave.plot": ["plot_tiles"],
    },
    "Splits and searches": {
        "boolweave.data.splits": ["in_entry_order", "hide_last", "hide_after", "folds_by_time"],
        "boolweave.model_selection": ["Entries", "EntryKFold", "entry_scorer"],
    },
    "Metrics": {"boolweave.metrics": []},
    "Baselines": {"boolweave.baselines": [], "boolweave.baselines.comparison": ["Verdict"]},
    "Decoding": {
        "boolweave.decoding": [],
        "boolweave.decoding.group_testing": ["Report", "ErrorSummary"],
    },
    "Crowds and tests": {
        "boolweave.crowd": ["consensus", "Consensus"],
        "boolweave.diagnosis": ["CognitiveDiagnosis"],
    },
    "Data sets": {"boolweave.datasets": []},
    "Long runs and clusters": {
        "boolweave.distributed": ["DaskBooleanMatrixFactorization"],
        "boolweave.runtime.checkpoint": ["Checkpoint"],
    },
}  # fmt: skip

# A class and a function whose names differ only in case would have the same file on some systems.
CLASHING = {"Agreement"}
WITH_INHERITED = {"BooleanMatrixFactorization", "BooleanCompletion", "Observations"}


def names_in(module: str, names: list[str]) -> list[str]:
    """The names, or all public classes and functions of the module if no names are given."""
    offered = importlib.import_module(module)
    return names or [name for name in offered.__all__ if callable(getattr(offered, name))]


def entries() -> dict[str, list[tuple[str, str]]]:
    """The pairs (module, name) of each section of the API."""
    return {
        section: [
            (module, name) for module, names in parts.items() for name in names_in(module, names)
        ]
        for section, parts in API.items()
    }


def page_of(module: str, name: str) -> str:
    """The path of the page of a name: api/metrics.log_loss.md for boolweave.metrics.log_loss."""
    short = f"{module}.{name}".removeprefix("boolweave.")
    return f"api/{short}-class.md" if name in CLASHING else f"api/{short}.md"


def text_of(module: str, name: str) -> str:
    """The page of one class or function."""
    thing = getattr(importlib.import_module(module), name)
    inherited = "\n      inherited_members: true" if name in WITH_INHERITED else ""
    return (
        f"---\ntitle: {name}\n---\n\n`from {module} import {name}`\n\n"
        f"::: {thing.__module__}.{thing.__qualname__}\n"
        f"    options:\n      heading_level: 1{inherited}\n"
    )


def index() -> str:
    """The first page of the API: all names, with the first line of their docstrings."""
    lines = [
        "# API", "",
        "Every public class and function has a page of its own. Most work starts with "
        "[`factorize`](factorize.md), [`complete`](complete.md) or [`cover`](cover.md), or with "
        "the estimators `BooleanMatrixFactorization` and `BooleanCompletion`. On the command line, "
        "options have the names of the parameters.",
    ]  # fmt: skip
    for section, things in entries().items():
        lines += ["", f"## {section}", "", "| name | what it is |", "|---|---|"]
        for module, name in things:
            thing = getattr(importlib.import_module(module), name)
            summary = (inspect.getdoc(thing) or "").partition("\n\n")[0]
            summary = re.sub(r"``(.*?)``", r"`\1`", " ".join(summary.split())).replace("|", "\\|")
            link = page_of(module, name).removeprefix("api/")
            lines.append(f"| [`{name}`]({link}) | {summary} |")
    return "\n".join(lines) + "\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the version, the address of the repository if it is known, and the pages of the API."""
    config.site_name = f"boolweave {boolweave.__version__}"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    address = re.search(r'^repository-code: "?([^"\s]+)', citation, re.MULTILINE)
    if address:
        config.repo_url, config.repo_name = address[1], "repository"
    config.nav = [part for entry in config.nav or [] for part in filled(entry)]
    return config


def filled(entry: Any) -> list[Any]:
    """An entry of the navigation, in which `api/` is replaced by the pages of the API."""
    [(title, place)] = entry.items()
    if place == "api/":
        pages = [
            {section: [{name: page_of(module, name)} for module, name in things]}
            for section, things in entries().items()
        ]
        return [{title: [{"Overview": "api/index.md"}, *pages]}]
    return [entry]


# Code of up to this many characters is kept on one line.
SHORT = 26


# Where a page has the table of the parameters of a class.
PARAMETERS = re.compile(r"<!-- parameters of (\w+) -->")


def table_of_parameters(match: re.Match[str]) -> str:
    """The parameters of a class as they are declared, in a table."""
    lines = ["| parameter | values | default | what it is |", "|---|---|---|---|"]
    for each in parameters_of(getattr(boolweave, match[1])).values():
        cells = f"`{each.name}`", f"`{each.values}`", f"`{each.default_in_words}`", each.sentence
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the tables of parameters."""
    return PARAMETERS.sub(table_of_parameters, markdown)


# The line of a page of the API that says where to import a name from, and its heading.
IMPORT = re.compile(r"(<p><code>from \S+ import \w+</code></p>)(.*?</h1>)", re.DOTALL)

# A picture that is a paragraph by itself, and its file.
PICTURE = re.compile(r'<p>(<img [^>]*src="([^"]+)"[^>]*>)</p>')

# What the templates of mkdocstrings leave behind a parameter without a description or a default.
EMPTY = re.compile(r"\s*–\s*<div class=\"doc-md-description\">\s*</div>")
LOOSE = re.compile(r"(default:\s*<code>[^<]*</code>)\s+\)")


# Parts of a page in which names are not linked, and a name of a class as code.
APART = re.compile(r"(<(h[1-6]|a|pre)\b.*?</\2>)", re.DOTALL)
CLASS = re.compile(r"<code>([A-Z]\w+)</code>")


def linked(html: str, page: Any, files: Files) -> str:
    """Link the first mention of each public class to its page of the API."""
    pages = {
        name: page_of(module, name) for things in entries().values() for module, name in things
    }

    def link(match: re.Match[str]) -> str:
        file = files.get_file_from_path(pages.pop(match[1], ""))
        if file is None or file.src_uri == page.file.src_uri:
            return match[0]
        return f'<a href="{file.url_relative_to(page.file)}">{match[0]}</a>'

    # The parts are in turn: text, a part without links, the name of its tag.
    parts = APART.split(html)
    parts[::3] = [CLASS.sub(link, part) for part in parts[::3]]
    del parts[2::3]
    return "".join(parts)


def on_page_content(html: str, page: Any, files: Files, **_: Any) -> str:
    """Tidy the pages of the API, link names and pictures, and mark short pieces of code.

    A phone should not break short pieces of code at hyphens, and shows a picture larger by itself.
    """
    if page.file.src_uri.startswith("api/"):
        html = IMPORT.sub(r"\2\1", html, count=1)
        html = LOOSE.sub(r"\1)", EMPTY.sub("", html))
        html = re.sub(r"\(<code>[^<]*</code>", lambda kind: kind[0].replace("`", ""), html)
    html = linked(html, page, files)
    html = PICTURE.sub(r'<p><a href="\2">\1</a></p>', html)
    code = rf"(?<!<pre>)(?<!</span>)<code>([^<\n]{{1,{SHORT}}})</code>"
    return re.sub(code, r'<code class="short">\1</code>', html)


def from_root(name: str) -> str:
    """The text of a page outside of docs, with links relative to docs."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return text.replace("](docs/", "](")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the API, and those that are outside of docs."""
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        files.append(File.generated(config, name.lower(), content=from_root(name)))
    files.append(File.generated(config, "api/index.md", content=index()))
    for things in entries().values():
        for module, name in things:
            text = text_of(module, name)
            files.append(File.generated(config, page_of(module, name), content=text))
    return files
