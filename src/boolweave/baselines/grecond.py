"""GreConD: factors that cover ones and no zero (Belohlavek and Vychodil 2010)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import StrOptions

from boolweave.baselines.base import Baseline
from boolweave.baselines.boolean_factors import BooleanFactors, matrix_of
from boolweave.engine.kernels.jit import njit
from boolweave.estimator.parameters import AtLeast
from boolweave.search.kernels.bits import pack, popcount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.baselines.boolean_factors import Bits
    from boolweave.data.observations import Observations


class GreConD(BooleanFactors):
    """Greedy factors on demand: formal concepts, largest gain first.

    A factor is a set of columns and all rows that have ones in all of them. It is extended column
    by column as long as it covers more ones that no other factor covers yet. The product never
    covers a zero, and with enough factors it covers all ones.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of factors K; there are fewer if all ones are covered. "auto" chooses it by the
        accuracy on a tenth of the entries.
    missing : {"auto", "zero", "one"}, default="auto"
        How missing entries count while factors are extended. As ones, they let factors extend over
        missing entries, but they are never counted as covered ones. "auto" chooses it by the
        accuracy on a tenth of the entries.
    absent : {"zero", "missing"}, default="zero"
        How to treat the entries that a sparse matrix does not store.
    random_state : int, RandomState or None
        Random seed of the choice of held-out entries.

    Attributes
    ----------
    row_factors_, components_ : (M, K) and (K, N) arrays of uint8
    missing_ : {"zero", "one"}
        Given or chosen.
    rates_ : (float, float)
        P(o = 1) where the product is 0 and where it is 1, counted on the held-out entries, or on
        all entries if nothing was chosen.

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
        **Baseline._parameter_constraints,
        "n_components": [AtLeast(1), StrOptions({"auto"})],
        "missing": [StrOptions({"auto", "zero", "one"})],
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
        self.missing_ = self._fit_best(seen, ways)

    def _greedy(self, seen: Observations, most: int, option: str) -> tuple[Bits, Bits]:
        entries = seen.rows_of_entries(), seen.indices
        ones = np.zeros(seen.shape, dtype=bool)
        ones[entries] = seen.values == 1
        allowed = np.full(seen.shape, option == "one")
        allowed[entries] = ones[entries]
        allowed_words, left = pack(allowed), pack(ones)  # left: the ones not covered yet
        extents: list[NDArray[np.bool_]] = []
        intents: list[NDArray[np.bool_]] = []
        while len(intents) < most and left.any():
            extent, intent = _grow(allowed, allowed_words, left)
            if not extent.any():
                break
            left[extent] &= ~pack(intent[None])[0]
            extents.append(extent)
            intents.append(intent)
        shape = len(extents), seen.n_rows
        X = np.array(extents, dtype=np.uint8).reshape(shape).T
        Y = np.array(intents, dtype=np.uint8).reshape(len(intents), seen.n_columns)
        return np.ascontiguousarray(X), Y

    def _rows_of(self, seen: Observations) -> NDArray[np.uint8]:
        """Assign to a row the factors in all of whose columns it has ones, or missing entries.

        The latter only if they count as ones. The order of the factors does not matter.
        """
        columns = self.components_.T.astype(np.float32)
        if self.missing_ == "one":
            is_in = matrix_of(seen, 1 - seen.values) @ columns == 0
        else:
            is_in = matrix_of(seen, seen.values) @ columns == columns.sum(axis=0)
        return np.asarray(is_in, dtype=np.uint8)


def _grow(
    allowed: NDArray[np.bool_], allowed_words: NDArray[np.uint64], left: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Build one concept; return its rows (M,) and its columns (N,).

    The gain of a column j is the number of ones in `left` that (D ∪ {j})↓ × (D ∪ {j})↓↑ covers.
    """
    extent: NDArray[np.bool_] = np.ones(len(allowed), dtype=bool)
    intent: NDArray[np.bool_] = np.zeros(allowed.shape[1], dtype=bool)
    best = 0
    while True:
        gains = concept_gains(allowed_words, left, extent, intent)
        if gains.max(initial=0) <= best:
            return extent, intent
        best = int(gains.max())
        extent &= allowed[:, np.argmax(gains)]
        intent = np.all(allowed[extent], axis=0)


@njit(nogil=True, cache=True)
def concept_gains(allowed, left, extent, intent):
    """The number of ones in `left` that a concept covers with column j, (N,); 0 if it has j.

    `allowed` and `left` are (M, words) bits, `extent` (M,) the rows and `intent` (N,) the columns
    of the concept so far.
    """
    n_rows, n_words = allowed.shape
    n_columns = len(intent)
    gains = np.zeros(n_columns, np.int64)
    closure = np.zeros(n_words, np.uint64)
    for j in range(n_columns):
        if intent[j]:
            continue
        word, bit = j // 64, np.uint64(1) << np.uint64(j % 64)
        closure[:] = ~np.uint64(0)
        for m in range(n_rows):
            if extent[m] and allowed[m, word] & bit:
                for w in range(n_words):
                    closure[w] &= allowed[m, w]
        total = 0
        for m in range(n_rows):
            if extent[m] and allowed[m, word] & bit:
                for w in range(n_words):
                    total += popcount(left[m, w] & closure[w])
        gains[j] = total
    return gains
