"""What the commands share: reading, fitting, talking."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from boolweave.cli.process import INTERRUPTED, without_panic_reports

if TYPE_CHECKING:
    from boolweave.cli.options import Cluster, Fitting, Reading
    from boolweave.data.observations import Absent, Observations
    from boolweave.estimator import BooleanMatrixFactorization
    from boolweave.io import Reading as Contents


# Seconds: a fit that took so long is not given up because its answer cannot be written.
WORTH_KEEPING = 60.0


def talk(message: str, quiet: bool) -> None:
    """A line to standard error, where the answer does not go."""
    if not quiet:
        typer.echo(message, err=True)


def command_line() -> str:
    """The command as it was given; who logs in where an option holds a URL is left out."""
    import re
    import shlex

    words = [re.sub(r"(\w://)[^/@]*@", r"\1", word) for word in sys.argv[1:]]
    return shlex.join(["boolweave", *words])


def put_json(answer: Any) -> None:
    """One JSON document to standard output; NaN has no place in JSON and becomes null."""
    typer.echo(json.dumps(_without_nan(answer), ensure_ascii=False))


def _without_nan(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {key: _without_nan(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_without_nan(value) for value in answer]
    if isinstance(answer, float) and (answer != answer or abs(answer) == float("inf")):
        return None
    return answer


def read_input(
    source: str | list[str], how: Reading, quiet: bool, absent: Absent = "zero",
    max_memory: str | None = None,
) -> Contents:  # fmt: skip
    """Read the input and say how it was understood."""
    from boolweave import io
    from boolweave.io.dialect import Dialect

    with without_panic_reports():
        contents = io.read(
            source,
            format=how.input_format,
            dialect=Dialect(
                delimiter=_delimiter(how.delimiter),
                layout=how.layout.value if how.layout else None,  # type: ignore[arg-type]
                header=how.header,
                labels=how.labels.value if how.labels else None,  # type: ignore[arg-type]
                columns=tuple(part.strip() for part in how.columns.split(","))
                if how.columns
                else (),
            ),
            above=_above(how.above),
            absent=how.absent.value if how.absent else None,  # type: ignore[arg-type]
            absent_default=absent,
            duplicates=how.duplicates.value,  # type: ignore[arg-type]
            max_memory=_size(max_memory),
        )
    talk(f"{contents.name}: {contents.guess}", quiet)
    return contents


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    from boolweave.fit.memory import in_bytes

    return in_bytes(text)


def _delimiter(text: str | None) -> str | None:
    if text is None:
        return None
    known = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ","}
    delimiter = known.get(text, text)
    if not delimiter or (len(delimiter) > 1 and delimiter != "::") or delimiter in '"\n\r':
        raise ValueError(f"--delimiter: expected one character, tab, space or ::, got {text!r}")
    if len(delimiter.encode()) > 1 and delimiter != "::":
        raise ValueError(f"--delimiter: expected an ASCII character, got {text!r}")
    return delimiter


def _above(text: str | None) -> str | float | None:
    if text is None or text in ("mean", "median"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--above: expected mean, median or a number, got {text!r}") from None


def _number(text: str | None, option: str, word: str, kind: type) -> Any:
    """A number, or the one word that may stand in its place."""
    if text is None or text == word:
        return text
    try:
        return kind(text)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise ValueError(f"{option}: expected {what} or {word}, got {text!r}") from None


def parameters(how: Fitting) -> dict[str, Any]:
    """The estimator's parameters; those not given keep its defaults."""
    given = {
        "n_components": _number(how.n_components, "--n-components", "auto", int),
        "product": how.product.value if how.product else None,
        "method": how.method.value if how.method else None,
        "noise": _number(how.noise, "--noise", "learn", float),
        "row_prior": _number(how.row_prior, "--row-prior", "learn", float),
        "column_prior": _number(how.column_prior, "--column-prior", "learn", float),
        "damping": how.damping,
        "max_iter": how.max_iter,
        "tol": how.tol,
        "n_init": _number(how.n_init, "--n-init", "auto", int),
        "messages": how.messages.value if how.messages else None,
        "decimation": how.decimation,
        "checkpoint": how.checkpoint,
        "max_memory": how.max_memory,
    }
    return {name: value for name, value in given.items() if value is not None}


