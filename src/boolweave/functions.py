"""The functions beside the estimator: arrays in, an answer out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from boolweave import saving
from boolweave.estimator import BooleanMatrixFactorization, fewest_errors
from boolweave.estimator.parameters import check_fit_parameters, settings_of, with_objective
from boolweave.fit import rank
from boolweave.runtime.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from boolweave.engine.result import Result
    from boolweave.fit.rank import RankSelection


def select_rank(
    X: Any,
    ranks: Iterable[int] | None = None,
    criterion: Literal["mdl", "heldout"] = "mdl",
    *,
    sample_weight: Any = None,
    **parameters: Any,
) -> RankSelection:
    """Judge numbers of factors by description length or by entries held out.

    With ``objective="errors"`` one search finds the whole curve of errors against the number of
    factors: ``costs``, ``missed`` and ``false_ones`` beside the description length.

    Parameters
    ----------
    X : as in `BooleanMatrixFactorization.fit`, shape (M, N)
    ranks : iterable of int, optional
        The ranks to try. Left out: from 1 up, until five beyond the best one brought nothing.
    criterion : {"mdl", "heldout"}
        "mdl": the description length of factors and errors in bits; "heldout": the log-loss of
        entries held out, in four parts.
    sample_weight : array or sparse matrix, optional
        As in `BooleanMatrixFactorization.fit`, with objective="errors".
    **parameters
        Those of `BooleanMatrixFactorization`.

    Returns
    -------
    RankSelection
        With ``ranks``, ``scores``, ``best``; ``print`` shows the table, ``plot`` draws it. Ctrl-C
        ends the search early: the ranks tried so far are judged, ``interrupted`` is True, and a
        checkpoint stays where it is. So does `max_time`, except that ``interrupted`` is False and
        the checkpoint is removed.

    Examples
    --------
    >>> from boolweave import select_rank
    >>> from boolweave.datasets import make_boolean
    >>> planted = make_boolean(60, 60, 3, flip=0.02, random_state=0)
    >>> select_rank(planted.observations, ranks=range(1, 6), random_state=0).best
    3
    """
    if criterion not in ("mdl", "heldout"):
        raise ValueError(f'criterion must be "mdl" or "heldout", got {criterion!r}')
    wanted = None if ranks is None else [int(k) for k in ranks]
    if wanted is not None and (not wanted or min(wanted) < 1):
        raise ValueError(f"ranks must be whole numbers from 1 up, at least one; got {wanted}")
    estimator = BooleanMatrixFactorization("auto", **parameters)
    check_fit_parameters(estimator, {"sample_weight": sample_weight})
    observations = estimator._checked(X)
    if estimator.objective == "errors":
        if criterion == "heldout":
            raise ValueError(
                'criterion="heldout" asks what predicts best, `objective="errors"` what explains '
                'best: use criterion="mdl", or set `objective="posterior"`'
            )
        return fewest_errors.select_rank(estimator, observations.to_local(), wanted, sample_weight)
    settings = settings_of(estimator, observations)
    with estimator._recording(
        observations, settings, ranks=wanted, criterion=criterion
    ) as (recorder, random):  # fmt: skip
        deadline = Deadline(estimator.max_time)
        try:
            selection, _ = rank.search(
                observations, settings, random, wanted, criterion, deadline, recorder
            )
        except KeyboardInterrupt:
            if not deadline.passed:
                raise
            raise ValueError(
                f"max_time={estimator.max_time:g} seconds were over before one rank was judged: "
                "give more time"
            ) from None
        if deadline.passed:
            selection = replace(selection, interrupted=False)
        if not selection.interrupted:
            recorder.finish()
    return selection


def load(path: str | Path) -> BooleanMatrixFactorization:
    """Read a model that `BooleanMatrixFactorization.save` wrote.

    Examples
    --------
    >>> import tempfile, pathlib, boolweave
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> boolweave.BooleanMatrixFactorization(n_components=1).fit([[1, 0], [1, 0]]).save(path)
    >>> boolweave.load(path).components_
    array([[1, 0]], dtype=uint8)
    """
    return saving.load(path, BooleanMatrixFactorization)


def factorize(
    X: Any,
    n_components: int | Literal["auto"] = "auto",
    *,
    sample_weight: Any = None,
    **parameters: Any,
) -> Result:
    """Find the factors of a Boolean matrix with the fewest wrong entries.

    Parameters
    ----------
    X : as in `BooleanMatrixFactorization.fit`, shape (M, N)
    n_components : int or "auto", default="auto"
        Number of factors K.
    sample_weight : array or sparse matrix, optional
        As in `BooleanMatrixFactorization.fit`.
    **parameters
        Those of `BooleanMatrixFactorization`, with one other default: objective="errors". It is
        "posterior" where a parameter is given that only that has, such as `noise` or `method`.

    Returns
    -------
    Result
        With ``X`` (M, K), ``Y`` (K, N), ``Z`` (M, N), their log-odds and the history of the run;
        ``cost`` is the number of wrong entries.

    Examples
    --------
    >>> from boolweave import factorize
    >>> found = factorize([[1, 1, 0], [1, 1, 0], [0, 0, 0]], n_components=1, random_state=0)
    >>> found.Y, found.cost
    (array([[1, 1, 0]], dtype=uint8), 0.0)
    """
    estimator = BooleanMatrixFactorization(n_components, **with_objective(parameters))
    return estimator._find(X, sample_weight=sample_weight)[0]


def complete(X: Any, n_components: int | Literal["auto"] = "auto", **parameters: Any) -> Result:
    """Fill the holes of a Boolean matrix; the answer is `Result.completed`.

    The parameters are those of `BooleanMatrixFactorization`, except that entries which a sparse
    matrix does not store are missing.

    Examples
    --------
    >>> from boolweave import complete
    >>> nan = float("nan")
    >>> complete([[1, 1, 0], [1, nan, 0], [1, 1, 0]], n_components=1, random_state=0).completed
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 1, 0]], dtype=uint8)
    """
    estimator = BooleanMatrixFactorization(n_components, **{"absent": "missing", **parameters})
    return estimator._find(X)[0]
