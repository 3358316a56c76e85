"""The messages behind the beliefs of a fitted model, for the report's histogram.

A model keeps the sums of its messages, the beliefs, and not the messages. With the beliefs held
where they are, the messages of each entry depend on nothing but themselves, so that a few damped
steps of the engine bring them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.engine import loop as engine
from boolweave.model.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Messages that are looked at: rows are drawn at random until there are so many.
MOST_MESSAGES = 400_000
STEPS = 40
DAMPING = 0.4
N_BINS = 61
# Beliefs that are certain stand for this in the arithmetic of the engine's 32-bit floats.
CERTAIN = 1e4
# An odds of 0 or infinity, of a message that sum-product keeps as odds, is drawn here.
WIDEST = 30.0


def messages_of(model: Any) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any]] | None:
    """Messages to rows and to columns, each (entries, K), of some rows; None where not worked out.

    The first array names the rows, in the order in which their entries stand.
    """
    channel, seen = model.noise_, model.observations_
    plain = np.ndim(channel.one_given_zero) == 0 and np.ndim(channel.one_given_one) == 0
    if seen.n_observed == 0 or not plain or channel.missing_given_zero is not None:
        return None
    n_factors = len(model.components_)
    rows = _some_rows(np.diff(seen.indptr) * n_factors)
    problem = engine.make_problem(
        seen.take_rows(rows), Model(n_factors, channel, product=model.product)
    )
    row_belief, column_belief = (
        np.ascontiguousarray(np.clip(odds, -CERTAIN, CERTAIN), dtype=problem.dtype)
        for odds in (model.row_log_odds_[rows], model.column_log_odds_)
    )
    # Sum-product keeps messages as odds, in which 1 says nothing; max-sum as log-odds.
    semiring: Any = "sum-product" if model.marginal_ else "max-sum"
    shape = (problem.n_entries, n_factors)
    nothing = np.ones(shape) if model.marginal_ else np.zeros(shape)
    to_row, to_column = engine.pack(problem, nothing), engine.pack(problem, nothing)
    state = engine.State(semiring, to_row, to_column, row_belief, column_belief)
    for _ in range(STEPS):
        engine.step(problem, state, DAMPING)
        state.row_belief, state.column_belief = row_belief, column_belief
    found = [engine.unpack(problem, part) for part in (state.to_row, state.to_column)]
    if model.marginal_:
        with np.errstate(divide="ignore"):
            found = [np.clip(np.log(part), -WIDEST, WIDEST) for part in found]
    return rows, found[0], found[1]


def _some_rows(sizes: NDArray[np.int64]) -> NDArray[np.intp]:
    if sizes.sum() <= MOST_MESSAGES:
        return np.arange(len(sizes))
    order = np.random.default_rng(0).permutation(len(sizes))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), MOST_MESSAGES)) + 1
    return np.sort(order[:enough])


def message_histogram(model: Any) -> dict[str, Any] | None:
    """How often messages take which values, in bins of equal width."""
    found = messages_of(model)
    if found is None:
        return None
    messages = np.concatenate([part.ravel() for part in found[1:]]).astype(np.float64)
    messages = messages[np.isfinite(messages)]
    widest = max(float(np.abs(messages).max(initial=0.0)), 1e-3)
    counts, edges = np.histogram(messages, np.linspace(-widest, widest, N_BINS + 1))
    return {"name": "messages", "edges": edges.tolist(), "counts": counts.tolist()}
