"""Messages of max-sum as floats in the place of integers, for the last iterations.

A byte for a message finds the way, but where a table is nearly the product of its factors much
hangs on messages that are smaller than its smallest step. Some iterations with floats from there
find better factors than floats, or integers, all the way.
"""

from __future__ import annotations

# This share of the iterations: floats take ten times as long as integers, and four times their
# memory. So many bytes are the limit, and for all starts rather than the best one only, so many.
SHARE = 0.3
MOST_BYTES = 300_000_000
FEW_BYTES = 80_000_000


def is_possible(n_entries: int, n_components: int) -> bool:
    """Whether there are few enough messages; what else a fit is told does not count."""
    return _n_bytes(n_entries, n_components) <= MOST_BYTES


def is_quick(n_entries: int, n_components: int) -> bool:
    """Whether there are so few messages that all starts can be finished."""
    return _n_bytes(n_entries, n_components) <= FEW_BYTES


def n_iterations(max_iter: int) -> int:
    """How many of the iterations are with floats."""
    return int(SHARE * max_iter)


def n_bytes(n_entries: int, n_components: int) -> int:
    """What the last iterations take beyond integer messages; 0 if there are none."""
    return _n_bytes(n_entries, n_components) if is_possible(n_entries, n_components) else 0


def _n_bytes(n_entries: int, n_components: int) -> int:
    """Bytes of floats, evidence and columns."""
    return n_entries * (8 * n_components + 64)
