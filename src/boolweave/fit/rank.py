"""Choice of the number of factors by description length or by held-out entries.

A description length counts the bits of decoded factors. If a row has few entries, its bits in the
factors take more than they save, even where the factors predict well: the shortest description is
then that without factors. So if the shortest description of a table with holes hardly differs from
that, `choose` lets held-out entries decide instead, and a fit of the chosen rank begins anew.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.observed import ObservedEntries
from boolweave.engine.result import Ending, Result, factor_order
from boolweave.fit import judging
from boolweave.fit.first_factors import Sample, with_tiles
from boolweave.fit.judging import (
    LEAST_GAIN,
    N_FOLDS,
    best_rank,
    description_length,
    failed,
    log_loss_by_rows,
    mean_by_rows,
    n_row_groups,
    standard_error,
)
from boolweave.fit.learn import UninformativeWarning, check_memory, fit
from boolweave.fit.rank_selection import Criterion, RankSelection
from boolweave.fit.resuming import checks_of_search
from boolweave.fit.settings import Settings
from boolweave.fit.stages import STRIDE as LONGER_STEPS
from boolweave.fit.stages import BackendFactory, channel_from_counts, model_from_bits
from boolweave.model.model import Model
from boolweave.runtime.run import Run
from boolweave.runtime.types import Floats
from boolweave.runtime.warning import warn_user

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


def search(
    observations: ObservedEntries,
    settings: Settings,
    random: np.random.Generator,
    ranks: Iterable[int] | None = None,
    criterion: Criterion = "mdl",
    run: Run | None = None,
    backends: BackendFactory | None = None,
    few: bool = False,
    groups: ArrayLike | None = None,
) -> tuple[RankSelection, Result | None]:
    """Fit every rank and choose one; also return its fit if the criterion made one ("mdl").

    The fit is that of the best rank, or that of the elbow if `few` are wanted.

    Without `ranks`, the search goes up from 1 until nothing is gained any more. With "mdl", the
    ranks that are tried and their results then depend only on the data; `random` is for the last
    fit, that of the best rank. Ctrl-C ends the search with the ranks tried so far. If `groups` has
    the question of each column, whole answers are held out.
    """
    run = run or Run()
    n_scores = 1 if criterion == "mdl" else N_FOLDS * n_row_groups(observations)
    run.recorder.checks = checks_of_search(observations.shape, SearchState, n_scores)
    interrupted = False
    with run.recorder.frame("ranks", SearchState) as state:
        seed = int(random.integers(2**31))
        settings = replace(settings, alone=False)
        this = Search(
            observations, settings, seed, criterion, run, state, backends, few=few, groups=groups
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
    # With "heldout", also the share of wrong predictions in each group.
    wrong: list[NDArray[np.float64]] = field(default_factory=list)
    last: Result | None = None  # the best at the last rank, or below if that gained nothing
    best: Result | None = None  # the best of all
    tiles: Result | None = None  # factors that are tiles
    last_random: int = 0  # the last rank at which a random start was best
    # The current rank: what it begins with, its fits and their scores.
    first: Result | None = None
    fits: list[Result] = field(default_factory=list)
    bits: list[float] = field(default_factory=list)


@dataclass(eq=False)
class Search:
    """One call of `search`."""

    observations: ObservedEntries
    settings: Settings
    seed: int
    criterion: Criterion
    run: Run
    state: SearchState
    backends: BackendFactory | None = None
    n_folds: int = N_FOLDS
    few: bool = False
    groups: ArrayLike | None = None

    @property
    def scores(self) -> dict[int, NDArray[np.float64]]:
        """The scores of each rank tried, from the lowest rank up."""
        return dict(sorted(zip(self.state.ranks, self.state.scores, strict=True)))

    @property
    def best(self) -> int:
        """The best rank so far."""
        heldout = self.criterion == "heldout"
        return best_rank(self.scores, LEAST_GAIN / self.observations.n_observed if heldout else 0.0)

    def selection(self, interrupted: bool) -> RankSelection:
        """The ranks tried so far."""
        scores = self.scores
        return RankSelection(
            ranks=np.array(list(scores)),
            scores=np.array([score.mean() for score in scores.values()]),
            errors=np.array([standard_error(score) for score in scores.values()]),
            best=self.best,
            criterion=self.criterion,
            interrupted=interrupted,
            without=self._without_factors(),
        )

    def _without_factors(self) -> float:
        """The score of no factors; with held-out entries, that of a constant probability."""
        if self.criterion == "mdl":
            return judging.length_without_factors(self.observations)
        n_ones = self.observations.n_ones
        return judging.entropy([n_ones, self.observations.n_observed - n_ones])

    # ------------------------------------------------------------ which ranks

    def fit_each(self, ranks: list[int]) -> None:
        """Fit these ranks in full, from the lowest up."""
        for rank in ranks[len(self.state.ranks) :]:
            self.report(rank, ranks[-1])
            settings = replace(self.settings, n_components=rank)
            if self.criterion == "heldout":
                self.hold_out(settings)
                continue
            with self._judging(rank):
                self._fit(0, settings, self._random(rank), self._first(rank))

    def go_up(self) -> None:
        """Go up from rank 1 with quick fits; then fit the best rank in full."""
        while (rank := self._next()) is not None and self._has_room_for(rank):
            self.report(rank, rank + RANKS_BEYOND)
            quick = replace(
                self.settings,
                n_components=rank,
                n_init=min(self.settings.n_init, QUICK_STARTS),
                max_iter=min(self.settings.max_iter, QUICK_ITERATIONS),
            )
            if self.criterion == "heldout":
                self.hold_out(quick)
                continue
            with self._judging(rank):
                self._quick_fits(quick)
        if self.criterion == "mdl":
            state, best = self.state, self.best
            chosen = self.selection(False).elbow if self.few else best
            first = state.best
            if chosen != best and first is not None:
                first = self._resized(first, chosen)
            settings = replace(self.settings, n_components=chosen)
            nothing = judging.length_without_factors(self.observations)
            # If no rank saves bits, `choose` judges the answer, and says more about it than a fit.
            with _no_warnings() if self.scores[best].min() >= nothing else nullcontext():
                last = self._fit(0, settings, self._random(chosen), first)
            if chosen != best or not self._failed(last) or self._failed(first or last):
                state.best = last
            if not self.few:  # the curve by which few were chosen stays as it was
                n = state.ranks.index(best)
                state.scores[n] = np.minimum(state.scores[n], state.bits[0])

    def _failed(self, result: Result) -> bool:
        return failed(result, self.observations)

    def report(self, rank: int, last: int) -> None:
        """Report the rank that is tried next, and the likely last one."""
        best = self.best if self.state.ranks else None
        self.run.progress.rank(rank, best, max(rank, min(last, (best or rank) + RANKS_BEYOND)))

    def _next(self) -> int | None:
        """Return the rank to try next; None if the best one is found."""
        ranks, most = sorted(self.state.ranks), min(self.observations.shape)
        if not ranks:
            return 1
        best, top = self.best, ranks[-1]
        n_above = sum(rank > best for rank in ranks)
        if top < most and (top - best < RANKS_BEYOND or n_above < 2):
            step = max(1, top // STEP) if self._are_many(top) else 1
            return min(most, top + step)
        return rank_left_out(ranks, best)

    def _has_room_for(self, rank: int) -> bool:
        """Whether there is enough memory for a full fit of this rank; if not, the search ends."""
        more = replace(self.settings, n_components=rank, n_init=self.settings.n_init + 1)
        try:
            check_memory(self.observations, more, self.backends)
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
            result = fit(self.observations, settings, random, self.run, first, self.backends)
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

    def hold_out(self, settings: Settings) -> None:
        """Fit a rank without each part of the entries in turn, and keep the log-losses."""

        def fitted(kept: ObservedEntries, random: np.random.Generator) -> Result:
            result = fit(kept, settings, random, self.run)
            if result.interrupted:
                raise KeyboardInterrupt
            return result

        with _no_warnings(), self.run.recorder.paused():
            losses, wrong = self.tested(settings.n_components, fitted)
        self.state.ranks.append(settings.n_components)
        self.state.scores.append(losses)
        self.state.wrong.append(wrong)
        self.run.recorder.save_if_due()

    def tested(
        self, rank: int, fitted: Callable[[ObservedEntries, np.random.Generator], Result]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predict held-out entries by what is fitted to the other ones.

        Returns
        -------
        (G,) arrays
            The log-loss and the share of wrong predictions in each group of held-out entries.
        """
        losses, wrong = [], []
        n_groups = n_row_groups(self.observations, self.n_folds)
        seed = max(1, self.seed)
        parts = self.observations.held_out_parts(self.n_folds, seed, groups=self.groups)
        for random, (kept, rows, columns, values, weights) in zip(
            self._random(rank).spawn(self.n_folds), parts, strict=True
        ):
            result = fitted(kept, random)
            p = result.predict_proba(rows, columns)
            losses.append(log_loss_by_rows(rows, values, p, weights, n_groups))
            missed = (result.predict(rows, columns) != values).astype(np.float64)
            wrong.append(mean_by_rows(rows, missed, weights, n_groups))
        return np.concatenate(losses), np.concatenate(wrong)

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
        return description_length(
            replace(result, observations=self.sample.observations, row_log_odds=rows)
        )

    @cached_property
    def sample(self) -> Sample:
        """The rows in which tiles are searched."""
        return Sample.of(self.observations)

    def _as_result(self, rows: Floats, columns: Floats) -> Result:
        """Wrap factors that no run has found yet."""
        model = replace(self.settings, n_components=len(columns)).first_model()
        ending = Ending.OUT_OF_ITERATIONS
        return Result(model, self.observations, rows, columns, -np.inf, ending, 0, {})


