"""Some random cases of each campaign, and the verdicts on them; `make fuzz` runs many."""

import pytest
from campaigns import one_case, shorten
from verdicts import FINE, FOREIGN, REFUSED, TRACEBACK, Wrong, outcome_of


def failing(error):
    raise error


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        (lambda: None, FINE),
        (lambda: failing(Wrong("2 ≠ 3")), Wrong("").outcome),
        (lambda: failing(KeyError("a")), TRACEBACK),
        (lambda: failing(ValueError("raised by a test, not by the library")), FOREIGN),
        (lambda: __import__("boolweave").factorize([[2]]), REFUSED),
        (lambda: __import__("boolweave").factorize([[1]], damping=-1), REFUSED),
        (lambda: __import__("numpy").log(__import__("numpy").zeros(1)), FOREIGN),
    ],
)
def test_verdicts(case, outcome):
    assert outcome_of(case)[0] == outcome


# Cases of a campaign that run here, in batches of this size.
CASES = {"files": 60, "tables": 200, "models": 300, "calls": 80, "plans": 40}
BATCH = 20


@pytest.mark.parametrize(
    ("campaign", "first"),
    [(name, first) for name, n in CASES.items() for first in range(0, n, BATCH)],
)
def test_random_cases(campaign, first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shorten(monkeypatch)
    bad = []
    for number in range(first, first + BATCH):
        description, run = one_case(campaign, number)
        outcome, text = outcome_of(run)
        if outcome not in (FINE, REFUSED):
            bad.append(f"{campaign} {number}: {outcome}: {description}\n{text}")
    assert not bad, "\n".join(bad)
