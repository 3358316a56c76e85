"""Packages that only some tasks need: where one is missing, the error names the extra."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from urllib.parse import urlsplit
from urllib.request import url2pathname

# The extra of pyproject.toml that installs a package, and the name by which people know it.
EXTRAS = {
    "PIL": ("plot", "Pillow"),
    "distributed": ("distributed", "Dask"),
    "fastexcel": ("excel", "fastexcel"),
    "jinja2": ("report", "jinja2"),
    "matplotlib": ("plot", "matplotlib"),
    "xlsxwriter": ("excel", "xlsxwriter"),
}


def need(package: str, task: str) -> None:
    """Raise unless a package is installed; `task` is what needs it, such as "a picture"."""
    if find_spec(package) is None:
        extra, name = EXTRAS[package]
        raise ImportError(f"{task} needs {name}: {installing(extra)}", name=package)


def installing(extra: str) -> str:
    """The command that installs an extra, from the copy of the repository that is installed."""
    try:
        stored = distribution("boolweave").read_text("direct_url.json")
    except PackageNotFoundError:
        stored = None
    facts = json.loads(stored) if stored else {}
    place = urlsplit(facts.get("url", ""))
    if place.scheme != "file":
        return f"pip install 'boolweave[{extra}]'"
    editable = "-e " if facts.get("dir_info", {}).get("editable") else ""
    return f"pip install {editable}'{url2pathname(place.path)}[{extra}]'"
