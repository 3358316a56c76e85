"""Run each fit of `completion.py` in a process of its own, which can be stopped.

This file is also the program that runs in that process, with a method of `completion_methods.py`.
Other packages run in an environment that is created in .bench/ on first use.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import processes
from completion_methods import METHODS, PACKAGES, Entries, Method, Task

PEERS_PYTHON = processes.python_of("completion")
ENVIRONMENT = PEERS_PYTHON.parent.parent

# Seconds that a process may take for imports and compilation, beyond the limit of its fit.
GRACE = 60.0


# ---------------------------------------------------------------- from outside


def install(method: str) -> str | None:
    """Install the packages of a method into the environment; return an error message or None."""
    failure = processes.install("completion", "scipy", "threadpoolctl")
    if failure is not None:
        return failure
    pip = [str(PEERS_PYTHON), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    log = ENVIRONMENT / f"{method}.json"
    if not log.exists():
        done = subprocess.run([*pip, PACKAGES[method]], capture_output=True, text=True)
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = None if done.returncode == 0 else (lines or ["no message"])[0]
        log.write_text(json.dumps(why))
    why = json.loads(log.read_text())
    return why if why is None else f"not installed: {why}"


def versions() -> dict[str, str]:
    """The versions of the installed packages."""
    return {
        name: package.partition("==")[2]
        for name, package in PACKAGES.items()
        if (ENVIRONMENT / f"{name}.json").exists()
    }


def run(method: str, problem: Path, seed: int, limit: float, threads: int) -> dict:
    """Run a method on a problem in an .npz file.

    Returns
    -------
    dict
        ``probabilities`` and ``decisions`` of the hidden entries, ``seconds`` (wall time) and
        ``processor_seconds`` of the fit including the choice of parameters, ``predict_seconds``,
        and ``how``, the chosen parameters; or ``left_out``, the reason why there is no answer.
    """
    python = sys.executable
    if method in PACKAGES:
        why = install(method)
        if why is not None:
            return {"left_out": why}
        python = str(PEERS_PYTHON)
    answer = problem.with_name("answer.npz")
    command = [python, __file__, method, str(problem), str(answer), str(seed), str(threads)]
    libraries = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    code, printed, complaint = processes.run(
        command, limit + GRACE, dict.fromkeys(libraries, str(threads))
    )
    if code is None:
        return {"left_out": f"no answer within {limit:g} s", "limit": limit}
    if code:
        return {"left_out": f"failed: {complaint[:200]}"}
    report = json.loads(printed.splitlines()[-1])
    if report["seconds"] > limit:
        return {"left_out": f"no answer within {limit:g} s", "limit": limit}
    with np.load(answer) as arrays:
        return report | {name: arrays[name] for name in arrays.files}


# ---------------------------------------------------------------- inside


def warm_up(method: Method) -> None:
    """Import and compile everything before the fit that is measured."""
    random = np.random.default_rng(0)
    where = random.choice(20 * 15, 200, replace=False)
    values = (random.random(200) < 0.5).astype(np.uint8)
    fitted = method(Task(Entries((20, 15), where // 15, where % 15, values), 0, 1))
    fitted.probability(where[:5] // 15, where[:5] % 15)


def main() -> None:
    import warnings

    method, problem, answer, seed, threads = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(problem) as given:
        arrays = {name: given[name] for name in given.files}
    shape = (int(arrays["shape"][0]), int(arrays["shape"][1]))
    rows, columns = (arrays[name].astype(np.int64) for name in ("rows", "columns"))
    entries = Entries(shape, rows, columns, arrays["values"])
    warm_up(METHODS[method])
    began, used = time.perf_counter(), time.process_time()
    model = METHODS[method](Task(entries, int(seed), int(threads)))
    fitted, used = time.perf_counter(), time.process_time() - used
    asked = (arrays["test_rows"].astype(np.int64), arrays["test_columns"].astype(np.int64))
    p = np.asarray(model.probability(*asked), dtype=np.float64)
    ended = time.perf_counter()
    decided = p > 0.5 if model.decision is None else np.asarray(model.decision(*asked)) > 0
    np.savez(answer, probabilities=p, decisions=decided)
    report = {
        "seconds": fitted - began, "processor_seconds": used, "predict_seconds": ended - fitted,
        "how": model.how,
    }  # fmt: skip
    print(json.dumps(report))


if __name__ == "__main__":
    main()
