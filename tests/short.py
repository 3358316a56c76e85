"""Searches, chains and covers with little work, for tests in which the answer does not matter."""

from __future__ import annotations

import pytest


def shorten_searches(patch: pytest.MonkeyPatch) -> None:
    """A search for the fewest errors with little work, which is enough for small tables."""
    from boolweave.search import searching

    patch.setattr(searching, "TASK_WORK", 10**5)
    patch.setattr(searching, "PATIENCE", 2)


def shorten_chains(patch: pytest.MonkeyPatch) -> None:
    """Chains of completions with few sweeps, and trials on few folds: enough for small tables.

    The plain Boolean model has three factors if nobody asks for a number: looking for it takes
    longer than all the rest.
    """
    from boolweave.completion import chain, fitting, selection

    fit_plain = selection.fit_plain

    def fit_three_factors(observations, n_components, *how, **more):
        return fit_plain(observations, n_components or 3, *how, **more)

    for module in (selection, fitting):
        patch.setattr(module, "fit_plain", fit_three_factors)
    patch.setattr(chain, "FROM_RANDOM", 15)
    patch.setattr(chain, "TRIAL_AVERAGES", 1)
    patch.setattr(chain, "MOST_AVERAGES", 3)
    patch.setattr(selection, "FEW_FOLDS", 3)
    patch.setattr(selection, "VERY_FEW_FOLDS", 3)
    patch.setattr(selection, "MOST_STRENGTHS", 2)


def shorten_covers(patch: pytest.MonkeyPatch) -> None:
    """Covers that are not improved for long."""
    from boolweave.covering import assigning, exact, partial

    patch.setattr(assigning, "FIRST_STEPS", 64)
    patch.setattr(assigning, "STEPS_PER_ONE", {"roles": 0, "assignments": 0})
    patch.setattr(exact, "PATIENCE", 100)
    patch.setattr(exact, "IDLE_WORK", 1e8)
    patch.setattr(partial, "MOST_WORK", 1e9)
    patch.setattr(partial, "TRIAL_WORK", 2e8)


def shorten_bounds(patch: pytest.MonkeyPatch) -> None:
    """No proof of how few errors there can be."""
    from boolweave.search import answer

    patch.setattr(answer, "is_cheap", lambda *arguments: False)
