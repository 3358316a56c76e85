"""Rows of a factor if the other factor is known: new rows, or old ones again.

Rows are processed in pieces, and only the answer of a piece is kept. So memory does not grow with
the entries, and the answer of a row does not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from boolweave.data.observations import ENTRIES_PER_CHUNK
from boolweave.data.ones import SparseObservations
from boolweave.engine import prediction
from boolweave.engine.kernels import folding_in, max_sum
from boolweave.engine.zeros import tiles
from boolweave.engine.zeros.new_rows import with_some_zeros
from boolweave.model.evidence import evidence_of
from boolweave.model.odds import with_infinities
from boolweave.model.products import boolean_product
from boolweave.runtime.storage import release_pages
from boolweave.runtime.threads import run_all, threads

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Observations
    from boolweave.engine.result import Kind, Result
    from boolweave.model.model import Model
    from boolweave.runtime.types import Floats

    Answer: TypeAlias = tuple[NDArray[np.uint8], Floats]

Found = TypeVar("Found")

# Number of rows that are processed at a time if their zeros are not listed.
ROWS = 2048

# To score predictions, the entries of a row are distributed in turn over this many parts, and each
# part is predicted from the others.
N_PARTS = 5


@dataclass(frozen=True, eq=False)
class FixedColumns:
    """A column factor that is held fixed while rows are decoded.

    Attributes
    ----------
    model : Model
        Product, channel and row prior of the rows.
    log_odds : (K, N) array
        Log-odds of the column factor.
    marginal : bool
        Whether these are marginals; then the log-odds of rows are marginals, too. If not, the
        decoded factor is used, and the log-odds of rows are beliefs of max-sum.
    damping : float
    """

    model: Model
    log_odds: Floats
    marginal: bool = False
    damping: float = 0.4

    @cached_property
    def bits(self) -> NDArray[np.uint8]:
        """The decoded column factor, (N, K)."""
        return np.ascontiguousarray(self.log_odds.T > 0, dtype=np.uint8)

    @cached_property
    def chance(self) -> NDArray[np.float64]:
        """P(y = 1), (N, K)."""
        return prediction.by_column(self.log_odds)

    def decode(self, piece: Observations, rows: slice, all_priors: Floats) -> Answer:
        """Factors and log-odds of the rows of a piece, given their slice and all priors."""
        model = self.model
        channel = model.channel.of_rows(rows, len(all_priors))
        model = replace(model, channel=channel)
        indptr, columns, evidence, _ = evidence_of(piece, model, rows.start)
        prior = np.ascontiguousarray(all_priors[rows])
        entries = model.product == "xor", max_sum.Entries(indptr, columns, evidence), prior
        belief = np.empty_like(prior)
        folding_in.max_sum(*entries, self.bits, self.damping, belief)
        bits = (belief > 0).astype(np.uint8)
        folding_in.improve_rows(*entries, self.bits, bits)
        if self.marginal:
            folding_in.sum_product(*entries, self.chance, self.damping, bits, belief)
        return bits, with_infinities(belief)

    def decode_sparse(self, piece: SparseObservations, prior: Floats) -> Answer:
        """The same for rows whose zeros are not listed; only zeros that factors reach count.

        prior (rows, K): log-odds of these rows.
        """
        evidence = self.model.channel.evidence_by_value()
        reach = self.chance >= tiles.NEGLIGIBLE if self.marginal else None
        some, possible = with_some_zeros(piece, self.bits, evidence, prior, reach)
        bits, odds = self.decode(some, slice(0, piece.n_rows), prior)
        return bits & possible, np.where(possible, odds, -np.inf)


@dataclass(frozen=True, eq=False)
class FoldIn:
    """Inference of new rows from a result, each only from its own entries.

    Attributes
    ----------
    result : Result
        Its column factor is held fixed. The prior of new rows is the mean of its row priors.
    damping : float
    n_jobs : int, optional
        Number of threads.
    """

    result: Result
    damping: float = 0.4
    n_jobs: int | None = None

    def transform(
        self, observations: Observations | SparseObservations, row_prior: ArrayLike | None = None
    ) -> NDArray[np.uint8]:
        """Row factors, (rows, K); their prior may be given."""
        if isinstance(observations, SparseObservations):
            return _of_sparse_rows(observations, self._columns(False, row_prior), self.n_jobs)
        return fold_in(observations, self._columns(False, row_prior), self.n_jobs)[0]

    def predict(self, observations: Observations) -> NDArray[np.uint8]:
        """Decoded values of all entries, (rows, N)."""
        result = self.result
        bits, odds = fold_in(observations, self._columns(result.marginal), self.n_jobs)
        if not result.marginal:
            return boolean_product(bits, result.Y, result.model.product)
        return replace(result, observations=observations, row_log_odds=odds).Z

    def predict_proba(self, observations: Observations, kind: Kind = "observed") -> Floats:
        """P(o = 1), or P(z = 1) if `kind` is "latent", of all entries, (rows, N)."""
        return self.of_rows(observations).probability_matrix(kind)

    def of_rows(self, observations: Observations) -> Result:
        """A result for these rows, which predicts and explains them like those of the fit."""
        fixed = self._columns(self.result.marginal)
        odds = fold_in(observations, fixed, self.n_jobs)[1]
        return replace(self.result, model=fixed.model, observations=observations, row_log_odds=odds)

    def score(self, observations: Observations | SparseObservations) -> float:
        """Fraction of the entries that are predicted correctly from the others of their row."""
        if observations.n_observed == 0:
            raise ValueError("score needs at least one observed entry, got none")
        right = n_right(observations, self._columns(self.result.marginal), self.n_jobs)
        return right / observations.n_observed

    def _columns(self, marginal: bool, row_prior: ArrayLike | None = None) -> FixedColumns:
        model = self.result.model
        if row_prior is None:
            row_prior = np.asarray(model.row_prior)
            row_prior = row_prior.mean(axis=0) if row_prior.ndim == 2 else row_prior
        of_rows = replace(model, row_prior=row_prior)
        return FixedColumns(of_rows, self.result.column_log_odds, marginal, self.damping)


def fold_in(observations: Observations, fixed: FixedColumns, n_jobs: int | None = None) -> Answer:
    """Row factors and their log-odds, (M, K) each, every row only from its own entries.

    The factors are found by max-sum from a neutral start, in which equal claims of two factors stay
    equal; then flips of single bits, as long as the log-posterior rises, decide between them.
    Marginals, if asked for, are computed by sum-product, which begins at these factors.
    """
    prior = fixed.model.prior_log_odds(observations.shape)[0]
    bits, odds = np.empty(prior.shape, dtype=np.uint8), np.empty(prior.shape)

    def one_piece(rows: slice, piece: Observations) -> None:
        bits[rows], odds[rows] = fixed.decode(piece, rows, prior)

    _each_piece(one_piece, observations, fixed.model, n_jobs)
    return bits, odds


def _of_sparse_rows(
    observations: SparseObservations, fixed: FixedColumns, n_jobs: int | None
) -> NDArray[np.uint8]:
    """`fold_in` of rows whose zeros are not listed: only their factors, (M, K)."""
    prior = fixed.model.prior_log_odds(observations.shape)[0]
    bits = np.empty(prior.shape, dtype=np.uint8)

    def one_piece(rows: slice, piece: SparseObservations) -> None:
        bits[rows] = fixed.decode_sparse(piece, prior[rows])[0]

    _each_sparse_piece(one_piece, observations, n_jobs)
    return bits


def _each_sparse_piece(
    function: Callable[[slice, SparseObservations], Found],
    observations: SparseObservations,
    n_jobs: int | None,
) -> list[Found]:
    """`function` of every piece of rows, in their order."""

    def of_piece(start: int) -> Found:
        rows = slice(start, min(start + ROWS, observations.n_rows))
        return function(rows, observations.some_rows(rows))

    with threads(n_jobs) as pool:
        return list(run_all(pool, of_piece, range(0, observations.n_rows, ROWS)))


def _n_right_of_sparse(
    observations: SparseObservations, fixed: FixedColumns, n_jobs: int | None
) -> int:
    """`n_right` of rows whose zeros are not listed.

    Cells are distributed by their columns, including missing ones. Only zeros that factors reach
    are examined, so that the work is proportional to the ones and the cells of tiles.
    """
    prior = fixed.model.prior_log_odds(observations.shape)[0]
    parts = []
    for part in range(min(N_PARTS, observations.n_columns)):
        hidden = np.arange(observations.n_columns) % N_PARTS == part
        kept = replace(fixed, log_odds=fixed.log_odds[:, ~hidden])
        parts.append((hidden, kept, np.ascontiguousarray(fixed.log_odds[:, hidden])))

    def one_piece(rows: slice, piece: SparseObservations) -> int:
        right = 0
        for hidden, kept, judged in parts:
            bits, odds = kept.decode_sparse(piece.some_columns(~hidden), prior[rows])
            odds = odds if fixed.marginal else np.where(bits, 1.0, -1.0)
            seen = piece.some_columns(hidden)
            right += int(np.trace(tiles.counts(odds, judged, seen, fixed.marginal)))
        return right

    return sum(_each_sparse_piece(one_piece, observations, n_jobs))


def n_right(
    observations: Observations | SparseObservations, fixed: FixedColumns, n_jobs: int | None = None
) -> int:
    """Count the entries that are predicted correctly from the others of their row.

    The entries of a row are distributed in turn, in the order of columns, over `N_PARTS` parts.
    Each part is hidden once, and predicted from the rest. For a row with one entry, only the prior
    is known.
    """
    if isinstance(observations, SparseObservations):
        return _n_right_of_sparse(observations, fixed, n_jobs)
    prior = fixed.model.prior_log_odds(observations.shape)[0]

    def one_piece(rows: slice, piece: Observations) -> int:
        number = np.arange(piece.n_observed) - piece.indptr[piece.rows_of_entries()]
        right = 0
        for part in range(N_PARTS):
            kept, row, column, value = piece.split(number % N_PARTS == part)
            if len(value):
                bits, odds = fixed.decode(kept, rows, prior)
                latent = prediction.latent_at(
                    odds if fixed.marginal else bits, fixed.log_odds, row, column,
                    fixed.model.product, fixed.marginal,
                )  # fmt: skip
                right += int(np.sum((latent > 0.5) == value))
        return right

    return sum(_each_piece(one_piece, observations, fixed.model, n_jobs))


def _each_piece(
    function: Callable[[slice, Observations], Found],
    observations: Observations,
    model: Model,
    n_jobs: int | None,
) -> list[Found]:
    """`function` of every piece of rows, in their order."""
    model.channel.broadcasts_to(observations.shape)

    def of_piece(rows: slice) -> Found:
        found = function(rows, observations.take_rows(rows))
        entries = slice(*observations.indptr[[rows.start, rows.stop]])
        for array in (observations.indices, observations.values):
            release_pages(array[entries])
        return found

    with threads(n_jobs) as pool:
        return list(run_all(pool, of_piece, _pieces(observations, model)))


def _pieces(observations: Observations, model: Model) -> Iterator[slice]:
    """Runs of at least one row with few enough entries and variables."""
    n_rows, n_columns = observations.shape
    # If missing entries are evidence, they count as entries, too.
    per_row = 1 if model.channel.missing_given_zero is None else n_columns
    most_rows = max(1, ENTRIES_PER_CHUNK // max(1, per_row, model.n_components))
    start = 0
    while start < n_rows:
        enough = observations.indptr[start] + ENTRIES_PER_CHUNK
        stop = int(np.searchsorted(observations.indptr, enough, side="right")) - 1
        stop = min(max(stop, start + 1), start + most_rows, n_rows)
        yield slice(start, stop)
        start = stop
