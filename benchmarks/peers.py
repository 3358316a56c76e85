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

from processes import answer_of, install, peak_memory, python_of

NIMFA_PYTHON = python_of("nimfa")


def make_nimfa_environment() -> str | None:
    """Create NIMFA's environment if it does not exist; return an error message or None."""
    return install("nimfa", "--only-binary=numpy,scipy", "nimfa==1.4.0", "numpy<2", "scipy<1.13")


# The settings of the paper: λ = 1.1, and a start from NNDSVD; NIMFA has its own stopping rule.
SETTINGS = {"seed": "nndsvd", "lambda_w": 1.1, "lambda_h": 1.1}


def best_binarized_error(w: np.ndarray, h: np.ndarray, truth: np.ndarray) -> float:
    """The error of the Boolean product with the pair of thresholds that makes it smallest."""

    def error(threshold_w: float, threshold_h: float) -> float:
        ones = (w > threshold_w).astype(np.float32) @ (h > threshold_h).astype(np.float32) > 0
        return float(np.mean(ones != truth))

    grid = np.linspace(0.05, 0.95, 19)
    best = min(error(i * w.max(), j * h.max()) for i in grid for j in grid)
    return min(best, error(0.5, 0.5))


def nimfa_bmf(seen: np.ndarray, truth: np.ndarray, rank: int, iterations: int = 200) -> dict:
    """Run NIMFA's Bmf in its environment; return its error, with the best thresholds, and time.

    A user could not choose these thresholds, which are the best compared with the truth.
    """
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "problem.npz"
        np.savez(problem, seen=seen, truth=truth)
        return answer_of([str(NIMFA_PYTHON), __file__, str(problem), str(rank), str(iterations)])


def main() -> None:
    import nimfa

    problem, rank, iterations = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    with np.load(problem) as arrays:
        seen, truth = arrays["seen"].astype(float), arrays["truth"]
    bmf = nimfa.Bmf(seen, rank=rank, max_iter=iterations, **SETTINGS)
    start, processor_start = time.perf_counter(), time.process_time()
    fitted = bmf()
    seconds, processor = time.perf_counter() - start, time.process_time() - processor_start
    answer = {"seconds": seconds, "processor_seconds": processor, "peak_mb": peak_memory() / 2**20}
    answer |= {"first_s": processor_start + processor, "again_s": processor}
    w, h = np.asarray(fitted.basis()), np.asarray(fitted.coef())
    error = best_binarized_error(w, h, truth)
    answer |= {"error": error, "errors": [error], "iterations": int(fitted.fit.n_iter)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
