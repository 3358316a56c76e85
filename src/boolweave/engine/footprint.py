"""How many bytes the back ends take for entries, messages and variables.

The memory of a fit is estimated from these numbers before it starts, and shown to those who want no
fit at all. Therefore nothing here loads a back end, or numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries

# More blocks than this do not help: a machine does not have many more cores, and each block has a
# column sum (K, N) of its own. Fewer entries than MIN_BLOCK are not worth a thread; blocks with
# more than MAX_BLOCK are divided further, so that a cluster can distribute them.
MAX_BLOCKS = 32
MIN_BLOCK = 2**16
MAX_BLOCK = 2**24

# A block is dense, without an index of columns, if at least this fraction of its cells is observed.
DENSE = 0.7


def n_held(shape: tuple[int, int], n_entries: int) -> int:
    """Number of entries with messages, including missing cells in dense blocks."""
    n_cells = shape[0] * shape[1]
    return n_cells if DENSE * n_cells <= n_entries else n_entries


@dataclass(frozen=True)
class Footprint:
    """Number of bytes that a back end takes for entries, messages and variables."""

    # The two messages of an entry and factor: in max-sum, in sum-product, and in max-sum while they
    # are created
    max_sum: int
    sum_product: int
    start: int
    entry: int  # an observed entry, in addition to its messages
    # One entry of X or Y: beliefs, sums and bits; and more if priors are learned
    variable: int
    learned: int


FLOATS = Footprint(8, 8, 16, entry=16, variable=48, learned=56)
INTEGERS = Footprint(2, 4, 2, entry=0, variable=16, learned=14)

# Number of bytes of an entry and factor of the algorithm as it is printed: six arrays of 64-bit
# floats, before and after an iteration, and some that are not kept.
PRINTED_MESSAGE = 8 * 16

# "auto": the number of starts, or fewer if some agree.
N_STARTS = 6

# If zeros are implicit: number of factors at the beginning for each one that is wanted.
WIDTH = 1.5


class ListedEntries:
    """Every observed entry is listed, and has messages of its own."""

    entries: ClassVar[str] = "observed entries"  # what has messages, in words
    n_starts: ClassVar[int] = N_STARTS
    width: ClassVar[float] = 1.0  # number of factors of a start for each one that is wanted
    noise_by_line: ClassVar[bool] = True  # whether columns or rows can have noise of their own

    @staticmethod
    def n_last_floats(n_entries: int) -> int:
        """Number of entries whose messages may be floats in the last iterations."""
        return n_entries

    @staticmethod
    def bytes_of_zeros(shape: tuple[int, int], n_ones: int, n_factors: int) -> int:
        """Number of bytes for zeros that are not listed."""
        return 0


class ImplicitZeros(ListedEntries):
    """Only the ones have messages of their own; all zeros of a row are treated at once."""

    entries = "ones"
    n_starts = 1  # it has more factors than are wanted
    width = WIDTH
    noise_by_line = False

    @staticmethod
    def n_last_floats(n_entries: int) -> int:
        """None: the sums of zeros are floats from the beginning, and ones stay as they are."""
        return 0

    @staticmethod
    def bytes_of_zeros(shape: tuple[int, int], n_ones: int, n_factors: int) -> int:
        """Number of bytes in addition to those of the ones."""
        rows, columns = shape
        of_variables = (29 * (rows + columns) + 4 * columns) * n_factors
        return of_variables + 8 * n_ones + 24 * n_factors * min(n_ones, most_listed(n_factors))


def most_listed(n_factors: int) -> int:
    """Maximum number of zeros that are listed although zeros are implicit."""
    # Maximum number of listed zeros, and of their messages to one side. With more covered zeros,
    # the factors are far from a good answer, and a fraction of these zeros, evenly spread, is
    # enough.
    most_zeros = 1 << 20
    most_messages = 1 << 24
    return min(most_zeros, most_messages // n_factors)


def layout_of(observations: ObservedEntries) -> type[ListedEntries]:
    """Which entries of observations have messages, in this process or on a cluster."""
    return ImplicitZeros if observations.zeros == "collective" else ListedEntries
