"""Tables of categories, numbers and dates as named columns of zeros and ones, and back.

What turns a column that is no 0/1 column into several that are belongs here; reading files, and
tables that hold zeros and ones already, do not (`boolweave.io`, `boolweave.data`). Start with
`encoder.py`; `choosing.py` decides what a column is, `features.py` does the rest.
"""

from boolweave.encoding.encoder import TableEncoder

__all__ = ["TableEncoder"]
