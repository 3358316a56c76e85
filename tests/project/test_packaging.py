"""The wheel and the sdist: the same bytes from the same commit, and what is in them."""

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from commands import run_here

ROOT = Path(__file__).parents[2]
CORE = {"numpy", "scipy", "numba", "scikit-learn", "polars", "narwhals", "charset-normalizer",
        "typer", "rich"}  # fmt: skip
EXTRAS = {"plot", "report", "excel", "distributed", "test", "lint", "bench", "docs"}


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Both archives, built twice in different places; the script compares them."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "build_dist.py", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = [line.split()[2] for line in done.stdout.splitlines()]
    assert sorted(path.name for path in folder.iterdir()) == names
    return folder


def test_a_wheel_with_compiled_kernels(built, tmp_path, monkeypatch):
    """They are a stand-in here: to compile all of them takes minutes."""
    script = load_script("build_dist")

    def compile_kernels(tree):
        (tree / "boolweave" / "compiled").mkdir()
        (tree / "boolweave" / "compiled" / "code.nbc").write_bytes(b"code")

    monkeypatch.setattr(script, "compile_kernels", compile_kernels)
    (pure,) = (shutil.copy(path, tmp_path) for path in built.glob("*.whl"))
    made = script.compiled_wheel(Path(pure), "1700000000")
    python = "cp{}{}".format(*sys.version_info)
    tag = f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    assert made.name == Path(pure).name.replace("py3-none-any", tag)
    with zipfile.ZipFile(made) as new, zipfile.ZipFile(pure) as old:
        assert set(new.namelist()) == {*old.namelist(), "boolweave/compiled/code.nbc"}
        (described,) = (name for name in new.namelist() if name.endswith("/WHEEL"))
        lines = new.read(described).decode().splitlines()
        assert {"Root-Is-Purelib: false", f"Tag: {tag}"} < set(lines)
        record = new.read(described.replace("WHEEL", "RECORD")).decode().splitlines()
        listed = {line.split(",")[0]: line.split(",")[2] for line in record}
        assert set(listed) == set(new.namelist())
        assert listed["boolweave/compiled/code.nbc"] == "4"


@pytest.mark.filterwarnings("ignore")
def test_public_calls_that_are_timed_give_answers():
    script, tried = load_script("public_calls"), load_script("try_wheel")
    calls = script.timed_calls()
    assert tuple(calls) == tried.TIMED
    assert calls["factorize"]().X.shape == (40, 3)
    assert calls["cover"]().coverage == 1
    assert set(calls["group_testing"]().items) <= {0, 1, 2, 9, 10, 11}
    assert not calls["decode"]().bits.any()


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_what_the_wheel_holds(wheel):
    names = wheel.namelist()
    roots = {name.split("/")[0] for name in names}
    assert len(roots) == 2 and "boolweave" in roots  # and what describes it
    package = {name for name in names if name.startswith("boolweave/")}
    tracked = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "boolweave").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == tracked
    assert {"boolweave/py.typed", "boolweave/datasets/tables/zoo.npz"} <= package
    assert any(name.endswith(".html.j2") for name in package)


def test_core_dependencies_only_by_default(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    described = Parser().parsestr(wheel.read(name).decode())
    needed = described.get_all("Requires-Dist")
    core = {re.match(r"[\w-]+", line)[0] for line in needed if "extra ==" not in line}
    assert core == CORE
    assert set(described.get_all("Provides-Extra")) == EXTRAS
    assert described["Requires-Python"] == ">=3.11"


def test_the_sdist_holds_what_its_checks_read(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("src/boolweave", "tests", "docs", "benchmarks", "experiments", "scripts"):
        of_it = {
            file.relative_to(ROOT).as_posix() for file in (ROOT / folder).rglob("*.py")
            if "__pycache__" not in file.parts
        }  # fmt: skip
        assert of_it <= names
    assert {"Makefile", "mkdocs.yml", ".ci/run", "docs/index.md", "README.md"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".venv")]


@pytest.mark.parametrize("given", [["--help"], ["-k", "one test"]])
def test_the_run_of_all_checks_takes_no_arguments(given):
    """Refused before anything is installed; without programs, nothing could be."""
    command = [shutil.which("bash"), ROOT / ".ci" / "run", *given]
    done = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f".ci/run: expected no arguments, got {' '.join(given)};")


def test_a_tree_without_git_has_a_fixed_time(monkeypatch, tmp_path):
    """Not that of a repository around it, and no error where git is not installed."""
    script = load_script("build_dist")
    if shutil.which("git"):
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
    tree = tmp_path / "unpacked"
    tree.mkdir()
    monkeypatch.setattr(script, "ROOT", tree)
    assert script.time_of_commit() == str(script.EARLIEST)
    (tree / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert script.time_of_commit() == str(script.EARLIEST)


def test_builds_that_differ_are_refused(monkeypatch, tmp_path):
    script = load_script("build_dist")
    monkeypatch.setattr(sys, "argv", ["build_dist.py", str(tmp_path / "dist")])
    monkeypatch.setattr(script, "build", lambda tree, target, epoch: {"a.whl": "1"})
    monkeypatch.setattr(script, "build_elsewhere", lambda folder, epoch: {"a.whl": "2"})
    with pytest.raises(SystemExit, match=r"the two builds differ:\nsha256 1  a\.whl\nsha256 2"):
        script.main()
    assert not (tmp_path / "dist").exists()


@pytest.fixture(scope="module")
def smoke():
    """The smoke test of an installed wheel, whose commands run in this process."""
    script = load_script("smoke")

    def command(folder, *arguments, code=0):
        done = run_here(*arguments, cwd=folder, text=True)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    script.command = command
    return script


def test_the_smoke_test_of_the_core_holds_for_this_code(smoke, tmp_path):
    smoke.prepare(tmp_path)
    for check in smoke.CORE:
        check(tmp_path)


@pytest.mark.parametrize("extra", ["plot", "report", "excel", "distributed"])
def test_the_smoke_test_of_an_extra_holds_for_this_code(smoke, extra, tmp_path):
    assert set(smoke.EXTRAS) == EXTRAS - {"test", "lint", "bench", "docs"}
    smoke.prepare(tmp_path)
    smoke.EXTRAS[extra][0](tmp_path)
