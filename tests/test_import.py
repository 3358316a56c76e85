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


COMMAND = """
import sys
from boolweave.cli import main
sys.argv = ["boolweave", *{words!r}]
try:
    main()
except SystemExit as end:
    code = end.code
print(code, [name for name in {heavy!r} if name in sys.modules])
"""


def loaded_by_command(words, folder, heavy=("numba", "sklearn", "scipy", "pandas", "narwhals")):
    program = COMMAND.format(words=words.split(), heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=folder
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("words", ["--help", "--version", "info table.csv"])
def test_questions_are_answered_without_loading_what_fits_need(words, tmp_path):
    (tmp_path / "table.csv").write_text("a,b,c\n1,0,1\n0,1,1\n1,,0\n")
    assert loaded_by_command(words, tmp_path) == "0 []"


@pytest.mark.parametrize(
    "words",
    [
        "info absent.csv", "factorize absent.csv", "factorize table.csv --damping 7",
        "factorize table.csv --noise 0.1 --objective errors", "factorize table.csv --max-memory x",
        "factorize table.csv --method paper", "factorize table.csv --hold-out 0.0001",
        "complete absent.csv", "complete table.csv --hold-out 0.0001",
        "complete table.csv --fill none", "rank absent.csv", "cover absent.csv",
        "compare absent.csv", "compare table.csv --only nobody", "explore absent.csv",
        "pools 0 --prevalence 0.1", "group-test absent.csv x.csv --prevalence 0.1",
        "decode absent.alist x.txt", "predict absent.npz --row a --column b",
        "recommend absent.npz", "explain absent.npz a b", "transform absent.npz table.csv",
        "report absent.npz",
    ],
)  # fmt: skip
def test_errors_before_a_fit_come_before_what_it_needs_is_loaded(words, tmp_path):
    (tmp_path / "table.csv").write_text("a,b,c\n1,0,1\n0,1,1\n1,,0\n")
    assert loaded_by_command(words, tmp_path) == "2 []"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with a factorization and a completion."""
    folder = tmp_path_factory.mktemp("models")
    table = [[1, 1, 0, 0], [1, None, 0, 0], [0, 0, 1, 1], [0, 0, 1, None]]
    names = {"row_labels": list("abcd"), "column_labels": list("wxyz")}
    seen = boolweave.Observations.from_dense(table, **names)
    boolweave.BooleanMatrixFactorization(2, random_state=0).fit(seen).save(folder / "factors.npz")
    completion = boolweave.BooleanCompletion(n_members=1, random_state=0).fit(seen)
    completion.save(folder / "completion.npz")
    return folder


@pytest.mark.parametrize("model", ["factors", "completion"])
@pytest.mark.parametrize(
    "words", ["predict {}.npz --row b --column x", "recommend {}.npz b", "explain {}.npz b x"]
)
def test_a_stored_model_answers_without_its_estimator(words, model, models):
    heavy = ("sklearn", "scipy.optimize", "scipy.sparse", "scipy.linalg", "pandas")
    assert loaded_by_command(words.format(model), models, heavy) == "0 []"


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
