"""What ends a fit before it is finished."""

import numpy as np
import pytest

from boolweave import BooleanCompletion
from boolweave.completion.tasks import Runner
from boolweave.data.observations import Observations

RANDOM = np.random.default_rng(0)
OFFSETS = RANDOM.normal(size=(30, 1)) + RANDOM.normal(size=20)
CELLS = np.where(RANDOM.random(OFFSETS.shape) < 0.4, np.nan, RANDOM.normal(OFFSETS) > 0)
SEEN = Observations.from_dense(CELLS)


@pytest.mark.parametrize("max_time", [1e-6, 0.2])
def test_time_that_is_over_leaves_a_model(max_time):
    """The end of the time is no Ctrl-C, also where nothing was tried yet."""
    model = BooleanCompletion(max_time=max_time, n_jobs=1, random_state=0).fit(SEEN)
    assert not model.interrupted_ and len(model.members_) >= 1
    chance = model.predict_proba(SEEN.rows_of_entries(), SEEN.indices)
    assert np.isfinite(chance).all()


def test_ctrl_c_leaves_a_model(monkeypatch):
    """Ctrl-C after the first of the members, which come after the trials."""
    parts = []

    def check(self):
        if len(parts) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "limit", lambda self, seconds: parts.append(seconds))
    monkeypatch.setattr(Runner, "check", check)
    model = BooleanCompletion(n_layers=0, n_directions=0, n_jobs=1, random_state=0).fit(SEEN)
    assert model.interrupted_ and len(model.members_) == 1
