"""Compiled inner loops on plain arrays.

A loop over messages, variables or entries belongs here if it must be fast; it knows nothing of the
rest of the package and decides nothing. Start with `max_sum.py`, the paper's update on floats.
"""
