"""The number of factors that cover access-control tables, a proven lower bound, and the time.

The tables of Ene et al. (2008) are read from the folder `role-mining` in $BOOLWEAVE_DATA, if that
is set: a user and a permission in each line, numbered from 1. The other tables are planted: roles
of very different sizes, some of which contain others, are given to thousands of users. In some
tables, single grants are missing, so that the planted roles are not a cover. The organisations
have the shapes and the numbers of grants of large published tables, departments whose roles contain
parts of others, and users with single additional and missing grants; the last two of each shape are
far harder than the first. "kernel" is the number of ones that the reductions leave.

Tables with missing and additional grants are also searched with false ones allowed; their lines
show how many of the planted roles are found (Jaccard similarity of the permissions of at least
0.95).

    python benchmarks/covers.py
    python benchmarks/covers.py --only domino large organisation-1
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boolweave import cover
from boolweave.covering.exact import reduced
from boolweave.covering.matrix import Matrix, Merged

ROLE_MINING = ("hc", "domino", "fire2", "emea", "apj", "fire1")
Bits = NDArray[np.bool_]


def planted(
    shape: tuple[int, int], K: int, seed: int, derived: float, most_roles: int
) -> tuple[Bits, Bits]:
    """Users and roles (M, K), roles and permissions (K, N)."""
    random = np.random.default_rng(seed)
    M, N = shape
    popular = random.permutation(1 / np.arange(1, N + 1) ** 0.6)
    size = np.clip(np.exp(random.normal(2.2, 1.3, K)).astype(int) + 1, 1, N // 8)
    Y = np.zeros((K, N), dtype=bool)
    for k in range(K):
        if k > 5 and random.random() < derived:
            Y[k] = Y[random.integers(k)] & (random.random(N) < random.uniform(0.3, 0.9))
        Y[k, random.choice(N, size[k], replace=False, p=popular / popular.sum())] = True
    usual = random.permutation(1 / np.arange(1, K + 1) ** 0.8)
    X = np.zeros((M, K), dtype=bool)
    for m in range(M):
        n = random.integers(1, most_roles + 1)
        X[m, random.choice(K, n, replace=False, p=usual / usual.sum())] = True
    return X, Y


def product(X: Bits, Y: Bits) -> Bits:
    return (X.astype(np.float32) @ Y.astype(np.float32)) > 0


def organisation(
    shape: tuple[int, int], K: int, seed: int, n_grants: int, extra: float, missing: float
) -> sparse.csr_array:
    """Users in departments, with about this many grants.

    A department uses a stretch of the permissions, which overlaps with those of others. A tenth of
    the K roles are for everybody, the others for one department, and more than half of them contain
    three quarters of another role. Users get roles until there are enough grants. These shares of
    the users have one to three additional grants, and lack one to three.
    """
    random = np.random.default_rng(seed)
    M, N = shape
    n_departments = max(4, K // 8)
    of_role = random.integers(n_departments, size=K)
    of_role[: K // 10] = -1
    size = 1 / np.arange(1, n_departments + 1) ** 0.8
    of_user = random.choice(n_departments, M, p=size / size.sum())
    begin, width = random.integers(0, N, n_departments), max(12, 3 * N // n_departments)

    def used_by(department: int) -> NDArray[np.int64]:
        return np.arange(N) if department < 0 else (begin[department] + np.arange(width)) % N

    roles: list[set[int]] = []
    for k in range(K):
        own = used_by(of_role[k])
        n_own = int(np.clip(np.exp(random.normal(1.6, 1.1)), 1, len(own) // 2))
        role = set(random.choice(own, n_own, replace=False).tolist())
        before = np.flatnonzero(of_role[:k] == of_role[k])
        if len(before) and random.random() < 0.6:
            role |= {p for p in sorted(roles[random.choice(before)]) if random.random() < 0.75}
        roles.append(role)
    everybody = np.flatnonzero(of_role < 0)
    rows: list[set[int]] = [set() for _ in range(M)]
    users, n = random.permutation(M), 0
    while n < n_grants:
        for u in users:
            own = np.flatnonzero(of_role == of_user[u])
            role = random.choice(own if len(own) and random.random() < 0.8 else everybody)
            n += len(roles[role] - rows[u])
            rows[u] |= roles[role]
            if n >= n_grants:
                break
    for u in np.flatnonzero(random.random(M) < missing):
        if rows[u]:
            rows[u] -= set(random.choice(sorted(rows[u]), random.integers(1, 4)).tolist())
    for u in np.flatnonzero(random.random(M) < extra):
        rows[u] |= set(random.choice(used_by(of_user[u]), random.integers(1, 4)).tolist())
    at = np.array([(u, p) for u in range(M) for p in sorted(rows[u])])
    return sparse.csr_array((np.ones(len(at), dtype=np.uint8), tuple(at.T)), shape=shape)


def tables() -> Iterator[tuple[str, sparse.csr_array, int]]:
    """Names, tables, and the number of planted roles; 0 if these are not a cover."""
    folder = os.environ.get("BOOLWEAVE_DATA")
    for name in ROLE_MINING if folder else ():
        at = np.loadtxt(Path(str(folder)) / "role-mining" / f"{name}.txt", dtype=np.int64) - 1
        table = sparse.csr_array((np.ones(len(at), dtype=np.uint8), tuple(at.T)))
        yield name, table, 0
    kinds = {
        "large": ((3485, 10127), 400, 0.5, 10, 0.0),
        "small": ((3477, 1587), 178, 0.5, 8, 0.0),
        "many-roles": ((2000, 600), 150, 0.7, 14, 0.0),
        "large-missing": ((3485, 10127), 350, 0.3, 6, 0.0005),
        "small-missing": ((3477, 1587), 150, 0.5, 5, 0.002),
    }
    for seed, (name, (shape, K, derived, most, missing)) in enumerate(kinds.items()):
        Z = product(*planted(shape, K, seed, derived, most))
        Z &= np.random.default_rng(seed).random(Z.shape) >= missing
        yield name, sparse.csr_array(Z.astype(np.uint8)), K if not missing else 0
    large, small, tall = (3485, 10127), (3477, 1587), (10021, 277)
    organisations = [
        (large, 250, 185294, 0.02, 0.02),
        (large, 250, 185294, 0.03, 0.06),
        (large, 400, 185294, 0.1, 0.1),
        (small, 130, 105205, 0.0, 0.06),
        (small, 170, 105205, 0.1, 0.1),
        (small, 170, 105205, 0.3, 0.3),
        (tall, 200, 45427, 0.1, 0.1),
    ]
    for i, (shape, K, n_grants, extra, without) in enumerate(organisations):
        yield f"organisation-{i + 1}", organisation(shape, K, 1, n_grants, extra, without), 0


def kernel_size(table: sparse.csr_array) -> int:
    """The number of ones that the reductions leave."""
    merged = Merged.of(Matrix.of_data(table), np.zeros((0, table.shape[1]), dtype=np.uint8))
    return len(reduced(merged, merged.ones, merged.list_ones(merged.ones))[1])


def found_again(Y: NDArray[np.uint8], true: Bits) -> int:
    """Count the planted roles that were found with a similarity of at least 0.95."""
    same = Y.astype(np.int64) @ true.T
    union = Y.sum(axis=1, dtype=np.int64)[:, None] + true.sum(axis=1) - same
    return int(((same / union).max(axis=0) >= 0.95).sum())


def noisy() -> None:
    """Search for planted roles with 5% of the grants missing and 2% additional grants."""
    for seed, (shape, K) in enumerate([((500, 200), 10), ((1000, 400), 20), ((3000, 1000), 40)]):
        random = np.random.default_rng(seed)
        X, Y = random.random((shape[0], K)) < 3 / K, random.random((K, shape[1])) < 2 / K
        Z = product(X, Y)
        seen = Z & (random.random(shape) >= 0.05)
        extra = random.choice(np.flatnonzero(~Z), int(0.02 * Z.sum()), replace=False)
        seen.reshape(-1)[extra] = True
        line = f"noisy-{shape[0]}x{shape[1]:<8} planted {K:>3}"
        for what, how in (("exact", (1.0, 0)), ("noisy", (0.97, 0.07))):
            began = time.perf_counter()
            found = cover(sparse.csr_array(seen.astype(np.uint8)), *how, random_state=0)
            seconds = time.perf_counter() - began
            again = found_again(found.Y, Y)
            line += f"  {what}: {found.cost:.0f} roles, {again} found again, {seconds:.1f} s"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="names of tables; noisy for those with noise")
    only = parser.parse_args().only
    cover(np.eye(3))  # compile the kernels
    print("table            users × permissions   grants  kernel  roles  bound  planted     time")
    for name, table, n_planted in tables():
        if only and name not in only:
            continue
        began = time.perf_counter()
        found = cover(table, random_state=0)
        seconds = time.perf_counter() - began
        assert found.coverage == 1 and not len(found.false_ones)
        M, N = table.shape
        print(
            f"{name:<16} {M:>7} × {N:<11} {table.nnz:>8} {kernel_size(table):>7} "
            f"{found.cost:>6.0f} {found.bound:>6.0f} {n_planted or '':>8} {seconds:>6.1f} s",
            flush=True,
        )
    if not only or "noisy" in only:
        noisy()


if __name__ == "__main__":
    main()
