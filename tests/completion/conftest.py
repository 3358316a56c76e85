"""The folder is on the path, so that its tests share small ensembles and slow twins."""

import pytest


@pytest.fixture(scope="module")
def short_chains():
    """Chains with few sweeps and trials on few folds: enough for the small tables of tests."""
    from boolweave.completion import runs
    from boolweave.completion.choice import selection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "FROM_RANDOM", 15)
        patch.setattr(runs, "TRIAL_STRETCHES", 1)
        patch.setattr(runs, "MOST_STRETCHES", 3)
        patch.setattr(selection, "FEW_FOLDS", 3)
        patch.setattr(selection, "VERY_FEW_FOLDS", 3)
        patch.setattr(selection, "MOST_STRENGTHS", 2)
        yield
