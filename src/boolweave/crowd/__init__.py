"""What a crowd agrees on: the true answers to tasks, and how reliable each worker is.

The model is that of Dawid and Skene (1979) for two classes, which is a Boolean factorization with
one factor that all columns have: rows are tasks, columns are workers, the row factor is the true
answer, and the noise of a column are the two error rates of a worker. How the rates are learned is
not here but in `boolweave.fit`. Start reading with `Consensus`, the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from boolweave.data.convert import is_table
from boolweave.data.frames import Frame, Table
from boolweave.data.observations import Observations
from boolweave.estimator import BooleanMatrixFactorization
from boolweave.fit.learn import UninformativeWarning
from boolweave.model.odds import sigmoid
from boolweave.runtime.types import Doubles
from boolweave.runtime.words import shortened

if TYPE_CHECKING:
    from numpy.random import RandomState

Labels = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Consensus:
    """The answer of a crowd to every task, and the rates of every worker.

    Attributes
    ----------
    tasks : (M,) array of object
        The tasks, in the order in which they occur.
    workers : (N,) array of object
        The workers, in the order in which they occur.
    classes : (2,) array of object
        The two answers; probabilities are those of the second.
    probabilities : (M,) array
        P(the true answer is ``classes[1]``) of each task.
    sensitivity, specificity : (N,) arrays
        P(a worker answers ``classes[1]``, given that it is true), and P(a worker answers
        ``classes[0]``, given that this is true).
    n_answers : (N,) array of int
        Number of answers of each worker.
    prevalence : float
        P(``classes[1]``) of a task before its answers are known.
    """

    tasks: Labels
    workers: Labels
    classes: Labels
    probabilities: Doubles
    sensitivity: Doubles
    specificity: Doubles
    n_answers: NDArray[np.int64]
    prevalence: float
    _frame: Frame

    @property
    def labels(self) -> Labels:
        """The more probable answer to each task, (M,)."""
        return self.classes[(self.probabilities > 0.5).astype(int)]

    @property
    def task_table(self) -> Table:
        """A table with a line for each task: its label, and the probability of the second class.

        It belongs to the library of the table of answers, or to polars.
        """
        return self._frame.table(
            {
                "task": _texts(self.tasks),
                "label": [str(label) for label in self.labels],
                "probability": self.probabilities,
            }
        )

    @property
    def worker_table(self) -> Table:
        """A table with a line for each worker: number of answers, sensitivity and specificity."""
        return self._frame.table(
            {
                "worker": _texts(self.workers),
                "answers": self.n_answers,
                "sensitivity": self.sensitivity,
                "specificity": self.specificity,
            }
        )

    def __repr__(self) -> str:
        return f"Consensus({len(self.tasks)} tasks, {len(self.workers)} workers)"


def consensus(
    answers: Any, *, random_state: int | RandomState | None = 0, n_jobs: int | None = None
) -> Consensus:
    """Find the true answers to tasks that workers answered with errors of their own.

    A worker has two error rates, which are learned with the answers and shrunk to those of all
    workers, so that a worker with few answers is trusted as much as the average. A worker who
    answers at random does not count, and one who answers the opposite counts in reverse.

    Parameters
    ----------
    answers : table, or sequence of (task, worker, answer)
        One line for each answer. A table (pandas, polars or Arrow) has columns named task, worker
        and answer (or label), or else its first three columns are these. There must be two
        different answers, such as 0 and 1 or "no" and "yes"; missing ones are left out. If a worker
        answered a task more than once, the majority counts.
    random_state : int, RandomState or None
        Random seed.
    n_jobs : int, optional
        Number of threads.

    Returns
    -------
    Consensus

    Examples
    --------
    >>> from boolweave.crowd import consensus
    >>> answers = [
    ...     (task, worker, (task + (worker == "Cy")) % 2)
    ...     for task in range(20)
    ...     for worker in ("Ann", "Bo", "Cy", "Di")
    ... ]
    >>> found = consensus(answers)
    >>> found.labels[:4].tolist()
    [0, 1, 0, 1]
    >>> found.sensitivity.round(1).tolist()  # Cy always says the opposite
    [1.0, 1.0, 0.1, 1.0]
    """
    tasks, workers, given = _columns(answers)
    classes = _two_classes(given)
    task_names, rows = _numbered(tasks)
    worker_names, columns = _numbered(workers)
    values = np.array([answer == classes[1] for answer in given], dtype=np.uint8)
    shape = len(task_names), len(worker_names)
    observations = Observations.from_triples(
        rows, columns, values, shape=shape, duplicates="majority"
    )
    model = BooleanMatrixFactorization(
        1, column_prior=1.0, noise="learn-columns", random_state=random_state, n_jobs=n_jobs
    )
    with warnings.catch_warnings():
        # Their remedies are for factors that are unknown.
        for kind in (UninformativeWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", kind)
        model.fit(observations)
    channel = model.noise_
    return Consensus(
        task_names,
        worker_names,
        classes,
        sigmoid(model.row_log_odds_[:, 0]),
        np.broadcast_to(channel.one_given_one, shape[1:]).astype(np.float64),
        1 - np.broadcast_to(channel.one_given_zero, shape[1:]).astype(np.float64),
        np.bincount(observations.indices, minlength=shape[1]),
        float(np.mean(model.row_prior_)),
        Frame.of(answers) or Frame("polars"),
    )


def _columns(answers: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Tasks, workers and answers, without missing answers."""
    expected = "expected a table, or triples, of task, worker and answer"
    if is_table(answers):
        import narwhals.stable.v1 as nw

        frame = nw.from_native(answers, eager_only=True)
        names = {str(name).lower(): name for name in frame.columns}
        answer = next((name for name in ("answer", "label") if name in names), None)
        if len(frame.columns) < 3:
            raise ValueError(f"{expected}, got {len(frame.columns)} columns")
        if answer is not None and "task" in names and "worker" in names:
            chosen = [names["task"], names["worker"], names[answer]]
        else:
            chosen = list(frame.columns[:3])
        lists = [frame[name].to_list() for name in chosen]
    else:
        if not isinstance(answers, Iterable) or isinstance(answers, str | bytes):
            raise ValueError(f"{expected}, got {shortened(repr(answers), 60)}")
        lines = [tuple(line) if isinstance(line, Iterable) else (line,) for line in answers]
        wrong = next((line for line in lines if len(line) != 3), None)
        if wrong is not None:
            raise ValueError(f"{expected}, got {shortened(repr(wrong), 60)}")
        lists = [list(column) for column in zip(*lines, strict=True)] or [[], [], []]
    kept = [line for line in zip(*lists, strict=True) if not _is_missing(line[2])]
    if not kept:
        raise ValueError(f"{expected}, got no answer")
    tasks, workers, given = zip(*kept, strict=True)
    return list(tasks), list(workers), list(given)


def _is_missing(answer: Any) -> bool:
    return answer is None or answer != answer


def _two_classes(given: list[Any]) -> Labels:
    """The two different answers in their order, as numbers or as text."""
    different = list(dict.fromkeys(given))
    try:
        different.sort()
    except TypeError:
        different.sort(key=str)
    if len(different) != 2:
        names = shortened(", ".join(map(str, different)), 60)
        raise ValueError(
            f"expected two different answers, got {len(different)} ({names}); "
            "leave out or merge the others"
        )
    return _objects(different)


def _numbered(names: list[Any]) -> tuple[Labels, NDArray[np.int64]]:
    """Different names in the order in which they occur, and the number of each."""
    numbers: dict[Any, int] = {}
    positions = [numbers.setdefault(name, len(numbers)) for name in names]
    return _objects(list(numbers)), np.array(positions, dtype=np.int64)


def _objects(values: list[Any]) -> Labels:
    """An array of objects, also if they are sequences."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _texts(names: Labels) -> list[Any]:
    """Names as whole numbers if all are, else as text."""
    whole = all(isinstance(name, int | np.integer) for name in names)
    return [int(name) if whole else str(name) for name in names]
