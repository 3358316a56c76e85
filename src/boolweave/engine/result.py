"""The result of a run, its predictions of entries, and the order of its factors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.data.frames import Frame, polars_table
from boolweave.data.labels import name_of
from boolweave.data.observed import ObservedEntries
from boolweave.engine import prediction
from boolweave.engine.prediction import FoldIn
from boolweave.model.model import Model, differ_by_factor
from boolweave.model.odds import sigmoid
from boolweave.model.products import boolean_product
from boolweave.runtime.types import Array, Floats, Integers
from boolweave.runtime.words import counted

Bits: TypeAlias = NDArray[np.uint8]
Kind: TypeAlias = Literal["observed", "latent"]


# Log-odds of the members of a factor that has none.
EMPTY = 30.0


class Ending(StrEnum):
    """Why a run ended; a checkpoint stores the text."""

    CONVERGED = "converged"
    OUT_OF_ITERATIONS = "out of iterations"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"

    @classmethod
    def of(cls, converged: bool, interrupted: bool = False) -> Ending:
        """The ending of a run; an interrupted run has not converged."""
        if interrupted:
            return cls.INTERRUPTED
        return cls.CONVERGED if converged else cls.OUT_OF_ITERATIONS


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a run: the beliefs of the best iterate, and the history of the run.

    Attributes
    ----------
    row_log_odds : (M, K) array
        Log-odds of x = 1; ±∞ if the prior was certain.
    column_log_odds : (K, N) array
        Log-odds of y = 1.
    log_posterior : float
        log p(X) + log p(Y) + log p(O | X • Y) of the decoded factors.
    ending : Ending
        Why the run ended: the messages converged, the maximum number of iterations or the time
        limit was reached, or Ctrl-C was pressed.
    converged, interrupted : bool
        Whether the messages converged, and whether Ctrl-C ended the run.
    n_iter : int
        Number of iterations done.
    history : dict
        ``"residual"``, ``"log_posterior"`` and ``"changes"``, the number of entries of X and Y
        that changed, with one number per iteration, each (n_iter,). For a search for the fewest
        errors, it has ``"error"``, the smallest error so far.
    marginal : bool
        Whether the log-odds are marginals (sum-product), which yield probabilities.
    stability : (K,) array or None
        Fraction of the starts in which each factor was found again.
    cost : float or None
        The error of the factors, if the fewest errors were searched.
    bound : float or None
        A proven lower bound of the error of this number of factors. If it equals `cost`, no factors
        are better.
    redundancy : (K,) array or None
        The increase of the error if a factor is left out.

    Examples
    --------
    >>> from boolweave import factorize
    >>> found = factorize([[1, 1, 0], [1, 1, 0], [0, 0, 1]], n_components=2, random_state=0)
    >>> found.X  # the rows of each factor, (M, K)
    array([[1, 0],
           [1, 0],
           [0, 1]], dtype=uint8)
    >>> found.Y  # the columns of each factor, (K, N)
    array([[1, 1, 0],
           [0, 0, 1]], dtype=uint8)
    >>> found.cost, found.bound
    (0.0, 0.0)
    """

    model: Model
    observations: ObservedEntries
    row_log_odds: Floats
    column_log_odds: Floats
    log_posterior: float
    ending: Ending
    n_iter: int
    history: dict[str, NDArray[np.float64]]
    marginal: bool = False
    stability: NDArray[np.float64] | None = None
    cost: float | None = None
    bound: float | None = None
    redundancy: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ending", Ending(self.ending))

    def __repr__(self) -> str:
        errors = "" if self.cost is None else f", error {self.cost:g} (at least {self.bound:g})"
        return f"Result({self._size}{errors}, {self.ending.value})"

    @property
    def _size(self) -> str:
        """The numbers of factors, rows and columns in words."""
        (n_rows, K), n_columns = self.row_log_odds.shape, self.column_log_odds.shape[1]
        return f"{counted(K, 'factor')} of {n_rows:,} rows × {n_columns:,} columns"

    @property
    def converged(self) -> bool:
        """Whether the messages converged."""
        return self.ending is Ending.CONVERGED

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the run."""
        return self.ending is Ending.INTERRUPTED

    @property
    def zeros(self) -> Literal["exact", "collective"]:
        """How observed zeros were treated: one by one, or all of a row at once."""
        return self.observations.zeros

    def as_interrupted(self) -> Result:
        """The same result, marked as interrupted by Ctrl-C."""
        return replace(self, ending=Ending.INTERRUPTED)

    # ------------------------------------------------------------ factors and the whole matrix

    @property
    def X(self) -> Bits:
        """The decoded row factor, (M, K)."""
        return (self.row_log_odds > 0).astype(np.uint8)

    @cached_property
    def Y(self) -> Bits:
        """The decoded column factor, (K, N)."""
        return (self.column_log_odds > 0).astype(np.uint8)

    @property
    def Z(self) -> Bits:
        """The decoded matrix, (M, N): 1 where P(z = 1) > ½, or the product of decoded factors."""
        if not self.marginal:
            return boolean_product(self.X, self.Y, self.model.product)
        return self._filled(self.predict_rows(), np.uint8)

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """P(z = 1) of every entry, (M, N)."""
        return self.probability_matrix("latent", np.float32)

    def probability_matrix(
        self, kind: Kind = "observed", dtype: type[np.floating[Any]] = np.float64
    ) -> Floats:
        """P(o = 1), or P(z = 1) if `kind` is "latent", of every entry, (M, N)."""
        return self._filled(self.predict_proba_rows(kind=kind), dtype)

    @property
    def completed(self) -> Bits:
        """The observed values, and Z for missing entries, (M, N)."""
        filled, observations = self.Z, self.observations.to_local()
        filled[observations.rows_of_entries(), observations.indices] = observations.values
        return filled

    def _filled(self, pieces: Iterator[tuple[slice, Array]], dtype: type[np.generic]) -> Array:
        out = np.empty((len(self.row_log_odds), self.column_log_odds.shape[1]), dtype=dtype)
        for rows, values in pieces:
            out[rows] = values
        return out

    # ------------------------------------------------------------ some entries

    def predict(self, rows: Integers, columns: Integers) -> Bits:
        """The decoded value at pairs of rows and columns, (n,)."""
        setting = self.model.product, self.marginal
        latent = prediction.latent_at(*self._factors, rows, columns, *setting)
        return (latent > 0.5).astype(np.uint8)

    def predict_proba(
        self, rows: Integers, columns: Integers, kind: Kind = "observed"
    ) -> NDArray[np.float64]:
        """P(o = 1), or P(z = 1) if `kind` is "latent", at pairs of rows and columns, (n,)."""
        latent = prediction.latent_at(*self._factors, rows, columns, self.model.product)
        return latent if kind == "latent" else self._observed(latent, rows, columns)

    def predict_rows(self) -> Iterator[tuple[slice, Bits]]:
        """Decoded values of all entries, in pieces: a slice of the rows, and (some, N) values."""
        setting = self.model.product, self.marginal
        for some, latent in prediction.latent_rows(*self._factors, *setting):
            yield some, (latent > 0.5).astype(np.uint8)

    def predict_proba_rows(
        self, rows: Integers | None = None, kind: Kind = "observed"
    ) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """P(o = 1), or P(z = 1) if `kind` is "latent", of all rows or of those asked for.

        It is yielded in pieces: a slice of the rows asked for, and (some, N) probabilities.
        """
        columns = np.arange(self.column_log_odds.shape[1])
        for some, latent in prediction.latent_rows(*self._factors, self.model.product, rows=rows):
            if kind == "observed":
                which = np.arange(some.start, some.stop) if rows is None else rows[some]
                latent = self._observed(latent, which[:, None], columns)
            yield some, latent

    @property
    def _factors(self) -> tuple[Floats, Floats]:
        return self.row_log_odds, self.column_log_odds

    def _observed(self, latent: Array, rows: Integers, columns: Integers) -> NDArray[np.float64]:
        """P(o = 1) of entries whose P(z = 1) is `latent`."""
        shape = self.observations.shape
        return self.model.channel.probability_of_one(latent, rows, columns, shape)

    def contributions(
        self, row: int, column: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The contribution of each factor to an entry: (K,) probabilities and (K,) shares.

        A probability is that of both the row and the column belonging to the factor. Shares add up
        to 1; they are shares of −log P(z = 0) = −Σ log(1 − p) with OR, and of Σ p with XOR. They
        are 0 for factors without the row or the column, unless a 1 has no other factors.
        """
        x, y = self.row_log_odds[row], self.column_log_odds[:, column]
        both = sigmoid(x) * sigmoid(y)
        weight = both if self.model.product == "xor" else -np.log1p(-np.minimum(both, 1 - 1e-12))
        member = (x > 0) & (y > 0)
        if not member.any() and self.predict(np.array([row]), np.array([column]))[0]:
            member = weight >= 0.1 * weight.sum()  # each is unlikely, but together they are not
        weight = np.where(member, weight, 0.0)
        return both, weight / (weight.sum() or 1.0)

    def fold_in(self, damping: float = 0.4, n_jobs: int | None = None) -> FoldIn:
        """A decoder of new rows for the fixed column factor, with `n_jobs` threads."""
        return FoldIn(self, damping, n_jobs)

    def members(self, *, full: bool = False, frame: Frame | None = None) -> Any:
        """List the members of all factors in a table with one line for each member.

        Parameters
        ----------
        full : bool
            Whether there is a line for every row and column, with a column `member` of 0 and 1.
        frame : Frame, optional
            The form of the table; by default, it is a polars table.

        Returns
        -------
        DataFrame
            A table with the columns factor (from 1), axis ("row" or "column"), label and
            probability. Members are in the order of the fitted table.

        Examples
        --------
        >>> from boolweave import factorize
        >>> found = factorize([[1, 1, 0], [1, 1, 0], [0, 0, 0]], n_components=1, random_state=0)
        >>> found.members()["label"].to_list()
        ['row 1', 'row 2', 'column 1', 'column 2']
        """
        table = self._member_lines(full)
        return polars_table(table) if frame is None else frame.table(table)

    def _member_lines(self, full: bool) -> dict[str, Array]:
        """The columns of the table of `members`."""
        lines: dict[str, list[Array]] = {
            name: [] for name in ("factor", "axis", "label", "member", "probability")
        }
        for k in range(self.model.n_components):
            sides = ("row", self.row_log_odds[:, k]), ("column", self.column_log_odds[k])
            for axis, odds in sides:
                chosen = np.arange(len(odds)) if full else np.flatnonzero(odds > 0)
                names = [name_of(self.observations, int(i), axis) for i in chosen]
                lines["factor"].append(np.full(len(chosen), k + 1, dtype=np.int32))
                lines["axis"].append(np.full(len(chosen), axis))
                lines["label"].append(np.array(names, dtype=np.str_))
                lines["member"].append((odds[chosen] > 0).astype(np.uint8))
                lines["probability"].append(sigmoid(odds[chosen]).round(6))
        if not full:
            del lines["member"]
        return {name: np.concatenate(parts) for name, parts in lines.items()}

    # ------------------------------------------------------------ counts and order

    def counts(self, observations: ObservedEntries) -> NDArray[np.int64]:
        """Count entries by observed value (first axis) and value of `Z` (second axis): (2, 2)."""
        columns = prediction.FixedColumns(self.model, self.column_log_odds, self.marginal)
        count = partial(prediction.counts, fixed=columns)
        return observations.sum_over_rows(count, self.row_log_odds)

    def decoded_counts(self, observations: ObservedEntries) -> NDArray[np.int64]:
        """The same counts for the product of `X` and `Y`, even if `Z` is based on marginals."""
        return replace(self, marginal=False).counts(observations)

    def with_factors(self, chosen: ArrayLike) -> Result:
        """The same with some of the factors, or with all of them in another order."""
        chosen, K = np.asarray(chosen), self.model.n_components
        row_prior, column_prior = np.asarray(self.model.row_prior), self.model.column_prior
        if K > 1 and row_prior.ndim and row_prior.shape[-1] == K:
            row_prior = row_prior[..., chosen]
        if K > 1 and np.ndim(column_prior) == 2 and len(np.asarray(column_prior)) == K:
            column_prior = np.asarray(column_prior)[chosen]
        return replace(
            self,
            model=replace(
                self.model, n_components=len(chosen), row_prior=row_prior, column_prior=column_prior
            ),
            row_log_odds=self.row_log_odds[:, chosen],
            column_log_odds=self.column_log_odds[chosen],
            stability=None if self.stability is None else self.stability[chosen],
            redundancy=None if self.redundancy is None else self.redundancy[chosen],
        )

    def with_empty_factors(self, n_components: int) -> Result:
        """The same with as many factors, those that it does not have yet being empty."""
        n_more = n_components - self.model.n_components
        if n_more <= 0:
            return self
        last = self.model.n_components - 1
        padded = self.with_factors([*range(last + 1), *[last] * n_more])
        padded.row_log_odds[:, last + 1 :] = -EMPTY
        padded.column_log_odds[last + 1 :] = -EMPTY
        if padded.stability is not None:
            padded.stability[last + 1 :] = 0
        return padded


