"""Test entries chosen by time: the last ones of each row, or all after a point in time.

`Observations.hide` and `Observations.folds` choose at random. If predictions are about the future,
that is too optimistic, because the training data then contain entries of the future. `Entries` is a
table that scikit-learn can split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.entries import find_sorted
from boolweave.data.labels import pairs, place_of
from boolweave.data.observations import Observations, Split
from boolweave.runtime.checks import check_count
from boolweave.runtime.types import Array, Integers


class Entries(Observations):
    """A table as the list of its observed entries, which scikit-learn can split.

    Scikit-learn takes ``X[train]`` and ``X[test]``. For an array, these are rows. For this class,
    they are observed entries, numbered by rows and then by columns, in a table of the same shape in
    which all other entries are missing. In all other respects it is an `Observations` object.
    ``shape`` is the shape (M, N) of the table, and ``len`` the number of observed entries.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.model_selection import Entries
    >>> entries = Entries.from_data([[1, 0, np.nan], [np.nan, 1, 1]])
    >>> len(entries)
    4
    >>> entries[[0, 3]].to_dense()
    array([[ 1., nan, nan],
           [nan, nan,  1.]], dtype=float32)
    """

    @classmethod
    def from_data(cls, data: Any, **options: Any) -> Entries:
        """Make entries from any kind of matrix; the options are those of `Observations`."""
        return cls._of(Observations.from_data(data, **options)._fields())

    def __len__(self) -> int:
        return self.n_observed

    def __getitem__(self, key: Any) -> Entries:
        """Take the entries at some positions, (n,), at Booleans, (n_observed,), or in a slice."""
        if isinstance(key, tuple):  # scikit-learn asks for X[positions, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError(
                    f"Entries have one axis, got an index of {len(key)}; pass positions of entries"
                )
            key = key[0]
        chosen = np.zeros(self.n_observed, dtype=bool)
        chosen[key] = True
        return Entries.from_data(self.split(~chosen)[0])

    def to_local(self) -> Observations:
        """Return the entries as plain observations."""
        return Observations._of(self._fields())


def entry_positions(
    observations: Observations, rows: Integers, columns: Integers
) -> NDArray[np.int64]:
    """Find the positions of entries among the observed ones, shape (n,); -1 if not observed.

    Parameters
    ----------
    observations : Observations, shape (M, N)
    rows, columns : arrays of whole numbers, shape (n,)
        Rows from 0 to M - 1 and columns from 0 to N - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import Observations
    >>> observations = Observations.from_data([[1, np.nan], [0, 1]])
    >>> entry_positions(observations, np.array([1, 0]), np.array([0, 1]))
    array([ 1, -1])
    """
    wanted = rows.astype(np.int64) * observations.n_columns + columns
    at, found = find_sorted(observations.cell_numbers(), wanted)
    return np.where(found, at, -1)


def in_entry_order(
    observations: Observations, rows: ArrayLike, columns: ArrayLike, times: ArrayLike
) -> Array:
    """Sort the times of triples into the order of the observed entries.

    Parameters
    ----------
    observations : Observations, shape (M, N)
        The observations that `Observations.from_triples` made from the triples.
    rows, columns : array_like, shape (n,)
        Rows and columns of the triples, by number or by label, in any order.
    times : array_like, shape (n,)
        The time of each triple, a number or ``datetime64``. If an entry is given more than once,
        its latest time counts. Triples of entries that are not observed are ignored.

    Returns
    -------
    array, shape (n_observed,)
        The time of each observed entry, by rows and then by columns.

    Examples
    --------
    >>> from boolweave import Observations
    >>> users, films = ["Bo", "Ann", "Ann"], ["Alien", "Jaws", "Alien"]
    >>> seen = Observations.from_triples(users, films, [1, 0, 1])
    >>> seen.row_labels.tolist(), seen.column_labels.tolist()
    (['Bo', 'Ann'], ['Alien', 'Jaws'])
    >>> in_entry_order(seen, users, films, [1999, 2001, 2003])
    array([1999, 2003, 2001])
    """
    row, column = pairs(rows, columns, observations)
    when = _checked_times(times, len(row), "triples")
    at = entry_positions(observations, row, column)
    order = np.argsort(when, kind="stable")
    order = order[at[order] >= 0]
    found = np.zeros(observations.n_observed, dtype=bool)
    found[at[order]] = True
    if not found.all():
        entry = int(np.argmin(found))
        place = place_of(
            int(observations.rows_of_entries()[entry]),
            int(observations.indices[entry]),
            observations.row_labels,
            observations.column_labels,
        )
        raise ValueError(
            f"every observed entry needs a time, but {place} has none; pass the triples that the "
            "observations were made from"
        )
    sorted_times = np.empty(observations.n_observed, dtype=when.dtype)
    sorted_times[at[order]] = when[order]  # the latest is written last
    return sorted_times


def hide_last(observations: Observations, times: ArrayLike, per_row: int = 1) -> Split:
    """Hide the latest entries of every row (leave-last-out).

    A row with no more than `per_row` entries keeps all of them, because nothing would be left to
    predict from. Among entries of the same time, those in later columns count as later.

    Parameters
    ----------
    observations : Observations, shape (M, N)
    times : array_like, shape (n_observed,)
        The time of each entry, a number or ``datetime64``, in the order of the entries: by rows,
        then by columns. `in_entry_order` puts the times of triples into this order. Random numbers
        instead of times hide random entries of each row.
    per_row : int
        Number of entries to hide in each row, >= 1. Ranking measures, such as `precision_at_n`,
        order the hidden entries of a row and need several of them.

    Returns
    -------
    kept : Observations, shape (M, N)
        The matrix without the hidden entries.
    hidden_rows, hidden_columns, hidden_values : arrays, shape (n_hidden,)
        The hidden entries, in order of rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave import Observations
    >>> observations = Observations.from_data([[1, 0, 1], [np.nan, 0, np.nan]])
    >>> kept, rows, columns, values = hide_last(observations, [2001, 2003, 2002, 1999])
    >>> rows, columns, values
    (array([0]), array([1], dtype=int32), array([0], dtype=uint8))
    """
    check_count("per_row", per_row)
    when = _checked_times(times, observations.n_observed, "observed entries")
    n_entries = np.diff(observations.indptr)
    if not (n_entries > per_row).any():
        raise ValueError(
            f"per_row must be less than the number of entries of the fullest row, "
            f"{n_entries.max(initial=0)}, but got {per_row}; hide fewer"
        )
    # A stable sort, so that columns stay in order.
    order = np.lexsort((when, observations.rows_of_entries()))
    is_last = np.arange(len(when)) >= np.repeat(observations.indptr[1:] - per_row, n_entries)
    hidden = np.empty(len(when), dtype=bool)
    hidden[order] = is_last & np.repeat(n_entries > per_row, n_entries)
    return observations.split(hidden)


def hide_after(
    observations: Observations,
    times: ArrayLike,
    *,
    share: float | None = None,
    time: object = None,
) -> Split:
    """Hide all entries after a point in time, to predict the future from the past.

    Parameters
    ----------
    observations : Observations, shape (M, N)
    times : array_like, shape (n_observed,)
        The time of each entry, as for `hide_last`.
    share : float, optional
        Fraction of the entries to hide, between 0 and 1: the latest ones. Entries of the same time
        stay together, so that it may be less.
    time : number, datetime64, date or text of a date, optional
        The point in time; later entries are hidden. Pass either `share` or `time`.

    Returns
    -------
    kept : Observations, shape (M, N)
        The matrix without the hidden entries.
    hidden_rows, hidden_columns, hidden_values : arrays, shape (n_hidden,)
        The hidden entries, in order of rows and columns.

    Examples
    --------
    >>> from boolweave import Observations
    >>> observations = Observations.from_data([[1, 0], [0, 1]])
    >>> kept, rows, columns, values = hide_after(observations, [1, 5, 3, 2], time=2)
    >>> rows, columns
    (array([0, 1]), array([1, 0], dtype=int32))
    >>> [len(part) for part in hide_after(observations, [1, 5, 3, 2], share=0.25)[1:]]
    [1, 1, 1]
    """
    when = _checked_times(times, observations.n_observed, "observed entries")
    if (share is None) == (time is None):
        given = "neither" if share is None else "both"
        raise ValueError(f"pass either share, such as 0.1, or time, but got {given}")
    if not len(when):
        raise ValueError("observations must hold at least one entry, but got none")
    if share is None:
        moment = _moment(time, when)
    else:
        if not 0 < share < 1:
            raise ValueError(f"share must be between 0 and 1, but got {share!r}; 0.1 hides 10%")
        n_kept = len(when) - min(max(round(share * len(when)), 1), len(when) - 1)
        moment = np.sort(when)[n_kept - 1]
    hidden = when > moment
    if hidden.all() or not hidden.any():
        asked = f"time={time!r}" if share is None else f"share={share!r}"
        raise ValueError(
            f"some entries must be hidden and some kept, but {asked} hides "
            f"{'all' if hidden.all() else 'none'} of {len(when)} with times from {when.min()} "
            f"to {when.max()}; choose another time between them"
        )
    return observations.split(hidden)


def folds_by_time(
    observations: Observations, times: ArrayLike, n_folds: int = 5
) -> Iterator[Split]:
    """Split the entries into periods, each to be predicted from everything before it.

    The entries are divided by time into ``n_folds + 1`` periods with about equally many entries.
    Fold i keeps the first i periods and hides the next one; later entries are left out altogether.
    A later fold has more training data than an earlier one.

    Parameters
    ----------
    observations : Observations, shape (M, N)
    times : array_like, shape (n_observed,)
        The time of each entry, as for `hide_last`.
    n_folds : int
        Number of folds, >= 1. Entries of the same time stay in one period, so that there must be
        more distinct times than folds.

    Returns
    -------
    iterator of (kept, hidden_rows, hidden_columns, hidden_values)
        The same as from `hide_after`, once for each period but the first.

    Examples
    --------
    >>> from boolweave import Observations
    >>> observations = Observations.from_data([[1, 0, 1], [0, 0, 1]])
    >>> years = [2001, 2002, 2003, 2001, 2002, 2003]
    >>> [(kept.n_observed, len(rows)) for kept, rows, _, _ in folds_by_time(observations, years, 2)]
    [(2, 2), (4, 2)]
    """
    when = _checked_times(times, observations.n_observed, "observed entries")
    check_count("n_folds", n_folds)
    cuts = np.arange(n_folds + 1) * len(when) // (n_folds + 1)
    begins = np.sort(when)[cuts] if len(when) else when
    if len(np.unique(begins)) <= n_folds:
        raise ValueError(
            f"n_folds must leave entries in every period, but {n_folds} folds of {len(when)} "
            f"entries with {len(np.unique(when))} different times do not; ask for fewer folds"
        )
    period = np.searchsorted(begins, when, side="right") - 1

    def fold(last: int) -> Split:
        seen = observations.split(period > last)[0]
        return seen.split(period[period <= last] == last)

    return (fold(last) for last in range(1, n_folds + 1))


def _checked_times(times: ArrayLike, length: int, of: str) -> Array:
    """Times as an array of `length` numbers or dates that can be compared."""
    when = np.asarray(times)
    if when.shape != (length,):
        raise ValueError(
            f"times must hold one time for each of the {length} {of}, but have shape {when.shape}"
        )
    if when.dtype.kind not in "iufM":
        raise TypeError(
            f"times must be numbers or datetime64, but have the type {when.dtype}; convert dates "
            'with numpy.asarray(times, dtype="datetime64[s]")'
        )
    unknown = np.isnat(when) if when.dtype.kind == "M" else np.isnan(when)
    if unknown.any():
        raise ValueError(
            f"every entry must have a time, but number {int(np.argmax(unknown))} is missing; "
            "leave out such entries"
        )
    return when


def _moment(time: object, when: Array) -> object:
    """The point in time in a form that can be compared with the times."""
    dates = when.dtype.kind == "M"
    try:
        moment = np.asarray(time, dtype="datetime64" if dates else None)
    except (TypeError, ValueError):
        moment = np.asarray(None)
    fits = moment.dtype.kind in ("M" if dates else "iuf")
    if moment.ndim or not fits or moment != moment:  # neither NaN nor NaT equals itself
        kind = "a date such as 2024-12-31" if dates else "a number"
        raise ValueError(f"time must be {kind}, as the times are, but got {time!r}")
    return moment[()]
