"""The estimator on the workers of a Dask cluster.

How rows are dealt to workers, how their sums are joined and what happens when a worker is lost
belongs here; the updates of messages are those of `boolweave.engine`. Start with `estimator.py`,
then `backend.py`.
"""

from boolweave.distributed.estimator import DaskBooleanMatrixFactorization

__all__ = ["DaskBooleanMatrixFactorization"]
