"""The command `boolweave cover`: the fewest roles, which are factors, that cover the ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from boolweave.cli.common import command_line, local_file, print_contents, read_input
from boolweave.cli.options import Covering, NounsOption, ReadingOptions, Source, Writing
from boolweave.cli.output import (
    check_different,
    check_folder,
    check_output,
    check_report,
    in_words,
    output_format,
    print_message,
    put_answer,
    write_all,
)
from boolweave.cli.results import end, words_of
from boolweave.io.files import shortened
from boolweave.runtime.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from boolweave.covering.matrix import Matrix
    from boolweave.covering.result import Cover
    from boolweave.data.observations import Observations

# How many names of a role, and how many roles and entries, a terminal shows.
NAMES_SHOWN = 8
ROLES_SHOWN = 20
ENTRIES_SHOWN = 20

_write = partial(typer.Option, rich_help_panel="Output")


def cover(
    source: Source,
    *,
    writing: Writing,
    covering: Covering,
    changes: Annotated[
        Path | None, _write(help="Write to this file which rows lose and gain which columns.")
    ] = None,
    review: Annotated[
        Path | None,
        _write(
            help="Write to this file the size of each role, whether few rows "
            "have it, and which other role is most like it."
        ),
    ] = None,
    existing: Annotated[
        Path | None,
        _write(
            help="A file of existing roles, as for --fixed, with which --review, "
            "--report and --json compare each role.",
            metavar="FILE",
        ),
    ] = None,
    curve: Annotated[
        Path | None, _write(help="Write to this file how much the first 1, 2, ... roles cover.")
    ] = None,
    report: Annotated[Path | None, _write(help="Write a report to this file (.html).")] = None,
    nouns: NounsOption = None,
    reading: ReadingOptions,
) -> None:
    """Find the fewest roles that cover all ones of a table.

    A role is a factor: a set of rows, for example users, and a set of columns, for example
    permissions, which all of these rows have. The answer has one line for each member of each role:
    role (its number), axis, label, and a name with --row-attributes, or if roles of --fixed have
    names. On a terminal, it consists of sentences. Entries that sparse files, pairs, triples or
    transactions do not list are treated as zeros.

    Example: boolweave cover grants.csv --changes changes.csv
    """
    from boolweave.io.write import TABLE_FORMATS, write_table

    kind = check_output(writing)
    tables: list[tuple[Path | None, str, Callable[[Cover], pl.DataFrame]]] = [
        (changes, "--changes", lambda found: found.changes()),
        (curve, "--curve", _curve),
        (review, "--review", lambda found: found.review(existing_roles)),
    ]
    files = {"--output": writing.output} | {option: path for path, option, _ in tables}
    check_different(files | {"--report": report})
    for path, option, _ in tables:
        check_folder(path, option)
        output_format(path, None, TABLE_FORMATS, option)
    if report is not None:
        check_report(report, "--report")
    called = words_of(nouns)
    matrix = _read(source, reading, writing.quiet)
    # Imported here, because this takes a second or two.
    from boolweave.covering.matrix import Requirements
    from boolweave.functions import cover as find_cover
    from boolweave.io import read_columns

    existing_roles = _roles_of_file(existing)
    if existing_roles is not None:  # wrong columns are an error before the search, not after it
        Requirements.of(matrix, fixed=existing_roles)
    readers: dict[str, Callable[[Path], object]] = {
        "fixed": _roles_of_file, "conflicts": _conflicts, "row_attributes": read_columns,
    }  # fmt: skip
    for name, read in readers.items():
        if name in covering:
            covering[name] = read(Path(covering[name]))
    found = find_cover(matrix, **covering, verbose=not writing.quiet)

    def write_answer() -> None:
        if in_words(writing):
            for line in _in_sentences(found):
                typer.echo(line)
            return
        put_answer(
            writing,
            lambda: _as_json(found, existing_roles),
            lambda: write_table(_members(found), writing.output, kind),
        )

    def write_more(path: Path | None, option: str, table: Callable[[Cover], pl.DataFrame]) -> None:
        if path is not None:
            write_table(table(found), path, output_format(path, None, TABLE_FORMATS, option))

    def write_page() -> None:
        if report is not None:
            from boolweave.report import write_report

            write_report(
                found,
                report,
                title=Path(source).name,
                command=command_line(),
                existing=existing_roles,
                rows=called.rows,
                columns=called.columns,
            )
            print_message(f"report: {report}", writing.quiet)

    write_all(
        write_answer,
        *(partial(write_more, *table) for table in tables),
        write_page,
        lambda: print_message(_summary(found), writing.quiet),
    )
    end(found.interrupted)


def _roles_of_file(path: Path | None) -> Observations | None:
    """The columns of roles, with their names and those of their columns."""
    if path is None:
        return None
    read = read_input(str(path), ReadingOptions(encode="never"), True)
    return read.observations.to_local()


def _conflicts(path: Path) -> list[list[str]]:
    """The names in each line of a text file."""
    import csv

    with local_file(path) as local, local.open(encoding="utf-8-sig", newline="") as file:
        lines = [[name.strip() for name in line] for line in csv.reader(file)]
    return [line for line in lines if any(line)]


def _read(source: str, how: ReadingOptions, quiet: bool) -> Matrix:
    """Read the table; in files that list entries, the entries that are not listed are zeros."""
    are_zeros = how.absent != "missing"
    if how.absent is not None:
        how = replace(how, absent="missing")
    contents = read_input(source, how, True, "missing")
    if not contents.lists_entries:
        are_zeros = False
    guess = contents.guess.replace("absent entries are missing", "absent entries are zero")
    print_contents(contents, guess if are_zeros else contents.guess, quiet)
    seen = contents.observations.to_local()
    from boolweave.covering.matrix import Matrix

    return Matrix.of_observations(seen, "zero" if are_zeros else "missing")


# ---------------------------------------------------------------- the answer


def _names(found: Cover) -> tuple[list[str], list[str]]:
    from boolweave.io.write import column_names, row_names

    seen = found.observations.to_local()
    return row_names(seen), column_names(seen)


def _roles(found: Cover) -> list[tuple[list[str], list[str]]]:
    """Return the names of the rows and of the columns of each role."""
    import numpy as np

    rows, columns = _names(found)
    K = found.n_factors
    return [
        ([rows[m] for m in np.flatnonzero(x)], [columns[n] for n in np.flatnonzero(y)])
        for x, y in zip(found.X.T[:K], found.Y[:K], strict=True)
    ]


def _members(found: Cover) -> pl.DataFrame:
    """Return a table with one line for each member of each role."""
    import polars as pl

    table: pl.DataFrame = found.members().drop("probability").rename({"factor": "role"})
    return table.with_columns(pl.col("^name$").replace("", None))


def _curve(found: Cover) -> pl.DataFrame:
    """Return a table of how much the first 1, 2, ... roles cover."""
    import polars as pl

    return pl.DataFrame({"roles": range(1, found.n_factors + 1), "coverage": found.curve})


def _as_json(found: Cover, existing: Observations | None = None) -> dict[str, object]:
    from boolweave.facts import CoverFacts

    return {
        **CoverFacts(found).figures(),
        "roles": [
            {
                "role": k + 1,
                "name": found.name_of_factor(k),
                "fixed": k < found.n_fixed,
                "rows": rows,
                "columns": columns,
            }
            for k, (rows, columns) in enumerate(_roles(found))
        ],
        "changes": found.changes().to_dicts(),
        "review": found.review(existing).to_dicts(),
        "curve": _curve(found).to_dicts(),
    }


# ---------------------------------------------------------------- in words


def _in_sentences(found: Cover) -> list[str]:
    lines = []
    roles = _roles(found)
    for k, (rows, columns) in enumerate(roles[:ROLES_SHOWN]):
        which = f"Role {k + 1}"
        name = found.name_of_factor(k)
        notes = [shortened(name, 40)] if name else []
        if k < found.n_fixed:
            notes.append("fixed")
        elif (description := found.description_of(k)) is not None:
            notes = [shortened(str(description), 60)]
        which += f" ({', '.join(notes)})" if notes else ""
        have = "has" if len(rows) == 1 else "have"
        lines.append(f"{which}: {_some(rows, 'row')} {have} {_some(columns, 'column')}.")
        who = "It covers" if k == 0 else f"The first {k + 1} roles cover"
        lines.append(f"  {who} {found.curve[k]:.1%} of the ones.")
    if len(roles) > ROLES_SHOWN:
        more = len(roles) - ROLES_SHOWN
        lines.append(f"{more} more roles are not shown; -o writes all of them to a file.")
    changes = found.changes()
    for row, what, column in changes.head(ENTRIES_SHOWN).iter_rows():
        lines.append(f"{row} {what} {column}.")
    if len(changes) > ENTRIES_SHOWN:
        more = len(changes) - ENTRIES_SHOWN
        lines.append(f"{more} more changes are not shown; --changes writes all of them to a file.")
    return lines


def _some(names: list[str], what: str) -> str:
    """Write how many names there are, and list the first of them."""
    if not names:
        return f"no {what}s"
    shown = ", ".join(shortened(name, 40) for name in names[:NAMES_SHOWN])
    more = ", ..." if len(names) > NAMES_SHOWN else ""
    return f"{counted(len(names), what)} ({shown}{more})"


def _summary(found: Cover) -> str:
    from boolweave.facts import CoverFacts

    facts = CoverFacts(found)
    # Not "100.0%" if a one is missed.
    coverage = min(found.coverage, 0.999) if facts.n_missed else 1.0
    words = (
        f"{counted(facts.n_factors, 'role covers', 'roles cover')} {coverage:.1%} of "
        f"{counted(found.n_ones, 'one')}, {counted(facts.n_false, 'false one')}, "
        f"{counted(found.n_assignments, 'assignment')}"
    )
    if facts.is_proven:
        words += f"; no cover has fewer {facts.measure}"
    elif facts.has_too_few_factors and facts.bound > (found.cost or 0):
        words += f"; the requested cover needs at least {facts.bound:,} {facts.measure}"
    elif facts.is_short:
        words += f"; the rules leave {counted(facts.n_missed, 'one')} uncovered: see the changes"
    else:
        words += "; not proven to be the fewest"
        if facts.bound > 1:
            words += f", but no cover has fewer than {facts.bound:,} {facts.measure}"
    if found.conflicts:
        rows = len({row for row, *_ in found.conflicts})
        words += f"; {counted(rows, 'row has', 'rows have')} conflicting columns: see the changes"
    if found.interrupted:
        words += "; interrupted: this is the best cover so far"
    elif found.ending == "out of time" and not facts.is_proven:
        words += "; the time ran out: this is the best cover so far"
    return words
