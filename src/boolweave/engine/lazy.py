"""Arrays that are worked out, or fetched, when somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Later:
    """Stands for an array, or for what holds some; `to_local` is what it stands for."""

    def to_local(self) -> Any:
        """The whole of it."""
        raise NotImplementedError

    @property
    def T(self) -> Any:
        """The array, transposed."""
        return self.to_local().T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.to_local(), dtype=dtype)

    def __len__(self) -> int:
        return len(self.to_local())

    def __getitem__(self, index: Any) -> Any:
        return self.to_local()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_local())
