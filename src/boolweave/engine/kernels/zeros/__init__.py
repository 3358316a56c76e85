"""The inner loops over a matrix of which only the ones are listed: all else is zero.

Compiled loops over lists of ones, and over the tiles of decoded factors, belong here; what they
mean, and when they are called, is in `boolweave.engine.zeros`. Start with `collective.py`, then
`tiles.py`.
"""
