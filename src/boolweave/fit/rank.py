"""Choice of the number of factors by description length or by held-out entries."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from boolweave.engine.ordering import factor_order
from boolweave.engine.result import Ending, Result
from boolweave.fit.growing import Sample, with_tiles
from boolweave.fit.judging import (
    LEAST_GAIN,
    N_FOLDS,
    best_rank,
    description_length,
    held_out_parts,
    log_loss_by_rows,
    n_row_groups,
    standard_error,
)
from boolweave.fit.learn import UninformativeWarning, check_memory, fit
from boolweave.fit.resuming import search_check
from boolweave.fit.settings import Settings
from boolweave.fit.steps import STRIDE as LONGER_STEPS
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.runtime.checkpoint import Recorder
from boolweave.runtime.progress import on_rank_of
from boolweave.runtime.warning import warn_user

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.fit.machine import Machine
    from boolweave.runtime.progress import OnIteration
    from boolweave.runtime.types import Floats

Criterion = Literal["mdl", "heldout"]

# The search goes up from rank 1 and ends when it is this many ranks beyond the best one and has
# tried at least two of them. With more messages than this, it takes larger steps, by an eighth.
RANKS_BEYOND = 5
MANY_MESSAGES = 1 << 24
STEP = 8

# Every rank begins with the factors of the one below and a new one: number of iterations of max-sum
# (three times as many if nothing is learned), then of sum-product.
MAX_SUM_ITERATIONS = 6
SUM_PRODUCT_ITERATIONS = 30

# It also begins from random messages, with this many starts and iterations, if that was better at
# most this many ranks ago, or if the other beginning gained nothing; with many messages, only up to
# this rank.
QUICK_STARTS = 2
QUICK_ITERATIONS = 90
RECENT = 4
FEW = 8

# A rank begins only with tiles if these explain more than the fits; such tiles have at least this
# fraction of ones.
SHARE_OF_ONES = 0.97

# Maximum number of characters of the bars in a table of ranks.
BAR = 30


@dataclass(frozen=True, eq=False)
class RankSelection:
    """The criterion for every rank tried, and the best rank.

    Attributes
    ----------
    ranks : (R,) array of int
    scores : (R,) array
        Description length in bits ("mdl"), or mean log-loss of held-out entries ("heldout"); lower
        is better.
    errors : (R,) array
        Standard error of each score; 0 for "mdl".
    best : int
        The rank with the lowest score; with "heldout", the lowest rank whose score exceeds that by
        at most one standard error of the difference, or by at most 2 nats in all.
    criterion : {"mdl", "heldout"}
    interrupted : bool
        Whether Ctrl-C ended the search, so that it chose among the ranks tried before that.
    costs : (R,) array or None
        With objective="errors": the lowest cost that was found at each rank, as in `error_` of a
        fit. It does not rise with the rank.
    missed, false_ones : (R,) arrays of int, or None
        With objective="errors": the number of ones that the factors with this cost miss, and of
        zeros that they cover.
    """

    ranks: NDArray[np.int64]
    scores: NDArray[np.float64]
    errors: NDArray[np.float64]
    best: int
    criterion: Criterion
    interrupted: bool = False
    costs: NDArray[np.float64] | None = None
    missed: NDArray[np.int64] | None = None
    false_ones: NDArray[np.int64] | None = None

    def table(self) -> list[dict[str, int | float | bool]]:
        """One dictionary per rank: rank, score, error, and whether it is the best.

        With objective="errors", there are also cost, missed and false_ones.
        """
        lines: list[dict[str, int | float | bool]] = [
            {"rank": int(k), "score": float(s), "error": float(e), "best": bool(k == self.best)}
            for k, s, e in zip(self.ranks, self.scores, self.errors, strict=True)
        ]
        for name in ("costs", "missed", "false_ones"):
            values = getattr(self, name)
            if values is not None:
                for line, value in zip(lines, values.tolist(), strict=True):
                    line["cost" if name == "costs" else name] = value
        return lines

    def __str__(self) -> str:
        unit = "bits" if self.criterion == "mdl" else "log-loss"
        lines = [f"{'rank':>5} {unit:>14}"]
        if self.costs is not None:
            lines[0] += f" {'missed':>10} {'false ones':>10} {'cost':>10}  (less is better)"
        for row in self.table():
            line = f"{row['rank']:>5} {row['score']:>14.7g}"
            if self.costs is not None:
                bar = "#" * round(BAR * row["cost"] / max(1.0, float(self.costs.max())))
                line += f" {row['missed']:>10} {row['false_ones']:>10} {row['cost']:>10.7g}  {bar}"
            lines.append(line + ("  <- best" if row["best"] else ""))
        return "\n".join(lines)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the criterion against the rank (needs matplotlib), and save it to `path`, if given.

        With objective="errors", a second curve below shows the cost.
        """
        from boolweave.plot import plot_scores

        bits = self.criterion == "mdl"
        figure = plot_scores(
            self.ranks, self.scores, self.errors, self.best,
            x_label="number of factors",
            y_label="description length (bits)" if bits else "log-loss of held-out entries",
            below=None if self.costs is None else ("errors", self.costs),
        )  # fmt: skip
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure


