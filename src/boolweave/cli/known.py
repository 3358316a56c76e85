"""The commands with one factor known: decode and group-test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from boolweave.cli.common import no_tty_output, put_json, read_input
from boolweave.cli.options import Reading, Writing


def _decoding() -> Any:
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec("boolweave.decoding") is None:
        raise ValueError("decoding is not part of this version of boolweave")
    return import_module("boolweave.decoding")


def group_test(
    design: Annotated[str, typer.Argument(help="Pools x items, 1 where an item is in a pool.")],
    outcomes: Annotated[str, typer.Argument(help="A 0 or 1 for each pool, in the same order.")],
    prevalence: Annotated[float, typer.Option(min=0.0, max=1.0, help="P(an item is positive).")],
    sensitivity: Annotated[float, typer.Option(min=0.0, max=1.0, help="P(+ | positive).")] = 1.0,
    specificity: Annotated[float, typer.Option(min=0.0, max=1.0, help="P(- | negative).")] = 1.0,
    writing: Writing = Writing(),  # noqa: B008
    reading: Reading = Reading(),  # noqa: B008
) -> None:
    """Find the positive items of pooled tests.

    Example: boolweave group-test pools.csv outcomes.csv --prevalence 0.02 --sensitivity 0.95
    """
    import numpy as np
    import polars as pl

    from boolweave.io.write import (
        TABLE_FORMATS,
        check_folder,
        column_names,
        output_format,
        write_table,
    )

    decoding = _decoding()
    kind = output_format(writing.output, writing.format, TABLE_FORMATS)
    no_tty_output(kind, writing.output)
    check_folder(writing.output)
    pools = read_input(design, reading, writing.quiet).observations
    results = read_input(outcomes, Reading(), writing.quiet).observations
    if not pools.is_complete:
        raise ValueError(f"{design}: every entry of a design is 0 or 1, but some are missing")
    if results.n_observed != pools.n_rows or results.n_rows * results.n_columns != pools.n_rows:
        raise ValueError(
            f"{outcomes}: expected {pools.n_rows} outcomes, one for each pool of {design}, "
            f"got {results.n_observed}"
        )
    found = decoding.group_testing(
        pools.to_dense().astype(np.uint8), results.values, prevalence,
        sensitivity=sensitivity, specificity=specificity,
    )  # fmt: skip
    chance = np.asarray(found.probabilities, dtype=np.float64)
    positive = np.zeros(len(chance), dtype=np.uint8)
    positive[np.asarray(found.items, dtype=np.intp)] = 1
    answer = pl.DataFrame(
        {"item": column_names(pools), "positive": positive, "probability": chance.round(6)}
    )
    if writing.json:
        put_json(answer.to_dicts())
    if not writing.json or writing.output is not None:
        write_table(answer, writing.output, kind)


def decode(
    code: Annotated[Path, typer.Argument(help="A parity-check matrix in alist form.")],
    llr: Annotated[
        str, typer.Argument(help="Log-likelihood ratios log p(0)/p(1): a line for each word.")
    ],
    method: Annotated[str, typer.Option(help="sum-product or min-sum.")] = "sum-product",
    max_iter: Annotated[int, typer.Option(min=1, help="Most iterations.")] = 50,
    writing: Writing = Writing(),  # noqa: B008
) -> None:
    """Decode words of a parity-check code.

    Writes the bits of each word, and says how many words satisfied every check.

    Example: boolweave decode wifi.alist received.csv -o bits.csv
    """
    import numpy as np
    import polars as pl

    from boolweave.cli.common import talk
    from boolweave.io import files
    from boolweave.io.write import TABLE_FORMATS, check_folder, output_format, write_table

    decoding = _decoding()
    kind = output_format(writing.output, writing.format, TABLE_FORMATS)
    no_tty_output(kind, writing.output)
    check_folder(writing.output)
    if not code.is_file():
        raise ValueError(f"{code}: there is no such file")
    parity = decoding.ParityCheckCode.from_alist(code)
    with files.local_copy(llr) as (path, name):
        received = _numbers(path, name)
    found = parity.decode(received, method=method, max_iter=max_iter)
    bits = np.asarray(found.bits, dtype=np.uint8)
    converged = np.asarray(found.converged, dtype=bool)
    if writing.json:
        put_json(
            {
                "bits": bits.tolist(),
                "converged": converged.tolist(),
                "n_iter": np.asarray(found.n_iter).tolist(),
                "syndrome_weight": np.asarray(found.syndrome_weight).tolist(),
            }
        )
    if not writing.json or writing.output is not None:
        frame = pl.DataFrame({f"bit {j + 1}": bits[:, j] for j in range(bits.shape[1])})
        write_table(frame, writing.output, kind)
    talk(f"{int(converged.sum())} of {len(converged)} words decoded", writing.quiet)


def _numbers(path: Path, name: str) -> Any:
    """Lines of numbers, parted by commas or blanks; (words, n) float64."""
    import numpy as np

    from boolweave.io.files import FileError

    rows: list[list[float]] = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(name, "expected lines of numbers, got binary data") from None
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.replace(",", " ").replace(";", " ").split()
        if not fields:
            continue
        try:
            rows.append([float(field) for field in fields])
        except ValueError as error:
            raise FileError(name, f"expected numbers, got {error}", line=number) from None
        if len(rows[-1]) != len(rows[0]):
            raise FileError(
                name, f"expected {len(rows[0])} numbers, as in the first line, got "
                f"{len(rows[-1])}", line=number,
            )  # fmt: skip
    if not rows:
        raise FileError(name, "expected lines of numbers, got an empty file")
    return np.array(rows, dtype=np.float64)
