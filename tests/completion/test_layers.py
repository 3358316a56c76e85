"""Boolean layers on integer messages with evidence of each entry's own."""

import numpy as np
import pytest
from reference import sum_product_reference

from boolweave.completion.layers import BooleanLayer, LayerEntries
from boolweave.completion.table import Table
from boolweave.data.observations import Observations
from boolweave.engine.backend import State, split_rows
from boolweave.engine.integers import IntegerMessages, IntegerProblem, messages_of, no_sums, step
from boolweave.engine.kernels.integer_sum_product import CHANCE_STEPS, LOG_ODDS_STEPS, PerEntry
from boolweave.engine.kernels.vectors import LANES
from boolweave.engine.quantization import Quantization, make_blocks
from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.odds import sigmoid
from boolweave.runtime.storage import Memory

BINARY = np.array([-np.inf, 0.0, np.inf])


@pytest.mark.parametrize("product", ["or", "xor"])
@pytest.mark.parametrize("share", [1.0, 0.85, 0.4], ids=["complete", "dense", "sparse"])
def test_messages_are_those_of_the_slow_twin(product, share):
    rng = np.random.default_rng(0)
    shape, K = (21, 37), 3
    known = rng.random(shape) < share
    evidence = np.where(known, rng.normal(size=shape) * (1.5 if product == "or" else 0.5), 0.0)
    seen = Observations.from_dense(np.where(known, (evidence > 0) * 1.0, np.nan))
    priors = rng.normal(size=(21, K)) - 0.5, rng.normal(size=(K, 37)) - 0.5
    entries = LayerEntries(Table.of(seen))
    flat = evidence[seen.rows_of_entries(), seen.indices]
    told = entries.to_lanes(np.rint(flat * LOG_ODDS_STEPS).astype(np.int16))
    chance = [np.empty_like(part) for part in told]
    blocks = make_blocks(seen, split_rows(seen.indptr), Memory())
    problem = IntegerProblem(
        Model(K, Channel.symmetric(0.25), product=product), shape,
        priors[0].astype(np.float32), priors[1].astype(np.float32), 0.0,
        Quantization(np.array([-1.0, 1.0, 0.0]), 255), blocks,
        sum(block.most_in_column for block in blocks), tuple(map(PerEntry, told, chance)),
    )  # fmt: skip
    shapes = [(block.n_groups, K, LANES) for block in blocks]
    to_row, to_column = ([np.zeros(s, np.int16) for s in shapes] for _ in range(2))
    messages = IntegerMessages(to_row, to_column, no_sums(problem, "sum-product"))
    state = State(messages, semiring="sum-product")
    for _ in range(60):
        step(problem, state, 0.4, lambda update: [update([0])], lambda sums: sums)
    zeros = np.zeros((*shape, K))
    *_, twin = sum_product_reference(
        evidence, *priors, zeros, zeros, damping=0.4, n_iter=60, product=product
    )
    sums = messages_of(state).sums
    rows = np.concatenate([s.table(s.sums) for s in sums.rows]) / LOG_ODDS_STEPS + priors[0]
    columns = sums.columns.table(sums.columns.sums).T / LOG_ODDS_STEPS + priors[1]
    np.testing.assert_allclose(rows, twin.row_belief, atol=0.06)
    np.testing.assert_allclose(columns, twin.column_belief, atol=0.06)
    # P(z = 1) without what the entry says of it
    both = sigmoid(twin.from_row) * sigmoid(twin.from_column)
    expected = 1 - np.prod(1 - both, axis=2)
    if product == "xor":
        expected = (1 - np.prod(1 - 2 * both, axis=2)) / 2
    found = entries.from_lanes(chance)
    np.testing.assert_allclose(
        found, expected[seen.rows_of_entries(), seen.indices], atol=0.01 + 1 / CHANCE_STEPS
    )


def test_a_layer_finds_blocks_that_offsets_cannot_explain():
    rng = np.random.default_rng(1)
    truth = np.kron(np.eye(2), np.ones((30, 20)))
    offsets = rng.normal(size=(60, 1)) * 0.5
    mean = offsets + np.where(truth == 1, 0.9, -0.9)
    values = (mean + rng.normal(size=truth.shape) > 0).astype(float)
    values[rng.random(truth.shape) < 0.3] = np.nan
    seen = Observations.from_dense(values)
    table = Table.of(seen)
    entries = LayerEntries(table)
    rest = offsets[seen.rows_of_entries(), 0]
    found = []
    for seed in range(4):
        layer = BooleanLayer(entries, 3, 0.9, np.random.default_rng(seed))
        for _ in range(10):
            layer.update(rest.astype(np.float32), np.zeros(len(rest), np.float32), BINARY, 5)
        rows, columns = layer.probabilities()
        chance = 1 - np.prod(1 - rows[:, None, :] * columns[None], axis=2)
        found.append(np.mean((chance > 0.5) == truth))
    assert max(found) > 0.97
    chances = (layer.shift / 0.9 + 1) / 2
    assert chances.shape == (seen.n_observed,)
