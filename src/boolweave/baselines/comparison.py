"""Comparison of all methods on the same splits of one table.

Every method runs in a process of its own (`worker`), so that its peak memory can be measured and a
crash of one method does not affect the others.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.labels import pairs
from boolweave.data.observations import Observations, Split
from boolweave.data.splits import entry_positions
from boolweave.parameters import CompletionParameters, FactorizationParameters, parameters_of
from boolweave.runtime.checks import check_count
from boolweave.runtime.run import LOOK_AFTER
from boolweave.runtime.words import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Method(NamedTuple):
    """One line of a comparison.

    Attributes
    ----------
    kind : str
        A class of `boolweave` or of `boolweave.baselines` with ``fit(X)``, ``predict(rows, cols)``
        and ``predict_proba(rows, cols)``.
    parameters : dict
        The parameters of the class for this line.
    takes : tuple of str
        The parameters among "n_components", "n_jobs" and "random_state" that the class has.
    """

    kind: str
    parameters: dict[str, Any]
    takes: tuple[str, ...] = ("n_components", "random_state")


_OURS = ("n_components", "n_jobs", "random_state")

# The methods by their names in the table; our own come first.
METHODS: dict[str, Method] = {
    "boolweave completion": Method("BooleanCompletion", {}, _OURS),
    "boolweave auto": Method("BooleanMatrixFactorization", {"method": "auto"}, _OURS),
    "boolweave max-sum": Method("BooleanMatrixFactorization", {"method": "max-sum"}, _OURS),
    "GLRM logistic": Method("GLRM", {"loss": "logistic"}),
    "GLRM hinge": Method("GLRM", {"loss": "hinge"}),
    "GLRM quadratic": Method("GLRM", {"loss": "quadratic"}),
    "GLRM ordinal hinge": Method("GLRM", {"loss": "ordinal"}),
    "1-bit completion": Method("OneBitCompletion", {}, ("random_state",)),
    "Asso": Method("Asso", {}),
    "GreConD": Method("GreConD", {}),
    "row and column bias": Method("BiasModel", {}, ("random_state",)),
    "majority": Method("Majority", {}, ()),
}

# The names of the parameters of our own estimators.
_PARAMETERS = {
    "BooleanMatrixFactorization": tuple(parameters_of(FactorizationParameters)),
    "BooleanCompletion": tuple(parameters_of(CompletionParameters)),
}

# The measures, and whether more is better.
MEASURES = {
    "accuracy": True,
    "log_loss": False,
    "auc": True,
    "calibration": False,
    "precision": True,
    "recall": True,
    "ndcg": True,
    "map": True,
    "seconds": False,
    "megabytes": False,
    "rank": None,
}

N_FOLDS = 5

# What a split does with an entry: train on it, test on it, or neither.
KEPT, HIDDEN, LEFT_OUT = range(3)

# The names of measures in a sentence.
WORDS = {"log_loss": "log-loss", "auc": "area under the curve", "calibration": "calibration error"}

OnFold = Callable[[str, int], None]


@dataclass(frozen=True)
class Verdict:
    """The winner by one measure, and its lead.

    Attributes
    ----------
    measure : str
    winner, runner_up : str
        The best method and the second best.
    value : float
        The mean of the winner.
    difference : float
        The lead of the winner over the second best, at least 0.
    error : float
        Standard error of the difference. Both methods had the same splits, so that it is computed
        from the differences of single splits. It is NaN if there is only one split.
    n_won, n_splits : int
        The number of splits in which the winner was better than the second best, and the number of
        splits.
    """

    measure: str
    winner: str
    runner_up: str
    value: float
    difference: float
    error: float
    n_won: int
    n_splits: int

    @property
    def is_clear(self) -> bool:
        """Whether the difference is more than twice its standard error."""
        # A difference of more than this many standard errors is not due to the choice of folds.
        clear = 2.0
        return self.difference > clear * self.error

    def __str__(self) -> str:
        word = WORDS.get(self.measure, self.measure)
        way, end = ("higher", "highest") if MEASURES[self.measure] else ("lower", "lowest")
        if self.n_splits == 1:
            return (
                f"{self.winner} has the {end} {word}, {self.value:.3f}: {self.difference:.3f} "
                f"{way} than {self.runner_up}, the second best; one split does not show whether "
                "this is more than chance"
            )
        by = f"{self.difference:.3f} ± {self.error:.3f} {way}"
        won = f"better in {self.n_won} of {self.n_splits} splits"
        if self.is_clear:
            return (
                f"{self.winner} wins by {word}: {self.value:.3f}, {by} than {self.runner_up} "
                f"(second best), {won}"
            )
        return (
            f"no clear winner by {word}: {self.winner} has {self.value:.3f}, {by} than "
            f"{self.runner_up}, and is {won}"
        )


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `compare`.

    Attributes
    ----------
    folds : dict of lists
        For each method, a dictionary of measures per fold: "accuracy", "log_loss", "auc",
        "calibration" (the expected calibration error), "precision", "recall", "ndcg" and "map" of
        the first entries of each row, "seconds", "megabytes" and "rank".
    failures : dict of str
        The reasons why methods did not finish.
    interrupted : bool
        Whether Ctrl-C ended the comparison before all methods were done.
    """

    folds: dict[str, list[dict[str, float]]]
    failures: dict[str, str]
    interrupted: bool = False

    def mean(self, method: str, measure: str) -> float:
        """Mean over the folds; NaN if a fold has no such number."""
        return float(np.mean([fold[measure] for fold in self.folds[method]]))

    def standard_error(self, method: str, measure: str) -> float:
        """Standard error of that mean over the folds.

        With a single split, it is computed by leaving out groups of rows of the hidden entries
        (jackknife): it shows how much the result depends on the tested rows, but not on the fit. It
        is NaN for measures that do not depend on rows, such as seconds.
        """
        numbers = [fold[measure] for fold in self.folds[method]]
        if len(numbers) == 1:
            return self.folds[method][0].get(f"{measure}_error", float("nan"))
        return _standard_error(numbers)

    def best(self, measure: str) -> str | None:
        """The best method by a measure; None if the measure has no better and worse."""
        more = MEASURES[measure]
        means = {name: self.mean(name, measure) for name in self.folds}
        means = {name: value for name, value in means.items() if np.isfinite(value)}
        if more is None or not means:
            return None
        return (max if more else min)(means, key=means.__getitem__)

    def verdict(self, measure: str = "log_loss") -> Verdict | None:
        """The winner by a measure, and its lead; None if there are fewer than two methods.

        Examples
        --------
        >>> from boolweave.baselines.comparison import Comparison
        >>> losses = {"a": [0.2, 0.3, 0.4], "b": [0.3, 0.4, 0.6]}
        >>> folds = {name: [{"log_loss": x} for x in each] for name, each in losses.items()}
        >>> print(Comparison(folds, {}).verdict())
        a wins by log-loss: 0.300, 0.133 ± 0.033 lower than b (second best), better in 3 of 3 splits
        """
        winner = self.best(measure)
        if winner is None:
            return None
        folds = {name: lines for name, lines in self.folds.items() if name != winner}
        runner_up = Comparison(folds, {}).best(measure)
        if runner_up is None:
            return None
        best, second = (
            np.array([fold[measure] for fold in self.folds[name]]) for name in (winner, runner_up)
        )
        gain = best - second if MEASURES[measure] else second - best
        return Verdict(
            measure,
            winner,
            runner_up,
            float(best.mean()),
            float(gain.mean()),
            _standard_error(gain),
            int(np.count_nonzero(gain > 0)),
            len(gain),
        )

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per method: each measure, its standard error, and whether it is best."""
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
        from boolweave.plot import new_figure

        names = sorted(self.folds, key=lambda name: self.mean(name, "log_loss"), reverse=True)
        figure = new_figure(11, 0.8 + 0.34 * len(names))
        axes = figure.subplots(1, 4, sharey=True)
        shown = {"log_loss": "log-loss", "accuracy": "accuracy", "auc": "AUC", "seconds": "seconds"}
        for axis, (measure, label) in zip(axes, shown.items(), strict=True):
            best = self.best(measure)
            for place, name in enumerate(names):
                ours = name.startswith("boolweave")
                axis.errorbar(
                    self.mean(name, measure),
                    place,
                    xerr=np.nan_to_num(self.standard_error(name, measure)),
                    marker="D" if name == best else "o",
                    capsize=3,
                    color="#d55e00" if ours else "#0072b2",
                )
            axis.set_xlabel(label)
            axis.grid(axis="x", color="0.9")
        axes[0].set_yticks(range(len(names)), names)
        axes[3].set_xscale("log")
        figure.suptitle(title or "best log-loss first; a diamond marks the best of its column")
        return figure


def _standard_error(numbers: list[float] | NDArray[np.float64]) -> float:
    """Standard error of the mean of some numbers; NaN for a single one."""
    n = len(numbers)
    return float(np.std(numbers, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")


def compare(
    X: Any,
    *,
    n_components: int | str = "auto",
    methods: Sequence[str] | None = None,
    n_folds: int | None = None,
    splits: Iterable[Any] | None = None,
    groups: ArrayLike | None = None,
    top: int = 10,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    on_fold: OnFold | None = None,
    **parameters: Any,
) -> Comparison:
    """Compare methods by their predictions of observed entries from other entries.

    Parameters
    ----------
    X : as in `BooleanMatrixFactorization.fit`, shape (M, N)
    n_components : int or "auto"
        The rank of every method that has one.
    methods : sequence of str, optional
        Names from `boolweave.baselines.comparison.METHODS`; by default, all of them.
    n_folds : int, optional
        Number of random folds, by default 5; each fold is predicted from the others.
    splits : iterable, optional
        Other splits instead of folds. Each is a tuple (kept, rows, columns, values) of the same
        entries, as returned by `Observations.hide`, `Observations.folds` and the functions of
        `boolweave.data.splits`; or it says which of the observed entries are hidden, as Booleans of
        shape (n_observed,) or as positions, in the order of rows and columns. With a single split,
        standard errors are computed over the rows that it tests.
    groups : array of whole numbers, shape (N,), optional
        The question of each column, such as `TableEncoder.groups_`: folds consist of whole answers,
        as in `Observations.folds`.
    top : int
        Number of hidden entries of each row, those with the highest probabilities, that count in
        precision, recall, nDCG and MAP (see `boolweave.metrics.ranking_scores`).
    random_state : int, optional
        Random seed of the folds and of the methods.
    n_jobs : int, optional
        Number of threads of boolweave.
    on_fold : callable, optional
        It is called with the method and the fold when a fold is done.
    **parameters
        Other parameters of `BooleanMatrixFactorization` and `BooleanCompletion`, except `method`;
        each of these two gets those that it has.

    Returns
    -------
    Comparison
        Ctrl-C ends the comparison early: it then contains the methods that are done, if any, and
        ``interrupted`` is True.

    Examples
    --------
    >>> from boolweave.baselines import compare
    >>> from boolweave.data.splits import hide_last
    >>> from boolweave.datasets import load_zoo
    >>> zoo = load_zoo().observations
    >>> split = hide_last(zoo, range(zoo.n_observed), per_row=5)  # the last five traits
    >>> found = compare(zoo, methods=["row and column bias", "majority"], splits=[split], top=2)
    >>> found.best("ndcg")
    'row and column bias'
    """
    chosen = list(METHODS) if methods is None else list(methods)
    for name in chosen:
        if name not in METHODS:
            raise ValueError(f"methods must be among {', '.join(METHODS)}, got {name!r}")
    observations = Observations.from_data(X, absent=parameters.pop("absent", "missing"))
    known = set().union(*_PARAMETERS.values()) - {"method"}
    for name in parameters:
        if name not in known:
            raise TypeError(
                f"compare() got an unexpected argument {name!r}; expected parameters of "
                "boolweave's estimators, except `method`, since all methods are compared"
            )
    check_count("top", top)
    if splits is None:
        n_folds = N_FOLDS if n_folds is None else n_folds
        splits = observations.folds(n_folds, random_state, groups=groups)
    elif n_folds is not None:
        raise ValueError(f"pass either n_folds or splits, but got both, n_folds={n_folds!r}")
    elif groups is not None:
        raise ValueError("pass either groups or splits, but got both; splits say what is hidden")
    roles = [_roles(split, observations, number) for number, split in enumerate(splits)]
    if not roles:
        raise ValueError("splits must hold at least one split, but got none")
    folds: dict[str, list[dict[str, float]]] = {}
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "observations.npz"
        np.savez(
            data,
            shape=observations.shape,
            indptr=observations.indptr,
            indices=observations.indices,
            values=observations.values,
        )
        np.save(Path(folder) / "roles.npy", roles)
        for name in chosen:
            job = {
                "class": METHODS[name].kind,
                "parameters": _parameters(name, n_components, n_jobs, random_state, parameters),
                "data": str(data),
                "roles": str(Path(folder) / "roles.npy"),
                "top": int(top),
            }
            order = Path(folder) / "job"
            order.write_bytes(pickle.dumps(job))  # parameters may be channels and arrays
            try:
                done, failure = _run(name, order, len(roles), on_fold)
            except KeyboardInterrupt:
                if not folds:
                    raise
                return Comparison(folds, failures, interrupted=True)
            if failure:
                failures[name] = failure
            else:
                folds[name] = done
    return Comparison(folds, failures)


def _roles(split: Any, observations: Observations, number: int) -> NDArray[np.uint8]:
    """The role of each observed entry in a split, (n_observed,): KEPT, HIDDEN or LEFT_OUT."""
    if isinstance(split, tuple) and len(split) == 4 and isinstance(split[0], Observations):
        roles = _roles_of_tuple(split, observations, number)
    else:
        given = np.asarray(split)
        roles = np.full(observations.n_observed, KEPT, dtype=np.uint8)
        if given.dtype == np.bool_ and given.shape != roles.shape:
            raise ValueError(
                f"splits[{number}] must have one Boolean for each of the {observations.n_observed} "
                f"observed entries, but has shape {given.shape}"
            )
        if given.dtype.kind not in "biu" or given.ndim != 1:
            raise ValueError(
                f"splits[{number}] must be a tuple (kept, rows, columns, values), Booleans or "
                f"positions of hidden entries, but got {type(split).__name__}"
            )
        if given.dtype.kind != "b" and ((given < 0) | (given >= observations.n_observed)).any():
            raise ValueError(
                f"splits[{number}] must hold positions from 0 to {observations.n_observed - 1}, "
                f"but they go from {given.min()} to {given.max()}"
            )
        roles[given] = HIDDEN
    for role, what in ((KEPT, "keep"), (HIDDEN, "hide")):
        if not (roles == role).any():
            raise ValueError(f"splits[{number}] must {what} at least one entry, but got none")
    return roles


def _roles_of_tuple(split: Split, observations: Observations, number: int) -> NDArray[np.uint8]:
    """The same for a tuple (kept, rows, columns, values)."""
    kept, rows, columns, values = split
    if kept.shape != observations.shape:
        raise ValueError(
            f"splits[{number}] must be of the table, {observations.n_rows} x "
            f"{observations.n_columns}, but is of {kept.n_rows} x {kept.n_columns}"
        )
    roles = np.full(observations.n_observed, LEFT_OUT, dtype=np.uint8)
    entries = {KEPT: (kept.rows_of_entries(), kept.indices, kept.values)}
    entries[HIDDEN] = (*pairs(rows, columns, observations), np.asarray(values))
    for role, (own_rows, own_columns, own_values) in entries.items():
        index = entry_positions(observations, own_rows, own_columns)
        if (index < 0).any() or (observations.values[index] != own_values).any():
            raise ValueError(
                f"splits[{number}] must hold entries of the table with their values, but some are "
                "different; split the same observations that are passed to compare"
            )
        if (roles[index] != LEFT_OUT).any():
            raise ValueError(f"splits[{number}] keeps an entry that it hides; remove it from one")
        roles[index] = role
    return roles


def _parameters(
    name: str, n_components: int | str, n_jobs: int | None, seed: int | None, ours: dict[str, Any]
) -> dict[str, Any]:
    """The parameters of one method; additional ones of the caller are for our estimators."""
    kind, fixed, takes = METHODS[name]
    common = {"n_components": n_components, "n_jobs": n_jobs, "random_state": seed}
    given = fixed | {key: common[key] for key in takes}
    return given | {key: ours[key] for key in _PARAMETERS.get(kind, ()) if key in ours}


def _run(
    name: str, job: Path, n_folds: int, on_fold: OnFold | None
) -> tuple[list[dict[str, float]], str]:
    """Run one method in a process of its own; return its folds, or what went wrong."""
    home = str(Path(__file__).resolve().parents[2])
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    # Linear algebra uses one thread, because the matrices are small, and threads that wait for each
    # other on a busy machine take thirty times as long.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    # Errors go to a file: a pipe that is not read until the end could fill up and block.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "boolweave.baselines.worker", str(job)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, which then ends the other
        )
        folds = []
        try:
            for line in _lines(process):
                folds.append(json.loads(line))
                if on_fold is not None:
                    on_fold(name, len(folds))
                if len(folds) == n_folds:
                    break
        finally:
            process.kill()
            code = process.wait()
        if len(folds) == n_folds:
            return folds, ""
        return [], _last_line(errors) or f"the process ended with code {code}"


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """The lines that a process prints, read in a thread, so that Ctrl-C ends waiting for them."""
    output, lines = process.stdout, Queue[str]()
    assert output is not None

    def read() -> None:
        with output:
            for line in output:
                lines.put(line)
        lines.put("")

    Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=LOOK_AFTER)
        except Empty:
            continue
        if not line:
            return
        yield line


def _last_line(file: IO[bytes]) -> str:
    """The last line of the output of a process, in which Python names the error."""
    # Number of bytes at the end of the output of a process that are searched for its last line.
    tail = 2**16
    file.seek(max(0, file.seek(0, os.SEEK_END) - tail))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return shortened(lines[-1]) if lines else ""
