"""Covers: the fewest factors that cover the ones of a matrix, with few false ones or none.

This package minimises the number of factors (biclique covers, tilings, roles); its bit-packed
kernels are in `kernels`. The fewest errors of a given number of factors belong to
`boolweave.search`. Start with `covering.py`.
"""
