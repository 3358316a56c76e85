"""The other methods of `factors.py`, each in a process of its own, which can be stopped.

This file is also the program that runs in that process: it prints a line of JSON, with the seconds
so far, whenever it has found fewer wrong entries.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

import processes

# The thresholds of Asso, all of which are tried.
THRESHOLDS = [round(0.05 * step, 2) for step in range(1, 21)]

# Maximum number of factors of FPMsBMF.
MOST_FACTORS = 26

# If an exact iteration of FPMsBMF has more operations, (M + N) · 2^K · K, than this, its local
# search is used instead: one iteration, of up to fifty, would take several seconds.
EXACT_SUMS = 2e9

# Seconds that a process may take beyond its limit, for imports, compilation and its last step.
GRACE = 30.0

Report: TypeAlias = Callable[[np.ndarray, np.ndarray, str], None]


def boolean_product(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """⋁ₖ xₘₖ ∧ yₖₙ of factors (M, K) and (K, N)."""
    return np.asarray(X, np.float32) @ np.asarray(Y, np.float32) > 0


def wrong(seen: np.ndarray, X: np.ndarray, Y: np.ndarray) -> int:
    """Count the observed entries of `seen` (NaN is missing) that differ from the product."""
    known = ~np.isnan(seen)
    return int(np.sum(boolean_product(X, Y)[known] != (seen[known] > 0)))


# ---------------------------------------------------------------- the methods


def asso(seen: np.ndarray, K: int, seconds: float, threads: int, report: Report) -> None:
    """Our Asso with each threshold until the time limit."""
    from boolweave.baselines import Asso

    began = time.perf_counter()
    for threshold in THRESHOLDS:
        model = Asso(K, threshold=threshold).fit(seen)
        report(model.row_factors_, model.components_, f"threshold {threshold:g}")
        if time.perf_counter() - began > seconds:
            return


def grecond(seen: np.ndarray, K: int, seconds: float, threads: int, report: Report) -> None:
    """Our GreConD, with missing entries first as zeros and then as ones."""
    from boolweave.baselines import GreConD

    for missing in ("zero", "one") if np.isnan(seen).any() else ("zero",):
        model = GreConD(K, missing=missing).fit(seen)  # type: ignore[arg-type]
        report(model.row_factors_, model.components_, f"missing as {missing}")


def fpms_bmf(seen: np.ndarray, K: int, seconds: float, threads: int, report: Report) -> None:
    """FPMsBMF from repeated random starts in each thread, with missing entries as zeros.

    Its exact steps try all 2^K sets of factors for each row and column; if that takes too long, its
    greedy method with a local search is used.
    """
    import FPMsBMF

    sums = sum(seen.shape) * 2.0**K * K
    method = "zeta" if sums <= EXACT_SUMS else "greedy-ls"
    table = FPMsBMF.BitMatrix.from_numpy(np.nan_to_num(seen) > 0)

    def starts(first: int) -> None:
        for seed in itertools.count(first, threads):
            found = FPMsBMF.ao_bmf(table, K, method=method, seed=seed)
            report(found.w.to_numpy(), found.h.to_numpy(), f"{method}, seed {seed}")

    ends = time.perf_counter() + seconds
    running = [threading.Thread(target=starts, args=(n,), daemon=True) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(max(0.0, ends - time.perf_counter()))


METHODS = {"Asso": asso, "GreConD": grecond, "FPMsBMF": fpms_bmf}


# ---------------------------------------------------------------- from outside


def run(method: str, problem: Path, K: int, seconds: float, threads: int) -> dict:
    """Run a method on a table in an .npy file.

    Returns
    -------
    dict
        ``errors``, ``seconds`` until the end, ``how``, the settings of the best answer, and
        ``history``, the improvements; or ``left_out``, the reason why there is no answer.
    """
    if method == "FPMsBMF":
        if importlib.util.find_spec("FPMsBMF") is None:
            return {"left_out": "not installed"}
        if K > MOST_FACTORS:
            return {"left_out": f"K > {MOST_FACTORS}"}
    command = [sys.executable, __file__, method, str(problem), str(K), str(seconds), str(threads)]
    code, printed, complaint = processes.run(
        command, seconds + GRACE, {"OPENBLAS_NUM_THREADS": "1"}
    )
    lines = [json.loads(line) for line in printed.splitlines() if line.endswith("}")]
    history = [line for line in lines if "errors" in line]
    if code:
        return {"left_out": f"failed: {complaint}"}
    if not history:
        return {"left_out": f"no answer within {seconds:g} s"}
    ended = lines[-1].get("ended", seconds + GRACE)
    best = history[-1]
    return {"errors": best["errors"], "seconds": ended, "how": best["how"], "history": history}


# ---------------------------------------------------------------- inside


def main() -> None:
    method, problem, K, seconds, threads = sys.argv[1:]
    seen = np.load(problem)
    if method != "FPMsBMF":  # imports and compilation
        METHODS[method](np.eye(8), 2, 0.0, 1, lambda X, Y, how: None)
    best, lock, began = np.inf, threading.Lock(), time.perf_counter()

    def report(X: np.ndarray, Y: np.ndarray, how: str) -> None:
        nonlocal best
        elapsed, errors = time.perf_counter() - began, wrong(seen, X, Y)
        with lock:
            if errors < best:
                best = errors
                print(json.dumps({"seconds": elapsed, "errors": errors, "how": how}), flush=True)

    METHODS[method](seen, int(K), float(seconds), int(threads), report)
    with lock:
        print(json.dumps({"ended": time.perf_counter() - began}), flush=True)
        os._exit(0)  # without waiting for starts that are running


if __name__ == "__main__":
    main()