def rank_left_out(ranks: Sequence[int], best: int) -> int | None:
    """A rank next to the best one that long steps left out; None if there is none."""
    below = max((rank for rank in ranks if rank < best), default=0)
    above = min((rank for rank in ranks if rank > best), default=best)
    for low, high in ((below, best), (best, above)):
        if high - low > 1:
            return (low + high) // 2
    return None


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


# ---------------------------------------------------------------- which score decides

# Description lengths choose if the shortest one saves at least this fraction of the bits that a
# table with holes takes without factors.
CLEAR = 0.1

# The ranks among which held-out entries choose; larger ones are tried until this many have not been
# better than the best. Of fewer entries than this, a smaller part is held out at a time, because a
# fit misses each of them. The same entries are held out whatever the seed of a fit.
RANKS = (1, 2, 3, 5, 8, 13, 21, 34, 55)
WORSE = 2
FEW_ENTRIES = 1000
MORE_FOLDS = 10
SEED = 1

# The last fit is given up for a factor that is not fitted if it has more than this share of the
# wrong entries of a constant.
LITTLE = 0.75

# Factors that are not fitted, and the log-odds of their members.
Plain = Literal["constant", "rows", "columns"]
PLAIN: tuple[Plain, ...] = get_args(Plain)
LINES: tuple[Plain, ...] = ("rows", "columns")
SURE = 8.0

