"""The folder is on the path, so that its tests share small ensembles and slow twins."""

import pytest

from short import shorten_chains


@pytest.fixture(scope="module")
def short_chains():
    """Chains with few sweeps and trials on few folds: enough for the small tables of tests."""
    with pytest.MonkeyPatch.context() as patch:
        shorten_chains(patch)
        yield
