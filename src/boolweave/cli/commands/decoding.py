"""The commands in which one factor is known: pools, group-test and decode."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from boolweave.cli.common import local_file, print_contents, read_input
from boolweave.cli.options import Jobs, ReadingOptions, Seed, Writing, number_or_word
from boolweave.cli.output import check_output, in_words, print_message, put_answer, put_table

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.runtime.types import Array, Floats
# The words for outcomes that laboratories use, in addition to those of all tables.
USUAL_WORDS = {"ones": ("pos", "positive", "+"), "zeros": ("neg", "negative", "-")}


Sensitivity = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="P(+ | positive): how often a positive pool tests positive."
    ),
]
Specificity = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="P(- | negative): how often a negative pool tests negative."
    ),
]


def pools(
    items: Annotated[
        str,
        typer.Argument(
            metavar="ITEMS", help="The number of items, or a file with one item name per line."
        ),
    ],
    *,
    prevalence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Prior probability that an item is positive.")
    ],
    n_pools: Annotated[
        int | None,
        typer.Option(
            "--pools", min=1, help="Number of pools.", show_default="as few as are needed"
        ),
    ] = None,
    per_item: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of pools that contain each item.", show_default="the best"
        ),
    ] = None,
    sensitivity: Sensitivity = 1.0,
    specificity: Specificity = 1.0,
    right: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Without --pools: the probability with which all items must be right.",
        ),
    ] = 0.9,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Write pairs of pool and item instead of a table.")
    ] = False,
    seed: Seed = 0,
    writing: Writing,
) -> None:
    """Design pooled tests: which items go into which pools.

    The answer is a table with one line for each pool, which group-test reads; on a terminal, it is
    a list of the items of each pool. Simulated tests show how many wrong items to expect.

    Example: boolweave pools 96 --prevalence 0.02 --sensitivity 0.95 -o pools.csv
    """
    import numpy as np
    import polars as pl

    kind = check_output(writing)
    if not 0 < prevalence < 1:
        raise ValueError(f"--prevalence: expected a number between 0 and 1, got {prevalence:g}")
    names = _item_names(items)
    from boolweave.decoding.group_testing import Rates, search_design

    rates = Rates(prevalence, sensitivity, specificity)
    design, found = search_design(len(names), rates, right, n_pools, per_item, seed)
    m, n = design.nonzero()  # by pools
    pool_names = [f"pool {i + 1}" for i in range(design.shape[0])]
    if in_words(writing):
        for i, pool in enumerate(pool_names):
            inside = [names[j] for j in n[m == i]]
            typer.echo(f"{pool}, {len(inside)} items: {', '.join(inside)}")
    elif pairs:
        listed = {"pool": [pool_names[i] for i in m], "item": [names[j] for j in n]}
        put_table(writing, kind, pl.DataFrame(listed))
    else:
        cells = design.toarray()
        table = {name: cells[:, j] for j, name in enumerate(names)}
        put_table(writing, kind, pl.DataFrame({"pool": pool_names, **table}))
    sizes = np.diff(design.indptr)
    print_message(
        f"{design.shape[0]} pools of {_span(sizes)} items for {len(names)} items, "
        f"{found.tests_per_item:.0%} of the tests needed to test every item alone",
        writing.quiet,
    )
    errors = found.errors
    if n_pools is None and design.shape[0] >= len(names):
        print_message("pools do not save tests here: test every item alone", writing.quiet)
    print_message(
        f"all items were right in {errors.exact:.0%} of {found.trials} simulated runs; on average, "
        f"{errors.missed:.2f} positive items were missed and {errors.false:.2f} items falsely "
        "reported",
        writing.quiet,
    )


def _span(sizes: NDArray[np.int64]) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return str(low) if low == high else f"{low} to {high}"


def _item_names(items: str) -> list[str]:
    """Return the names of the items: numbers, or the lines of a file."""
    # Maximum number of items of a design; hardly anybody pools more.
    most_items = 100_000
    if items.isdecimal():
        if not 1 <= int(items) <= most_items:
            raise ValueError(f"expected 1 to {most_items:,} items, got {items}")
        return [f"item {i + 1}" for i in range(int(items))]
    with local_file(items) as path:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise ValueError(f"{items}: expected one item name per line, got an empty file")
    name, n = Counter(names).most_common(1)[0]
    if n > 1:
        raise ValueError(f"{items}: expected different items, but {name!r} occurs {n} times")
    return names


def group_test(
    design: Annotated[
        str,
        typer.Argument(
            metavar="DESIGN", help="A table of pools by items, with 1 where an item is in a pool."
        ),
    ],
    outcomes: Annotated[
        str,
        typer.Argument(
            metavar="OUTCOMES",
            help="0, 1 or empty for each pool, by name or in the same order; pos and neg, positive "
            "and negative, + and - are understood, too.",
        ),
    ],
    *,
    prevalence: Annotated[
        str, typer.Option(metavar="P|learn", help="Prior probability that an item is positive.")
    ],
    sensitivity: Sensitivity = 1.0,
    specificity: Specificity = 1.0,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="P",
            help="Report items with at least this probability, instead of the most likely set.",
        ),
    ] = None,
    retest: Annotated[int, typer.Option(min=0, help="Number of doubtful items to name.")] = 5,
    writing: Writing,
    reading: ReadingOptions,
) -> None:
    """Find the positive items from the outcomes of pooled tests.

    The design is a table with one line for each pool, or pairs of pool and item (--layout pairs).
    The answer has one line for each item: whether it is reported as positive, its probability, and
    whether it is in the most likely set.

    Example: boolweave group-test pools.csv outcomes.csv --prevalence 0.02 --sensitivity 0.95
    """
    import numpy as np
    import polars as pl

    from boolweave.io.write import column_names, row_names

    share = number_or_word("prevalence", prevalence, (float,), ("learn",))
    kind = check_output(writing)
    pools = read_input(design, reading, writing.quiet).observations.to_local()
    if not pools.is_complete:
        raise ValueError(f"{design}: expected 0 or 1 in every entry, but some entries are missing")
    seen = _read_outcomes(outcomes, reading, writing.quiet)
    results = _in_order(seen, pools, outcomes, design)
    import scipy.sparse

    from boolweave.decoding import group_testing
    from boolweave.decoding.pools import PoolError

    inside = pools.values == 1
    at = (pools.rows_of_entries()[inside], pools.indices[inside])
    matrix = scipy.sparse.csr_array((np.ones(len(at[0]), np.uint8), at), shape=pools.shape)
    try:
        found = group_testing(matrix, results, share, sensitivity, specificity)
    except PoolError as error:
        name = row_names(pools)[error.pool].removeprefix("row ")
        problem = error.problem.format(pool=f"pool {name}")
        raise ValueError(f"{outcomes}: {problem}") from None
    names, chance = column_names(pools), found.probabilities
    reported = found.positive == 1 if threshold is None else chance >= threshold
    answer = pl.DataFrame(
        {
            "item": names,
            "positive": reported.astype(np.uint8),
            "probability": chance.round(6),
            "most_likely": found.most_likely,
        }
    )
    if in_words(writing):
        _echo_items(answer)
    else:
        put_table(writing, kind, answer)
    which = "" if threshold is None else f" with a probability of at least {threshold:g}"
    print_message(
        f"{reported.sum()} of {len(names)} items positive{which}; expect "
        f"{chance[~reported].sum():.2f} missed and {(1 - chance[reported]).sum():.2f} falsely "
        f"reported items; prevalence {found.prevalence:.3g}",
        writing.quiet,
    )
    doubtful = [names[item] for item in found.retest(retest)]
    if doubtful:
        print_message(f"most doubtful: {', '.join(doubtful)}", writing.quiet)
    if not found.converged:
        print_message("warning: the probabilities did not converge", writing.quiet)


def _echo_items(answer: pl.DataFrame) -> None:
    """Print the items that are reported, and those that may well be positive."""
    from boolweave.recommend import percent

    # Items with at least this probability are shown on a terminal even if they are not reported.
    worth_showing = 0.05
    shown = answer.filter((answer["positive"] == 1) | (answer["probability"] >= worth_showing))
    for item, positive, chance, likely in shown.sort("probability", descending=True).iter_rows():
        what = "positive" if positive else "not reported"
        beside = ""
        if likely != positive:
            beside = f", though {'in' if likely else 'not in'} the most likely set"
        typer.echo(f"{item}: {what}, {percent(chance)}{beside}")
    rest = len(answer) - len(shown)
    if rest:
        few = "under" if len(shown) else "all under"
        typer.echo(f"{rest:,} {'other ' if len(shown) else ''}items: {few} {worth_showing:.0%}")


def _read_outcomes(source: str, reading: ReadingOptions, quiet: bool) -> Observations:
    """Read outcomes; the words for positive and negative may be given, or are the usual ones."""
    given = {name: getattr(reading, name) for name in ("ones", "zeros", "missing")}
    usual = {} if given["ones"] or given["zeros"] else USUAL_WORDS
    missing = (given["missing"] or "").lower().split(",")
    for name, words in usual.items():
        given[name] = ",".join(word for word in words if word not in missing)
    how = ReadingOptions(layout="wide", encode="never", **given)
    contents = read_input(source, how, True)
    unused = [(option, word) for option, word in contents.unused_words if option not in usual]
    print_contents(replace(contents, unused_words=unused), contents.guess, quiet)
    return contents.observations.to_local()


def _in_order(seen: Observations, pools: Observations, file: str, design: str) -> Floats:
    """Return outcomes (pools,) in the order of the design, by name if both files have names."""
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
    code: Annotated[
        Path, typer.Argument(metavar="CODE", help="A parity-check matrix in alist format.")
    ],
    llr: Annotated[
        str,
        typer.Argument(
            metavar="WORDS",
            help="The received words: log-likelihood ratios log p(0)/p(1), or bits with --flip; "
            "a .npy file, or one line of numbers for each word.",
        ),
    ],
    *,
    flip: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.5,
            metavar="P",
            help="The file holds bits, each flipped with this probability; ? or NaN is an erasure.",
        ),
    ] = None,
    method: Annotated[
        Literal["sum-product", "max-sum", "product-sum", "min-sum"],
        typer.Option(
            help="The algorithm; product-sum and min-sum are other names for the same two."
        ),
    ] = "sum-product",
    schedule: Annotated[
        Literal["flooding", "serial"],
        typer.Option(help="Update all checks at once, or one after the other."),
    ] = "flooding",
    max_iter: Annotated[int, typer.Option(min=1, help="Maximum number of iterations.")] = 50,
    scale: Annotated[
        float | None, typer.Option(help="Scaling factor of the min-sum messages; 0.75 by default.")
    ] = None,
    jobs: Jobs = -1,
    writing: Writing,
) -> None:
    """Decode received words of a parity-check code.

    The answer holds the bits of each word; a message says how many words satisfy every check.

    Example: boolweave decode wifi.alist received.txt --flip 0.03 -o bits.csv
    """
    import numpy as np
    import polars as pl

    from boolweave.io.write import write_table

    kind = check_output(writing)
    with local_file(code) as path:
        from boolweave.decoding import ParityCheckCode

        parity = ParityCheckCode.from_alist(path)
    with local_file(llr) as path:
        received = _numbers(path, bits=flip is not None)
        ratios = received if flip is None else _as_ratios(received, flip, str(path))
    found = parity.decode(
        ratios, method=method, schedule=schedule, max_iter=max_iter, scale=scale, n_jobs=jobs
    )
    bits = {f"bit{j + 1}": found.bits[:, j] for j in range(parity.n)}
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
    words = f"{np.count_nonzero(found.converged)} of {len(found.bits)} words decoded"
    if flip is not None:
        n_flipped = int(((found.bits != received) & ~np.isnan(received)).sum())
        n_bits = int((~np.isnan(received)).sum())
        words += f"; {n_flipped:,} of {n_bits:,} bits corrected"
    print_message(words, writing.quiet)


def _as_ratios(received: Array, flip: float, name: str) -> Array:
    """Convert bits that may be flipped into log-likelihood ratios."""
    from boolweave.decoding import bsc_llr
    from boolweave.io.files import FileError

    try:
        return bsc_llr(received, flip)
    except ValueError:
        problem = "expected bits with --flip, 0, 1 or ? for an erasure; leave out --flip for "
        raise FileError(name, f"{problem}log-likelihood ratios") from None


def _numbers(path: Path, bits: bool = False) -> Array:
    """Read (words, n) from a NumPy file, or from lines of numbers separated by commas or blanks.

    Bits may also be written without separators, and a question mark stands for an erasure.
    """
    import numpy as np

    from boolweave.io.files import FileError, expecting, magic
    from boolweave.runtime.archives import read_array

    name = str(path)
    if magic(path) == "npy":
        with expecting(name, "a .npy file", Exception):  # a damaged header fails anywhere
            ratios = read_array(path)
        if ratios.dtype.kind not in "buif":
            raise FileError(name, f"expected numbers, got an array of the type {ratios.dtype}")
        return np.atleast_2d(ratios).astype(np.float64)
    rows: list[list[float]] = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(name, "expected lines of numbers, got binary data") from None
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.replace(",", " ").replace(";", " ").split()
        if bits:
            whole = [list(field) if set(field) <= set("01?") else [field] for field in fields]
            fields = [{"?": "nan"}.get(bit, bit) for field in whole for bit in field]
        if not fields:
            continue
        try:
            rows.append([float(field) for field in fields])
        except ValueError as error:
            wrong = str(error).partition(": ")[2]
            raise FileError(name, f"expected numbers, got {wrong}", line=number) from None
        if len(rows[-1]) != len(rows[0]):
            problem = f"expected {len(rows[0])} numbers, as in the first line, got {len(rows[-1])}"
            raise FileError(name, problem, line=number)
    if not rows:
        raise FileError(name, "expected lines of numbers, got an empty file")
    return np.array(rows, dtype=np.float64)
