"""Predictions of a result, how many numbers they read, and the order of its factors."""

import itertools
import tracemalloc

import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization, Channel, Observations
from boolweave.engine.result import Ending, Result, factor_order, tile_order
from boolweave.model.model import Model

M, N, K = 200_000, 3_000, 4


class Counted(np.ndarray):
    """Log-odds of which only parts may be taken; the numbers taken are counted."""

    def __array_finalize__(self, other):
        self.taken = getattr(other, "taken", [])  # a transposed view has the same list

    def __getitem__(self, index):
        part = self.view(np.ndarray)[index]
        self.taken.append(part.size)
        return part

    def __array_ufunc__(self, *args, **kwargs):
        raise AssertionError("a function of all log-odds")

    __array_function__ = __array__ = __array_ufunc__


def model_of(marginal):
    random = np.random.default_rng(0)
    sides = [random.normal(size=shape).astype(np.float32) for shape in ((M, K), (K, N))]
    rows = np.arange(M)
    result = Result(
        model=Model(K, Channel.symmetric(0.1)),
        observations=Observations.from_triples(rows, rows % N, np.ones(M), shape=(M, N)),
        row_log_odds=sides[0].view(Counted),
        column_log_odds=sides[1].view(Counted),
        log_posterior=0.0,
        ending=Ending.CONVERGED,
        n_iter=1,
        history={},
        marginal=marginal,
    )
    model = BooleanMatrixFactorization(K)
    model.result_ = result
    return model


def cost(model, function):
    """Numbers taken from the row and from the column factor, and the peak of memory."""
    result = model.result_
    function()  # what is compiled is no part of it
    sides = result.row_log_odds, result.column_log_odds
    for side in sides:
        side.taken.clear()
    tracemalloc.start()
    try:
        function()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return *(sum(side.taken) for side in sides), peak


@pytest.mark.parametrize("marginal", [True, False])
def test_pairs_cost_what_they_are(marginal):
    """Of n pairs n K numbers of each factor are looked at, whatever M and N."""
    model = model_of(marginal)
    m, n = np.arange(10) * 17_000, np.arange(10) * 290
    for kind in ("observed", "latent"):
        rows, columns, peak = cost(model, lambda kind=kind: model.predict_proba(m, n, kind))
        assert (rows, columns) == (10 * K, 10 * K)
        assert peak < N * K  # in bytes
    rows, columns, peak = cost(model, lambda: model.predict(m, n))
    assert (rows, columns) == (10 * K, 10 * K)
    assert peak < N * K


@pytest.mark.parametrize("r", [1, 3])
def test_recommendations_cost_their_rows_and_all_columns(r):
    """Of r rows r K numbers are looked at, of the columns N K, once."""
    model = model_of(True)
    wanted = np.arange(r) * 50_000
    rows, columns, peak = cost(model, lambda: model.recommend(wanted, n=5))
    assert (rows, columns) == (r * K, N * K)
    assert peak < (7 * r + 2 * K + 5) * 8 * N < 8 * M


def test_the_shares_of_factors_add_up_to_one():
    odds = np.array([[2.0, -1.0, 3.0]]), np.array([[1.0], [4.0], [2.0]])
    for product in ("or", "xor"):
        result = Result(
            Model(3, Channel.symmetric(0.1), product=product), Observations.from_dense([[1]]),
            *odds, 0.0, Ending.CONVERGED, 1, {}, True,
        )  # fmt: skip
        both, shares = result.contributions(0, 0)
        p = 1 / (1 + np.exp(-odds[0][0])) / (1 + np.exp(-odds[1][:, 0]))
        np.testing.assert_allclose(both, p)
        weight = p if product == "xor" else -np.log(1 - p)
        weight[1] = 0  # the row does not belong to it
        np.testing.assert_allclose(shares, weight / weight.sum())


def test_factors_that_make_a_one_only_together_share_it():
    """None has both the row and the column, but a one is more probable than a zero."""
    odds = np.array([[-0.1, -0.2, -6.0]]), np.full((3, 1), 3.0)
    result = Result(
        Model(3, Channel.symmetric(0.1)), Observations.from_dense([[1]]), *odds, 0.0,
        Ending.CONVERGED, 1, {}, True,
    )  # fmt: skip
    assert result.predict(np.array([0]), np.array([0])) == 1
    shares = result.contributions(0, 0)[1]
    assert shares[0] > shares[1] > 0.4 and shares[2] == 0
    assert shares.sum() == pytest.approx(1)


def test_endings():
    assert Ending.of(converged=True) is Ending.CONVERGED
    assert Ending.of(converged=False) is Ending.OUT_OF_ITERATIONS
    assert Ending.of(converged=True, interrupted=True) is Ending.INTERRUPTED
    nothing = np.zeros((1, 1))
    parts = Model(1, Channel()), Observations.from_dense([[1]]), nothing, nothing
    result = Result(*parts, 0.0, "converged", 1, {})
    assert result.ending is Ending.CONVERGED and result.converged and not result.interrupted
    stopped = result.as_interrupted()
    assert stopped.interrupted and not stopped.converged
    with pytest.raises(ValueError, match="torn"):
        Result(*parts, 0.0, "torn", 1, {})


# ---------------------------------------------------------------- order


def runs(bits):
    return int(bits[0]) + int(((bits[1:] == 1) & (bits[:-1] == 0)).sum())


def test_first_two_factors_are_one_run_each_and_the_third_two():
    words = np.array(list(itertools.product((0, 1), repeat=4)), dtype=np.uint8)
    words = np.random.default_rng(0).permutation(np.repeat(words, 3, axis=0))
    ordered = words[tile_order(words)]
    assert [runs(ordered[:, k]) for k in range(3)] == [1, 1, 2]
    assert ordered[-1].sum() == 0


def test_heavier_first_among_equals():
    assert tile_order([[1], [1], [0]], weight=[1, 2, 9]).tolist() == [1, 0, 2]


def test_factors_by_size():
    X, Y = [[1, 1], [0, 1]], [[1, 0, 0], [1, 1, 0]]
    assert factor_order(X, Y).tolist() == [1, 0]


def test_nothing_to_order():
    assert tile_order(np.zeros((0, 2))).tolist() == []
    assert tile_order(np.zeros((3, 0))).tolist() == [0, 1, 2]
