"""Compiled loops over bit-packed matrices: reductions, first fit, independent ones.

Each file holds one kind of step; `boolweave.covering` decides which step comes next. Start with
`reducing.py`, which has the layout of the data.
"""
