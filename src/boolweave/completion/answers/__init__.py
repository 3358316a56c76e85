"""What is asked of a finished ensemble: whole rows, recommendations, reasons, new rows, files.

All of it works on an `Ensemble` and the `Observations` it was fitted to, and changes neither.
Fitting does not belong here, nor does what a single member says of a pair (`completion.member`).
Start reading in `dense`, then `explaining`.
"""
