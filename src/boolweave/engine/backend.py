"""The fixed and the changing data of a run, and the protocol of back ends.

A `Problem` is fixed and a `State` holds messages. Beliefs follow from both: the priors of the
problem plus the sums of the messages. No state holds beliefs, so none can hold the priors of
another problem. A `Backend` holds the messages and does the work: with floats (`floats`), with
small integers (`integers`), with all zeros of a row at once (`zeros.backend`), or with the workers
of a cluster (`boolweave.distributed`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from boolweave.engine.footprint import MAX_BLOCK, MAX_BLOCKS, MIN_BLOCK
from boolweave.engine.kernels.variables import COARSE, FINE
from boolweave.model.model import Model
from boolweave.model.odds import HARD_BELIEF
from boolweave.runtime.threads import balanced_runs, cut
from boolweave.runtime.types import Array, Floats

# A field is stored in bytes: 32 steps for a standard deviation, clipped at four of them.
STEPS = 32
LARGEST = 127


@dataclass(frozen=True, eq=False)
class InitialBeliefs:
    """Log-odds to be added to the beliefs of all variables, in whole steps: a field that fades.

    Random first messages break the symmetry between factors. With damping λ, (1 − λ)^t of each
    remains after t iterations; their sums over a row or a column, Gaussian for more than a few
    entries, fade in the same way. So a field of one number for each variable does what two random
    messages for each entry and factor would do, and integer messages, which cannot hold arbitrary
    values, can start neutral. The same kind of field starts a run from approximately known factors.
    """

    rows: NDArray[np.int8]  # (M, K)
    columns: NDArray[np.int8]  # (K, N)
    row_step: float
    column_step: float
    least: float  # below this, in log-odds, it is dropped

    @classmethod
    def random(
        cls,
        shape: tuple[int, int],
        n_components: int,
        deviations: tuple[float, float],
        least: float,
        random: np.random.Generator,
    ) -> InitialBeliefs:
        """Gaussian numbers with the standard deviations of rows and of columns."""
        rows = _gaussian((shape[0], n_components), random)
        columns = _gaussian((n_components, shape[1]), random)
        return cls(rows, columns, deviations[0] / STEPS, deviations[1] / STEPS, least)

    @classmethod
    def of_log_odds(cls, rows: Floats, columns: Floats, least: float) -> InitialBeliefs:
        """Given log-odds (M, K) and (K, N), rounded to 127 steps on either side of 0."""
        sides, steps = [], []
        for odds in (rows, columns):
            step = max(float(np.abs(odds).max(initial=0.0)), least) / LARGEST
            sides.append(np.rint(odds / step).astype(np.int8))
            steps.append(step)
        return cls(sides[0], sides[1], steps[0], steps[1], least)

    def of_rows(self, rows: slice) -> Floats:
        """Log-odds of some rows, (rows, K)."""
        return self.rows[rows] * np.float32(self.row_step)

    def of_columns(self) -> Floats:
        """Log-odds of the columns, (K, N)."""
        return self.columns * np.float32(self.column_step)

    def part(self, rows: slice) -> InitialBeliefs:
        """The field of some rows, and of all columns."""
        return replace(self, rows=self.rows[rows])

    def faded(self, damping: float) -> InitialBeliefs | None:
        """The field after one more iteration; None if it has faded away."""
        kept = 1 - damping
        row_step, column_step = kept * self.row_step, kept * self.column_step
        if LARGEST * max(row_step, column_step) < self.least:
            return None
        return replace(self, row_step=row_step, column_step=column_step)


def _gaussian(shape: tuple[int, int], random: np.random.Generator) -> NDArray[np.int8]:
    """Standard normal numbers in steps; they do not depend on the size of the pieces."""
    values = np.empty(shape[0] * shape[1], dtype=np.int8)
    for some in cut(len(values), 1, 1 << 20):  # as many as are drawn at once
        drawn = random.standard_normal(some.stop - some.start, dtype=np.float32)
        drawn *= STEPS
        np.clip(drawn, -LARGEST, LARGEST, out=drawn)
        values[some] = np.rint(drawn)
    return values.reshape(shape)


Semiring = Literal["max-sum", "sum-product"]


@dataclass(frozen=True, eq=False)
class Problem:
    """All that stays fixed during a run, as log-odds."""

    model: Model
    shape: tuple[int, int]
    # a (M, K) and b (K, N); with a length of 1 along axes that they do not depend on
    row_prior: Floats
    column_prior: Floats
    # log p(X = 0, Y = 0, O | Z = 0), to which log-posteriors are relative
    log_probability_of_zeros: float

    @property
    def n_components(self) -> int:
        """Number of factors K."""
        return self.model.n_components


class Messages:
    """All messages of a problem; each back end has a kind of its own."""


@dataclass(eq=False)
class State:
    """The messages after some iterations."""

    messages: Messages | None  # in the form of the back end; None if the run will not be continued
    semiring: Semiring = "max-sum"
    n_iter: int = 0
    # Largest change of a message, to a row or to a column, in the last step: in max-sum relative to
    # its bound |L|, in sum-product in log-odds
    residual: float = np.inf
    n_changed: tuple[int, int] = (0, 0)  # decoded bits of X and of Y that the last step changed
    # Sum-product: the sum of P(z = 1 | o) over the entries with L > 0, and with L < 0
    expected_ones: tuple[float, float] = (0.0, 0.0)
    field: InitialBeliefs | None = None  # the remainder of the first beliefs


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Log-odds of all variables."""

    rows: Floats  # Ξ (M, K)
    columns: Floats  # Υ (K, N)


