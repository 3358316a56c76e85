"""Warnings about the data and the result of a fit, each with a remedy.

A remedy names Python parameters in backticks; the command line replaces them by its options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning

from boolweave.engine.result import Ending
from boolweave.fit.judging import has_settled, share_changing
from boolweave.runtime.progress import counted
from boolweave.runtime.warning import warn_user

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.result import Result

# Fewer iterations than this, the default of max_iter, may simply have been too few.
USUAL_ITERATIONS = 200


class DegenerateDataWarning(UserWarning):
    """Nothing or only one value was observed, so that missing entries cannot be inferred."""


def about_changes(result: Result, parameters: Any) -> None:
    """Warn if the decoded factors still changed when the run ended."""
    if result.interrupted or has_settled(result):
        return
    share = share_changing(result)
    if result.ending is Ending.OUT_OF_TIME:
        remedy = f"Raise `max_time`, which is {parameters.max_time:g} seconds."
    elif parameters.max_iter < USUAL_ITERATIONS:
        remedy = f"Raise `max_iter`, which is {parameters.max_iter}."
    elif not result.marginal:
        remedy = (
            "The best factors so far are kept; raise `n_init`, because more starts may be better."
        )
    elif parameters.decimation is None:
        remedy = "Set `decimation=0.1`, which fixes the entries step by step, or use fewer factors."
    else:
        remedy = "Use fewer factors."
    warn_user(
        f"the decoded factors still change after {counted(result.n_iter, 'iteration')}, by "
        f"{share:.1%} of their ones in each. {remedy}",
        ConvergenceWarning,
    )


def about_data(observations: ObservedEntries, parameters: Any) -> None:
    """Warn if missing entries cannot be inferred from the observed ones."""
    n_missing = observations.n_rows * observations.n_columns - observations.n_observed
    if n_missing == 0 or _models_missing(parameters):
        return
    if observations.n_observed == 0:
        guess = "0" if parameters.objective == "errors" else "a guess from the prior"
        warn_user(
            f"no entry was observed, so every entry will be {guess}; check how ones and zeros are "
            'marked; if entries that are not listed are 0, set `absent="zero"`',
            DegenerateDataWarning,
        )
    else:
        about_one_value(observations)


def about_one_value(observations: ObservedEntries) -> None:
    """Warn if entries are missing and all observed entries are equal."""
    n_observed, n_ones = observations.n_observed, observations.n_ones
    n_missing = observations.shape[0] * observations.shape[1] - n_observed
    if n_missing == 0 or n_ones not in (0, n_observed):
        return
    value = int(n_ones > 0)
    remedy = "add observed ones, or check how they are marked"
    if value:
        remedy = (
            'if entries that are not listed are 0, set `absent="zero"`; else add observed zeros'
        )
    warn_user(
        f"all {n_observed} observed entries are {value}, so that nothing indicates a "
        f"{1 - value}: all {n_missing} missing entries will probably become {value}; {remedy}",
        DegenerateDataWarning,
    )


def _models_missing(parameters: Any) -> bool:
    """Whether the user gave a prior, or a channel in which a missing entry is evidence."""
    priors = parameters.row_prior, parameters.column_prior
    learned = all(prior is None or isinstance(prior, str) for prior in priors)
    return not learned or getattr(parameters.noise, "missing_given_zero", None) is not None
