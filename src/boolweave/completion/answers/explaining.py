"""Explanation of the probability of a pair: the log-odds as a sum of parts, in words.

The log-odds of an ensemble are an intercept plus the weighted log-odds of its families, which are
not sums over offsets, directions and layers: the probability is a mean over members, each with a
normal distribution function around its sum. Therefore the shares of the parts are those of Aumann
and Shapley: all parts of all members grow at the same pace from 0 to their values, and each gets
what the log-odds gain from it along the way. The shares add up to the log-odds, and with a single
member they are proportional to the parts. The base is what an average row and an average column
would get; row, column, directions and layers say how the pair differs from that. The part of
offsets and directions that follows from which entries were seen is a share of its own.

Members of a family have different factors. The factors that are named belong to the member whose
probability is nearest to that of its family.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from boolweave.completion.ensemble import (
    Ensemble,
    Family,
    LayerFactors,
    Member,
    PlainBoolean,
    chance_of_one,
    limited_log_odds,
)
from boolweave.completion.regressions import AnswerRegressions
from boolweave.completion.table import Pattern
from boolweave.data.frames import Frame, html_table
from boolweave.data.labels import name_of, one_pair
from boolweave.data.observations import Observations
from boolweave.model.odds import sigmoid
from boolweave.recommend import (
    NAMES_IN_SENTENCE,
    evidence,
    largest,
    percent,
    reason_in_words,
    row_in_words,
    some_names,
)
from boolweave.runtime.types import Doubles, Integers
from boolweave.runtime.words import NEUTRAL, Words

Axis = Literal["row", "column"]

# Rows and columns belong to a factor if the probability of this is at least this.
BELONGS = 0.5


class Averages(NamedTuple):
    """An average row and column of a member."""

    row: Doubles  # (D,)
    column: Doubles  # (D,)
    layers: tuple[float, ...]  # the contribution of each layer to this pair


class Shares(NamedTuple):
    """The contributions of the parts of a family to its log-odds."""

    base: float
    row: float
    column: float
    pattern: float
    directions: float
    layers: float


class Explainer:
    """An explainer of pairs of an ensemble; common quantities are computed once.

    Parameters
    ----------
    ensemble : Ensemble
        Of M rows and N columns.
    observations : Observations, shape (M, N)
        The observations to which it was fitted, with labels if there are any.
    trained : Ensemble, optional
        The ensemble of the fit, if `ensemble` is for new rows; the average row is taken from it.
    words : Words
        The words for a one, rows and columns.
    fitted_to : Observations, optional
        The observations of the fit, if `ensemble` is for new rows; the entries of a column are
        counted in them.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        observations: Observations,
        trained: Ensemble | None = None,
        words: Words = NEUTRAL,
        fitted_to: Observations | None = None,
    ) -> None:
        if observations.shape != ensemble.shape:
            raise ValueError(
                f"expected observations of the shape of the ensemble, {ensemble.shape}, but got "
                f"{observations.shape}; pass those to which it was fitted"
            )
        self.ensemble, self.observations = ensemble, observations
        self.trained = ensemble if trained is None else trained
        self.words = words
        self.fitted_to = observations if fitted_to is None else fitted_to

    @cached_property
    def averages(self) -> list[list[Averages]]:
        """The averages of each member of each family."""
        return [list(map(_averages, family.members)) for family in self.trained.families]

    @cached_property
    def metrics(self) -> list[list[tuple[Doubles, Doubles]]]:
        """For each member, the metrics of the directions of rows and of columns."""
        return [list(map(_metrics, family.members)) for family in self.trained.families]

    def explain(self, row: Any, column: Any) -> CompletionExplanation:
        """Split the log-odds of a pair, given by position or label."""
        return self.at(*one_pair(row, column, self.observations))

    def at(self, row: int, column: int) -> CompletionExplanation:
        """Split the log-odds of the pair at a position."""
        seen, ensemble, m, n = self.observations, self.ensemble, row, column
        at = np.array([m]), np.array([n])
        names = self._name(m, "row"), self._name(n, "column")
        total = float(ensemble.log_odds(*at)[0])
        sums = np.zeros(4)
        parts: list[ExplanationPart] = []
        for i, family in enumerate(ensemble.families):
            shares = _shares(family, self.averages[i], m, n, ensemble.cut, ensemble.pattern)
            weighted = family.weight * np.array(shares)
            sums += weighted[:4]
            if family.structure.n_directions:
                parts.append(self._directions(i, m, n, float(weighted[4])))
            if family.structure.n_layers:
                parts.append(self._layers(i, m, n, float(weighted[5])))
        if ensemble.plain is not None:
            parts.append(self._plain(ensemble.plain, m, n))
        if ensemble.regressions is not None:
            parts.append(self._regressions(ensemble.regressions, m, n))
        if ensemble.questions is not None:
            share = total - float(ensemble.blended_log_odds(*at)[0])
            sentence = f"{share:+.2f} answer: the possible answers to one question add up to 100%"
            parts.append(ExplanationPart("answer", 0, share, sentence=sentence))
        counts = len(seen.take_rows([m]).values), int(np.sum(self.fitted_to.indices == n))
        axes: tuple[Axis, Axis] = ("row", "column")
        rather = "more" if sums[2] > 0 else "less"
        common = f"{names[1]} is {rather} common than other {self.words.columns}"
        common = common if counts[1] else ""
        sides = [
            ExplanationPart(axis, 0, share, sentence=_offset(share, name, axis, count), reason=why)
            for axis, share, name, count, why in zip(
                axes, sums[1:3].tolist(), names, counts, ("", common), strict=True
            )
        ]
        if ensemble.pattern is not None:
            sides.append(self._pattern(ensemble.pattern, m, n, float(sums[3])))
        rest = sides + parts
        base = total - sum(part.log_odds for part in rest)
        parts = [ExplanationPart("base", 0, base, sentence=_base(base)), *rest]
        chance = float(sigmoid(total))
        value = int(chance > 0.5)
        notes = tuple(
            f"{name} has no entries: it gets the prior of its offset"
            for name, count in zip(names, counts, strict=True)
            if not count
        )
        strongest = sorted(rest, key=lambda part: -abs(part.log_odds))[:3]
        why = "; ".join([*(part.sentence for part in strongest), *notes])
        sentence = f"{names[0]}, {names[1]}: 1 with a probability of {percent(chance)}: {why}"
        return CompletionExplanation(
            *names, value, chance, total, self._observed(m, n), tuple(parts), notes, sentence
        )

    def predict_rows(self, rows: NDArray[np.intp]) -> Iterator[tuple[slice, Doubles]]:
        """Yield P(o = 1) of rows at all columns, some rows at a time."""
        return self.ensemble.row_pieces(rows)

    # ------------------------------------------------------------ names and entries

    def _name(self, position: int, axis: Axis) -> str:
        """The label of a row or column, or its number from 1."""
        return name_of(self.observations, int(position), axis)

    def _entries(self, row: int) -> tuple[Integers, NDArray[np.uint8]]:
        """Columns and values of the entries of a row."""
        own = slice(*self.observations.indptr[[row, row + 1]])
        return self.observations.indices[own], self.observations.values[own]

    def _observed(self, row: int, column: int) -> int | None:
        """The observed value of a pair, if there is one."""
        columns, values = self._entries(row)
        found = values[columns == column]
        return int(found[0]) if len(found) else None

    def _typical(self, chances: NDArray[np.float32], axis: Axis) -> tuple[tuple[str, ...], int]:
        """Names of the most certain members of a factor, and the number of its members."""
        size = int(np.sum(chances >= BELONGS))
        # Maximum number of members of a factor that are named.
        most_typical = 10
        best = largest(chances.astype(np.float64), min(size, most_typical))
        return tuple(self._name(i, axis) for i in best), size

    # ------------------------------------------------------------ parts

    def _pattern(self, pattern: Pattern, m: int, n: int, share: float) -> ExplanationPart:
        """The share of the pattern of entries, and the columns that matter most for it."""
        columns, _ = self._entries(m)
        pull = np.zeros(pattern.n_features)
        for family in self.ensemble.families:
            for member in family.members if family.structure.pattern else ():
                slopes = np.append(member.columns[n, :-1], 1.0)
                of_pattern = member.priors[0][-pattern.n_features :]
                pull += family.weight / len(family.members) * (of_pattern @ slopes)
        gains = np.sign(share) * (pattern.loadings[columns] @ pull)
        best = largest(gains, min(NAMES_IN_SENTENCE, int(np.sum(gains > 0))))
        named = ", ".join(self._name(columns[i], "column") for i in best)
        among = f", such as {named}" if named else ""
        sentence = (
            f"{share:+.2f} pattern: which columns {self._name(m, 'row')} has entries in{among}, "
            f"and which rows {self._name(n, 'column')} has entries in"
        )
        return ExplanationPart("pattern", 0, share, sentence=sentence)

    def _directions(self, i: int, m: int, n: int, share: float) -> ExplanationPart:
        seen = self.observations
        in_column = np.flatnonzero(seen.indices == n)
        of_column = np.searchsorted(seen.indptr, in_column, side="right") - 1
        rows = self._alike(i, "row", m, of_column, n)
        columns = self._alike(i, "column", n, self._entries(m)[0], m)
        similar = [
            f"{', '.join(map(_with_value, found))} {'is' if len(found) == 1 else 'are'} like {own}"
            for found, own in ((columns, self._name(n, "column")), (rows, self._name(m, "row")))
            if found
        ]
        what = " and ".join(similar) or "no similar row or column has an entry here"
        sentence = f"{share:+.2f} directions: {what}"
        reason = self._likeness(m, n, rows, columns, 1 if share > 0 else 0)
        return ExplanationPart(
            "directions", i + 1, share, rows=rows, columns=columns, sentence=sentence, reason=reason
        )

    def _likeness(
        self, m: int, n: int, rows: tuple[Alike, ...], columns: tuple[Alike, ...], value: int
    ) -> str:
        """Name similar columns where the row has the value, or else a row with it in the column."""
        row, column = row_in_words(self._name(m, "row"), self.words), self._name(n, "column")
        verb = self.words.verb
        if names := [alike.name for alike in columns if alike.observed == value]:
            *others, last = names
            listed = f"{', '.join(others)} and {last}" if others else last
            be = "are" if others else "is"
            if value:
                return f"{row} {verb} {listed}, which {be} like {column}"
            return f"{listed}, which {be} like {column}, {be} 0 for {row}"
        if names := [alike.name for alike in rows if alike.observed == value]:
            other = row_in_words(names[0], self.words)
            if value:
                return f"{other} {verb} it and is like {row}"
            return f"it is 0 for {other}, which is like {row}"
        return ""

    def _alike(
        self, i: int, axis: Axis, own: int, candidates: NDArray[np.integer], crossing: int
    ) -> tuple[Alike, ...]:
        """The candidates that are most similar to a row or column."""
        candidates = candidates[candidates != own]
        if not len(candidates):
            return ()
        side = 0 if axis == "row" else 1
        total = np.zeros(len(candidates))
        members = self.ensemble.families[i].members
        for member, metrics in zip(members, self.metrics[i], strict=True):
            lines = (member.rows, member.columns)[side][:, :-1]
            others, line = lines[candidates].astype(np.float64), lines[own].astype(np.float64)
            metric = metrics[side]
            lengths = np.einsum("nd,de,ne->n", others, metric, others) * (line @ metric @ line)
            total += others @ metric @ line / np.sqrt(np.maximum(lengths, np.finfo(float).tiny))
        likeness = np.clip(total / len(members), -1.0, 1.0)
        order = np.argsort(-likeness, kind="stable")[:NAMES_IN_SENTENCE]
        found = []
        for j in order[likeness[order] > 0]:
            place = int(candidates[j])
            pair = (place, crossing) if axis == "row" else (crossing, place)
            found.append(Alike(self._name(place, axis), float(likeness[j]), self._observed(*pair)))
        return tuple(found)

    def _layers(self, i: int, m: int, n: int, share: float) -> ExplanationPart:
        family = self.ensemble.families[i]
        at = np.array([m]), np.array([n])
        by_member = family.by_member(*at, self.ensemble.cut)[:, 0]
        member = family.members[int(np.argmin(np.abs(by_member - by_member.mean())))]
        factors: list[FactorPart] = []
        for j, layer in enumerate(member.layers):
            factors += self._factors(layer, (m, n), j + 1, layer.strength > 0)
        return self._with_factors("layers", i + 1, share, factors)

    def _plain(self, plain: PlainBoolean, m: int, n: int) -> ExplanationPart:
        odds = limited_log_odds(plain.probabilities(np.array([m]), np.array([n])))[0]
        odds -= _average_odds(self.trained.plain or plain)
        factors = self._factors(plain, (m, n), 0, True)
        return self._with_factors("boolean", 0, plain.weight * float(odds), factors)

    def _regressions(self, regressions: AnswerRegressions, m: int, n: int) -> ExplanationPart:
        """What the answers to other questions add, compared with those of an average row."""
        trained = self.trained.regressions or regressions
        average = trained.rows.mean(axis=0, dtype=np.float64)
        gains = regressions.weight * (regressions.rows[m] - average) * regressions.slopes[:, n]
        share = float(gains.sum())
        gains = np.where(regressions.rows[m] != 0, np.sign(share) * gains, 0.0)
        best = largest(gains, min(NAMES_IN_SENTENCE, int(np.sum(gains > 0))))
        named = ", ".join(f"{self._name(i, 'column')} ({self._observed(m, int(i))})" for i in best)
        sentence = f"{share:+.2f} other answers: {named or 'there are none'}"
        way = "speak for it" if share > 0 else "speak against it"
        why = f"the other answers of {self._name(m, 'row')} {way}: {named}" if named else ""
        return ExplanationPart("regressions", 0, share, sentence=sentence, reason=why)

    def _factors(
        self, model: LayerFactors | PlainBoolean, pair: tuple[int, int], layer: int, raises: bool
    ) -> list[FactorPart]:
        (m, n), rows, columns = pair, model.rows, model.columns
        both = rows[m].astype(np.float64) * columns[:, n]
        found = []
        for k in np.flatnonzero(both >= BELONGS):
            names, n_rows = self._typical(rows[:, k], "row")
            others, n_columns = self._typical(columns[k], "column")
            of_layer = f" of layer {layer}" if layer else ""
            group = f"factor {k + 1}{of_layer}"
            sentence = (
                f"{group}: {{{some_names(names, n_rows)}}} × {{{some_names(others, n_columns)}}}, "
                f"which makes ones {'more' if raises else 'less'} probable"
            )
            members = names, others, n_rows, n_columns
            words = sentence, self._evidence(columns[k], m, n, raises)
            found.append(FactorPart(layer, int(k) + 1, float(both[k]), raises, *members, *words))
        return found

    def _evidence(self, chances: NDArray[np.float32], m: int, n: int, raises: bool) -> str:
        """Describe what the row has of the other columns of a factor, with chances (N,)."""
        if not raises:
            row = row_in_words(self._name(m, "row"), self.words)
            return f"{row} belongs to a group in which {self._name(n, 'column')} is less common"
        inside = np.flatnonzero(chances >= BELONGS)
        inside = inside[np.argsort(-chances[inside], kind="stable")]
        ones, n_observed = evidence(inside[inside != n], *self._entries(m))
        names = [self._name(i, "column") for i in ones]
        return reason_in_words(self._name(m, "row"), names, n_observed, self.words)

    def _with_factors(
        self, kind: Kind, family: int, share: float, factors: list[FactorPart]
    ) -> ExplanationPart:
        factors = sorted(factors, key=lambda factor: -factor.probability)
        named = "; ".join(factor.sentence for factor in factors)
        what = named or "no factor has both the row and the column"
        title = "Boolean layers" if kind == "layers" else "Boolean model"
        return ExplanationPart(
            kind,
            family,
            share,
            tuple(factors),
            sentence=f"{share:+.2f} {title}: {what}",
            reason=next((f.evidence for f in factors if f.raises == (share > 0)), ""),
        )


