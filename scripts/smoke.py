"""A smoke test of an installed boolweave: fit, complete, cover, decode, save, load, command line.

    python scripts/smoke.py [extra ...]

Run it with the Python of the environment to be tested, outside of the repository. Without
arguments, it tests the core; with names of extras, it tests these. It also tests that commands
which need another extra name that extra, if its packages are not installed; so the environment
should have no other packages than those of the wheel and of the given extras.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import boolweave
from boolweave.datasets import load_zoo, make_boolean
from boolweave.decoding import ParityCheckCode, bsc_llr, design_pools, group_testing

PLANTED = make_boolean(60, 40, 2, flip=0.02, observed=0.8, random_state=0)
HAMMING = np.array([[1, 1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 1]])
SMALL = ("-k", "2", "--members", "1", "--layers", "0")
TABLE = "name,tea,rum,gin,milk\nAnn,1,,0,1\nBo,1,0,0,1\nCy,0,1,1,\nDi,0,1,1,0\n"


# ---------------------------------------------------------------- the core


def fits_and_loads(folder: Path) -> None:
    model = boolweave.BooleanMatrixFactorization(random_state=0).fit(PLANTED.observations)
    wrong = np.mean(model.inverse_transform(model.row_factors_) != PLANTED.Z)
    assert wrong < 0.02, wrong
    model.save(folder / "model.npz")
    again = boolweave.load(folder / "model.npz")
    rows, columns = np.arange(40), np.arange(40)
    assert (again.predict_proba(rows, columns) == model.predict_proba(rows, columns)).all()


def finds_fewest_errors(folder: Path) -> None:
    found = boolweave.factorize(load_zoo().observations, n_components=2, max_time=2, random_state=0)
    assert found.X.shape == (101, 2) and found.bound <= found.cost


def fills_holes(folder: Path) -> None:
    model = boolweave.BooleanCompletion(
        n_components=2, n_layers=1, n_members=2, random_state=0
    ).fit(PLANTED.observations)
    rows, columns = np.nonzero(np.isnan(PLANTED.observations.to_dense()))
    assert np.mean(model.predict(rows, columns) == PLANTED.Z[rows, columns]) > 0.9
    model.save(folder / "completion.npz")
    again = boolweave.load(folder / "completion.npz")
    assert (again.predict(rows, columns) == model.predict(rows, columns)).all()


def covers(folder: Path) -> None:
    roles = np.kron(np.eye(3, dtype=np.uint8), np.ones((2, 2), dtype=np.uint8))
    found = boolweave.cover(roles)
    assert found.Y.shape == (3, 6)
    assert ((found.X @ found.Y > 0) == roles).all()


def decodes(folder: Path) -> None:
    received = np.array([1, 0, 0, 0, 0, 0, 0])
    assert not ParityCheckCode(HAMMING).decode(bsc_llr(received, flip=0.05)).bits.any()
    design = design_pools(items=50, pools=20, prevalence=0.02, random_state=0)
    outcomes = design[:, [3]].toarray().ravel()
    assert group_testing(design, outcomes, prevalence=0.02).items.tolist() == [3]


def encodes(folder: Path) -> None:
    import polars as pl

    table = pl.DataFrame({"colour": ["red", "blue", "red", "red"], "sold": ["y", "n", "n", "y"]})
    assert boolweave.TableEncoder().fit_transform(table).shape[0] == 4


def runs_the_command(folder: Path) -> None:
    assert command(folder, "--version") == f"boolweave {boolweave.__version__}\n"
    assert json.loads(command(folder, "info", "likes.csv", "--json"))["n_rows"] == 4
    holes = json.loads(command(folder, "complete", "likes.csv", *SMALL, "--json"))
    assert {hole["row"] for hole in holes["filled"]} == {"Ann", "Cy"}
    assert "Ann, tea: 1" in command(folder, "explain", "likes.npz", "Ann", "tea")
    assert command(folder, "recommend", "likes.npz", "Ann", "--least", "0").count("\n") > 1
    assert json.loads(command(folder, "cover", "likes.csv", "--json"))["n_roles"] == 2
    assert command(folder, "pools", "12", "--prevalence", "0.1").count("\n") > 1


def command(folder: Path, *arguments: str, code: int = 0) -> str:
    """The output of the command in this environment, or its error if it must fail."""
    program = Path(sys.executable).with_name("boolweave")
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == code, (arguments, done.stderr)
    return done.stderr if code else done.stdout


CORE = (
    fits_and_loads, finds_fewest_errors, fills_holes, covers, decodes, encodes, runs_the_command,
)  # fmt: skip


# ---------------------------------------------------------------- the extras


def plot(folder: Path) -> None:
    model = boolweave.BooleanMatrixFactorization(2, method="max-sum", random_state=0)
    model.fit(PLANTED.observations).plot(path=folder / "matrix.png")
    assert (folder / "matrix.png").read_bytes().startswith(b"\x89PNG")
    command(folder, "rank", "likes.csv", "--max-rank", "2", "--plot", "curve.svg")


def report(folder: Path) -> None:
    command(folder, "report", "likes.npz", "-o", "likes.html")
    assert (folder / "likes.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def excel(folder: Path) -> None:
    command(folder, "complete", "likes.csv", *SMALL, "-o", "filled.xlsx")
    filled = json.loads(command(folder, "info", "filled.xlsx", "--json"))
    assert (filled["n_rows"], filled["n_columns"], filled["observed"]) == (4, 4, 16)


def distributed(folder: Path) -> None:
    from boolweave.distributed import DaskBooleanMatrixFactorization
    from distributed import Client

    given = {"n_components": 2, "method": "max-sum", "random_state": 0}
    here = boolweave.BooleanMatrixFactorization(**given).fit(PLANTED.observations)
    with Client(n_workers=2, processes=False, dashboard_address=None) as client:
        there = DaskBooleanMatrixFactorization(**given, client=client).fit(PLANTED.observations)
        assert (there.components_ == here.components_).all()


# The packages of each extra. An extra may bring those of another one: distributed needs jinja2.
PACKAGES = {"plot": "matplotlib", "report": "jinja2", "excel": "xlsxwriter", "distributed": "dask"}

# A test of each extra, and a command whose error must name the extra if it is not installed.
EXTRAS: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "plot": (plot, ("rank", "likes.csv", "--plot", "curve.png")),
    "report": (report, ("report", "likes.npz", "-o", "likes.html")),
    "excel": (excel, ("complete", "likes.csv", "-o", "filled.xlsx")),
    "distributed": (distributed, ("factorize", "likes.csv", "--local-cluster", "1")),
}


def prepare(folder: Path) -> None:
    """Make the table and the model that the commands use."""
    (folder / "likes.csv").write_text(TABLE)
    few = ("-k", "2", "--method", "max-sum", "--model", "likes.npz")
    command(folder, "factorize", "likes.csv", *few)


def main() -> None:
    wanted = sys.argv[1:]
    if unknown := set(wanted) - set(EXTRAS):
        sys.exit(f"smoke.py: no such extra: {', '.join(unknown)}; there are {', '.join(EXTRAS)}")
    print(f"boolweave {boolweave.__version__} of {Path(boolweave.__file__).parent}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for check in [EXTRAS[extra][0] for extra in wanted] or CORE:
            start = time.perf_counter()
            check(folder)
            print(f"  {check.__name__.replace('_', ' ')}: {time.perf_counter() - start:.1f} s")
        for extra in sorted(set(EXTRAS) - set(wanted)):
            if find_spec(PACKAGES[extra]):
                continue
            error = command(folder, *EXTRAS[extra][1], code=2)
            # The hint names what was installed: the package, or the file of the wheel.
            assert re.search(rf"pip install '[^']*boolweave[^']*\[{extra}\]'", error), error
    print(f"works on Python {sys.version.split()[0]} with {' and '.join(['the core', *wanted])}")


if __name__ == "__main__":
    main()
