"""The search for the factors with the fewest errors: a table is explained, not predicted.

What chooses among tiles by the number of wrong entries belongs here, with its bit-packed kernels in
`kernels`; message passing does not, it only makes some of the starts, through `boolweave.fit`.
Start with `searching.py`.
"""
