"""The search on dense arrays, slow and obvious: costs, gains, one factor, and all there are.

A factor is a column of X (M, K) with a row of Y (K, N). Kernels see a table from its rows and from
its columns: the columns of a table are the rows of its transpose, `Dense.T`.
"""

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product

import numba
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from boolweave.data.observations import Observations
from boolweave.engine.kernels.bits import pack, unpack
from boolweave.search.kernels.factors import Tile
from boolweave.search.table import factors_of, pack_table

# As plain Python the kernels are a thousand times slower.
PLAIN = bool(numba.config.DISABLE_JIT)
few_examples = settings(
    max_examples=15 if PLAIN else 100, suppress_health_check=[HealthCheck.too_slow]
)

FALSE_ONE_WEIGHTS = (1.0, 0.3, 5.0)


@dataclass(frozen=True, eq=False)
class Dense:
    """A table of 0, 1 and NaN, what its entries weigh, and how factors are joined."""

    values: np.ndarray  # (M, N)
    weights: np.ndarray | None = None  # (M, N)
    false_one_weight: float = 1.0
    xor: bool = False

    @property
    def T(self):
        weights = None if self.weights is None else self.weights.T
        return replace(self, values=self.values.T, weights=weights)

    @property
    def each(self):
        """The weight of each entry: (M, N)."""
        return np.ones(self.values.shape) if self.weights is None else self.weights

    @property
    def observations(self):
        return Observations.from_data(self.values)

    @property
    def product(self):
        return "xor" if self.xor else "or"

    def pack(self):
        weights = None if self.weights is None else np.array(self.weights)
        return pack_table(self.observations, self.false_one_weight, self.product, weights)


# ---------------------------------------------------------------- what factors cost


def counts(X, Y):
    """The number of factors that cover each entry."""
    return X.astype(int) @ Y.astype(int)


def product_of(X, Y, xor):
    return counts(X, Y) % 2 == 1 if xor else counts(X, Y) > 0


def costs_of_entries(dense, covered):
    """What each entry costs: (M, N)."""
    missed = (dense.values == 1) & ~covered & (dense.each > 0)
    false = (dense.values == 0) & covered & (dense.each > 0)
    wrong, costs = missed | false, np.zeros(dense.values.shape)
    costs[wrong] = np.where(false, dense.false_one_weight, 1.0)[wrong] * dense.each[wrong]
    return costs


def cost_of(dense, X, Y):
    return costs_of_entries(dense, product_of(X, Y, dense.xor)).sum()


def with_tile(X, Y, k, x, y):
    """The factors with another tile as factor k."""
    X, Y = X.copy(), Y.copy()
    X[:, k], Y[k] = x, y
    return X, Y


def gains_of(dense, X, Y, k, pattern):
    """What is saved in each row if factor k covers the pattern there, beside not covering it."""
    M, N = dense.values.shape
    without = product_of(*with_tile(X, Y, k, np.zeros(M), np.zeros(N)), dense.xor)
    covers = product_of(*with_tile(X, Y, k, np.ones(M), pattern), dense.xor)
    before, after = costs_of_entries(dense, without), costs_of_entries(dense, covers)
    return before.sum(axis=1) - after.sum(axis=1)


def loss_of(dense, X, Y, k):
    """By how much the cost rises if factor k is dropped."""
    dropped = np.delete(X, k, axis=1), np.delete(Y, k, axis=0)
    return cost_of(dense, *dropped) - cost_of(dense, X, Y)


# ---------------------------------------------------------------- one factor


def best_rows(dense, X, Y, k, pattern, ties, present):
    """The rows that factor k is to have: where it saves; of ties none, the present ones or all."""
    saved = np.round(gains_of(dense, X, Y, k, pattern), 9)
    keeps = {"drop": np.zeros(len(X), dtype=bool), "keep": present == 1}.get(ties)
    return (saved > 0) | ((saved == 0) & (True if keeps is None else keeps)), saved.clip(0).sum()


# ---------------------------------------------------------------- all factors there are


def cheapest(dense, n_components):
    """The least cost of K factors: for all Y, each row takes the best of its 2^K sets."""
    M, N = dense.values.shape
    patterns = np.array(list(product((False, True), repeat=N)))
    of_pattern = np.array(
        [costs_of_entries(dense, np.tile(one, (M, 1))).sum(axis=1) for one in patterns]
    )  # (2^N, M)
    best = np.inf
    for chosen in combinations_with_replacement(range(1, 2**N), n_components):
        joined = {0}
        for number in chosen:
            joined |= {(j ^ number) if dense.xor else (j | number) for j in joined}
        best = min(best, of_pattern[sorted(joined)].min(axis=0).sum())
    return best


def assert_same(one, other):
    """Two answers of a search are equal."""
    for name in ("X", "Y", "redundancy", "stability", "history"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("cost", "bound", "n_searches", "n_rounds", "interrupted"):
        assert getattr(one, name) == getattr(other, name), name


# ---------------------------------------------------------------- examples


def bits(random, *shape, share=0.5):
    return (random.random(shape) < share).astype(np.uint8)


def random_table(seed, shape, *, missing=0.0, weights=None, false_one_weight=1.0, xor=False):
    """A random table; weights are None, "whole" (some 0) or "quarters"."""
    random = np.random.default_rng(seed)
    values = bits(random, *shape, share=random.uniform(0.2, 0.8)).astype(float)
    values[random.random(shape) < missing] = np.nan
    each = None
    if weights is not None:
        each = random.integers(0, 4 if weights == "whole" else 9, shape)
        each = each / (1 if weights == "whole" else 4)
    return Dense(values, each, false_one_weight, xor)


SHAPES = ((1, 1), (1, 5), (4, 1), (3, 4), (6, 5), (3, 66), (65, 3), (64, 2))


@st.composite
def tables(draw, shapes=SHAPES):
    return random_table(
        draw(st.integers(0, 2**20)),
        draw(st.sampled_from(shapes)),
        missing=draw(st.sampled_from([0.0, 0.3])),
        weights=draw(st.sampled_from([None, "whole", "quarters"])),
        false_one_weight=draw(st.sampled_from(FALSE_ONE_WEIGHTS)),
        xor=draw(st.booleans()),
    )


@st.composite
def problems(draw, most_components=5, shapes=SHAPES):
    """A table with some factors: (dense, X, Y)."""
    dense = draw(tables(shapes))
    M, N = dense.values.shape
    K = draw(st.sampled_from([*range(1, most_components + 1), 65]))
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    share = draw(st.sampled_from([0.15, 0.5]))
    return dense, bits(random, M, K, share=share), bits(random, K, N, share=share)


def packed(problem):
    """The table and the factors of a problem, packed."""
    dense, X, Y = problem
    table = dense.pack()
    return table, factors_of(table, X, Y)


def packed_tile(x, y):
    return Tile(pack(np.atleast_2d(x))[0], pack(np.atleast_2d(y))[0])


def bits_of_tile(tile, shape):
    return unpack(tile.x[None], shape[0])[0], unpack(tile.y[None], shape[1])[0]


def generator(seed):
    """The state of the random numbers of kernels."""
    return np.array([seed + 1], dtype=np.uint64)
