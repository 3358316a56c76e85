"""Fixtures of the search; the folder is on the path, so that its tests share the twins."""

import pytest

from boolweave.search import answer, searching


@pytest.fixture
def little_work(monkeypatch):
    """Make searches short, but long enough for tiny tables; the bound is not computed."""
    monkeypatch.setattr(searching, "TASK_WORK", 4e5)
    monkeypatch.setattr(searching, "TASK_TRIALS", 5)
    monkeypatch.setattr(searching, "PATIENCE", 3)
    monkeypatch.setattr(answer, "is_cheap", lambda *arguments: False)
