"""Fixtures of the search; the folder is on the path, so that its tests share the twins."""

import pytest

from boolweave.search import searching


@pytest.fixture
def little_work(monkeypatch):
    """Make searches short where it does not matter how good their answers are."""
    monkeypatch.setattr(searching, "MOST_WORK", 2e7)
    monkeypatch.setattr(searching, "TASK_WORK", 1e5)
    monkeypatch.setattr(searching, "TASK_TRIALS", 3)
    monkeypatch.setattr(searching, "PATIENCE", 2)
