"""Where compiled code is kept, and that it is compiled anew if any kernel file changes."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import boolweave
from boolweave.engine.kernels import jit

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
words, prior = np.ones((3, 1), np.uint64), np.ones((3, 1), np.float32)
print(int(variables.prior_totals(words, prior, np.float32(1e6))[0]) / variables.COARSE)
"""


# Entries are counted in groups of `vectors.LANES`, which is in another file.
COUNT = """
import numpy as np
from boolweave.engine.kernels import groups
block = groups.Block(
    None, 0, np.array([0, 64]), np.zeros(64, np.uint32), np.zeros(64, np.uint8)
)
n_groups = groups.count_groups(block, 8)
print(n_groups, sum(groups.count_groups.stats.cache_hits.values()))
"""


def copy_of_the_package(folder):
    package = folder / "boolweave"
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(Path(boolweave.__file__).parent, package, ignore=ignored))


def environment_without_caches():
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"NUMBA_CACHE_DIR", "PYTHONPYCACHEPREFIX"} and "COVERAGE" not in name
    }


def run(program, environment):
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize("beside_the_source", [True, False])
def test_a_change_in_another_file_is_noticed(tmp_path, beside_the_source):
    package = copy_of_the_package(tmp_path)
    environment = environment_without_caches() | {"PYTHONPATH": str(tmp_path)}
    if not beside_the_source:
        environment["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    assert run(COUNT, environment) == "4 0\n"
    assert run(COUNT, environment) == "4 1\n"
    constants = package / "engine" / "kernels" / "vectors.py"
    text = constants.read_text(encoding="utf-8")
    assert text.count("LANES = 16\n") == 1
    constants.write_text(text.replace("LANES = 16\n", "LANES = 8\n"), encoding="utf-8")
    assert run(COUNT, environment) == "8 0\n"
    assert run(COUNT, environment) == "8 1\n"
    caches = {file.parent for file in tmp_path.rglob("groups.count_groups*.nbi")}
    assert len(caches) == 1  # the old one was swept
    (cache,) = caches
    assert len(list(cache.parent.glob("boolweave-groups-*"))) == 1


BASELINE = """
from boolweave.engine.kernels import jit
jit.baseline = jit.Baseline.begin(jit.PACKAGE / "compiled")
"""


@pytest.fixture(scope="module")
def compiled_package(tmp_path_factory):
    """A copy of the package that brings along one function, compiled for a baseline."""
    folder = tmp_path_factory.mktemp("wheel")
    package = copy_of_the_package(folder)
    assert (
        run(BASELINE + COUNT, environment_without_caches() | {"PYTHONPATH": str(folder)}) == "4 0\n"
    )
    return package


compiled_here = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT) or platform.machine() not in jit.BASELINES,
    reason="nothing is compiled",
)


def count_in(package, cache):
    """The answer, the number of functions that were not compiled, and what was said."""
    environment = environment_without_caches()
    environment |= {"PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@compiled_here
def test_code_of_the_package_is_used(compiled_package, tmp_path):
    (index,) = compiled_package.rglob("compiled/engine/kernels/groups/*.nbi")
    assert "count_groups" in index.name
    assert count_in(compiled_package, tmp_path) == ("4 1\n", "")
    assert not list(tmp_path.rglob("*.nbi"))


@compiled_here
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"features": ["warp"], "processors": "starships"}, "starships, .* has no warp;"),
        ({"numba": "0.1"}, "numba 0.1, but this is numba "),
        ({"Python": "2.7"}, "Python 2.7, but this is Python "),
        ({"machine": "Multics"}, "machine Multics, but this is machine "),
    ],
)
def test_code_for_others_is_compiled_again_with_a_warning(
    compiled_package, tmp_path, change, problem
):
    package = Path(shutil.copytree(compiled_package, tmp_path / "boolweave"))
    description = package / "compiled" / jit.Baseline.DESCRIPTION
    description.write_text(json.dumps(json.loads(description.read_text()) | change))
    said, warned = count_in(package, tmp_path / "cache")
    assert said == "4 0\n"
    assert re.search(f"UserWarning: the package was compiled for {problem}", warned), warned
    assert count_in(package, tmp_path / "cache") == ("4 1\n", "")  # compiled once


