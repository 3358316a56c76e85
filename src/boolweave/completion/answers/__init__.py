"""Answers of a fitted ensemble: whole rows, explanations, new rows, files.

Everything works on an `Ensemble` and the `Observations` to which it was fitted, and changes
neither. Fitting does not belong here, nor do the predictions of a single member
(`completion.member`). Start reading in `dense`, then `explaining`.
"""
