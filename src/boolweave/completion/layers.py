"""Boolean layers: an OR-product of K factors that moves the mean of every entry up or down.

Each entry is evidence for a layer through a channel of its own, which follows from offsets,
directions and the other layers. Messages are those of sum-product in small integers
(`engine.integers`), with quantized evidence for each entry.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from boolweave.completion.kernels.channels import evidence_of, log_normal_table
from boolweave.completion.table import Table
from boolweave.engine.backend import InitialBeliefs, State, split_rows
from boolweave.engine.integers import IntegerMessages, IntegerProblem, messages_of, no_sums, step
from boolweave.engine.kernels.integer_sum_product import CHANCE_STEPS, LOG_ODDS_STEPS, PerEntry
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.quantization import LARGEST_EVIDENCE, IntegerBlock, Quantization, make_blocks
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.odds import log_odds, sigmoid
from boolweave.runtime.storage import Memory
from boolweave.runtime.types import Doubles, Integers

LOGS = log_normal_table()

# The fraction of ones of a factor is kept this far from 0 and 1: an empty factor could not recover.
LEAST_PRIOR = 0.02


class LayerEntries:
    """Entries cut into blocks of rows for the kernels; shared by all layers of a table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        seen = table.observations
        self.blocks: tuple[IntegerBlock, ...] = make_blocks(seen, split_rows(seen.indptr), Memory())
        self.most_in_column = sum(block.most_in_column for block in self.blocks)
        self.ends = np.cumsum([0, *(block.n_observed for block in self.blocks)])
        self.observed = [
            None if len(block.codes) == block.n_observed else block.codes < 2
            for block in self.blocks
        ]

    def to_lanes(self, values: NDArray[np.int16]) -> list[NDArray[np.int16]]:
        """Numbers of the entries in the layout of each block's groups, flat."""
        parts = []
        for i, (block, observed) in enumerate(zip(self.blocks, self.observed, strict=True)):
            own = values[self.ends[i] : self.ends[i + 1]]
            if observed is not None:
                full = np.zeros(len(observed), dtype=values.dtype)
                full[observed] = own
                own = full
            parts.append(np.ascontiguousarray(block.to_lanes(own)).reshape(-1))
        return parts

    def from_lanes(self, parts: list[NDArray[np.int16]]) -> NDArray[np.float32]:
        """Probabilities of the entries, (entries,), as the kernels wrote them."""
        out = np.empty(self.table.n_entries, dtype=np.float32)
        for i, (block, observed) in enumerate(zip(self.blocks, self.observed, strict=True)):
            own = block.from_lanes(parts[i].reshape(-1, 1, LANES))[:, 0]
            out[self.ends[i] : self.ends[i + 1]] = own if observed is None else own[observed]
        out *= np.float32(1 / CHANCE_STEPS)
        return out


class BooleanLayer:
    """The messages of one layer, and its current contribution to each entry."""

    def __init__(
        self,
        entries: LayerEntries,
        n_components: int,
        strength: float,
        random: np.random.Generator,
    ) -> None:
        self.entries, self.strength = entries, strength
        shape = entries.table.shape
        # The fraction of ones of a factor before it has learned any.
        first_prior = 0.3
        first = np.full((1, n_components), log_odds(first_prior), dtype=np.float32)
        code = Quantization(np.array([-1.0, 1.0, 0.0]), 255)
        model = Model(n_components, Channel.symmetric(0.25))
        self.problem = IntegerProblem(
            model, shape, first, first.T.copy(), 0.0, code, entries.blocks, entries.most_in_column
        )
        shapes = [(block.n_groups, n_components, LANES) for block in entries.blocks]
        to_row: list[Integers] = [np.zeros(s, dtype=np.int16) for s in shapes]
        to_column: list[Integers] = [np.zeros(s, dtype=np.int16) for s in shapes]
        messages = IntegerMessages(to_row, to_column, no_sums(self.problem, "sum-product"))
        n = entries.table.n_entries
        # Standard deviation of the first beliefs of a line, divided by the root of its number of
        # entries: about that of a sum of random messages.
        first_beliefs = 1.8
        by_row, by_column = (first_beliefs * np.sqrt(max(1.0, n / max(1, size))) for size in shape)
        field = InitialBeliefs.random(
            shape, n_components, (by_row, by_column), 1 / LOG_ODDS_STEPS, random
        )
        self.state = State(messages, semiring="sum-product", field=field)
        self._keep(np.full(n, first_prior, dtype=np.float32))

    def update(
        self, mean: NDArray[np.float32], variance: NDArray[np.float32], cuts: Doubles, n_steps: int
    ) -> None:
        """Pass messages, given mean and variance of the sum of all other parts at each entry."""
        ratios = np.empty(len(mean), dtype=np.float32)
        levels = self.entries.table.levels
        evidence_of(mean, variance, levels, cuts, self.strength, LOGS, LARGEST_EVIDENCE, ratios)
        ratios *= np.float32(LOG_ODDS_STEPS)
        evidence = self.entries.to_lanes(np.rint(ratios).astype(np.int16))
        chance = [np.empty_like(part) for part in evidence]
        per_entry = tuple(map(PerEntry, evidence, chance))
        self.problem = replace(self.problem, per_entry=per_entry)
        blocks = range(len(evidence))  # in this thread: each member of an ensemble has its own
        damping = 0.8
        for _ in range(n_steps):
            step(self.problem, self.state, damping, lambda run: [run(blocks)], lambda sums: sums)
        self._keep(self.entries.from_lanes(chance))
        self._learn_priors()

    def _keep(self, chances: NDArray[np.float32]) -> None:
        """Keep mean and variance of the contribution to each entry, without its own evidence."""
        self.shift = np.float32(2 * self.strength) * chances
        self.shift -= np.float32(self.strength)
        self.variance = np.float32(self.strength**2) - self.shift * self.shift

    def _learn_priors(self) -> None:
        """Take the mean belief of each factor as its prior."""
        rows, columns = self.probabilities()
        odds = [
            log_odds(np.clip(side.mean(axis=0), LEAST_PRIOR, 1 - LEAST_PRIOR)).astype(np.float32)
            for side in (rows, columns)
        ]
        self.problem = replace(
            self.problem, row_prior=odds[0][None, :], column_prior=odds[1][:, None]
        )

    def priors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """P(x = 1) and P(y = 1), each (K,), of lines without entries."""
        rows, columns = self.problem.row_prior[0], self.problem.column_prior[:, 0]
        return sigmoid(rows).astype(np.float32), sigmoid(columns).astype(np.float32)

    def probabilities(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """P(x = 1), (M, K), and P(y = 1), (N, K)."""
        sums = messages_of(self.state).sums
        rows = np.concatenate([side.table(side.sums) for side in sums.rows])
        columns = sums.columns.table(sums.columns.sums)
        sides = []
        for counts, prior in (
            (rows, self.problem.row_prior),
            (columns, self.problem.column_prior.T),
        ):
            odds = counts * np.float32(1 / LOG_ODDS_STEPS) + prior
            sides.append(sigmoid(odds).astype(np.float32))
        return sides[0], sides[1]
