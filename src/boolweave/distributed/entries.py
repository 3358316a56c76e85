"""Entries that never pass through the client of a Dask cluster.

Workers read partitions of triples, or blocks of rows of an array, distribute them among themselves
by rows, and sort them. The client knows the number of entries of each row and the names of rows and
columns; it fetches the entries only if they are needed.
"""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.convert import pack_triples
from boolweave.data.entries import count, rows_from_packed, split
from boolweave.data.observations import Absent, Observations
from boolweave.data.observed import ObservedEntries
from boolweave.distributed.cluster import Cluster
from boolweave.distributed.worker import unpacked_rows
from boolweave.runtime.cluster import Watch, WorkerLost
from boolweave.runtime.types import Array


class RemoteEntries(ObservedEntries):
    """Observed entries that workers read and keep.

    Parameters
    ----------
    client : distributed.Client
    parts : list of delayed triples of arrays
        Rows and columns (indices, or labels as text) and values, each (n,).
    shape : (int, int), optional
        By default, the rows and columns that occur in the entries.
    """

    def __init__(self, client: Any, parts: list[Any], shape: tuple[int, int] | None = None) -> None:
        self.watch = Watch(client)
        self.parts = parts  # to read the entries, again if necessary
        self.cluster: Cluster | None = None  # the workers that keep them, once they are distributed
        self._here: Observations | None = None  # if they were fetched
        self.watch.repeated(partial(self._read, (None, None) if shape is None else shape))

    def _read(self, shape: tuple[int | None, int | None]) -> None:
        """Let the workers read and count the entries."""
        read = self._computed()
        names = self.watch.gather([self.watch.submit(_names, part) for part in read])
        rows, columns = (
            _axis([part[axis] for part in names], side, shape[axis])
            for axis, side in enumerate(("row", "column"))
        )
        self.shape = rows[0], columns[0]
        self.row_labels, self.column_labels = rows[1], columns[1]
        # The entries of every partition, until they are distributed.
        self.packed = self._packed(read)
        counts = [self.watch.submit(count, part, self.shape) for part in self.packed]
        while len(counts) > 1:  # add up in a tree
            pairs = [counts[n : n + 2] for n in range(0, len(counts), 2)]
            counts = [self.watch.submit(sum_of, pair) for pair in pairs]
        per_row, self._n_ones, of_entries = self.watch.gather(counts)[0]
        # Number of entries of each row, (M,), with duplicates and without them.
        self._raw: NDArray[np.int64] = per_row
        self._per_row: NDArray[np.int64] = per_row
        of_shape = hashlib.blake2b(repr(self.shape).encode(), digest_size=16)
        self._fingerprint = f"{of_shape.hexdigest()} {of_entries}"

    def _computed(self) -> list[Any]:
        """The triples of every partition, on workers that answer."""
        self.watch.usable()
        futures: list[Any] = self.watch.client.compute(self.parts, workers=self.watch.only or None)
        return futures

    def _packed(self, read: list[Any]) -> list[Any]:
        """The entries of every partition as numbers, on the workers."""
        labels = self.watch.send((self.row_labels, self.column_labels))
        return [self.watch.submit(pack_triples, part, labels, self.shape) for part in read]

    # ------------------------------------------------------------ distribution of rows

    def distribute_to(self, cluster: Cluster, cuts: list[tuple[int, int]]) -> None:
        """Let the workers of a cluster exchange entries until each has those of its rows."""
        if cluster.distribute(self.entries_by_row, cuts, self._rows_for):
            per_row, n_ones = zip(*cluster.call_all("sizes"), strict=True)
            # Duplicates have been merged.
            self._per_row, self._n_ones = np.concatenate(per_row), sum(n_ones)
        self.cluster = cluster

    def _rows_for(self, runs: list[slice]) -> list[Any]:
        """The entries of ranges of rows, each as futures of packed numbers."""
        bounds = np.array([run.start for run in runs[1:]], dtype=np.int64)
        packed = self.packed or self._packed(self._computed())
        pieces = [self.watch.submit(split, part, bounds, self.shape) for part in packed]
        self.packed = []
        return [
            (
                unpacked_rows,
                (run.stop - run.start, self.shape[1]),
                run.start,
                [self.watch.submit(operator.getitem, part, n) for part in pieces],
            )
            for n, run in enumerate(runs)
        ]

    # ------------------------------------------------------------ information that a fit needs

    @property
    def n_observed(self) -> int:
        """Number of observed entries."""
        return int(self._per_row.sum())

    @property
    def n_ones(self) -> int:
        """Number of observed ones."""
        return self._n_ones

    @property
    def entries_by_row(self) -> NDArray[np.int64]:
        """Where each row would start if duplicates were kept, (M + 1,)."""
        return np.concatenate([[0], np.cumsum(self._raw)])

    @property
    def n_bytes_in_files(self) -> int:
        """0, because the entries are not in files of this process."""
        return 0

    @property
    def fingerprint(self) -> str:
        """A hash of shape and entries."""
        return self._fingerprint

    def to_local(self) -> Observations:
        """Fetch all entries from the workers, which read them again if one of them is lost."""
        if self._here is None:
            indptr, columns, values = self._fetched()
            labels = (self.row_labels, self.column_labels)
            self._here = Observations(self.shape, indptr, columns, values, *labels)
        return self._here

    def _fetched(self) -> tuple[Any, ...]:
        """Where rows start, and columns and values of the entries."""
        if not self.packed and self.cluster is not None:  # they were distributed
            with suppress(WorkerLost):
                parts = self.cluster.call_all("entries")
                columns, values = (np.concatenate([part[n] for part in parts]) for n in (0, 1))
                return np.concatenate([[0], np.cumsum(self._per_row)]), columns, values
        parts = self.watch.repeated(self._gathered)
        return rows_from_packed(np.concatenate(parts), self.shape)[1:4]

    def _gathered(self) -> list[Any]:
        packed, self.packed = self.packed or self._packed(self._computed()), []
        gathered = self.watch.gather(packed)
        self.packed = packed
        return gathered

    def take_rows(self, index: ArrayLike | slice) -> Observations:
        """Fetch some rows, in the given order."""
        rows = np.arange(self.shape[0])[index if isinstance(index, slice) else np.asarray(index)]
        order = np.argsort(rows, kind="stable")
        in_order = rows[order]
        if self.cluster is None:
            return self.to_local().take_rows(index)
        wanted = [
            in_order[(in_order >= run.start) & (in_order < run.stop)] - run.start
            for run in self.cluster.runs
        ]
        try:
            parts = self.cluster.call_each("entries", [(rows,) for rows in wanted])
        except WorkerLost:
            return self.to_local().take_rows(index)
        lengths = self._per_row[in_order]
        sorted_rows = Observations(
            (len(rows), self.shape[1]),
            np.concatenate([[0], np.cumsum(lengths)]),
            *(np.concatenate([part[n] for part in parts]) for n in (0, 1)),
        )
        return sorted_rows.take_rows(np.argsort(order, kind="stable"))

    def sum_over_rows(
        self, function: Callable[[Observations, Array], Array], by_row: Array
    ) -> Array:
        """Add up a function of the entries of some rows, and of an array (M, …), over all rows."""
        if self.cluster is None:
            return function(self.to_local(), by_row)
        try:
            return self.cluster.sum_over_rows(function, by_row)
        except WorkerLost:
            return function(self.to_local(), by_row)