@compiled_here
def test_code_of_other_kernel_files_is_not_used(compiled_package, tmp_path):
    package = Path(shutil.copytree(compiled_package, tmp_path / "boolweave"))
    constants = package / "engine" / "kernels" / "vectors.py"
    text = constants.read_text(encoding="utf-8")
    constants.write_text(text.replace("LANES = 16\n", "LANES = 8\n"), encoding="utf-8")
    assert count_in(package, tmp_path / "cache") == ("8 0\n", "")


def test_the_code_of_a_file_depends_on_what_it_imports_and_on_nothing_else():
    def names(path):
        return {file.stem for file in jit._imported(jit.PACKAGE / path)}

    assert {"groups", "vectors", "jit"} <= names("engine/kernels/groups.py")
    assert "vectors" in names("engine/kernels/zeros/ones.py")
    assert names("engine/kernels/predicting.py") == {"predicting", "jit"}


TOGETHER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from compiling import compile_once
compile_once(Path({locks!r}))
input()
"""


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_of_processes_of_the_tests_one_compiles(tmp_path):
    environment = environment_without_caches() | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    program = TOGETHER.format(tests=str(Path(__file__).parents[2]), locks=str(tmp_path)) + COUNT
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for child in started:
        child.stdin.write("\n")
        child.stdin.flush()
    told = [child.communicate(timeout=120) for child in started]
    assert sorted(out for out, _ in told) == ["4 0\n", "4 1\n"], told


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_folder_swept_while_it_is_written_to_stops_nothing(monkeypatch):
    def swept(*_):
        raise FileNotFoundError("no such folder")

    monkeypatch.setattr(jit._Cache, "_save_overload", swept)
    assert jit.njit(cache=True)(twice)(3) == 6


def twice(number):
    return 2 * number


def test_all_files_with_compiled_functions_count():
    package = Path(boolweave.__file__).parent
    counted = {file for pattern in jit.SOURCES for file in package.glob(pattern)}
    compiled = {f for f in package.rglob("*.py") if "@njit" in f.read_text(encoding="utf-8")}
    assert compiled
    assert compiled <= counted


def test_without_a_place_for_the_cache(tmp_path):
    """A file where numba wants a directory stops even those who may write everywhere."""
    package = copy_of_the_package(tmp_path)
    for folder in [package, *(f for f in package.rglob("*") if f.is_dir())]:
        (folder / "__pycache__").write_text("not a directory")
    not_a_home = tmp_path / "home"
    not_a_home.write_text("not a directory")
    environment = environment_without_caches()
    environment |= {"HOME": str(not_a_home), "XDG_CACHE_HOME": str(not_a_home / "cache")}
    environment["PYTHONPATH"] = str(tmp_path)
    program = PROGRAM.format(place=str(tmp_path))
    assert run(program, environment) == "3.0\n"


def test_other_errors_are_not_hidden(monkeypatch):
    def refuse(function):
        raise RuntimeError("something else")

    monkeypatch.setattr(jit, "_Cache", refuse)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 0)
    with pytest.raises(RuntimeError, match="something else"):
        jit.njit(cache=True)(run)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_what_only_kernels_call_has_no_entry_for_python():
    @jit.njit()
    def add(a, b):
        return a + b

    @jit.njit()
    def twice(a):
        return add(a, a)

    assert twice(3) == 6
    assert add.signatures == []
    assert (add(1.5, 2), twice(0.5)) == (3.5, 1.0)
    assert (len(add.signatures), len(twice.signatures)) == (1, 2)