# ---------------------------------------------------------------- sums


def _shares(
    family: Family, averages: list[Averages], m: int, n: int, cut: int, pattern: Pattern | None
) -> Shares:
    """The parts of a family; they add up to its log-odds.

    With members i, their sums s_i = Σ parts, standard deviations d_i and t_i = s_i / d_i, and all
    parts multiplied by α, L(α) = logit P(α), P = mean of Φ(α t_i). A part x of member i has the
    share x / d_i · ∫ φ(α t_i) / (members · P (1 − P)) dα from 0 to 1; all shares add up to L(1).
    """
    at = np.array([m]), np.array([n])
    parts, deviations = [], []
    for member, average in zip(family.members, averages, strict=True):
        mean, variance = member.moments(*at)
        u, v = member.rows[m].astype(np.float64), member.columns[n].astype(np.float64)
        base = average.row @ average.column - average.row[-1] * average.column[-1]
        directions = u[:-1] @ v[:-1] - base
        base += average.row[-1] + average.column[-1] + sum(average.layers) - member.cuts[cut]
        row, column = u[-1] - average.row[-1], v[-1] - average.column[-1]
        layers = mean[0] - member.cuts[cut] - (base + row + column + directions)
        seen = 0.0
        if pattern is not None and family.structure.pattern:
            of_row = pattern.rows[m] @ member.priors[0][-pattern.n_features :]
            of_column = pattern.columns[n] @ member.priors[2][-pattern.n_features :]
            together = u[:-1] @ v[:-1] - (u - of_row)[:-1] @ (v - of_column)[:-1]
            seen = of_row[-1] + of_column[-1] + together
            row, column = row - of_row[-1], column - of_column[-1]
            directions -= together
        parts.append((base, row, column, seen, directions, layers))
        deviations.append(np.sqrt(1 + variance[0]))
    added, deviation = np.array(parts), np.array(deviations)
    t = added.sum(axis=1) / deviation
    points, weights = _rule()
    way = np.multiply.outer(points, t)
    chance = ndtr(way).mean(axis=1)
    density = np.exp(-(way**2) / 2) / np.sqrt(2 * np.pi) / len(t)
    slope = density / (chance * ndtr(-way).mean(axis=1))[:, None]
    shares = (weights @ slope / deviation) @ added
    # Log-odds are clipped, and the rule is not quite exact.
    exact = float(limited_log_odds(family.by_member(*at, cut).mean(axis=0))[0])
    if abs(shares.sum()) > 1e-6:
        shares *= exact / shares.sum()
    return Shares(*shares.tolist())


