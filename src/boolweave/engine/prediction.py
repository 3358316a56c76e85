"""Predictions from the log-odds of two factors, and the factors of new rows.

Row log-odds are (M, K) and column log-odds (K, N) throughout. Work and memory are proportional to
the entries asked for, not to the matrix: rows are processed in pieces, and only the answer of a
piece is kept. The answer of a new row does not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from boolweave.data.observations import ENTRIES_PER_CHUNK, Observations
from boolweave.data.ones import SparseObservations
from boolweave.engine.kernels import folding_in, max_sum, predicting, variables
from boolweave.engine.kernels.groups import Block
from boolweave.engine.kernels.rules import xor_of
from boolweave.engine.zeros import tiles
from boolweave.model.model import evidence_of
from boolweave.model.odds import sigmoid, with_infinities
from boolweave.model.products import boolean_product
from boolweave.runtime.threads import cut, run_all, threads

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

    from boolweave.data.observed import ObservedEntries
    from boolweave.data.ones import Cells
    from boolweave.engine.result import Kind, Result
    from boolweave.model.model import Model
    from boolweave.model.products import Product
    from boolweave.runtime.types import Array, Doubles, Floats, Integers

    Answer: TypeAlias = tuple[NDArray[np.uint8], Floats]

# Number of values that are computed at a time, each with a few times 8 bytes of scratch memory.
VALUES_AT_A_TIME = 1 << 16


def latent_at(
    row_log_odds: Array,
    column_log_odds: Floats,
    rows: Integers,
    columns: Integers,
    product: Product,
    marginal: bool = True,
) -> NDArray[np.float64]:
    """P(z = 1) at pairs of rows and columns, (n,); without `marginal`, of the decoded factors."""
    n, (K, n_columns) = len(rows), column_log_odds.shape
    out = np.empty(n)
    # If there are more pairs than columns, all columns are computed once.
    all_columns = by_column(column_log_odds, marginal) if n >= n_columns else None
    for some in cut(n, K, VALUES_AT_A_TIME):
        pair_rows, pair_columns = rows[some], columns[some]
        begins = np.ones(len(pair_rows), dtype=bool)
        np.not_equal(pair_rows[1:], pair_rows[:-1], out=begins[1:])
        if all_columns is None:
            y = by_column(column_log_odds[:, pair_columns], marginal)
            column = np.arange(len(begins))
        else:
            y, column = all_columns, np.asarray(pair_columns, dtype=np.int64)
        # A row is computed once for a run of its pairs.
        row, x = np.cumsum(begins) - 1, by_row(row_log_odds[pair_rows[begins]], marginal)
        chances_of_pairs(product == "xor", row, column, x, y, out[some])
    return out


def latent_rows(
    row_log_odds: Floats,
    column_log_odds: Floats,
    product: Product,
    marginal: bool = True,
    rows: Integers | None = None,
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """`latent_at` all columns, of all rows or of those asked for, some of them at a time.

    Yields a slice of them, and an array (some, N).
    """
    y = by_column(column_log_odds, marginal)
    n_rows = len(row_log_odds if rows is None else rows)
    for some in cut(n_rows, max(y.shape), VALUES_AT_A_TIME):
        odds = row_log_odds[some if rows is None else rows[some]]
        out = np.empty((len(odds), len(y)))
        chances_of_rows(product == "xor", by_row(odds, marginal), y, out)
        yield some, out


# ---------------------------------------------------------------- few entries without a kernel

# Number of products up to which NumPy computes probabilities: to load a kernel takes a third of a
# second, once in a process, and to compile it several seconds.
FEW_PRODUCTS = 1 << 14


def chances_of_pairs(
    xor: bool, rows: Integers, columns: Integers, x: Doubles, y: Doubles, out: Doubles
) -> None:
    """P(z = 1) at pairs of rows of x (n, K) and rows of y (N, K), with the bits of the kernel."""
    if out.size * x.shape[1] > FEW_PRODUCTS:
        predicting.chances_of_pairs(xor, rows, columns, x, y, out)
    else:
        out[:] = _chances(xor, x[rows].T, y[columns].T)


def chances_of_rows(xor: bool, x: Doubles, y: Doubles, out: Doubles) -> None:
    """P(z = 1) of every row of x (n, K) with every row of y (N, K), with the bits of the kernel."""
    if out.size * x.shape[1] > FEW_PRODUCTS:
        predicting.chances_of_rows(xor, x, y, out)
    else:
        out[:] = _chances(xor, x.T[:, :, None], y.T[:, None])


def _chances(xor: bool, x: Doubles, y: Doubles) -> Doubles:
    """1 − Π (1 − x y), or with XOR (1 − Π (1 − 2 x y)) / 2; the first axes are factors."""
    sign, rest = 2.0 if xor else 1.0, np.ones(())
    for of_row, of_column in zip(x, y, strict=True):  # in the order of the kernel
        rest = rest * (1.0 - sign * of_row * of_column)
    chances: Doubles = (1.0 - rest) / sign
    return chances


# ---------------------------------------------------------------- rows and columns, in pieces


def by_row(log_odds: Array, marginal: bool = True) -> NDArray[np.float64]:
    """Probabilities of log-odds (n, K), or decoded bits, row by row in memory."""
    out = np.empty(log_odds.shape)
    for some in cut(len(log_odds), log_odds.shape[1], VALUES_AT_A_TIME):
        out[some] = sigmoid(log_odds[some]) if marginal else log_odds[some] > 0
    return out


def by_column(log_odds: Floats, marginal: bool = True) -> NDArray[np.float64]:
    """The same as `by_row` for log-odds of columns, (K, n); the result is (n, K)."""
    return by_row(log_odds.T, marginal)


def words_of(log_odds: Floats) -> NDArray[np.uint64]:
    """Decoded bits of log-odds (n, K), 64 to a word: (n, ⌈K/64⌉)."""
    n, K = log_odds.shape
    packed = np.zeros((n, -(-K // 64) * 8), dtype=np.uint8)
    for some in cut(n, K, VALUES_AT_A_TIME):
        bits = np.packbits(log_odds[some] > 0, axis=1)
        packed[some, : bits.shape[1]] = bits
    return packed.view(np.uint64)


# ---------------------------------------------------------------- new rows

Found = TypeVar("Found")

# Maximum number of rows that are processed at a time.
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
        return by_column(self.log_odds)

    def decode(self, piece: Observations, rows: slice, all_priors: Floats) -> Answer:
        """Factors and log-odds of the rows of a piece, given their slice and all priors."""
        model = self.model
        channel = model.channel.of_rows(rows, len(all_priors))
        model = replace(model, channel=channel)
        indptr, columns, evidence, _ = evidence_of(piece, model, rows.start)
        prior = np.ascontiguousarray(all_priors[rows])
        entries = xor_of(model.product), max_sum.Entries(indptr, columns, evidence), prior
        belief = np.empty_like(prior)
        folding_in.max_sum(*entries, self.bits, self.damping, belief)
        bits = (belief > 0).astype(np.uint8)
        folding_in.improve_rows(*entries, self.bits, bits)
        if self.marginal:
            folding_in.sum_product(*entries, self.chance, self.damping, bits, belief)
        return bits, with_infinities(belief)


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
        self, observations: ObservedEntries, row_prior: ArrayLike | None = None
    ) -> NDArray[np.uint8]:
        """Row factors, (rows, K); their prior may be given."""
        decoder = rows_of(observations)(observations, self._columns(False, row_prior))
        bits = np.empty(decoder.prior.shape, dtype=np.uint8)

        def one_piece(rows: slice, piece: Any) -> None:
            bits[rows] = decoder.decode(rows, piece)[0]

        decoder.of_pieces(one_piece, self.n_jobs)
        return bits

    def probabilities(
        self, observations: ObservedEntries, row_prior: ArrayLike | None = None
    ) -> Floats:
        """P(x = 1) of the row factors, (rows, K); their prior may be given."""
        return sigmoid(fold_in(observations, self._columns(True, row_prior), self.n_jobs)[1])

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

    def score(self, observations: ObservedEntries) -> float:
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


# ---------------------------------------------------------------- entries, listed or implicit


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Rows that are decoded in pieces, all of whose entries are listed.

    Attributes
    ----------
    observations : Observations, (M, N)
    fixed : FixedColumns
    """

    observations: Any
    fixed: FixedColumns

    @cached_property
    def prior(self) -> Floats:
        """Prior log-odds of the rows, (M, K)."""
        return self.fixed.model.prior_log_odds(self.observations.shape)[0]

    def decode(self, rows: slice, piece: Any) -> Answer:
        """Factors and log-odds of the rows of a piece."""
        return self.fixed.decode(piece, rows, self.prior)

    def n_right(self, rows: slice, piece: Any) -> int:
        """`n_right` of the rows of a piece."""
        number = np.arange(piece.n_observed) - piece.indptr[piece.rows_of_entries()]
        fixed, right = self.fixed, 0
        for part in range(N_PARTS):
            kept, row, column, value = piece.split(number % N_PARTS == part)
            if len(value):
                bits, odds = self.decode(rows, kept)
                factors = odds if fixed.marginal else bits, fixed.log_odds
                latent = latent_at(*factors, row, column, fixed.model.product, fixed.marginal)
                right += int(np.sum((latent > 0.5) == value))
        return right

    def of_pieces(self, function: Callable[[slice, Any], Found], n_jobs: int | None) -> list[Found]:
        """`function` of every piece of rows, in their order."""
        observations, channel = self.observations, self.fixed.model.channel
        if channel.n_rows not in (None, observations.n_rows):
            raise ValueError(
                f"the channel has probabilities for each of {channel.n_rows} rows, and got "
                f"{observations.n_rows} rows, for which it has none; pass the rows of the fit, or "
                "fit with a channel that is the same for all rows"
            )
        channel.broadcasts_to(observations.shape)

        def of_piece(rows: slice) -> Found:
            answer = function(rows, observations.some_rows(rows))
            observations.release_rows(rows)
            return answer

        with threads(n_jobs) as pool:
            return list(run_all(pool, of_piece, self._pieces()))

    def _pieces(self) -> Iterator[slice]:
        """Runs of at least one row with few enough entries and variables."""
        (n_rows, n_columns), model = self.observations.shape, self.fixed.model
        # If missing entries are evidence, they count as entries, too.
        per_row = 1 if model.channel.missing_given_zero is None else n_columns
        most_rows = ENTRIES_PER_CHUNK // max(1, per_row, model.n_components)
        most_rows = max(1, min(ROWS, most_rows))
        indptr, start = self.observations.entries_by_row, 0
        while start < n_rows:
            enough = indptr[start] + ENTRIES_PER_CHUNK
            stop = int(np.searchsorted(indptr, enough, side="right")) - 1
            stop = min(max(stop, start + 1), start + most_rows, n_rows)
            yield slice(start, stop)
            start = stop

    def counts(self, row_log_odds: Floats) -> NDArray[np.int64]:
        """`counts`, entry by entry."""
        covered = np.zeros(2, dtype=np.int64)
        observations, fixed = self.observations, self.fixed
        product, indptr = fixed.model.product, observations.indptr
        by_variable = by_row if fixed.marginal else words_of
        y = by_variable(fixed.log_odds.T)
        for first, last, columns, values in observations.row_chunks():
            for some in cut(last - first, len(fixed.log_odds), VALUES_AT_A_TIME):
                start, stop = first + some.start, first + some.stop
                x, begins = by_variable(row_log_odds[start:stop]), indptr[start : stop + 1]
                entries = slice(*(begins[[0, -1]] - indptr[first]))
                listed = columns[entries], values[entries]
                if fixed.marginal:
                    covered += predicting.count_likely(product == "xor", begins, *listed, x, y)
                else:
                    block = Block(None, start, begins - begins[0], *listed)
                    covered += variables.count_covered(xor_of(product), block, x, y)
        ones = observations.n_ones
        of_value = np.array([observations.n_observed - ones, ones])
        return np.stack([of_value - covered, covered], axis=1)


