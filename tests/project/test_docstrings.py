"""The examples in docstrings run, all of them."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import boolweave

PACKAGE = Path(boolweave.__file__).parent
EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if EXAMPLE.search(file.read_text("utf-8"))]


def docstrings_of(module):
    """The docstrings with examples of a module, those of compiled functions included."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(module, module.__name__)
    for name, thing in vars(module).items():
        function = getattr(thing, "py_func", None)
        if function is not None and function.__module__ == module.__name__:
            found += finder.find(function, f"{module.__name__}.{name}", module)
    unique = {(test.name, test.lineno): test for test in found if test.examples}
    return list(unique.values())


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_examples_of_docstrings(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    tests = docstrings_of(module)
    n_examples = len(EXAMPLE.findall(inspect.getsource(module)))
    assert sum(len(test.examples) for test in tests) == n_examples
    told = []
    runner = doctest.DocTestRunner()
    for test in tests:
        runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)