@cache
def _rule() -> tuple[Doubles, Doubles]:
    """Points and weights of the Gauss-Legendre rule from 0 to 1."""
    # Number of points of the Gauss-Legendre rule on the way from 0 to the parts.
    n_points = 24
    points, weights = np.polynomial.legendre.leggauss(n_points)
    return (points + 1) / 2, weights / 2


def _averages(member: Member) -> Averages:
    """Means over rows and columns, and the contributions of layers to a pair of them."""
    layers = []
    for layer in member.layers:
        both = layer.rows.mean(axis=0, dtype=np.float64) * layer.columns.mean(axis=1)
        layers.append(float(layer.strength * (2 * chance_of_one(both) - 1)))
    row, column = (lines.mean(axis=0, dtype=np.float64) for lines in (member.rows, member.columns))
    return Averages(row, column, tuple(layers))


def _average_odds(plain: PlainBoolean) -> float:
    """Log-odds of a pair of an average row and an average column, by the plain Boolean model."""
    row, column = plain.rows.mean(axis=0, dtype=np.float64), plain.columns.mean(axis=1)
    first = np.array([0])
    chance = replace(plain, rows=row[None], columns=column[:, None]).probabilities(first, first)
    return float(limited_log_odds(chance)[0])


def _metrics(member: Member) -> tuple[Doubles, Doubles]:
    """Mean squares of the directions of columns, for rows, and those of rows, for columns."""
    rows, columns = (lines[:, :-1].astype(np.float64) for lines in (member.rows, member.columns))
    return columns.T @ columns / len(columns), rows.T @ rows / len(rows)


