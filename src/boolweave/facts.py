"""The facts of a result: figures that terminals, JSON and pages put into words.

They are computed here, once. The sentences of a page are in `report/words.py`, and those of a
terminal in `cli/results.py`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.labels import pairs
from boolweave.metrics import (
    Agreement,
    AnswerScores,
    agreement,
    answer_scores,
    expected_calibration_error,
    log_loss,
)
from boolweave.runtime.types import Bits, Doubles, Integers

if TYPE_CHECKING:
    from boolweave.completion import BooleanCompletion
    from boolweave.completion.ensemble import Ensemble
    from boolweave.covering.result import Cover
    from boolweave.engine.result import Result
    from boolweave.estimator import BooleanMatrixFactorization

# A factor was found again if at least this fraction of the searches found it.
AGAIN = 0.5

HeldOut = tuple[Integers, Integers, Bits]  # rows, columns and values of held-out entries


def answers_of(model: BooleanMatrixFactorization | BooleanCompletion) -> Result | Ensemble:
    """What a fitted model predicts with."""
    return model.ensemble_ if hasattr(model, "ensemble_") else model.result_


def predicted_at(
    answers: Result | Ensemble, rows: Integers, columns: Integers
) -> tuple[Bits, Doubles]:
    """Values and probabilities at positions, (n,) each."""
    from boolweave.engine.result import Result

    if isinstance(answers, Result):
        return answers.predict(rows, columns), answers.predict_proba(rows, columns)
    chance = answers.probabilities(rows.astype(np.intp), columns.astype(np.intp))
    return (chance > 0.5).astype(np.uint8), chance


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """Held-out entries and predictions.

    Attributes
    ----------
    values, predicted : arrays of shape (n,), uint8
        The held-out values, and those that the model predicts.
    chances : array of shape (n,)
        P(o = 1) according to the model.
    answers : AnswerScores, optional
        How well whole answers are predicted, if the model knows the questions of its columns.
    most_frequent : AnswerScores, optional
        The same if the answers of all rows are predicted by their frequencies.
    """

    values: Bits
    predicted: Bits
    chances: Doubles
    answers: AnswerScores | None = None
    most_frequent: AnswerScores | None = None

    @classmethod
    def of(
        cls, model: BooleanMatrixFactorization | BooleanCompletion, held_out: HeldOut
    ) -> HeldOutPredictions:
        """Predict the held-out entries, whose rows and columns are positions or labels."""
        rows, columns, values = held_out
        with warnings.catch_warnings():  # that positions may have been meant as labels
            warnings.simplefilter("ignore")
            rows, columns = pairs(rows, columns, model.observations_)
        values = np.asarray(values)
        predicted, chances = predicted_at(answers_of(model), rows, columns)
        questions = getattr(getattr(model, "ensemble_", None), "questions", None)
        if questions is None or not len(values):
            return cls(values, predicted, chances)
        seen = model.observations_
        n_known = np.bincount(seen.indices, minlength=seen.n_columns)
        n_ones = np.bincount(seen.indices, seen.values, seen.n_columns)
        share = (n_ones / np.maximum(n_known, 1))[columns]
        scores = [
            answer_scores(rows, columns, values, of_model, questions)
            for of_model in (chances, questions.consistent_entries(rows, columns, share))
        ]
        return cls(values, predicted, chances, *scores)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def agreement(self) -> Agreement:
        """How many of the values are predicted correctly."""
        return agreement(self.values, self.predicted)

    @cached_property
    def log_loss(self) -> float:
        """The log-loss of the probabilities, of an answer if the questions are known."""
        if self.answers is not None:
            return self.answers.log_loss
        return log_loss(self.values, self.chances)

    @cached_property
    def calibration_error(self) -> float:
        """The expected calibration error of the probabilities, of all possible answers."""
        if self.answers is not None:
            return self.answers.calibration_error
        return expected_calibration_error(self.values, self.chances)


@dataclass(frozen=True, eq=False)
class FitFacts:
    """The facts of a fitted model, and of held-out entries if there are any."""

    model: Any
    held_out: HeldOut | None = None

    @cached_property
    def tested(self) -> HeldOutPredictions | None:
        """What the model predicts for the held-out entries."""
        return None if self.held_out is None else HeldOutPredictions.of(self.model, self.held_out)

    def figures(self) -> dict[str, Any]:
        """All figures as plain numbers by name, for JSON."""
        if self.tested is None:
            return {}
        found = self.tested.agreement
        return {"held_out": found.n_entries, **found.figures("held_out_")}


@dataclass(frozen=True, eq=False)
class FactorFacts(FitFacts):
    """The facts of a factorization."""

    model: BooleanMatrixFactorization

    @cached_property
    def explained(self) -> Agreement:
        """How well the observed entries are explained."""
        return Agreement.of_counts(self.model.result_.counts(self.model.observations_))

    @property
    def n_components(self) -> int:
        """Number of factors."""
        return len(self.model.components_)

    @cached_property
    def n_empty(self) -> int:
        """Number of factors without any row or without any column."""
        full = (self.model.row_log_odds_ > 0).any(0) & self.model.components_.any(1)
        return self.n_components - int(full.sum())

    @cached_property
    def flags(self) -> list[list[str]]:
        """What is to be said against each factor: a single column or row, or not found again."""
        model = self.model
        flags: list[list[str]] = []
        for k in range(self.n_components):
            n_rows = np.count_nonzero(model.row_log_odds_[:, k] > 0)
            n_columns = np.count_nonzero(model.column_log_odds_[k] > 0)
            own = []
            if n_columns == 1 and n_rows:
                own.append("a single column")
            elif n_rows == 1 and n_columns:
                own.append("a single row")
            if not self.is_single_search and not self.came_back[k]:
                own.append("did not come back in most searches")
            flags.append(own)
        return flags

    @property
    def came_back(self) -> list[bool]:
        """Whether each factor was found again by at least half of the searches, if known."""
        stability = self.model.factor_stability_
        if stability is None:
            return [True] * self.n_components
        return [bool(share >= AGAIN) for share in stability]

    @property
    def missed(self) -> int:
        """Number of observed ones for which a zero is predicted."""
        return self.explained.n_ones - self.explained.n_covered

    @property
    def wrong(self) -> int:
        """Number of observed entries that are predicted wrong."""
        return self.missed + self.explained.false_ones

    @property
    def rank_choice(self) -> str | None:
        """How clear the choice of the number of factors is; None if the number was given."""
        selection = self.model.rank_selection_
        if selection is None:
            return None
        if self.model.n_components == "few":
            return f"few: the curve bends at {selection.elbow}; best: {selection.sentence}"
        return str(selection.sentence)

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no factors have a smaller error."""
        return self.model.error_ is not None and self.model.error_bound_ == self.model.error_

    @property
    def is_single_search(self) -> bool:
        """Whether there was one start, so that nothing could be found again."""
        model = self.model
        if model.error_ is not None:
            return False
        if model.n_init == "auto":
            from boolweave.fit.backends import backends_for

            one = model.method in ("max-sum", "paper")
            return one or backends_for(model.observations_).n_starts == 1
        return model.n_init == 1

    def figures(self) -> dict[str, Any]:
        """All figures as plain numbers by name, for JSON."""
        model, seen = self.model, self.model.observations_
        return {
            "rows": seen.n_rows,
            "columns": seen.n_columns,
            "observed": seen.n_observed,
            "objective": model.objective,
            "zeros": model.result_.zeros,
            "error": model.error_,
            "error_bound": model.error_bound_,
            "missed": self.missed,
            "n_components": self.n_components,
            "n_empty": self.n_empty,
            "rank_choice": self.rank_choice,
            "converged": bool(model.converged_),
            "interrupted": bool(model.interrupted_),
            "n_iter": int(model.n_iter_),
            "log_posterior": float(model.log_posterior_),
            **self.explained.figures(),
            **super().figures(),
        }


