"""Rows of a factor where the other factor is known: new rows, or old ones once more.

Rows are taken a piece at a time, and nothing is kept of a piece but its answer. So memory does not
grow with the entries, and a row gets the same answer whatever is beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from boolweave.data.observations import PIECE_OF_ROWS
from boolweave.engine import prediction
from boolweave.engine.evidence import evidence_of
from boolweave.engine.kernels import folding_in, max_sum
from boolweave.model.odds import with_infinities
from boolweave.model.products import product_at
from boolweave.runtime.storage import release_pages
from boolweave.runtime.threads import run_all, threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations
    from boolweave.model.model import Model

    Floats = NDArray[np.floating[Any]]
    Answer = tuple[NDArray[np.uint8], Floats]

# To judge predictions, the entries of a row are dealt in turn into so many parts, and each part is
# predicted from the others.
N_PARTS = 5


@dataclass(frozen=True, eq=False)
class Known:
    """What is known before new rows come.

    Attributes
    ----------
    model : Model
        Its column prior is the decoded column factor, zeros and ones (K, N). Row prior and channel
        are those of the new rows.
    column_log_odds : (K, N) array, optional
        Marginals of the column factor: the log-odds of rows will be marginals too. Without it they
        are beliefs of max-sum.
    damping : float
    """

    model: Model
    column_log_odds: Floats | None = None
    damping: float = 0.4

    @cached_property
    def column_bits(self) -> NDArray[np.uint8]:
        """The decoded column factor, (N, K)."""
        return np.ascontiguousarray(np.asarray(self.model.column_prior).T > 0.5, dtype=np.uint8)

    @cached_property
    def column_chance(self) -> NDArray[np.float64] | None:
        """P(y = 1), (N, K)."""
        return None if self.column_log_odds is None else prediction.by_column(self.column_log_odds)


def fold_in(observations: Observations, known: Known, n_jobs: int | None = None) -> Answer:
    """Row factors and their log-odds, (M, K) each, every row from its own entries alone.

    The factors: max-sum from a neutral start, so equal claims of two factors stay equal and neither
    is believed; then flips of single bits, taken while the log-posterior rises, decide between
    them. Marginals, if asked for: sum-product, which begins at these factors.
    """
    prior = known.model.prior_log_odds(observations.shape)[0]
    bits, odds = np.empty(prior.shape, dtype=np.uint8), np.empty(prior.shape)

    def one_piece(rows: slice, piece: Observations) -> None:
        bits[rows], odds[rows] = _decode(piece, known, rows, prior)

    _each_piece(one_piece, observations, known.model, n_jobs)
    return bits, odds


def n_right(observations: Observations, known: Known, n_jobs: int | None = None) -> int:
    """How many entries are predicted rightly from the others of their row.

    The entries of a row are dealt in turn, in the order of columns, into `N_PARTS` parts. Each part
    is hidden once, and predicted from the rest. Of a row with one entry, only the prior is known.
    """
    prior = known.model.prior_log_odds(observations.shape)[0]

    def one_piece(rows: slice, piece: Observations) -> int:
        number = np.arange(piece.n_observed) - piece.indptr[piece.rows_of_entries()]
        right = 0
        for part in range(N_PARTS):
            kept, row, column, value = piece.split(number % N_PARTS == part)
            if len(value):
                found = _decode(kept, known, rows, prior)
                right += int(np.sum(_predicted(known, *found, row, column) == value))
        return right

    return sum(_each_piece(one_piece, observations, known.model, n_jobs))


def _predicted(
    known: Known, bits: NDArray[np.uint8], odds: Floats, rows: Any, columns: Any
) -> NDArray[np.bool_]:
    """Predicted values at pairs of rows and columns."""
    product = known.model.product
    if known.column_log_odds is not None:
        return prediction.latent_at(odds, known.column_log_odds, rows, columns, product) > 0.5
    column_bits = np.asarray(known.model.column_prior)
    return product_at(bits, column_bits, rows, columns, product) > 0


def _each_piece(function: Any, observations: Observations, model: Model, n_jobs: Any) -> list[Any]:
    """`function` of every piece of rows, in their order."""
    model.channel.broadcasts_to(observations.shape)

    def of_piece(rows: slice) -> Any:
        found = function(rows, observations.take_rows(rows))
        entries = slice(*observations.indptr[[rows.start, rows.stop]])
        for array in (observations.indices, observations.values):
            release_pages(array[entries])
        return found

    with threads(n_jobs) as pool:
        return list(run_all(pool, of_piece, _pieces(observations, model)))


def _pieces(observations: Observations, model: Model) -> Iterator[slice]:
    """Runs of rows with few enough entries and variables; one row at least."""
    n_rows, n_columns = observations.shape
    # Where it matters which entries are missing, those are entries too.
    per_row = 1 if model.channel.missing_given_zero is None else n_columns
    most_rows = max(1, PIECE_OF_ROWS // max(1, per_row, model.n_components))
    start = 0
    while start < n_rows:
        enough = observations.indptr[start] + PIECE_OF_ROWS
        stop = int(np.searchsorted(observations.indptr, enough, side="right")) - 1
        stop = min(max(stop, start + 1), start + most_rows, n_rows)
        yield slice(start, stop)
        start = stop


def _decode(piece: Observations, known: Known, rows: slice, all_priors: Floats) -> Answer:
    """Factors and log-odds of the rows of a piece; which they are, and the priors of all rows."""
    model = known.model
    channel = model.channel.of_rows(rows, len(all_priors))
    indptr, columns, evidence, _ = evidence_of(piece, replace(model, channel=channel), rows.start)
    prior = np.ascontiguousarray(all_priors[rows])
    entries = model.product == "xor", max_sum.Entries(indptr, columns, evidence), prior
    belief = np.empty_like(prior)
    folding_in.max_sum(*entries, known.column_bits, known.damping, belief)
    bits = (belief > 0).astype(np.uint8)
    max_sum.improve_rows(*entries, known.column_bits, bits)
    if known.column_chance is not None:
        folding_in.sum_product(*entries, known.column_chance, known.damping, bits, belief)
    return bits, with_infinities(belief)
