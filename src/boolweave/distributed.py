"""The estimator on a Dask cluster: the same blocks, the same kernels, the same numbers."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from boolweave.cluster import Cluster, DealtObservations, WorkerLost
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.observations import Observations

if TYPE_CHECKING:
    from boolweave.rank import RankSelection
    from boolweave.result import Result


class DaskBooleanMatrixFactorization(BooleanMatrixFactorization):
    """`BooleanMatrixFactorization` on the workers of a Dask client.

    Each worker keeps blocks of rows and their messages and runs the code that a thread runs; the
    result is the same bit for bit as on one machine. The parameters and attributes are those of
    `BooleanMatrixFactorization`; `n_jobs` is for what runs here, such as `transform` of an array.

    A worker that dies takes its messages with it. The run then goes on with the others: from the
    last checkpoint if there is a `checkpoint`, else from the beginning, to the same answer.

    `fit` also takes a dask array, a dask dataframe of triples (row, column, value) or a list of
    Parquet files of triples; `transform`, `predict` and `predict_proba` of dask arrays give dask
    arrays.

    The observed entries pass through this process, which also keeps the beliefs; the messages, the
    larger part by far, are with the workers only. Messages are integers: a channel that differs
    from entry to entry, which needs floats, is for one machine.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of factors.
    client : distributed.Client, optional
        Left out: the current one.
    **parameters
        Those of `BooleanMatrixFactorization`.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://scheduler:8786")  # doctest: +SKIP
    >>> model = DaskBooleanMatrixFactorization(n_components=10).fit(X)  # doctest: +SKIP
    """

    def __init__(
        self, n_components: Any = "auto", *, client: Any = None, product: Any = "or",
        method: Any = "auto", noise: Any = None, row_prior: Any = None, column_prior: Any = None,
        absent: Any = "zero", damping: float = 0.4, max_iter: int = 200, tol: float = 1e-3,
        n_init: Any = "auto", messages: Any = "auto", n_jobs: int | None = None,
        random_state: Any = None, verbose: int = 0, checkpoint: Any = None, max_memory: Any = None,
        decimation: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, product=product, method=method, noise=noise, row_prior=row_prior,
            column_prior=column_prior, absent=absent, damping=damping, max_iter=max_iter, tol=tol,
            n_init=n_init, messages=messages, n_jobs=n_jobs, random_state=random_state,
            verbose=verbose, checkpoint=checkpoint, max_memory=max_memory, decimation=decimation,
        )  # fmt: skip
        self.client = client

    def _run(self, observations: Observations) -> tuple[Result, RankSelection | None, int]:
        given = self.random_state
        if not isinstance(given, int | np.integer):  # the same after a worker was lost
            self.random_state = int(check_random_state(given).randint(2**31))
        try:
            while True:
                dealt = DealtObservations.to(Cluster(self._client()), observations)
                try:
                    result, selection, n_dropped = super()._run(dealt)
                    return replace(result, observations=observations), selection, n_dropped
                except WorkerLost as lost:
                    warnings.warn(f"{lost}; the run goes on with the others", stacklevel=3)
        finally:
            self.random_state = given

    def _client(self) -> Any:
        if self.client is not None:
            return self.client
        from distributed import get_client

        return get_client()

    # ------------------------------------------------------------ dask collections

    def _observe(self, X: Any, *, reset: bool) -> Observations:
        return super()._observe(_gathered(X, self.absent), reset=reset)

    def transform(self, X: Any) -> Any:
        """Row factors (rows, K) of new rows; of a dask array lazily, as a dask array."""
        if not _is_dask_array(X):
            return super().transform(X)
        chunks = (X.chunks[0], (len(self.components_),))
        rows = X.rechunk({1: -1})
        return rows.map_blocks(self._slim().transform, dtype=np.uint8, chunks=chunks, meta=_META)

    def predict(self, rows: Any, cols: Any = None) -> Any:
        """The decoded value of the true matrix; of dask arrays of positions, as a dask array."""
        if not _is_dask_array(rows) or cols is None:
            return super().predict(rows, cols)
        slim = self._slim()
        return _map_pairs(slim.predict, rows, cols, np.uint8)

    def predict_proba(self, rows: Any, cols: Any = None, kind: Any = "observed") -> Any:
        """Probability of a one; of dask arrays of positions, as a dask array."""
        if not _is_dask_array(rows) or cols is None:
            return super().predict_proba(rows, cols, kind)
        slim = self._slim()
        return _map_pairs(partial(slim.predict_proba, kind=kind), rows, cols, np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to an .npz file; `boolweave.load` reads it, without the client."""
        self.to_local().save(path)  # type: ignore[arg-type]

    def to_local(self) -> BooleanMatrixFactorization:
        """The fitted model as a `BooleanMatrixFactorization`, which needs no client."""
        local = self._slim()
        local.observations_ = self.observations_
        local.set_params(n_jobs=self.n_jobs, checkpoint=self.checkpoint)
        return local

    def _slim(self) -> BooleanMatrixFactorization:
        """The fitted model without client and entries, to be sent to workers."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        del parameters["client"]
        slim = BooleanMatrixFactorization(**{**parameters, "n_jobs": None, "checkpoint": None})
        for name, value in vars(self).items():
            if name.endswith("_") or name == "_n_features_out":
                setattr(slim, name, value)
        seen = self.observations_
        nothing = np.zeros(0, dtype=np.int64)
        slim.observations_ = Observations.from_triples(
            nothing, nothing, nothing, shape=seen.shape, row_labels=seen.row_labels,
            column_labels=seen.column_labels,
        )  # fmt: skip
        return slim


_META = np.zeros((0, 0), dtype=np.uint8)


def _map_pairs(function: Any, rows: Any, cols: Any, dtype: Any) -> Any:
    import dask.array

    cols = dask.array.asarray(cols).rechunk(rows.chunks)
    return dask.array.map_blocks(
        function, rows, cols, dtype=dtype, meta=np.zeros(0, dtype=dtype)
    )  # fmt: skip


def _is_dask_array(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


def _gathered(X: Any, absent: Any) -> Any:
    """Dask collections and lists of Parquet files as observations; anything else as it is."""
    if _is_dask_array(X):
        return _from_dask_array(X, absent)
    if type(X).__module__.startswith("dask.dataframe"):
        return _from_triples(X.compute())
    files = isinstance(X, list | tuple) and len(X) > 0 and all(_is_path(path) for path in X)
    if files:
        import polars

        return _from_triples(polars.concat([polars.read_parquet(path) for path in X]))
    return X


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and os.fspath(value).endswith(".parquet")


def _from_triples(table: Any) -> Observations:
    names = list(table.columns)
    if len(names) != 3:
        raise ValueError(
            f"triples need three columns, row, column and value, got {len(names)}: {names}"
        )
    return Observations.from_triples(*(table[name].to_numpy() for name in names))


def _from_dask_array(X: Any, absent: Any) -> Observations:
    """Blocks of rows become observations on the workers; here they are put together."""
    import dask

    if X.ndim != 2:
        raise ValueError(f"expected a matrix, got {X.ndim} dimensions")
    blocks = X.rechunk({1: -1}).to_delayed().ravel()
    convert = dask.delayed(Observations.from_data)
    parts = dask.compute(*[convert(block, absent=absent) for block in blocks])
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    return Observations(
        (len(counts), parts[0].shape[1]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
    )
