"""Other methods with the same face, to compare with.

Every class has ``fit(X)``, ``predict_proba(rows, cols)`` and ``predict(rows, cols)``, takes what
`BooleanMatrixFactorization.fit` takes, and chooses by entries that it holds out itself what is left
at "auto". `compare` runs them all, and ours, on the same folds.
"""

from __future__ import annotations

from boolweave.baselines.asso import PAPER_THRESHOLDS, Asso
from boolweave.baselines.base import Baseline
from boolweave.baselines.bias import BiasModel
from boolweave.baselines.comparison import Comparison, compare
from boolweave.baselines.glrm import GLRM
from boolweave.baselines.grecond import GreConD
from boolweave.baselines.majority import Majority
from boolweave.baselines.one_bit import OneBitCompletion

__all__ = [
    "GLRM",
    "PAPER_THRESHOLDS",
    "Asso",
    "Baseline",
    "BiasModel",
    "Comparison",
    "GreConD",
    "Majority",
    "OneBitCompletion",
    "compare",
]
