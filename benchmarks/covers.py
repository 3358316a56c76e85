"""The number of factors that cover access-control tables, a proven lower bound, and the time.

The tables of Ene et al. (2008) are read from the folder `role-mining` in $BOOLWEAVE_DATA, if that
is set: a user and a permission in each line, numbered from 1. The other tables are planted: roles
of very different sizes, some of which contain others, are given to thousands of users. In some
tables, single grants are missing, so that the planted roles are not a cover. The organisations
have the shapes and the numbers of grants of large published tables, departments whose roles contain
parts of others, and users with single additional and missing grants; the last two of each shape are
far harder than the first. The companies also have those shapes and numbers of grants, and as many
planted roles as the published tables are known to need; their planted roles are a cover. Dense
tables are products of random factors. "kernel" is the number of ones that the reductions leave,
"time" the processor time, and the last column the most memory that the process has used so far.

Tables with missing and additional grants are also searched with false ones allowed; their lines
show how many of the planted roles are found (Jaccard similarity of the permissions of at least
0.95).

The part "assignments" measures the tables of Ene et al. with both objectives, 60 seconds each:
roles, their complexity (roles, users of roles and permissions of roles), its lower bound, and the
lowest complexity that was published for flat roles. All numbers go to results/covers.json;
`scripts/covers_table.py` puts them into the documentation.

    python benchmarks/covers.py
    python benchmarks/covers.py --only domino large-nested-1 organisation-1
    python benchmarks/covers.py --only assignments
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from boolweave import cover
from boolweave.covering.exact import reduced
from boolweave.covering.matrix import Matrix, Merged
from processes import RESULTS, record

ROLE_MINING = ("hc", "domino", "fire2", "emea", "apj", "fire1")
# The lowest complexity that was published for each of them.
PUBLISHED = {"hc": 268, "domino": 754, "fire2": 1120, "emea": 7280, "apj": 4867, "fire1": 2019}
SECONDS = 60.0
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


def sparse_product(X: Bits, Y: Bits) -> sparse.csr_array:
    """The same for factors with few ones, far faster."""
    Z = sparse.csr_array(X.astype(np.int64)) @ sparse.csr_array(Y.astype(np.int64))
    return sparse.csr_array((Z > 0).astype(np.uint8))


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


# What differs between companies: the share of roles that contain another one, that are unions of
# groups of permissions, and that one or two users have; the share of users who are equal to others;
# the maximum number of roles of a user, and the share of them from other departments.
@dataclass(frozen=True)
class Mix:
    nested: float
    grouped: bool
    personal: float
    alike: float
    most_roles: int
    across: float


MIXES = {
    "departments": Mix(0.5, False, 0.1, 0.6, 6, 0.1),
    "nested": Mix(0.85, False, 0.15, 0.7, 5, 0.1),
    "personal": Mix(0.4, False, 0.5, 0.5, 4, 0.1),
    "projects": Mix(0.4, False, 0.05, 0.2, 8, 0.4),
    "groups": Mix(0.3, True, 0.1, 0.5, 6, 0.15),
}


def company(shape: tuple[int, int], K: int, n_grants: int, mix: Mix, seed: int) -> sparse.csr_array:
    """Users with K planted roles, of such sizes that there are about this many grants."""
    low, high = 0.02, 60.0
    best = sparse.csr_array(shape, dtype=np.uint8)
    for _ in range(12):
        size = (low * high) ** 0.5
        random = np.random.default_rng(seed)
        of_role, is_personal, Y = company_roles(random, shape[1], K, mix, size)
        X = company_users(random, shape[0], of_role, is_personal, mix)
        now = sparse_product(X, Y)
        if abs(now.nnz - n_grants) < abs(best.nnz - n_grants):
            best = now
        low, high = (size, high) if now.nnz < n_grants else (low, size)
    return best


def company_roles(
    random: np.random.Generator, N: int, K: int, mix: Mix, size: float
) -> tuple[NDArray[np.int64], Bits, Bits]:
    """The department of each role, −1 for all of them; whether it is personal; its permissions.

    A department has permissions of its own, and an eighth of all are shared. The sizes of roles
    are lognormal.
    """
    D, shared = max(3, K // 10), N // 8
    ends = np.sort(random.choice(np.arange(shared + 1, N), D - 1, replace=False))
    spans = [range(shared), *map(range, [shared, *ends], [*ends, N])]
    groups = [np.split(np.array(s), np.flatnonzero(random.random(len(s)) < 0.25)) for s in spans]
    chance = 1 / np.arange(1, D + 1) ** 0.8
    of_role = random.choice(D, K, p=chance / chance.sum())
    of_role[: max(2, K // 20)] = -1
    is_personal = random.random(K) < mix.personal
    Y = np.zeros((K, N), dtype=bool)
    for k in range(K):
        n, own = max(1, int(size * np.exp(random.normal(1.5, 1.2)))), spans[of_role[k] + 1]
        if mix.grouped and not is_personal[k]:
            parts = groups[of_role[k] + 1]
            for g in random.permutation(len(parts)):
                if Y[k].sum() < n:
                    Y[k, parts[g]] = True
        else:
            Y[k, random.choice(own, min(n, max(1, len(own) * 2 // 3)), replace=False)] = True
        if of_role[k] >= 0 and random.random() < 0.3:
            Y[k, random.choice(shared, min(shared, max(1, n // 3)), replace=False)] = True
        before = np.flatnonzero(of_role[:k] == of_role[k])
        if len(before) and random.random() < mix.nested:
            Y[k] |= Y[random.choice(before)]
    return of_role, is_personal, Y


def company_users(
    random: np.random.Generator, M: int, of_role: NDArray[np.int64], is_personal: Bits, mix: Mix
) -> Bits:
    """The roles of each user (M, K), mostly of one department; some users are equal to others."""
    K, D = len(of_role), of_role.max() + 1
    chance = 1 / np.arange(1, D + 1) ** 0.8
    of_user = random.choice(D, M, p=chance / chance.sum())
    popular = 1 / random.permutation(np.arange(1, K + 1)) ** 0.7
    usual = np.flatnonzero(~is_personal)
    common = np.flatnonzero((of_role < 0) & ~is_personal)
    X = np.zeros((M, K), dtype=bool)
    for u in range(M):
        before = np.flatnonzero(of_user[:u] == of_user[u])
        if len(before) and random.random() < mix.alike:
            X[u] = X[random.choice(before)]
            continue
        X[u, common[:1]] = random.random() < 0.7
        for _ in range(min(random.geometric(1 / (1 + mix.most_roles / 3)), mix.most_roles)):
            own = np.flatnonzero((of_role == of_user[u]) & ~is_personal)
            where = random.random()
            if where < mix.across or not len(own):
                own = usual
            elif where < mix.across + 0.15 and len(common):
                own = common
            X[u, random.choice(own, p=popular[own] / popular[own].sum())] = True
    for k in np.flatnonzero(is_personal | ~X.any(axis=0)):
        X[random.choice(M, random.integers(1, 3), replace=False), k] = True
    return X


def of_file(path: Path) -> sparse.csr_array:
    """A table of pairs of user and permission."""
    at = np.loadtxt(path, dtype=np.int64) - 1
    return sparse.csr_array((np.ones(len(at), dtype=np.uint8), tuple(at.T)))


def with_missing(
    shape: tuple[int, int], K: int, seed: int, derived: float, most_roles: int, missing: float
) -> sparse.csr_array:
    """Planted roles without this share of the grants."""
    Z = product(*planted(shape, K, seed, derived, most_roles))
    Z &= np.random.default_rng(seed).random(Z.shape) >= missing
    return sparse.csr_array(Z.astype(np.uint8))


def dense(M: int, K: int, share: float) -> sparse.csr_array:
    """A random product, which no reduction makes smaller."""
    random = np.random.default_rng(0)
    X, Y = random.random((M, K)) < share, random.random((K, M)) < share
    return sparse.csr_array(product(X, Y).astype(np.uint8))


def tables() -> Iterator[tuple[str, Callable[[], sparse.csr_array], int]]:
    """Names, functions that make the tables, and planted roles; 0 if these are not a cover."""
    folder = os.environ.get("BOOLWEAVE_DATA")
    for name in ROLE_MINING if folder else ():
        yield name, partial(of_file, Path(str(folder)) / "role-mining" / f"{name}.txt"), 0
    large, small, tall = (3485, 10127), (3477, 1587), (10021, 277)
    kinds = {
        "large": (large, 400, 0, 0.5, 10, 0.0),
        "small": (small, 178, 1, 0.5, 8, 0.0),
        "many-roles": ((2000, 600), 150, 2, 0.7, 14, 0.0),
        "large-missing": (large, 350, 3, 0.3, 6, 0.0005),
        "small-missing": (small, 150, 4, 0.5, 5, 0.002),
    }
    for name, how in kinds.items():
        yield name, partial(with_missing, *how), 0 if how[-1] else how[1]
    organisations = [
        (large, 250, 1, 185294, 0.02, 0.02),
        (large, 250, 1, 185294, 0.03, 0.06),
        (large, 400, 1, 185294, 0.1, 0.1),
        (small, 130, 1, 105205, 0.0, 0.06),
        (small, 170, 1, 105205, 0.1, 0.1),
        (small, 170, 1, 105205, 0.3, 0.3),
        (tall, 200, 1, 45427, 0.1, 0.1),
    ]
    for i, how in enumerate(organisations):
        yield f"organisation-{i + 1}", partial(organisation, *how), 0
    sizes = {
        "large": (large, 398, 185294),
        "small": (small, 178, 105205),
        "tall": (tall, 276, 45427),
    }
    for size, (shape, K, n_grants) in sizes.items():
        for name, mix in MIXES.items():
            for seed in range(2):
                table = partial(company, shape, K, n_grants, mix, seed)
                yield f"{size}-{name}-{seed + 1}", table, K
    for M, K, share in ((100, 50, 0.12), (200, 60, 0.1), (300, 100, 0.08)):
        yield f"dense-{M}", partial(dense, M, K, share), K


def kernel_size(table: sparse.csr_array) -> int:
    """The number of ones that the reductions leave."""
    merged = Merged.of(Matrix.of_data(table), np.zeros((0, table.shape[1]), dtype=np.uint8))
    ones, never = merged.list_ones(merged.ones), np.zeros(1, dtype=bool)
    return len(reduced(merged, merged.ones, ones, never)[1])


def found_again(Y: NDArray[np.uint8], true: Bits) -> int:
    """Count the planted roles that were found with a similarity of at least 0.95."""
    same = Y.astype(np.int64) @ true.T
    union = Y.sum(axis=1, dtype=np.int64)[:, None] + true.sum(axis=1) - same
    return int(((same / union).max(axis=0) >= 0.95).sum())


def noisy() -> Iterator[dict]:
    """Search for planted roles with 5% of the grants missing and 2% additional grants."""
    for seed, (shape, K) in enumerate([((500, 200), 10), ((1000, 400), 20), ((3000, 1000), 40)]):
        random = np.random.default_rng(seed)
        X, Y = random.random((shape[0], K)) < 3 / K, random.random((K, shape[1])) < 2 / K
        Z = product(X, Y)
        seen = Z & (random.random(shape) >= 0.05)
        extra = random.choice(np.flatnonzero(~Z), int(0.02 * Z.sum()), replace=False)
        seen.reshape(-1)[extra] = True
        line = f"noisy-{shape[0]}x{shape[1]:<8} planted {K:>3}"
        result: dict = {"shape": shape, "planted": K}
        for what, how in (("exact", (1.0, 0)), ("noisy", (0.97, 0.07))):
            began = time.process_time()
            found = cover(sparse.csr_array(seen.astype(np.uint8)), *how, random_state=0)
            seconds = time.process_time() - began
            again = found_again(found.Y, Y)
            line += f"  {what}: {found.cost:.0f} roles, {again} found again, {seconds:.1f} s"
            result[what] = {"roles": found.cost, "found": again, "cpu_seconds": seconds}
        print(line, flush=True)
        yield result


def assignments() -> Iterator[dict]:
    """Cover the published tables with both objectives; every cover is checked to be exact."""
    for name, make, _ in tables():
        if name not in PUBLISHED:
            continue
        table, line = make(), f"{name:<10} published {PUBLISHED[name]:>5}"
        result: dict = {"name": name, "published": PUBLISHED[name]}
        for objective in ("roles", "assignments"):
            began = time.process_time()
            found = cover(table, objective=objective, max_time=SECONDS, random_state=0)
            seconds = time.process_time() - began
            difference = sparse_product(found.X > 0, found.Y > 0).astype(np.int64) - table
            assert not np.any(difference.data)
            result[objective] = {
                "roles": found.n_factors, "complexity": found.complexity, "bound": found.bound,
                "cpu_seconds": seconds,
            }  # fmt: skip
            line += f"  {objective}: {found.n_factors} roles, complexity {found.complexity}"
            line += f", bound {found.bound:.0f}, {seconds:.1f} s"
        print(line, flush=True)
        yield result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="names of tables; noisy; assignments")
    parser.add_argument("--output", type=Path, default=RESULTS / "covers.json")
    given = parser.parse_args()
    only, file = given.only, given.output
    cover(np.random.default_rng(0).random((18, 18)) < 0.7)  # needs, and so compiles, all kernels
    print(
        "table                users × permissions   grants  kernel  roles  bound  planted     time"
        "    memory"
    )
    results = json.loads(file.read_text()) if file.exists() else {"tables": {}, "noisy": []}
    for name, make, n_planted in tables():
        if only and name not in only:
            continue
        table = make()
        began = time.process_time()
        found = cover(table, random_state=0)
        seconds = time.process_time() - began
        assert found.coverage == 1 and not len(found.false_ones)
        M, N = table.shape
        kernel = kernel_size(table)
        results["tables"][name] = {
            "shape": [M, N], "grants": table.nnz, "kernel": kernel, "roles": found.cost,
            "bound": found.bound, "planted": n_planted, "cpu_seconds": seconds,
        }  # fmt: skip
        print(
            f"{name:<20} {M:>7} × {N:<11} {table.nnz:>8} {kernel:>7} "
            f"{found.cost:>6.0f} {found.bound:>6.0f} {n_planted or '':>8} {seconds:>6.1f} s "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:>6.0f} MB",
            flush=True,
        )
        file.write_text(json.dumps(results, indent=1) + "\n")
    if not only or "noisy" in only:
        results["noisy"] = list(noisy())
    if not only or "assignments" in only:
        results["assignments"] = list(assignments())
    file.write_text(json.dumps(results, indent=1) + "\n")
    record(file, ("covering", "search"), only or ())


if __name__ == "__main__":
    main()
