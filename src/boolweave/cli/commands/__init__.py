"""The commands, one module for each group of them.

What one command does with its arguments belongs here. What several commands share stands one
folder up: options, output, signals, the frame of a fit. Start with `fitting.py`.
"""
