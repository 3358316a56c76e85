"""The numbers that a report shows, computed from a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from boolweave.completion import BooleanCompletion
from boolweave.completion.answers.explaining import BELONGS, CompletionExplanation, Explainer
from boolweave.covering.result import Cover
from boolweave.covering.reviewing import existing_factors, review_of
from boolweave.data.labels import name_of
from boolweave.data.observations import Observations
from boolweave.data.ones import Cells, SparseObservations
from boolweave.engine.result import Result
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.facts import CoverFacts, HeldOutPredictions
from boolweave.model.channel import Channel
from boolweave.plot import tile_orders
from boolweave.recommend import percent, surest
from boolweave.report.grid import (
    EntryList,
    Grid,
    Lines,
    Predict,
    Seen,
    listed,
    make_grid,
)
from boolweave.runtime.types import Floats, Integers
from boolweave.runtime.words import Words

Model = BooleanMatrixFactorization | BooleanCompletion
Facts = list[tuple[str, str]]

# Log-odds beyond this are drawn at the edge of the histogram: P = 0.999999.
WIDEST_LOG_ODDS = 14.0
N_BINS = 56

# The meanings of the numbers on the card of a factor.
FIGURES = {
    "coverage": "fraction of all observed ones that it contains",
    "alone": "fraction of the observed ones that it alone explains",
    "precision": "fraction of ones among its observed entries; the others are false ones",
    "found again": "fraction of the searches, from different starts, that found the same",
    "worth": "number of additional wrong entries without it",
}

# Maximum number of members of a factor in its card: a page with a million names helps nobody.
MEMBERS_LISTED = 500


def factor_grid(result: Result, seen: Seen | None = None, decoded: bool = False) -> Grid:
    """The matrix with rows and columns ordered by factors, with P(z = 1) or decoded values.

    `seen` are the observations, if they differ from those of the result.
    """
    seen = result.observations.fetched() if seen is None else seen
    X, Y = result.row_log_odds > 0, result.column_log_odds > 0
    beliefs = (
        np.clip(odds, -WIDEST_LOG_ODDS, WIDEST_LOG_ODDS)
        for odds in (result.row_log_odds, result.column_log_odds.T)
    )
    orders = tile_orders(X, Y, *(belief.mean(axis=1) for belief in beliefs))

    def latent(rows: Integers, columns: Integers) -> Floats:
        if decoded:
            return result.predict(rows, columns).astype(np.float64)
        return result.predict_proba(rows, columns, "latent")

    return make_grid(seen, orders, latent, (X, Y))


# ---------------------------------------------------------------- factors


def factor_facts(result: Result, seen: Seen | None = None) -> list[dict[str, Any]]:
    """Coverage, precision, stability, redundancy and members of each factor, by number."""
    seen = result.observations.fetched() if seen is None else seen
    X, Y = result.row_log_odds > 0, result.column_log_odds > 0
    n_inside, hits, alone = np.zeros((3, len(Y)), dtype=np.int64)
    for row, column, value in seen.entries():
        inside = X[row] & Y[:, column].T
        n_inside += inside.sum(axis=0)
        inside = inside[value == 1]
        hits += inside.sum(axis=0)
        # A one that several factors explain does not count for any of them alone.
        alone += inside[inside.sum(axis=1) == 1].sum(axis=0)
    n_inside += seen.implied_zeros_in(X, Y)
    facts: list[dict[str, Any]] = []
    for k in range(len(Y)):
        rows, columns = (
            surest(odds) for odds in (result.row_log_odds[:, k], result.column_log_odds[k])
        )
        facts.append(
            {
                "number": k + 1,
                "figures": _figures(result, k, hits[k], alone[k], n_inside[k], seen.n_ones),
                "rows": [name_of(seen, int(m), "row") for m in rows[:MEMBERS_LISTED]],
                "n_rows": len(rows),
                "columns": [name_of(seen, int(n), "column") for n in columns[:MEMBERS_LISTED]],
                "n_columns": len(columns),
            }
        )
    return facts


def _figures(
    result: Result, k: int, hits: int, alone: int, n_inside: int, n_ones: int
) -> dict[str, str]:
    """The numbers of a card, by the keys of `FIGURES`."""
    figures = {
        "coverage": _share(hits, n_ones),
        "alone": _share(alone, n_ones),
        "precision": _share(hits, n_inside),
    }
    if result.stability is not None:
        figures["found again"] = f"{result.stability[k]:.0%}"
    if result.redundancy is not None:
        figures["worth"] = f"{result.redundancy[k]:,.10g}"
    return figures


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def noise_in_words(channel: Channel) -> str:
    """The flips of a channel, or that they differ from entry to entry."""
    up, down = np.asarray(channel.one_given_zero), 1 - np.asarray(channel.one_given_one)
    if up.ndim or down.ndim:
        whose = {1: "each column", 2: "each row" if up.shape[-1:] == (1,) else "each entry"}[
            up.ndim
        ]
        ranges = (
            f"{percent(float(rates.min()), 1)} to {percent(float(rates.max()), 1)} of {name}"
            for rates, name in ((up, "zeros"), (down, "ones"))
        )
        return f"{' and '.join(ranges)} flipped, with rates for {whose}"
    if np.isclose(up, down):
        return f"{percent(float(up), 1)} of entries flipped"
    return f"{percent(float(up), 1)} of zeros, {percent(float(down), 1)} of ones flipped"


# ---------------------------------------------------------------- charts


def histogram(name: str, log_odds: Floats) -> dict[str, object]:
    """Counts of log-odds in bins of equal width; the outermost bins include all beyond them."""
    edges = np.linspace(-WIDEST_LOG_ODDS, WIDEST_LOG_ODDS, N_BINS + 1)
    inside = np.clip(np.nan_to_num(log_odds).ravel(), edges[0], edges[-1])
    counts, _ = np.histogram(inside, edges)
    return {"name": name, "edges": edges.tolist(), "counts": counts.tolist()}


def calibration(tested: HeldOutPredictions) -> dict[str, object] | None:
    """Predicted probability and frequency of ones in ten bins, on held-out entries."""
    if not len(tested):
        return None
    chance, values = np.clip(tested.chances, 0.0, 1.0), tested.values
    if tested.answers is not None:  # of all possible answers
        chance, values = tested.answers.chances, tested.answers.given
    group = np.minimum((chance * 10).astype(int), 9)
    count = np.bincount(group, minlength=10)
    used = np.flatnonzero(count)
    return {
        "predicted": (np.bincount(group, chance, 10)[used] / count[used]).tolist(),
        "frequency": (np.bincount(group, values, 10)[used] / count[used]).tolist(),
        "count": count[used].tolist(),
        "error": tested.calibration_error,
        "log_loss": tested.log_loss,
    }


# ---------------------------------------------------------------- completions

# Number of offsets that are drawn: this many of the highest and of the lowest.
ENDS = 8

# Number of entries of each list whose reasons are computed for the page.
EXPLAINED = 40

# Names of the bars in a chart of reasons.
PARTS = {
    "base": "base",
    "row": "row offset",
    "column": "column offset",
    "pattern": "pattern of entries",
    "directions": "directions",
    "layers": "Boolean layers",
    "boolean": "Boolean model",
    "regressions": "other answers",
    "answer": "other levels",
}


def probabilities_of(model: BooleanCompletion) -> Predict:
    """P(o = 1) at pairs of positions."""

    def predict(rows: Integers, columns: Integers) -> Floats:
        return model.ensemble_.probabilities(rows.astype(np.intp), columns.astype(np.intp))

    return predict


def completion_grid(model: BooleanCompletion) -> Grid:
    """The matrix with P(o = 1), rows and columns with the highest offsets first."""
    orders = tuple(
        np.argsort(-bias, kind="stable") for bias in (model.row_bias_, model.column_bias_)
    )
    return make_grid(model.observations_, (orders[0], orders[1]), probabilities_of(model))


def offsets(seen: Observations, bias: Floats, axis: str) -> dict[str, object]:
    """The highest and the lowest offsets of lines with entries, by name, the highest first."""
    filled = np.diff(seen.indptr) > 0
    if axis == "column":
        filled = np.bincount(seen.indices, minlength=seen.n_columns) > 0
    order = np.argsort(-bias, kind="stable")
    order = order[filled[order]]
    if len(order) > 2 * ENDS:
        order = np.concatenate([order[:ENDS], order[-ENDS:]])
    return {
        "axis": axis,
        "names": [name_of(seen, int(i), axis) for i in order],
        "values": bias[order].tolist(),
    }


def reason(found: CompletionExplanation) -> dict[str, object]:
    """The parts of the log-odds of a pair, and their sum."""
    kinds = [part.kind for part in found.parts]
    names = [
        f"{PARTS[part.kind]} {part.family}" if kinds.count(part.kind) > 1 else PARTS[part.kind]
        for part in found.parts
    ]
    return {
        "names": [*names, "in total"],
        "values": [*(round(part.log_odds, 4) for part in found.parts), round(found.log_odds, 4)],
        "sentences": [*(part.sentence for part in found.parts), *found.notes],
    }


def layer_facts(model: BooleanCompletion) -> list[dict[str, object]]:
    """The non-empty Boolean factors with their members, the most certain first.

    Every model of an ensemble has its own factors; those of the first model are shown.
    """
    facts = []
    for family in model.ensemble_.families:
        for number, layer in enumerate(family.members[0].layers, 1):
            way = "more" if layer.strength > 0 else "less"
            facts += _factors(model, f"Layer {number}, factor", way, layer.rows, layer.columns)
    plain = model.ensemble_.plain
    if plain is not None:
        facts += _factors(model, "Boolean factor", "more", plain.rows, plain.columns)
    return facts


def _factors(
    model: BooleanCompletion, name: str, way: str, rows: Floats, columns: Floats
) -> list[dict[str, Any]]:
    facts = []
    for k in range(rows.shape[1]):
        inside = surest(rows[:, k] - BELONGS), surest(columns[k] - BELONGS)
        if not all(len(own) for own in inside):
            continue
        names = [
            [name_of(model.observations_, int(i), axis) for i in own[:MEMBERS_LISTED]]
            for own, axis in zip(inside, ("row", "column"), strict=True)
        ]
        facts.append(
            {
                "name": f"{name} {k + 1}",
                "note": f"Ones are {way} probable here.",
                "rows": names[0],
                "n_rows": len(inside[0]),
                "columns": names[1],
                "n_columns": len(inside[1]),
            }
        )
    return facts


def reasons(
    model: BooleanCompletion, lists: list[EntryList], rows: Lines, columns: Lines, nouns: Words
) -> list[dict[str, object]]:
    """Explanations of the first and the last entries of each list."""
    found = []
    explainer = Explainer(model.ensemble_, model.observations_, words=nouns)
    for entries in lists:
        at = np.arange(len(entries))
        if len(at) > EXPLAINED:
            at = np.concatenate([at[: EXPLAINED // 2], at[-EXPLAINED // 2 :]])
        numbers = rows.numbers(entries.rows[at]), columns.numbers(entries.columns[at])
        for i, row, column in zip(at, *(own.tolist() for own in numbers), strict=True):
            why = explainer.at(int(entries.rows[i]), int(entries.columns[i]))
            found.append({"row": row, "column": column, **reason(why)})
    return found


# ---------------------------------------------------------------- covers


def cover_entries(found: Cover) -> SparseObservations:
    """The table: its ones and its missing entries; all others are zeros."""
    given = found.observations.to_local()
    is_one = given.values == 1
    pattern = sparse.csr_array(
        (is_one.astype(np.int8), given.indices, given.indptr), shape=given.shape, copy=True
    )
    pattern.eliminate_zeros()
    return SparseObservations(
        given.shape,
        _cells(pattern),
        None if found.missing is None else _cells(found.missing),
        given.row_labels,
        given.column_labels,
    )


def _cells(pattern: sparse.csr_array) -> Cells:
    return Cells(pattern.indptr.astype(np.int64), pattern.indices.astype(np.int32))


def cover_facts(facts: CoverFacts) -> Facts:
    """The number of roles, and what they cover."""
    bound = facts.bound
    least = f"{bound:,} (proven)" if facts.is_proven else f"at least {bound:,}" if bound > 1 else ""
    return [
        ("roles", f"{facts.n_factors:,}"),
        ("assignments", f"{facts.cover.n_assignments:,}"),
        *([(f"fewest {facts.measure} possible", least)] if least else []),
        ("ones covered", percent(facts.cover.coverage, 1)),
        ("ones missed", f"{facts.n_missed:,}"),
        ("false ones", f"{facts.n_false:,}"),
    ]


def cover_lists(found: Cover) -> list[EntryList]:
    """Lists of missed ones, which their rows lose, and covered zeros, which their rows gain."""
    return [
        listed(kind, pairs, value, found.predict_proba)
        for kind, pairs, value in (("missed", found.missed, 1), ("false", found.false_ones, 0))
        if len(pairs)
    ]


def cover_review(found: Cover, existing: Any = None) -> dict[str, Any]:
    """Which factors a review of a cover should look at.

    The lines are those of `Cover.review`: `few` of factors that few rows have, `alike` of the pairs
    of factors with the most columns in common, and, with `existing`, `changed` of all factors that
    are not among the existing ones. `dropped` are the existing ones that no factor resembles most.
    """
    table = review_of(found, existing)
    columns = [column.tolist() for column in table.values()]
    lines = [dict(zip(table, line, strict=True)) for line in zip(*columns, strict=True)]
    pairs = {tuple(sorted((line["role"], line["closest_role"]))): line for line in reversed(lines)}
    alike = [line for line in pairs.values() if line["overlap"] > 0]
    review: dict[str, Any] = {
        "few": sorted(
            (line for line in lines if line["held_by_few"]),
            key=lambda line: (line["rows"], line["covered_by_it_alone"]),
        ),
        "alike": sorted(alike, key=lambda line: (-line["overlap"], line["role"])),
        "changed": None,
    }
    if existing is not None:
        names, _ = existing_factors(found, existing)
        resembled = {line["existing_role"] for line in lines}
        review["dropped"] = [name for name in names if name not in resembled]
        review["changed"] = [
            line
            for line in lines
            if line["existing_role"] is None or line["columns_added"] or line["columns_removed"]
        ]
    return review
