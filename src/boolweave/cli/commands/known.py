"""The commands with one factor known: decode and group-test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from boolweave.cli.common import local_file, read_input
from boolweave.cli.options import Jobs, ReadingOptions, Writing, number_or_word
from boolweave.cli.output import check_output, put_answer, put_table, talk

if TYPE_CHECKING:
    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Array, Floats


def group_test(
    design: Annotated[str, typer.Argument(help="Pools x items, 1 where an item is in a pool.")],
    outcomes: Annotated[
        str, typer.Argument(help="0, 1 or nothing for each pool, by name or in the same order.")
    ],
    *,
    prevalence: Annotated[
        str, typer.Option(metavar="P|learn", help="P(an item is positive) beforehand.")
    ],
    sensitivity: Annotated[float, typer.Option(min=0.0, max=1.0, help="P(+ | positive).")] = 1.0,
    specificity: Annotated[float, typer.Option(min=0.0, max=1.0, help="P(- | negative).")] = 1.0,
    retest: Annotated[int, typer.Option(min=0, help="How many doubtful items to name.")] = 5,
    writing: Writing,
    reading: ReadingOptions,
) -> None:
    """Find the positive items of pooled tests.

    The design is a table with a line for each pool, or pairs: pool, item (--layout pairs).

    Example: boolweave group-test pools.csv outcomes.csv --prevalence 0.02 --sensitivity 0.95
    """
    import numpy as np
    import polars as pl
    import scipy.sparse

    from boolweave.decoding import group_testing
    from boolweave.io.write import column_names

    share = number_or_word("prevalence", prevalence)
    kind = check_output(writing)
    pools = read_input(design, reading, writing.quiet).observations.to_local()
    if not pools.is_complete:
        raise ValueError(f"{design}: every entry of a design is 0 or 1, but some are missing")
    inside = pools.values == 1
    at = (pools.rows_of_entries()[inside], pools.indices[inside])
    matrix = scipy.sparse.csr_array((np.ones(len(at[0]), np.uint8), at), shape=pools.shape)
    seen = read_input(outcomes, ReadingOptions(), writing.quiet).observations.to_local()
    results = _in_order(seen, pools, outcomes, design)
    found = group_testing(matrix, results, share, sensitivity, specificity)
    names = column_names(pools)
    chance = found.probabilities.round(6)
    answer = pl.DataFrame({"item": names, "positive": found.positive, "probability": chance})
    put_table(writing, kind, answer)
    talk(
        f"{int(found.positive.sum())} of {len(names)} items positive, "
        f"{found.expected_errors:.2g} wrong items expected, prevalence {found.prevalence:.3g}",
        writing.quiet,
    )
    doubtful = [names[item] for item in found.retest(retest)]
    if doubtful:
        talk(f"most doubtful: {', '.join(doubtful)}", writing.quiet)
    if not found.converged:
        talk("warning: the probabilities did not settle", writing.quiet)


def _in_order(seen: Observations, pools: Observations, file: str, design: str) -> Floats:
    """Outcomes as (pools,) in the order of the design: by name where both files have names."""
    if 1 not in seen.shape:
        raise ValueError(
            f"{file}: expected {pools.n_rows} outcomes, one for each pool of {design}, got a "
            f"table {seen.shape[0]} x {seen.shape[1]}"
        )
    values = seen.to_dense().ravel()
    names = seen.row_labels if seen.shape[1] == 1 else seen.column_labels
    if names is not None and pools.row_labels is not None:
        place = {name: i for i, name in enumerate(names.tolist())}
        wanted = dict.fromkeys(pools.row_labels.tolist())
        for name in wanted:
            if name not in place:
                raise ValueError(f"{file}: there is no outcome for pool {name!r} of {design}")
        for name in place:
            if name not in wanted:
                raise ValueError(f"{file}: pool {name!r} is not in {design}")
        return values[[place[name] for name in wanted]]
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
    *,
    method: Annotated[
        Literal["sum-product", "max-sum", "product-sum", "min-sum"],
        typer.Option(help="Also called product-sum and min-sum."),
    ] = "sum-product",
    schedule: Annotated[
        Literal["flooding", "serial"],
        typer.Option(help="All checks at once, or one after the other."),
    ] = "flooding",
    max_iter: Annotated[int, typer.Option(min=1, help="Most iterations.")] = 50,
    scale: Annotated[
        float | None, typer.Option(help="Factor on the messages of min-sum; 0.75 if left out.")
    ] = None,
    jobs: Jobs = -1,
    writing: Writing,
) -> None:
    """Decode words of a parity-check code.

    Writes the bits of each word, and says how many words satisfied every check.

    Example: boolweave decode wifi.alist received.npy -o bits.csv
    """
    import numpy as np
    import polars as pl

    from boolweave.decoding import ParityCheckCode
    from boolweave.io.write import write_table

    kind = check_output(writing)
    with local_file(code) as path:
        parity = ParityCheckCode.from_alist(path)
    with local_file(llr) as path:
        received = _numbers(path)
    found = parity.decode(
        received, method=method, schedule=schedule, max_iter=max_iter, scale=scale, n_jobs=jobs
    )
    bits = {f"bit {j + 1}": found.bits[:, j] for j in range(parity.n)}
    put_answer(
        writing,
        lambda: {
            "bits": found.bits.tolist(),
            "converged": np.asarray(found.converged).tolist(),
            "n_iter": np.asarray(found.n_iter).tolist(),
            "syndrome_weight": np.asarray(found.syndrome_weight).tolist(),
        },
        lambda: write_table(pl.DataFrame(bits), writing.output, kind),
    )
    talk(f"{np.count_nonzero(found.converged)} of {len(found.bits)} words decoded", writing.quiet)


def _numbers(path: Path) -> Array:
    """A NumPy file, or lines of numbers parted by commas or blanks; (words, n)."""
    import numpy as np

    from boolweave.io.files import FileError, magic
    from boolweave.runtime.archives import read_array

    name = str(path)
    if magic(path) == "npy":
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
