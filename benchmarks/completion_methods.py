"""The methods of `completion.py` and their settings.

If a method does not choose its rank or its strength of regularization itself, they are chosen by
the log-loss of held-out tenths of the given entries: of one tenth, or of as many as are needed for
500 entries, at most five. The method is then fitted to all entries. If it returns scores instead of
probabilities, log-odds are a linear function of the score (Platt scaling), fitted to the same
held-out entries.

Other packages run in an environment of their own, without boolweave. Therefore only NumPy is
imported at the top.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

# Number of held-out entries that are enough for the choice of parameters and for calibration.
ENOUGH_HELD_OUT, MOST_FOLDS = 500, 5


class Entries(NamedTuple):
    """Rows, columns and bits, each (n,), of a matrix of shape (M, N)."""

    shape: tuple[int, int]
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def take(self, which: np.ndarray) -> Entries:
        return Entries(self.shape, self.rows[which], self.columns[which], self.values[which])


class Task(NamedTuple):
    """The input of a method."""

    entries: Entries
    seed: int
    threads: int


# Scores or probabilities at rows and columns.
Predict: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Fitted(NamedTuple):
    """Probabilities, a description of the chosen parameters, and the method's own decisions."""

    probability: Predict
    how: str
    decision: Predict | None = None


Method: TypeAlias = Callable[[Task], Fitted]


# ---------------------------------------------------------------- choosing and calibrating


def sigmoid(v: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * v))


def mean_log_loss(log_odds: np.ndarray, values: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0, log_odds) - values * log_odds))