@dataclass(frozen=True, eq=False)
class CompletionFacts(FitFacts):
    """The facts of a completion."""

    model: BooleanCompletion

    @property
    def blend(self) -> dict[str, Any] | None:
        """Cross-validated figures of the chosen model; None if no models were compared."""
        return self.model.selection_[0] if self.model.selection_ else None

    @property
    def offsets_alone(self) -> dict[str, Any] | None:
        """The same figures of offsets without directions and layers, if these were tried."""
        from boolweave.completion.selection import offsets_alone

        return offsets_alone(self.model.selection_)

    @property
    def n_missing(self) -> int:
        """Number of entries that were missing; those held out were not."""
        seen = self.model.observations_
        n_held_out = 0 if self.held_out is None else len(self.held_out[0])
        return int(seen.n_rows * seen.n_columns - seen.n_observed - n_held_out)

    @property
    def noun(self) -> str:
        """What is predicted: an answer if the questions are known, otherwise an entry."""
        return "entry" if self.model.ensemble_.questions is None else "answer"

    @property
    def has_enough_entries(self) -> bool:
        """Whether there were enough entries to hold some out and to compare models on them."""
        from boolweave.completion.selection import LEAST_ENTRIES

        return self.model.observations_.n_observed >= LEAST_ENTRIES

    def figures(self) -> dict[str, Any]:
        """All figures as plain numbers by name, for JSON."""
        seen, tested = self.model.observations_, self.tested
        figures = {
            "rows": seen.n_rows,
            "columns": seen.n_columns,
            "observed": seen.n_observed,
            "model": self.model.ensemble_.name,
            "n_members": len(self.model.members_),
            "selection": self.model.selection_,
            "interrupted": bool(self.model.interrupted_),
            **super().figures(),
        }
        if tested is not None:
            figures["held_out_log_loss"] = tested.log_loss
            figures["held_out_calibration"] = tested.calibration_error
            if tested.answers is not None and tested.most_frequent is not None:
                figures["held_out_answers"] = tested.answers.n_answers
                figures["held_out_answers_right"] = tested.answers.accuracy
                figures["held_out_most_frequent_right"] = tested.most_frequent.accuracy
        return figures


