"""What made each stored result, and which are older than the code they measure."""

import importlib
import json
import re
import sys
import time
from pathlib import Path

import pytest
from commands import run_script_here

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "provenance.py"
FOLDERS = ["benchmarks/results", "experiments/results/full", "experiments/results/quick"]


@pytest.fixture
def provenance(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    module = importlib.import_module("provenance")
    module.hash_of.cache_clear()
    yield module
    module.hash_of.cache_clear()


@pytest.fixture
def tree(provenance, monkeypatch, tmp_path):
    """A small project with a script, two folders of code and a folder of results."""
    package = tmp_path / "src" / "boolweave"
    for name in ("engine/loop.py", "fit/learn.py"):
        (package / name).parent.mkdir(parents=True)
        (package / name).write_text('"""Old words."""\n\nX = 1\n')
    (package / "__init__.py").write_text('__version__ = "3.4.5"\n')
    script = tmp_path / "benchmarks" / "speed.py"
    script.parent.mkdir()
    script.write_text("Y = 2\n")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "speed.json").write_text("{}")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "STARTED", time.time() + 60)
    monkeypatch.setattr(provenance, "FOLDERS", {"": tmp_path / "results"})
    monkeypatch.setattr(sys, "argv", [str(script), "--huge", "--output", str(tmp_path / "a.json")])
    return tmp_path


def stale_after(provenance, file, text):
    file.write_text(text)
    provenance.hash_of.cache_clear()
    return list(provenance.stale())


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_stored_result_names_what_made_it(provenance, folder):
    made = json.loads((ROOT / folder / "made.json").read_text())
    assert sorted(made) == [file.stem for file in provenance.results(ROOT / folder)]
    for parts in made.values():
        assert parts
        for facts in parts.values():
            assert sorted(facts) == ["code", "command", "date", "machine", "version"]
            assert facts["command"].startswith(f"python {folder.split('/')[0]}/")
            assert str(ROOT) not in facts["command"]


FILLING = [SCRIPT, *sorted(SCRIPT.parent.glob("*_table*.py"))]


@pytest.mark.parametrize("script", FILLING, ids=lambda script: script.stem)
def test_the_pages_show_the_stored_results(script):
    done = run_script_here(script, "--check")
    assert done.returncode == 0, done.stderr


def test_every_block_of_a_page_is_filled():
    """By one of the scripts: a block of another name would stay as it is."""
    empty = re.compile(r"<!-- (?:table|made|line) [\w/:,]+ -->\s*<!-- end -->")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert [page.name for page in pages if empty.search(page.read_text(encoding="utf-8"))] == []


def test_a_result_is_stale_when_its_code_changes(provenance, tree):
    result = tree / "results" / "speed.json"
    assert list(provenance.stale()) == ["results/speed.json: not known what made it"]
    provenance.record(result, ["engine"])
    assert list(provenance.stale()) == []
    learn, loop = (tree / "src" / "boolweave" / n for n in ("fit/learn.py", "engine/loop.py"))
    assert stale_after(provenance, learn, "X = 5\n") == []  # is not measured
    words = '"""New words."""\n# why\nX   =  (\n    1\n)\n'.replace("(\n    1\n)", "1")
    assert stale_after(provenance, loop, words) == []
    (line,) = stale_after(provenance, loop, "X = 5\n")
    assert line.startswith("results/speed.json: ")
    assert line.endswith(", src/boolweave/engine changed")
    (line,) = stale_after(provenance, tree / "benchmarks" / "speed.py", "Y = 3\n")
    assert line.endswith(", benchmarks/speed.py, src/boolweave/engine changed")
    loop.unlink()
    assert stale_after(provenance, learn, "X = 5\n")


def test_code_that_changes_while_it_is_measured_is_not_known(provenance, tree, monkeypatch):
    monkeypatch.setattr(provenance, "STARTED", time.time() - 60)
    provenance.record(tree / "results" / "speed.json", ["engine"])
    (line,) = provenance.stale()
    assert line.endswith(", benchmarks/speed.py, src/boolweave/engine changed")


def test_the_line_names_version_machine_and_command(provenance, tree):
    provenance.record(tree / "results" / "speed.json", ["engine"])
    line = provenance.line_of("speed")
    assert "boolweave 3.4.5, " in line and " cores, " in line
    assert "`python benchmarks/speed.py --huge --output a.json`" in line
    page = "Before.\n\n<!-- made speed -->\n<!-- end -->\n\nAfter.\n"
    filled = provenance.filled(page)
    assert line in filled and filled.startswith("Before.") and filled.endswith("After.\n")
    assert provenance.filled(filled) == filled


def test_parts_of_a_result_may_be_made_at_different_times(provenance, tree):
    result = tree / "results" / "speed.json"
    provenance.record(result, ["engine"], ["steps", "planted"])
    loop = tree / "src" / "boolweave" / "engine" / "loop.py"
    (line,) = stale_after(provenance, loop, "X = 5\n")
    assert line.startswith("results/speed.json (planted, steps): ")
    sys.argv[1:] = ["--only", "steps"]
    provenance.record(result, ["engine"], ["steps"])
    (line,) = provenance.stale()
    assert line.startswith("results/speed.json (planted): ")
    assert "planted: boolweave" in provenance.line_of("speed")
    assert "planted" not in provenance.line_of("speed:steps")
    provenance.record(result, ["engine"])  # all of it at once
    assert list(provenance.stale()) == []
    assert "planted" not in provenance.line_of("speed")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1  # one\n", "x = 1\n", True),
        ("def f():\n    '''Words.'''\n    return 1\n", "def f():\n    return 1\n", True),
        ("x = f(\n    1,\n    2)\n", "x = f(1, 2)\n", True),
        ("x = 'a'\n", "x = 'b'\n", False),
        ("x = f'{a}'\n", "x = f'{b}'\n", False),
        ("x = 1\ny = 2\n", "x = 1\nif x:\n    y = 2\n", False),
    ],
)
def test_words_do_not_count_and_code_does(provenance, one, other, same):
    assert (provenance.words_of(one) == provenance.words_of(other)) == same
