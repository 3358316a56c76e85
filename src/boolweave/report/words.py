"""The first paragraph of a page: what was found, how certain it is, and what did not work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from boolweave.completion.choice.selection import LEAST_ENTRIES
from boolweave.engine.result import Ending
from boolweave.fit.judging import has_settled, share_changing
from boolweave.metrics import Agreement
from boolweave.runtime.progress import counted

if TYPE_CHECKING:
    from boolweave.completion import BooleanCompletion
    from boolweave.covering.result import Cover
    from boolweave.data.observed import ObservedEntries
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.report.held_out import HeldOutPredictions

# A factor was found again if at least this fraction of the searches found it.
AGAIN = 0.5

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
    "fewest possible": "no cover with the required properties has fewer factors",
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


def count_first(n: int, what: str) -> str:
    """A number of things at the beginning of a sentence."""
    return f"{_number_first(n)} {what if n == 1 else what + 's'}"


def _number_first(n: int) -> str:
    return WRITTEN[n] if n < len(WRITTEN) else f"{n:,}"


def percent(share: float | None) -> str:
    """A share in percent, with one digit; 0.0% and 100.0% are exact. None means of nothing."""
    if share is None:
        return "–"
    if 0.9995 <= share < 1:
        return "over 99.9%"
    return "under 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def table_in_words(seen: ObservedEntries) -> str:
    """The size of a table, and how much of it was observed."""
    size = f"{counted(seen.n_rows, 'row')} and {counted(seen.n_columns, 'column')}"
    if seen.is_complete:
        return f"a table of {size} without missing entries"
    share = seen.n_observed / (seen.n_rows * seen.n_columns)
    return f"a table of {size}, in which {percent(share)} of the entries were observed"


# ---------------------------------------------------------------- factors


def of_factors(
    model: BooleanMatrixFactorization, tested: HeldOutPredictions | None = None
) -> InShort:
    """The paragraph about a factorization."""
    result, seen = model.result_, model.observations_
    K = len(model.components_)
    right = Agreement.of_counts(result.counts(seen))
    explain = "explains" if K == 1 else "explain"
    found = [f"{count_first(K, 'factor')} {explain} {table_in_words(seen)}."]
    if right.n_entries:
        found.append(_explained(right, K))
    if model.rank_selection_ is not None:
        tried = model.rank_selection_.ranks
        found.append(f"Their number was chosen from {tried.min()} to {tried.max()}.")
    sure, trouble = _how_sure(model)
    if tested is not None and len(tested):
        sure.append(_on_held_out(tested))
    return InShort(found, sure, trouble + _factor_troubles(model, right))


def _explained(right: Agreement, K: int) -> str:
    if right.ones_covered is None:
        ones = "There were no ones to cover"
    else:
        whom = "It covers" if K == 1 else "Together they cover"
        ones = f"{whom} {percent(right.ones_covered)} of the observed ones"
    constant = "1" if right.constant else "0"
    false = counted(right.false_ones, "false one") if right.false_ones else "no false ones"
    return (
        f"{ones}, with {false} where a zero was observed; "
        f"{percent(right.accuracy)} of the observed entries are right, compared with "
        f"{percent(right.constant_accuracy)} if every entry were {constant}."
    )


def _how_sure(model: BooleanMatrixFactorization) -> tuple[list[str], list[str]]:
    """What is known about other searches and about better answers."""
    sure: list[str] = []
    trouble: list[str] = []
    K, stability = len(model.components_), model.factor_stability_
    if is_single_search(model) or stability is None:
        sure.append("There was only one search, so it is unknown whether another would agree.")
    else:
        n_again = int(np.count_nonzero(stability >= AGAIN))
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
    if model.error_ is not None:
        bound = model.error_bound_ or 0.0
        if bound == model.error_:
            which = "other factor has" if K == 1 else f"{counted(K, 'factor')} have"
            sure.append(f"It is proven that no {which} fewer errors.")
        elif bound > 0:
            sure.append(
                f"It is proven that {counted(K, 'factor')} {_has(K)} an error of at least "
                f"{bound:,.10g}; here it is {model.error_:,.10g}."
            )
    return sure, trouble


def is_single_search(model: BooleanMatrixFactorization) -> bool:
    """Whether there was one start, so that nothing could be found again."""
    if model.error_ is not None:
        return False
    if model.n_init == "auto":
        return model.method == "max-sum" or model.result_.zeros == "collective"
    return model.n_init == 1


def _factor_troubles(model: BooleanMatrixFactorization, right: Agreement) -> list[str]:
    result, trouble = model.result_, []
    K = len(model.components_)
    n_empty = K - int((result.X.any(0) & result.Y.any(1)).sum())
    if n_empty:
        trouble.append(f"{count_first(n_empty, 'factor')} {_is_are(n_empty)} empty.")
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
    found = tested.agreement
    constant = "1" if found.constant else "0"
    return (
        f"Of {counted(len(tested), 'held-out entry', 'held-out entries')}, {found.accuracy:.1%} "
        f"were predicted correctly, compared with {found.constant_accuracy:.1%} if all of them "
        f"were predicted to be {constant}."
    )


# ---------------------------------------------------------------- completions and covers


def of_completion(model: BooleanCompletion, tested: HeldOutPredictions | None = None) -> InShort:
    """The paragraph about a completion."""
    seen = model.observations_
    n_holes = seen.n_rows * seen.n_columns - seen.n_observed
    if n_holes:
        entries = counted(n_holes, "missing entry", "missing entries")
        found = [f"The model filled in {entries} of {table_in_words(seen)}."]
    else:
        found = [f"Every entry of {table_in_words(seen)} got a probability."]
    found.append(f"The model is {model.ensemble_.name}.")
    sure, trouble = [], []
    judged = {row["model"]: row for row in model.selection_}
    if judged:
        blend, offsets = judged["blend"], judged["offsets"]
        sure.append(
            f"In cross-validation, {blend['accuracy']:.1%} of the held-out entries were predicted "
            f"correctly, with a log-loss of {blend['log_loss']:.3f}; offsets of rows and columns "
            f"alone get {offsets['accuracy']:.1%} and {offsets['log_loss']:.3f}."
        )
        if blend["log_loss"] > offsets["log_loss"] - SAME_LOSS:
            trouble.append("Nothing beyond these offsets helped to predict held-out entries.")
    else:
        trouble.append(f"{why_not_compared(model)} Its quality is unknown.")
    if tested is not None and len(tested):
        sure.append(_on_held_out(tested))
    for name, per_line in zip(("row", "column"), seen.observed_per_line(), strict=True):
        if n_empty := int((per_line == 0).sum()):
            trouble.append(
                f"{count_first(n_empty, name)} {_has(n_empty)} no entries and got the predictions "
                f"of an average {name}."
            )
    if model.interrupted_:
        trouble.append("The run was interrupted: fewer models are averaged than requested.")
    return InShort(found, sure, trouble)


def why_not_compared(model: BooleanCompletion) -> str:
    """Why no models were compared on held-out entries."""
    if model.observations_.n_observed < LEAST_ENTRIES:
        return "There are too few entries to hold some out and to compare models on them."
    return "The fit ended before models could be compared on held-out entries."


def of_cover(found: Cover) -> InShort:
    """The paragraph about a cover."""
    K, bound, n_false = int(found.cost or 0), int(found.bound or 0), len(found.false_ones)
    M, N = found.observations.shape
    table = f"a table of {counted(M, 'row')} and {counted(N, 'column')}"
    if not found.n_ones:
        return InShort([f"There are no ones to cover in {table}."])
    covered = [
        f"{count_first(K, 'factor')} cover{'s' if K == 1 else ''} {percent(found.coverage)} of "
        f"the {counted(found.n_ones, 'one')} of {table}, and "
        f"{counted(n_false, 'zero') if n_false else 'no zeros'}."
    ]
    if found.n_fixed:
        covered.append(
            f"The first {counted(found.n_fixed, 'factor')} {_is_are(found.n_fixed)} given."
        )
    sure, trouble = [], []
    if bound == K:
        sure.append("It is proven that no cover has fewer factors.")
    elif bound > K:
        trouble.append(
            f"The requested cover needs at least {bound:,} factors: as many ones as possible are "
            "covered."
        )
    elif bound > 1:
        sure.append(f"It is proven that no cover has fewer than {bound:,} factors.")
    if n_missed := len(found.missed):
        missed = f"{_number_first(n_missed)} of the ones {_is_are(n_missed)} not covered"
        if n_missed <= found.most_missed:
            covered.append(f"{missed}, as the required coverage allows.")
        else:
            trouble.append(f"{missed}.")
    if found.interrupted:
        trouble.append("The search was interrupted: this is the best cover found before that.")
    return InShort(covered, sure, trouble)
