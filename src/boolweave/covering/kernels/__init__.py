"""Compiled loops over bit-packed matrices: reductions, first fit, independent ones.

Each file holds one kind of step; which comes next is decided in `boolweave.covering`. Start with
`reducing.py`, which has the layout of the data.
"""
