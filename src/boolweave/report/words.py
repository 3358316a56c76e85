"""The first paragraph of a page: what was found, how certain it is, and what did not work."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from boolweave.data.observed import ObservedEntries
from boolweave.engine.result import Ending
from boolweave.facts import CompletionFacts, CoverFacts, FactorFacts, HeldOutPredictions
from boolweave.fit.judging import has_settled, share_changing
from boolweave.metrics import Agreement
from boolweave.recommend import percent
from boolweave.runtime.words import NEUTRAL, Words, counted

# Number of factors that a sentence lists.
LISTED = 8

# A blend whose log-loss is lower by less than this is no better than offsets.
SAME_LOSS = 0.001


# The meanings of words in the names of figures; a figure is explained if its name contains one.
GLOSSARY = {
    "ones covered": "fraction of the observed ones for which the model also predicts 1",
    "zeros predicted as ones": "observed zeros for which the model predicts 1: false ones",
    "false ones": "observed zeros for which the model predicts 1",
    "entries right": "fraction of the entries that the model predicts as observed; in parentheses, "
    "the same for a table of only zeros, or only ones",
    "wrong entries": "ones that the model misses, and zeros that it predicts as ones",
    "least possible error": "a proven lower bound: the same number of factors cannot have a "
    "smaller error",
    "noise": "how often an observed entry is assumed to be the opposite of the true one",
    "held-out": "for entries that were hidden from the model",
    "cross-validated": "for entries that were hidden from one of several fits in turn",
    "log-loss": "measures whether probabilities can be trusted: being certain and wrong costs "
    "most; 0 is perfect, and 0.69 is what tossing a coin gets",
    "area under the curve": "how often a one gets a higher probability than a zero",
    "calibration error": "mean gap between a probability and how often it comes true",
    "offsets": "how much more or less common ones are in a row or column than in others",
    "models averaged": "the probability is the mean over this many models, each drawn at random",
    "fewest roles": "a proven lower bound: no cover with the required properties has fewer",
}


def explained(names: list[str]) -> dict[str, str]:
    """The words in the names of figures, with their meanings."""
    return {word: what for word, what in GLOSSARY.items() if any(word in name for name in names)}


@dataclass(frozen=True)
class InShort:
    """A paragraph: what was found, how certain it is, and what did not work."""

    found: list[str]
    sure: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


# Numbers at the beginning of a sentence are spelled out up to this one.
WRITTEN = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


def count_first(n: int, what: str, plural: str | None = None) -> str:
    """A number of things at the beginning of a sentence."""
    return f"{_number_first(n)} {what if n == 1 else plural or what + 's'}"


def _number_first(n: int) -> str:
    return WRITTEN[n] if n < len(WRITTEN) else f"{n:,}"


def _size(shape: tuple[int, int], nouns: Words) -> str:
    rows = counted(shape[0], nouns.row, nouns.rows)
    return f"{rows} and {counted(shape[1], nouns.column, nouns.columns)}"


def table_in_words(seen: ObservedEntries, nouns: Words) -> str:
    """The size of a table, and how much of it was observed."""
    size = _size(seen.shape, nouns)
    if seen.is_complete:
        return f"a table of {size} without missing entries"
    share = seen.n_observed / (seen.n_rows * seen.n_columns)
    return f"a table of {size}, in which {percent(share, 1)} of the entries were observed"


# ---------------------------------------------------------------- factors


def of_factors(facts: FactorFacts, nouns: Words = NEUTRAL) -> InShort:
    """The paragraph about a factorization."""
    model, K, right = facts.model, facts.n_components, facts.explained
    explain = "explains" if K == 1 else "explain"
    table = table_in_words(model.observations_, nouns)
    found = [f"{count_first(K, 'factor')} {explain} {table}."]
    if right.n_entries:
        found.append(_explained(right, K))
    if model.rank_selection_ is not None:
        tried = model.rank_selection_.ranks
        found.append(
            f"Their number was chosen from {tried.min()} to {tried.max()} ({facts.rank_choice})."
        )
    sure, trouble = _how_sure(facts)
    if facts.tested:
        sure.append(_on_held_out(facts.tested))
    return InShort(found, sure, trouble + _factor_troubles(facts))


def _explained(right: Agreement, K: int) -> str:
    if right.ones_covered is None:
        ones = "There were no ones to cover"
    else:
        whom = "It covers" if K == 1 else "Together they cover"
        ones = f"{whom} {percent(right.ones_covered, 1)} of the observed ones"
    constant = "1" if right.constant else "0"
    false = counted(right.false_ones, "false one") if right.false_ones else "no false ones"
    return (
        f"{ones}, with {false} where a zero was observed; "
        f"{percent(right.accuracy, 1)} of the observed entries are right, compared with "
        f"{percent(right.constant_accuracy, 1)} if every entry were {constant}."
    )


def _how_sure(facts: FactorFacts) -> tuple[list[str], list[str]]:
    """What is known about other searches and about better answers."""
    sure: list[str] = []
    trouble: list[str] = []
    model, K, stability = facts.model, facts.n_components, facts.model.factor_stability_
    if facts.is_single_search or stability is None:
        sure.append("There was only one search, so it is unknown whether another would agree.")
    else:
        n_again = sum(facts.came_back)
        if (stability == 1).all():
            what = "it" if K == 1 else "each of them"
            sure.append(f"Every search, from different starts, found {what} again.")
        elif n_again == K:
            what = "It was" if K == 1 else "All of them were"
            sure.append(f"{what} found again by at least half of the searches.")
        else:
            only = "none" if n_again == 0 else f"only {n_again:,}"
            trouble.append(
                f"{only.capitalize()} of {counted(K, 'factor')} "
                f"{'was' if n_again == 1 else 'were'} found again by at least half of the "
                "searches: other factors explain the table equally well."
            )
    if facts.is_optimal:
        which = "other factor has" if K == 1 else f"{counted(K, 'factor')} have"
        sure.append(f"It is proven that no {which} fewer errors.")
    elif model.error_bound_:
        sure.append(
            f"It is proven that {counted(K, 'factor')} {_has(K)} an error of at least "
            f"{model.error_bound_:,.10g}; here it is {model.error_:,.10g}."
        )
    return sure, trouble


def _factor_troubles(facts: FactorFacts) -> list[str]:
    model, result, right = facts.model, facts.model.result_, facts.explained
    K, n_empty, trouble = facts.n_components, facts.n_empty, []
    if n_empty:
        trouble.append(f"{count_first(n_empty, 'factor')} {_is_are(n_empty)} empty.")
    single = [k + 1 for k, flags in enumerate(facts.flags) if "a single column" in flags]
    if single:
        named = ", ".join(map(str, single[:LISTED])) + (" …" if len(single) > LISTED else "")
        trouble.append(
            f"{count_first(len(single), 'factor')} ({named}) {_has(len(single))} a single column: "
            "it says nothing about what belongs together."
        )
    if right.n_entries and (right.accuracy or 0) <= (right.constant_accuracy or 0) < 1:
        trouble.append("A constant gets as many entries right: the factors do not explain more.")
    if result.ending is Ending.INTERRUPTED:
        trouble.append("The run was interrupted: this is the best answer found before that.")
    elif result.ending is Ending.OUT_OF_TIME:
        trouble.append("The time ran out: this is the best answer found before that.")
    elif model.error_ is None and not has_settled(result):
        trouble.append(
            f"The messages did not converge: {share_changing(result):.1%} of the ones of the "
            "factors still changed in each iteration. More iterations or fewer factors may help."
        )
    if model.redundancy_ is not None and K > 1:
        n_useless = int(np.count_nonzero(model.redundancy_ <= 0)) - n_empty
        if n_useless > 0:
            trouble.append(
                f"{count_first(n_useless, 'factor')} could be left out without additional errors."
            )
    return trouble


def _is_are(n: int) -> str:
    return "is" if n == 1 else "are"


def _has(n: int) -> str:
    return "has" if n == 1 else "have"


def _on_held_out(tested: HeldOutPredictions) -> str:
    if tested.answers is not None and tested.most_frequent is not None:
        return (
            f"Of {counted(tested.answers.n_answers, 'held-out answer')}, "
            f"{tested.answers.accuracy:.1%} were predicted correctly, compared with "
            f"{tested.most_frequent.accuracy:.1%} if the most frequent answer to each question "
            "were predicted."
        )
    found = tested.agreement
    constant = "1" if found.constant else "0"
    return (
        f"Of {counted(len(tested), 'held-out entry', 'held-out entries')}, {found.accuracy:.1%} "
        f"were predicted correctly, compared with {found.constant_accuracy:.1%} if all of them "
        f"were predicted to be {constant}."
    )


# ---------------------------------------------------------------- completions and covers


def of_completion(facts: CompletionFacts, nouns: Words = NEUTRAL) -> InShort:
    """The paragraph about a completion."""
    model, seen = facts.model, facts.model.observations_
    if facts.n_missing:
        entries = counted(facts.n_missing, "missing entry", "missing entries")
        found = [f"The model filled in {entries} of {table_in_words(seen, nouns)}."]
    else:
        found = [f"Every entry of {table_in_words(seen, nouns)} got a probability."]
    sure, trouble = [], []
    blend, alone = facts.blend, facts.offsets_alone
    if blend is not None:
        held_out = "entries" if facts.noun == "entry" else "answers"
        share = f"{blend['accuracy']:.1%}"
        judged = f"Of {held_out} hidden for a test, {share} were predicted correctly"
        if alone is not None:
            judged += f", and {alone['accuracy']:.1%} from the totals of rows and columns alone"
            if blend["log_loss"] > alone["log_loss"] - SAME_LOSS:
                trouble.append(f"Nothing beyond these totals helped to predict hidden {held_out}.")
        sure.append(f"{judged}.")
    else:
        trouble.append(f"{why_not_compared(facts)} Its quality is unknown.")
    if facts.tested:
        sure.append(_on_held_out(facts.tested))
    for name, plural, per_line in zip(
        (nouns.row, nouns.column),
        (nouns.rows, nouns.columns),
        seen.observed_per_line(),
        strict=True,
    ):
        if n_empty := int((per_line == 0).sum()):
            trouble.append(
                f"{count_first(n_empty, name, plural)} {_has(n_empty)} no entries and got the "
                f"predictions of an average {name}."
            )
    if model.interrupted_:
        trouble.append("The run was interrupted: fewer models are averaged than requested.")
    return InShort(found, sure, trouble)


def why_not_compared(facts: CompletionFacts) -> str:
    """Why no models were compared on held-out entries."""
    if facts.has_enough_entries:
        return "The fit ended before models could be compared on held-out entries."
    return "There are too few entries to hold some out and to compare models on them."


def of_cover(facts: CoverFacts, nouns: Words = NEUTRAL) -> InShort:
    """The paragraph about a cover."""
    found, K, bound, n_false = facts.cover, facts.n_factors, facts.bound, facts.n_false
    table = f"a table of {_size(found.observations.shape, nouns)}"
    if not found.n_ones:
        return InShort([f"There are no ones to cover in {table}."])
    covered = [
        f"{count_first(K, 'role')} cover{'s' if K == 1 else ''} {percent(found.coverage, 1)} of "
        f"the {counted(found.n_ones, 'one')} of {table}, and "
        f"{counted(n_false, 'zero') if n_false else 'no zeros'}."
    ]
    if found.n_fixed:
        covered.append(
            f"The first {counted(found.n_fixed, 'role')} {_is_are(found.n_fixed)} given."
        )
    sure, trouble = [], []
    if facts.is_proven:
        sure.append(f"It is proven that no cover has fewer {facts.measure}.")
    elif facts.has_too_few_factors and bound > (found.cost or 0):
        trouble.append(
            f"The requested cover needs at least {bound:,} {facts.measure}: as many ones as "
            "possible are covered."
        )
    elif bound > 1 and not facts.is_short:
        sure.append(f"It is proven that no cover has fewer than {bound:,} {facts.measure}.")
    if n_missed := facts.n_missed:
        missed = f"{_number_first(n_missed)} of the ones {_is_are(n_missed)} not covered"
        if n_missed <= found.most_missed:
            covered.append(f"{missed}, as the required coverage allows.")
        else:
            trouble.append(f"{missed}{'' if facts.has_too_few_factors else ' within the rules'}.")
    if found.conflicts:
        rows = len({row for row, *_ in found.conflicts})
        have = "has" if rows == 1 else "have"
        who = count_first(rows, nouns.row, nouns.rows)
        trouble.append(f"{who} {have} {nouns.columns} that are in conflict.")
    if found.interrupted:
        trouble.append("The search was interrupted: this is the best cover found before that.")
    elif found.ending is Ending.OUT_OF_TIME and not facts.is_proven:
        trouble.append("The time ran out: this is the best cover found before that.")
    return InShort(covered, sure, trouble)
