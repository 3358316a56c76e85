"""The probabilistic model: the Boolean product, the channel, the priors and their log-odds.

This package holds formulas that need no messages. Messages, iterations and learning are in
`boolweave.engine` and `boolweave.fit`. Start reading with `model.py`, then `channel.py`.
"""
