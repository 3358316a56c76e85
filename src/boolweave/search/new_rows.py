"""New rows of a factorization with the fewest errors: the best factors for each row."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from boolweave.engine.fold_in import FixedColumns, FoldIn
from boolweave.search.kernels.bits import pack, unpack
from boolweave.search.kernels.factors import Entries
from boolweave.search.kernels.lines import best_sets
from boolweave.search.result import error_worth, finite_weight, gains_of, log_odds, row_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Observations
    from boolweave.engine.fold_in import Answer
    from boolweave.runtime.types import Floats
    from boolweave.search.kernels.bits import Words


@dataclass(frozen=True, eq=False)
class ColumnsOfFewestErrors(FixedColumns):
    """Fixed column factors; rows are decoded so that their error is smallest.

    Attributes
    ----------
    false_one_weight : float
        The cost of a false one relative to a missed one.
    known : dict
        The factors (K,) that the fit found for rows, by a hash of their entries.
    """

    false_one_weight: float = 1.0
    known: dict[bytes, NDArray[np.uint8]] = field(default_factory=dict)

    @cached_property
    def _patterns(self) -> Words:
        """The packed column factors, (K, words)."""
        return pack(self.bits.T)

    def decode(self, piece: Observations, rows: slice, all_priors: Floats) -> Answer:
        """Factors and log-odds of the rows of a piece, without priors."""
        K, product = self.bits.shape[1], self.model.product
        cost = finite_weight(self.false_one_weight, float(piece.n_columns))
        bits = np.zeros((piece.n_rows, K), dtype=np.uint8)
        for m, key in enumerate(_keys(piece)):
            if key in self.known:
                bits[m] = self.known[key]
        for some in row_slices(piece):
            bits[some] = self._improved(piece.take_rows(some), bits[some], cost)
        gains = gains_of(piece, bits, self.bits.T, product=product, false_one_weight=cost)
        return bits, log_odds(error_worth(self.model.channel) * gains.rows, bits, K)

    def _improved(
        self, piece: Observations, bits: NDArray[np.uint8], cost: float
    ) -> NDArray[np.uint8]:
        """The factors with the smallest error for each row; known ones if they are as good."""
        dense, no_weights = piece.to_dense(), np.zeros((0, 0))
        entries = Entries(pack(dense == 1), pack(dense == 0), no_weights)
        members = pack(bits)
        best_sets(entries, cost, self.model.product == "xor", self._patterns, members)
        return unpack(members, bits.shape[1])


def _keys(observations: Observations) -> Iterator[bytes]:
    """A hash of the entries of each row."""
    columns, values = observations.indices, observations.values
    for start, stop in pairwise(observations.indptr.tolist()):
        data = hashlib.blake2b(columns[start:stop].tobytes(), digest_size=16)
        data.update(values[start:stop].tobytes())
        yield data.digest()


@dataclass(frozen=True, eq=False)
class FoldInOfFewestErrors(FoldIn):
    """Decoder of new rows with the smallest error, each only from its own entries.

    A row that was in the fitted data gets the factors that the fit found for it, unless others have
    a smaller error.

    Attributes
    ----------
    false_one_weight : float
        The cost of a false one relative to a missed one.
    """

    false_one_weight: float = 1.0

    def _columns(self, marginal: bool, row_prior: ArrayLike | None = None) -> FixedColumns:
        result = self.result
        known: dict[bytes, NDArray[np.uint8]] = {}
        for key, own in zip(_keys(result.observations.to_local()), result.X, strict=True):
            known.setdefault(key, own)
        return ColumnsOfFewestErrors(
            result.model, result.column_log_odds, false_one_weight=self.false_one_weight,
            known=known,
        )  # fmt: skip
