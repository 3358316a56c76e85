"""A Markov chain over offsets and directions, with Boolean layers fitted by message passing.

The mean of an entry is s = a_m + b_n + u_m · v_n + the contributions of Boolean layers; a one is
observed if s plus standard normal noise is above 0. Offsets a, b and directions u, v are drawn in
turn from their distributions given the rest. Their priors are normal, with variances and
regressions on features that are drawn, too; so directions that the data do not support shrink by
themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs
from scipy.special import ndtr, ndtri

from boolweave.completion.ensemble import LayerFactors, Member, Structure
from boolweave.completion.kernels.drawing import (
    Draws,
    Link,
    Mixed,
    Prior,
    draw_lines,
    entry_means,
    slope_table,
)
from boolweave.completion.layers import LOGS, BooleanLayer, LayerEntries
from boolweave.completion.table import Features, Table
from boolweave.completion.tasks import check_time
from boolweave.runtime.run import OutOfTime
from boolweave.runtime.types import Doubles, Floats, Positions

SLOPES = slope_table()

# Prior of a variance: it counts like this many lines with this variance.
PRIOR_LINES, PRIOR_VARIANCE = 2.0, 0.5

# Prior variance of a coefficient: of the constant, which is free, and of features. If all entries
# have the same value, they only show that the constant is large, and the prior limits it.
FREE, FREE_OF_ONE_VALUE, SMALL = 100.0, 4.0, 0.25

# Number of sweeps after a layer was added, and of draws that are averaged after them. Strong layers
# take long to converge, so trials and members must give them the same time.
LAYER_BURN_IN, LAYER_DRAWS = 2, 4


@dataclass(eq=False)
class Side:
    """The parameters of all rows, or of all columns."""

    lines: Doubles  # (lines, D): directions and, last, the offset
    variance: Doubles  # (D,)
    coefficients: Doubles  # (F, D), of the regression on features
    centers: Doubles  # (lines, D), where the next draw of a line begins

    @classmethod
    def random(
        cls, n: int, n_features: int, n_directions: int, random: np.random.Generator
    ) -> Side:
        """Random directions, and offsets of 0."""
        lines = np.zeros((n, n_directions + 1))
        # First variance of offsets and directions.
        first_variance = 0.3
        lines[:, :-1] = random.normal(size=(n, n_directions)) * np.sqrt(first_variance)
        variance = np.full(n_directions + 1, first_variance)
        return cls(lines, variance, np.zeros((n_features, n_directions + 1)), lines.copy())

    def take(self, some: NDArray[np.intp]) -> Side:
        """Some of the lines, with the same coefficients and variances."""
        own = self.variance.copy(), self.coefficients.copy()
        return Side(self.lines[some], *own, self.centers[some])

    def among(
        self, some: NDArray[np.intp], features: Features, random: np.random.Generator
    ) -> Side:
        """All lines, with these in their places; the others, by their features, from the prior."""
        centers = features.here @ self.coefficients
        lines = centers + random.normal(size=centers.shape) * np.sqrt(self.variance)
        lines[some], centers[some] = self.lines, self.centers
        return Side(lines, self.variance.copy(), self.coefficients.copy(), centers)

    def learn(
        self, features: Features, constant: float | None, random: np.random.Generator
    ) -> None:
        """Draw coefficients and variances, given the lines and the prior variance of a constant."""
        known, lines = features.here, self.lines
        last = lines.shape[1] - 1
        # Only the offset depends on the constant and on the number of entries.
        first = 0 if features.n_features > 2 else last
        spread = np.full(self.coefficients.shape, SMALL)
        if constant is not None:
            spread[0] = constant
        if features.n_pattern:
            spread[-features.n_pattern :] = self._pattern_variance(features.n_pattern, random)
        pulls = known.T @ lines
        for d in range(first, last + 1):
            used = slice(2 if d < last else 1 if constant is None else 0, None)
            if features.n_features > used.start:
                precision = features.products[used, used] / self.variance[d]
                precision.flat[:: len(precision) + 1] += 1 / spread[used, d]
                pull = pulls[used, d] / self.variance[d]
                self.coefficients[used, d] = normal_draw(precision, pull, random)
        gaps = lines - known @ self.coefficients
        shape = (PRIOR_LINES + len(lines)) / 2
        scale = (PRIOR_LINES * PRIOR_VARIANCE + (gaps**2).sum(axis=0)) / 2
        self.variance = scale / random.gamma(shape, size=len(scale))

    def _pattern_variance(self, n_pattern: int, random: np.random.Generator) -> Doubles:
        """Draw the prior variances of the coefficients of the pattern, (D,)."""
        squares = (self.coefficients[-n_pattern:] ** 2).sum(axis=0)
        # Prior of the variance of coefficients of the pattern of entries: it counts like this many
        # coefficients with this variance.
        pattern_coefficients, pattern_variance = 2.0, 0.1
        scale = (pattern_coefficients * pattern_variance + squares) / 2
        drawn = random.gamma((pattern_coefficients + n_pattern) / 2, size=len(scale))
        return np.asarray(scale / drawn)

    def relearn(
        self, features: Features, constant: float | None, random: np.random.Generator
    ) -> None:
        """Draw coefficients for another pattern of entries, whose features have other meanings."""
        kept = self.coefficients[: features.n_features - features.n_pattern]
        added = np.zeros((features.n_pattern, kept.shape[1]))
        self.coefficients = np.concatenate([kept, added])
        variance = self.variance
        self.learn(features, constant, random)
        self.variance = variance


def normal_draw(precision: Doubles, pull: Doubles, random: np.random.Generator) -> Doubles:
    """Draw from N(A⁻¹h, A⁻¹), (F,), with A = precision (F, F) and h = pull (F,).

    LAPACK is called directly: for a few numbers, the functions of NumPy prepare longer than they
    compute.
    """
    root, failed = dpotrf(precision, lower=1)
    if failed:
        raise np.linalg.LinAlgError("the precision of a regression is not positive definite")
    right, _ = dtrtrs(root, pull, lower=1)
    drawn, _ = dtrtrs(root, right + random.normal(size=len(pull)), lower=1, trans=1)
    return np.asarray(drawn)


class Draw(NamedTuple):
    """A draw from which a chain can continue."""

    rows: Side
    columns: Side
    cuts: Doubles


@dataclass(eq=False)
class Chain:
    """The current draw of the lines that have entries; nothing can be learned about the others."""

    whole: Table
    structure: Structure
    random: np.random.Generator
    rows: Side
    columns: Side
    cuts: Doubles = field(default_factory=lambda: BINARY_CUTS.copy())
    layers: list[BooleanLayer] = field(default_factory=list)
    end: float | None = None  # no sweep, and no message of a layer, begins after this time

    @cached_property
    def features(self) -> tuple[Features, Features]:
        """The features of the rows and columns that have entries."""
        features, filled = self.whole.features(self.structure.pattern), self.whole.filled
        return features[0].take(filled.rows), features[1].take(filled.columns)

    @cached_property
    def constants(self) -> tuple[float, None]:
        """Prior variances of the constants of rows and of columns; one constant is enough."""
        values = self.whole.observations.values
        has_both = len(values) > 0 and values.min() != values.max()
        return (FREE if has_both else FREE_OF_ONE_VALUE), None

    @classmethod
    def start(cls, table: Table, structure: Structure, random: np.random.Generator) -> Chain:
        """Begin a chain with random directions."""
        filled = table.filled.table
        rows, columns = (
            Side.random(n, features.n_features, structure.n_directions, random)
            for n, features in zip(filled.shape, table.features(structure.pattern), strict=True)
        )
        return cls(table, structure, random, rows, columns, first_cuts(table))

    @classmethod
    def resume(
        cls, table: Table, structure: Structure, draw: Draw, random: np.random.Generator
    ) -> Chain:
        """Begin a chain with a draw of another one, on a table of the same shape; no layers."""
        filled = table.filled
        rows, columns = draw.rows.take(filled.rows), draw.columns.take(filled.columns)
        chain = cls(table, structure, random, rows, columns, draw.cuts.copy())
        if structure.pattern:
            for i, side in enumerate((rows, columns)):
                side.relearn(chain.features[i], chain.constants[i], random)
        return chain

    @property
    def table(self) -> Table:
        """The table of the lines that have entries."""
        return self.whole.filled.table

    def draw(self) -> Draw:
        """The current draw of all lines; lines without entries are drawn from the prior."""
        filled, features = self.whole.filled, self.whole.features(self.structure.pattern)
        rows = self.rows.among(filled.rows, features[0], self.random)
        columns = self.columns.among(filled.columns, features[1], self.random)
        return Draw(rows, columns, self.cuts.copy())

    def sweep(self) -> None:
        """Draw all rows, then all columns, then thresholds, coefficients and variances."""
        check_time(self.end)
        table, mixed = self.table, self._mixed()
        sides, features = (self.rows, self.columns), self.features
        for i, lines in enumerate((table.by_row, table.by_column)):
            own, other = sides[i], sides[1 - i]
            link = Link(self.cuts, SLOPES, LOGS)
            prior = Prior(features[i].here @ own.coefficients, own.variance)
            draws = Draws(own.centers, own.lines), other.lines
            seed = int(self.random.integers(2**63))
            draw_lines(lines, link, mixed, table.weights, prior, *draws, seed, 0, len(own.lines))
        if len(self.cuts) > len(BINARY_CUTS):
            self._move_cuts()
        for i, side in enumerate(sides):
            side.learn(features[i], self.constants[i], self.random)

    def _move_cuts(self) -> None:
        """Take a Newton step for the thresholds between levels; the one at 0 is fixed."""
        mean = np.empty(self.table.n_entries)
        entry_means(self.table.by_row, self.rows.lines, self.columns.lines, mean)
        mixed = self._mixed()
        scale = 1.0 if mixed is None else 1 / np.sqrt(1.0 + mixed.variance)
        if mixed is not None:
            mean += mixed.shift
        self.cuts = moved_cuts(self.cuts, mean, scale, self.table.levels)

    # ------------------------------------------------------------ layers

    def add_layer(self, entries: LayerEntries) -> None:
        """Add a layer with random beliefs, and pass messages in all layers."""
        sign = 1 if len(self.layers) % 2 == 0 else -1
        layer = BooleanLayer(
            entries, self.structure.n_components, sign * self.structure.strength, self.random
        )
        # Steps of message passing in a new layer, and then in each layer.
        first_steps, more_steps = 15, 3
        self._update(layer, first_steps)
        self.layers.append(layer)
        self.update_layers(more_steps)

    def update_layers(self, n_steps: int) -> None:
        """Pass messages in each layer in turn."""
        for layer in self.layers:
            self._update(layer, n_steps)

    def _update(self, layer: BooleanLayer, n_steps: int) -> None:
        check_time(self.end)
        mean = np.empty(self.table.n_entries, dtype=np.float32)
        entry_means(self.table.by_row, self.rows.lines, self.columns.lines, mean)
        variance = np.zeros_like(mean)
        for other in self.layers:
            if other is not layer:
                mean += other.shift
                variance += other.variance
        layer.update(mean, variance, self.cuts, n_steps)

    def _mixed(self) -> Mixed | None:
        if not self.layers:
            return None
        shift = np.zeros(self.table.n_entries, dtype=np.float32)
        variance = np.zeros_like(shift)
        for layer in self.layers:
            shift += layer.shift
            variance += layer.variance
        return Mixed(shift, variance)

    # ------------------------------------------------------------ a member

    def burn_in(self, n_sweeps: int) -> list[Member]:
        """Run some sweeps, then add the layers one by one; return an average after each."""
        for _ in range(n_sweeps):
            self.sweep()
        if not self.structure.n_layers:
            return []
        entries = LayerEntries(self.table)
        return [self._grow(entries) for _ in range(self.structure.n_layers)]

    def _grow(self, entries: LayerEntries) -> Member:
        self.add_layer(entries)
        for _ in range(LAYER_BURN_IN):
            self.sweep()
            self.update_layers(1)
        return self.average_draws(LAYER_DRAWS)

    def member(self, n_sweeps: int, n_draws: int) -> Member:
        """Let the chain converge, and average some draws."""
        self.burn_in(n_sweeps)
        return self.average_draws(n_draws)

    def average_draws(self, n_draws: int) -> Member:
        """Run some sweeps and keep their means and variances."""
        mean = _Mean()
        for _ in range(n_draws):
            self.sweep()
            self.update_layers(1)
            mean.add(self)
        return mean.member(self)


class _Mean:
    """Sums of draws, for their means."""

    def __init__(self) -> None:
        self.n = 0
        self.sums: list[Doubles] = []

    def add(self, chain: Chain) -> None:
        """Add the current draw."""
        parts: list[NDArray[Any]] = []
        for side, features in zip((chain.rows, chain.columns), chain.features, strict=True):
            lines = side.lines + (features.elsewhere - features.here) @ side.coefficients
            parts += [lines, lines**2, side.coefficients, side.variance]
        for layer in chain.layers:
            parts += layer.probabilities()
        parts.append(chain.cuts)
        if not self.n:
            self.sums = [np.zeros_like(part, dtype=np.float64) for part in parts]
        for total, part in zip(self.sums, parts, strict=True):
            total += part
        self.n += 1

    def member(self, chain: Chain) -> Member:
        """The means of all draws; lines without entries have those of the prior."""
        means = [total / self.n for total in self.sums]
        whole, places = chain.whole, chain.whole.filled[1:]
        sides: list[Doubles] = []
        for i, features in enumerate(whole.features(chain.structure.pattern)):
            lines, squares, coefficients, variance = means[4 * i : 4 * i + 4]
            mean = features.elsewhere @ coefficients
            spread = np.tile(variance, (len(mean), 1))
            mean[places[i]] = lines
            spread[places[i]] = np.maximum(squares - lines**2, 0.0)
            sides += [mean, spread]
        layers = []
        for i, layer in enumerate(chain.layers):
            rows, columns = (
                _among(means[8 + 2 * i + axis], places[axis], layer.priors()[axis], n)
                for axis, n in enumerate(whole.shape)
            )
            layers.append(LayerFactors(rows, np.ascontiguousarray(columns.T), layer.strength))
        a, b, c, d = (part.astype(np.float32) for part in sides)
        priors = means[2], means[3], means[6], means[7]
        return Member(a, b, c, d, tuple(layers), means[-1], priors)


def _among(
    some: Doubles, places: NDArray[np.intp], rest: NDArray[np.float32], n: int
) -> NDArray[np.float32]:
    """Some lines (some, K) in their places among n; all others are equal, (K,)."""
    everything = np.tile(rest, (n, 1))
    everything[places] = some
    return everything


# ---------------------------------------------------------------- ratings with several levels

BINARY_CUTS: Doubles = np.array([-np.inf, 0.0, np.inf])


def first_cuts(table: Table) -> Doubles:
    """Thresholds that give the levels their observed frequencies, shifted so that one is 0.

    The threshold at 0 is the one below the lowest level that counts as a one.
    """
    if table.n_levels == 2:
        return BINARY_CUTS.copy()
    counts = np.bincount(table.levels, minlength=table.n_levels) + 0.5
    cuts = np.concatenate([[-np.inf], ndtri(np.cumsum(counts)[:-1] / counts.sum()), [np.inf]])
    cuts -= cuts[cut_of(table.levels, table.observations.values)]
    return cuts


def cut_of(levels: NDArray[np.uint8], values: NDArray[np.uint8]) -> int:
    """The lowest level that counts as a one."""
    below = levels[values == 0]
    return int(below.max(initial=0)) + 1 if len(below) else 1


def moved_cuts(
    cuts: Doubles, mean: Doubles, scale: Floats | float, levels: NDArray[np.uint8]
) -> Doubles:
    """Take a Newton step for each threshold separately, given the means of the entries."""
    scale = np.broadcast_to(scale, mean.shape)
    low, high = (cuts[levels] - mean) * scale, (cuts[levels + 1] - mean) * scale
    # Probabilities of a level are kept this far from 0.
    least_chance = 1e-9
    chance = np.maximum(ndtr(high) - ndtr(low), least_chance)
    n = len(cuts)
    slopes, bends = np.zeros(n), np.full(n, 1e-3)
    for at, place, sign in ((high, levels + 1, 1.0), (low, levels, -1.0)):
        finite = np.isfinite(at)
        x = at[finite]
        density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) / chance[finite] * scale[finite]
        slopes += np.bincount(place[finite], sign * density, n)
        bends += np.bincount(place[finite], density**2, n)
    # Minimum distance between two thresholds, and the largest step of one.
    least_gap, largest_step = 0.02, 0.25
    steps = np.clip(slopes / bends, -largest_step, largest_step)
    moved = cuts.copy()
    free = np.isfinite(cuts) & (cuts != 0.0)
    moved[free] += steps[free]
    zero = int(np.flatnonzero(cuts == 0.0)[0])
    for j in range(zero + 1, n - 1):
        moved[j] = max(moved[j], moved[j - 1] + least_gap)
    for j in range(zero - 1, 0, -1):
        moved[j] = min(moved[j], moved[j + 1] - least_gap)
    return moved


# ---------------------------------------------------------------- tasks: one chain each

# Numbers of sweeps before a chain is used that begins at random, or one that continues from a draw;
# and number of draws of which a member is the average.
FROM_RANDOM, FROM_DRAW, N_DRAWS = 60, 8, 8

# Number of averages of a trial on held-out entries, usually and at most.
TRIAL_AVERAGES, MOST_AVERAGES = 4, 8


@dataclass(frozen=True, eq=False)
class Trial:
    """A structure to try: it is fitted to a table and predicts held-out entries."""

    table: Table
    structure: Structure
    seed: int
    rows: Positions  # of the held-out entries
    columns: Positions
    cut: int
    start: Draw | None = None
    end: float | None = None  # OutOfTime is raised at this time


@dataclass(frozen=True, eq=False)
class Tried:
    """The predictions of a trial, and the last draw of its chain."""

    chances: Doubles  # (steps, held out): one step without layers, otherwise one for each layer
    draw: Draw


def try_directions(trial: Trial) -> Tried:
    """Run a chain without layers."""
    chain, n_sweeps = _begin(trial)
    chain.burn_in(n_sweeps)
    n_averages = min(_longer(TRIAL_AVERAGES, trial.table), MOST_AVERAGES)
    members = [chain.average_draws(N_DRAWS) for _ in range(n_averages)]
    chances = [member.probabilities(trial.rows, trial.columns, trial.cut) for member in members]
    return Tried(np.mean(chances, axis=0)[None], chain.draw())


def try_layers(trial: Trial) -> Tried:
    """Add layers one by one, and predict after each."""
    chain, n_sweeps = _begin(trial)
    members = chain.burn_in(n_sweeps)
    chances = [member.probabilities(trial.rows, trial.columns, trial.cut) for member in members]
    return Tried(np.array(chances), chain.draw())


@dataclass(frozen=True, eq=False)
class MemberTask:
    """The members of one chain, which are to be made."""

    table: Table
    structure: Structure
    seed: int
    start: Draw | None = None
    n_members: int = 1
    end: float | None = None  # the members that were made until then are kept, at least one


def make_members(task: MemberTask) -> list[Member]:
    """Run a chain and keep averages of its last draws; a late chain keeps one draw."""
    chain, n_sweeps = _begin(task)
    # Directions rotate and layers change along a chain, so a mean over them must be short.
    fixed = task.structure.n_directions == task.structure.n_layers == 0
    n_draws = max(N_DRAWS, _longer(N_DRAWS, task.table)) if fixed else N_DRAWS
    members: list[Member] = []
    try:
        chain.burn_in(n_sweeps)
        while len(members) < task.n_members:
            members.append(chain.average_draws(n_draws))
    except OutOfTime:
        chain.end = None
    return members or [chain.average_draws(1)]


def _begin(task: Trial | MemberTask) -> tuple[Chain, int]:
    """A chain, and the number of sweeps before it is used."""
    table, random = task.table, np.random.default_rng(task.seed)
    if task.start is None:
        chain, n_sweeps = Chain.start(table, task.structure, random), _longer(FROM_RANDOM, table)
    else:
        chain = Chain.resume(table, task.structure, task.start, random)
        n_sweeps = max(FROM_DRAW, _longer(FROM_DRAW, table))
    chain.end = task.end
    return chain, n_sweeps


def _longer(n: int, table: Table) -> int:
    """A number of sweeps or averages, larger if there are few entries."""
    # Chains are longer with fewer entries than this, because they need more sweeps, which take less
    # time, and shorter with more: by a factor from the least to the largest.
    usual, least_times, most_times = 100_000, 0.5, 3.0
    times = np.sqrt(usual / max(1, table.n_entries))
    return round(n * float(np.clip(times, least_times, most_times)))
