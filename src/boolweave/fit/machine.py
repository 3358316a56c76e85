"""Where a fit runs: which back end holds its messages, and in which memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from boolweave.data.ones import SparseObservations
from boolweave.engine.floats import FloatBackend, FloatMessages
from boolweave.engine.integer_sums import IntegerMessages, Sums, Variables
from boolweave.engine.integers import IntegerBackend
from boolweave.engine.zeros.backend import SparseBackend, SparseMessages
from boolweave.engine.zeros.listed import Listed
from boolweave.fit import memory

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries
    from boolweave.engine.backend import AnyBackend
    from boolweave.runtime.storage import Memory


# The types of messages in checkpoints.
MESSAGE_TYPES = (FloatMessages, IntegerMessages, Sums, Variables, SparseMessages, Listed)


class Machine(Protocol):
    """The choice of the back end of a fit; the only place that knows all back ends."""

    def choose_store(self, observations: ObservedEntries, n_components: int, **how: Any) -> Memory:
        """Choose where messages are kept, as in `memory.store_for`, which may raise MemoryError."""
        ...

    def backend(
        self, observations: ObservedEntries, integers: bool, n_jobs: int | None, store: Memory
    ) -> AnyBackend:
        """Make the back end, with messages that are integers or floats."""
        ...


class ThisMachine:
    """The threads of this process."""

    def choose_store(self, observations: ObservedEntries, n_components: int, **how: Any) -> Memory:
        """Choose memory, or files if `max_memory` is less than is needed."""
        return memory.store_for(observations, n_components, **how)

    def backend(
        self, observations: ObservedEntries, integers: bool, n_jobs: int | None, store: Memory
    ) -> AnyBackend:
        """Make the back end, with messages that are integers or floats."""
        if isinstance(observations, SparseObservations):
            return SparseBackend(observations, integers, n_jobs, store)
        if integers:
            return IntegerBackend(observations.to_local(), n_jobs, store)
        return FloatBackend(observations.to_local(), n_jobs)
