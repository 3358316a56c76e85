"""The benchmarks still run: with small sizes where a script has them, otherwise its help."""

import importlib
import json
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


def test_a_problem_that_is_run_alone_joins_the_stored_ones(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)
    quality = importlib.import_module("quality")
    stored = tmp_path / "quality.json"
    rows = [{"name": "xor2", "error": 0.1}]
    assert quality.joined(stored, rows) == rows
    stored.write_text(json.dumps({"rows": [*rows, {"name": "k5", "error": 0.2}]}))
    again = quality.joined(stored, [{"name": "xor2", "error": 0.3}])
    assert again == [{"name": "k5", "error": 0.2}, {"name": "xor2", "error": 0.3}]
