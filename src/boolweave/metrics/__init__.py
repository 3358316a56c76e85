"""Measures of the quality of a prediction, a ranking or a set of factors.

Numbers that score an answer belong here; code that makes answers, or chooses between them in a fit,
does not. Start reading with `entries.py`, which treats one entry at a time. `ranking.py` orders the
entries of each row, as recommenders do, and `factors.py` compares factors.
"""

from __future__ import annotations

from boolweave.metrics.entries import (
    PROBABILITY_FLOOR,
    Agreement,
    accuracy,
    agreement,
    expected_calibration_error,
    log_loss,
    reconstruction_error,
    roc_auc,
)
from boolweave.metrics.factors import FactorMatch, information_bound, match_factors
from boolweave.metrics.ranking import (
    RankingScores,
    average_precision_at_n,
    ndcg_at_n,
    precision_at_n,
    ranking_scores,
    recall_at_n,
)

__all__ = [
    "PROBABILITY_FLOOR",
    "Agreement",
    "FactorMatch",
    "RankingScores",
    "accuracy",
    "agreement",
    "average_precision_at_n",
    "expected_calibration_error",
    "information_bound",
    "log_loss",
    "match_factors",
    "ndcg_at_n",
    "precision_at_n",
    "ranking_scores",
    "recall_at_n",
    "reconstruction_error",
    "roc_auc",
]
