"""What is believed beforehand: the Boolean product, the channel and the priors, as log-odds.

Formulas that need no messages belong here; iterations and learning do not. Start with `model.py`.
"""
