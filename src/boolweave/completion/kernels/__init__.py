"""Compiled loops of completion: drawing offsets and directions, and adding up predictions.

They know nothing of the rest. Start reading in `drawing`.
"""
