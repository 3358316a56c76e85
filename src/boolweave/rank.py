"""How many factors: by description length, or by entries held out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave.checkpoint import Recorder
from boolweave.learning import Settings, UninformativeWarning, fit
from boolweave.result import Result
from boolweave.resuming import search_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from boolweave.observations import Observations

    OnIteration = Callable[[int, float, float], None]

Criterion = Literal["mdl", "heldout"]

# The search goes up from rank 1 and ends when so many ranks in a row brought nothing. On the way
# up a rank gets so many starts and iterations only; what it finds is fitted again in full.
PATIENCE = 3
QUICK_STARTS = 2
QUICK_ITERATIONS = 90

# Entries are held out in so many parts, each once.
N_FOLDS = 4


@dataclass(frozen=True, eq=False)
class RankSelection:
    """The criterion at every rank tried, and the rank it chooses.

    Attributes
    ----------
    ranks : (R,) array of int
    scores : (R,) array
        Description length in bits ("mdl"), or mean log-loss of held-out entries ("heldout"); the
        smaller the better.
    errors : (R,) array
        Standard error of each score; 0 for "mdl".
    best : int
        The rank with the smallest score; by held-out entries, the smallest rank that is worse by no
        more than one standard error of the difference.
    criterion : {"mdl", "heldout"}
    interrupted : bool
        Whether Ctrl-C ended the search, so that it chose among the ranks tried until then.
    """

    ranks: NDArray[np.int64]
    scores: NDArray[np.float64]
    errors: NDArray[np.float64]
    best: int
    criterion: Criterion
    interrupted: bool = False

    def table(self) -> list[dict[str, Any]]:
        """One dictionary a rank: rank, score, error, and whether it is the best."""
        return [
            {"rank": int(k), "score": float(s), "error": float(e), "best": bool(k == self.best)}
            for k, s, e in zip(self.ranks, self.scores, self.errors, strict=True)
        ]

    def __str__(self) -> str:
        unit = "bits" if self.criterion == "mdl" else "log-loss"
        lines = [f"{'rank':>5} {unit:>14}"]
        for row in self.table():
            mark = "  <- best" if row["best"] else ""
            lines.append(f"{row['rank']:>5} {row['score']:>14.5g}{mark}")
        return "\n".join(lines)

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the criterion against the rank (needs matplotlib); save it where `path` says."""
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        axes.errorbar(self.ranks, self.scores, yerr=self.errors, marker="o", capsize=3)
        axes.axvline(self.best, color="0.6", linestyle="--", zorder=0)
        axes.annotate(
            f"best: {self.best}", (self.best, 0.97), xycoords=("data", "axes fraction"),
            xytext=(4, 0), textcoords="offset points", va="top",
        )  # fmt: skip
        axes.set_xlabel("number of factors")
        bits = self.criterion == "mdl"
        axes.set_ylabel("description length (bits)" if bits else "log-loss of held-out entries")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure


def search(
    observations: Observations,
    settings: Settings,
    random: np.random.Generator,
    ranks: Iterable[int] | None = None,
    criterion: Criterion = "mdl",
    on_iteration: OnIteration | None = None,
    recorder: Recorder | None = None,
) -> tuple[RankSelection, Result | None]:
    """Fit every rank, and choose; also the chosen fit where the criterion made one ("mdl").

    Without `ranks`, goes up from 1 until `PATIENCE` ranks in a row were no better than the best.
    Ctrl-C ends the search with what was tried.
    """
    recorder = recorder or Recorder()
    recorder.checks["ranks"] = search_of(Judged, observations.shape)
    interrupted = False
    with warnings.catch_warnings(), recorder.frame("ranks", Judged) as judged:
        tried = _Search(
            observations, settings, random, criterion, on_iteration, recorder, judged
        )  # fmt: skip
        # A rank that does not work is judged by its score.
        warnings.simplefilter("ignore", UninformativeWarning)
        try:
            if ranks is None:
                tried.climb()
            else:
                for rank in sorted(set(ranks)):
                    tried.judge(int(rank), settings)
        except KeyboardInterrupt:
            if not tried.scores:
                raise
            interrupted = True
            if judged.best_fit is not None:
                judged.best_fit = replace(judged.best_fit, interrupted=True)
    return replace(tried.selection(), interrupted=interrupted), judged.best_fit


@dataclass(eq=False)
class Judged:
    """What a search has found so far, fit by fit in the order in which it makes them."""

    scores: list[NDArray[np.float64]] = field(default_factory=list)
    best_fit: Result | None = None


