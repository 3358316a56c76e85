"""The commands, one module for each group of them.

This folder holds what one command does with its arguments. What several commands share is one
folder up: options, output, signals, the frame of a fit. Start with `fitting.py`.
"""
