"""Recommendations and explanations: views of a fitted model, without inference of their own.

Recommendations of any model, explanations by a factorization, the members of factors, and the words
for all of them belong here; explanations by a completion are in `boolweave.completion.answers`.
Start reading in `methods.py`, then `unseen.py` and `reasons.py`.
"""

from boolweave.recommend.members import members
from boolweave.recommend.methods import RecommenderMixin
from boolweave.recommend.reasons import Explanation, FactorExplainer, Reason
from boolweave.recommend.unseen import (
    Recommendations,
    best_unseen,
    known_cells,
    largest,
    recommend_at,
)
from boolweave.recommend.words import NAMES_IN_SENTENCE, Words, percent, some_names

__all__ = [
    "NAMES_IN_SENTENCE",
    "Explanation",
    "FactorExplainer",
    "Reason",
    "Recommendations",
    "RecommenderMixin",
    "Words",
    "best_unseen",
    "known_cells",
    "largest",
    "members",
    "percent",
    "recommend_at",
    "some_names",
]