# ---------------------------------------------------------------- words


def _base(share: float) -> str:
    rather = "more" if share >= 0 else "less"
    return f"{share:+.2f} base: ones are {rather} common than zeros in an average row and column"


def _offset(share: float, name: str, axis: Axis, n_entries: int) -> str:
    if not n_entries:
        return f"{share:+.2f} {axis} offset: {name} has no entries and gets the prior"
    rather = "more" if share >= 0 else "less"
    entries = f"{n_entries} entr{'y' if n_entries == 1 else 'ies'}"
    return (
        f"{share:+.2f} {axis} offset: ones are {rather} common in {name} than in an average "
        f"{axis} ({entries})"
    )


def _with_value(alike: Alike) -> str:
    return alike.name if alike.observed is None else f"{alike.name} ({alike.observed})"


Kind = Literal[
    "base", "row", "column", "pattern", "directions", "layers", "boolean", "regressions", "answer"
]


@dataclass(frozen=True)
class Alike:
    """A row or a column that is similar to another one.

    Attributes
    ----------
    name : str
    likeness : float
        From −1 to 1: the correlation of the contributions of directions to both, averaged over
        members.
    observed : int or None
        The observed value: for a row in the same column, for a column in the same row.
    """

    name: str
    likeness: float
    observed: int | None


