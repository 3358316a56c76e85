"""All methods on the same folds of one table.

Every method runs in a process of its own (`worker`), so that its peak memory is its own and a
method that dies does not take the others with it.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from boolweave.data.observations import Observations
from boolweave.io.files import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Name in the table, class, parameters. Those of ours come first.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "boolweave auto": ("BooleanMatrixFactorization", {"method": "auto"}),
    "boolweave max-sum": ("BooleanMatrixFactorization", {"method": "max-sum"}),
    "GLRM logistic": ("GLRM", {"loss": "logistic"}),
    "GLRM hinge": ("GLRM", {"loss": "hinge"}),
    "GLRM quadratic": ("GLRM", {"loss": "quadratic"}),
    "GLRM ordinal hinge": ("GLRM", {"loss": "ordinal"}),
    "1-bit completion": ("OneBitCompletion", {}),
    "Asso": ("Asso", {}),
    "GreConD": ("GreConD", {}),
    "row and column bias": ("BiasModel", {}),
    "majority": ("Majority", {}),
}

# What is measured, and whether more is better.
MEASURES = {
    "accuracy": True,
    "log_loss": False,
    "auc": True,
    "calibration": False,
    "seconds": False,
    "megabytes": False,
    "rank": None,
}

# Bytes of what a process said that are looked at for its last line.
_TAIL = 2**16

OnFold = Callable[[str, int], None]


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    folds : dict of lists
        For each method a dictionary of measures per fold.
    failures : dict of str
        Why a method did not finish.
    """

    folds: dict[str, list[dict[str, float]]]
    failures: dict[str, str]

    def mean(self, method: str, measure: str) -> float:
        """Mean over the folds; NaN where a fold has no such number."""
        return float(np.mean([fold[measure] for fold in self.folds[method]]))

    def standard_error(self, method: str, measure: str) -> float:
        """Standard error of that mean over the folds."""
        numbers = [fold[measure] for fold in self.folds[method]]
        return float(np.std(numbers, ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else 0.0

    def best(self, measure: str) -> str | None:
        """The method that is best by a measure; None where there is no better and worse."""
        more = MEASURES[measure]
        means = {name: self.mean(name, measure) for name in self.folds}
        means = {name: value for name, value in means.items() if np.isfinite(value)}
        if more is None or not means:
            return None
        return (max if more else min)(means, key=means.__getitem__)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a method: each measure and its standard error, and what is best."""
        table = []
        for method in self.folds:
            row: dict[str, Any] = {"method": method}
            for measure in MEASURES:
                row[measure] = self.mean(method, measure)
                row[f"{measure}_error"] = self.standard_error(method, measure)
            row["best_in"] = [m for m in MEASURES if self.best(m) == method]
            table.append(row)
        return table

    def plot(self, title: str = "") -> Figure:
        """Draw accuracy, log-loss and time of every method, best first (needs matplotlib)."""
        from matplotlib.figure import Figure

        names = sorted(self.folds, key=lambda name: self.mean(name, "log_loss"), reverse=True)
        figure = Figure(figsize=(11, 0.8 + 0.34 * len(names)), layout="constrained", dpi=150)
        axes = figure.subplots(1, 4, sharey=True)
        shown = {"log_loss": "log-loss", "accuracy": "accuracy", "auc": "AUC", "seconds": "seconds"}
        for axis, (measure, label) in zip(axes, shown.items(), strict=True):
            best = self.best(measure)
            for place, name in enumerate(names):
                ours = name.startswith("boolweave")
                axis.errorbar(
                    self.mean(name, measure), place, xerr=self.standard_error(name, measure),
                    marker="D" if name == best else "o", capsize=3,
                    color="#d55e00" if ours else "#0072b2",
                )  # fmt: skip
            axis.set_xlabel(label)
            axis.grid(axis="x", color="0.9")
        axes[0].set_yticks(range(len(names)), names)
        axes[3].set_xscale("log")
        figure.suptitle(title or "best first by log-loss; a diamond is the best of its column")
        return figure


def compare(
    X: Any,
    *,
    n_components: int | str = "auto",
    methods: Sequence[str] | None = None,
    n_folds: int = 5,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    on_fold: OnFold | None = None,
    **parameters: Any,
) -> Comparison:
    """Predict every observed entry from the others, by each method.

    Parameters
    ----------
    X : as in `BooleanMatrixFactorization.fit`, shape (M, N)
    n_components : int or "auto"
        For every method that has a rank.
    methods : sequence of str, optional
        Names from `boolweave.baselines.comparison.METHODS`; by default all.
    n_folds : int
        The entries are parted into so many folds; each is predicted from the rest.
    random_state : int, optional
        Which entry falls into which fold, and the methods' own.
    n_jobs : int, optional
        Threads of boolweave.
    on_fold : callable, optional
        Told the method and its fold when one is done.
    **parameters
        For boolweave's estimator.

    Returns
    -------
    Comparison
    """
    chosen = list(METHODS) if methods is None else list(methods)
    for name in chosen:
        if name not in METHODS:
            raise ValueError(f"methods must be among {', '.join(METHODS)}; got {name!r}")
    seen = Observations.from_data(X, absent=parameters.pop("absent", "missing"))
    if not 2 <= n_folds <= seen.n_observed:
        raise ValueError(
            f"n_folds must be from 2 to the number of observed entries, {seen.n_observed}, "
            f"but got {n_folds!r}"
        )
    folds: dict[str, list[dict[str, float]]] = {}
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "observations.npz"
        np.savez(
            data, shape=seen.shape, indptr=seen.indptr, indices=seen.indices, values=seen.values
        )
        for name in chosen:
            job = {
                "class": METHODS[name][0],
                "parameters": _parameters(name, n_components, n_jobs, random_state, parameters),
                "data": str(data),
                "n_folds": n_folds,
                "seed": random_state,
            }
            order = Path(folder) / "job"
            order.write_bytes(pickle.dumps(job))  # parameters may be channels and arrays
            done, failure = _run(name, order, n_folds, on_fold)
            if failure:
                failures[name] = failure
            else:
                folds[name] = done
    return Comparison(folds, failures)


def _parameters(
    name: str, n_components: int | str, n_jobs: int | None, seed: int | None, ours: dict[str, Any]
) -> dict[str, Any]:
    """The parameters of one method; those that the caller gave are for ours."""
    kind, own = METHODS[name]
    given = dict(own)
    if kind == "BooleanMatrixFactorization":
        others = {key: value for key, value in ours.items() if key != "method"}
        given |= {"n_jobs": n_jobs, **others}
    if kind in ("BooleanMatrixFactorization", "GLRM", "Asso", "GreConD"):
        given["n_components"] = n_components
    if kind != "Majority":
        given["random_state"] = seed
    return given


def _run(
    name: str, job: Path, n_folds: int, on_fold: OnFold | None
) -> tuple[list[dict[str, float]], str]:
    """Run one method in a process of its own; its folds, or what went wrong."""
    home = str(Path(__file__).resolve().parents[2])
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    # One thread of linear algebra: the matrices are small, and threads that wait for each other
    # on a busy machine take thirty times as long.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    # A pipe for errors that nobody reads until the end could fill up, and the method would wait.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "boolweave.baselines.worker", str(job)],
            env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        folds = []
        try:
            for line in process.stdout:
                folds.append(json.loads(line))
                if on_fold is not None:
                    on_fold(name, len(folds))
        finally:
            process.kill()
            process.stdout.close()
            code = process.wait()
        if len(folds) == n_folds:
            return folds, ""
        return [], _last_line(errors) or f"the process ended with code {code}"


def _last_line(file: IO[bytes]) -> str:
    """The last line of what a process said, where Python names the error."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return shortened(lines[-1]) if lines else ""