def sum_of(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Tuples added up item by item."""
    return tuple(sum(items[1:], items[0]) for items in zip(*parts, strict=True))


# ---------------------------------------------------------------- on the workers


def _names(part: tuple[Any, ...]) -> list[Any]:
    """For rows and columns: the labels in the order of first appearance, or the largest number."""
    names: list[Any] = []
    for keys in part[:2]:
        keys = np.asarray(keys)
        if keys.dtype.kind in "iuf" or not keys.size:
            names.append(int(keys.max()) if keys.size else -1)
            continue
        labels, first = np.unique(keys.astype(np.str_), return_index=True)
        names.append(labels[np.argsort(first)])
    return names


def _axis(parts: list[Any], side: str, length: int | None) -> tuple[int, NDArray[np.str_] | None]:
    """Number of rows or columns, and their labels."""
    named = [part for part in parts if not isinstance(part, int)]
    if not named:
        return max(parts, default=-1) + 1 if length is None else length, None
    if any(isinstance(part, int) and part >= 0 for part in parts):
        raise ValueError(
            f"{side}s must be all whole numbers or all labels, got both; convert one kind"
        )
    labels = np.array(list(dict.fromkeys(np.concatenate(named).tolist())), dtype=np.str_)
    return len(labels), labels


# ---------------------------------------------------------------- from collections


def observed(X: Any, client_of: Callable[[], Any], absent: Absent) -> RemoteEntries | None:
    """Dask collections and lists of Parquet files as remote entries; None for anything else."""
    is_frame = type(X).__module__.startswith("dask.dataframe")
    are_files = isinstance(X, list | tuple) and len(X) > 0 and all(_is_path(path) for path in X)
    if not (is_dask_array(X) or is_frame or are_files):
        return None
    import dask

    client = client_of()
    if is_dask_array(X):
        if X.ndim != 2:
            raise ValueError(f"expected a matrix, got {X.ndim} dimensions")
        blocks = X.rechunk({1: -1}).to_delayed().ravel()
        starts = np.cumsum([0, *X.chunks[0]])
        triples = dask.delayed(_triples_of_rows)
        parts = [triples(b, int(start), absent) for b, start in zip(blocks, starts, strict=False)]
        return RemoteEntries(client, parts, X.shape)
    if is_frame:
        _three_columns(list(X.columns))
        triples = dask.delayed(_triples_of_table)
        return RemoteEntries(client, [triples(part) for part in X.to_delayed()])
    read = dask.delayed(_triples_of_file)
    return RemoteEntries(client, [read(os.path.abspath(path)) for path in X])


def is_dask_array(X: Any) -> bool:
    """Whether this is a dask array."""
    return type(X).__module__.startswith("dask.array")


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and os.fspath(value).endswith(".parquet")


def _three_columns(names: list[Any]) -> None:
    if len(names) != 3:
        raise ValueError(
            f"triples need three columns, row, column and value, got {len(names)}: {names}"
        )


def _triples_of_rows(block: Any, start: int, absent: Any) -> tuple[Any, ...]:
    observations = Observations.from_data(block, absent=absent)
    return observations.rows_of_entries() + start, observations.indices, observations.values


def _triples_of_table(table: Any) -> tuple[Any, ...]:
    return tuple(table[name].to_numpy() for name in table.columns)


def _triples_of_file(path: str) -> tuple[Any, ...]:
    import polars

    table = polars.read_parquet(path)
    _three_columns(table.columns)
    return _triples_of_table(table)