@dataclass(frozen=True)
class FactorPart:
    """A Boolean factor that both the row and the column belong to.

    Attributes
    ----------
    layer : int
        Number of the layer, from 1; 0 in the plain Boolean model.
    factor : int
        Number of the factor in the layer, from 1.
    probability : float
        The probability that both belong to the factor.
    raises : bool
        Whether the factor makes a one more probable or less probable.
    rows, columns : tuples of str
        Names of some members, the most certain first.
    n_rows, n_columns : int
        Numbers of members.
    sentence : str
    evidence : str
        A sentence about the observed values of the row in the other columns of the factor.
    """

    layer: int
    factor: int
    probability: float
    raises: bool
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    n_rows: int
    n_columns: int
    sentence: str
    evidence: str


@dataclass(frozen=True)
class ExplanationPart:
    """One contribution to the log-odds of a pair.

    Attributes
    ----------
    kind : {"base", "row", "column", "pattern", "directions", "layers", "boolean", "regressions", \
"answer"}
        "base" is the value for an average row and column; "pattern" is what follows from which
        entries were observed, whatever their values; "boolean" is the plain Boolean model;
        "regressions" is what follows from the answers to other questions; "answer" makes the
        columns of one answer consistent.
    family : int
        Number of the family of models, from 1; 0 if the part does not belong to a single family.
    log_odds : float
        The contribution to the log-odds.
    factors : tuple of FactorPart
        For layers and the plain Boolean model: the factors that have both the row and the column.
    rows, columns : tuples of Alike
        For directions: the most similar rows that have an entry in the column, and the most similar
        columns that have an entry in the row.
    sentence : str
    reason : str
        In plain words, why the part makes a one more probable, or less probable if its contribution
        is negative; empty if there are no such words.
    """

    kind: Kind
    family: int
    log_odds: float
    factors: tuple[FactorPart, ...] = ()
    rows: tuple[Alike, ...] = ()
    columns: tuple[Alike, ...] = ()
    sentence: str = ""
    reason: str = ""