@dataclass(eq=False)
class _Search:
    """The ranks tried so far, and the best fit among them."""

    observations: Observations
    settings: Settings
    random: np.random.Generator
    criterion: Criterion
    on_iteration: OnIteration | None
    recorder: Recorder
    judged: Judged
    scores: dict[int, NDArray[np.float64]] = field(default_factory=dict)  # one for each part
    n_judged: int = 0
    seed: int = 0  # of the parts: every rank is tried on the same ones

    @property
    def best(self) -> int:
        lowest = min(sorted(self.scores), key=lambda rank: self.scores[rank].mean())
        if self.criterion == "mdl":
            return lowest
        for rank in sorted(self.scores):
            lost = self.scores[rank] - self.scores[lowest]
            if lost.mean() <= _standard_error(lost):
                return rank
        return lowest

    def judge(self, rank: int, settings: Settings) -> None:
        """Fit this rank and keep its score, or the better one if it was fitted before."""
        known = self.n_judged < len(self.judged.scores)  # from a checkpoint
        self.n_judged += 1
        settings = replace(settings, n_components=rank)
        if self.criterion == "heldout":
            self._judge_held_out(rank, settings, known)
            return
        random = self.random.spawn(1)[0]
        old = (self.scores[self.best][0], self.best) if self.scores else (np.inf, rank)
        interrupted = False
        if not known:
            result = fit(self.observations, settings, random, self.on_iteration, self.recorder)
            score = description_length(result)
            if (score, rank) <= old:
                self.judged.best_fit = result
            self.judged.scores.append(np.array([score]))
            interrupted = result.interrupted
        score_of_fit = self.judged.scores[self.n_judged - 1]
        self.scores[rank] = np.minimum(self.scores.get(rank, np.inf), score_of_fit)
        if interrupted:
            raise KeyboardInterrupt

    def _judge_held_out(self, rank: int, settings: Settings, known: bool) -> None:
        self.seed = self.seed or int(self.random.integers(1, 2**31))
        seeds = self.random.spawn(N_FOLDS)
        if not known:
            loss = _held_out_loss(self.observations, settings, seeds, self.seed)
            self.judged.scores.append(loss)
            self.recorder.beat()
        self.scores[rank] = self.judged.scores[self.n_judged - 1]

    def climb(self) -> None:
        """Go up from rank 1 with quick fits; then fit the best one in full, and the one below."""
        quick = replace(
            self.settings,
            n_init=min(self.settings.n_init, QUICK_STARTS),
            max_iter=min(self.settings.max_iter, QUICK_ITERATIONS),
        )
        for rank in range(1, min(self.observations.shape) + 1):
            self.judge(rank, quick)
            if rank - self.best >= PATIENCE:
                break
        in_full = (quick.n_init, quick.max_iter) == (self.settings.n_init, self.settings.max_iter)
        if self.criterion == "heldout" or in_full:
            return
        confirmed: set[int] = set()
        while self.best not in confirmed:  # a quick fit may have missed the factors of a rank
            rank = self.best
            confirmed.add(rank)
            self.judge(rank, self.settings)
            if rank > 1 and rank - 1 not in confirmed:
                confirmed.add(rank - 1)
                self.judge(rank - 1, self.settings)

    def selection(self) -> RankSelection:
        ranks = sorted(self.scores)
        return RankSelection(
            ranks=np.array(ranks),
            scores=np.array([self.scores[rank].mean() for rank in ranks]),
            errors=np.array([_standard_error(self.scores[rank]) for rank in ranks]),
            best=self.best,
            criterion=self.criterion,
        )


def description_length(result: Result) -> float:
    """Bits to write down the decoded factors and where the data differ from their product.

    As in MDL4BMF (Miettinen and Vreeken) with the typed XOR error matrix: each factor's column of X
    and row of Y by its number of ones and which they are; the errors among the ones of the product,
    and among its zeros, by their numbers and which they are. Only observed entries count.
    """
    X, Y = result.X, result.Y
    bits = 0.0
    for side in (X.T, Y):
        n = side.shape[1]
        for ones in side.sum(axis=1, dtype=np.int64):
            bits += np.log2(n + 1) + _log2_choose(n, int(ones))
    counts = result.decoded_counts(result.observations)
    for value in (0, 1):
        n, wrong = int(counts[:, value].sum()), int(counts[1 - value, value])
        bits += np.log2(n + 1) + _log2_choose(n, wrong)
    return float(bits)


def _log2_choose(n: int, k: int) -> float:
    from scipy.special import gammaln

    return float((gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / np.log(2.0))


def _held_out_loss(
    observations: Observations, settings: Settings, seeds: list[np.random.Generator], seed: int
) -> NDArray[np.float64]:
    """Mean log-loss of the entries held out, one number for each part, (N_FOLDS,)."""
    losses = []
    parts = observations.folds(N_FOLDS, seed)
    for random, (kept, rows, columns, values) in zip(seeds, parts, strict=True):
        result = fit(kept, settings, random)
        if result.interrupted:
            raise KeyboardInterrupt
        p = np.clip(result.seen_one(rows, columns), 1e-6, 1 - 1e-6)
        losses.append(-np.mean(np.where(values == 1, np.log(p), np.log1p(-p))))
    return np.array(losses)


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def drop_useless(result: Result) -> tuple[Result, int]:
    """Drop factors that are empty or repeat another; also how many there were."""
    X, Y = result.X, result.Y
    keep: list[int] = []
    for k in range(X.shape[1]):
        empty = not X[:, k].any() or not Y[k].any()
        repeated = any(
            np.array_equal(X[:, k], X[:, j]) and np.array_equal(Y[k], Y[j]) for j in keep
        )
        if not empty and not (repeated and result.model.product == "or"):
            keep.append(k)
    n_dropped = X.shape[1] - len(keep)
    if n_dropped == 0 or not keep:
        return result, 0
    return result.with_factors(keep), n_dropped