def search(
    observations: ObservedEntries,
    settings: Settings,
    random: np.random.Generator,
    ranks: Iterable[int] | None = None,
    criterion: Criterion = "mdl",
    on_iteration: OnIteration | None = None,
    recorder: Recorder | None = None,
    machine: Machine | None = None,
) -> tuple[RankSelection, Result | None]:
    """Fit every rank and choose one; also return its fit if the criterion made one ("mdl").

    Without `ranks`, the search goes up from 1 until nothing is gained any more. With "mdl", the
    ranks that are tried and their results then depend only on the data; `random` is for the last
    fit, that of the best rank. Ctrl-C ends the search with the ranks tried so far.
    """
    recorder = recorder or Recorder()
    recorder.register(SearchState, Result, Model, Channel)
    n_scores = 1 if criterion == "mdl" else N_FOLDS * n_row_groups(observations)
    recorder.checks["ranks"] = search_check(SearchState, observations.shape, n_scores)
    interrupted = False
    with recorder.frame("ranks", SearchState) as state:
        seed = int(random.integers(2**31))
        settings = replace(settings, alone=False)
        this = _Search(
            observations, settings, seed, criterion, on_iteration, recorder, state, machine
        )
        try:
            if ranks is None:
                this.go_up()
            else:
                this.fit_each(sorted({int(rank) for rank in ranks}))
        except KeyboardInterrupt:
            if not state.ranks:
                raise
            interrupted = True
            state.best = None if state.best is None else state.best.as_interrupted()
    return this.selection(interrupted), state.best


@dataclass(eq=False)
class SearchState:
    """The state of a search: everything that it needs to continue."""

    ranks: list[int] = field(default_factory=list)
    # The scores of each rank: one, or with "heldout" one for each group of held-out entries.
    scores: list[NDArray[np.float64]] = field(default_factory=list)
    last: Result | None = None  # the best at the last rank, or below if that gained nothing
    best: Result | None = None  # the best of all
    tiles: Result | None = None  # factors that are tiles
    last_random: int = 0  # the last rank at which a random start was best
    # The current rank: what it begins with, its fits and their scores.
    first: Result | None = None
    fits: list[Result] = field(default_factory=list)
    bits: list[float] = field(default_factory=list)