@dataclass(frozen=True, repr=False)
class CompletionExplanation:
    """The log-odds of a pair as a sum of parts.

    All fields are plain data, so that ``dataclasses.asdict`` can be written as JSON.

    Attributes
    ----------
    row, column : str
        Names of the row and the column.
    value : int
        The more probable value, 0 or 1.
    probability : float
        P(o = 1), the probability that a 1 would be observed.
    log_odds : float
        log P(o = 1) / P(o = 0), the sum of the parts.
    observed : int or None
        The observed value, if there is one.
    parts : tuple of ExplanationPart
        The base first, then row and column, perhaps the pattern, then each family.
    notes : tuple of str
        Notes about a row or a column without entries.
    sentence : str
        The whole explanation in one line.
    """

    row: str
    column: str
    value: int
    probability: float
    log_odds: float
    observed: int | None
    parts: tuple[ExplanationPart, ...]
    notes: tuple[str, ...]
    sentence: str
    _frame: ClassVar[Frame] = Frame("polars")

    def __repr__(self) -> str:
        parts = " ".join(f"{part.log_odds:+.2f} {part.kind}" for part in self.parts)
        return (
            f"CompletionExplanation({self.row}, {self.column}: P(1) = {self.probability:.2f}, "
            f"log-odds {self.log_odds:+.2f} = {parts})"
        )

    @property
    def table(self) -> Any:
        """A table with one line for each part: part, log_odds, because.

        It belongs to the library of the fitted table, or to polars.
        """
        return self._frame.table(self._lines())

    def _lines(self) -> dict[str, Any]:
        return {
            "part": [part.kind for part in self.parts],
            "log_odds": np.array([part.log_odds for part in self.parts]),
            "because": [part.sentence.partition(": ")[2] for part in self.parts],
        }

    def _repr_html_(self) -> str:
        lines = [
            [kind, f"{odds:+.2f}", why]
            for kind, odds, why in zip(*self._lines().values(), strict=True)
        ]
        notes = "".join(f"; {note}" for note in self.notes)
        return html_table(["part", "log-odds", "because"], lines, self.sentences()[0] + notes)

    def sentences(self) -> tuple[str, ...]:
        """One sentence each for the probability, each part and each note."""
        return (
            f"{self.row}, {self.column}: 1 with a probability of {percent(self.probability)}, "
            f"log-odds {self.log_odds:+.2f}",
            *(part.sentence for part in self.parts),
            *self.notes,
        )

    def reason(self) -> str:
        """The strongest reason, in plain words, for a one in this column rather than in others.

        Which entries were observed is no reason, because a reader could not check it.
        """
        plain = [part for part in self.parts if part.reason and part.log_odds > 0]
        if not plain:
            return "because there is little evidence against it"
        return f"because {max(plain, key=lambda part: part.log_odds).reason}"

    def reason_against(self) -> str:
        """The strongest reason, in plain words, against a one in this column."""
        plain = [part for part in self.parts if part.reason and part.log_odds < 0]
        if not plain:
            return "because there is little evidence for it"
        return f"because {min(plain, key=lambda part: part.log_odds).reason}"
