"""First beliefs: an external field on the variables that fades as damped messages would.

Random first messages break the symmetry between factors. With damping λ, (1 − λ)^t of each remains
after t iterations; their sums over a row or a column, Gaussian for more than a few entries, fade in
the same way. So a field of one number for each variable does what two random messages for each
entry and factor would do, and integer messages, which cannot hold arbitrary values, can start
neutral. The same kind of field starts a run from approximately known factors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.runtime.types import Floats

# A field is stored in bytes: 32 steps for a standard deviation, clipped at four of them.
STEPS = 32
LARGEST = 127

# Number of random numbers that are drawn at once.
DRAWN_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Field:
    """Log-odds to be added to the beliefs of all variables, in whole steps."""

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
    ) -> Field:
        """Gaussian numbers with the standard deviations of rows and of columns."""
        rows = _gaussian((shape[0], n_components), random)
        columns = _gaussian((n_components, shape[1]), random)
        return cls(rows, columns, deviations[0] / STEPS, deviations[1] / STEPS, least)

    @classmethod
    def of_log_odds(cls, rows: Floats, columns: Floats, least: float) -> Field:
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

    def part(self, rows: slice) -> Field:
        """The field of some rows, and of all columns."""
        return replace(self, rows=self.rows[rows])

    def faded(self, damping: float) -> Field | None:
        """The field after one more iteration; None if it has faded away."""
        kept = 1 - damping
        row_step, column_step = kept * self.row_step, kept * self.column_step
        if LARGEST * max(row_step, column_step) < self.least:
            return None
        return replace(self, row_step=row_step, column_step=column_step)


def _gaussian(shape: tuple[int, int], random: np.random.Generator) -> NDArray[np.int8]:
    """Standard normal numbers in steps; they do not depend on the size of the pieces."""
    values = np.empty(shape[0] * shape[1], dtype=np.int8)
    for first in range(0, len(values), DRAWN_AT_ONCE):
        drawn = random.standard_normal(min(DRAWN_AT_ONCE, len(values) - first), dtype=np.float32)
        drawn *= STEPS
        np.clip(drawn, -LARGEST, LARGEST, out=drawn)
        values[first : first + DRAWN_AT_ONCE] = np.rint(drawn)
    return values.reshape(shape)
