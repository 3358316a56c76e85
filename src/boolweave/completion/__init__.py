"""Completion: probabilities of entries that were not seen.

A row and a column of a table each have an offset, and positions along a few directions; Boolean
layers move entries further up or down. Chains of draws (`chain`) are averaged over stretches
(`member`), members over families (`ensemble`); which families, entries held out decide (`choice`).
Methods for tables that are to be explained, not completed, do not belong here. Start reading in
`estimator`, then `fitting`.
"""

from boolweave.completion.estimator import BooleanCompletion

__all__ = ["BooleanCompletion"]
