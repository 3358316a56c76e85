"""Tables of answers, categories, numbers and dates as named columns of zeros and ones, and back.

This package turns columns of other kinds into 0/1 columns. Reading files, and tables that already
hold zeros and ones, belong to `boolweave.io` and `boolweave.data`. Start with `plan.py`, which says
how a column can be read; `choosing.py` decides how, `features.py` does it, `columns.py` does it for
all columns of a table, and `encoder.py` is the transformer of scikit-learn around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boolweave.encoding.encoder import TableEncoder

__all__ = ["TableEncoder"]


def __getattr__(name: str) -> object:
    if name == "TableEncoder":  # needs scikit-learn, which a plan does not
        from boolweave.encoding.encoder import TableEncoder

        return TableEncoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
