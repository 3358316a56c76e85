"""Code that commands share: reading, clusters, fitting, models, rows and columns by name."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from boolweave.cli.options import (
    TREATMENTS,
    Cluster,
    Completing,
    Fitting,
    ReadingOptions,
    as_options,
    option_of,
)
from boolweave.cli.output import print_message, print_paragraph
from boolweave.cli.process import (
    interruptions_deferred,
    interruptions_ignored,
    without_panic_reports,
)
from boolweave.parameters import (
    CompletionParameters,
    FactorizationParameters,
    check_method,
    check_objective,
    check_values,
    with_objective,
    without_defaults,
)
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.completion import BooleanCompletion
    from boolweave.completion.answers.saving import StoredCompletion
    from boolweave.data.labels import Positions
    from boolweave.data.observations import Absent, Observations
    from boolweave.data.observed import ObservedEntries
    from boolweave.data.questions import Questions
    from boolweave.encoding.plan import Plan
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.io import Reading
    from boolweave.io.cells import Seen
    from boolweave.io.options import Zeros
    from boolweave.saving import StoredFactorization
    from distributed import Client

    Model: TypeAlias = BooleanMatrixFactorization | BooleanCompletion
    Stored: TypeAlias = StoredFactorization | StoredCompletion

# Seconds. The model of a fit that took this long is kept even if the answer cannot be written.
WORTH_KEEPING = 60.0
# Seconds within which a scheduler must answer, and within which local workers must have started.
SCHEDULER_TIMEOUT, WORKERS_TIMEOUT = 10.0, 300.0

# How a user can change the way in which columns were encoded.
ENCODING = (
    "change this with a reading plan (info FILE --plan plan.csv writes one, --plan obeys it), with "
    "--encode 'COLUMN=RULE', pick columns with --use and --drop, list the codes "
    "for missing values with --missing, or refuse such tables with --encode never"
)

# Without a cluster.
HERE = Cluster()

DELIMITERS = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ","}


def command_line() -> str:
    """Return the command as it was typed, without the credentials of URLs in its options."""
    import shlex

    words = [re.sub(r"(\w://)[^/@]*@", r"\1", word) for word in sys.argv[1:]]
    return shlex.join(["boolweave", *words])


def read_input(
    source: str | list[str],
    how: ReadingOptions,
    quiet: bool,
    absent: Absent = "zero",
    max_memory: str | None = None,
    times: str | None = None,
    zeros: Zeros = "exact",
    keep: bool = False,
    plan: Plan | None = None,
) -> Reading:
    """Read the input and report how it was understood; --plan precedes `plan`."""
    from boolweave import io
    from boolweave.io.dialect import Dialect
    from boolweave.runtime.free_memory import in_bytes

    _check_rules(how.encode)
    with without_panic_reports():
        contents = io.read(
            source,
            format=how.input_format,
            dialect=Dialect(
                delimiter=_delimiter(how.delimiter),
                layout=how.layout,
                encoding=how.encoding,
                header=how.header,
                header_row=how.header_row,
                sheet=how.sheet,
                labels=how.labels,
                columns=_names(how.columns),
                use=_names(how.use),
                drop=_names(how.drop),
                index=how.index,
            ),
            above=_above(how.above),
            absent=how.absent,
            absent_default=absent,
            duplicates=how.duplicates,
            times=times,
            max_memory=None if max_memory is None else in_bytes(max_memory),
            zeros=zeros,
            words=how.words(),
            encode=how.encode,
            plan=plan if how.plan is None else _plan(how.plan),
            keep=keep,
        )
    print_contents(contents, contents.guess, quiet)
    return contents


def print_contents(contents: Reading, guess: str, quiet: bool) -> None:
    """Report how a file was understood, how it was encoded, and which words do not occur in it."""
    print_paragraph(f"{contents.name}: {as_options(guess)}", quiet)
    if contents.encoded is not None:
        for line in (*contents.encoded.in_words(), ENCODING):
            print_paragraph(line, quiet)
    for option, word in contents.unused_words:
        # The treatment of zeros may have been given to --zeros by mistake.
        hint = "; --zero-treatment sets how zeros are treated" if word in TREATMENTS else ""
        print_message(f"warning: --{option}: no cell is {word!r}{hint}", quiet)


def _plan(path: Path) -> Plan:
    """Read a reading plan."""
    from boolweave.encoding.plan import Plan

    try:
        return Plan.read_csv(path)
    except UnicodeError:
        raise ValueError(
            f"--plan: {path} is not text in UTF-8; save the plan as CSV in UTF-8"
        ) from None
    except OSError as error:
        raise ValueError(f"--plan: cannot read {path}: {error}") from None


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def _check_rules(encode: str) -> None:
    """Check --encode before the file is read."""
    if encode not in ("auto", "never", "always"):
        from boolweave.encoding.rules import parse_rules

        try:
            parse_rules(encode)
        except ValueError as error:
            raise ValueError(f"--encode: expected auto, never or valid rules: {error}") from None


@contextmanager
def local_file(source: str | Path) -> Iterator[Path]:
    """Provide `source`, which may be compressed or a pipe, as a file on disk.

    Error messages name `source`.
    """
    from boolweave.io.files import local_copy

    with local_copy(source) as (path, name):
        try:
            yield path
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), name)) from None


def _delimiter(text: str | None) -> str | None:
    if text is None:
        return None
    delimiter = DELIMITERS.get(text, text)
    if not delimiter or (len(delimiter) > 1 and delimiter != "::") or delimiter in '"\n\r':
        raise ValueError(f"--delimiter: expected one character, tab, space or ::, got {text!r}")
    if not delimiter.isascii():
        raise ValueError(f"--delimiter: expected an ASCII character, got {text!r}")
    return delimiter


def _above(text: str | None) -> str | float | None:
    if text is None or text in ("mean", "median"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--above: expected mean, median or a number, got {text!r}") from None


@contextmanager
def client_of(where: Cluster, quiet: bool) -> Iterator[Client | None]:
    """Provide a Dask client and print its dashboard address; None if no cluster is asked for."""
    if not where.is_used:
        yield None
        return
    if where.scheduler is not None and where.local_cluster is not None:
        raise ValueError("--scheduler and --local-cluster cannot be combined: give one of them")
    option = "--scheduler" if where.scheduler is not None else "--local-cluster"
    need("distributed", option)
    from boolweave.runtime.cluster import ClusterLost

    with ExitStack() as stack:
        try:
            if where.scheduler is not None:
                client = _client_at(where.scheduler, stack)
            else:
                assert where.local_cluster is not None
                client = _local_client(where.local_cluster, stack)
            print_message(f"dashboard: {client.dashboard_link}", quiet)
            yield client
        except ClusterLost as error:
            raise ConnectionError(f"{option}: {error}") from None
        finally:
            with interruptions_ignored():  # the fit has ended, and no process must be left
                stack.close()


def _client_at(scheduler: str, stack: ExitStack) -> Client:
    """Connect to a scheduler, which must have workers."""
    from distributed import Client

    try:
        client = stack.enter_context(Client(scheduler, timeout=SCHEDULER_TIMEOUT))
    except (OSError, TimeoutError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"--scheduler: no answer from {scheduler} ({reason}); is it the address of a running "
            "dask scheduler?"
        ) from None
    if not client.scheduler_info(n_workers=-1)["workers"]:
        raise ValueError(
            f"--scheduler: {scheduler} has no workers; start some with: dask worker {scheduler}"
        )
    return client


def _local_client(n_workers: int, stack: ExitStack) -> Client:
    """Start processes on this machine, which end with the stack, also if Ctrl-C interrupts that.

    They do not receive the Ctrl-C of the terminal, and this process gets it when it can end them.
    """
    import warnings

    from distributed import Client, LocalCluster

    with interruptions_deferred(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the usual port of the dashboard may be taken
        cluster = stack.enter_context(
            LocalCluster(n_workers=0, threads_per_worker=1, processes=True, silence_logs="CRITICAL")
        )
        client = stack.enter_context(Client(cluster))
        cluster.scale(n_workers)
    try:
        client.wait_for_workers(n_workers, timeout=WORKERS_TIMEOUT)
    except TimeoutError:
        raise TimeoutError(
            f"--local-cluster: {n_workers} workers did not start within {WORKERS_TIMEOUT:.0f} s; "
            "try fewer"
        ) from None
    return client


def check_factor_options(
    how: Fitting, objective: Literal["errors", "posterior"], where: Cluster = HERE
) -> dict[str, Any]:
    """Check the parameters of a factorization before a file is read, and return them.

    On a single machine, `objective` is the default where no option sets it.
    """
    chosen = with_objective(how, objective)
    if where.is_used:
        chosen["objective"] = how.get("objective", "posterior")
    parameters = FactorizationParameters(**chosen)
    check_values(parameters, option_of)
    check_objective(parameters)
    check_method(parameters)
    if "max_memory" in how:
        from boolweave.runtime.free_memory import in_bytes

        in_bytes(how["max_memory"])
    return chosen


def zeros_of(chosen: dict[str, Any], where: Cluster = HERE) -> Zeros:
    """Decide whether a factorization with these parameters needs a list of all zeros."""
    if chosen["objective"] == "errors" or chosen.get("product") == "xor" or where.is_used:
        return "exact"
    treatment: Zeros = chosen.get("zeros", "auto")
    return treatment


def check_completion_options(how: Fitting, more: Completing) -> None:
    """Check the parameters of a completion before a file is read."""
    check_values(CompletionParameters(**without_defaults(how), **more), option_of)


def fit_factors(
    observations: Seen,
    how: Fitting,
    quiet: bool,
    where: Cluster,
    objective: Literal["errors", "posterior"] = "posterior",
) -> BooleanMatrixFactorization:
    """Fit factors, with progress on a terminal.

    On a single machine, `objective` is the default where no option sets it.
    """
    from boolweave.estimator import BooleanMatrixFactorization

    chosen = how | {"verbose": 0 if quiet else 1}
    with client_of(where, quiet) as client, warnings_as_lines(quiet):
        if client is None:
            model = BooleanMatrixFactorization(**with_objective(chosen, objective))
            model.fit(observations)
        else:
            from boolweave.distributed import DaskBooleanMatrixFactorization

            distributed = DaskBooleanMatrixFactorization(client=client, **chosen)
            model = distributed.fit(observations).to_local()  # the cluster is not needed any more
    _report_interruption(model, quiet)
    return model


def fit_completion(
    observations: Seen,
    how: Fitting,
    more: Completing,
    quiet: bool,
    where: Cluster,
    groups: Questions | None,
    row_features: NDArray[Any] | None = None,
) -> BooleanCompletion:
    """Fit a completion, with progress on a terminal; `groups` has the question of each column."""
    from boolweave.completion import BooleanCompletion

    chosen = without_defaults(how) | more | {"verbose": 0 if quiet else 1}
    with client_of(where, quiet) as client, warnings_as_lines(quiet):
        model = BooleanCompletion(client=client, **chosen)
        model.fit(observations.to_local(), groups=groups, row_features=row_features)
    model.client = None  # the cluster is not needed any more
    _report_interruption(model, quiet)
    return model


def _report_interruption(model: Model, quiet: bool) -> None:
    if model.interrupted_:
        print_message("interrupted: writing the best result so far", quiet)


@contextmanager
def warnings_as_lines(quiet: bool) -> Iterator[None]:
    """Print each warning of a fit once, as one line on standard error."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    for text in dict.fromkeys(texts):
        print_message(f"warning: {as_options(' '.join(text.split()))}", quiet)