# Rows, or columns, differ in their share of ones if chance alone makes such differences less often
# than this. To call noise a difference costs little: most lines then have the more frequent value.
CHANCE = 0.2


@dataclass(eq=False)
class Choice:
    """The state of a choice: everything that it needs to continue."""

    described: RankSelection | None = None  # by description length
    best: Result | None = None
    held_out: SearchState = field(default_factory=SearchState)


def choose(
    observations: ObservedEntries,
    settings: Settings,
    random: np.random.Generator,
    run: Run | None = None,
    backends: BackendFactory | None = None,
    few: bool = False,
) -> tuple[RankSelection, Result]:
    """Choose the number of factors, which depends only on the data, and fit them.

    If `few` are wanted, their number is the elbow of the curve instead of its best.
    If nothing but noise is found, a warning says so, and the answer is a constant matrix. Ctrl-C
    ends the choice with the best fit so far.
    """
    run = run or Run()
    run.recorder.checks = checks_of_search(observations.shape)
    options: dict[str, Any] = {"run": run, "backends": backends}
    last = random.spawn(1)[0]
    with run.recorder.frame("choice", Choice) as choice:
        if choice.described is None:
            choice.described, choice.best = search(
                observations, settings, random, few=few, **options
            )
        selection, result = choice.described, choice.best
        assert result is not None
        if selection.interrupted:
            return selection, result
        if not _is_clear(selection, observations):
            this = Search(
                observations,
                replace(settings, alone=False),
                SEED,
                "heldout",
                run,
                choice.held_out,
                backends,
                MORE_FOLDS if observations.n_observed < FEW_ENTRIES else N_FOLDS,
            )
            try:
                selection, plain = _by_held_out_entries(this)
                if plain is not None and plain != "constant":
                    return selection, _plain(settings, plain, observations, result)
                if plain is None:
                    chosen = selection.elbow if few else selection.best
                    full = replace(settings, n_components=chosen)
                    result = fit(observations, full, last, **options)
                    selection = replace(selection, interrupted=result.interrupted)
                    if _can_be_plain(settings) and _predicts_little(result):
                        kind, losses = _best_plain(this)
                        if kind != "constant":
                            selection = _selection_of_plain(this, losses)
                            return selection, _plain(settings, kind, observations, result)
            except KeyboardInterrupt:
                return replace(selection, interrupted=True), result.as_interrupted()
        else:
            plain = None
    fails = judging.failed(result, observations)
    if selection.criterion == "mdl":
        # In a tiny table, even perfect factors save no bits.
        saves = selection.scores.min() < judging.length_without_factors(observations)
        more = saves or judging.halves_errors(result)
        fails = fails or not (more and judging.explains(result))
    if plain == "constant" or (fails and not result.interrupted):
        return selection, _nothing_found(result, settings, selection.criterion)
    return selection, result


