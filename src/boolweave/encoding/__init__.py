"""Tables of answers, categories, numbers and dates as named columns of zeros and ones, and back.

This package turns columns of other kinds into 0/1 columns. Reading files, and tables that already
hold zeros and ones, belong to `boolweave.io` and `boolweave.data`. Start with `plan.py`, which says
how a column can be read; `choosing.py` decides how, `features.py` does it, `columns.py` does it for
all columns of a table, and `encoder.py` is the transformer of scikit-learn around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolweave.runtime.lazy import loading

if TYPE_CHECKING:
    from boolweave.encoding.encoder import TableEncoder

__all__ = ["TableEncoder"]

__getattr__ = loading(__name__, {"TableEncoder": "boolweave.encoding.encoder"})  # scikit-learn
