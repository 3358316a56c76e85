"""Covered zeros: a short list of cells with messages of their own, as floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.ones import Cells
from boolweave.engine.floats import CHUNK, odds_of
from boolweave.engine.kernels import max_sum, sum_product

if TYPE_CHECKING:
    from boolweave.engine.backend import Beliefs, Semiring
    from boolweave.runtime.types import Floats


# The longest list, and its most messages: with more covered zeros the factors are far from a good
# answer, and a share of them, evenly spread, does.
MOST_LISTED = 1 << 20
MOST_MESSAGES = 1 << 24


def most_listed(n_factors: int) -> int:
    """How many zeros a list has at most."""
    return min(MOST_LISTED, MOST_MESSAGES // n_factors)


@dataclass(eq=False)
class Listed:
    """Zeros that are treated one by one, and their messages."""

    indptr: np.ndarray  # (M + 1,)
    columns: np.ndarray  # (n,) int32
    to_row: Floats  # (chunks, K, size): Φ, or e^Φ in sum-product
    to_column: Floats

    @classmethod
    def none(cls, n_rows: int, n_factors: int) -> Listed:
        """No zeros."""
        return cls.of(Cells.none(n_rows), np.zeros((0, n_factors)), np.zeros((0, n_factors)))

    @classmethod
    def of(cls, cells: Cells, to_row: Floats, to_column: Floats) -> Listed:
        """Zeros with messages (n, K) each, in the order of the cells."""
        packed = [_pack(messages) for messages in (to_row, to_column)]
        return cls(cells.indptr, cells.columns, *packed)

    @property
    def cells(self) -> Cells:
        """Where they are."""
        return Cells(self.indptr, self.columns)

    def check(self, shape: tuple[int, int], n_factors: int) -> None:
        """Raise ValueError unless these are zeros of such a matrix, with messages."""
        cells, n = self.cells, len(self.columns)
        rising = len(cells.indptr) == shape[0] + 1 and (np.diff(cells.indptr) >= 0).all()
        inside = n == 0 or (self.columns.min() >= 0 and self.columns.max() < shape[1])
        like = _shape(n, n_factors)
        same = self.to_row.shape == self.to_column.shape == like
        if not (rising and inside and same and cells.indptr[0] == 0 and cells.indptr[-1] == n):
            raise ValueError("covered zeros that are not such")

    def messages(self) -> tuple[Floats, Floats]:
        """As they are stored, (n, K) each."""
        n = len(self.columns)
        sides = (self.to_row, self.to_column)
        return tuple(  # type: ignore[return-value]
            side.transpose(0, 2, 1).reshape(-1, side.shape[1])[:n] for side in sides
        )

    def to_sum_product(self) -> Listed:
        """The same with messages of sum-product."""
        limit = float(np.log(sum_product.RATIO_LIMIT))
        sides = (np.exp(np.clip(m, -limit, limit)) for m in (self.to_row, self.to_column))
        return Listed(self.indptr, self.columns, *(s.astype(np.float32) for s in sides))

    def add_to(self, sums: max_sum.Sides, semiring: Semiring, sign: int = 1) -> None:
        """Add what they send to sums (M, K) and (K, N), with the same bits as a step does."""
        if not len(self.columns):
            return
        to_row, to_column = self.to_row, self.to_column
        if semiring == "sum-product":
            to_row, to_column = sum_product.log_odds(to_row), sum_product.log_odds(to_column)
        if sign < 0:
            to_row, to_column = -to_row, -to_column
        max_sum.add_up(self._entries(1.0), max_sum.Messages(to_row, to_column), sums)

    def _entries(self, strength: float) -> max_sum.Entries:
        evidence = np.full(len(self.columns), -strength, dtype=np.float32)
        return max_sum.Entries(self.indptr, self.columns.view(np.uint32), evidence)

    def step(
        self, strength: float, semiring: Semiring, damping: float, beliefs: Beliefs,
        sums: max_sum.Sides,
    ) -> tuple[float, float]:  # fmt: skip
        """Replace the messages by the next, and add these to sums (M, K) and (K, N).

        Returns the largest change, and the expected ones among these zeros.
        """
        if not len(self.columns):
            return 0.0, 0.0
        sides = beliefs.rows, beliefs.columns
        if semiring == "sum-product":
            sides = odds_of(sides[0]), odds_of(sides[1])
        arguments = (
            False, self._entries(strength), np.float32(damping), max_sum.Sides(*sides),
            max_sum.Messages(self.to_row, self.to_column), sums,
        )  # fmt: skip
        if semiring == "max-sum":
            return float(max_sum.max_sum(*arguments)), 0.0
        expected = np.zeros(2)
        residual = sum_product.sum_product(*arguments, expected)
        return float(residual), float(expected[1])

    def replaced(
        self, cells: Cells, strength: float, semiring: Semiring, beliefs: Beliefs
    ) -> Listed:
        """Another list; what stays keeps its messages, what is new begins as any zero."""
        K, n_columns = beliefs.columns.shape
        to_row, to_column = _sent_by_zeros(cells, strength, semiring, beliefs)
        old, new = (c.rows() * np.int64(n_columns) + c.columns for c in (self.cells, cells))
        if len(old) and len(new):
            at = np.minimum(np.searchsorted(old, new), len(old) - 1)
            stays = old[at] == new
            for fresh, kept in zip((to_row, to_column), self.messages(), strict=True):
                fresh[stays] = kept[at[stays]]
        return Listed.of(cells, to_row.reshape(-1, K), to_column.reshape(-1, K))


def _sent_by_zeros(
    cells: Cells, strength: float, semiring: Semiring, beliefs: Beliefs
) -> tuple[Floats, Floats]:
    """What zeros send that no other factor claims, to first order, (n, K) each."""
    x, y = beliefs.rows[cells.rows()], beliefs.columns[:, cells.columns].T
    if semiring == "max-sum":

        def sent(v: Floats) -> Floats:
            return -np.clip(v, 0, strength)
    else:

        def sent(v: Floats) -> Floats:
            return np.logaddexp(0, v - strength) - np.logaddexp(0, v)

    to_row, to_column = sent(y - sent(x)), sent(x - sent(y))
    if semiring == "sum-product":
        return np.exp(to_row), np.exp(to_column)
    return to_row, to_column


def _shape(n: int, n_factors: int) -> tuple[int, int, int]:
    size = max(1, min(CHUNK, n))
    return -(-n // size), n_factors, size


def _pack(messages: Floats) -> Floats:
    """Messages (n, K) as kernels take them, (chunks, K, size)."""
    n, K = messages.shape
    n_chunks, _, size = _shape(n, K)
    flat = np.ones((n_chunks * size, K), np.float32)
    flat[:n] = messages
    return np.ascontiguousarray(flat.reshape(n_chunks, size, K).transpose(0, 2, 1))
