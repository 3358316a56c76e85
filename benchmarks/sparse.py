"""Sparse matrices in which absent entries are zeros: time, memory and factors found.

    python benchmarks/sparse.py              all parts, without the largest size
    python benchmarks/sparse.py --huge       also 10⁸ ones, which takes 6 GB
    python benchmarks/sparse.py large roles  only these parts

    scaling   time of an iteration and memory against the number of ones
    large     planted 100,000 × 20,000, K = 50, 10⁷ ones, 1% noise: time, memory, factors found;
              time of an iteration of ALS
    many      planted 50,000 × 10,000, K = 1000 tiles of 40 × 12, 2% noise: the same
    equal     planted 2000 × 1500, K = 30: the same answer as with every zero by itself?
    roles     planted roles, 5% of the grants missing and 2% too many: roles found
    baskets   market baskets, 88,000 × 16,000, K = 100: time of an iteration, ours and of ALS
    peers     GreConD and Asso on a planted 2000 × 1500
    sizes     planted matrices from 300 × 200 on, K = 8, 1% noise: both treatments of zeros
    tables    the same on small real tables of $BOOLWEAVE_DATA, if that is set: wrong entries

ALS is that of implicit, in an environment of its own in .bench/. Every measurement is a process of
its own, so that its peak memory can be seen. Tables go to standard output, numbers to
benchmarks/results/sparse.json. Two threads work on each. `seconds` are those of the clock,
`cpu_seconds` those of all threads, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import processes
from processes import answer_of, install, python_of, record

RESULTS = processes.RESULTS / "sparse.json"
N_JOBS = 2
PARTS = ("scaling", "large", "many", "equal", "roles", "baskets", "peers", "sizes", "tables")


# ---------------------------------------------------------------- matrices


def planted(shape: tuple[int, int], K: int, n_ones: int, noise: float, seed: int) -> Any:
    """Plant K tiles of random sizes with about `n_ones` ones.

    Returns the matrix and the factors, all scipy.sparse.
    """
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    density = np.sqrt(n_ones / K / (shape[0] * shape[1]))
    X = sp.random_array((shape[0], K), density=density, rng=rng, dtype=np.float32, format="csr")
    Y = sp.random_array((K, shape[1]), density=density, rng=rng, dtype=np.float32, format="csr")
    X.data[:], Y.data[:] = 1, 1
    return noisy(X, Y, noise, rng), X, Y


def planted_tiles(
    shape: tuple[int, int], K: int, tile: tuple[int, int], noise: float, seed: int
) -> Any:
    """Plant K tiles of the same size; returns the same as `planted`."""
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    parts = []
    for length, size in zip(shape, tile, strict=True):
        chosen = np.concatenate([rng.choice(length, size, replace=False) for _ in range(K)])
        ends = np.arange(0, K * size + 1, size)
        ones = np.ones(K * size, np.float32)
        parts.append(sp.csr_array((ones, chosen, ends), shape=(K, length)))
    X, Y = parts[0].T.tocsr(), parts[1]
    return noisy(X, Y, noise, rng), X, Y


def noisy(X: Any, Y: Any, noise: float, rng: np.random.Generator) -> Any:
    """Remove a fraction of the ones of the product, and add as many others."""
    import scipy.sparse as sp

    product = (X @ Y).tocoo()
    kept = rng.random(product.nnz) >= noise
    n_extra = round(noise * product.nnz)
    rows = np.concatenate([product.row[kept], rng.integers(0, product.shape[0], n_extra)])
    columns = np.concatenate([product.col[kept], rng.integers(0, product.shape[1], n_extra)])
    values = np.ones(len(rows), dtype=np.uint8)
    table = sp.coo_array((values, (rows, columns)), shape=product.shape).tocsr()
    table.data[:] = 1
    return table


def planted_roles(shape: tuple[int, int], K: int, per_user: int, size: int, seed: int) -> Any:
    """Plant users with one to `per_user` roles; remove 5% of the grants, and add 2%."""
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    X, Y = np.zeros((shape[0], K), np.uint8), np.zeros((K, shape[1]), np.uint8)
    for x in X:
        x[rng.choice(K, rng.integers(1, per_user + 1), replace=False)] = 1
    for y in Y:
        y[rng.choice(shape[1], rng.integers(size // 2, 2 * size), replace=False)] = 1
    granted = (X.astype(np.float32) @ Y.astype(np.float32)) > 0
    seen = granted & (rng.random(shape) >= 0.05)
    n_extra = round(0.02 * granted.sum())
    seen[rng.integers(0, shape[0], n_extra), rng.integers(0, shape[1], n_extra)] = True
    return sp.csr_array(seen.astype(np.uint8)), X, Y


def market_baskets() -> Any:
    """Make 88,162 baskets of 16,470 items, ten each on average, as skewed as those of a shop.

    Five items are in 57, 48, 18, 17 and 17% of all baskets; the others follow Zipf's law, from 5%
    down to some baskets. Half of the baskets have 8 items or less; the largest have over 70.
    """
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    shape = (88_162, 16_470)
    everywhere = np.array([0.57, 0.48, 0.18, 0.17, 0.17])
    rows, columns = np.nonzero(rng.random((shape[0], len(everywhere))) < everywhere)
    wanted = 0.05 * shape[0] * 27.3 / (27.3 + np.arange(shape[1] - len(everywhere)))
    others = np.repeat(np.arange(len(everywhere), shape[1]), rng.poisson(wanted))
    sizes = rng.gamma(1.6, size=shape[0])
    buyers = rng.choice(shape[0], size=len(others), p=sizes / sizes.sum())
    rows, columns = np.concatenate([rows, buyers]), np.concatenate([columns, others])
    values = np.ones(len(rows), dtype=np.uint8)
    table = sp.coo_array((values, (rows, columns)), shape=shape).tocsr()
    table.data[:] = 1
    return table


# ---------------------------------------------------------------- measurements


def timed_iterations(table: Any, K: int, n: int) -> dict[str, Any]:
    """Times of all iterations of max-sum, and their median."""
    from boolweave.data.ones import SparseObservations
    from boolweave.engine.zeros.backend import SparseBackend, first_beliefs
    from boolweave.model.channel import Channel
    from boolweave.model.model import Model

    seen = SparseObservations.from_sparse(table)
    backend = SparseBackend(seen, True, N_JOBS)
    channel = Channel(one_given_zero=0.001, one_given_one=0.9)
    problem = backend.problem(Model(K, channel, 0.05, 0.05))
    field = first_beliefs(seen, backend.ones_by_column, K, np.random.default_rng(0))
    state = backend.start(problem, field)
    seconds, of_cores = [], []
    for i in range(n + 2):  # the first two compile kernels and do not count
        start, used = time.perf_counter(), time.process_time()
        backend.step(problem, state, 0.4)
        backend.log_posterior(problem, state)
        if i >= 2:
            seconds.append(time.perf_counter() - start)
            of_cores.append(time.process_time() - used)
    return {
        "n_ones": seen.n_ones, "seconds": float(np.median(seconds)),
        "cpu_seconds": float(np.median(of_cores)), "all": seconds,
    }  # fmt: skip


def scaling(n_ones: int) -> dict[str, Any]:
    """Some 100 ones in a row, whatever the number of rows; fewer iterations of 10⁸."""
    shape, K = (n_ones // 100, 5000), 20
    table, _, _ = planted(shape, K, n_ones, 0.01, 0)
    return {**timed_iterations(table, K, 12 if n_ones < 10**8 else 3), "shape": shape, "K": K}


def large() -> dict[str, Any]:
    return recovered(*planted((100_000, 20_000), 50, 10**7, 0.01, 0), noise=0.01)


def many() -> dict[str, Any]:
    return recovered(*planted_tiles((50_000, 10_000), 1000, (40, 12), 0.02, 0), noise=0.02)


def recovered(table: Any, X: Any, Y: Any, noise: float) -> dict[str, Any]:
    """Fit a planted matrix with max-sum and the noise given, and compare the factors."""
    from boolweave import BooleanMatrixFactorization
    from boolweave.metrics import match_factors

    start, used = time.perf_counter(), time.process_time()
    model = BooleanMatrixFactorization(
        Y.shape[0], method="max-sum", noise=noise, zeros="collective", n_jobs=N_JOBS,
        random_state=0,
    ).fit(table)  # fmt: skip
    seconds, of_cores = time.perf_counter() - start, time.process_time() - used
    truth = (part.toarray().astype(np.uint8) for part in (X, Y))
    found = match_factors(*truth, model.row_factors_, model.components_)
    return {
        "n_ones": table.nnz, "seconds": seconds, "cpu_seconds": of_cores, "n_iter": model.n_iter_,
        "jaccard": float(found.similarities.mean()), "worst": float(found.similarities.min()),
        "found": int((found.similarities >= 0.95).sum()),
    }  # fmt: skip


def equal(seed: int) -> dict[str, Any]:
    """Compare zeros="exact" and zeros="collective", starting from the same factors."""
    from boolweave.data.ones import SparseObservations
    from boolweave.engine import loop
    from boolweave.engine.integers import IntegerBackend
    from boolweave.engine.zeros.backend import SparseBackend, first_beliefs
    from boolweave.model.channel import Channel
    from boolweave.model.model import Model
    from boolweave.model.products import boolean_product

    shape, K = (2000, 1500), 30
    table, X, Y = planted(shape, K, round(0.1 * shape[0] * shape[1]), 0.01, seed)
    seen = SparseObservations.from_sparse(table)
    model = Model(K, Channel(one_given_zero=0.01, one_given_one=0.95), 0.2, 0.2)
    by_column = seen.ones.by_columns(shape[1])
    field = first_beliefs(seen, by_column, K, np.random.default_rng(seed))
    truth = boolean_product(X.toarray().astype(np.uint8), Y.toarray().astype(np.uint8))
    answer: dict[str, Any] = {}
    products = []
    backends = {
        "exact": lambda: IntegerBackend(seen.to_local(), N_JOBS),
        "collective": lambda: SparseBackend(seen, True, N_JOBS),
    }
    for name, make in backends.items():
        backend: Any = make()
        problem = backend.problem(model)
        start = time.perf_counter()
        result = loop.run(backend, problem, backend.start(problem, field), seen, max_iter=60)
        answer[f"seconds_{name}"] = (time.perf_counter() - start) / result.n_iter
        products.append(result.Z)
        answer[f"wrong_{name}"] = int((truth != result.Z).sum())
    return {**answer, "different": int((products[0] != products[1]).sum())}


def roles(rows: int, columns: int, K: int, per_user: int, size: int, seed: int) -> dict[str, Any]:
    from boolweave import BooleanMatrixFactorization
    from boolweave.metrics import match_factors

    table, X, Y = planted_roles((rows, columns), K, per_user, size, seed)
    start = time.perf_counter()
    model = BooleanMatrixFactorization(K, zeros="collective", n_jobs=N_JOBS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table)
    found = match_factors(X, Y, model.row_factors_, model.components_)
    return {
        "shape": [rows, columns], "K": K, "seed": seed, "seconds": time.perf_counter() - start,
        "jaccard": float(found.similarities.mean()),
        "found": int((found.similarities >= 0.95).sum()),
    }  # fmt: skip


def baskets() -> dict[str, Any]:
    return timed_iterations(market_baskets(), 100, 30)


def peer(name: str) -> dict[str, Any]:
    """Run GreConD, Asso or boolweave on the planted 2000 × 1500 matrix."""
    from boolweave import BooleanMatrixFactorization, baselines
    from boolweave.data.observations import Observations

    table, X, Y = planted((2000, 1500), 30, 300_000, 0.01, 0)
    if name == "boolweave":
        how: dict[str, Any] = {"method": "max-sum", "noise": 0.01, "random_state": 0}
        method: Any = BooleanMatrixFactorization(30, zeros="collective", n_jobs=N_JOBS, **how)
    else:
        method, table = getattr(baselines, name)(30), Observations.from_sparse(table)
    start = time.perf_counter()
    method.fit(table)
    seconds = time.perf_counter() - start
    truth = ((X @ Y) > 0).toarray()
    rows, columns = np.divmod(np.arange(truth.size), truth.shape[1])
    wrong = int((method.predict(rows, columns).reshape(truth.shape) != truth).sum())
    return {"seconds": seconds, "wrong": wrong}


def size(rows: int, columns: int, density: float) -> dict[str, Any]:
    """Processor seconds and wrong entries of a fit with each treatment of zeros."""
    table, X, Y = planted((rows, columns), 8, round(density * rows * columns), 0.01, 0)
    truth = ((X @ Y) > 0).toarray()
    answer: dict[str, Any] = {"shape": [rows, columns], "density": density}
    for zeros in ("exact", "collective"):
        fitted(table, 8, zeros)  # compiles kernels
        begun = time.process_time()
        Z = fitted(table, 8, zeros)
        answer[zeros] = {
            "cpu_seconds": time.process_time() - begun,
            "wrong": int((truth != Z).sum()),
        }
    return answer


def real_table(name: str, K: int) -> dict[str, Any]:
    """Wrong entries of a real table with each treatment of zeros."""
    import scipy.sparse as sp

    from boolweave.datasets import load_paleo

    folder = Path(os.environ["BOOLWEAVE_DATA"])
    if name == "paleo":
        table = sp.csr_array(load_paleo().observations.to_dense().astype(np.uint8))
    elif (folder / "role-mining" / f"{name}.txt").exists():
        at = np.loadtxt(folder / "role-mining" / f"{name}.txt", dtype=np.int64) - 1
        table = sp.csr_array((np.ones(len(at), np.uint8), tuple(at.T)))
        table.data[:] = 1
    else:
        table = sp.csr_array(np.genfromtxt(folder / "one-hot" / f"{name}.csv", delimiter=","))
    cells = table.toarray()
    known = ~np.isnan(cells)
    ways = {"exact": ("exact", "auto"), "one start": ("collective", 1), "four": ("collective", 4)}
    wrong = {way: int((fitted(table, K, *how) != cells)[known].sum()) for way, how in ways.items()}
    share = float(cells[known].mean())
    return {"table": name, "shape": table.shape, "ones": share, "K": K, "wrong": wrong}


def fitted(table: Any, K: int, zeros: str, n_init: Any = "auto") -> np.ndarray:
    """The product of the factors of a fit with default settings."""
    from boolweave import BooleanMatrixFactorization

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BooleanMatrixFactorization(K, zeros=zeros, n_init=n_init, random_state=0)
        return model.fit(table).result_.Z


ALS = """
import sys, time, json, numpy as np, scipy.sparse as sp
from implicit.cpu.als import AlternatingLeastSquares
table = sp.csr_matrix(sp.load_npz(sys.argv[1]), dtype=np.float32)
model = AlternatingLeastSquares(
    factors=int(sys.argv[2]), iterations=1, num_threads=int(sys.argv[3])
)
model.fit(table, show_progress=False)
start, used = time.perf_counter(), time.process_time()
model.iterations = 5
model.fit(table, show_progress=False)
seconds, of_cores = time.perf_counter() - start, time.process_time() - used
print(json.dumps({"seconds": seconds / 5, "cpu_seconds": of_cores / 5}))
"""


def als(which: str) -> dict[str, Any]:
    """Time of an iteration of implicit's ALS with the same number of factors."""
    import tempfile

    import scipy.sparse as sp

    failure = install("implicit", "implicit==0.7.2")
    if failure is not None:
        return {"failed": failure}
    if which == "baskets":
        table, K = market_baskets(), 100
    else:
        table, K = planted((100_000, 20_000), 50, 10**7, 0.01, 0)[0], 50
    with tempfile.TemporaryDirectory() as folder_name:
        file = Path(folder_name) / "table.npz"
        sp.save_npz(file, table, compressed=False)
        command = [str(python_of("implicit")), "-c", ALS, str(file), str(K), str(N_JOBS)]
        return answer_of(command, environment={"OMP_NUM_THREADS": str(N_JOBS)})