@dataclass(frozen=True, eq=False)
class CoverFacts:
    """The facts of a cover."""

    cover: Cover

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return self.cover.n_factors

    @property
    def bound(self) -> int:
        """The proven least cost: the number of factors, or with all assignments."""
        return int(self.cover.bound or 0)

    @property
    def is_proven(self) -> bool:
        """Whether no cover has a lower cost."""
        return self.cover.cost == self.bound and not self.is_short

    @property
    def is_short(self) -> bool:
        """Whether fewer ones are covered than required: rules, or too few factors, forbid it."""
        return self.n_missed > self.cover.most_missed

    @property
    def has_too_few_factors(self) -> bool:
        """Whether more factors than allowed are needed."""
        return self.is_short and self.n_factors == self.cover.most_factors

    @property
    def measure(self) -> str:
        """What counts, in the plural."""
        return "roles" if self.cover.objective == "roles" else "roles and assignments"

    @property
    def n_missed(self) -> int:
        """Number of ones that are not covered."""
        return len(self.cover.missed)

    @property
    def n_false(self) -> int:
        """Number of zeros that are covered."""
        return len(self.cover.false_ones)

    def figures(self) -> dict[str, Any]:
        """All figures as plain numbers by name, for JSON."""
        cover = self.cover
        return {
            "rows": cover.observations.shape[0],
            "columns": cover.observations.shape[1],
            "ones": cover.n_ones,
            "n_roles": self.n_factors,
            "n_fixed": cover.n_fixed,
            "objective": cover.objective,
            "assignments": cover.n_assignments,
            "complexity": cover.complexity,
            "bound": self.bound,
            "coverage": cover.coverage,
            "missed": self.n_missed,
            "false_ones": self.n_false,
            "conflicts": len(cover.conflicts),
            "proven": self.is_proven,
            "ending": cover.ending.value,
            "interrupted": cover.interrupted,
        }