@contextmanager
def not_lost(fitted: Model, began: float, model: Path | None) -> Iterator[None]:
    """Save the model if the answer cannot be written after a long fit, so that it is not lost.

    `began` is the time at which the fit began, and `model` the file to which the model is written.
    """
    import tempfile

    try:
        yield
    except BrokenPipeError:  # the reader of the answer does not want more of it
        raise
    except Exception:
        written = model is not None and model.is_file() and model.stat().st_mtime >= began
        if not written and time.time() - began >= WORTH_KEEPING:
            kept = Path(tempfile.mkdtemp(prefix="boolweave-")) / "model.npz"
            try:
                fitted.save(kept)
            except OSError:
                kept.parent.rmdir()
            else:
                print_message(
                    f"not everything could be written; the fitted model is saved in {kept}", False
                )
        raise


@contextmanager
def model_file(path: Path) -> Iterator[Path]:
    """Provide the file of a model, which may be a pipe."""
    if str(path) != "-" and not path.exists():
        raise ValueError(
            f"{path}: there is no such file; the option --model of factorize and of complete "
            "writes a model"
        )
    with local_file(path) as local:
        yield local


def load_model(path: Path) -> Model:
    """Load a saved model; a bad or absent file gives a one-line error."""
    with model_file(path) as local:
        from boolweave import load

        return load(local)


