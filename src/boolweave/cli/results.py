"""The result of a command: what is written and said about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from boolweave.cli.common import command_line, not_lost
from boolweave.cli.output import (
    check_different,
    check_folder,
    check_report,
    print_message,
    write_all,
)
from boolweave.cli.process import INTERRUPTED
from boolweave.runtime.words import Words, counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from boolweave.cli.common import Model
    from boolweave.cli.options import Keeping
    from boolweave.data.observations import Absent
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.facts import CompletionFacts, FactorFacts, FitFacts, HeldOutPredictions
    from boolweave.io import Reading
    from boolweave.io.cells import Seen

# Number of factors whose stability is reported one by one.
NAMED = 8


def print_summary(facts: FactorFacts | CompletionFacts) -> None:
    """Print the figures of a fit in words."""
    from boolweave.facts import CompletionFacts, FactorFacts

    tested = facts.tested
    if isinstance(facts, FactorFacts):
        empty = f", {facts.n_empty} empty" if facts.n_empty else ""
        words = facts.explained.sentence("observed entries")
        print_message(f"{counted(facts.n_components, 'factor')}{empty}: {words}", False)
        if facts.rank_choice is not None:
            print_message(f"number of factors: {facts.rank_choice}", False)
        if facts.model.error_ is not None:
            print_message(_errors_in_words(facts), False)
            if facts.model.factor_stability_ is not None:
                print_message(_stability_in_words(facts.model.factor_stability_), False)
    else:
        print_message(_filled_in_words(facts), False)
    if tested is not None:
        what = tested.agreement.sentence() if tested.answers is None else _answers(tested)
        print_message(f"held out: {what}", False)
    if isinstance(facts, CompletionFacts):
        details = f"details: {facts.model.ensemble_.name}; {judged(facts)}"
        if tested is not None:
            error, per = tested.calibration_error, " per answer" if tested.answers else ""
            loss = f"held-out log-loss{per} {tested.log_loss:.3f}"
            details += f"; {loss}, calibration error {error:.3f}"
        print_message(details, False)


def _filled_in_words(facts: CompletionFacts) -> str:
    """Describe how much was filled in, and how many hidden entries are predicted correctly."""
    seen = facts.model.observations_
    entries = counted(seen.n_rows * seen.n_columns, "entry", "entries")
    words = f"{facts.n_missing:,} of {entries} were missing and predicted"
    words = words if facts.n_missing else "no entry was missing; every entry got a probability"
    blend, alone = facts.blend, facts.offsets_alone
    if blend is None:
        return f"{words}; how well is unknown, because none was hidden for a test"
    held_out = "entries" if facts.noun == "entry" else "answers"
    words += f"; of {held_out} hidden for a test, {blend['accuracy']:.1%} were predicted correctly"
    if alone is not None:
        words += f" ({alone['accuracy']:.1%} from the totals of rows and columns alone)"
    return words


def _answers(tested: HeldOutPredictions) -> str:
    """Describe how many held-out answers are right."""
    answers, usual = tested.answers, tested.most_frequent
    assert answers is not None and usual is not None
    return (
        f"{answers.accuracy:.1%} of {counted(answers.n_answers, 'answer')} right "
        f"(the most frequent answers: {usual.accuracy:.1%})"
    )


def _errors_in_words(facts: FactorFacts) -> str:
    """Describe the wrong entries, and what is known about the smallest possible number."""
    model = facts.model
    words = (
        f"{counted(facts.wrong, 'wrong entry', 'wrong entries')} = "
        f"{facts.missed:,} missed + {counted(facts.explained.false_ones, 'false one')}"
    )
    if model.false_one_weight != 1:
        words += f"; error {model.error_:,.10g} with --false-one-weight {model.false_one_weight:g}"
    which = counted(facts.n_components, "factor")
    if facts.is_optimal:
        words += f"; optimal: no {which} can do better"
    elif model.error_bound_ > 0:
        words += f"; {which} cannot do better than {model.error_bound_:,.10g}"
    return words


def judged(facts: CompletionFacts) -> str:
    """Describe the losses by which the model of a completion was chosen."""
    if facts.blend is None and facts.has_enough_entries:
        return "the fit ended before it was compared with other models; allow more time"
    if facts.blend is None:
        return "no entries could be held out to compare it with other models"
    per, alone = " per answer" if facts.noun == "answer" else "", facts.offsets_alone
    words = f"cross-validated log-loss{per} {facts.blend['log_loss']:.4f}"
    return words + (f", with {alone['model']} alone {alone['log_loss']:.4f}" if alone else "")


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


def check_kept(keeping: Keeping, output: Path | None) -> None:
    """Check the file names of the model and the report before the work begins."""
    from boolweave.runtime.atomic import is_stream

    model = keeping.model
    words_of(keeping.nouns)
    check_different({"--output": output, "--model": model, "--report": keeping.report})
    check_folder(model, "--model")
    if model is not None and model.suffix.lower() != ".npz" and not is_stream(model):
        raise ValueError(f"--model: expected a name that ends in .npz, got {str(model)!r}")
    if keeping.report is not None:
        check_report(keeping.report, "--report")


def fit_and_write(
    contents: Reading,
    absent: Absent,
    keeping: Keeping,
    seed: int,
    quiet: bool,
    fit: Callable[[Seen], Model],
    write: Callable[[Any], None],
) -> None:
    """Fit, write the model, the answer and the report, and print how good the fit is.

    `write` writes the answer, given its facts. What cannot be written does not affect the rest.
    """
    seen, held_out = contents.observations, None
    if keeping.no_labels:
        seen = replace(seen, row_labels=None)
    if keeping.hold_out:
        if seen.n_observed == 0:
            raise ValueError(
                "--hold-out: expected a table with observed entries, got none; check how ones and "
                "zeros are marked, or set --absent zero if entries that are not listed are 0"
            )
        groups = contents.groups
        hidden = seen.to_local().hide(keeping.hold_out, random_state=seed, groups=groups)
        seen, held_out = hidden[0], hidden[1:]
        if len(held_out[0]) == 0:
            entries = counted(seen.n_observed, "observed entry", "observed entries")
            raise ValueError(
                f"--hold-out {keeping.hold_out:g} is less than one of "
                f"{entries if groups is None else 'the answers'}; give a larger fraction, or "
                "leave it out"
            )
    began = time.time()
    model = fit(seen)
    model.absent = absent
    model.provenance_ = {"command": command_line()}
    if keeping.hold_out:
        model.provenance_["hold_out"] = keeping.hold_out
    if contents.encoded is not None:
        model.provenance_["plan"] = contents.encoded.plan.as_csv()
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.facts import CompletionFacts, FactorFacts

    kind = FactorFacts if isinstance(model, BooleanMatrixFactorization) else CompletionFacts
    facts = kind(model, held_out)
    with not_lost(model, began, keeping.model):
        write_all(
            lambda: _save(model, keeping.model, quiet),
            lambda: write(facts),
            lambda: _report(facts, keeping, contents.name, quiet),
            lambda: None if quiet else print_summary(facts),
        )
    end(model.interrupted_)


def _save(model: Model, path: Path | None, quiet: bool) -> None:
    """Write the model if a file is named."""
    if path is not None:
        model.save(path)
        print_message(f"model: {path}", quiet)


def _report(facts: FitFacts, keeping: Keeping, title: str, quiet: bool) -> None:
    """Write the report if a file is named."""
    if keeping.report is not None:
        from boolweave.report import write_report

        nouns = words_of(keeping.nouns)
        write_report(
            facts.model,
            keeping.report,
            title=title,
            held_out=facts.held_out,
            rows=nouns.rows,
            columns=nouns.columns,
        )
        print_message(f"report: {keeping.report}", quiet)


def end(interrupted: bool) -> None:
    """End with exit code 130 if Ctrl-C ended the run, once everything is written."""
    if interrupted:
        raise typer.Exit(INTERRUPTED)


# Number of factors that a terminal shows.
FACTORS_SHOWN = 20


def words_of(nouns: str | None, verb: str = "has") -> Words:
    """The words of --nouns, such as "users,films", and of --verb.

    Examples
    --------
    >>> from boolweave.cli.results import words_of
    >>> words_of("users, films").columns
    'films'
    """
    if nouns is None:
        return Words(verb)
    names = [name.strip() for name in nouns.split(",")]
    if len(names) != 2 or not all(names):
        raise ValueError(
            f"--nouns: expected two words, for rows and columns, such as users,films; got {nouns!r}"
        )
    return Words(verb, *names)


def factor_sentences(facts: FactorFacts, nouns: Words) -> Iterator[str]:
    """Describe each factor: its size, how certain it is, and who belongs to it."""
    from boolweave.recommend import members, some_names

    model = facts.model
    K = len(model.components_)
    for k in range(min(K, FACTORS_SHOWN)):
        rows, columns = members(model.result_, k, "row"), members(model.result_, k, "column")
        if not rows or not columns:
            yield f"Factor {k + 1} is empty."
            continue
        size = counted(len(rows), nouns.row, nouns.rows)
        words = f"Factor {k + 1}: {size} × {counted(len(columns), nouns.column, nouns.columns)}"
        flags = f" ({'; '.join(facts.flags[k])})" if facts.flags[k] else ""
        yield words + flags + _stability(model, k) + _redundancy(model, k)
        yield f"  {nouns.rows}: {some_names(rows)}"
        yield f"  {nouns.columns}: {some_names(columns)}"
    if K > FACTORS_SHOWN:
        yield f"{K - FACTORS_SHOWN:,} more factors are not shown; -o writes all of them to a file."
    rows_outside = int((model.row_factors_.sum(axis=1) == 0).sum())
    columns_outside = int((model.components_.sum(axis=0) == 0).sum())
    if rows_outside or columns_outside:
        M, N = len(model.row_factors_), model.components_.shape[1]
        sides = ((rows_outside, M, nouns.rows), (columns_outside, N, nouns.columns))
        outside = [f"{n:,} of {size:,} {name}" for n, size, name in sides if n]
        yield f"In no factor: {' and '.join(outside)}."


def _stability(model: BooleanMatrixFactorization, k: int) -> str:
    stability = model.factor_stability_
    if stability is None:
        return ""
    share = float(stability[k])
    how = "every search" if share == 1 else f"{share:.0%} of the searches"
    return f"; found in {how}"


def _redundancy(model: BooleanMatrixFactorization, k: int) -> str:
    if model.redundancy_ is None or model.false_one_weight != 1:
        return ""
    n = round(float(model.redundancy_[k]))
    return f"; without it {n:,} more {'entry' if n == 1 else 'entries'} would be wrong"
