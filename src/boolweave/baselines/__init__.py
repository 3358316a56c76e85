"""Other methods to compare with, all with ``fit(X)``, ``predict_proba`` and ``predict``.

This package holds published methods that factorize or complete Boolean matrices, and `compare`,
which runs all of them and ours on the same folds. Nothing that our own fits need belongs here.
Start reading with `base.py`, then a method such as `glrm.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolweave.runtime.lazy import loading

if TYPE_CHECKING:
    from boolweave.baselines.base import Baseline
    from boolweave.baselines.bias import BiasModel, Majority
    from boolweave.baselines.boolean_factors import PAPER_THRESHOLDS, Asso, GreConD
    from boolweave.baselines.comparison import Comparison, compare
    from boolweave.baselines.glrm import GLRM
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

# Loaded when they are first used: the names of the methods need no scikit-learn.
__getattr__ = loading(
    __name__,
    {
        "Baseline": "boolweave.baselines.base",
        "BiasModel": "boolweave.baselines.bias",
        "Majority": "boolweave.baselines.bias",
        "PAPER_THRESHOLDS": "boolweave.baselines.boolean_factors",
        "Asso": "boolweave.baselines.boolean_factors",
        "GreConD": "boolweave.baselines.boolean_factors",
        "Comparison": "boolweave.baselines.comparison",
        "compare": "boolweave.baselines.comparison",
        "GLRM": "boolweave.baselines.glrm",
        "OneBitCompletion": "boolweave.baselines.one_bit",
    },
)
