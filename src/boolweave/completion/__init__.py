"""Completion: probabilities of unobserved entries.

Rows and columns of a table have offsets, and positions along a few directions; Boolean layers move
entries further up or down. Chains of draws (`chain`) are averaged over stretches (`member`), and
members over families (`ensemble`); held-out entries decide which families are used (`choice`).
Methods that explain a table rather than complete it do not belong here. Start reading in
`estimator`, then `fitting`.
"""

from boolweave.completion.estimator import BooleanCompletion

__all__ = ["BooleanCompletion"]
