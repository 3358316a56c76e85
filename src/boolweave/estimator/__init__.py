"""The estimators: the parameters of a fit, the call of it, and the methods of a fitted model.

How factors are found is not here: that is in `fit` and `search`; nor are the functions and the
command line, which call the estimators. Start reading at `BooleanMatrixFactorization.fit` in
`factorization.py`; `fitted.py` has what a model can do after its fit.
"""

from boolweave.estimator.factorization import BooleanMatrixFactorization

__all__ = ["BooleanMatrixFactorization"]
