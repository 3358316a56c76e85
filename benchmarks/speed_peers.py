"""Other programs for Boolean factorization, each in an environment of its own in .bench/.

`speed.py` runs them; this file is also the program that runs in their environments, and therefore
NumPy is the only package imported at the top. An environment is created on first use. If a program
cannot be installed, fails or takes too long, this is reported.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from processes import answer_of, install, peak_memory, python_of

# The packages to install, the program itself first.
PEERS = {
    "boolem": ["boolem==0.0.5", "numpy", "scipy", "numba"],
    "nbmf-mm": ["nbmf-mm==0.1.4"],
}


def run(peer: str, problem: Path, rank: int, iterations: int, timeout: float) -> dict:
    """Run a program on the matrices `seen` and `truth` of an .npz file."""
    failure = install(peer, *PEERS[peer])
    if failure is not None:
        return {"failed": failure}
    command = [str(python_of(peer)), __file__, peer, str(problem), str(rank), str(iterations)]
    return answer_of(command, timeout, {"NUMBA_NUM_THREADS": "1"})


# ---- in the environment of the program


def boolem(seen: np.ndarray, rank: int, iterations: int) -> tuple[np.ndarray, int | None]:
    """Expectation-maximization with gradients; returns P(z = 1) of every entry."""
    from boolem import boolem as package

    everything = np.ones(seen.shape, dtype=np.int8)
    model = package.BEM(seen.astype(np.int8), rank, everything, max_iter=iterations)
    model.run()
    return model.X_hat, None


def nbmf_mm(seen: np.ndarray, rank: int, iterations: int) -> tuple[np.ndarray, int | None]:
    """Mean-parametrized Bernoulli factorization; returns its real-valued product."""
    from nbmf_mm import NBMFMM

    model = NBMFMM(n_components=rank, max_iter=iterations, random_state=0)
    model.fit(seen.astype(float))
    return model.W_ @ model.components_, int(model.n_iter_)


RUNNERS = {"boolem": boolem, "nbmf-mm": nbmf_mm}


def main() -> None:
    peer, problem, rank, iterations = sys.argv[1:]
    with np.load(problem) as arrays:
        seen, truth = arrays["seen"], arrays["truth"]
    np.random.seed(0)  # noqa: NPY002  (boolem draws from it)
    RUNNERS[peer](seen[:30, :30], 2, 10)  # imports and compilation
    start = time.perf_counter(), time.process_time()
    product, n_iter = RUNNERS[peer](seen, int(rank), int(iterations))
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    thresholds = np.linspace(0.05, 0.95, 19)  # a user cannot know the best
    error = min(float(np.mean((product > threshold) != truth)) for threshold in thresholds)
    answer = {"time_s": wall, "cpu_s": cpu, "error": error, "iterations": n_iter}
    print(json.dumps(answer | {"peak_mb": peak_memory() / 2**20}))


if __name__ == "__main__":
    main()