def read_model(path: Path) -> Stored:
    """Read a saved model without its estimator, which takes a third of the time."""
    with model_file(path) as local:
        from boolweave import saving

        if saving.format_of(local) == saving.FORMAT:
            return saving.read(local)
        from boolweave.completion.answers import saving as completions

        return completions.read(local)


def find_positions(
    seen: ObservedEntries,
    wanted: Sequence[str],
    axis: Literal["row", "column"],
    source: str | None = None,
) -> Positions:
    """Find rows or columns by label, or by number (from 1) if there are no labels.

    Error messages name `source`, the file that holds the names.
    """
    import numpy as np

    from boolweave.data.labels import positions

    labels, size = (
        (seen.row_labels, seen.n_rows) if axis == "row" else (seen.column_labels, seen.n_columns)
    )
    place = "" if source is None else f"{source}: "
    if labels is not None:
        try:
            return positions(np.array(wanted, dtype=np.str_), seen, axis)
        except ValueError as error:
            raise ValueError(f"{place}{error}") from None
    numbers = [name.removeprefix(f"{axis} ") for name in wanted]
    for name, number in zip(wanted, numbers, strict=True):
        if not number.isdecimal() or not 1 <= int(number) <= size:
            raise ValueError(
                f"{place}expected the number of a {axis}, 1 to {size}, because the data had no "
                f"labels; got {name!r}"
            )
    return np.array([int(number) - 1 for number in numbers], dtype=np.intp)


