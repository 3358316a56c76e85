"""Chains on tables with lines that have no entries."""

import numpy as np
import pytest

from boolweave.completion.chain import (
    FROM_DRAW,
    LAYER_DRAWS,
    N_DRAWS,
    Chain,
    MemberTask,
    Trial,
    _longer,
    make_members,
    try_layers,
)
from boolweave.completion.ensemble import Structure
from boolweave.completion.table import Table
from boolweave.data.observations import Observations

STRUCTURES = [Structure(0), Structure(2), Structure(1, 2, 3, 0.8)]
ROWS, COLUMNS = [0, 2, 3, 7, 8, 11], [1, 2, 4, 5, 9]


def tables():
    """A table with empty rows and columns, and the same without them."""
    rng = np.random.default_rng(5)
    small = rng.integers(0, 2, (len(ROWS), len(COLUMNS))).astype(float)
    small[rng.random(small.shape) < 0.3] = np.nan
    large = np.full((12, 10), np.nan)
    large[np.ix_(ROWS, COLUMNS)] = small
    return Table.of(Observations.from_dense(large)), Table.of(Observations.from_dense(small))


def test_filled_lines():
    large, small = tables()
    assert small.filled.table is small
    filled = large.filled
    assert filled.rows.tolist() == ROWS and filled.columns.tolist() == COLUMNS
    np.testing.assert_array_equal(
        filled.table.observations.to_dense(), small.observations.to_dense()
    )
    for of_large, of_small in (
        (filled.table.row_features, small.row_features),
        (filled.table.column_features, small.column_features),
    ):
        np.testing.assert_array_equal(of_large.here, of_small.here)
        np.testing.assert_array_equal(of_large.elsewhere, of_small.elsewhere)


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda s: s.name)
def test_lines_without_entries_change_nothing(structure):
    """The other lines are the same to the bit; they themselves have the mean of the prior."""
    large, small = tables()
    padded, bare = (
        Chain.start(table, structure, np.random.default_rng(1)).member(6, 4)
        for table in (large, small)
    )
    np.testing.assert_array_equal(padded.rows[ROWS], bare.rows)
    np.testing.assert_array_equal(padded.row_variance[ROWS], bare.row_variance)
    np.testing.assert_array_equal(padded.columns[COLUMNS], bare.columns)
    np.testing.assert_array_equal(padded.column_variance[COLUMNS], bare.column_variance)
    coefficients, variance = padded.priors[:2]
    empty = np.setdiff1d(np.arange(12), ROWS)
    expected = large.row_features.elsewhere[empty] @ coefficients
    np.testing.assert_allclose(padded.rows[empty], expected, atol=1e-6)
    np.testing.assert_allclose(padded.row_variance[empty], np.tile(variance, (6, 1)), rtol=1e-6)
    for with_empty, without in zip(padded.layers, bare.layers, strict=True):
        np.testing.assert_array_equal(with_empty.rows[ROWS], without.rows)
        np.testing.assert_array_equal(with_empty.columns[:, COLUMNS], without.columns)
        unknown = with_empty.rows[empty]
        assert (unknown == unknown[0]).all() and (unknown > 0.01).all() and (unknown < 0.99).all()


def test_a_draw_has_all_lines():
    """Of lines with entries what the chain has, of others a draw from the prior."""
    large, small = tables()
    structure = Structure(2)
    chains = [Chain.start(t, structure, np.random.default_rng(1)) for t in (large, small)]
    for chain in chains:
        for _ in range(3):
            chain.sweep()
    padded, bare = (chain.draw() for chain in chains)
    np.testing.assert_array_equal(padded.rows.lines[ROWS], bare.rows.lines)
    np.testing.assert_array_equal(padded.columns.centers[COLUMNS], bare.columns.centers)
    empty = np.setdiff1d(np.arange(12), ROWS)
    mean = large.row_features.here[empty] @ padded.rows.coefficients
    np.testing.assert_array_equal(padded.rows.centers[empty], mean)
    gaps = (padded.rows.lines[empty] - mean) / np.sqrt(padded.rows.variance)
    assert (gaps != 0).all() and abs(gaps).max() < 5
    resumed = Chain.resume(large, structure, padded, np.random.default_rng(2))
    np.testing.assert_array_equal(resumed.rows.lines, bare.rows.lines)


def test_layers_of_members_settle_as_long_as_those_of_trials(monkeypatch):
    """A member is the average that follows what a trial with as many layers has gone through."""
    table, _ = tables()
    structure, where = Structure(0, 3, 2, 0.8), np.array([0, 2])
    start = Chain.start(table, structure, np.random.default_rng(0)).draw()
    trial = try_layers(Trial(table, structure, 7, where, where, 1, start))
    lengths = []
    average_draws = Chain.average_draws

    def watched(self, length):
        lengths.append(length)
        return average_draws(self, length)

    monkeypatch.setattr(Chain, "average_draws", watched)
    made = make_members(MemberTask(table, structure, 7, start))
    assert lengths == [LAYER_DRAWS] * 3 + [N_DRAWS]
    chain = Chain.resume(table, structure, start, np.random.default_rng(7))
    before = chain.burn_in(max(FROM_DRAW, _longer(FROM_DRAW, table)))
    chances = [member.probabilities(where, where) for member in before]
    np.testing.assert_array_equal(trial.chances, chances)
    after = chain.average_draws(N_DRAWS).probabilities(where, where)
    np.testing.assert_array_equal(made[0].probabilities(where, where), after)
