"""The benchmarks still run: with small sizes where a script has them, otherwise its help."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from commands import run_script_here

from boolweave import BooleanMatrixFactorization

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if "ArgumentParser" in path.read_text())


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    done = run_script_here(FOLDER / f"{script}.py", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")


def test_iterations_are_timed(monkeypatch):
    """The benchmark replaces a function inside the library, so that it breaks when that changes."""
    monkeypatch.syspath_prepend(FOLDER)
    clusters = importlib.import_module("clusters")
    model = BooleanMatrixFactorization(max_iter=8, **clusters.MAX_SUM)
    seconds, odds = clusters.timed(model, np.eye(12))
    assert seconds > 0
    np.testing.assert_array_equal(odds, model.row_log_odds_)
