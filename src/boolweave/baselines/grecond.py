"""GreConD: factors that cover ones and no zero (Belohlavek and Vychodil 2010)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Integral, Interval, StrOptions

from boolweave.baselines import kernels
from boolweave.baselines.asso import (
    MOST_COMPONENTS,
    BooleanFactors,
    covered,
    matrix_of,
    prefix_accuracies,
)
from boolweave.baselines.base import entries_of, hold_out, rates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observations import Observations


class GreConD(BooleanFactors):
    """Greedy factors on demand: formal concepts, largest gain first.

    A factor is a set of columns and all rows that have ones in all of them. It is grown column by
    column as long as it covers more ones that no factor covers yet. The product never covers a
    zero, and with enough factors all ones.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        K, or fewer where all ones are covered. "auto": by the accuracy on a tenth of the entries.
    missing : {"auto", "zero", "one"}, default="auto"
        What missing entries count as while factors grow. As ones they let factors pass through
        holes; they are never counted as covered ones. "auto": by the accuracy on a tenth of the
        entries.
    absent : {"zero", "missing"}, default="zero"
        What the entries are that a sparse matrix does not store.
    random_state : int, RandomState or None
        Which entries are held out.

    Attributes
    ----------
    row_factors_, components_ : (M, K) and (K, N) arrays of uint8
    missing_ : {"zero", "one"}
        Given or chosen.
    rates_ : (float, float)
        P(o = 1) where the product is 0 and where it is 1, counted on the entries held out, or on
        all where nothing was chosen.

    Examples
    --------
    >>> from boolweave.baselines import GreConD
    >>> model = GreConD(3).fit([[1, 1, 0], [1, 1, 1], [0, 0, 1]])
    >>> model.components_
    array([[1, 1, 0],
           [0, 0, 1]], dtype=uint8)
    >>> model.transform([[1, 1, 1], [1, 0, 1]])
    array([[1, 1],
           [0, 1]], dtype=uint8)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "missing": [StrOptions({"auto", "zero", "one"})],
        "absent": [StrOptions({"zero", "missing"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        missing: Literal["auto", "zero", "one"] = "auto",
        absent: Literal["zero", "missing"] = "zero",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.missing = missing
        self.absent = absent
        self.random_state = random_state

    def _fit(self, seen: Observations) -> None:
        ways = [self.missing]
        if self.missing == "auto":
            ways = ["zero"] if seen.is_complete else ["zero", "one"]
        most = MOST_COMPONENTS if self.n_components == "auto" else int(self.n_components)
        self.missing_ = ways[0]
        counted: tuple[float, float] | None = None
        if self.n_components == "auto" or len(ways) > 1:
            kept, check = hold_out(seen, self._generator())
            best, chosen = -1.0, most
            for way in ways:
                X, Y = self._greedy(kept, most, way)
                right = prefix_accuracies(X, Y, check)
                rank = int(np.argmax(right)) if self.n_components == "auto" else len(Y)
                if right[rank] > best:
                    best, self.missing_ = float(right[rank]), way
                    chosen = rank if self.n_components == "auto" else most
                    counted = rates(covered(X[:, :rank], Y[:rank], check), check.values)
            most = chosen
        X, Y = self._greedy(seen, most, self.missing_)
        every = entries_of(seen)
        self._keep(X, Y, counted or rates(covered(X, Y, every), every.values))

    def _greedy(
        self, seen: Observations, most: int, missing: str
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Factors (M, K) and (K, N), K ≤ `most`, in the order in which they were found."""
        rows = seen.rows_of_entries()
        matrix = np.full(seen.shape, missing == "one", dtype=bool)
        matrix[rows, seen.indices] = seen.values == 1
        allowed = _words(matrix)
        matrix[:] = False
        matrix[rows, seen.indices] = seen.values == 1
        left = _words(matrix)  # the ones that are not covered yet
        extents: list[NDArray[np.bool_]] = []
        intents: list[NDArray[np.uint8]] = []
        while len(intents) < most and left.any():
            extent, intent = _grow(allowed, left, seen.n_columns)
            if not extent.any():
                break
            left[extent] &= ~intent
            extents.append(extent)
            intents.append(_bits(intent, seen.n_columns))
        X = np.zeros((seen.n_rows, len(extents)), np.uint8)
        Y = np.zeros((len(intents), seen.n_columns), np.uint8)
        for k, (rows_of_k, columns_of_k) in enumerate(zip(extents, intents, strict=True)):
            X[:, k], Y[k] = rows_of_k, columns_of_k
        return X, Y

    def _rows_of(self, seen: Observations) -> NDArray[np.uint8]:
        """A row has the factors in all of whose columns it has ones, or holes that count as such.

        That is how the rows of a concept follow from its columns, so the order does not matter.
        """
        columns = self.components_.T.astype(np.float32)
        if self.missing_ == "one":
            is_in = matrix_of(seen, 1 - seen.values) @ columns == 0
        else:
            is_in = matrix_of(seen, seen.values) @ columns == columns.sum(axis=0)
        return np.asarray(is_in, dtype=np.uint8)


def _grow(
    allowed: NDArray[np.uint64], left: NDArray[np.uint64], n_columns: int
) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Grow one concept; its rows (M,) and, as words, its columns.

    The gain of a column j is what (D ∪ {j})↓ × (D ∪ {j})↓↑ covers of what is left.
    """
    extent = np.ones(len(allowed), dtype=bool)
    intent = np.zeros(allowed.shape[1], dtype=np.uint64)
    best = 0
    while True:
        gains = kernels.concept_gains(allowed, left, extent, intent, n_columns)
        if gains.max(initial=0) <= best:
            return extent, intent
        best = int(gains.max())
        extent &= _bit(allowed, int(np.argmax(gains)))
        intent = np.bitwise_and.reduce(allowed[extent], axis=0)


# ---------------------------------------------------------------- bits in words of 64


def _words(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Rows of bits (M, N) as words (M, ⌈N/64⌉), column j in word j // 64, bit j % 64."""
    n_words = -(-bits.shape[1] // 64)
    bytes_ = np.zeros((bits.shape[0], 8 * n_words), dtype=np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    bytes_[:, : packed.shape[1]] = packed
    return bytes_.view(np.dtype("<u8")).astype(np.uint64)


def _bits(words: NDArray[np.uint64], n_columns: int) -> NDArray[np.uint8]:
    bytes_ = words.astype(np.dtype("<u8")).view(np.uint8)
    return np.unpackbits(bytes_, count=n_columns, bitorder="little")


def _bit(words: NDArray[np.uint64], column: int) -> NDArray[np.bool_]:
    """One column of all rows, (M,)."""
    return (words[:, column // 64] >> np.uint64(column % 64)) & np.uint64(1) > 0
