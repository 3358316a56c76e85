"""Which model completes a table best: trials on held-out entries, and the blend of the best ones.

How a model is fitted does not belong here (`completion.runs`). Start reading in `selection`.
"""
