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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boolweave.completion.kernels.drawing import (
    Draws,
    Link,
    Mixed,
    Prior,
    draw_lines,
    entry_means,
    slope_table,
)
from boolweave.completion.layers import LOGS, BooleanLayer, LayerEntries, LayerFactors
from boolweave.completion.thresholds import BINARY_CUTS, first_cuts, moved_cuts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion.table import Features, Table

    Doubles = NDArray[np.float64]

SLOPES = slope_table()

# First variance of offsets and directions.
FIRST_VARIANCE = 0.3

# Prior of a variance: it counts like this many lines with this variance.
PRIOR_LINES, PRIOR_VARIANCE = 2.0, 0.5

# Prior variance of a coefficient: of the constant, which is free, and of features. If all entries
# have the same value, they only show that the constant is large, and the prior limits it.
FREE, FREE_OF_ONE_VALUE, SMALL = 100.0, 4.0, 0.25

# Prior of the variance of coefficients of the pattern of entries: it counts like this many
# coefficients with this variance.
PATTERN_COEFFICIENTS, PATTERN_VARIANCE = 2.0, 0.1

# Steps of message passing in a new layer, and then in each layer.
FIRST_STEPS, MORE_STEPS = 15, 3

# Number of sweeps after a layer was added, and of the stretch that follows them. Strong layers take
# long to settle, so trials and members must give them the same time.
SETTLING, LAYER_STRETCH = 2, 4


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
        lines[:, :-1] = random.normal(size=(n, n_directions)) * np.sqrt(FIRST_VARIANCE)
        variance = np.full(n_directions + 1, FIRST_VARIANCE)
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
        spread = np.full(self.coefficients.shape, SMALL)
        if constant is not None:
            spread[0] = constant
        if features.n_pattern:
            spread[-features.n_pattern :] = self._pattern_variance(features.n_pattern, random)
        pulls = known.T @ lines
        for d in range(last + 1):
            # Only the offset depends on the constant and on the number of entries.
            used = slice(2 if d < last else 1 if constant is None else 0, None)
            if features.n_features > used.start:
                precision = features.products[used, used] / self.variance[d]
                precision += np.diag(1 / spread[used, d])
                root = np.linalg.cholesky(precision)
                right = np.linalg.solve(root, pulls[used, d] / self.variance[d])
                noise = random.normal(size=len(right))
                self.coefficients[used, d] = np.linalg.solve(root.T, right + noise)
        gaps = lines - known @ self.coefficients
        shape = (PRIOR_LINES + len(lines)) / 2
        scale = (PRIOR_LINES * PRIOR_VARIANCE + (gaps**2).sum(axis=0)) / 2
        self.variance = scale / random.gamma(shape, size=len(scale))

    def _pattern_variance(self, n_pattern: int, random: np.random.Generator) -> Doubles:
        """Draw the prior variances of the coefficients of the pattern, (D,)."""
        squares = (self.coefficients[-n_pattern:] ** 2).sum(axis=0)
        scale = (PATTERN_COEFFICIENTS * PATTERN_VARIANCE + squares) / 2
        drawn = random.gamma((PATTERN_COEFFICIENTS + n_pattern) / 2, size=len(scale))
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


class Draw(NamedTuple):
    """A draw from which a chain can continue."""

    rows: Side
    columns: Side
    cuts: Doubles


class Member(NamedTuple):
    """Means and variances over a stretch of a chain: everything that predictions need."""

    rows: NDArray[np.float32]  # (M, D): directions and, last, the offset
    row_variance: NDArray[np.float32]  # (M, D)
    columns: NDArray[np.float32]  # (N, D)
    column_variance: NDArray[np.float32]  # (N, D)
    layers: tuple[LayerFactors, ...]
    cuts: Doubles  # (levels + 1,)
    # For new rows: coefficients (F, D) and variances (D,) of rows, and those of columns.
    priors: tuple[Doubles, Doubles, Doubles, Doubles]


@dataclass(frozen=True)
class Structure:
    """The parts of a model of a completion: directions and Boolean layers.

    Attributes
    ----------
    n_directions : int
        Number of real directions, along which each row has a position and each column a slope.
    n_layers, n_components : int
        Number of Boolean layers, and of factors of each.
    strength : float
        How far a layer moves the mean of an entry, up or down.
    pattern : bool
        Whether the means of offsets and directions depend on which entries were observed.
    """

    n_directions: int = 0
    n_layers: int = 0
    n_components: int = 4
    strength: float = 0.0
    pattern: bool = False

    @property
    def name(self) -> str:
        """The structure in words."""
        parts = ["offsets", "pattern"] if self.pattern else ["offsets"]
        if self.n_directions:
            parts.append(f"{self.n_directions} direction{'s' * (self.n_directions > 1)}")
        if self.n_layers:
            parts.append(
                f"{self.n_layers} layer{'s' * (self.n_layers > 1)} of {self.n_components} factors "
                f"(strength {self.strength:.2g})"
            )
        return " + ".join(parts)


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
        table, mixed = self.table, self._mixed()
        sides, features = (self.rows, self.columns), self.features
        for i, lines in enumerate((table.by_row, table.by_column)):
            own, other = sides[i], sides[1 - i]
            prior = Prior(features[i].here @ own.coefficients, own.variance)
            seed = int(self.random.integers(2**63))
            draw_lines(
                lines, Link(self.cuts, SLOPES, LOGS), mixed, table.weights, prior,
                Draws(own.centers, own.lines), other.lines, seed, 0, len(own.lines),
            )  # fmt: skip
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
        self._update(layer, FIRST_STEPS)
        self.layers.append(layer)
        self.update_layers(MORE_STEPS)

    def update_layers(self, n_steps: int) -> None:
        """Pass messages in each layer in turn."""
        for layer in self.layers:
            self._update(layer, n_steps)

    def _update(self, layer: BooleanLayer, n_steps: int) -> None:
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

    def settle(self, burn_in: int) -> list[Member]:
        """Run some sweeps, then add the layers one by one; return a stretch after each."""
        for _ in range(burn_in):
            self.sweep()
        if not self.structure.n_layers:
            return []
        entries = LayerEntries(self.table)
        return [self._grow(entries) for _ in range(self.structure.n_layers)]

    def _grow(self, entries: LayerEntries) -> Member:
        self.add_layer(entries)
        for _ in range(SETTLING):
            self.sweep()
            self.update_layers(1)
        return self.stretch(LAYER_STRETCH)

    def member(self, burn_in: int, length: int) -> Member:
        """Let the chain settle, and keep a stretch."""
        self.settle(burn_in)
        return self.stretch(length)

    def stretch(self, length: int) -> Member:
        """Run some sweeps and keep their means and variances."""
        mean = _Mean()
        for _ in range(length):
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
        compact = [part.astype(np.float32) for part in sides]
        return Member(
            compact[0], compact[1], compact[2], compact[3], tuple(layers), means[-1],
            (means[2], means[3], means[6], means[7]),
        )  # fmt: skip


def _among(
    some: Doubles, places: NDArray[np.intp], rest: NDArray[np.float32], n: int
) -> NDArray[np.float32]:
    """Some lines (some, K) in their places among n; all others are equal, (K,)."""
    everything = np.tile(rest, (n, 1))
    everything[places] = some
    return everything
