"""Recommendations and explanations: views of a fitted model, without inference of their own.

Recommendations, explanations, the members of factors, and the words for all three belong here, if
they are about a factorization or about any model; those of a completion are in
`boolweave.completion.answers`. Start reading in `unseen.py`, then `reasons.py`.
"""

from boolweave.recommend.members import Fitted, members
from boolweave.recommend.methods import RecommenderMixin
from boolweave.recommend.reasons import Explanation, FactorExplainer, Reason, explain
from boolweave.recommend.unseen import (
    Recommendations,
    best_unseen,
    known_cells,
    largest,
    recommend,
    recommend_at,
)
from boolweave.recommend.words import NAMES_IN_SENTENCE, Words, percent, some_names

__all__ = [
    "NAMES_IN_SENTENCE",
    "Explanation",
    "FactorExplainer",
    "Fitted",
    "Reason",
    "Recommendations",
    "RecommenderMixin",
    "Words",
    "best_unseen",
    "explain",
    "known_cells",
    "largest",
    "members",
    "percent",
    "recommend",
    "recommend_at",
    "some_names",
]
