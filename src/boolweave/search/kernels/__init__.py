"""Compiled loops over bit-packed tables: 64 entries per word, counted by popcount.

Each file holds one kind of step, for rows and columns alike; which step comes next is decided in
`boolweave.search.searching`. Start with `factors.py`, which has the layout of the data.
"""
