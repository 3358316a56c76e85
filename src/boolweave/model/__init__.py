"""What is believed before looking: the Boolean product, the channel, the priors and their log-odds.

Formulas that need no messages belong here. Messages, iterations and learning do not: they are in
`boolweave.engine` and `boolweave.fit`. Start reading with `model.py`, then `channel.py`.
"""
