"""Packages that only some tasks need: where one is missing, the error names the extra."""

from importlib.util import find_spec

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
        raise ImportError(f"{task} needs {name}: pip install 'boolweave[{extra}]'", name=package)