class RowsWithImplicitZeros(ListedRows):
    """Rows whose zeros are not listed; only zeros that factors reach are examined.

    So the work is proportional to the ones and the cells of tiles. `observations` are
    `SparseObservations`.
    """

    def decode(self, rows: slice, piece: Any) -> Answer:
        """Factors and log-odds of the rows of a piece."""
        return _decoded(self.fixed, piece, self.prior[rows])

    @cached_property
    def _parts(self) -> list[tuple[NDArray[np.bool_], FixedColumns, Floats]]:
        """Columns that are hidden, the others as fixed columns, and log-odds of the hidden ones."""
        number, odds = np.arange(self.observations.n_columns) % N_PARTS, self.fixed.log_odds
        return [
            (
                hidden,
                replace(self.fixed, log_odds=odds[:, ~hidden]),
                np.ascontiguousarray(odds[:, hidden]),
            )
            for hidden in (number == part for part in range(min(N_PARTS, len(number))))
        ]

    def n_right(self, rows: slice, piece: Any) -> int:
        """`n_right` of the rows of a piece; cells are distributed by columns, also missing ones."""
        right, marginal = 0, self.fixed.marginal
        for hidden, kept, judged in self._parts:
            bits, odds = _decoded(kept, piece.some_columns(~hidden), self.prior[rows])
            odds = odds if marginal else np.where(bits, 1.0, -1.0)
            right += int(np.trace(tiles.counts(odds, judged, piece.some_columns(hidden), marginal)))
        return right

    def counts(self, row_log_odds: Floats) -> NDArray[np.int64]:
        """`counts` from the cells of tiles, without those of zeros."""
        fixed = self.fixed
        return tiles.counts(row_log_odds, fixed.log_odds, self.observations, fixed.marginal)


