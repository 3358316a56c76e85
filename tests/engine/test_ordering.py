import itertools

import numpy as np

from boolweave.engine.ordering import factor_order, tile_order


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
