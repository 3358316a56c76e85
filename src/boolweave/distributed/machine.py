"""The machine of a fit on a cluster: its back end and its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boolweave.data.ones import SparseObservations
from boolweave.distributed.backend import ClusterBackend
from boolweave.distributed.zeros import SparseClusterBackend
from boolweave.fit import memory
from boolweave.runtime.storage import Memory

if TYPE_CHECKING:
    from boolweave.data.observed import ObservedEntries
    from boolweave.distributed.cluster import Cluster
    from boolweave.engine.backend import AnyBackend


class ClusterMachine:
    """The machine of a fit on a cluster: workers keep the messages, each within `max_memory`."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._memory_options: dict[str, Any] = {}

    def choose_store(self, observations: ObservedEntries, n_components: int, **how: Any) -> Memory:
        """Choose the number of blocks of rows so that each worker stays within `max_memory`."""
        self._memory_options = {name: value for name, value in how.items() if name != "n_jobs"}
        fixed = dict(self._memory_options)
        max_memory = fixed.pop("max_memory")
        if max_memory is None:
            return Memory()
        sparse = isinstance(observations, SparseObservations)
        n_entries = observations.n_ones if sparse else observations.n_observed
        size = memory.FitSize(
            observations.shape, n_entries, n_components, collective=sparse, **fixed
        )
        return Memory(size.n_blocks(max_memory))

    def backend(
        self, observations: ObservedEntries, integers: bool, n_jobs: int | None, store: Memory
    ) -> AnyBackend:
        """Make the back end, whose messages must be integers."""
        if not integers:
            raise ValueError(
                "a cluster needs integer messages, but this fit needs floats; use one machine"
            )
        sparse = isinstance(observations, SparseObservations)
        kind = SparseClusterBackend if sparse else ClusterBackend
        return kind(observations, self.cluster, store.n_blocks, self._memory_options, n_jobs)
