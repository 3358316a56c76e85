"""The rows and columns whose names are on a page: those that are drawn, and those in lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.data.labels import name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boolweave.data.observed import ObservedEntries
    from boolweave.runtime.types import Floats, Integers


class Lines:
    """Rows, or columns, in the order of their numbers on the page.

    Parameters
    ----------
    seen : Observations or SparseObservations, shape (M, N)
    axis : {"row", "column"}
    drawn : array of shape (n,)
        Positions of the lines that get the first numbers.
    members : array of shape (M or N, K), optional
        The factors to which they belong.
    offsets : array of shape (M or N,), optional
        The offsets of a completion.
    """

    def __init__(
        self,
        seen: ObservedEntries,
        axis: str,
        drawn: Integers,
        members: NDArray[np.bool_] | None = None,
        offsets: Floats | None = None,
    ) -> None:
        self.seen, self.axis, self.members, self.offsets = seen, axis, members, offsets
        self._numbers = {position: number for number, position in enumerate(drawn.tolist())}

    def numbers(self, positions: Integers) -> NDArray[np.int32]:
        """The numbers of lines, (n,); new lines are added."""
        known = self._numbers
        found = [known.setdefault(position, len(known)) for position in positions.tolist()]
        return np.array(found, dtype=np.int32)

    def table(self) -> dict[str, object]:
        """For JSON: names, and factors (numbered from 0) or offsets, by number."""
        at = np.array(list(self._numbers), dtype=np.intp)
        table: dict[str, object] = {
            "names": [name_of(self.seen, position, self.axis) for position in at.tolist()]
        }
        if self.members is not None:
            table["factors"] = [np.flatnonzero(own).tolist() for own in self.members[at]]
        if self.offsets is not None:
            table["offsets"] = self.offsets[at].round(3).tolist()
        return table
