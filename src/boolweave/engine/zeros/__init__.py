"""Sparse matrices in which absence means zero: a back end that stores no messages of zeros.

This package treats all zeros of a row at once, counts the cells of tiles without forming the
matrix, and finds first factors from lists of ones. Compiled loops are in `engine/kernels/zeros`,
and the other back ends keep the messages of ones. Start with `backend.py`, then `collective.py` and
`tiles.py`.
"""
