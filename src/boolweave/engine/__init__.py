"""One run of message passing: a problem, its messages, the loop over iterations, and the result.

This package holds everything between the first messages and the beliefs of one run. Several runs,
learning and the choice of a rank are in `boolweave.fit`. Start with `loop.py`.
"""
