"""Covers: the fewest factors that cover the ones of a matrix, with few false ones or none.

What is decided by the number of factors belongs here (biclique covers, tilings, roles), with its
bit-packed kernels in `kernels`; the fewest errors of so many factors belong to `boolweave.search`.
Start with `covering.py`.
"""
