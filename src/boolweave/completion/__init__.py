"""Completion: probabilities of entries that were not seen."""
