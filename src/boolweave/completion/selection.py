"""The choice of a model by held-out entries.

Folds of the entries are held out in turn. First, chains with several numbers of directions predict
them; then the plain Boolean model; then chains with Boolean layers, whose strength is varied step
by step. The log-odds of the best of each kind are blended, or of fewer kinds if that is not
significantly worse.
"""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from boolweave.completion.chain import Draw, Trial, Tried, try_directions, try_layers
from boolweave.completion.ensemble import REGRESSIONS, PlainBoolean, Structure, limited_log_odds
from boolweave.completion.regressions import PENALTIES, can_regress, fit_regressions
from boolweave.completion.table import Table
from boolweave.completion.tasks import Runner
from boolweave.data.observations import Observations
from boolweave.data.questions import Questions
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.metrics import AnswerScores, answer_scores, log_loss
from boolweave.model.odds import sigmoid
from boolweave.runtime.run import OutOfTime
from boolweave.runtime.types import Doubles

# The numbers of directions, layers and factors that "auto" tries.
DIRECTIONS, MORE_DIRECTIONS = (0, 2, 8), 16
MOST_LAYERS, MOST_LAYERS_OF_FEW = 6, 3
COMPONENTS, OTHER_COMPONENTS = 4, 8

# With more entries than this, fewer models are tried, each from one start: this many layers, with
# these strengths.
LARGE, LARGE_LAYERS, LARGE_STRENGTHS = 300_000, 4, (0.8, 0.8 / 2**0.5)

# The strength of layers is varied by this factor, from the first one on, with at most this many
# trials.
FIRST_STRENGTH, STRENGTH_STEP, MOST_STRENGTHS = 0.8, 2**0.5, 5

# Chains without layers on each fold. Unless entries are very many, chains differ, and the mean over
# several of them, as over the members of an ensemble, is less certain than each of them; only a
# mean shows by how much.
DIRECTION_STARTS = 3

# A tenth of the entries is held out, in as many folds as are needed to hold out this many of them.
# If there are few entries, all of them are held out, in seven folds or in four.
HELD_OUT, ENOUGH, FEW = 0.1, 5000, 10_000
FEW_FOLDS, VERY_FEW, VERY_FEW_FOLDS = 7, 1000, 4
LEAST_ENTRIES = 20

# The same for whole answers, which consist of several entries. A table without a tenth of its
# answers is noticeably harder to complete, so that a smaller part shows better what to expect.
ANSWERS_OUT, ENOUGH_ANSWERS = 0.05, 2500

# A less simple model must lower the total log-loss of the held-out entries by this much, and by
# this many standard errors of the difference. That is one for another family of a blend, which is
# safe because it is an average, and more for many directions instead of few or none, because the
# best of several equally good models looks better than it is. Few directions need no such proof,
# since their variances shrink if the entries do not support them. The pattern of entries needs one
# standard error, because it is only tried if it is not random.
LEAST_GAIN, BLEND_ERRORS, DIRECTION_ERRORS, PATTERN_ERRORS = 2.0, 1.0, 1.5, 1.0
FEW_DIRECTIONS = 2


class Fold(NamedTuple):
    """Held-out entries, and the table without them."""

    table: Table
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    values: NDArray[np.uint8]
    weights: Doubles


@dataclass(eq=False)
class Candidate:
    """A model that was tried."""

    name: str
    kind: Literal["directions", "layers", "plain", "regressions"]
    structure: Structure
    odds: Doubles  # (held out,) log-odds
    seconds: float
    draws: list[Draw] = field(default_factory=list)
    penalty: float = 0.0  # of regressions


@dataclass(frozen=True, eq=False)
class Choice:
    """The models that were chosen, and their weights."""

    chosen: list[Candidate]
    weights: Doubles  # (1 + kinds,) intercept and weights of log-odds
    table: list[dict[str, Any]]  # the models that were tried


