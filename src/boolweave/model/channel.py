"""The channel: the six-number noise model of every entry."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boolweave.model.odds import Doubles, log_probability
from boolweave.runtime.types import Integers

if TYPE_CHECKING:
    from boolweave.data.observations import Observations

_PROBABILITIES = ("one_given_zero", "one_given_one", "missing_given_zero", "missing_given_one")


def probability_array(name: str, value: ArrayLike) -> Doubles:
    """A read-only copy of probabilities; raise ValueError unless they are between 0 and 1."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold probabilities between 0 and 1, got {reprlib.repr(value)}"
        ) from None
    if array.ndim > 2:
        raise ValueError(
            f"{name} must be a number or an array that broadcasts to (rows, columns), "
            f"got {array.ndim} dimensions"
        )
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise ValueError(f"{name} must hold probabilities between 0 and 1, got {array[bad][0]}")
    array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Channel:
    """The noise model: how an entry z of the true matrix is observed, as 1, as 0 or as missing.

    A channel has six probabilities per entry, p(1|z), p(0|z) and p(missing|z) for z = 0, 1; the two
    of p(0|z) follow from the others. Each is a number or an array that broadcasts to (M, N).

    Parameters
    ----------
    one_given_zero : float or array, default=0.1
        p(1|0), the probability of a false positive.
    one_given_one : float or array, default=0.9
        p(1|1), the probability of a true positive.
    missing_given_zero, missing_given_one : float or array, optional
        p(missing|0) and p(missing|1). Without them, a missing entry says nothing about its value,
        and p(0|z) = 1 − p(1|z). With them, p(0|z) = 1 − p(1|z) − p(missing|z); if the two differ, a
        missing entry is evidence.

    Examples
    --------
    >>> from boolweave import Channel
    >>> Channel.symmetric(0.1)
    Channel(one_given_zero=0.1, one_given_one=0.9)
    >>> votes = Channel(
    ...     one_given_zero=0.05, one_given_one=0.6, missing_given_zero=0.1, missing_given_one=0.3
    ... )
    """

    one_given_zero: ArrayLike = 0.1
    one_given_one: ArrayLike = 0.9
    missing_given_zero: ArrayLike | None = None
    missing_given_one: ArrayLike | None = None

    def __post_init__(self) -> None:
        if (self.missing_given_zero is None) != (self.missing_given_one is None):
            raise ValueError(
                "missing_given_zero and missing_given_one belong together; pass both or neither"
            )
        for name in _PROBABILITIES:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, probability_array(name, getattr(self, name)))
        for value in ("zero", "one"):
            one = np.asarray(getattr(self, f"one_given_{value}"))
            missing = getattr(self, f"missing_given_{value}")
            if missing is not None and (one + np.asarray(missing) > 1 + 1e-12).any():
                raise ValueError(
                    f"one_given_{value} + missing_given_{value} must not exceed 1, because the "
                    f"rest is the probability of observing 0; lower one of them"
                )

    @classmethod
    def symmetric(cls, flip: ArrayLike) -> Channel:
        """Make a channel that flips zeros and ones with the same probability.

        Parameters
        ----------
        flip : float or array
            The probability of a flip, a number or an array that broadcasts to (M, N).

        Returns
        -------
        Channel
        """
        p = probability_array("flip", flip)
        # If p is so small that 1 − p is rounded to 1, only p = 0 is symmetric.
        p = np.where(p < np.finfo(np.float64).eps, 0.0, p)
        return cls(one_given_zero=p, one_given_one=1 - p)

    def __repr__(self) -> str:
        parts = []
        for name in _PROBABILITIES:
            value = getattr(self, name)
            if value is not None:
                shown = f"{float(value):g}" if value.ndim == 0 else f"<array {value.shape}>"
                parts.append(f"{name}={shown}")
        return f"Channel({', '.join(parts)})"

    def broadcasts_to(self, shape: tuple[int, int]) -> None:
        """Raise ValueError unless every probability broadcasts to `shape` (M, N)."""
        for name in _PROBABILITIES:
            value = getattr(self, name)
            if value is None:
                continue
            try:
                np.broadcast_to(value, shape)
            except ValueError:
                raise ValueError(
                    f"{name} must broadcast to the matrix {shape[0]} × {shape[1]}, "
                    f"got an array of shape {value.shape}"
                ) from None

    @property
    def n_rows(self) -> int | None:
        """The number of rows that have probabilities of their own; None if all have the same."""
        sizes = [len(v) for name in _PROBABILITIES if np.ndim(v := getattr(self, name)) == 2]
        return max(sizes, default=1) if max(sizes, default=1) > 1 else None

    def of_rows(self, rows: slice, n_rows: int) -> Channel:
        """The channel of some rows of a matrix that has `n_rows`."""
        own = {
            name: value[rows]
            for name in _PROBABILITIES
            if np.ndim(value := getattr(self, name)) == 2 and len(value) == n_rows > 1
        }
        return replace(self, **own) if own else self

    def of_new_rows(self) -> Channel:
        """The channel of rows that the matrix does not have: the mean of the rows that it has."""
        means = {
            name: value.mean(axis=0) if value.shape[1] > 1 else value.mean()
            for name in _PROBABILITIES
            if np.ndim(value := getattr(self, name)) == 2 and len(value) > 1
        }
        return replace(self, **means) if means else self

    def _at(
        self, name: str, rows: Integers, columns: Integers, shape: tuple[int, int]
    ) -> Doubles | float:
        """One of the probabilities at pairs of rows and columns; 0 if it was not given."""
        value = getattr(self, name)
        return 0.0 if value is None else np.broadcast_to(value, shape)[rows, columns]

    def log_probabilities(
        self, rows: Integers, columns: Integers, values: NDArray[np.uint8], shape: tuple[int, int]
    ) -> tuple[Doubles, Doubles]:
        """Logs of p(o|0) and p(o|1) for entries observed as `values` (0 or 1); each (n,)."""
        logs = []
        for given in ("zero", "one"):
            one = self._at(f"one_given_{given}", rows, columns, shape)
            zero = 1 - one - self._at(f"missing_given_{given}", rows, columns, shape)
            logs.append(log_probability(np.where(values == 1, one, np.maximum(zero, 0.0))))
        return logs[0], logs[1]

    @property
    def is_uniform(self) -> bool:
        """Whether the probabilities are the same for all entries."""
        return not any(np.ndim(getattr(self, name)) for name in _PROBABILITIES)

    def log_probabilities_by_value(self) -> tuple[Doubles, Doubles]:
        """Logs of p(o|0) and p(o|1) for o = 0 and 1, each (2,); the channel must be uniform."""
        index = np.zeros(2, dtype=np.intp)
        return self.log_probabilities(index, index, np.array([0, 1], dtype=np.uint8), (1, 1))

    def evidence_by_value(self) -> tuple[float, float]:
        """L = log p(o|1) − log p(o|0) of an observed 0 and of a 1; the channel must be uniform."""
        given_zero, given_one = self.log_probabilities_by_value()
        zero, one = (given_one - given_zero).tolist()
        return zero, one

    def missing_log_likelihood_ratio(self) -> Doubles:
        """log p(missing|1) − log p(missing|0), the evidence of a missing entry; broadcasts."""
        if self.missing_given_zero is None or self.missing_given_one is None:
            return np.zeros(())
        return log_probability(self.missing_given_one) - log_probability(self.missing_given_zero)

    def log_likelihood_ratio(self, observations: Observations) -> Doubles:
        """Compute the evidence of each observed entry, L = log p(o|1) − log p(o|0).

        Parameters
        ----------
        observations : Observations

        Returns
        -------
        ratio : (n_observed,) array
            The ratios in the order of ``observations.values``. A noiseless channel gives ±500
            instead of ±∞. The evidence of missing entries is `missing_log_likelihood_ratio`.

        Examples
        --------
        >>> from boolweave import Channel, Observations
        >>> seen = Observations.from_dense([[1, 0], [float("nan"), 1]])
        >>> Channel.symmetric(0.1).log_likelihood_ratio(seen).round(2)
        array([ 2.2, -2.2,  2.2])
        """
        self.broadcasts_to(observations.shape)
        given_zero, given_one = self.log_probabilities(
            observations.rows_of_entries(),
            observations.indices,
            observations.values,
            observations.shape,
        )
        return given_one - given_zero

    def probability_of_one(
        self, latent: Doubles, rows: Integers, columns: Integers, shape: tuple[int, int]
    ) -> Doubles:
        """P(o = 1 | o is not missing) for entries whose P(z = 1) is `latent` (n,)."""
        one, visible = np.zeros_like(latent), np.zeros_like(latent)
        for given, weight in (("zero", 1 - latent), ("one", latent)):
            one += weight * self._at(f"one_given_{given}", rows, columns, shape)
            visible += weight * (1.0 - self._at(f"missing_given_{given}", rows, columns, shape))
        return np.divide(one, visible, out=np.full_like(one, 0.5), where=visible > 0)
