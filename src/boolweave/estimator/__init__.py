"""The factorization estimator: its parameters, its fit, and the methods of a fitted model.

How factors are found is not here but in `fit` and `search`. The functions and the command line,
which call the estimator, are elsewhere, too. Start reading at `BooleanMatrixFactorization.fit` in
`factorization.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolweave.runtime.lazy import loading

if TYPE_CHECKING:
    from boolweave.estimator.factorization import BooleanMatrixFactorization

__all__ = ["BooleanMatrixFactorization"]

__getattr__ = loading(__name__, {"BooleanMatrixFactorization": "boolweave.estimator.factorization"})
