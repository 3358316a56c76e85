"""Compiled loops over a matrix of which only the ones are listed; all other cells are zeros.

Loops over lists of ones, and over the tiles of decoded factors, belong here. Their meaning, and
when they are called, is in `boolweave.engine.zeros`. Start with `collective.py`, then `tiles.py`.
"""
