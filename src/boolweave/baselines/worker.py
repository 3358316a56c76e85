"""One method on all splits, in a process of its own: it prints a JSON line for each split.

`compare` starts the process; its only argument is the file of the job that `compare` has written.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boolweave
from boolweave import baselines, metrics
from boolweave.baselines.comparison import HIDDEN, LEFT_OUT
from boolweave.data.observations import Observations, Split
from boolweave.model.channel import Channel


def main() -> None:
    """Fit and measure split by split."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a method prints is not an answer
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    with np.load(job["data"]) as stored:
        shape = (int(stored["shape"][0]), int(stored["shape"][1]))
        observations = Observations(shape, stored["indptr"], stored["indices"], stored["values"])
    warnings.simplefilter("ignore")
    _warm_up(job, observations)
    before = memory("VmRSS:")
    roles = np.load(job["roles"], mmap_mode="r")
    for split in _splits(observations, roles):
        measures = measure(_make(job), *split, top=job["top"], with_errors=len(roles) == 1)
        measures["megabytes"] = max(0.0, memory("VmHWM:") - before)
        print(json.dumps(measures), file=answers, flush=True)


def _make(job: dict[str, Any]) -> Any:
    home: Any = boolweave if job["class"] in boolweave.__all__ else baselines
    return getattr(home, job["class"])(**job["parameters"])


def _splits(observations: Observations, roles: NDArray[np.uint8]) -> Iterator[Split]:
    """Kept and hidden entries, from the role of each entry in each split."""
    for role in roles:
        left_out = role == LEFT_OUT
        used = observations.split(left_out)[0] if left_out.any() else observations
        yield used.split(role[~left_out] == HIDDEN)


def _warm_up(job: dict[str, Any], observations: Observations) -> None:
    """Compile the code of the method, so that the times do not include compilation."""
    model = _make(job)
    if hasattr(model, "n_members"):  # each member runs the same code
        model.set_params(n_members=1)
    if any(_has_shape(value) for value in job["parameters"].values()):
        # Channels and priors with the shape of this table do not fit another one.
        model.set_params(max_iter=2, n_init=1).fit(observations)
    else:
        random = np.random.default_rng(0)
        model.fit(np.where(random.random((30, 20)) < 0.1, np.nan, random.integers(0, 2, (30, 20))))
    model.predict_proba([0], [0])
    model.predict([0], [0])


def _has_shape(value: Any) -> bool:
    """Whether a parameter has a number for each entry, row or column."""
    return not value.is_uniform if isinstance(value, Channel) else np.ndim(value) > 0


def measure(
    model: Any,
    kept: Observations,
    rows: Any,
    columns: Any,
    values: Any,
    *,
    top: int,
    with_errors: bool,
) -> dict[str, float]:
    """Fit to the kept entries, and score the predictions of the hidden ones."""
    start = time.perf_counter()
    model.fit(kept)
    seconds = time.perf_counter() - start
    p, predicted = model.predict_proba(rows, columns), model.predict(rows, columns)

    def judged(some: Any) -> dict[str, float]:
        return judge(rows[some], values[some], p[some], predicted[some], top)

    measures = judged(slice(None))
    errors = jackknife(rows, judged, measures) if with_errors else {}
    return {**measures, **errors, "seconds": seconds, "rank": _rank(model)}


def judge(rows: Any, values: Any, p: Any, predicted: Any, top: int) -> dict[str, float]:
    """All measures of the predictions of some entries; NaN if one is not defined."""
    n_ones = np.count_nonzero(values)
    both = 0 < n_ones < len(values)
    ranking = metrics.ranking_scores(rows, values, p, top) if n_ones else [float("nan")] * 4
    return {
        "accuracy": metrics.accuracy(values, predicted),
        "log_loss": metrics.log_loss(values, p),
        "auc": metrics.roc_auc(values, p) if both else float("nan"),
        "calibration": metrics.expected_calibration_error(values, p),
        **dict(zip(("precision", "recall", "ndcg", "map"), ranking, strict=False)),
    }


def jackknife(
    rows: NDArray[np.int64],
    judged: Callable[[NDArray[np.bool_]], dict[str, float]],
    measures: dict[str, float],
) -> dict[str, float]:
    """Standard errors of the measures, computed by leaving out groups of rows in turn.

    With G groups and a measure m_g without group g: sqrt((G - 1) / G * sum (m_g - mean)^2).
    """
    row = np.unique(rows, return_inverse=True)[1]
    # Number of groups of rows, which are left out in turn for the standard error of a single split.
    most = 20
    n_groups = min(most, int(row.max()) + 1)
    if n_groups < 2:
        return {f"{name}_error": float("nan") for name in measures}
    without = [judged(row % n_groups != group) for group in range(n_groups)]
    return {
        f"{name}_error": float(np.sqrt(n_groups - 1) * np.std([part[name] for part in without]))
        for name in measures
    }


def _rank(model: Any) -> float:
    """The number of factors of a fitted model; NaN if it has no such number."""
    if getattr(model, "n_components_", None) is not None:
        return float(model.n_components_)
    return float(len(model.components_)) if hasattr(model, "components_") else float("nan")


def memory(field: str) -> float:
    """Memory of this process in MB: VmRSS now, VmHWM at its highest."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 2**10
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    main()
