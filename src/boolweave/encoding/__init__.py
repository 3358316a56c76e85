"""Tables of categories, numbers and dates as named columns of zeros and ones, and back.

This package turns columns of other kinds into 0/1 columns. Reading files, and tables that already
hold zeros and ones, belong to `boolweave.io` and `boolweave.data`. Start with `encoder.py`;
`choosing.py` decides what kind a column is, and `features.py` does the rest.
"""

from boolweave.encoding.encoder import TableEncoder

__all__ = ["TableEncoder"]
