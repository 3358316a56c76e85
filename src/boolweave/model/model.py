"""What is believed before looking: the noisy channel and the priors of the factors.

`Channel` is the six-number noise model of every entry; `Model` adds the product and the priors.
Both are turned into log-odds here, once, so that the engine sees sums only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from boolweave.model.products import Product, check_product

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from boolweave.data.observations import Observations

    FloatArray = NDArray[np.float64]

# log p is cut here, so that an observation without noise weighs as much as e^500 but sums of
# such observations stay finite, and differences between them exact enough, in 32-bit floats.
HARD_EVIDENCE = 500.0

# The log-odds of a known entry of a factor. It absorbs whatever is added to it, stays finite when a
# few are added, and leaves 32-bit floats room for sums of them.
HARD_BELIEF = 1e30

_PROBABILITIES = ("one_given_zero", "one_given_one", "missing_given_zero", "missing_given_one")


def _probability(name: str, value: ArrayLike) -> FloatArray:
    """A read-only copy of `value`, checked."""
    array = np.array(value, dtype=np.float64)
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


def _log(probability: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(probability), -HARD_EVIDENCE)


def sigmoid(odds: NDArray[np.floating]) -> FloatArray:
    """Probabilities of log-odds."""
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(odds, dtype=np.float64)))


def log_odds(probability: ArrayLike) -> FloatArray:
    """Log-odds of probabilities; 0 and 1 give the finite stand-ins ∓`HARD_BELIEF`."""
    p = np.asarray(probability, dtype=np.float64)
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-p)
    return np.clip(odds, -HARD_BELIEF, HARD_BELIEF)


@dataclass(frozen=True, eq=False)
class Channel:
    """How an entry z of the true matrix becomes what is seen: 1, 0 or nothing.

    Six probabilities per entry, p(1|z), p(0|z) and p(missing|z) for z = 0, 1; the two of p(0|z)
    follow from the others. Each is a number or an array that broadcasts to (M, N).

    Parameters
    ----------
    one_given_zero : float or array, default=0.1
        p(1|0), the false positives.
    one_given_one : float or array, default=0.9
        p(1|1), the true positives.
    missing_given_zero, missing_given_one : float or array, optional
        p(missing|0) and p(missing|1). Left out, a missing entry says nothing about its value, and
        p(0|z) = 1 − p(1|z). Given, p(0|z) = 1 − p(1|z) − p(missing|z); where the two differ, a
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
                "missing_given_zero and missing_given_one go together: give both or neither"
            )
        for name in _PROBABILITIES:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _probability(name, getattr(self, name)))
        for value in ("zero", "one"):
            one = np.asarray(getattr(self, f"one_given_{value}"))
            missing = getattr(self, f"missing_given_{value}")
            if missing is not None and (one + np.asarray(missing) > 1 + 1e-12).any():
                raise ValueError(
                    f"one_given_{value} + missing_given_{value} must not exceed 1: "
                    f"the rest is the probability of seeing 0"
                )

    @classmethod
    def symmetric(cls, flip: ArrayLike) -> Channel:
        """The channel that flips an entry with probability `flip`, whatever it is."""
        p = _probability("flip", flip)
        p = np.where(p < np.finfo(np.float64).eps, 0.0, p)  # 1 − p would be 1, and lopsided
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

    def of_rows(self, rows: slice, n_rows: int) -> Channel:
        """The channel of some rows of a matrix that has `n_rows`."""
        own = {
            name: value[rows]
            for name in _PROBABILITIES
            if np.ndim(value := getattr(self, name)) == 2 and len(value) == n_rows > 1
        }
        return replace(self, **own) if own else self

    def log_probabilities(
        self, rows: NDArray[np.integer], columns: NDArray[np.integer], values: NDArray[np.uint8],
        shape: tuple[int, int],
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Logs of p(o|0) and p(o|1) for entries seen as `values` (0 or 1); each (n,)."""
        logs = []
        for given in ("zero", "one"):
            one = np.broadcast_to(getattr(self, f"one_given_{given}"), shape)[rows, columns]
            missing = getattr(self, f"missing_given_{given}")
            gone = 0.0 if missing is None else np.broadcast_to(missing, shape)[rows, columns]
            logs.append(_log(np.where(values == 1, one, np.maximum(1 - one - gone, 0.0))))
        return logs[0], logs[1]

    def log_probabilities_by_value(self) -> tuple[FloatArray, FloatArray] | None:
        """Logs of p(o|0) and p(o|1) for o = 0 and 1, each (2,), if the same for every entry."""
        if any(np.ndim(getattr(self, name)) for name in _PROBABILITIES):
            return None
        index = np.zeros(2, dtype=np.intp)
        return self.log_probabilities(index, index, np.array([0, 1], dtype=np.uint8), (1, 1))

    def missing_log_likelihood_ratio(self) -> FloatArray:
        """What a missing entry says: log p(missing|1) − log p(missing|0); broadcasts to (M, N)."""
        if self.missing_given_zero is None or self.missing_given_one is None:
            return np.zeros(())
        return _log(np.asarray(self.missing_given_one)) - _log(np.asarray(self.missing_given_zero))

    def log_likelihood_ratio(self, observations: Observations) -> FloatArray:
        """What each observed entry says: L = log p(o|1) − log p(o|0).

        Parameters
        ----------
        observations : Observations

        Returns
        -------
        ratio : (n_observed,) array
            In the order of ``observations.values``. A noiseless channel gives ±500 in place of ±∞.
            What the entries not observed say is `missing_log_likelihood_ratio`.

        Examples
        --------
        >>> from boolweave import Channel, Observations
        >>> seen = Observations.from_dense([[1, 0], [float("nan"), 1]])
        >>> Channel.symmetric(0.1).log_likelihood_ratio(seen).round(2)
        array([ 2.2, -2.2,  2.2])
        """
        self.broadcasts_to(observations.shape)
        given_zero, given_one = self.log_probabilities(
            observations.rows_of_entries(), observations.indices, observations.values,
            observations.shape,
        )  # fmt: skip
        return given_one - given_zero

    def seen_one(
        self, latent: FloatArray, rows: NDArray[np.integer], columns: NDArray[np.integer],
        shape: tuple[int, int],
    ) -> FloatArray:  # fmt: skip
        """P(o = 1 | o is not missing) for entries whose P(z = 1) is `latent` (n,)."""
        ones, seen = [], []
        for given in ("zero", "one"):
            missing = getattr(self, f"missing_given_{given}")
            gone = 0.0 if missing is None else np.broadcast_to(missing, shape)[rows, columns]
            ones.append(np.broadcast_to(getattr(self, f"one_given_{given}"), shape)[rows, columns])
            seen.append(1.0 - gone)
        one = (1 - latent) * ones[0] + latent * ones[1]
        visible = (1 - latent) * seen[0] + latent * seen[1]
        return np.divide(one, visible, out=np.full_like(one, 0.5), where=visible > 0)


@dataclass(frozen=True, eq=False)
class Model:
    """The problem's fixed beliefs: the product, the channel and the priors of both factors.

    Parameters
    ----------
    n_components : int
        K, the number of factors.
    channel : Channel
    row_prior, column_prior : float or array
        P(x = 1) and P(y = 1): numbers or arrays that broadcast to (M, K) and (K, N). 0 and 1 are
        hard knowledge: such an entry is fixed.
    product : {"or", "xor"}
    """

    n_components: int
    channel: Channel
    row_prior: ArrayLike = 0.5
    column_prior: ArrayLike = 0.5
    product: Product = "or"

    def __post_init__(self) -> None:
        if self.n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {self.n_components}")
        check_product(self.product)
        for name in ("row_prior", "column_prior"):
            object.__setattr__(self, name, _probability(name, getattr(self, name)))

    def prior_log_odds(self, shape: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
        """Prior log-odds a (M, K) and b (K, N) of the two factors of an (M, N) matrix."""
        odds = []
        for name, size, of in (
            ("row_prior", (shape[0], self.n_components), "(rows, factors)"),
            ("column_prior", (self.n_components, shape[1]), "(factors, columns)"),
        ):
            value = log_odds(getattr(self, name))
            try:
                odds.append(np.broadcast_to(value, size))
            except ValueError:
                raise ValueError(
                    f"{name} must be a number or broadcast to {of} = {size}, "
                    f"got an array of shape {value.shape}"
                ) from None
        return odds[0], odds[1]