def numbered(result: Result, row_prior: Any = None, column_prior: Any = None) -> Result:
    """The result with its factors in the order of their numbers: the largest tile first.

    If the user gave a prior that differs from factor to factor, the order stays the same, so that
    factors correspond to the prior.
    """
    if differ_by_factor(row_prior, column_prior):
        return result
    order = factor_order(result.X, result.Y)
    return result if (np.diff(order) > 0).all() else result.with_factors(order)


def factor_order(X: ArrayLike, Y: ArrayLike) -> NDArray[np.intp]:
    """Factors by the size of their tiles, the largest first, shape (K,).

    Parameters
    ----------
    X, Y : arrays of shape (M, K) and (K, N)
        The factors, zeros and ones.
    """
    size = np.asarray(X, dtype=np.int64).sum(axis=0) * np.asarray(Y, dtype=np.int64).sum(axis=1)
    return np.argsort(-size, kind="stable")


def tile_order(members: ArrayLike, weight: ArrayLike | None = None) -> NDArray[np.intp]:
    """An order of items in which those with the same factors are next to each other.

    Memberships are sorted as a reflected Gray code, in which neighbours differ little: the first
    and the second factor become one run each, the third at most two.

    Parameters
    ----------
    members : array of shape (n, K)
        Whether an item belongs to a factor, with the columns in order of importance.
    weight : array of shape (n,), optional
        Among items with the same factors, those with larger weights come first.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> tile_order([[0, 1], [1, 0], [1, 1], [0, 0]]).tolist()
    [1, 2, 0, 3]
    """
    bits = np.asarray(members, dtype=np.uint8)
    n = len(bits)
    last = np.zeros(n) if weight is None else -np.asarray(weight, dtype=np.float64)
    # The bits of the rank of a word in the Gray code are the running XOR of the bits of the word.
    # Here ones come first: 1 - rank bit sorts in the reverse order of the code.
    rank = 1 - np.bitwise_xor.accumulate(bits, axis=1)
    return np.lexsort((last, *rank.T[::-1]))
