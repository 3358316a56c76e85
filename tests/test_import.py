"""Importing the package is light, and its public names are there."""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import boolweave

HEAVY = ("numba", "sklearn", "polars", "scipy", "narwhals", "pandas", "matplotlib", "rich", "typer")

PROGRAM = """
import sys
import {module}
print([name for name in {heavy!r} if name in sys.modules])
"""


def loaded_by(module, heavy=HEAVY):
    program = PROGRAM.format(module=module, heavy=heavy)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "module", ["boolweave", "boolweave.model.channel", "boolweave.data.observations"]
)
def test_importing_loads_nothing_heavy(module):
    assert loaded_by(module) == "[]"


def test_the_command_line_loads_nothing_else():
    """Help and complaints about options are quick because of this."""
    others = [name for name in (*HEAVY, "numpy") if name not in ("typer", "rich")]
    assert loaded_by("boolweave.cli", others) == "[]"


def test_public_names():
    for name in boolweave.__all__:
        assert getattr(boolweave, name).__module__.startswith("boolweave.")
        assert name in dir(boolweave)
    assert {
        "BooleanCompletion", "BooleanMatrixFactorization", "Channel", "Observations", "complete",
        "factorize", "load",
    } <= set(boolweave.__all__)  # fmt: skip
    assert boolweave.datasets.make_boolean


def test_one_version():
    """The package has the number; the build reads it there, and what is installed shows it."""
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/boolweave/__init__.py"
    assert boolweave.__version__ == metadata.version("boolweave")
    assert f"\nversion: {boolweave.__version__}\n" in (root / "CITATION.cff").read_text()


def test_unknown_names():
    with pytest.raises(AttributeError, match="module 'boolweave' has no attribute 'nonsense'"):
        _ = boolweave.nonsense
