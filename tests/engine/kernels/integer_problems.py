"""Small problems for the engine on small integers, and its messages as full arrays."""

from dataclasses import replace

import integer_reference as twin
import numba
import numpy as np
from engines import beliefs, init, make_problem, messages_of, step, to_sum_product
from hypothesis import HealthCheck, settings
from problems import Small
from reference import boolean_product_by_definition

from boolweave.engine import quantization
from boolweave.model.odds import sigmoid

PRODUCTS = ["or", "xor"]
SEMIRINGS = ["max-sum", "sum-product"]

# As plain Python a chunk of 512 entries takes a tenth of a second, however few of them are used.
PLAIN = bool(numba.config.DISABLE_JIT)
N_ITER = 1 if PLAIN else 5

few_examples = settings(
    max_examples=2 if PLAIN else 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

# More than one chunk, the first of which ends inside a row.
LONG = (14, 40) if PLAIN else (35, 40)

# As many factors as are allowed.
MANY = 5 if PLAIN else quantization.MOST_FACTORS


def even_small(seed, shape, share=1.0, product="or", hard=0.0, channel=(0.1, 0.85)) -> Small:
    """A problem whose entries all weigh the same; priors lie on whole units and a quarter.

    So no belief is near the middle between two units, where rounding hangs on the last bit.
    """
    rng = np.random.default_rng(seed)
    M, N, K = shape
    unit = twin.unit_of(*channel, product)
    priors = []
    for side in ((M, K), (K, N)):
        odds = unit * (rng.integers(-60, 61, side) + 0.25)
        known = rng.random(side) < hard
        priors.append(np.where(known, rng.integers(0, 2, side), sigmoid(odds)))
    seen = np.where(rng.random((M, N)) < share, rng.integers(0, 2, (M, N)), np.nan)
    return Small(
        seen, *priors, dict(zip(("one_given_zero", "one_given_one"), channel, strict=True)), product
    )


def planted(seed, shape, share, product, flip=0.02) -> Small:
    """As `even_small`, but a product with few flips, in which messages settle."""
    small = even_small(seed, shape, share, product, channel=(0.1, 0.9))
    rng = np.random.default_rng(seed)
    X, Y = (rng.integers(0, 2, prior.shape) for prior in (small.row_prior, small.column_prior))
    Z = boolean_product_by_definition(X, Y, product) ^ (rng.random(shape[:2]) < flip)
    return replace(small, seen=np.where(np.isnan(small.seen), np.nan, Z))


def integer_problem(small):
    code = quantization.quantization_for(small.model)
    assert isinstance(code, quantization.Quantization), code
    return make_problem(small.observations, small.model, code=code)


def started(small, semiring="max-sum", seed=0):
    """The problem and a random state; its beliefs are units and a quarter.

    Nothing is left of the field after one step, whatever the damping.
    """
    problem = integer_problem(small)
    state = init(problem, np.random.default_rng(seed))
    unit, field = problem.quantization.unit, state.field
    row_step, column_step = (
        unit * max(1, round(size / unit)) for size in (field.row_step, field.column_step)
    )
    state.field = replace(field, row_step=row_step, column_step=column_step, least=np.inf)
    if semiring == "sum-product":
        step(problem, state, 1.0)
        state = to_sum_product(problem, state)
    return problem, state


def in_matrix(problem, state):
    """Φ and Ψ (M, N, K) as whole numbers, 0 where a block holds no entry."""
    unit = problem.quantization.unit if state.semiring == "max-sum" else twin.STEP
    rows = [b.start + np.repeat(np.arange(b.stop - b.start), np.diff(b.indptr))
            for b in problem.blocks]  # fmt: skip
    cells = (np.concatenate(rows), np.concatenate([block.columns for block in problem.blocks]))
    sides = []
    for messages in messages_of(problem, state):
        full = np.zeros((*problem.shape, problem.n_components), dtype=int)
        full[cells] = np.rint(messages / unit)
        np.testing.assert_allclose(full[cells] * unit, messages, atol=1e-4 * unit, rtol=1e-5)
        sides.append(full)
    return sides


def row_sums(problem, state):
    """The sums of rows, (M, K)."""
    return np.concatenate([side.table(side.sums) for side in state.messages.sums.rows])


def column_sums(problem, state):
    """The sums of columns, (K, N)."""
    return state.messages.sums.columns.table(state.messages.sums.columns.sums).T.copy()


def assert_sums_are_those_of_the_messages(problem, state):
    to_row, to_column = in_matrix(problem, state)
    np.testing.assert_array_equal(row_sums(problem, state), to_row.sum(axis=1))
    np.testing.assert_array_equal(column_sums(problem, state), to_column.sum(axis=0).T)


def trajectory(problem, state, n_iter, damping=0.4, pool=None):
    """Messages, sums and beliefs after each step, in one list of arrays."""
    out = []
    for _ in range(n_iter):
        step(problem, state, damping, pool)
        out += [*in_matrix(problem, state), row_sums(problem, state), column_sums(problem, state)]
        out += [*beliefs(problem, state), np.array(state.residual)]
    return out


def assert_equal(some, others):
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one, other)
