"""The back ends of listed entries, and those of observations whose zeros are implicit.

A fit asks here which back end keeps the messages and in which numbers; how many bytes they take is
in `engine.footprint`.
"""

from __future__ import annotations

from typing import Any

from boolweave.data.observed import ObservedEntries
from boolweave.engine.backend import AnyBackend
from boolweave.engine.floats import FloatBackend
from boolweave.engine.footprint import ImplicitZeros, ListedEntries, layout_of
from boolweave.engine.integers import IntegerBackend, Part
from boolweave.engine.quantization import Quantization, quantization_for
from boolweave.engine.zeros.backend import SparseBackend
from boolweave.model.model import Model
from boolweave.runtime.storage import Memory


class ListedBackends(ListedEntries):
    """Every observed entry is listed, and has messages of its own."""

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


class ImplicitZeroBackends(ImplicitZeros, ListedBackends):
    """Only the ones have messages of their own; all zeros of a row are treated at once."""

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


def backends_for(observations: ObservedEntries) -> type[ListedBackends]:
    """The back ends of these observations, in this process or on a cluster."""
    return ImplicitZeroBackends if layout_of(observations) is ImplicitZeros else ListedBackends
