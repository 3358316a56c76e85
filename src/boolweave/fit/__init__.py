"""Several runs of the engine: starts, learning of noise and priors, the search for a rank.

This package decides which run comes next and which answer is kept. The updates of messages are in
`boolweave.engine`. Start with `learn.py`.
"""
