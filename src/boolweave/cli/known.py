"""The commands with one factor known: decode and group-test."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from boolweave.cli.common import no_tty_output, put_json, read_input, talk
from boolweave.cli.options import Reading, Writing

if TYPE_CHECKING:
    from boolweave.data.observations import Observations

Jobs = Annotated[int, typer.Option("--jobs", "--n-jobs", "-j", help="Threads; -1 for all cores.")]


class Decoder(StrEnum):
    """Methods of `decode`, by both their names."""

    sum_product = "sum-product"
    max_sum = "max-sum"
    product_sum = "product-sum"
    min_sum = "min-sum"


class Schedule(StrEnum):
    """In which order checks are updated."""

    flooding = "flooding"
    serial = "serial"


def group_test(
    design: Annotated[str, typer.Argument(help="Pools x items, 1 where an item is in a pool.")],
    outcomes: Annotated[
        str, typer.Argument(help="0, 1 or nothing for each pool, by name or in the same order.")
    ],
    prevalence: Annotated[
        str, typer.Option(metavar="P|learn", help="P(an item is positive) beforehand.")
    ],
    sensitivity: Annotated[float, typer.Option(min=0.0, max=1.0, help="P(+ | positive).")] = 1.0,
    specificity: Annotated[float, typer.Option(min=0.0, max=1.0, help="P(- | negative).")] = 1.0,
    retest: Annotated[int, typer.Option(min=0, help="How many doubtful items to name.")] = 5,
    writing: Writing = Writing(),  # noqa: B008
    reading: Reading = Reading(),  # noqa: B008
) -> None:
    """Find the positive items of pooled tests.

    The design is a table with a line for each pool, or pairs: pool, item (--layout pairs).

    Example: boolweave group-test pools.csv outcomes.csv --prevalence 0.02 --sensitivity 0.95
    """
    import numpy as np
    import polars as pl
    import scipy.sparse

    from boolweave.cli.common import _number
    from boolweave.decoding import group_testing
    from boolweave.io.write import (
        TABLE_FORMATS,
        check_folder,
        column_names,
        output_format,
        write_table,
    )

    share = _number(prevalence, "--prevalence", "learn", float)
    kind = output_format(writing.output, writing.format, TABLE_FORMATS)
    no_tty_output(kind, writing.output)
    check_folder(writing.output)
    pools = read_input(design, reading, writing.quiet).observations
    if not pools.is_complete:
        raise ValueError(f"{design}: every entry of a design is 0 or 1, but some are missing")
    inside = pools.values == 1
    at = (pools.rows_of_entries()[inside], pools.indices[inside])
    matrix = scipy.sparse.csr_array((np.ones(len(at[0]), np.uint8), at), shape=pools.shape)
    seen = read_input(outcomes, Reading(), writing.quiet).observations
    found = group_testing(
        matrix, _in_order(seen, pools, outcomes, design), share, sensitivity, specificity
    )
    names = column_names(pools)
    answer = pl.DataFrame(
        {
            "item": names,
            "positive": found.positive,
            "probability": found.probabilities.round(6),
        }
    )
    doubtful = [names[item] for item in found.retest(retest)]
    if writing.json:
        put_json(answer.to_dicts())
    if not writing.json or writing.output is not None:
        write_table(answer, writing.output, kind)
    talk(
        f"{int(found.positive.sum())} of {len(names)} items positive, "
        f"{found.expected_errors:.2g} wrong items expected, prevalence {found.prevalence:.3g}",
        writing.quiet,
    )
    if doubtful:
        talk(f"most doubtful: {', '.join(map(str, doubtful))}", writing.quiet)
    if not found.converged:
        talk("warning: the probabilities did not settle", writing.quiet)


def _in_order(seen: Observations, pools: Observations, file: str, design: str) -> Any:
    """Outcomes as (pools,) in the order of the design: by name where both files have names."""
    import numpy as np

    if 1 not in seen.shape:
        raise ValueError(
            f"{file}: expected {pools.n_rows} outcomes, one for each pool of {design}, got a "
            f"table {seen.shape[0]} x {seen.shape[1]}"
        )
    upright = seen.shape[1] == 1
    table = np.full(seen.shape, np.nan)
    table[seen.rows_of_entries(), seen.indices] = seen.values
    values = table.ravel()
    names = seen.row_labels if upright else seen.column_labels
    wanted = pools.row_labels
    if names is not None and wanted is not None:
        place = {str(name): i for i, name in enumerate(names)}
        for name in wanted:
            if str(name) not in place:
                raise ValueError(f"{file}: there is no outcome for pool {str(name)!r} of {design}")
        known = {str(name) for name in wanted}
        for name in place:
            if name not in known:
                raise ValueError(f"{file}: pool {name!r} is not in {design}")
        return values[[place[str(name)] for name in wanted]]
    if len(values) != pools.n_rows:
        raise ValueError(
            f"{file}: expected {pools.n_rows} outcomes, one for each pool of {design}, "
            f"got {len(values)}"
        )
    return values


def decode(
    code: Annotated[Path, typer.Argument(help="A parity-check matrix in alist form.")],
    llr: Annotated[
        str,
        typer.Argument(
            help="Log-likelihood ratios log p(0)/p(1): .npy, or a line of numbers for each word."
        ),
    ],
    method: Annotated[
        Decoder, typer.Option(help="Also called product-sum and min-sum.")
    ] = Decoder.sum_product,
    schedule: Annotated[
        Schedule, typer.Option(help="All checks at once, or one after the other.")
    ] = Schedule.flooding,
    max_iter: Annotated[int, typer.Option(min=1, help="Most iterations.")] = 50,
    scale: Annotated[
        float | None, typer.Option(help="Factor on the messages of min-sum; 0.75 if left out.")
    ] = None,
    jobs: Jobs = -1,
    writing: Writing = Writing(),  # noqa: B008
) -> None:
    """Decode words of a parity-check code.

    Writes the bits of each word, and says how many words satisfied every check.

    Example: boolweave decode wifi.alist received.npy -o bits.csv
    """
    import numpy as np
    import polars as pl

    from boolweave.decoding import ParityCheckCode
    from boolweave.io import files
    from boolweave.io.write import TABLE_FORMATS, check_folder, output_format, write_table

    kind = output_format(writing.output, writing.format, TABLE_FORMATS)
    no_tty_output(kind, writing.output)
    check_folder(writing.output)
    with files.local_copy(code) as (path, name):
        try:
            parity = ParityCheckCode.from_alist(path)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), name)) from None
    with files.local_copy(llr) as (path, name):
        received = _numbers(path, name)
    found = parity.decode(
        received, method=method.value, schedule=schedule.value, max_iter=max_iter, scale=scale,
        n_jobs=jobs,
    )  # fmt: skip
    if writing.json:
        put_json(
            {
                "bits": found.bits.tolist(),
                "converged": np.asarray(found.converged).tolist(),
                "n_iter": np.asarray(found.n_iter).tolist(),
                "syndrome_weight": np.asarray(found.syndrome_weight).tolist(),
            }
        )
    if not writing.json or writing.output is not None:
        frame = pl.DataFrame({f"bit {j + 1}": found.bits[:, j] for j in range(parity.n)})
        write_table(frame, writing.output, kind)
    talk(f"{np.count_nonzero(found.converged)} of {len(found.bits)} words decoded", writing.quiet)


def _numbers(path: Path, name: str) -> Any:
    """A NumPy file, or lines of numbers parted by commas or blanks; (words, n)."""
    import numpy as np

    from boolweave.io.files import FileError
    from boolweave.runtime.archives import read_array

    with path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            try:
                ratios = read_array(path)
            except Exception as error:  # a damaged header fails anywhere
                raise FileError(name, f"cannot be read as .npy: {error}") from None
            if ratios.dtype.kind not in "buif":
                raise FileError(name, f"expected numbers, got an array of the type {ratios.dtype}")
            return np.atleast_2d(ratios)
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
