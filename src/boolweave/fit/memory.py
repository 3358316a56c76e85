"""How much memory a fit will take, known before it starts.

Messages are nearly all of it: two for every observed entry and factor, a byte each in max-sum and
two bytes in sum-product (four as floats), and a fit keeps those of a few starts at a time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from boolweave.engine import integers
from boolweave.engine.loop import MAX_BLOCKS, MIN_BLOCK
from boolweave.fit import float_finish
from boolweave.fit.starts import N_FINALISTS
from boolweave.runtime.free_memory import free_memory, in_words
from boolweave.runtime.storage import Files, Memory, check_disk

if TYPE_CHECKING:
    from boolweave.data.observations import Observations
    from boolweave.model.products import Product

Messages = Literal["uint8", "float32"]
Method = Literal["auto", "max-sum", "sum-product"]

# Bytes of the two messages of an entry and factor: max-sum, sum-product, and max-sum while it is
# made (random floats are drawn in 64 bits).
_MAX_SUM = {"uint8": 2, "float32": 8}
_SUM_PRODUCT = {"uint8": 4, "float32": 8}
_START = {"uint8": 2, "float32": 16}

# Bytes of an observed entry, beside its messages: columns and evidence as floats, those of the last
# model too. Where messages become those of sum-product and are added up, so many more, of a block.
_EVIDENCE = {"uint8": 0, "float32": 16}
_BLOCK = 40

# Bytes of one entry of X or Y: beliefs, sums, quantised beliefs, bits; as floats also priors and
# old beliefs. More where priors are learned; what a finished start keeps, and a finalist.
_VARIABLE = {"uint8": 16, "float32": 48}
_LEARNED = {"uint8": 14, "float32": 56}
_OF_START = 4
_OF_FINALIST = 8

# Where XOR begins: bytes of one entry of Y, and of one column, for patterns and their sums.
_PATTERN = 24
_SUMS = 100

# Where messages are in files: bytes of memory for each entry and factor of a block. Eight threads
# have a block and the next one in memory, at four bytes.
LEAST_ROOM = 64

# Entries in a block, where messages are in files, at the least: fewer take too many of them.
SMALLEST_BLOCK = 4096


class Options(TypedDict, total=False):
    """What the memory of a fit depends on, beside its size.

    Attributes
    ----------
    messages : {"uint8", "float32"}, default="uint8"
        How messages are stored.
    method : {"auto", "max-sum", "sum-product"}, default="auto"
        As in the estimator.
    learns : bool, default=True
        Whether noise or priors are learned.
    n_init, n_jobs : int, default=1
        Number of starts and of threads.
    product : {"or", "xor"}, default="or"
        As in the estimator.
    finish : bool, default=True
        Whether the last iterations of max-sum may be with floats.
    """

    messages: Messages
    method: Method
    learns: bool
    n_init: int
    n_jobs: int
    product: Product
    finish: bool


def estimate(
    shape: tuple[int, int],
    n_entries: int,
    n_components: int,
    *,
    messages: Messages = "uint8",
    method: Method = "auto",
    learns: bool = True,
    n_init: int = 1,
    n_jobs: int = 1,
    product: Product = "or",
    finish: bool = True,
) -> int:
    """Return the bytes that a fit takes at most, beside its input; see `Options`."""
    rows, columns = shape
    held = _held(shape, n_entries) if messages == "uint8" else n_entries
    codes = held if held > n_entries else 0
    per_entry = _per_entry(n_components, messages, method, n_init)
    messages_at_most = held * per_entry
    if finish and messages == "uint8" and method != "sum-product":
        last = held * n_components * _MAX_SUM[messages] + float_finish.n_bytes(held, n_components)
        messages_at_most = max(messages_at_most, last)
    per_variable = _VARIABLE[messages] + _OF_START * n_init
    if learns:
        per_variable += _LEARNED[messages]
    if method == "auto":
        per_variable += _OF_FINALIST * min(N_FINALISTS, n_init)
    variables = (rows + columns) * n_components * per_variable
    column_sums = 8 * n_jobs * columns * n_components
    scratch = 8 * rows + 32 * columns
    if learns or method != "max-sum":
        scratch += _BLOCK * min(n_entries, max(2 * MIN_BLOCK, n_entries // MAX_BLOCKS))
    patterns = columns * (n_components * _PATTERN + _SUMS) if product == "xor" else 0
    return messages_at_most + codes + variables + column_sums + scratch + patterns


def _held(shape: tuple[int, int], n_entries: int) -> int:
    """Count the entries with messages: in dense blocks, cells that are not observed have some."""
    dense = integers.DENSE * shape[0] * shape[1] <= n_entries
    return shape[0] * shape[1] if dense else n_entries


def _per_entry(K: int, messages: Messages, method: Method, n_init: int) -> int:
    """Return the bytes of one observed entry at the worst moment of a fit."""
    first, then = _MAX_SUM[messages], _SUM_PRODUCT[messages]
    start = _START[messages]
    evidence = _EVIDENCE[messages]
    if method == "max-sum":
        return evidence + K * max(start, first)
    if method == "sum-product":
        return evidence + K * max(start, first + then)
    kept = min(N_FINALISTS, n_init)
    starting = K * ((min(n_init, kept + 1) - 1) * first + start)
    # The first finalist has no rival yet; the second has the first one, refined, beside it.
    waiting = max(kept * first, (kept - 1) * first + then if kept > 1 else 0)
    return evidence + max(starting, K * (waiting + then))


# ---------------------------------------------------------------- does it fit?


def store_for(
    observations: Observations,
    n_components: int,
    *,
    max_memory: int | None = None,
    **options: Unpack[Options],
) -> Memory:
    """Choose where the messages of a fit are kept: in memory, or in files if they must be.

    They are in files if the fit would take more than `max_memory` bytes. Raises MemoryError if it
    would not fit into what is free, or if what cannot be in files takes more than `max_memory`.
    """
    shape, n_entries = observations.shape, observations.n_observed

    def needed(n_entries: int = n_entries, **other: Unpack[Options]) -> int:
        finish: Options = {"finish": max_memory is None}
        return estimate(shape, n_entries, n_components, **(finish | options | other))

    floats = options.get("messages") == "float32"
    free = free_memory()
    total = needed() + observations.n_bytes_in_files
    problem = (
        f"{shape[0]} rows × {shape[1]} columns with {n_entries} observed entries and "
        f"{n_components} factors need about {in_words(total)} of memory"
    )
    if max_memory is not None and total > max_memory:
        if floats:
            raise MemoryError(
                f"{problem}, more than max_memory={in_words(max_memory)}; messages can be kept in "
                "files only if they are integers, but here they are floats"
            )
        n_blocks = blocks_within(max_memory, shape, n_entries, n_components, **options)
        in_files = total - needed(n_entries=0)
        check_disk(in_files)
        return Files(n_blocks, cached=free is None or in_files <= free // 2)
    if free is None or needed() <= free:
        return Memory()
    remedies = ["fewer factors", "max_memory= to keep messages in files"]
    if floats:
        remedies[1] = f'messages="uint8" ({in_words(needed(messages="uint8"))})'
    if options.get("method") != "max-sum":
        remedies.append(f'method="max-sum" ({in_words(needed(method="max-sum", learns=False))})')
    raise MemoryError(
        f"{problem}, but {in_words(free)} are "
        f"free; try {', '.join(remedies)}, or boolweave.distributed on several machines"
    )


def blocks_within(
    max_memory: int,
    shape: tuple[int, int],
    n_entries: int,
    n_components: int,
    **options: Unpack[Options],
) -> int:
    """Return the number of blocks that the rows must be cut into for messages in files.

    Raises MemoryError if what cannot be in files takes more than `max_memory`.
    """
    rest = estimate(shape, 0, n_components, **options)
    least = LEAST_ROOM * n_components * SMALLEST_BLOCK
    if max_memory < rest + least:
        raise MemoryError(
            f"{shape[0]} rows × {shape[1]} columns and {n_components} factors need "
            f"{in_words(rest + least)} of memory for the factors and a block of messages, more "
            f"than max_memory={in_words(max_memory)}: raise it, or take fewer factors"
        )
    room = _held(shape, n_entries) * LEAST_ROOM * n_components
    return -(-room // (max_memory - rest))


def check_answer(
    shape: tuple[int, int], itemsize: int, what: str, remedy: str, max_memory: int | None = None
) -> None:
    """Raise MemoryError if an array of this shape is more than is free, or than `max_memory`.

    It is computed in parts, which take little beside the answer itself.
    """
    n_bytes = shape[0] * shape[1] * itemsize
    problem = f"{what} of {shape[0]} rows × {shape[1]} columns takes {in_words(n_bytes)} of memory"
    if max_memory is not None and n_bytes > max_memory:
        raise MemoryError(f"{problem}, more than max_memory={in_words(max_memory)}: {remedy}")
    free = free_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(f"{problem}, but {in_words(free)} are free: {remedy}")


# ---------------------------------------------------------------- in words


def in_bytes(size: int | float | str) -> int:
    """Read a number of bytes: a number, or a text such as "2GiB", "500 MB" or "1.5e9".

    Examples
    --------
    >>> from boolweave.fit.memory import in_bytes
    >>> in_bytes("2GiB"), in_bytes("500 MB")
    (2147483648, 500000000)
    """
    found = _SIZE.fullmatch(str(size))
    n_bytes = 0.0
    if found is not None:
        factor = _UNITS.get(found[2].lower())
        n_bytes = 0.0 if factor is None else float(found[1]) * factor
    if not 1 <= n_bytes < 2**62:
        raise ValueError(
            f'max_memory must be a number of bytes, or one with a unit such as "2GiB" or "500MB", '
            f"got {size!r}"
        )
    return int(n_bytes)


_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?(?:e\d+)?)\s*([a-zA-Z]*)\s*")
_UNITS = {"": 1, "b": 1} | {
    prefix + unit: base**power
    for power, prefix in enumerate("kmgt", start=1)
    for unit, base in (("", 1000), ("b", 1000), ("i", 1024), ("ib", 1024))
}
