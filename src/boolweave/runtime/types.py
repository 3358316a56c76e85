"""Names for the kinds of arrays that pass through the package."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]  # of any type
Floats: TypeAlias = NDArray[np.floating[Any]]
Integers: TypeAlias = NDArray[np.integer[Any]]
Doubles: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]
Bits: TypeAlias = NDArray[np.uint8]