def rows_of(observations: ObservedEntries) -> type[ListedRows]:
    """How the entries of these observations are counted and decoded."""
    return RowsWithImplicitZeros if isinstance(observations, SparseObservations) else ListedRows


def counts(
    observations: ObservedEntries, row_log_odds: Floats, fixed: FixedColumns
) -> NDArray[np.int64]:
    """Count entries by observed value (first axis) and predicted value (second axis): (2, 2).

    A 1 is predicted if P(z = 1) > ½, as by `latent_at`. In addition to the factors, this needs
    memory only for the columns: 8 bytes for each factor and column, or for every 64 factors. If
    zeros are not listed, the cells of tiles are counted: `boolweave.engine.zeros.tiles`.
    """
    return rows_of(observations)(observations, fixed).counts(row_log_odds)


def fold_in(
    observations: ObservedEntries, fixed: FixedColumns, n_jobs: int | None = None
) -> Answer:
    """Row factors and their log-odds, (M, K) each, every row only from its own entries.

    The factors are found by max-sum from a neutral start, in which equal claims of two factors stay
    equal; then flips of single bits, as long as the log-posterior rises, decide between them.
    Marginals, if asked for, are computed by sum-product, which begins at these factors.
    """
    decoder = rows_of(observations)(observations, fixed)
    bits, odds = np.empty(decoder.prior.shape, dtype=np.uint8), np.empty(decoder.prior.shape)

    def one_piece(rows: slice, piece: Any) -> None:
        bits[rows], odds[rows] = decoder.decode(rows, piece)

    decoder.of_pieces(one_piece, n_jobs)
    return bits, odds