def _is_clear(selection: RankSelection, observations: ObservedEntries) -> bool:
    """Whether description lengths tell the number of factors; without holes, they always do."""
    n_rarer = judging.wrong_as_constant(observations)  # ones or zeros, whichever are fewer
    if judging.has_few_holes(observations) or n_rarer == 0 or observations.n_observed < MORE_FOLDS:
        return True
    nothing = judging.length_without_factors(observations)
    return bool(selection.scores.min() < (1 - CLEAR) * nothing)


def _by_held_out_entries(this: Search) -> tuple[RankSelection, Plain | None]:
    """Choose the rank that predicts held-out entries best.

    That is the rank with the lowest log-loss among those that predict nearly as many entries
    correctly as any: log-losses of large ranks hardly differ, because the learned noise makes up
    for factors that are wrong. The second value is not None if no fit predicts better than a factor
    that is not fitted. A few hundred entries are too few to predict held-out ones by whole rows or
    columns much better than by a constant; whether these differ, all entries together show.
    """
    state, settings = this.state, this.settings
    most = min(this.observations.shape)
    for rank in RANKS[len(state.ranks) :]:
        means = [score.mean() for score in state.scores]
        if rank > most or len(means) - np.argmin(means or [0.0]) > WORSE:
            break
        this.report(rank, RANKS[-1])
        this.hold_out(replace(settings, n_components=rank))
    place = _best_predictor(state)
    best = state.ranks[place]
    if not _can_be_plain(settings):
        return replace(this.selection(False), best=best), None
    plain, losses = _best_plain(this)
    if losses.mean() - state.scores[place].mean() > LEAST_GAIN / this.observations.n_observed:
        return replace(this.selection(False), best=best), None
    return _selection_of_plain(this, losses), plain


def _best_plain(this: Search) -> tuple[Plain, NDArray[np.float64]]:
    """The factor that is not fitted and predicts held-out entries best, and its log-losses (G,)."""
    fitted = partial(_plain, this.settings)
    losses = {kind: this.tested(1, partial(fitted, kind))[0] for kind in PLAIN}
    least = LEAST_GAIN / this.observations.n_observed
    differing = [
        kind
        for axis, kind in enumerate(LINES)
        if judging.chance_of_lines(this.observations, axis) < CHANCE
    ]
    plain = min(differing or PLAIN, key=lambda kind: losses[kind].mean())
    if not differing and losses["constant"].mean() - losses[plain].mean() <= least:
        plain = "constant"
    return plain, losses[plain]


def _selection_of_plain(this: Search, losses: NDArray[np.float64]) -> RankSelection:
    """The ranks tried so far, among which a factor that is not fitted has the rank 1."""
    this.state.scores[0] = losses
    return replace(this.selection(False), best=1)


