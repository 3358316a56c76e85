"""Warnings about the data and the result of a fit, each with a remedy.

A remedy names Python parameters in backticks; the command line replaces them by its options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from boolweave.engine.result import Ending
from boolweave.fit import judging
from boolweave.model.odds import HARD_EVIDENCE
from boolweave.model.products import product_at
from boolweave.runtime.warning import warn_user
from boolweave.runtime.words import counted

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.result import Result


class DegenerateDataWarning(UserWarning):
    """Nothing or only one value was observed, so that missing entries cannot be inferred."""


class ContradictionWarning(UserWarning):
    """Observed entries contradict noise and priors that were given as certain."""


def about_changes(result: Result, parameters: Any) -> None:
    """Warn if the decoded factors still changed when the run ended."""
    if result.interrupted:
        return
    out_of_time = result.ending is Ending.OUT_OF_TIME
    if parameters.method != "paper" and judging.failed(result, result.observations):
        if out_of_time:  # otherwise, the fit has warned of that
            warn_user(
                "no factors were found in time that are better than a constant matrix. Raise "
                f"`max_time`, which is {parameters.max_time:g} seconds.",
                ConvergenceWarning,
            )
        return
    if judging.has_settled(result):
        return
    share = judging.share_changing(result)
    # Fewer iterations than this, the default of max_iter, may simply have been too few.
    usual_iterations = 200
    if out_of_time:
        remedy = f"Raise `max_time`, which is {parameters.max_time:g} seconds."
    elif parameters.max_iter < usual_iterations:
        remedy = f"Raise `max_iter`, which is {parameters.max_iter}."
    elif parameters.method == "paper":
        remedy = 'Use `method="max-sum"`, which keeps the best factors of several attempts.'
    elif judging.has_few_holes(result.observations) and not judging.explains(result):
        remedy = (
            "They take more bits than the table does without factors, so they may fit nothing but "
            "noise; the best ones are kept."
        )
    elif parameters.method == "max-sum":
        remedy = (
            'The best ones are kept; `method="auto"` continues from them with sum-product, which '
            "is more likely to settle."
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


def about_contradictions(result: Result, parameters: Any) -> None:
    """Warn if the factors make observed entries impossible by the noise that was given."""
    if result.interrupted or not (n := _n_impossible(result)):
        return
    priors = (np.asarray(p) for p in (parameters.row_prior, parameters.column_prior))
    certain = any(p.dtype.kind in "iufb" and ((p == 0) | (p == 1)).any() for p in priors)
    remedy = "Use more factors, or allow for noise, such as `noise=0.01`."
    if certain:
        remedy = (
            "Check `row_prior` and `column_prior`, which are certain where they are 0 or 1, or "
            "allow for noise, such as `noise=0.01`."
        )
    warn_user(
        f"the factors contradict {counted(n, 'observed entry', 'observed entries')}, although the "
        f"given `noise` rules this out. {remedy}",
        ContradictionWarning,
    )


def _n_impossible(result: Result) -> int:
    """Count observed entries that have the probability 0, given the decoded factors."""
    channel, observations = result.model.channel, result.observations
    if channel.is_uniform:
        impossible = np.column_stack(channel.log_probabilities_by_value()) <= -HARD_EVIDENCE
        return int(result.decoded_counts(observations)[impossible].sum()) if impossible.any() else 0
    local = observations.to_local()
    rows, columns = local.rows_of_entries(), local.indices
    given = channel.log_probabilities(rows, columns, local.values, local.shape)
    product = product_at(
        result.row_log_odds, result.column_log_odds, rows, columns, result.model.product
    )
    return int(np.count_nonzero(np.where(product == 1, given[1], given[0]) <= -HARD_EVIDENCE))


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
