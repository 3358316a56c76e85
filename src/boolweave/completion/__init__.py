"""Completion: probabilities of unobserved entries.

Rows and columns of a table have offsets, and positions along a few directions; Boolean layers move
entries further up or down. A member is the average of some draws of a chain (`chain`), and an
ensemble (`ensemble`) has families of members; held-out entries choose them (`selection`).
Methods that explain a table rather than complete it do not belong here. Start reading in
`estimator`, then `fitting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolweave.runtime.lazy import loading

if TYPE_CHECKING:
    from boolweave.completion.estimator import BooleanCompletion

__all__ = ["BooleanCompletion"]

# It needs scikit-learn, which a stored model does not.
__getattr__ = loading(__name__, {"BooleanCompletion": "boolweave.completion.estimator"})
