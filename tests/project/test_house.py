"""The house in order: files as long as their subject, few loose modules, few arguments."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import boolweave
from boolweave.distributed import DaskBooleanMatrixFactorization
from boolweave.parameters import CoverParameters, parameters_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "boolweave"
MOST_LINES = 800
MOST_LOOSE = 10
MOST_ARGUMENTS = 12
MOST_ANY = 15  # per 1,000 lines

ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
TYPED = ("data", "model", "engine", "fit")


def name_of(path):
    return str(path.relative_to(ROOT))


def modules_in(folder):
    return sorted(folder.glob("*.py"))


def test_few_loose_modules():
    assert len(modules_in(PACKAGE)) <= MOST_LOOSE


@pytest.mark.parametrize("top", [PACKAGE, ROOT / "tests"], ids=["src", "tests"])
def test_no_file_is_too_long(top):
    long = {
        name_of(path): n
        for path in top.rglob("*.py")
        if (n := len(path.read_text("utf-8").splitlines())) > MOST_LINES
    }
    assert long == {}


def test_tests_mirror_the_package():
    """Beside the rooms: the estimator, random cases, the project and stored answers."""
    own = {"estimator", "fuzz", "golden", "project", "stored", "support"}
    folders = {path.parent.relative_to(ROOT / "tests") for path in ROOT.glob("tests/**/*.py")}
    rooms = {room.relative_to(PACKAGE) for room in ROOMS}
    assert {str(folder) for folder in folders - rooms} <= own
    modules = {path.stem for path in modules_in(PACKAGE)} | {"import"}
    loose = {path.stem.removeprefix("test_") for path in (ROOT / "tests").glob("test_*.py")}
    assert loose <= modules


def test_names_of_tests_clash_with_nothing():
    """Pytest puts folders of tests on the path: equal names of files, or a folder with the name
    of a library that others import if they find it, break tests that run after them.
    """
    files = [path.stem for path in ROOT.glob("tests/**/test_*.py")]
    assert sorted(set(files)) == sorted(files)
    folders = {path.parent.name for path in ROOT.glob("tests/*/**/*.py")}
    assert not folders & {"sparse", "cupy", "jax", "numba", "pandas", "polars", "scipy", "torch"}


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_a_room_says_what_belongs_there(room):
    """What does, what does not, and where to start reading."""
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text("utf-8")))
    assert len(re.findall(r"\.(?=\s|$)", said)) >= 3, said


@pytest.mark.parametrize("room", TYPED)
def test_types_are_named(room):
    files = [path.read_text("utf-8") for path in (PACKAGE / room).rglob("*.py")]
    lines = sum(len(text.splitlines()) for text in files)
    found = sum(len(re.findall(r"\bAny\b", text)) for text in files)
    assert 1000 * found < MOST_ANY * lines, f"{found} times Any in {lines} lines"


ESTIMATORS = (
    boolweave.BooleanMatrixFactorization,
    boolweave.BooleanCompletion,
    DaskBooleanMatrixFactorization,
)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_parameters_are_declared_once(estimator):
    """Names, checks, docstring and options come from the declarations, and nothing is said twice.

    A text that stands on a page or in another module would be one more to change.
    """
    declared = parameters_of(estimator)
    assert set(declared) == set(estimator().get_params()) == set(estimator._parameter_constraints)
    check_said_once(declared, estimator.__doc__)


def test_a_function_has_the_parameters_that_are_declared_for_it():
    declared = parameters_of(CoverParameters)
    (_, *others) = inspect.signature(boolweave.cover).parameters.values()
    assert {each.name: each.default for each in others} == {
        name: parameter.default for name, parameter in declared.items()
    }
    check_said_once(declared, boolweave.cover.__doc__)


def check_said_once(declared, docstring):
    (section,) = re.findall(r"Parameters\n-+\n(.*?)\n\n\w+\n--", docstring, re.DOTALL)
    names = re.findall(r"^(\w+) :", section, re.MULTILINE)
    assert [name for name in names if name != "X"] == list(declared)
    rooms = ("estimator", "completion", "distributed", "cli")
    places = [path for room in rooms for path in (PACKAGE / room).rglob("*.py")]
    places += [PACKAGE / "functions.py", ROOT / "README.md", *ROOT.glob("docs/*.md")]
    pages = {name_of(path): joined(path.read_text("utf-8")) for path in places}
    for name, parameter in declared.items():
        assert parameter.sentence in " ".join(section.split()), name
        first = parameter.short.partition(".")[0]
        if len(first.split()) > 4:
            assert [page for page, text in pages.items() if first in text] == [], name


def joined(text):
    """A text without its breaks into lines and parts."""
    return " ".join(re.sub(r"""['"]\n\s*f?['"]""", "", text).split())


def compiled(tree):
    """The functions of a module that are decorated with `njit`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if any(text.startswith("njit") for text in decorators):
                yield node


def test_kernels_take_few_arguments():
    many = {}
    for path in PACKAGE.rglob("*.py"):
        for function in compiled(ast.parse(path.read_text("utf-8"))):
            given = function.args
            n = len(given.posonlyargs + given.args + given.kwonlyargs)
            if n > MOST_ARGUMENTS:
                many[f"{name_of(path)}: {function.name}"] = n
    assert many == {}