def n_right(observations: ObservedEntries, fixed: FixedColumns, n_jobs: int | None = None) -> int:
    """Count the entries that are predicted correctly from the others of their row.

    The entries of a row are distributed in turn, in the order of columns, over `N_PARTS` parts.
    Each part is hidden once, and predicted from the rest. For a row with one entry, only the prior
    is known.
    """
    decoder = rows_of(observations)(observations, fixed)
    return sum(decoder.of_pieces(decoder.n_right, n_jobs))


def _decoded(fixed: FixedColumns, piece: SparseObservations, prior: Floats) -> Answer:
    """Factors and log-odds of rows whose zeros are not listed; prior (rows, K): their log-odds."""
    evidence = fixed.model.channel.evidence_by_value()
    reach = fixed.chance >= tiles.NEGLIGIBLE if fixed.marginal else None
    some, possible = with_some_zeros(piece, fixed.bits, evidence, prior, reach)
    bits, odds = fixed.decode(some, slice(0, piece.n_rows), prior)
    return bits & possible, np.where(possible, odds, -np.inf)


def with_some_zeros(
    observations: SparseObservations,
    bits: NDArray[np.uint8],
    evidence: tuple[float, float],
    prior: Floats,
    reach: NDArray[np.bool_] | None = None,
) -> tuple[Observations, NDArray[np.bool_]]:
    """The ones of all rows, and those zeros that are evidence against factors a row may have.

    Parameters
    ----------
    observations : SparseObservations, (M, N)
    bits : (N, K) array
        The column factor.
    evidence : (float, float)
        L of a zero and of a one.
    prior : (M, K) array
        Log-odds of the rows.
    reach : (N, K) array of bool, optional
        The columns whose zeros count; by default, those of the column factor.

    Returns
    -------
    observations : Observations, (M, N)
    possible : (M, K) array of bool
        The factors that each row may have. The others must be excluded, because the zeros that are
        evidence against them are left out.
    """
    from scipy.sparse import csr_array

    factors = csr_array(bits.astype(np.int32))
    hits = (_matrix(observations.ones, observations.n_columns) @ factors).toarray()
    misses = bits.sum(axis=0, dtype=np.int64) - hits
    # A row may have a factor if its ones outweigh this fraction of its zeros: other factors may
    # cover some of the zeros.
    share_of_zeros = 0.5
    possible = evidence[1] * hits + share_of_zeros * evidence[0] * misses + prior > 0
    whose = factors if reach is None else csr_array(reach.astype(np.int32))
    covered = csr_array(possible.astype(np.int32)) @ whose.T
    covered.data[:] = 1
    # 1: a zero; 2, 3: a one; 4, 5: missing
    codes = covered + 2 * _matrix(observations.ones, observations.n_columns)
    if len(observations.holes):
        codes = codes + 4 * _matrix(observations.holes, observations.n_columns)
    codes = csr_array(codes)
    codes.sort_indices()
    there = codes.data < 4
    indptr = np.concatenate([[0], np.cumsum(there)])[codes.indptr]
    values = (codes.data[there] >= 2).astype(np.uint8)
    return Observations(observations.shape, indptr, codes.indices[there], values), possible


def _matrix(cells: Cells, n_columns: int) -> csr_array:
    from scipy.sparse import csr_array

    ones = np.ones(len(cells), dtype=np.int32)
    return csr_array((ones, cells.columns, cells.indptr), shape=(len(cells.indptr) - 1, n_columns))
