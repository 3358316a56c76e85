"""How many factors: by description length, or by entries held out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from boolweave.engine.result import Ending, Result
from boolweave.fit.growing import Sample, with_tiles
from boolweave.fit.learn import UninformativeWarning, check_memory, fit
from boolweave.fit.resuming import search_of
from boolweave.fit.settings import Settings
from boolweave.fit.steps import STRIDE as LONGER_STEPS
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.runtime.checkpoint import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations

    Floats = NDArray[np.floating[Any]]
    OnIteration = Callable[[int, float, float], None]

Criterion = Literal["mdl", "heldout"]

# The search goes up from rank 1 and ends when so many ranks beyond the best one, at least two of
# them tried, brought nothing. With more messages than this it takes longer steps: by an eighth.
PATIENCE = 5
MANY_MESSAGES = 1 << 24
STEP = 8

# Every rank begins with the factors of the one below and a new one: three times so many iterations
# of max-sum, then so many of sum-product.
MAX_SUM_ITERATIONS = 6
SUM_PRODUCT_ITERATIONS = 30

# It begins from random messages, too, so many times and with so many iterations, if that was the
# better beginning not more than so many ranks ago, or if the other one brought nothing; with many
# messages only up to this rank.
QUICK_STARTS = 2
QUICK_ITERATIONS = 90
RECENT = 4
FEW = 8

# Where tiles explain more than the fits do, they are the beginning; such tiles have at least this
# share of ones.
SHARE_OF_ONES = 0.97

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

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the criterion against the rank (needs matplotlib); save it where `path` says."""
        from boolweave.plot import plot_scores

        bits = self.criterion == "mdl"
        figure = plot_scores(
            self.ranks, self.scores, self.errors, self.best,
            x_label="number of factors",
            y_label="description length (bits)" if bits else "log-loss of held-out entries",
        )  # fmt: skip
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

    Without `ranks`, goes up from 1 until nothing is gained any more. By description length, which
    ranks are tried and what they find then depends on the data alone; `random` is for the last
    fit, of the best rank. Ctrl-C ends the search with what was tried.
    """
    recorder = recorder or Recorder()
    recorder.register(Judged, Result, Model, Channel)
    recorder.checks["ranks"] = search_of(Judged, observations.shape)
    interrupted = False
    with recorder.frame("ranks", Judged) as judged:
        seed = int(random.integers(2**31))
        settings = replace(settings, alone=False)
        tried = _Search(observations, settings, seed, criterion, on_iteration, recorder, judged)
        try:
            if ranks is None:
                tried.climb()
            else:
                tried.all_of(sorted({int(rank) for rank in ranks}))
        except KeyboardInterrupt:
            if not judged.ranks:
                raise
            interrupted = True
            if judged.best is not None:
                judged.best = judged.best.as_interrupted()
    return replace(tried.selection(), interrupted=interrupted), judged.best


@dataclass(eq=False)
class Judged:
    """What a search has found so far: all that it needs to go on."""

    ranks: list[int] = field(default_factory=list)
    scores: list[NDArray[np.float64]] = field(default_factory=list)  # one for each part
    last: Result | None = None  # the best at the last rank, or below if it brought nothing
    best: Result | None = None  # the best of all
    tiles: Result | None = None  # factors that are tiles
    last_random: int = 0  # the last rank at which a random start was best
    # The rank under way: what it begins with, its fits and their scores.
    first: Result | None = None
    fits: list[Result] = field(default_factory=list)
    bits: list[float] = field(default_factory=list)


@dataclass(eq=False)
class _Search:
    """The ranks tried so far, and the best fit among them."""

    observations: Observations
    settings: Settings
    seed: int
    criterion: Criterion
    on_iteration: OnIteration | None
    recorder: Recorder
    judged: Judged

    @property
    def scores(self) -> dict[int, NDArray[np.float64]]:
        """Of each rank tried, one for each part."""
        return dict(zip(self.judged.ranks, self.judged.scores, strict=True))

    @property
    def best(self) -> int:
        scores = self.scores
        lowest = min(sorted(scores), key=lambda rank: scores[rank].mean())
        if self.criterion == "mdl":
            return lowest
        for rank in sorted(scores):
            lost = scores[rank] - scores[lowest]
            if lost.mean() <= _standard_error(lost):
                return rank
        return lowest

    # ------------------------------------------------------------ which ranks

    def all_of(self, ranks: list[int]) -> None:
        """Fit these ranks in full, from the lowest up."""
        for rank in ranks[len(self.judged.ranks) :]:
            if self.criterion == "heldout":
                self._hold_out(rank, self.settings)
                continue
            with self._judging(rank):
                self._fit(0, rank, self.settings, self._random(rank), self._first(rank))

    def climb(self) -> None:
        """Go up from rank 1 with quick fits; then fit the best rank in full."""
        quick = replace(
            self.settings,
            n_init=min(self.settings.n_init, QUICK_STARTS),
            max_iter=min(self.settings.max_iter, QUICK_ITERATIONS),
        )
        while (rank := self._next()) is not None and self._has_room_for(rank):
            if self.criterion == "heldout":
                self._hold_out(rank, quick)
            else:
                with self._judging(rank):
                    self._quick_fits(rank, quick)
        if self.criterion == "mdl":
            self._fit_in_full(self.best)

    def _next(self) -> int | None:
        """The rank to try next; None if the best one is found."""
        ranks, most = sorted(self.judged.ranks), min(self.observations.shape)
        if not ranks:
            return 1
        best, top = self.best, ranks[-1]
        below = [rank for rank in ranks if rank < best]
        above = [rank for rank in ranks if rank > best]
        if top < most and (top - best < PATIENCE or len(above) < 2):
            step = max(1, top // STEP) if self._are_many(top) else 1
            return min(most, top + step)
        # What long steps left out beside the best one.
        for low, high in ((max(below, default=0), best), (best, min(above, default=best))):
            if high - low > 1:
                return (low + high) // 2
        return None

    def _has_room_for(self, rank: int) -> bool:
        """Whether a full fit of this rank has memory enough; if not, the ranks below must do."""
        more = replace(self.settings, n_components=rank, n_init=self.settings.n_init + 1)
        try:
            check_memory(self.observations, more)
        except MemoryError as error:
            if not self.judged.ranks:
                raise
            warnings.warn(
                f"the search for the number of factors ended before {rank}: {error}", stacklevel=2
            )
            return False
        return True

    def _are_many(self, rank: int) -> bool:
        """Whether a rank has so many messages that fits take long."""
        return rank * self.observations.n_observed > MANY_MESSAGES

    # ------------------------------------------------------------ one rank

    def _quick_fits(self, rank: int, quick: Settings) -> None:
        """From the factors of the rank below, and from random messages where that may help."""
        at = self.judged
        warm = replace(quick, n_init=0, decimation=None)
        first, n_iter = self._first(rank), MAX_SUM_ITERATIONS * (1 if warm.learns_any else 3)
        if first is not None:
            max_sum = replace(warm, method="max-sum", max_iter=min(n_iter, quick.max_iter))
            first = self._fit(0, rank, max_sum, self._same_for_all(rank), first)
            if self.settings.method != "max-sum":
                sum_product = replace(
                    warm,
                    method="sum-product",
                    max_iter=min(SUM_PRODUCT_ITERATIONS, quick.max_iter),
                    damping=min(1.0, LONGER_STEPS * quick.damping),
                )
                self._fit(1, rank, sum_product, self._same_for_all(rank), first)
        n_warm = 0 if first is None else 1 + (self.settings.method != "max-sum")
        failed = min(at.bits[:n_warm], default=np.inf) > self._bound(rank)
        may_help = rank - at.last_random <= RECENT or failed
        if may_help and (rank <= FEW or not self._are_many(rank)):
            self._fit(n_warm, rank, quick, self._same_for_all(rank), None)
            if at.bits[n_warm] <= min(at.bits):
                at.last_random = rank

    def _fit(
        self, number: int, rank: int, settings: Settings, random: np.random.Generator,
        first: Result | None,
    ) -> Result:  # fmt: skip
        """One of the fits of a rank, or what it found if it is done."""
        at = self.judged
        if number == len(at.fits):
            settings = replace(settings, n_components=rank)
            result = fit(
                self.observations, settings, random, self.on_iteration, self.recorder, first
            )
            at.fits.append(result)
            at.bits.append(description_length(result))
            if result.interrupted:
                raise KeyboardInterrupt
        return at.fits[number]

    def _fit_in_full(self, rank: int) -> None:
        """The answer, from as many random starts as were asked for and from what was found."""
        at = self.judged
        at.best = self._fit(0, rank, self.settings, self._random(rank), at.best)
        n = at.ranks.index(rank)
        at.scores[n] = np.minimum(at.scores[n], at.bits[0])

    @contextmanager
    def _judging(self, rank: int) -> Iterator[None]:
        """Fits of one rank. When they are done, or interrupted, the best one counts."""
        try:
            with _unheard():
                yield
        finally:
            if self.judged.fits:
                self._close(rank)

    def _close(self, rank: int) -> None:
        """Keep the best fit of a rank, and its score."""
        at = self.judged
        best = int(np.argmin(at.bits))
        score, bound = at.bits[best], self._bound(rank)
        if not at.scores or score < min(map(np.min, at.scores)):
            at.best = at.fits[best]
        if score < bound:
            at.last = at.fits[best]
        at.ranks.append(rank)
        at.scores.append(np.array([min(score, bound)]))
        at.first, at.fits, at.bits = None, [], []

    def _bound(self, rank: int) -> float:
        """Bits of what the last rank found and factors that are empty: no rank is worse."""
        at = self.judged
        lower = [n for n in at.ranks if n < rank]
        if not lower:
            return np.inf
        empty = sum(np.log2(n + 1) for n in self.observations.shape)
        return float(self.scores[max(lower)][0] + (rank - max(lower)) * empty)

    def _random(self, rank: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, rank])

    def _same_for_all(self, rank: int) -> np.random.Generator:
        """The same random numbers whatever the seed is, so that the rank does not depend on it."""
        return np.random.default_rng(rank)

    def _hold_out(self, rank: int, settings: Settings) -> None:
        settings = replace(settings, n_components=rank)
        seeds = self._random(rank).spawn(N_FOLDS)
        with _unheard():
            loss = _held_out_loss(self.observations, settings, seeds, max(1, self.seed))
        self.judged.ranks.append(rank)
        self.judged.scores.append(loss)
        self.recorder.save_if_due()

    # ------------------------------------------------------------ what a rank begins with

    def _first(self, rank: int) -> Result | None:
        """Factors to begin with: those of another rank and new ones, or less, or tiles alone."""
        at = self.judged
        if at.first is None and at.last is not None:
            before = at.last if rank > max(at.ranks) else at.best
            assert before is not None
            at.first = self._made_of_tiles(rank, before) or self._resized(before, rank)
        return at.first

    def _resized(self, result: Result, rank: int) -> Result:
        """The factors with tiles in addition, or without the smallest ones."""
        rows, columns = result.row_log_odds, result.column_log_odds
        n_more = rank - len(columns)
        if n_more < 0:
            area = result.X.sum(axis=0, dtype=np.int64) * result.Y.sum(axis=1, dtype=np.int64)
            kept = np.sort(np.argsort(-area, kind="stable")[:rank])
            return self._as_result(rows[:, kept], columns[kept])
        return self._as_result(
            *with_tiles(self.sample, rows, columns, n_more, self.settings.product)
        )

    def _made_of_tiles(self, rank: int, other: Result) -> Result | None:
        """Factors that are tiles, one added for each rank, if they beat what was found before."""
        at = self.judged
        M, N = self.observations.shape
        tiles = np.zeros((M, 0), dtype=np.float32), np.zeros((0, N), dtype=np.float32)
        if at.tiles is not None:
            tiles = at.tiles.row_log_odds, at.tiles.column_log_odds
        n_more = rank - len(tiles[1])
        if n_more < 0:
            return None
        product = self.settings.product
        tiles = with_tiles(self.sample, *tiles, n_more, product, SHARE_OF_ONES)
        at.tiles = self._as_result(*tiles)
        better = self._bits_of_sample(at.tiles) < self._bits_of_sample(other)
        return at.tiles if better else None

    def _bits_of_sample(self, result: Result) -> float:
        rows = result.row_log_odds[self.sample.rows]
        return description_length(replace(result, observations=self.sample.seen, row_log_odds=rows))

    @cached_property
    def sample(self) -> Sample:
        """The rows that tiles are looked for in."""
        return Sample.of(self.observations)

    def _as_result(self, rows: Floats, columns: Floats) -> Result:
        """Factors that no run has found yet."""
        settings = replace(self.settings, n_components=len(columns))
        model, ending = settings.first_model(), Ending.OUT_OF_ITERATIONS
        return Result(model, self.observations, rows, columns, -np.inf, ending, 0, {})

    def selection(self) -> RankSelection:
        scores = self.scores
        ranks = sorted(scores)
        return RankSelection(
            ranks=np.array(ranks),
            scores=np.array([scores[rank].mean() for rank in ranks]),
            errors=np.array([_standard_error(scores[rank]) for rank in ranks]),
            best=self.best,
            criterion=self.criterion,
        )


@contextmanager
def _unheard() -> Iterator[None]:
    """Fits that only judge a rank do not warn: one that does not work is judged by its score."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeWarning)
        yield


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
        p = np.clip(result.predict_proba(rows, columns), 1e-6, 1 - 1e-6)
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