def offsets_alone(tried: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The line about offsets without directions and layers; None if these were not tried.

    If models use the pattern of entries, so do these offsets.
    """
    lines = {line["model"]: line for line in tried}
    names = (Structure(pattern=used).name for used in (False, True))
    return next((lines[name] for name in names if name in lines), None)


class Wanted(NamedTuple):
    """The numbers that the user set; None if they are to be chosen."""

    n_directions: int | None
    n_layers: int | None
    n_components: int | None
    n_jobs: int | None


def make_folds(
    table: Table, random: np.random.Generator, questions: Questions | None = None
) -> list[Fold]:
    """Hold out parts of the entries; return no folds if there are too few entries.

    Each part has the same fractions of ones and zeros, or of levels. The fraction of ones is known
    from all entries, and the intercept of the blend must not shift it to that of a sample. If
    the questions of the columns are known, parts consist of whole answers.
    """
    n = table.n_entries
    answers = table.observations.answers_of_entries(questions)
    n_answers = int(answers.max(initial=-1)) + 1
    if n < LEAST_ENTRIES or n_answers < 2:
        return []
    if n < FEW:
        n_parts = n_folds = min(FEW_FOLDS if n >= VERY_FEW else VERY_FEW_FOLDS, n_answers)
    else:
        share, enough = (HELD_OUT, ENOUGH) if questions is None else (ANSWERS_OUT, ENOUGH_ANSWERS)
        n_parts = min(round(1 / share), n_answers)
        n_folds = max(1, min(n_parts, -(-enough * n_parts // n_answers)))
    levels: NDArray[np.generic] = table.levels
    if questions is not None:
        levels = np.bincount(answers, levels) / np.bincount(answers)  # the mean of each answer
    order = random.permutation(n_answers)
    part = np.empty(n_answers, dtype=np.intp)
    part[order[np.argsort(levels[order], kind="stable")]] = np.arange(n_answers) % n_parts
    part = part[answers]
    rows = table.observations.rows_of_entries()
    folds = []
    for i in range(n_folds):
        hidden = part == i
        weights = np.ones(hidden.sum()) if table.weights is None else table.weights[hidden]
        columns = table.observations.indices[hidden].astype(np.intp)
        values = table.observations.values[hidden]
        folds.append(Fold(table.part(~hidden), rows[hidden], columns, values, weights))
    return folds


class Selection:
    """Tries models on held-out entries, one kind after another."""

    def __init__(
        self,
        folds: list[Fold],
        wanted: Wanted,
        cut: int,
        random: np.random.Generator,
        run: Runner,
        say: Callable[[str], None],
        questions: Questions | None = None,
    ) -> None:
        self.folds, self.wanted, self.cut, self.questions = folds, wanted, cut, questions
        self.random, self.run, self.say = random, run, say
        self.values = np.concatenate([fold.values for fold in folds])
        self.weights = np.concatenate([fold.weights for fold in folds])
        self.is_large = folds[0].table.n_entries > LARGE
        self.tried: list[Candidate] = []
        self.pattern = False  # whether models use the pattern of entries
        self.interrupted = False

    # ------------------------------------------------------------ trials

    def choose(self) -> Choice:
        """Try all kinds and blend the best ones; after Ctrl-C, the best of those tried so far."""
        try:
            self._try_directions()
            self._try_plain()
            self._try_regressions()
            if self.wanted.n_layers != 0:
                self._try_layers()
        except KeyboardInterrupt as reason:
            if not self.tried:
                raise
            self.interrupted = not isinstance(reason, OutOfTime)
        return self._blended()

    def _try_directions(self) -> None:
        """Try numbers of directions, with the pattern of entries if that helps."""
        wanted = self.wanted.n_directions
        numbers = set(DIRECTIONS) if wanted is None else {0, wanted}
        smaller = max(2, min(self.folds[0].table.shape))
        numbers = {n for n in numbers if n < smaller or n == wanted}
        self._try_pattern(max(n for n in numbers if n <= FEW_DIRECTIONS))
        losses = self._try_numbers(numbers)
        most = max(losses)
        gain = min((loss for n, loss in losses.items() if n < most), default=0.0) - losses[most]
        enough = self.folds[0].table.n_entries >= FEW
        more = wanted is None and smaller > MORE_DIRECTIONS and enough
        if more and gain * len(self.values) > LEAST_GAIN:
            self._try_numbers({MORE_DIRECTIONS})

    def _try_pattern(self, n_directions: int) -> None:
        """Decide by one start on each fold whether models use the pattern of entries.

        The better one is then tried again, with more starts, which replaces this trial.
        """
        if not all(fold.table.find_pattern(self.run.check).n_features for fold in self.folds):
            return
        structures = [Structure(n_directions), Structure(n_directions, pattern=True)]
        self._try("directions", structures, try_directions, 1)
        without, with_pattern = self.tried
        self.pattern = self._is_better([with_pattern], [without], PATTERN_ERRORS)

    def _try_numbers(self, numbers: set[int]) -> dict[int, float]:
        """Try numbers of directions, and return the loss of each."""
        # The longest task comes first, because with one fold it keeps a thread busy by itself.
        structures = [Structure(n, pattern=self.pattern) for n in sorted(numbers, reverse=True)]
        n_starts = 1 if self.is_large else DIRECTION_STARTS
        found = self._try("directions", structures, try_directions, n_starts)
        return {s.n_directions: loss for s, loss in zip(structures, found, strict=True)}

    def _try_layers(self) -> None:
        wanted, components = self.wanted.n_layers, self.wanted.n_components
        few = self.folds[0].table.n_entries < FEW
        most = MOST_LAYERS_OF_FEW if few else LARGE_LAYERS if self.is_large else MOST_LAYERS
        n_layers = most if wanted is None else wanted
        structure = Structure(0, n_layers, components or COMPONENTS, FIRST_STRENGTH, self.pattern)
        offsets = Structure(pattern=self.pattern)
        draws = next(c.draws for c in self._of_kind("directions") if c.structure == offsets)
        losses: dict[float, float] = {}

        def loss_at(strength: float, n_components: int = structure.n_components) -> float:
            tried = replace(structure, strength=strength, n_components=n_components)
            # Starts of layers on each fold if there are one or two folds; with more folds, one is
            # enough.
            layer_starts = 2
            n_starts = 1 if len(self.folds) > layer_starts else layer_starts
            return self._try("layers", [tried], try_layers, n_starts, draws)[0]

        if self.is_large:  # all at once, because with one fold threads would have nothing to do
            tried = [replace(structure, strength=strength) for strength in LARGE_STRENGTHS]
            self._try("layers", tried, try_layers, 1, draws)
            return
        least = self._loss_of(self._best_without("layers")) - LEAST_GAIN / len(self.values)
        losses[FIRST_STRENGTH] = loss_at(FIRST_STRENGTH)
        for step in (STRENGTH_STEP, 1 / STRENGTH_STEP):
            while len(losses) < MOST_STRENGTHS:
                if len(losses) > 1 and min(losses.values()) > least:
                    return  # layers bring nothing
                last = min(losses, key=losses.__getitem__)
                following = last * step
                if any(abs(following / known - 1) < 1e-6 for known in losses):
                    break
                losses[following] = loss_at(following)
                if losses[following] >= losses[last]:
                    break
        if components is None and not few:
            loss_at(min(losses, key=losses.__getitem__), OTHER_COMPONENTS)

    def _try(
        self,
        kind: Literal["directions", "layers"],
        structures: list[Structure],
        function: Callable[[Trial], Tried],
        n_starts: int,
        draws: list[Draw] | None = None,
    ) -> list[float]:
        """Try structures on all folds; return the loss of each, blended with the best others."""
        begun = time.perf_counter()
        starts: list[Draw | None] = [None] * len(self.folds) if draws is None else [*draws]
        trials = [
            Trial(fold.table, structure, seed, fold.rows, fold.columns, self.cut, start)
            for structure in structures
            for fold, start in zip(self.folds, starts, strict=False)
            for seed in (int(self.random.integers(2**63)) for _ in range(n_starts))
        ]
        done = list(self.run(function, trials))
        seconds = (time.perf_counter() - begun) / len(structures)
        n_each = len(self.folds) * n_starts
        losses = []
        for number, structure in enumerate(structures):
            own = done[number * n_each : (number + 1) * n_each]
            parts = [own[i : i + n_starts] for i in range(0, n_each, n_starts)]
            # Members with layers begin like the trials, from offsets fitted without layers. The
            # first start of each fold comes first, because trials with layers begin there.
            ends = draws or [part[j].draw for j in range(n_starts) for part in parts]
            chances = [np.mean([tried.chances for tried in part], axis=0) for part in parts]
            odds = limited_log_odds(np.concatenate(chances, axis=1))
            best = np.inf
            for step, each in enumerate(odds):
                made = structure if kind == "directions" else replace(structure, n_layers=step + 1)
                if kind == "layers" and self.wanted.n_layers not in (None, step + 1):
                    continue
                candidate = Candidate(made.name, kind, made, each, seconds / len(odds), ends)
                self.tried = [c for c in self.tried if (c.kind, c.structure) != (kind, made)]
                self.tried.append(candidate)
                best = min(best, self._loss_of([*self._best_without(kind), candidate]))
            self.say(f"{structure.name}: held-out log-loss {best:.4f}")
            losses.append(best)
        return losses

    def _try_plain(self) -> None:
        begun = time.perf_counter()
        sizes = np.cumsum([0, *(len(fold.values) for fold in self.folds)])
        best = self._best("directions")
        n_components = self.wanted.n_components
        odds: list[Doubles] = []
        for i, fold in enumerate(self.folds):
            seed = int(self.random.integers(2**31))
            known = best.odds[sizes[i] : sizes[i + 1]]
            how = self.wanted.n_jobs, self.run.left
            if i == 0 and is_far_behind(fold, sigmoid(known), seed, *how):
                self.say("plain Boolean model: far behind on held-out entries")
                return
            self.run.check()
            how = self.wanted.n_jobs, self.run.left
            found = fit_plain(fold.table.observations, n_components, seed, 1.0, *how)
            self.run.check()
            n_components = max(1, found.rows.shape[1])
            odds.append(limited_log_odds(found.probabilities(fold.rows, fold.columns)))
        seconds = time.perf_counter() - begun
        structure = Structure(n_components=self.wanted.n_components or 0)
        everything = np.concatenate(odds)
        self.tried.append(Candidate("plain Boolean model", "plain", structure, everything, seconds))
        self.say(f"plain Boolean model: held-out log-loss {self._loss_of([self.tried[-1]]):.4f}")

    def _try_regressions(self) -> None:
        """Try regressions on the answers to other questions, with each penalty."""
        questions = self.questions
        if questions is None or not can_regress(self.folds[0].table, questions):
            return
        for penalty in PENALTIES:
            begun = time.perf_counter()
            odds = [
                fit_regressions(
                    fold.table, questions, penalty, 1.0, self.random, self.run.left
                ).log_odds_at(fold.rows, fold.columns)
                for fold in self.folds
            ]
            self.run.check()
            seconds = time.perf_counter() - begun
            name = f"{REGRESSIONS} (penalty {penalty:g})"
            everything = np.concatenate(odds)
            candidate = Candidate(
                name, "regressions", Structure(), everything, seconds, penalty=penalty
            )
            self.tried.append(candidate)
            self.say(f"{name}: held-out log-loss {self._loss_of([candidate]):.4f}")

    # ------------------------------------------------------------ judging

    def _loss(self, odds: Doubles) -> float:
        """Mean log-loss of the held-out entries."""
        losses = np.logaddexp(0, odds) - self.values * odds
        return float(np.average(losses, weights=self.weights))

    def _odds_of(self, candidates: list[Candidate]) -> Doubles:
        """Log-odds of the blend."""
        odds = np.column_stack([candidate.odds for candidate in candidates])
        weights = self._weights_of(candidates)
        return np.asarray(weights[0] + odds @ weights[1:])

    def _weights_of(self, candidates: list[Candidate]) -> Doubles:
        odds = np.column_stack([candidate.odds for candidate in candidates])
        return blend(odds, self.values, self.weights)

    def _loss_of(self, candidates: list[Candidate]) -> float:
        return self._loss(self._odds_of(candidates))

    def _is_better(
        self, candidates: list[Candidate], fewer: list[Candidate], n_errors: float
    ) -> bool:
        """Whether a blend is better than another one by more than chance would explain."""
        odds, other = self._odds_of(candidates), self._odds_of(fewer)
        gains = np.logaddexp(0, other) - np.logaddexp(0, odds) + self.values * (odds - other)
        gains *= self.weights
        error = float(gains.std()) * math.sqrt(len(gains))
        return float(gains.sum()) >= max(LEAST_GAIN, n_errors * error)

    def _best(self, kind: str) -> Candidate:
        """The best model of a kind, with few directions unless more are significantly better.

        The best layers are those that are best in a blend.
        """
        rest = self._best_without("layers") if kind == "layers" else []
        of_kind = self._of_kind(kind)
        best = min(of_kind, key=lambda candidate: self._loss_of([*rest, candidate]))
        if kind == "directions" and self.wanted.n_directions is None:
            few = [c for c in of_kind if c.structure.n_directions <= FEW_DIRECTIONS]
            simple = min(few, key=lambda candidate: self._loss_of([candidate]))
            return best if self._is_better([best], [simple], DIRECTION_ERRORS) else simple
        return best

    def _of_kind(self, kind: str) -> list[Candidate]:
        """Models of a kind, except those that were tried to decide about the pattern of entries."""
        return [
            candidate
            for candidate in self.tried
            if candidate.kind == kind
            and (candidate.structure.pattern == self.pattern or kind in ("plain", "regressions"))
        ]

    def _best_without(self, kind: str) -> list[Candidate]:
        kinds = dict.fromkeys(candidate.kind for candidate in self.tried)
        return [self._best(other) for other in kinds if other not in (kind, "layers")]

    def _blended(self) -> Choice:
        """Blend the best of each kind, or fewer of them if that is not significantly worse."""
        kinds = dict.fromkeys(candidate.kind for candidate in self.tried)
        bests = [self._best(kind) for kind in kinds]
        # A family with less weight than this is left out, and so costs nothing.
        least_weight = 0.08
        every = [
            list(some)
            for size in range(1, len(bests) + 1)
            for some in itertools.combinations(bests, size)
            if size == 1 or self._weights_of(list(some))[1:].min() >= least_weight
        ]
        best = min(every, key=self._loss_of)
        chosen = next(
            some for some in every if some is best or not self._is_better(best, some, BLEND_ERRORS)
        )
        weights = self._weights_of(chosen)
        table = self._table(chosen, weights)
        return Choice(chosen, weights, table)

    def _table(self, chosen: list[Candidate], weights: Doubles) -> list[dict[str, Any]]:
        """The blend, and then the models that were tried, the best first."""
        rows = [
            self._row(candidate.name, candidate.odds, candidate.seconds, 0.0)
            for candidate in self.tried
        ]
        for candidate, weight in zip(chosen, weights[1:].tolist(), strict=True):
            rows[self.tried.index(candidate)]["weight"] = weight
        rows.sort(key=lambda row: row["log_loss"])
        odds = self._odds_of(chosen)
        seconds = sum(candidate.seconds for candidate in self.tried)
        return [self._row("blend", odds, seconds, 1.0), *rows]

    def _scores(self, odds: Doubles, questions: Questions) -> AnswerScores:
        """How well whole answers are predicted."""
        first = np.cumsum([0, *(fold.table.shape[0] for fold in self.folds[:-1])])
        rows = np.concatenate([n + fold.rows for n, fold in zip(first, self.folds, strict=True)])
        columns = np.concatenate([fold.columns for fold in self.folds])
        chances = questions.consistent_entries(rows, columns, sigmoid(odds))
        return answer_scores(rows, columns, self.values, chances, questions, self.weights)

    def _row(self, name: str, odds: Doubles, seconds: float, weight: float) -> dict[str, Any]:
        if self.questions is not None:
            scores = self._scores(odds, self.questions)
            return {
                "model": name,
                "log_loss": scores.log_loss,
                "standard_error": scores.standard_error,
                "accuracy": scores.accuracy,
                "weight": weight,
                "seconds": round(seconds, 3),
            }
        losses = np.logaddexp(0, odds) - self.values * odds
        right = (odds > 0) == self.values
        return {
            "model": name,
            "log_loss": self._loss(odds),
            "standard_error": float(losses.std() / np.sqrt(len(losses))),
            "accuracy": float(np.average(right, weights=self.weights)),
            "weight": weight,
            "seconds": round(seconds, 3),
        }


# ---------------------------------------------------------------- the plain Boolean model


def fit_plain(
    observations: Observations,
    n_components: int | None,
    seed: int,
    weight: float = 1.0,
    n_jobs: int | None = None,
    max_time: float | None = None,
) -> PlainBoolean:
    """Fit factors, noise and priors, and keep the probabilities of all bits; ignore labels."""
    bare = Observations(
        observations.shape, observations.indptr, observations.indices, observations.values
    )
    model = BooleanMatrixFactorization(
        "auto" if n_components is None else n_components,
        noise="learn",
        absent="missing",
        random_state=seed,
        n_jobs=n_jobs,
        max_time=max_time,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an uninformative answer gets a bad score anyway
        model.fit(bare)
    channel = model.noise_
    return PlainBoolean(
        sigmoid(model.row_log_odds_).astype(np.float32),
        sigmoid(model.column_log_odds_).astype(np.float32),
        float(np.asarray(channel.one_given_zero).mean()),
        float(np.asarray(channel.one_given_one).mean()),
        model.product,
        weight,
    )


def is_far_behind(
    fold: Fold, known: Doubles, seed: int, n_jobs: int | None, max_time: float | None = None
) -> bool:
    """Whether the plain model predicts held-out entries far worse than the known predictions.

    It is tried with a number of factors that suffices for this; surplus ones stay empty.
    """
    seen = fold.table.observations
    some = np.ones(seen.n_rows, dtype=bool)
    # It is first tried with this many factors, on a large table with a sample of rows that have
    # about this many entries. It is given up if its log-loss is worse than the best known one by
    # more than this factor.
    screened = 8
    sample = 100_000
    far_behind = 1.08
    if seen.n_observed > sample:
        some = np.random.default_rng(seed).random(seen.n_rows) < sample / seen.n_observed
    held = some[fold.rows]
    if not held.any():
        return True
    n_components = min(screened, *(max(1, n - 1) for n in seen.shape))
    found = fit_plain(seen.take_rows(some), n_components, seed, 1.0, n_jobs, max_time)
    place = np.cumsum(some) - 1
    chance = found.probabilities(place[fold.rows[held]], fold.columns[held])
    values = fold.values[held]
    return log_loss(values, chance) > far_behind * log_loss(values, known[held])


# ---------------------------------------------------------------- blending


def blend(odds: Doubles, values: NDArray[np.uint8], weights: Doubles | None = None) -> Doubles:
    """Intercept and non-negative weights (1 + F,) of log-odds (n, F) for bits (n,).

    Minimizes the log-loss plus the negative logarithm of a normal prior: intercept 0, weights 1/F.
    """
    n_families = odds.shape[1]
    count = np.ones(len(odds)) if weights is None else weights
    center = np.concatenate([[0.0], np.full(n_families, 1 / n_families)])
    # The prior: standard deviations of the intercept around 0 and of each weight around an equal
    # share. A few held-out entries then change little. Averages of probabilities are too close to
    # one half, above it and below it, so the weights stretch the log-odds about 0 and not about
    # their mean.
    intercept_deviation = 0.2
    weight_deviation = 0.2
    deviation = np.concatenate([[intercept_deviation], np.full(n_families, weight_deviation)])
    x = np.column_stack([np.ones(len(odds)), odds])

    def loss(w: Doubles) -> tuple[float, Doubles]:
        v = x @ w
        gap = (w - center) / deviation
        total = np.sum(count * (np.logaddexp(0, v) - values * v)) + 0.5 * gap @ gap
        return float(total), x.T @ (count * (sigmoid(v) - values)) + gap / deviation

    bounds = [(None, None), *[(0.0, None)] * n_families]
    found: Doubles = minimize(loss, center, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found