def fit(
    observations: Observations, how: Fitting, quiet: bool, where: Cluster | None = None
) -> BooleanMatrixFactorization:
    """Fit, with progress on a terminal; warnings become lines on standard error."""
    import warnings

    from boolweave.cli.clusters import client_of
    from boolweave.estimator import BooleanMatrixFactorization

    chosen = parameters(how)
    chosen |= {"random_state": how.seed, "n_jobs": how.jobs, "verbose": 0 if quiet else 1}
    with client_of(where, quiet) as client, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if client is None:
            model = BooleanMatrixFactorization(**chosen)
        else:
            from boolweave.distributed import DaskBooleanMatrixFactorization

            model = DaskBooleanMatrixFactorization(client=client, **chosen)
        model.fit(observations)
        if client is not None:  # what follows needs no cluster
            model = model.to_local()  # type: ignore[attr-defined]
    said = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    for line in dict.fromkeys(_for_the_shell(text) for text in said):
        talk(f"warning: {line}", quiet)
    if model.interrupted_:
        talk("interrupted: writing the best result so far", quiet)
    return model


def _for_the_shell(text: str) -> str:
    """A warning in one line, the parameters that it names as options of the command line."""
    import re
    from dataclasses import fields

    from boolweave.cli.options import Fitting, Reading

    names = "|".join(field.name for group in (Fitting, Reading) for field in fields(group))

    def option(found: re.Match[str]) -> str:
        return " ".join(["--" + found[1].replace("_", "-"), *found.groups()[1:]])

    text = re.sub(rf'\b({names})="?(\w[\w.]*\w|\w)"?', option, " ".join(text.split()))
    return re.sub(r"\b(max_iter|n_init|n_components|row_prior|column_prior)\b", option, text)


@contextmanager
def not_lost(
    fitted: BooleanMatrixFactorization, began: float, model: Path | None
) -> Iterator[None]:
    """Write the answer; if that fails after a long fit, keep the model, so that it is not lost.

    `began` is when the fit began, and `model` where the model is to be written.
    """
    try:
        yield
    except BrokenPipeError:  # who read the answer has enough of it
        raise
    except Exception:
        written = model is not None and model.is_file() and model.stat().st_mtime >= began
        if not written and time.time() - began >= WORTH_KEEPING:
            _keep(fitted)
        raise


def _keep(fitted: BooleanMatrixFactorization) -> None:
    import tempfile

    kept = Path(tempfile.mkdtemp(prefix="boolweave-")) / "model.npz"
    try:
        fitted.save(kept)
    except OSError:
        kept.parent.rmdir()
        return
    talk(f"the answer could not be written; the fitted model is kept in {kept}", False)


def finish(interrupted: bool) -> None:
    """Exit code 130 where Ctrl-C ended the run, after everything is written."""
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def load_model(path: Path) -> BooleanMatrixFactorization:
    """A saved model, also through a pipe; damage and absence are one line each."""
    from boolweave import load
    from boolweave.io import files

    if str(path) != "-" and not path.exists():
        raise ValueError(f"{path}: there is no such file; write a model with factorize --model")
    with files.local_copy(path) as (local, name):
        try:
            return load(local)
        except ValueError as error:
            raise ValueError(str(error).replace(str(local), name)) from None


def names_or_positions(
    model: Any, wanted: list[str], axis: str, source: str | None = None
) -> list[int]:
    """Positions of rows or columns by label, or by number from 1 where there are no labels.

    Errors speak of `source`, the file in which the names are.
    """
    place = "" if source is None else f"{source}: "
    seen = model.observations_
    labels = seen.row_labels if axis == "row" else seen.column_labels
    size = seen.shape[0 if axis == "row" else 1]
    if labels is not None:
        positions = {str(label): i for i, label in enumerate(labels)}
        for name in wanted:
            if name not in positions:
                near = _near(name, list(positions))
                raise ValueError(f"{place}there is no {axis} named {name!r} in the model{near}")
        return [positions[name] for name in wanted]
    found = []
    for name in wanted:
        number = name.removeprefix(f"{axis} ")
        if not number.isdigit() or not 1 <= int(number) <= size:
            raise ValueError(
                f"{place}expected the number of a {axis}, 1 to {size}, as the data had no labels; "
                f"got {name!r}"
            )
        found.append(int(number) - 1)
    return found


def _near(name: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names[:20_000], n=3)
    return f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""


def no_tty_output(kind: str, output: Path | None) -> None:
    """Binary formats need a file."""
    if (output is None and kind in ("npz", "png")) or (
        output is None and kind in ("parquet", "arrow") and sys.stdout.isatty()
    ):
        raise ValueError(f"--format {kind} needs a file: name it with --output")
