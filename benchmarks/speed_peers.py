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


def run(peer: str, problem: Path, rank: int, timeout: float) -> dict:
    """Run a program on the matrices `seen` and `truth` of an .npz file."""
    failure = install(peer, *PEERS[peer])
    if failure is not None:
        return {"failed": failure}
    command = [str(python_of(peer)), __file__, peer, str(problem), str(rank)]
    return answer_of(command, timeout, {"NUMBA_NUM_THREADS": "1"})


# ---- in the environment of the program


def boolem(seen: np.ndarray, rank: int) -> np.ndarray:
    """Expectation-maximization with gradients; returns P(z = 1) of every entry."""
    from boolem import boolem as package

    everything = np.ones(seen.shape, dtype=np.int8)
    model = package.BEM(seen.astype(np.int8), rank, everything)
    model.run()
    return model.X_hat


def nbmf_mm(seen: np.ndarray, rank: int) -> np.ndarray:
    """Mean-parametrized Bernoulli factorization; returns its real-valued product."""
    from nbmf_mm import NBMFMM

    model = NBMFMM(n_components=rank, random_state=0)
    model.fit(seen.astype(float))
    return model.W_ @ model.components_


RUNNERS = {"boolem": boolem, "nbmf-mm": nbmf_mm}


def main() -> None:
    peer, problem, rank = sys.argv[1:]
    with np.load(problem) as arrays:
        seen, truth = arrays["seen"], arrays["truth"]
    np.random.seed(0)  # noqa: NPY002  (boolem draws from it)
    seconds, errors = [], []
    for call in range(2):
        begun = time.process_time() if call else 0.0  # the first one includes imports, compilation
        product = RUNNERS[peer](seen, int(rank))
        seconds.append(time.process_time() - begun)
        thresholds = np.linspace(0.05, 0.95, 19)  # a user cannot know the best
        errors.append(min(float(np.mean((product > t) != truth)) for t in thresholds))
    answer = {"first_s": seconds[0], "again_s": seconds[1], "errors": errors}
    print(json.dumps(answer | {"peak_mb": peak_memory() / 2**20}))


if __name__ == "__main__":
    main()
