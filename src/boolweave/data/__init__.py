"""Observed entries of a table, with their rows, columns and labels.

Everything that turns an accepted input into `Observations`, checks it, and splits it for training
and testing belongs here; files, probabilities and fitting do not. Start with `observations.py`,
then `convert.py` and `entries.py`.
"""
