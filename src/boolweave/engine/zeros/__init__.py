"""Sparse matrices in which absence means zero: a back end that stores no message of a zero.

Whatever treats all zeros of a row at once, counts cells of tiles without forming the matrix, or
finds first factors in lists of ones belongs here; compiled loops are in `engine/kernels/zeros`,
and messages of ones are kept by the other back ends. Start with `backend.py`, then `collective.py`
and `tiles.py`.
"""