@dataclass(eq=False)
class _Search:
    """One call of `search`."""

    observations: ObservedEntries
    settings: Settings
    seed: int
    criterion: Criterion
    on_iteration: OnIteration | None
    recorder: Recorder
    state: SearchState
    machine: Machine | None = None

    @property
    def scores(self) -> dict[int, NDArray[np.float64]]:
        """The scores of each rank tried, from the lowest rank up."""
        return dict(sorted(zip(self.state.ranks, self.state.scores, strict=True)))

    @property
    def best(self) -> int:
        heldout = self.criterion == "heldout"
        return best_rank(self.scores, LEAST_GAIN / self.observations.n_observed if heldout else 0.0)

    def selection(self, interrupted: bool) -> RankSelection:
        scores = self.scores
        return RankSelection(
            ranks=np.array(list(scores)),
            scores=np.array([score.mean() for score in scores.values()]),
            errors=np.array([standard_error(score) for score in scores.values()]),
            best=self.best,
            criterion=self.criterion,
            interrupted=interrupted,
        )

    # ------------------------------------------------------------ which ranks

    def fit_each(self, ranks: list[int]) -> None:
        """Fit these ranks in full, from the lowest up."""
        for rank in ranks[len(self.state.ranks) :]:
            self._report(rank, ranks[-1])
            settings = replace(self.settings, n_components=rank)
            if self.criterion == "heldout":
                self._hold_out(settings)
                continue
            with self._judging(rank):
                self._fit(0, settings, self._random(rank), self._first(rank))

    def go_up(self) -> None:
        """Go up from rank 1 with quick fits; then fit the best rank in full."""
        while (rank := self._next()) is not None and self._has_room_for(rank):
            self._report(rank, rank + RANKS_BEYOND)
            quick = replace(
                self.settings,
                n_components=rank,
                n_init=min(self.settings.n_init, QUICK_STARTS),
                max_iter=min(self.settings.max_iter, QUICK_ITERATIONS),
            )
            if self.criterion == "heldout":
                self._hold_out(quick)
                continue
            with self._judging(rank):
                self._quick_fits(quick)
        if self.criterion == "mdl":
            state, best = self.state, self.best
            settings = replace(self.settings, n_components=best)
            state.best = self._fit(0, settings, self._random(best), state.best)
            n = state.ranks.index(best)
            state.scores[n] = np.minimum(state.scores[n], state.bits[0])

    def _report(self, rank: int, last: int) -> None:
        """Report the rank that is tried next, and the likely last one."""
        best = self.best if self.state.ranks else None
        on_rank_of(self.on_iteration)(
            rank, best, max(rank, min(last, (best or rank) + RANKS_BEYOND))
        )

    def _next(self) -> int | None:
        """Return the rank to try next; None if the best one is found."""
        ranks, most = sorted(self.state.ranks), min(self.observations.shape)
        if not ranks:
            return 1
        best, top = self.best, ranks[-1]
        below = [rank for rank in ranks if rank < best]
        above = [rank for rank in ranks if rank > best]
        if top < most and (top - best < RANKS_BEYOND or len(above) < 2):
            step = max(1, top // STEP) if self._are_many(top) else 1
            return min(most, top + step)
        # Ranks next to the best one that long steps left out.
        for low, high in ((max(below, default=0), best), (best, min(above, default=best))):
            if high - low > 1:
                return (low + high) // 2
        return None

    def _has_room_for(self, rank: int) -> bool:
        """Whether there is enough memory for a full fit of this rank; if not, the search ends."""
        more = replace(self.settings, n_components=rank, n_init=self.settings.n_init + 1)
        try:
            check_memory(self.observations, more, self.machine)
        except MemoryError as error:
            if not self.state.ranks:
                raise
            warn_user(f"the search for the number of factors ended before {rank}: {error}")
            return False
        return True

    def _are_many(self, rank: int) -> bool:
        """Whether a rank has so many messages that fits take long."""
        return rank * self.observations.n_observed > MANY_MESSAGES

    # ------------------------------------------------------------ one rank

    def _quick_fits(self, quick: Settings) -> None:
        """Fit from the factors of the rank below, and from random messages if that may help.

        The random numbers do not depend on the seed, and therefore neither does the rank.
        """
        state, rank = self.state, quick.n_components
        first, n_warm = self._first(rank), 0
        if first is not None:
            warm = replace(quick, n_init=0, decimation=None)
            n_iter = MAX_SUM_ITERATIONS * (1 if warm.learns_any else 3)
            max_sum = replace(warm, method="max-sum", max_iter=min(n_iter, quick.max_iter))
            first, n_warm = self._fit(0, max_sum, np.random.default_rng(rank), first), 1
            if self.settings.method != "max-sum":
                sum_product = replace(
                    warm,
                    method="sum-product",
                    max_iter=min(SUM_PRODUCT_ITERATIONS, quick.max_iter),
                    damping=min(1.0, LONGER_STEPS * quick.damping),
                )
                self._fit(1, sum_product, np.random.default_rng(rank), first)
                n_warm = 2
        failed = min(state.bits[:n_warm], default=np.inf) > self._bound(rank)
        may_help = rank - state.last_random <= RECENT or failed
        if may_help and (rank <= FEW or not self._are_many(rank)):
            self._fit(n_warm, quick, np.random.default_rng(rank), None)
            if state.bits[n_warm] <= min(state.bits):
                state.last_random = rank

    def _fit(
        self, number: int, settings: Settings, random: np.random.Generator, first: Result | None
    ) -> Result:
        """Do one of the fits of a rank, unless it is already done; return its result."""
        state = self.state
        if number == len(state.fits):
            result = fit(
                self.observations, settings, random, self.on_iteration, self.recorder, first,
                self.machine,
            )  # fmt: skip
            state.fits.append(result)
            state.bits.append(description_length(result))
            if result.interrupted:
                raise KeyboardInterrupt
        return state.fits[number]

    @contextmanager
    def _judging(self, rank: int) -> Iterator[None]:
        """Do the fits of a rank; when they are done, or interrupted, keep the best one."""
        state = self.state
        try:
            with _no_warnings():
                yield
        finally:
            if state.fits:
                best = int(np.argmin(state.bits))
                score, bound = state.bits[best], self._bound(rank)
                if not state.scores or score < min(map(np.min, state.scores)):
                    state.best = state.fits[best]
                if score < bound:
                    state.last = state.fits[best]
                state.ranks.append(rank)
                state.scores.append(np.array([min(score, bound)]))
                state.first, state.fits, state.bits = None, [], []

    def _bound(self, rank: int) -> float:
        """Return the bits of the last rank with additional empty factors: no rank is worse."""
        lower = max((n for n in self.state.ranks if n < rank), default=None)
        if lower is None:
            return np.inf
        empty = sum(np.log2(n + 1) for n in self.observations.shape)
        return float(self.scores[lower][0] + (rank - lower) * empty)

    def _random(self, rank: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, rank])

    def _hold_out(self, settings: Settings) -> None:
        """Fit a rank without each part of the entries in turn, and keep the log-losses."""
        losses, rank = [], settings.n_components
        parts = held_out_parts(self.observations, max(1, self.seed))
        n_groups = n_row_groups(self.observations)
        with _no_warnings():
            for random, (kept, rows, columns, values, weights) in zip(
                self._random(rank).spawn(N_FOLDS), parts, strict=True
            ):
                result = fit(kept, settings, random, self.on_iteration)
                if result.interrupted:
                    raise KeyboardInterrupt
                p = result.predict_proba(rows, columns)
                losses.append(log_loss_by_rows(rows, values, p, weights, n_groups))
        self.state.ranks.append(rank)
        self.state.scores.append(np.concatenate(losses))
        self.recorder.save_if_due()

    # ------------------------------------------------------------ what a rank begins with

    def _first(self, rank: int) -> Result | None:
        """Return the factors of another rank with new ones, or fewer of them, or only tiles."""
        state = self.state
        if state.first is None and state.last is not None:
            before = state.last if rank > max(state.ranks) else state.best
            assert before is not None
            state.first = self._made_of_tiles(rank, before) or self._resized(before, rank)
        return state.first

    def _resized(self, result: Result, rank: int) -> Result:
        """Add tiles to the factors, or leave out the smallest ones."""
        rows, columns = result.row_log_odds, result.column_log_odds
        n_more = rank - len(columns)
        if n_more < 0:
            kept = np.sort(factor_order(result.X, result.Y)[:rank])
            return self._as_result(rows[:, kept], columns[kept])
        product = self.settings.product
        return self._as_result(*with_tiles(self.sample, rows, columns, n_more, product))

    def _made_of_tiles(self, rank: int, other: Result) -> Result | None:
        """Return factors that are tiles if they are better than the other ones."""
        state, (M, N) = self.state, self.observations.shape
        rows: Floats = np.zeros((M, 0), dtype=np.float32)
        columns: Floats = np.zeros((0, N), dtype=np.float32)
        if state.tiles is not None:
            rows, columns = state.tiles.row_log_odds, state.tiles.column_log_odds
        n_more = rank - len(columns)
        if n_more < 0:
            return None
        product = self.settings.product
        tiles = with_tiles(self.sample, rows, columns, n_more, product, SHARE_OF_ONES)
        state.tiles = self._as_result(*tiles)
        better = self._bits_of_sample(state.tiles) < self._bits_of_sample(other)
        return state.tiles if better else None

    def _bits_of_sample(self, result: Result) -> float:
        rows = result.row_log_odds[self.sample.rows]
        return description_length(replace(result, observations=self.sample.seen, row_log_odds=rows))

    @cached_property
    def sample(self) -> Sample:
        """The rows in which tiles are searched."""
        return Sample.of(self.observations)

    def _as_result(self, rows: Floats, columns: Floats) -> Result:
        """Wrap factors that no run has found yet."""
        model = replace(self.settings, n_components=len(columns)).first_model()
        ending = Ending.OUT_OF_ITERATIONS
        return Result(model, self.observations, rows, columns, -np.inf, ending, 0, {})


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Silence the warnings of fits that only score a rank: a bad fit has a bad score anyway."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UninformativeWarning)
        yield


def drop_useless(result: Result) -> tuple[Result, int]:
    """Drop factors that are empty or repeat another one; also return their number."""
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
