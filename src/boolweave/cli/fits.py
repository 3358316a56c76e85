"""The fit of a command: what is written and reported about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer

from boolweave.cli.common import command_line, not_lost
from boolweave.cli.output import check_folder, check_report, print_message
from boolweave.cli.process import INTERRUPTED
from boolweave.runtime.progress import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from boolweave.cli.common import Model
    from boolweave.cli.options import Keeping
    from boolweave.completion import BooleanCompletion
    from boolweave.data.observations import Absent
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.io import Reading
    from boolweave.io.cells import Seen
    from boolweave.metrics import Agreement
    from boolweave.report.held_out import HeldOut

# Number of factors whose stability is reported one by one.
NAMED = 8


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model, and the entries that were held out to test it."""

    model: Any
    held_out: HeldOut | None

    @cached_property
    def tested(self) -> Agreement | None:
        """How well the held-out entries are predicted, if there are any."""
        from boolweave.functions import predicted_at
        from boolweave.metrics import agreement

        if self.held_out is None:
            return None
        rows, columns, values = self.held_out
        return agreement(values, predicted_at(self.model, rows, columns)[0])

    def summary(self) -> dict[str, object]:
        """The figures of a fit, for `--json`."""
        raise NotImplementedError

    def print_summary(self) -> None:
        """Print the figures of `summary` in words."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FactorFit(Fit):
    """Factors."""

    model: BooleanMatrixFactorization

    @cached_property
    def explained(self) -> Agreement:
        """How well the observed entries are explained."""
        from boolweave.metrics import Agreement

        return Agreement.of_counts(self.model.result_.counts(self.model.observations_))

    def n_empty(self) -> int:
        """Count the factors without any row or without any column."""
        full = (self.model.row_log_odds_ > 0).any(0) & self.model.components_.any(1)
        return len(self.model.components_) - int(full.sum())

    def summary(self) -> dict[str, object]:
        """The figures of a fit, for `--json`."""
        model, seen, explained = self.model, self.model.observations_, self.explained
        summary = {
            "rows": seen.n_rows,
            "columns": seen.n_columns,
            "observed": seen.n_observed,
            "objective": model.objective,
            "zeros": model.result_.zeros,
            "error": model.error_,
            "error_bound": model.error_bound_,
            "missed": explained.n_ones - explained.n_covered,
            "n_components": len(model.components_),
            "n_empty": self.n_empty(),
            "converged": bool(model.converged_),
            "interrupted": bool(model.interrupted_),
            "n_iter": int(model.n_iter_),
            "log_posterior": float(model.log_posterior_),
            **explained.figures(),
        }
        if self.tested is not None:
            summary |= {"held_out": self.tested.n_entries, **self.tested.figures("held_out_")}
        return summary

    def print_summary(self) -> None:
        """Print the figures of `summary` in words."""
        n, n_empty = len(self.model.components_), self.n_empty()
        empty = f", {n_empty} empty" if n_empty else ""
        words = self.explained.sentence("observed entries")
        print_message(f"{counted(n, 'factor')}{empty}: {words}", False)
        if self.model.error_ is not None:
            print_message(self._errors_in_words(), False)
            if self.model.factor_stability_ is not None:
                print_message(_stability_in_words(self.model.factor_stability_), False)
        if self.tested is not None:
            print_message(f"held out: {self.tested.sentence()}", False)

    def _errors_in_words(self) -> str:
        """Describe the wrong entries, and what is known about the smallest possible number."""
        model, explained = self.model, self.explained
        missed, false = explained.n_ones - explained.n_covered, explained.false_ones
        words = (
            f"{counted(missed + false, 'wrong entry', 'wrong entries')} = "
            f"{missed:,} missed + {counted(false, 'false one')}"
        )
        if model.false_one_weight != 1:
            words += (
                f"; error {model.error_:,.10g} with --false-one-weight {model.false_one_weight:g}"
            )
        which = counted(len(model.components_), "factor")
        if model.error_bound_ == model.error_:
            words += f"; optimal: no {which} can do better"
        elif model.error_bound_ > 0:
            words += f"; {which} cannot do better than {model.error_bound_:,.10g}"
        return words


@dataclass(frozen=True, eq=False)
class CompletionFit(Fit):
    """A fitted completion: probabilities of the entries that were not observed."""

    model: BooleanCompletion

    def summary(self) -> dict[str, object]:
        """The figures of a fit, for `--json`."""
        seen = self.model.observations_
        summary: dict[str, object] = {
            "rows": seen.n_rows,
            "columns": seen.n_columns,
            "observed": seen.n_observed,
            "model": self.model.ensemble_.name,
            "n_members": len(self.model.members_),
            "selection": self.model.selection_,
            "interrupted": bool(self.model.interrupted_),
        }
        if self.tested is not None:
            summary |= {"held_out": self.tested.n_entries, **self.tested.figures("held_out_")}
            summary |= {f"held_out_{name}": value for name, value in self._scores().items()}
        return summary

    def print_summary(self) -> None:
        """Print the figures of `summary` in words."""
        print_message(f"chosen: {self.model.ensemble_.name}; {self.judged()}", False)
        if self.tested is not None:
            loss, error = self._scores().values()
            scores = f"log-loss {loss:.3f}, calibration error {error:.3f}"
            print_message(f"held out: {self.tested.sentence()}; {scores}", False)

    def judged(self) -> str:
        """Describe the losses by which the model was chosen."""
        from boolweave.completion.choice.selection import LEAST_ENTRIES

        losses = {row["model"]: row["log_loss"] for row in self.model.selection_}
        if not losses and self.model.observations_.n_observed >= LEAST_ENTRIES:
            return "the fit ended before it was compared with other models; allow more time"
        if not losses:
            return "no entries could be held out to compare it with other models"
        words = f"cross-validated log-loss {losses['blend']:.4f}"
        return f"{words}, with offsets alone {losses['offsets']:.4f}"

    def _scores(self) -> dict[str, float]:
        """Compute log-loss and calibration error of the held-out entries."""
        from boolweave.functions import predicted_at
        from boolweave.metrics import expected_calibration_error, log_loss

        assert self.held_out is not None
        rows, columns, values = self.held_out
        _, chance = predicted_at(self.model, rows, columns)
        return {
            "log_loss": log_loss(values, chance),
            "calibration": expected_calibration_error(values, chance),
        }


def _stability_in_words(stability: NDArray[np.float64]) -> str:
    """Describe which factors every search found, and how often the others were found."""
    changing = [k for k, share in enumerate(stability) if share < 1]
    words = f"stability: {len(stability) - len(changing)} of {counted(len(stability), 'factor')} "
    words += f"{'was' if len(stability) == 1 else 'were'} found in every search"
    if changing:
        named = [f"factor {k + 1} in {stability[k]:.0%}" for k in changing[:NAMED]]
        words += f"; {', '.join(named)}"
    if len(changing) > NAMED:
        words += f" and {len(changing) - NAMED} more"
    return words


def number_of(by_factor: NDArray[np.float64] | None, k: int) -> float | None:
    """Return the number of one factor, or None if there are no such numbers."""
    return None if by_factor is None else float(by_factor[k])


def check_kept(keeping: Keeping) -> None:
    """Check the file names of the model and the report before the work begins."""
    from boolweave.runtime.atomic import is_stream

    model = keeping.model
    check_folder(model, "--model")
    if model is not None and model.suffix.lower() != ".npz" and not is_stream(model):
        raise ValueError(f"--model: expected a name that ends in .npz, got {str(model)!r}")
    if keeping.report is not None:
        check_report(keeping.report, "--report")


@contextmanager
def fitted(
    contents: Reading, absent: Absent, keeping: Keeping, seed: int, quiet: bool,
    fit: Callable[[Seen], Model],
) -> Iterator[Fit]:  # fmt: skip
    """Fit, write the model and the report, and finally print how good the fit is.

    The model is not lost if the answer cannot be written.
    """
    from boolweave.estimator import BooleanMatrixFactorization

    seen, held_out = contents.observations, None
    if keeping.hold_out:
        hidden = seen.to_local().hide(keeping.hold_out, random_state=seed)
        seen, held_out = hidden[0], hidden[1:]
    began = time.time()
    model = fit(seen)
    model.absent = absent
    model.provenance_ = {"command": command_line()}
    if keeping.hold_out:
        model.provenance_["hold_out"] = keeping.hold_out
    kind = FactorFit if isinstance(model, BooleanMatrixFactorization) else CompletionFit
    found = kind(model, held_out)
    with not_lost(model, began, keeping.model):
        _keep(found, keeping, contents.name, quiet)
        yield found
    if not quiet:
        found.print_summary()
    end(model.interrupted_)


def _keep(found: Fit, keeping: Keeping, title: str, quiet: bool) -> None:
    """Write the model and the report if the options ask for them."""
    if keeping.model is not None:
        found.model.save(keeping.model)
        print_message(f"model: {keeping.model}", quiet)
    if keeping.report is not None:
        from boolweave.report import write_report

        write_report(found.model, keeping.report, title=title, held_out=found.held_out)
        print_message(f"report: {keeping.report}", quiet)


def end(interrupted: bool) -> None:
    """End with exit code 130 if Ctrl-C ended the run, once everything is written."""
    if interrupted:
        raise typer.Exit(INTERRUPTED)
