"""The curve of the fewest errors against the number of factors, and the answer at the best."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from boolweave.runtime.checkpoint import Recorder
from boolweave.search.answer import Answer, answer_of, fewest_errors
from boolweave.search.searching import Options, Searching
from boolweave.search.tracing import Curve, frame

if TYPE_CHECKING:
    from boolweave.data.observations import Observations
    from boolweave.fit.rank import RankSelection
    from boolweave.runtime.progress import OnRound
    from boolweave.search.kernels.factors import Table

# The fraction of `max_time` for the curve if a search for the answer follows.
SHARE_OF_TIME = 0.4


def search_rank(
    observations: Observations,
    table: Table,
    *,
    ranks: Iterable[int] | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
    seed: int = 0,
    n_jobs: int | None = None,
    report: OnRound | None = None,
    recorder: Recorder | None = None,
) -> tuple[RankSelection, Answer]:
    """Choose a number of factors by description length and search for the fewest errors with it.

    The parameters are those of `fewest_errors`, and the `ranks` to choose from. `seed` is used by
    the last search; the choice does not depend on it.

    Examples
    --------
    >>> from boolweave.datasets import make_boolean
    >>> from boolweave.search.table import pack_table
    >>> seen = make_boolean(60, 50, 2, random_state=0).observations
    >>> selection, answer = search_rank(seen, pack_table(seen))
    >>> selection.best, answer.Y.shape
    (2, (2, 50))
    """
    began = time.monotonic()
    recorder = recorder or Recorder()
    limit = None if options.max_time is None else SHARE_OF_TIME * options.max_time
    with frame(recorder, table) as state:
        curve = Curve(observations, table, state, limit, n_jobs, report, recorder)
        curve.trace(ranks)
        best, known = curve.best, curve.point(curve.best).solution
        if curve.interrupted:
            at = Searching(best=known)
            answer = answer_of(table, best, at, seed, is_bounded=False, interrupted=True)
        else:
            if options.max_time is not None:
                left = options.max_time - (time.monotonic() - began)
                options = replace(options, max_time=max(0.0, left))
            answer = fewest_errors(
                observations, table, best, options=options, seed=seed, n_jobs=n_jobs,
                report=report, recorder=recorder, first=[known],
            )  # fmt: skip
        curve.add(answer.X, answer.Y)
    return curve.selection(), answer


def trace_curve(
    observations: Observations,
    table: Table,
    *,
    ranks: Iterable[int] | None = None,
    max_time: float | None = None,
    n_jobs: int | None = None,
    report: OnRound | None = None,
    recorder: Recorder | None = None,
) -> RankSelection:
    """Find the fewest errors at every rank, without a full search at the chosen rank.

    Examples
    --------
    >>> from boolweave.datasets import make_boolean
    >>> from boolweave.search.table import pack_table
    >>> seen = make_boolean(60, 50, 2, random_state=0).observations
    >>> trace_curve(seen, pack_table(seen), ranks=[1, 2]).costs[1]
    np.float64(0.0)
    """
    recorder = recorder or Recorder()
    with frame(recorder, table) as state:
        curve = Curve(observations, table, state, max_time, n_jobs, report, recorder)
        curve.trace(ranks)
    return curve.selection()
