"""Kernels where compiled code can be kept nowhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import boolweave
from boolweave.engine.kernels.jit import njit

PROGRAM = """
import boolweave
from boolweave.engine.kernels import jit
from boolweave.engine.kernels import variables
from boolweave.engine.kernels import integer_max_sum
from boolweave.engine.kernels import max_sum
from boolweave.engine.kernels import sum_product
from boolweave.decoding import batches, set_search
assert boolweave.__file__.startswith({place!r}), boolweave.__file__

import numpy as np
belief = np.full((2, 3), 7, np.float32)
total = np.zeros(6, np.float32)
variables.add_records(belief.reshape(-1), 3, 3, total)
print(total.reshape(2, 3).tolist())
"""


def test_without_a_place_for_the_cache(tmp_path):
    """A file where numba wants a directory stops even those who may write everywhere."""
    package = tmp_path / "boolweave"
    shutil.copytree(
        Path(boolweave.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for folder in [package, *(f for f in package.rglob("*") if f.is_dir())]:
        (folder / "__pycache__").write_text("not a directory")
    not_a_home = tmp_path / "home"
    not_a_home.write_text("not a directory")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"NUMBA_CACHE_DIR", "PYTHONPYCACHEPREFIX"} and "COVERAGE" not in name
    }
    environment |= {"HOME": str(not_a_home), "XDG_CACHE_HOME": str(not_a_home / "cache")}
    environment["PYTHONPATH"] = str(tmp_path)
    program = PROGRAM.format(place=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[[7.0, 7.0, 7.0], [7.0, 7.0, 7.0]]\n"


def test_other_errors_are_not_hidden(monkeypatch):
    def refuse(**options):
        raise RuntimeError("something else")

    monkeypatch.setattr(numba, "njit", refuse)
    with pytest.raises(RuntimeError, match="something else"):
        njit(cache=True)(len)
