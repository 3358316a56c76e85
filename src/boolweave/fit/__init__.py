"""Several runs of the engine: starts, learning of noise and priors, the search for a rank.

Which run comes next, and which answer is taken, is decided here; the updates of messages are in
`boolweave.engine`. Start with `learn.py`.
"""
