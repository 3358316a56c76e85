"""The search for the factors with the fewest errors, which describes a table rather than predicts.

This package chooses tiles by the number of wrong entries; its bit-packed kernels are in `kernels`.
Message passing does not belong here; it only makes some of the starts, through `boolweave.fit`.
Start with `searching.py`.
"""
