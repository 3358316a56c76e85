"""Answers of a fitted ensemble: explanations, new rows, files.

Everything works on an `Ensemble` and the `Observations` to which it was fitted, and changes
neither. Fitting does not belong here, nor do predictions (`completion.ensemble`). Start reading in
`explaining`.
"""
