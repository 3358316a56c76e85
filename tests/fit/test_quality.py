"""Small versions of benchmarks/quality.py: the default fit against the planted truth.

The bounds leave room above what is measured: they catch a loss of quality, not bad luck.
"""

import warnings

import numpy as np
import pytest

from boolweave import BooleanMatrixFactorization
from boolweave.datasets import make_boolean
from boolweave.metrics import information_bound

HALF = {"row_density": 0.5, "column_density": 0.5}


def errors(shape, n_components, seeds, *, method="auto", **options):
    """Error over all entries, one number a seed."""
    found = []
    for seed in seeds:
        planted = make_boolean(*shape, n_components, random_state=seed, **options)
        model = BooleanMatrixFactorization(n_components, method=method, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(planted.observations)
        rows, columns = (index.ravel() for index in np.indices(shape))
        found.append(np.mean(model.predict(rows, columns) != planted.Z.ravel()))
    return np.array(found)


def bound(times, side, n_components):
    return int(times * information_bound(side, side, n_components))


def test_completion_near_the_bound_is_far_better_than_max_sum():
    options = {"observed": bound(2, 300, 5)}
    ours = errors((300, 300), 5, range(4), **options)
    paper = errors((300, 300), 5, range(4), method="max-sum", **options)
    assert ours.mean() < 0.03
    assert ours.mean() < 0.9 * paper.mean()


def test_completion_just_above_the_bound():
    options = {"observed": bound(1.4, 500, 5)}
    ours = errors((500, 500), 5, range(4), **options)
    paper = errors((500, 500), 5, range(4), method="max-sum", **options)
    assert ours.mean() < 0.075
    assert ours.mean() < 0.95 * paper.mean()


def test_many_flips():
    ours = errors((150, 150), 5, range(4), flip=0.3, **HALF)
    paper = errors((150, 150), 5, range(4), method="max-sum", flip=0.3, **HALF)
    assert ours.mean() < 0.075
    assert ours.mean() < paper.mean()


def test_small_and_noisy():
    """Rukat and others (2017), Figure 4."""
    assert errors((100, 100), 7, range(4), flip=0.2).mean() < 0.02


def test_noisy_completion():
    assert errors((300, 300), 5, range(3), flip=0.1, observed=0.2).mean() < 0.007


@pytest.mark.parametrize("flip", [0.02, 0.1, 0.2])
def test_no_start_gets_stuck(flip):
    assert errors((150, 150), 5, range(5), flip=flip).max() < 0.02
