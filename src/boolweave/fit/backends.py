"""The back ends of listed entries, and those of observations whose zeros are implicit.

A fit asks here which back end keeps the messages, in which numbers, in how many bytes, and how many
starts it needs.
"""

from __future__ import annotations

from typing import Any, ClassVar

from boolweave.data.observed import ObservedEntries
from boolweave.data.ones import SparseObservations
from boolweave.engine.backend import AnyBackend
from boolweave.engine.floats import FloatBackend
from boolweave.engine.integers import IntegerBackend, Part
from boolweave.engine.quantization import Quantization, quantization_for
from boolweave.engine.zeros.backend import WIDTH, SparseBackend
from boolweave.model.model import Model
from boolweave.runtime.storage import Memory

# "auto": the number of starts, or fewer if some agree.
N_STARTS = 6


class ListedBackends:
    """Every observed entry is listed, and has messages of its own."""

    entries: ClassVar[str] = "observed entries"  # what has messages, in words
    n_starts: ClassVar[int] = N_STARTS
    width: ClassVar[float] = 1.0  # number of factors of a start for each one that is wanted

    @staticmethod
    def make(
        observations: Any,
        integers: bool,
        n_jobs: int | None,
        store: Memory,
        part: Part | None = None,
    ) -> AnyBackend:
        """Make the back end, with messages that are integers or floats.

        If the observations are a part of the rows of a larger matrix, messages are integers.
        """
        if integers:
            return IntegerBackend(observations.to_local(), n_jobs, store, part)
        return FloatBackend(observations.to_local(), n_jobs)

    @staticmethod
    def quantization(model: Model) -> Quantization | str:
        """The quantization of messages that are integers, or why they cannot be."""
        return quantization_for(model)

    @staticmethod
    def n_last_floats(n_entries: int) -> int:
        """Number of entries whose messages may be floats in the last iterations."""
        return n_entries

    @staticmethod
    def bytes_of_zeros(shape: tuple[int, int], n_ones: int, n_factors: int) -> int:
        """Number of bytes for zeros that are not listed."""
        return 0


class ImplicitZeroBackends(ListedBackends):
    """Only the ones have messages of their own; all zeros of a row are treated at once."""

    entries = "ones"
    n_starts = 1  # it has more factors than are wanted
    width = WIDTH
    bytes_of_zeros = SparseBackend.n_bytes

    @staticmethod
    def make(
        observations: Any,
        integers: bool,
        n_jobs: int | None,
        store: Memory,
        part: Part | None = None,
    ) -> AnyBackend:
        """Make the back end, with messages of ones that are integers or floats."""
        return SparseBackend(observations, integers, n_jobs, store, part)

    @staticmethod
    def quantization(model: Model) -> Quantization | str:
        """The quantization of messages of ones, which more models allow."""
        return quantization_for(model, implicit_zeros=True)

    @staticmethod
    def n_last_floats(n_entries: int) -> int:
        """None: the sums of zeros are floats from the beginning, and ones stay as they are."""
        return 0


def backends_for(observations: ObservedEntries) -> type[ListedBackends]:
    """The back ends of these observations, in this process or on a cluster."""
    sparse = isinstance(observations, SparseObservations)
    return ImplicitZeroBackends if sparse else ListedBackends
