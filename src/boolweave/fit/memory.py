"""Estimate of the memory that a fit will need, made before it starts.

Back ends say how many bytes they take. Most are for messages: two for every observed entry and
factor, with one byte each in max-sum and two bytes in sum-product (four as floats), and a fit keeps
those of a few starts at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from boolweave.data.observed import ObservedEntries
from boolweave.engine.footprint import (
    FLOATS,
    INTEGERS,
    MAX_BLOCKS,
    MIN_BLOCK,
    PRINTED_MESSAGE,
    Footprint,
    ListedEntries,
    layout_of,
    n_held,
)
from boolweave.model.products import Product
from boolweave.runtime.free_memory import format_bytes, free_memory
from boolweave.runtime.storage import Files, Memory, check_disk

Messages = Literal["uint8", "float32"]
Method = Literal["auto", "max-sum", "sum-product", "paper"]

# "auto": the number of starts with different ends whose messages are kept and continued by
# sum-product.
N_FINALISTS = 3

# If messages are in files: number of bytes of memory for each entry and factor of a block. Eight
# threads have a block and the next one in memory, with four bytes each.
LEAST_ROOM = 64

# Minimum number of entries in a block if messages are in files; with fewer, there would be too many
# blocks.
SMALLEST_BLOCK = 4096


@dataclass(frozen=True)
class FitSize:
    """The size of a fit, and the memory that it needs in addition to its input.

    Parameters
    ----------
    shape : (int, int)
        Number of rows and of columns.
    n_entries, n_components : int
        Number of observed entries and of factors.
    messages : {"uint8", "float32"}
        How messages are stored.
    method, product
        As in the estimator.
    learns : bool
        Whether noise or priors are learned.
    n_init, n_jobs : int
        Number of starts and of threads.
    finish : bool
        Whether the last iterations of max-sum may use floats.
    layout : type of ListedEntries
        Which entries have messages; if zeros are implicit, `n_entries` are the ones.
    """

    shape: tuple[int, int]
    n_entries: int
    n_components: int
    messages: Messages = "uint8"
    method: Method = "auto"
    learns: bool = True
    n_init: int = 1
    n_jobs: int = 1
    product: Product = "or"
    finish: bool = True
    layout: type[ListedEntries] = ListedEntries

    @classmethod
    def of(cls, observations: ObservedEntries, n_components: int, **options: Any) -> FitSize:
        """The size of a fit of these observations."""
        entries = observations.shape, observations.n_listed
        return cls(*entries, n_components, layout=layout_of(observations), **options)

    @property
    def n_bytes(self) -> int:
        """The maximum number of bytes that the fit needs."""
        (rows, columns), K, footprint = self.shape, self.n_components, self._footprint
        integers = self.messages == "uint8"
        held = n_held(self.shape, self.n_entries) if integers else self.n_entries
        codes = held if held > self.n_entries else 0
        messages_at_most = held * self._per_entry
        if self.finish and integers and self.method == "max-sum":
            floats = _bytes_of_last_floats(self.layout.n_last_floats(held), K)
            last = held * K * footprint.max_sum + floats
            messages_at_most = max(messages_at_most, last)
        # Number of bytes of one entry of X or Y that a finished start keeps, and a finalist.
        bytes_of_start = 4
        bytes_of_finalist = 8
        per_variable = footprint.variable + bytes_of_start * self.n_init
        if self.learns:
            per_variable += footprint.learned
        if self.method == "auto":
            per_variable += bytes_of_finalist * min(N_FINALISTS, self.n_init)
        variables = (rows + columns) * K * per_variable
        column_sums = 8 * self.n_jobs * columns * K
        scratch = 8 * rows + 32 * columns
        # While messages are converted to sum-product and added up: number of bytes of an entry of a
        # block.
        bytes_of_block_entry = 40
        if self.learns or self.method != "max-sum":
            block = max(2 * MIN_BLOCK, self.n_entries // MAX_BLOCKS)
            scratch += bytes_of_block_entry * min(self.n_entries, block)
        # The patterns of rows from which XOR starts, and their sums.
        patterns = columns * (24 * K + 100) if self.product == "xor" else 0
        total = messages_at_most + codes + variables + column_sums + scratch + patterns
        of_start = int(self.layout.width * held * K) * footprint.max_sum + variables
        return max(total, of_start) + self.layout.bytes_of_zeros(self.shape, self.n_entries, K)

    @property
    def _footprint(self) -> Footprint:
        return INTEGERS if self.messages == "uint8" else FLOATS

    @property
    def _per_entry(self) -> int:
        """The number of bytes of one observed entry at the peak of a fit."""
        K, n_init, footprint = self.n_components, self.n_init, self._footprint
        first, then, start = footprint.max_sum, footprint.sum_product, footprint.start
        if self.method == "paper":
            return footprint.entry + K * PRINTED_MESSAGE
        if self.method == "max-sum":
            return footprint.entry + K * max(start, first)
        if self.method == "sum-product":
            return footprint.entry + K * max(start, first + then)
        kept = min(N_FINALISTS, n_init)
        starting = K * ((min(n_init, kept + 1) - 1) * first + start)
        # The first trial is alone in memory; the second one is there together with the first, and
        # continues the same start if something is learned.
        waiting = max(kept * first, (kept - 1) * first + then if kept > 1 else 0)
        if self.learns:
            waiting = kept * first + then
        return footprint.entry + max(starting, K * (waiting + then))

    def n_blocks(self, max_memory: int) -> int:
        """Return the number of blocks into which the rows are divided for messages in files.

        Raises MemoryError if the other data of the fit take more than `max_memory`.
        """
        (rows, columns), K = self.shape, self.n_components
        rest = replace(self, n_entries=0).n_bytes
        least = LEAST_ROOM * K * SMALLEST_BLOCK
        if max_memory < rest + least:
            raise MemoryError(
                f"{rows} rows × {columns} columns and {K} factors need "
                f"{format_bytes(rest + least)} of memory for the factors and a block of messages, "
                f"more than `max_memory={format_bytes(max_memory)}`; raise it, or use fewer factors"
            )
        return -(-n_held(self.shape, self.n_entries) * LEAST_ROOM * K // (max_memory - rest))


# ---------------------------------------------------------------- does it fit?


def store_for(
    observations: ObservedEntries,
    n_components: int,
    *,
    max_memory: int | None = None,
    **options: Any,
) -> Memory:
    """Choose where the messages of a fit are kept: in memory, or in files if they must be.

    They are in files if the fit would take more than `max_memory` bytes. Raises MemoryError if it
    needs more than the free memory, or if its other data take more than `max_memory`.
    The other options are those of `FitSize`.
    """
    size = FitSize.of(observations, n_components, **{"finish": max_memory is None, **options})
    free, floats = free_memory(), size.messages == "float32"
    total = size.n_bytes + observations.n_bytes_in_files
    problem = (
        f"{size.shape[0]} rows × {size.shape[1]} columns with {size.n_entries} "
        f"{size.layout.entries} and {n_components} factors need about "
        f"{format_bytes(total)} of memory"
    )
    if max_memory is not None and total > max_memory:
        if floats:
            raise MemoryError(
                f"{problem}, more than `max_memory={format_bytes(max_memory)}`; messages can be "
                'kept in files only if they are integers (`messages="uint8"`), but here they are '
                "floats"
            )
        n_blocks = size.n_blocks(max_memory)
        in_files = total - replace(size, n_entries=0).n_bytes
        check_disk(in_files)
        return Files(n_blocks, cached=free is None or in_files <= free // 2)
    if free is None or size.n_bytes <= free:
        return Memory()
    remedies = ["fewer factors", "`max_memory` to keep messages in files"]
    if size.method == "paper":
        del remedies[1]
    elif floats:
        remedies[1] = (
            f'`messages="uint8"` ({format_bytes(replace(size, messages="uint8").n_bytes)})'
        )
    if size.method != "max-sum":
        least = replace(size, method="max-sum", learns=False)
        remedies.append(f'`method="max-sum"` ({format_bytes(least.n_bytes)})')
    raise MemoryError(
        f"{problem}, but {format_bytes(free)} are "
        f"free; try {', '.join(remedies)}, or boolweave.distributed on several machines"
    )


# Max-sum ends with floats instead of integers. One byte per message suffices at first, but if a
# table is nearly the product of its factors, much depends on messages that are smaller than one
# step of a byte; some last iterations with floats find better factors than floats alone, or
# integers alone. Floats take ten times as long and four times the memory. Therefore they are used
# for this fraction of the iterations, up to this many bytes.
FLOAT_SHARE = 0.3
MOST_FLOAT_BYTES = 300_000_000


def last_floats_fit(n_entries: int, n_components: int) -> bool:
    """Whether there are few enough messages for floats, regardless of other settings."""
    return bytes_of_floats(n_entries, n_components) <= MOST_FLOAT_BYTES


def n_float_iterations(max_iter: int) -> int:
    """Number of iterations that use floats."""
    return int(FLOAT_SHARE * max_iter)


def _bytes_of_last_floats(n_entries: int, n_components: int) -> int:
    """Memory of the last iterations in addition to integer messages; 0 if there are none."""
    fits = last_floats_fit(n_entries, n_components)
    return bytes_of_floats(n_entries, n_components) if fits else 0


def bytes_of_floats(n_entries: int, n_components: int) -> int:
    """Number of bytes of floats, evidence and columns."""
    return n_entries * (8 * n_components + 64)
