"""If a package is not installed, the error names the extra, and the extra installs it."""

import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, select_rank
from boolweave.runtime import extras

ROOT = Path(__file__).parents[2]
TABLE = np.kron(np.eye(2, dtype=int), np.ones((3, 3), dtype=int))


@pytest.fixture
def without_extras(monkeypatch):
    """No package of an extra is installed."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None)


@pytest.fixture(scope="module")
def model():
    return BooleanMatrixFactorization(2, method="max-sum", random_state=0).fit(TABLE)


def test_packages_that_are_there():
    for package in extras.EXTRAS:
        extras.need(package, "this test")


def test_the_extra_installs_the_package():
    """Pillow comes with matplotlib, the others are listed by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for package, (extra, name) in extras.EXTRAS.items():
        listed = [re.split(r"[\[>=<]", line)[0] for line in project["optional-dependencies"][extra]]
        assert package in listed or (package, name) == ("PIL", "Pillow")


def test_pictures(without_extras, model):
    words = r"^a picture needs matplotlib: pip install .*\[plot\]'$"
    for what in ("matrix", "factors", "curve"):
        with pytest.raises(ImportError, match=words):
            model.plot(what)
    found = select_rank(TABLE, ranks=[1, 2], random_state=0)
    with pytest.raises(ImportError, match=words):
        found.plot()


def test_reports(without_extras, model, tmp_path):
    from boolweave.report import write_report

    with pytest.raises(ImportError, match=r"^a report needs jinja2: pip install .*\[report\]'$"):
        write_report(model, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_clusters(without_extras):
    from boolweave.distributed import DaskBooleanMatrixFactorization

    with pytest.raises(ImportError, match=r"needs Dask: pip install .*\[distributed\]'"):
        DaskBooleanMatrixFactorization(2).fit(TABLE)


def test_on_the_command_line_before_the_work(without_extras, tmp_path):
    from commands import run_here

    np.savetxt(tmp_path / "t.csv", TABLE, fmt="%d", delimiter=",")
    (tmp_path / "t.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    for arguments, words in (
        (("rank", "t.csv", "--plot", "c.png"), "--plot needs matplotlib"),
        (("compare", "t.csv", "--plot", "c.png"), "--plot needs matplotlib"),
        (("factorize", "t.csv", "--report", "r.html"), "a report needs jinja2"),
        (("explore", "t.csv"), "a report needs jinja2"),
        (("factorize", "t.csv", "--local-cluster", "2"), "--local-cluster needs Dask"),
        (("complete", "t.csv", "-o", "c.xlsx"), "a workbook needs xlsxwriter"),
        (("info", "t.png"), "t.png: reading a picture needs Pillow"),
    ):
        done = run_here(*arguments, cwd=tmp_path, text=True)
        assert done.returncode == 2
        said = done.stderr.splitlines()[-1]
        assert said.startswith(f"boolweave: {words}: pip install "), said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.png"]


@pytest.mark.parametrize(
    "stored, command",
    [
        (None, "pip install 'boolweave[plot]'"),
        ('{"url": "https://example.org/boolweave.whl"}', "pip install 'boolweave[plot]'"),
        (
            '{"url": "file:///a%20b/copy", "dir_info": {}}',
            "pip install '/a b/copy[plot]'",
        ),
        (
            '{"url": "file:///copy", "dir_info": {"editable": true}}',
            "pip install -e '/copy[plot]'",
        ),
    ],
)
def test_the_command_installs_from_the_copy_that_is_installed(monkeypatch, stored, command):
    installed = SimpleNamespace(read_text=lambda name: stored)
    monkeypatch.setattr(extras, "distribution", lambda name: installed)
    assert extras.installing("plot") == command