# ---------------------------------------------------------------- processes and tables


def in_a_process(name: str, *given: object) -> dict[str, Any]:
    """Do one measurement in a process of its own, and measure its peak memory."""
    words = [sys.executable, __file__, "--one", name, json.dumps(given)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        return {"failed": f"status {status}"}
    return {**json.loads(printed), "peak_mb": used.ru_maxrss * 1024 / 1e6}


def show(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    shown = {
        key: f"{value:.4g}" if isinstance(value, float) else value
        for key, value in answer.items()
        if key != "all"
    }
    print(f"{name:<28}", "  ".join(f"{key} {value}" for key, value in shown.items()), flush=True)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all if none")
    parser.add_argument("--huge", action="store_true", help="also 10⁸ ones")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(globals()[asked.one[0]](*json.loads(asked.one[1]))))
        return
    unknown = set(asked.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {min(unknown)}; expected {', '.join(PARTS)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in asked.parts or PARTS:
        results[part] = measure(part, asked.huge)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        record(RESULTS, ("model", "engine", "fit", "data"), [part])


def measure(part: str, huge: bool) -> Any:
    if part == "scaling":
        powers = (5, 6, 7, 8) if huge else (5, 6, 7)
        found = [show(f"10^{p} ones", in_a_process("scaling", 10**p)) for p in powers]
        done = [one for one in found if "failed" not in one]
        each = [1e9 * one["cpu_seconds"] / one["n_ones"] / one["K"] for one in done]
        print("nanoseconds of a core for each one and factor:", [round(t, 2) for t in each])
        return found
    if part == "equal":
        found = [show(f"seed {s}", in_a_process("equal", s)) for s in range(10)]
        same = sum(one.get("different") == 0 for one in found)
        print(f'the same answer as with zeros="exact": {same} of 10')
        return found
    if part == "roles":
        sizes = [(1000, 500, 20, 3, 20), (3000, 1500, 60, 4, 25), (3000, 1000, 100, 5, 15)]
        return [
            show(f"{size[:3]}, seed {s}", in_a_process("roles", *size, s))
            for size in sizes
            for s in range(3)
        ]
    if part == "peers":
        return {
            name: show(name, in_a_process("peer", name))
            for name in ("boolweave", "GreConD", "Asso")
        }
    if part == "sizes":
        shapes = [(300, 200), (1000, 500), (2000, 1000)]
        return [
            show(f"{shape}, {density:.0%} ones", in_a_process("size", *shape, density))
            for shape in shapes
            for density in (0.02, 0.1, 0.25)
        ]
    if part == "tables":
        if "BOOLWEAVE_DATA" not in os.environ:
            print("tables are left out: BOOLWEAVE_DATA is not set")
            return []
        ranks = {"hc": 8, "zoo": 6, "paleo": 8, "domino": 10, "soybean": 8, "flare": 8, "emea": 10,
                 "fire2": 10, "fire1": 10}  # fmt: skip
        return [show(name, in_a_process("real_table", name, K)) for name, K in ranks.items()]
    ours = show(part, in_a_process(part))
    if part == "many":
        return ours
    return {**ours, "ALS": show(f"ALS, {part}", in_a_process("als", part))}


if __name__ == "__main__":
    main()
