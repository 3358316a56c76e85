"""NIMFA in an environment of its own, because it needs NumPy 1.

The environment is created in .bench/ on first use. This file is also the program that runs in it;
therefore NumPy is the only package that is imported at the top.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from processes import answer_of, install, python_of

NIMFA_PYTHON = python_of("nimfa")


def make_nimfa_environment() -> str | None:
    """Create NIMFA's environment if it does not exist; return an error message or None."""
    return install("nimfa", "--only-binary=numpy,scipy", "nimfa==1.4.0", "numpy<2", "scipy<1.13")


def nimfa_settings(rank: int, iterations: int, all_iterations: bool = False) -> dict:
    """The settings of the paper: λ = 1.1, a start from NNDSVD, and NIMFA's own stopping rule."""
    settings = {"seed": "nndsvd", "rank": rank, "max_iter": iterations}
    settings |= {"lambda_w": 1.1, "lambda_h": 1.1}
    if all_iterations:
        settings["test_conv"] = 10 * iterations  # the stopping rule is never applied
    return settings


def best_binarised_error(w: np.ndarray, h: np.ndarray, truth: np.ndarray) -> float:
    """The error of the Boolean product with the pair of thresholds that makes it smallest."""

    def error(threshold_w: float, threshold_h: float) -> float:
        ones = (w > threshold_w).astype(np.float32) @ (h > threshold_h).astype(np.float32) > 0
        return float(np.mean(ones != truth))

    grid = np.linspace(0.05, 0.95, 19)
    best = min(error(i * w.max(), j * h.max()) for i in grid for j in grid)
    return min(best, error(0.5, 0.5))


def nimfa_bmf(seen: np.ndarray, truth: np.ndarray, rank: int, iterations: int = 200) -> dict:
    """Run NIMFA's Bmf in its environment; return its error, with the best thresholds, and time."""
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        np.savez(problem, seen=seen, truth=truth)
        return answer_of([str(NIMFA_PYTHON), __file__, str(problem), str(rank), str(iterations)])


def main() -> None:
    import nimfa

    problem, rank, iterations = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    with np.load(problem) as arrays:
        seen, truth = arrays["seen"].astype(float), arrays["truth"]
    bmf = nimfa.Bmf(seen, **nimfa_settings(rank, iterations))
    start, processor_start = time.perf_counter(), time.process_time()
    fitted = bmf()
    seconds, processor = time.perf_counter() - start, time.process_time() - processor_start
    w, h = np.asarray(fitted.basis()), np.asarray(fitted.coef())
    error = best_binarised_error(w, h, truth)
    answer = {"error": error, "seconds": seconds, "processor_seconds": processor}
    print(json.dumps(answer | {"iterations": int(fitted.fit.n_iter)}))


if __name__ == "__main__":
    main()
