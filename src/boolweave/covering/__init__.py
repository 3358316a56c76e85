"""Covers: the fewest factors that cover the ones of a matrix, with few false ones or none.

This package minimizes the number of factors (biclique covers, tilings, role mining); its bit-packed
kernels are in `kernels`. The search for the fewest errors with a given number of factors is in
`boolweave.search`. Start with `covering.py`.
"""