class KeptBeliefs(Protocol):
    """Beliefs of one iterate, which the next step does not change."""

    @property
    def rows(self) -> Floats:
        """Ξ (M, K)."""
        ...

    @property
    def columns(self) -> Floats:
        """Υ (K, N)."""
        ...


P = TypeVar("P", bound=Problem)


class Backend(Protocol[P]):
    """A back end, which holds the messages and does the work for one set of observations."""

    def problem(self, model: Model) -> P:
        """Make the problem of the observations and a model."""
        ...

    def random_start(self, problem: P, random: np.random.Generator) -> State:
        """Make random messages, or neutral ones and a random field if they cannot be random."""
        ...

    def start(self, problem: P, field: InitialBeliefs | None = None) -> State:
        """Make neutral messages; beliefs are the priors and the field."""
        ...

    def to_sum_product(self, problem: P, state: State) -> State:
        """Convert the messages of max-sum, so that sum-product can continue from them."""
        ...

    def step(self, problem: P, state: State, damping: float) -> None:
        """Do one iteration over all entries; the messages of the state are replaced."""
        ...

    def beliefs(self, problem: P, state: State) -> Beliefs:
        """Add the priors of the problem, the sums of the messages and the field."""
        ...

    def keep_beliefs(self, problem: P, state: State, before: KeptBeliefs | None) -> KeptBeliefs:
        """Keep the beliefs of this iterate; those kept before may be overwritten."""
        ...

    def log_posterior(self, problem: P, state: State) -> float:
        """log p(X) + log p(Y) + Σ log p(o|z) of the factors that the beliefs decode to."""
        ...

    def allows(self, model: Model) -> bool:
        """Whether messages of this kind can represent a model."""
        ...

    def mean_evidence(self, problem: P) -> float:
        """Mean evidence |L| of an observed entry."""
        ...

    def to_floats(self, problem: P, state: State) -> tuple[AnyBackend, Problem, State]:
        """Convert max-sum to float messages: the back end, its problem and its state."""
        ...

    def check(self, problem: P, state: State) -> None:
        """Raise ValueError unless the messages of a stored state fit this problem."""
        ...


AnyBackend: TypeAlias = Backend[Any]


def split_rows(indptr: NDArray[np.int64], at_least: int = 1) -> list[tuple[int, int]]:
    """Divide the rows into blocks of about equally many entries, for any number of threads.

    There are more than MAX_BLOCKS if `at_least` asks for them, or if they would be too large.
    """
    n_rows = len(indptr) - 1
    n_entries = int(indptr[-1])
    n_blocks = min(MAX_BLOCKS, n_entries // MIN_BLOCK)
    if n_blocks > 1:
        n_blocks += n_blocks % 2  # an even number, so that two threads end together
    n_blocks = min(max(1, n_blocks, n_entries // MAX_BLOCK, at_least), max(n_rows, 1))
    return [(run.start, run.stop) for run in balanced_runs(indptr, n_blocks)]


def check_columns(n_columns: int) -> None:
    """Raise ValueError if there are more columns than can be numbered."""
    # Columns are numbered by unsigned 32-bit integers, rows and entries by 64-bit integers.
    most_columns = 2**32
    if n_columns > most_columns:
        raise ValueError(
            f"at most {most_columns} columns are possible, got {n_columns}; exchange rows and "
            "columns"
        )


def log_probability_of_priors(prior: Floats, n_variables: int) -> float:
    """log p(all variables are 0); those whose prior is certain do not count."""
    soft = prior[np.abs(prior) < HARD_BELIEF]
    repeats = n_variables / max(1, prior.size)
    return -repeats * float(np.logaddexp(0.0, soft, dtype=np.float64).sum())


def from_steps(steps: NDArray[np.int64]) -> float:
    """Log-odds from numbers of coarse and fine steps, in which priors are summed exactly."""
    coarse, fine = steps.tolist()
    return float(coarse / COARSE + fine / FINE)


# ---------------------------------------------------------------- contents of checkpoints

# On a cluster, sums may be of another type than on one machine.
_SUMS = (np.int16, np.int32, np.int64)


def no_array(shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Make an array that takes no memory, with which others are compared."""
    return np.broadcast_to(np.zeros((), dtype=dtype), shape)


def check_like(template: object, stored: object) -> None:
    """Raise ValueError unless two objects agree in classes, lengths, shapes and types."""
    if isinstance(template, np.ndarray):
        if not isinstance(stored, np.ndarray):
            raise ValueError("expected an array")
        same = stored.shape == template.shape and stored.dtype == template.dtype
        if not (same and stored.flags.c_contiguous):
            raise ValueError(
                f"expected {template.dtype} {template.shape}, got {stored.dtype} {stored.shape}"
            )
    elif isinstance(template, list):
        if type(stored) is not list or len(stored) != len(template):
            raise ValueError("other blocks")
        for one, other in zip(template, stored, strict=True):
            check_like(one, other)
    elif is_dataclass(template):
        if type(stored) is not type(template):
            raise ValueError(f"expected {type(template).__name__}")
        for field in fields(template):
            one, other = getattr(template, field.name), getattr(stored, field.name)
            if field.name == "sums" and isinstance(other, np.ndarray) and other.dtype in _SUMS:
                one = no_array(one.shape, other.dtype)
            check_like(one, other)
    elif isinstance(template, int):
        if not isinstance(stored, int | np.integer) or stored < 0:
            raise ValueError("expected a whole number")
    elif isinstance(stored, np.ndarray | dict | list):  # None, or numbers that are only compared
        raise ValueError("unexpected arrays")
