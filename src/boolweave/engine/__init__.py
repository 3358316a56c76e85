"""One run of message passing: a problem, its messages, the loop over iterations, and the result.

Whatever happens between the first messages and the beliefs of one run belongs here; several runs,
learning and the choice of a rank are in `boolweave.fit`. Start with `loop.py`.
"""
