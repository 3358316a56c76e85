"""Messages of max-sum as floats in the place of integers, for the last iterations.

A byte for a message finds the way, but where a table is nearly the product of its factors much
hangs on messages that are smaller than its smallest step. Some iterations with floats from there
find better factors than floats, or integers, all the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine import integers
from boolweave.engine import loop as engine
from boolweave.engine.kernels.groups import MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.engine.loop import Problem, State
    from boolweave.runtime.storage import Memory

# This share of the iterations: floats take ten times as long as integers, and four times their
# memory. So many bytes are the limit, and for all starts rather than the best one only, so many.
SHARE = 0.3
MOST_BYTES = 300_000_000
FEW_BYTES = 80_000_000


def is_possible(n_entries: int, n_components: int) -> bool:
    """Whether there are few enough messages; what else a fit is told does not count."""
    return _n_bytes(n_entries, n_components) <= MOST_BYTES


def is_quick(n_entries: int, n_components: int) -> bool:
    """Whether there are so few messages that all starts can be finished."""
    return _n_bytes(n_entries, n_components) <= FEW_BYTES


def n_iterations(max_iter: int) -> int:
    """How many of the iterations are with floats."""
    return int(SHARE * max_iter)


def n_bytes(n_entries: int, n_components: int) -> int:
    """What the last iterations take beyond integer messages; 0 if there are none."""
    return _n_bytes(n_entries, n_components) if is_possible(n_entries, n_components) else 0


def _n_bytes(n_entries: int, n_components: int) -> int:
    """Bytes of floats, evidence and columns."""
    return n_entries * (8 * n_components + 64)


def to_floats(problem: Problem, state: State, observations: Observations) -> tuple[Problem, State]:
    """The problem for float messages, and a max-sum state with the messages of a given one.

    Where workers keep the entries and the messages, both are fetched: there are not many.
    """
    if problem.cluster is not None:
        observations = observations.to_local()
    floats = engine.make_problem(observations, problem.model)
    assert problem.code is not None
    cuts = [(block.start, block.stop) for block in problem.blocks]
    blocks = integers.make_blocks(observations, problem.code, cuts)
    here = engine.problem_of(observations, problem.model, blocks, problem.code)
    sides: Any = (
        _as_floats(here, floats, state.to_row, problem.store),
        _as_floats(here, floats, state.to_column, problem.store),
    )  # fmt: skip
    after = engine.state_from_messages(floats, *sides)
    after.n_iter = state.n_iter
    return floats, after


def _as_floats(
    here: Problem, floats: Problem, packed: Any, store: Memory
) -> list[NDArray[np.float32]]:
    """Messages of all blocks, in the store, factor by factor: little memory beside the result."""
    K, unit = here.n_components, np.float32(integers.unit_of(here, "max-sum"))
    values = np.empty(floats.n_entries, dtype=np.float32)
    sizes = [engine.chunks_of(block) for block in floats.blocks]
    out = store.zeros([(n_chunks, K, size) for n_chunks, size in sizes], np.float32)
    offsets = [integers.offsets_of(here, "max-sum", block) for block in here.blocks]
    for k in range(K):
        first = 0
        for block, array, offset in zip(here.blocks, packed, offsets, strict=True):
            odds = (block.from_lanes(array[:, k : k + 1])[:, 0] - offset) * unit
            odds = odds[block.codes != MISSING]
            values[first : first + len(odds)] = odds
            first += len(odds)
        first = 0
        for block, messages in zip(floats.blocks, out, strict=True):
            flat = np.zeros(messages.shape[0] * messages.shape[2], dtype=np.float32)
            flat[: block.n_entries] = values[first : first + block.n_entries]
            messages[:, k] = flat.reshape(messages.shape[0], messages.shape[2])
            first += block.n_entries
    return out