def read_row_features(
    source: str, seen: ObservedEntries, fitted: BooleanCompletion | None = None
) -> NDArray[Any]:
    """Read features of rows, (M, G): numbers, and categories as texts.

    If the rows have labels, the first column of the file has the same labels, in any order, and
    maybe others; otherwise the file has a line for each row. `fitted` is the model that new rows
    are for, whose features say which columns hold numbers.
    """
    import numpy as np

    from boolweave.data.labels import find_labels
    from boolweave.encoding.tables import as_numbers
    from boolweave.io import read_columns

    table, labels = read_columns(source), seen.row_labels
    if labels is not None:
        names = np.array([str(name) for name in table.to_series(0).fill_null("")], dtype=np.str_)
        if len(set(names.tolist())) < len(names):
            raise ValueError(
                f"--row-features: {source}: expected each row once in the first column"
            )
        place, known = find_labels(labels, names)
        if not known.all():
            raise ValueError(
                f"--row-features: {source}: expected the names of all rows in the first column, "
                f"but {str(labels[~known][0])!r} is not there; add a line for it"
            )
        table = table[:, 1:][place]
    if not table.width:
        raise ValueError(f"--row-features: {source}: expected columns of features, got none")
    if len(table) != seen.n_rows:
        raise ValueError(
            f"--row-features: {source}: expected a line for each of the {seen.n_rows} rows, which "
            f"have no names, got {len(table)}"
        )
    before = None if fitted is None else fitted._row_encoding.columns
    out = np.empty(table.shape, dtype=object)
    for j, column in enumerate(table.iter_columns()):
        is_text = before is not None and j < len(before) and bool(before[j].levels)
        numbers = None if is_text else as_numbers(column)
        if numbers is not None and numbers.null_count():
            raise ValueError(
                f"--row-features: {source}: expected a number in each line of column "
                f"{column.name!r}, got an empty cell; fill it in"
            )
        texts = [str(cell) for cell in column.fill_null("").to_list()] if numbers is None else None
        out[:, j] = numbers.to_list() if numbers is not None else texts
    return out


def _plan_of(model: Model) -> Plan | None:
    """The plan by which the rows of a model were read, for new rows."""
    from boolweave.encoding.plan import Plan

    text = model.provenance_.get("plan")
    return None if text is None else replace(Plan.of_csv(text), of_model=True)


def read_new_rows(model: Model, source: str, how: ReadingOptions, quiet: bool) -> Observations:
    """Read new rows from a file and put their columns into the order of the model.

    Columns are matched by name if both have names; columns that the file lacks are missing.
    """
    import numpy as np

    from boolweave.data.labels import find_labels, suggestion
    from boolweave.data.observations import Observations
    from boolweave.io.files import listed

    fitted = model.observations_
    contents = read_input(source, how, quiet, model.absent, plan=_plan_of(model))
    new = contents.observations.to_local()
    expected, given = fitted.column_labels, new.column_labels
    if expected is None or given is None:
        if new.n_columns != fitted.n_columns:
            raise ValueError(
                f"{source}: expected {fitted.n_columns} columns, as in the model, got "
                f"{new.n_columns}; give the columns names so that they can be matched"
            )
        place = np.arange(new.n_columns)
    else:
        place, known = find_labels(given, expected)
        if not known.all():
            name = str(given[~known][0])
            near = suggestion(name, expected.tolist()) or "."
            if contents.encoded is not None:
                near += " New rows must be encoded like the rows of the fit: set the same rules "
                near += "for both with --encode, for example --encode 'age=40,60'"
            raise ValueError(f"{source}: the model has no column named {name!r}{near}")
        absent = np.setdiff1d(np.arange(fitted.n_columns), place)
        if len(absent):
            names = listed(expected[absent].tolist(), 4)
            print_message(f"{source}: lacks columns of the model ({len(absent)}): {names}", quiet)
    entries = new.rows_of_entries(), place[new.indices], new.values
    labels: dict[str, Any] = {"row_labels": new.row_labels, "column_labels": expected}
    shape = new.n_rows, fitted.n_columns
    return Observations.from_triples(*entries, shape=shape, **labels)
