"""One method on all folds, in a process of its own: a JSON line of measures a fold.

Started by `compare`; its only argument is the file of the job, which `compare` has written.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from boolweave import baselines, metrics
from boolweave.data.observations import Observations
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.model.channel import Channel


def main() -> None:
    """Fit and measure fold by fold."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a method prints is no answer
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    with np.load(job["data"]) as stored:
        shape = (int(stored["shape"][0]), int(stored["shape"][1]))
        seen = Observations(shape, stored["indptr"], stored["indices"], stored["values"])
    warnings.simplefilter("ignore")
    _warm_up(job, seen)
    before = memory("VmRSS:")
    for split in seen.folds(job["n_folds"], job["seed"]):
        measures = measure(_make(job), *split)
        measures["megabytes"] = max(0.0, memory("VmHWM:") - before)
        print(json.dumps(measures), file=answers, flush=True)


def _make(job: dict[str, Any]) -> Any:
    ours = job["class"] == "BooleanMatrixFactorization"
    kind = BooleanMatrixFactorization if ours else getattr(baselines, job["class"])
    return kind(**job["parameters"])


def _warm_up(job: dict[str, Any], seen: Observations) -> None:
    """Compile what the method compiles, so that the times are those of the work."""
    model = _make(job)
    if any(_has_shape(value) for value in job["parameters"].values()):
        # Channels and priors of this very table fit no other one.
        model.set_params(max_iter=2, n_init=1).fit(seen)
    else:
        random = np.random.default_rng(0)
        model.fit(np.where(random.random((30, 20)) < 0.1, np.nan, random.integers(0, 2, (30, 20))))
    model.predict_proba([0], [0])
    model.predict([0], [0])


def _has_shape(value: Any) -> bool:
    """Whether a parameter has a number for each entry, row or column."""
    if isinstance(value, Channel):
        return any(np.ndim(getattr(value, field.name)) for field in dataclasses.fields(value))
    return np.ndim(value) > 0


def measure(
    model: Any, kept: Observations, rows: Any, columns: Any, values: Any
) -> dict[str, float]:
    """Fit to what is kept, and judge the predictions of what is not."""
    start = time.perf_counter()
    model.fit(kept)
    seconds = time.perf_counter() - start
    p = model.predict_proba(rows, columns)
    both = 0 < np.count_nonzero(values) < len(values)
    rank = getattr(model, "n_components_", None)
    return {
        "accuracy": metrics.accuracy(values, model.predict(rows, columns)),
        "log_loss": metrics.log_loss(values, p),
        "auc": metrics.roc_auc(values, p) if both else float("nan"),
        "calibration": metrics.expected_calibration_error(values, p),
        "seconds": seconds,
        "rank": float(len(model.components_) if rank is None else rank),
    }


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
