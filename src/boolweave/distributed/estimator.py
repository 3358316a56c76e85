"""The estimator on a Dask cluster, with the same results as on one machine."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from boolweave.data.observed import ObservedEntries
from boolweave.distributed.backend import ClusterBackends
from boolweave.distributed.cluster import Cluster
from boolweave.distributed.entries import RemoteEntries, is_dask_array, observed
from boolweave.engine.result import Kind, Result
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.estimator.factorization import check_input
from boolweave.estimator.parameters import declared
from boolweave.fit.rank_selection import RankSelection
from boolweave.fit.stages import BackendFactory
from boolweave.parameters import ClusterParameters
from boolweave.runtime.checkpoint import Checkpoint
from boolweave.runtime.checks import seed_of
from boolweave.runtime.cluster import Watch
from boolweave.runtime.extras import need

if TYPE_CHECKING:
    from distributed import Client


@declared
class DaskBooleanMatrixFactorization(BooleanMatrixFactorization, ClusterParameters):
    """`BooleanMatrixFactorization` on the workers of a Dask client.

    Each worker keeps blocks of rows and their messages and runs the same code as a thread; the
    result is the same bit for bit as on one machine. The parameters and attributes are those of
    `BooleanMatrixFactorization`; `n_jobs` applies to this process, for example to `transform` of an
    array.

    If a worker dies, its messages are lost. The run then continues with the other workers, from the
    last checkpoint if there is a `checkpoint`, otherwise from the beginning, with the same result.

    `fit` also takes a Dask array, a Dask dataframe of triples (row, column, value) or a list of
    Parquet files of triples; `transform`, `predict` and `predict_proba` of Dask arrays return Dask
    arrays.

    The entries of Dask collections and Parquet files do not pass through this process: workers,
    which must be able to read them, distribute them among themselves by rows. Messages, by far the
    larger part, and beliefs are only on the workers. Messages are integers, so that a channel that
    differs from entry to entry, which needs floats, is only possible on one machine. `max_memory`
    is the limit of each worker.

    Examples
    --------
    This uses the local machine; use `Client("tcp://scheduler:8786")` for another cluster.

    >>> from distributed import Client
    >>> from boolweave.datasets import make_boolean
    >>> X = make_boolean(30, 20, 2, random_state=0).observations
    >>> with Client(n_workers=2, processes=False, dashboard_address=None) as client:
    ...     model = DaskBooleanMatrixFactorization(n_components=2, random_state=0).fit(X)
    >>> model.components_.shape
    (2, 20)
    """

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.method == "paper":
            raise ValueError(
                '`method="paper"` runs on one machine, not on a cluster; use '
                'BooleanMatrixFactorization, or set `method="max-sum"`'
            )
        if self.objective == "errors":
            raise ValueError(
                "the search for the fewest errors runs on one machine, not on a cluster; use "
                'BooleanMatrixFactorization, or set `objective="posterior"`'
            )

    def _run(
        self,
        observations: ObservedEntries,
        first_seed: int | None = None,
        backends: BackendFactory | None = None,
    ) -> tuple[Result, RankSelection | None, int]:
        seed = seed_of(self.random_state) if first_seed is None else first_seed
        if isinstance(observations, RemoteEntries):
            watch = observations.watch
        else:
            watch = Watch(self._client())

        def attempt() -> tuple[Result, RankSelection | None, int]:
            cluster = Cluster(watch)
            with watch.shielded():
                fitted = super(DaskBooleanMatrixFactorization, self)._run(
                    observations, seed, ClusterBackends(cluster)
                )
                cluster.clean_up()
            return fitted

        if self.checkpoint is None:
            return watch.repeated(attempt)
        place = self.checkpoint
        often = place if isinstance(place, Checkpoint) else Checkpoint(place)
        return watch.repeated(attempt, progress_after=often.interval)

    def __sklearn_clone__(self) -> DaskBooleanMatrixFactorization:
        """Clone with the same client, which is a connection and cannot be copied."""
        bare = copy.copy(self)
        bare.client = None
        made: DaskBooleanMatrixFactorization = BaseEstimator.__sklearn_clone__(bare)
        made.client = self.client
        return made

    def _client(self) -> Client:
        if self.client is not None:
            return self.client
        need("distributed", "DaskBooleanMatrixFactorization")
        from distributed import get_client

        return get_client()

    # ------------------------------------------------------------ dask collections

    def _converted(self, X: Any) -> ObservedEntries:
        entries = observed(X, self._client, self.absent)
        if entries is None:
            return super()._converted(X)
        if self.zeros == "collective":
            raise ValueError(
                '`zeros="collective"` needs the ones in this process: pass a scipy.sparse matrix '
                'instead of a Dask collection or files, or set `zeros="exact"`'
            )
        return entries

    def _observe(self, X: Any, *, reset: bool) -> ObservedEntries:
        """Convert input and check it; scikit-learn does not check Dask collections."""
        observations = self._converted(X)
        remote = isinstance(observations, RemoteEntries)
        check_input(self, observations if remote else X, observations, reset=reset)
        return observations

    def fit_transform(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Any:
        """Fit, and return row factors (M, K); for a Dask array they are a Dask array.

        The factors of a Dask array are those of `transform`, which uses the mean of a `row_prior`
        that was given row by row.
        """
        if is_dask_array(X):
            return self.fit(X, sample_weight=sample_weight).transform(X)
        return super().fit_transform(X, sample_weight=sample_weight)

    def transform(self, X: Any) -> Any:
        """Row factors (rows, K) of new rows; for a Dask array, a lazy Dask array."""
        if not is_dask_array(X):
            return super().transform(X)
        dtype = np.uint8 if self.output == "bits" else np.float64
        return _map_rows(self._slim().transform, X, len(self.components_), dtype)

    def predict(self, rows: Any, cols: Any = None) -> Any:
        """The decoded value of the true matrix; for Dask arrays, a lazy Dask array."""
        if not is_dask_array(rows):
            return super().predict(rows, cols)
        return self._map(self._slim().predict, rows, cols, np.uint8)

    def predict_proba(self, rows: Any, cols: Any = None, kind: Kind = "observed") -> Any:
        """Probability of a one; for Dask arrays, a lazy Dask array."""
        if not is_dask_array(rows):
            return super().predict_proba(rows, cols, kind)
        probability = partial(self._slim().predict_proba, kind=kind)
        return self._map(probability, rows, cols, np.float64)

    def _map(self, function: Any, rows: Any, cols: Any, dtype: Any) -> Any:
        if cols is None:
            return _map_rows(function, rows, self.components_.shape[1], dtype)
        return _map_pairs(function, rows, cols, dtype)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to an .npz file; `boolweave.load` reads it, without the client."""
        self.to_local().save(path)

    def to_local(self) -> BooleanMatrixFactorization:
        """The fitted model as a `BooleanMatrixFactorization`, which needs no client."""
        local = self._slim()
        local.result_ = replace(self.result_, observations=self.observations_.fetched())
        local.set_params(n_jobs=self.n_jobs, checkpoint=self.checkpoint)
        return local

    def _slim(self) -> BooleanMatrixFactorization:
        """The fitted model without client and entries, in a form that can be sent to workers."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        del parameters["client"]
        slim = BooleanMatrixFactorization(**{**parameters, "n_jobs": None, "checkpoint": None})
        for name, value in vars(self).items():
            if name.endswith("_") or name == "_frame":
                setattr(slim, name, value)
        observations = self.observations_
        slim.result_ = replace(
            self.result_, observations=observations.without_entries(), history={}
        )
        return slim


def _map_rows(function: Any, X: Any, n_columns: int, dtype: Any) -> Any:
    """Apply a function to the rows of a matrix, block by block; it returns `n_columns` columns."""
    chunks, meta = (X.chunks[0], (n_columns,)), np.zeros((0, 0), dtype=dtype)
    return X.rechunk({1: -1}).map_blocks(function, dtype=dtype, chunks=chunks, meta=meta)


def _map_pairs(function: Any, rows: Any, cols: Any, dtype: Any) -> Any:
    """Apply a function to pairs of positions."""
    import dask.array

    cols = dask.array.asarray(cols).rechunk(rows.chunks)
    meta = np.zeros(0, dtype=dtype)
    return dask.array.map_blocks(function, rows, cols, dtype=dtype, meta=meta)
