"""The estimator on the workers of a Dask cluster.

This package distributes rows over workers, adds up their sums and recovers when a worker is lost.
The updates of messages are those of `boolweave.engine`. Start with `estimator.py`, then
`backend.py`.
"""

from boolweave.distributed.estimator import DaskBooleanMatrixFactorization

__all__ = ["DaskBooleanMatrixFactorization"]