def platt(score: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of the log-odds as a function of the score; the slope is regularized."""
    from scipy.optimize import minimize

    scale = float(score.std()) or 1.0

    def loss(ab: np.ndarray) -> float:
        odds = ab[0] * score / scale + ab[1]
        return len(score) * mean_log_loss(odds, values) + 0.05 * float(ab @ ab)

    bounds = [(0, None), (None, None)]
    a, b = minimize(loss, np.array([1.0, 0.0]), method="L-BFGS-B", bounds=bounds).x
    return float(a / scale), float(b)


def folds(entries: Entries, seed: int) -> list[tuple[Entries, Entries]]:
    """Training and held-out entries, a tenth each, with as many folds as are needed."""
    n = len(entries.values)
    n_folds = int(np.clip(np.ceil(ENOUGH_HELD_OUT / (0.1 * n)), 1, MOST_FOLDS))
    part = np.random.default_rng(seed).permutation(n) % 10
    return [(entries.take(part != k), entries.take(part == k)) for k in range(n_folds)]


def grid(**settings: tuple) -> list[dict]:
    """All combinations of settings."""
    every = itertools.product(*settings.values())
    return [dict(zip(settings, those, strict=True)) for those in every]


def tuned(
    task: Task, candidates: list[dict], fit: Callable[..., Predict], *, scores: bool
) -> Fitted:
    """Choose the best settings by held-out log-loss, and fit them to all entries.

    `fit(entries, seed, threads, **candidate)` predicts probabilities, or scores if `scores`.
    """
    parts = folds(task.entries, task.seed)
    values = np.concatenate([held_out.values for _, held_out in parts])
    best: tuple[float, dict, tuple[float, float]] = (np.inf, {}, (1.0, 0.0))
    for candidate in candidates:
        given = [
            fit(kept, task.seed, task.threads, **candidate)(held_out.rows, held_out.columns)
            for kept, held_out in parts
        ]
        score = np.concatenate(given)
        line = (1.0, 0.0)
        if scores:
            line = platt(score, values)
        else:
            p = np.clip(score, 1e-12, 1 - 1e-12)
            score = np.log(p) - np.log1p(-p)
        loss = mean_log_loss(line[0] * score + line[1], values)
        if loss < best[0]:
            best = (loss, candidate, line)
    _, candidate, (slope, shift) = best
    predict = fit(task.entries, task.seed, task.threads, **candidate)
    chosen = ", ".join(f"{name} {value:g}" for name, value in candidate.items())
    if not scores:
        return Fitted(predict, chosen)
    return Fitted(lambda rows, columns: sigmoid(slope * predict(rows, columns) + shift), chosen)


# ---------------------------------------------------------------- of boolweave


def observations(entries: Entries) -> Any:
    from boolweave.data.observations import Observations

    return Observations.from_triples(
        entries.rows, entries.columns, entries.values, shape=entries.shape
    )


def ours(task: Task) -> Fitted:
    """`BooleanCompletion()` with its default parameters."""
    import boolweave

    model = boolweave.BooleanCompletion(
        absent="missing", n_jobs=task.threads, random_state=task.seed
    )
    model.fit(observations(task.entries))
    return Fitted(model.predict_proba, "", model.predict)


def factorization(task: Task) -> Fitted:
    """`BooleanMatrixFactorization()` with its default parameters."""
    from boolweave import BooleanMatrixFactorization

    model = BooleanMatrixFactorization(
        absent="missing", n_jobs=task.threads, random_state=task.seed
    ).fit(observations(task.entries))
    how = f"rank {model.components_.shape[0]}"
    return Fitted(model.predict_proba, how, model.predict)


def bias(task: Task) -> Fitted:
    """Row and column logits; chooses its regularization itself."""
    from boolweave.baselines import BiasModel

    model = BiasModel(absent="missing", random_state=task.seed).fit(observations(task.entries))
    return Fitted(model.predict_proba, f"regularization {model.regularization_:g}")


def glrm(task: Task) -> Fitted:
    """Logistic low-rank model with offsets; chooses rank and regularization itself."""
    from boolweave.baselines import GLRM

    model = GLRM(absent="missing", random_state=task.seed).fit(observations(task.entries))
    how = f"rank {model.n_components_}, regularization {model.regularization_:g}"
    return Fitted(model.predict_proba, how)


def one_bit(task: Task) -> Fitted:
    """Logistic likelihood under a bound on the nuclear norm; chooses the bound itself."""
    from boolweave.baselines import OneBitCompletion

    model = OneBitCompletion(absent="missing", random_state=task.seed)
    model.fit(observations(task.entries))
    how = f"beta {model.beta_:g}, rank {model.n_components_}"
    return Fitted(model.predict_proba, how)


# ---------------------------------------------------------------- soft-impute

# The threshold is lowered by this factor until two successive steps do not lower the held-out
# log-loss, or until there are more singular values than this.
THRESHOLD_STEP, MOST_THRESHOLDS, MOST_RANK = 0.75, 20, 30
SPARE = 5
MOST_ITERATIONS, SMALL_CHANGE = 40, 1e-3
SHRINKAGES = (0.3, 1.0, 3.0, 10.0)
BACKFITS = 10


class LowRank(NamedTuple):
    """U diag(d) Vᵀ with U (M, r), d (r,) and V (N, r)."""

    U: np.ndarray
    d: np.ndarray
    V: np.ndarray

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->i", self.U[rows] * self.d, self.V[columns])


def nothing(entries: Entries) -> LowRank:
    """A matrix of zeros."""
    return LowRank(np.zeros((entries.shape[0], 0)), np.zeros(0), np.zeros((entries.shape[1], 0)))


def offsets(entries: Entries, shrinkage: float) -> Predict:
    """Mean, row and column offsets of −1 and 1, by ridge regression with backfitting."""
    signs = 2.0 * entries.values - 1
    mean = signs.mean()
    n_by_row = np.bincount(entries.rows, minlength=entries.shape[0]) + shrinkage
    n_by_column = np.bincount(entries.columns, minlength=entries.shape[1]) + shrinkage
    of_row, of_column = (np.zeros(size) for size in entries.shape)
    for _ in range(BACKFITS):
        left = signs - mean - of_column[entries.columns]
        of_row = np.bincount(entries.rows, left, entries.shape[0]) / n_by_row
        left = signs - mean - of_row[entries.rows]
        of_column = np.bincount(entries.columns, left, entries.shape[1]) / n_by_column
    return lambda rows, columns: mean + of_row[rows] + of_column[columns]


def thresholded(entries: Entries, left: np.ndarray, threshold: float, start: LowRank) -> LowRank:
    """Minimize ½ Σ (left − Z)² over the entries + threshold · nuclear norm of Z, from a start.

    Each iteration replaces unknown entries by Z and lowers all singular values by the threshold.
    The leading singular values of this sparse plus low-rank matrix are computed by a few steps of
    subspace iteration, which begin with the result of the last iteration.
    """
    from scipy.sparse import csr_array

    Z = start
    basis = np.random.default_rng(0).standard_normal((entries.shape[1], SPARE))
    fitted = Z.at(entries.rows, entries.columns)
    for _ in range(MOST_ITERATIONS):
        gap = csr_array((left - fitted, (entries.rows, entries.columns)), shape=entries.shape)
        turned = gap.T.tocsr()
        V = np.linalg.qr(np.hstack([Z.V, basis]))[0]
        for _ in range(2):
            U = np.linalg.qr(gap @ V + Z.U @ (Z.d[:, None] * (Z.V.T @ V)))[0]
            V, right = np.linalg.qr(turned @ U + Z.V @ (Z.d[:, None] * (Z.U.T @ U)))
        small_left, d, small_right = np.linalg.svd(right.T)
        over = d > threshold
        basis = V @ small_right[~over].T
        basis = np.hstack([basis, np.random.default_rng(1).standard_normal(basis.shape)])[:, :SPARE]
        Z = LowRank((U @ small_left)[:, over], d[over] - threshold, V @ small_right[over].T)
        before, fitted = fitted, Z.at(entries.rows, entries.columns)
        change = np.linalg.norm(fitted - before)
        if change <= SMALL_CHANGE * np.linalg.norm(fitted) or len(Z.d) > MOST_RANK:
            break
    return Z


def path(entries: Entries, left: np.ndarray, first: float) -> Iterator[LowRank]:
    """Solutions for decreasing thresholds, each starting from the previous one."""
    Z = nothing(entries)
    for step in range(MOST_THRESHOLDS):
        Z = thresholded(entries, left, first * THRESHOLD_STEP**step, Z)
        yield Z
        if len(Z.d) > MOST_RANK:
            return


def soft_impute(task: Task) -> Fitted:
    """Soft-Impute: nuclear norm, least squares of −1 and 1 minus offsets (Mazumder et al. 2010).

    First the shrinkage of the offsets and then the threshold are chosen on held-out entries.
    Returns scores.
    """
    parts = folds(task.entries, task.seed)
    values = np.concatenate([held_out.values for _, held_out in parts])

    def judge(scores: list[np.ndarray]) -> tuple[float, tuple[float, float]]:
        score = np.concatenate(scores)
        slope, shift = platt(score, values)
        return mean_log_loss(slope * score + shift, values), (slope, shift)

    def at_held_out(shrinkage: float) -> list[np.ndarray]:
        return [offsets(kept, shrinkage)(out.rows, out.columns) for kept, out in parts]

    shrinkage = min(SHRINKAGES, key=lambda s: judge(at_held_out(s))[0])
    offset = offsets(task.entries, shrinkage)
    base = at_held_out(shrinkage)

    def residual(entries: Entries, offset: Predict) -> np.ndarray:
        return 2.0 * entries.values - 1 - offset(entries.rows, entries.columns)

    left = residual(task.entries, offset)
    first = 0.9 * largest_singular_value(task.entries, left)
    paths = [path(kept, residual(kept, offsets(kept, shrinkage)), first) for kept, _ in parts]
    best = (*judge(base), 0)
    for n, those in enumerate(zip(*paths, strict=False), 1):
        scores = [
            b + Z.at(out.rows, out.columns)
            for b, Z, (_, out) in zip(base, those, parts, strict=True)
        ]
        best = min(best, (*judge(scores), n))
        if n - best[2] >= 2:
            break
    _, (slope, shift), n_steps = best
    solutions = itertools.islice(path(task.entries, left, first), n_steps)
    Z = deque(solutions, maxlen=1).pop() if n_steps else nothing(task.entries)

    def predict(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return sigmoid(slope * (offset(rows, columns) + Z.at(rows, columns)) + shift)

    return Fitted(predict, f"shrinkage {shrinkage:g}, rank {len(Z.d)}")


def largest_singular_value(entries: Entries, left: np.ndarray) -> float:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    table = csr_array((left, (entries.rows, entries.columns)), shape=entries.shape)
    return float(svds(table, 1, random_state=0, return_singular_vectors=False)[0])


# ---------------------------------------------------------------- of other people


def one_hot(shape_of_table: tuple[int, int], rows: np.ndarray, columns: np.ndarray) -> Any:
    """A one for the row and a one for the column of each entry, (n, M + N)."""
    from scipy.sparse import csr_matrix

    n = len(rows)
    where = np.column_stack([rows, shape_of_table[0] + columns]).ravel()
    shape = (n, sum(shape_of_table))
    return csr_matrix((np.ones(2 * n), where, np.arange(0, 2 * n + 1, 2)), shape=shape)


MYFM_ITERATIONS, MYFM_TRIAL_ITERATIONS = 500, 200


def my_fm(task: Task) -> Fitted:
    """Bayesian factorization machine with a probit link, by Gibbs sampling; the rank is chosen.

    The priors of rows and columns are learned separately. The first half of the samples is
    discarded, because a quarter is not enough with sparse ratings.
    """
    import myfm

    def fit(entries: Entries, seed: int, threads: int, rank: int) -> Predict:
        shape = entries.shape
        n_iter = MYFM_ITERATIONS if entries is task.entries else MYFM_TRIAL_ITERATIONS
        model = myfm.MyFMGibbsClassifier(rank=rank, random_seed=seed)
        model.fit(
            one_hot(shape, entries.rows, entries.columns), entries.values.astype(bool),
            n_iter=n_iter, n_kept_samples=n_iter // 2,
            group_shapes=list(shape),
        )  # fmt: skip

        def predict(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return model.predict_proba(one_hot(shape, rows, columns), n_workers=threads)

        return predict

    return tuned(task, grid(rank=(2, 8)), fit, scores=False)


def of_factors(
    entries: Entries, mean: float, of_row: np.ndarray, of_column: np.ndarray, U: np.ndarray,
    V: np.ndarray,
) -> Predict:  # fmt: skip
    """Scores from offsets (M,) and (N,) and factors (M, K) and (N, K).

    Rows and columns without an entry get neither, because some packages keep initial values there.
    """
    row_seen, column_seen = (
        np.bincount(where, minlength=size) > 0
        for where, size in zip((entries.rows, entries.columns), entries.shape, strict=True)
    )
    a, b = of_row * row_seen, of_column * column_seen
    U, V = U * row_seen[:, None], V * column_seen[:, None]
    return lambda rows, columns: (
        mean + a[rows] + b[columns] + np.einsum("ij,ij->i", U[rows], V[columns])
    )


def cmfrec(task: Task) -> Fitted:
    """Least squares on −1 and 1 with offsets, by alternating least squares; scores."""
    from cmfrec import CMF
    from scipy.sparse import coo_matrix

    def fit(entries: Entries, seed: int, threads: int, rank: int, strength: float) -> Predict:
        signs = 2.0 * entries.values - 1
        table = coo_matrix((signs, (entries.rows, entries.columns)), shape=entries.shape)
        model = CMF(
            k=rank, lambda_=strength, use_float=False, nthreads=threads, random_state=seed + 1,
        ).fit(table)  # fmt: skip
        offsets = model.glob_mean_, model.user_bias_, model.item_bias_
        return of_factors(entries, *offsets, model.A_, model.B_)

    return tuned(task, grid(rank=(1, 2, 8), strength=(1, 3, 10, 30)), fit, scores=True)


def implicit_lmf(task: Task) -> Fitted:
    """Logistic factors of implicit feedback: it gets only the ones and samples zeros; scores.

    It does not distinguish observed zeros from entries that were not observed.
    """
    from implicit.lmf import LogisticMatrixFactorization
    from scipy.sparse import csr_matrix

    def fit(entries: Entries, seed: int, threads: int, rank: int, strength: float) -> Predict:
        ones = entries.take(entries.values > 0)
        table = csr_matrix(
            (np.ones(len(ones.rows), np.float32), (ones.rows, ones.columns)), shape=entries.shape
        )
        model = LogisticMatrixFactorization(
            factors=rank, regularization=strength, num_threads=threads, random_state=seed
        )
        model.fit(table, show_progress=False)
        U, V = model.user_factors, model.item_factors
        return lambda rows, columns: np.einsum("ij,ij->i", U[rows], V[columns]).astype(float)

    return tuned(task, grid(rank=(2, 8, 30), strength=(0.6, 3.0)), fit, scores=True)


def surprise_svd(task: Task) -> Fitted:
    """Least squares on 0 and 1 with offsets, by gradient descent; predictions clipped; scores."""
    from surprise import SVD, Trainset

    def fit(
        entries: Entries, seed: int, threads: int, rank: int, strength: float, epochs: int
    ) -> Predict:
        (M, N), n = entries.shape, len(entries.values)
        by_row: dict[int, list] = {m: [] for m in range(M)}
        by_column: dict[int, list] = {n: [] for n in range(N)}
        for m, k, v in zip(*(part.tolist() for part in entries[1:]), strict=True):
            by_row[m].append((k, float(v)))
            by_column[k].append((m, float(v)))
        given = Trainset(by_row, by_column, M, N, n, (0, 1), {}, {})
        model = SVD(
            n_factors=rank, n_epochs=epochs, reg_all=strength, lr_all=0.01, random_state=seed
        ).fit(given)
        score = of_factors(entries, given.global_mean, model.bu, model.bi, model.pu, model.qi)
        return lambda rows, columns: np.clip(score(rows, columns), 0, 1)

    settings = grid(rank=(2, 8, 30), strength=(0.02, 0.1), epochs=(20, 100))
    return tuned(task, settings, fit, scores=True)


def light_fm(task: Task) -> Fitted:
    """Logistic factors with offsets on −1 and 1, by gradient descent; scores."""
    from lightfm import LightFM
    from scipy.sparse import coo_matrix

    def fit(
        entries: Entries, seed: int, threads: int, rank: int, strength: float, epochs: int
    ) -> Predict:
        signs = (2 * entries.values.astype(np.int32) - 1).astype(np.int32)
        table = coo_matrix((signs, (entries.rows, entries.columns)), shape=entries.shape)
        model = LightFM(
            no_components=rank, loss="logistic", user_alpha=strength, item_alpha=strength,
            random_state=seed,
        )  # fmt: skip
        model.fit(table, epochs=epochs, num_threads=threads)
        row, column = model.get_user_representations(), model.get_item_representations()
        return of_factors(entries, 0.0, row[0], column[0], row[1], column[1])

    settings = grid(rank=(1, 16), strength=(0, 1e-4, 1e-3), epochs=(10, 30, 100))
    return tuned(task, settings, fit, scores=True)


METHODS: dict[str, Method] = {
    "BooleanCompletion": ours,
    "BooleanMatrixFactorization": factorization,
    "bias": bias,
    "GLRM logistic": glrm,
    "1-bit": one_bit,
    "soft-impute": soft_impute,
    "cmfrec": cmfrec,
    "myfm": my_fm,
    "implicit LMF": implicit_lmf,
    "surprise SVD": surprise_svd,
    "LightFM": light_fm,
}

# The packages from PyPI that a method needs.
PACKAGES = {
    "cmfrec": "cmfrec==3.5.1.post14",
    "myfm": "myfm==0.4.0",
    "implicit LMF": "implicit==0.7.3",
    "surprise SVD": "scikit-surprise==1.1.5",
    "LightFM": "lightfm-next==1.19.0",
}