def _predicts_little(result: Result) -> bool:
    """Whether the factors predict hardly more of the entries they were fitted to than a constant.

    A fit to few entries may end with factors that are all alike: only with the doubt about each of
    them do they predict anything, and it is lost when those that repeat another one are dropped.
    """
    answer, local = drop_useless(result)[0], result.observations.to_local()
    wrong = answer.predict(local.rows_of_entries(), local.indices) != local.values
    return bool(wrong.sum() > LITTLE * judging.wrong_as_constant(local))


def _best_predictor(state: SearchState) -> int:
    """Where the best rank stands: the lowest log-loss among the fewest wrong predictions.

    Numbers of wrong predictions within one standard error of their difference count as equal.
    """
    fewest = min(state.wrong, key=np.mean)
    extra = [wrong - fewest for wrong in state.wrong]
    equal = [n for n, more in enumerate(extra) if more.mean() <= standard_error(more)]
    return min(equal, key=lambda n: state.scores[n].mean())


# ---------------------------------------------------------------- factors that are not fitted


def _can_be_plain(settings: Settings) -> bool:
    return all(settings.learns(name) for name in ("noise", "row_prior", "column_prior"))


def _plain(
    settings: Settings, kind: Plain, observations: ObservedEntries, like: object = None
) -> Result:
    """Make one factor of whole rows, or of whole columns, or of all entries or none.

    With few entries, it may predict better than fitted factors. The history of the run is that of
    another result `like`, if there is one.
    """
    sides = [np.ones(n, dtype=bool) for n in observations.shape]
    counts = None
    if kind == "constant":
        sides = [side & (2 * observations.n_ones > observations.n_observed) for side in sides]
    else:
        local, axis = observations.to_local(), LINES.index(kind)
        line = (local.rows_of_entries(), local.indices)[axis]
        votes, mean = 2.0 * local.values - 1, 2 * local.n_ones / max(1, local.n_observed) - 1
        total = np.bincount(line, votes, local.shape[axis]) + mean
        sides[axis] = total > 0
        # An entry that votes for its own line would look less noisy than a new one.
        by_others = total[line] - votes > 0
        counts = np.bincount(2 * local.values + by_others, minlength=4).reshape(2, 2)
    rows, columns = (np.where(side, SURE, -SURE).astype(np.float32) for side in sides)
    first = replace(settings, n_components=1).first_model()
    result = Result(
        first,
        observations,
        rows[:, None],
        columns[None],
        0.0,
        Ending.CONVERGED,
        like.n_iter if isinstance(like, Result) else 0,
        like.history if isinstance(like, Result) else {},
        marginal=True,
        stability=np.ones(1),
    )
    model = model_from_bits(settings, observations, result)
    if counts is not None:
        model = replace(model, channel=channel_from_counts(counts))
    return replace(result, model=model, log_posterior=_log_posterior(result, model))


def _log_posterior(result: Result, model: Model) -> float:
    """log p(X) + log p(Y) + log p(O | X • Y) with a channel that is the same for all entries."""
    given = np.column_stack(model.channel.log_probabilities_by_value())
    total = float(np.sum(result.decoded_counts(result.observations) * given))
    for bits, prior in ((result.X, model.row_prior), (result.Y, model.column_prior)):
        total += float(np.sum(np.where(bits, np.log(prior), np.log1p(-np.asarray(prior)))))
    return total


def _nothing_found(result: Result, settings: Settings, criterion: str) -> Result:
    """Warn, and return a constant matrix, unless noise or priors are given."""
    than = "describe the table in fewer bits than no factors"
    if criterion == "heldout":
        than = "predict held-out entries better than a constant"
    answer = "the answer may be worse than a constant matrix"
    if _can_be_plain(settings):
        result = _plain(settings, "constant", result.observations, result)
        answer = f"the answer is a constant matrix of {['zeros', 'ones'][int(result.Y.any())]}"
    warn_user(
        f"nothing but noise was found: no number of factors was found to {than}, so {answer}. For "
        'factors that explain the observed entries nevertheless, set `objective="errors"`.',
        UninformativeWarning,
    )
    return result
