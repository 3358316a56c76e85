"""Compiled inner loops on plain arrays.

A loop over messages, variables or entries belongs here if it must be fast. Kernels do not depend on
the rest of the package and make no decisions. Start with `max_sum.py`, the update of the paper on
floats.
"""
