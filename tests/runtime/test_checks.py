"""Parameters that are whole numbers: anything else is one error, which names the parameter."""

from functools import cache

import numpy as np
import pytest

import boolweave
from boolweave import decoding, metrics
from boolweave.data.splits import folds_by_time, hide_last
from boolweave.model_selection import EntryKFold
from boolweave.runtime.checks import check_count, is_whole

BLOCKS = np.kron(np.eye(2), np.ones((3, 3)))
SEEN = boolweave.Observations.from_data(BLOCKS)
CODE = decoding.ParityCheckCode(np.array([[1, 1, 0], [0, 1, 1]]))
POOLS = np.eye(3, dtype=np.uint8)

NOT_WHOLE = [True, np.True_, 3.0, 2.5, "3", float("nan"), [2.0]]


def completion(**parameters):
    few = {"n_components": 1, "n_layers": 0, "n_directions": 0, "n_members": 1}
    return boolweave.BooleanCompletion(**{**few, **parameters}).fit(BLOCKS)


def factors(**parameters):
    few = {"n_components": 2, "method": "max-sum", "random_state": 0}
    return boolweave.BooleanMatrixFactorization(**{**few, **parameters}).fit(BLOCKS)


@cache
def fitted():
    return factors()


TAKES_A_WHOLE_NUMBER = {
    "n_components": lambda value: factors(n_components=value),
    "max_iter": lambda value: factors(max_iter=value),
    "n_init": lambda value: factors(n_init=value),
    "n_components of factorize": lambda value: boolweave.factorize(BLOCKS, value, max_time=0.1),
    "n_components of complete": lambda value: boolweave.complete(BLOCKS, value),
    "n_components of BooleanCompletion": lambda value: completion(n_components=value),
    "n_layers": lambda value: completion(n_layers=value),
    "n_directions": lambda value: completion(n_directions=value),
    "n_members": lambda value: completion(n_members=value),
    "n_components of cover": lambda value: boolweave.cover(BLOCKS, n_components=value),
    "max_rows": lambda value: boolweave.cover(BLOCKS, max_rows=value),
    "ranks": lambda value: boolweave.select_rank(BLOCKS, value, method="max-sum"),
    "ranks as a list": lambda value: boolweave.select_rank(BLOCKS, [value], method="max-sum"),
    "n of recommend": lambda value: fitted().recommend([0], n=value),
    "n_splits": EntryKFold,
    "n_folds": lambda value: SEEN.folds(value),
    "n_folds by time": lambda value: folds_by_time(SEEN, np.arange(36), value),
    "per_row": lambda value: hide_last(SEEN, np.arange(36), value),
    "n_bins": lambda value: metrics.expected_calibration_error([0, 1], [0.2, 0.7], value),
    "n of ranking_scores": lambda value: metrics.ranking_scores([0], [1], [0.5], n=value),
    "n_rows": lambda value: boolweave.datasets.make_boolean(value, 3, 1),
    "max_iter of decode": lambda value: CODE.decode(np.ones(3), max_iter=value),
    "n_jobs of decode": lambda value: CODE.decode(np.ones(3), n_jobs=value),
    "max_iter of group_testing": lambda value: decoding.group_testing(
        POOLS, [0, 0, 1], 0.1, max_iter=value
    ),
    "items": lambda value: decoding.design_pools(value, 3, prevalence=0.1),
    "pools_per_item": lambda value: decoding.design_pools(5, 4, pools_per_item=value),
    "trials": lambda value: decoding.simulate(POOLS, 0.1, trials=value),
}


@pytest.mark.parametrize("value", NOT_WHOLE, ids=repr)
@pytest.mark.parametrize("name", TAKES_A_WHOLE_NUMBER)
def test_what_is_no_whole_number_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name.split()[0]}.*must be.*[Gg]ot"):
        TAKES_A_WHOLE_NUMBER[name](value)


@pytest.mark.parametrize("name", [n for n in TAKES_A_WHOLE_NUMBER if "n_jobs" not in n])
def test_a_number_beyond_machine_integers_is_named(name):
    with pytest.raises(ValueError, match=f"{name.split()[0]}.*must be.*[Gg]ot.*10{{30}}"):
        TAKES_A_WHOLE_NUMBER[name](10**30)


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2)], ids=repr)
def test_whole_numbers_of_numpy_are_accepted(value):
    assert is_whole(value) and type(check_count("n", value)) is int
    assert factors(n_components=value, max_iter=value * 50).components_.shape == (2, 6)
    assert boolweave.factorize(BLOCKS, value, n_init=value).cost == 0
    assert completion(n_components=value, n_members=value).predict([0], [0]) == 1


def test_a_number_beyond_all_rows_is_named():
    with pytest.raises(ValueError, match=r"rows must be from 0 to 5, got 10{30}"):
        fitted().predict([10**30], [0])


@pytest.mark.parametrize("name", ["damping", "tol"])
@pytest.mark.parametrize("value", ["1", None, [0.5]], ids=repr)
def test_numbers_of_a_decoder(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a number, got"):
        decoding.group_testing(POOLS, [0, 0, 1], 0.1, **{name: value})
