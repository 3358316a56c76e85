"""Planted problems: random factors, their noisy and partly hidden product, and the answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boolweave.data.observations import Observations
from boolweave.model.products import Product, boolean_product, check_product
from boolweave.runtime.checks import check_count, generator_of

_NUMBERS = (int, float, np.integer, np.floating)

RandomState = int | np.random.Generator | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class Planted:
    """A problem drawn by `make_boolean`, with its answer.

    Attributes
    ----------
    observations : Observations
        The observed entries, including flipped ones. Shape (M, N).
    X : ndarray of shape (M, K), uint8
        Row factor.
    Y : ndarray of shape (K, N), uint8
        Column factor.
    Z : ndarray of shape (M, N), uint8
        Boolean product of X and Y, without noise and missing entries.
    """

    observations: Observations
    X: NDArray[np.uint8]
    Y: NDArray[np.uint8]
    Z: NDArray[np.uint8]


def make_boolean(
    n_rows: int = 1000,
    n_columns: int = 1000,
    n_components: int = 5,
    *,
    product: Product = "or",
    row_density: float | None = None,
    column_density: float | None = None,
    flip: float | tuple[float, float] = 0.0,
    observed: float | int = 1.0,
    random_state: RandomState = None,
) -> Planted:
    """Draw random factors, multiply them, flip some entries and hide others.

    Parameters
    ----------
    n_rows, n_columns, n_components : int
        M, N and K.
    product : {"or", "xor"}
        How the K terms of an entry are combined.
    row_density, column_density : float, optional
        P(x = 1) and P(y = 1). By default, the expected fraction of ones in Z is one half: for "or",
        both densities are sqrt(1 - 0.5 ** (1 / K)); for "xor", both are 1/2. If only one of the two
        is given for "or", the other is chosen so that the fraction is again one half, and an error
        is raised if that is impossible.
    flip : float or pair of float
        Probability that an entry is flipped, or the pair (p(1 observed | 0), p(0 observed | 1)).
    observed : float or int
        Fraction of the entries that are observed, in (0, 1], or their number, a whole number >= 2.
        They are drawn without replacement, ``round(observed * M * N)`` of them for a fraction.
    random_state : int, numpy Generator or RandomState, optional
        Random seed; equal seeds give equal problems.

    Returns
    -------
    Planted

    Examples
    --------
    >>> from boolweave.datasets import make_boolean
    >>> planted = make_boolean(20, 30, 3, flip=0.1, observed=0.5, random_state=0)
    >>> planted.X.shape, planted.Y.shape, planted.Z.shape
    ((20, 3), (3, 30), (20, 30))
    >>> planted.observations.n_observed
    300
    """
    for name, size in (
        ("n_rows", n_rows),
        ("n_columns", n_columns),
        ("n_components", n_components),
    ):
        check_count(name, size)
    check_product(product)
    row_p, column_p = _densities(int(n_components), product, row_density, column_density)
    one_given_zero, zero_given_one = _flip_pair(flip)
    n_entries = int(n_rows) * int(n_columns)
    n_observed = _n_observed(observed, n_entries)
    rng = _generator(random_state)

    X = (rng.random((n_rows, n_components)) < row_p).astype(np.uint8)
    Y = (rng.random((n_components, n_columns)) < column_p).astype(np.uint8)
    Z = boolean_product(X, Y, product)
    if n_observed == n_entries:
        entries = np.arange(n_entries, dtype=np.int64)
    else:
        entries = np.sort(rng.choice(n_entries, size=n_observed, replace=False, shuffle=False))
    truth = Z.ravel()[entries]
    # One number is drawn per entry, so that factors and observed entries of a seed do not depend on
    # the flip probabilities.
    wrong = rng.random(n_observed) < np.where(truth == 1, zero_given_one, one_given_zero)
    rows, columns = np.divmod(entries, n_columns)
    observations = Observations.from_triples(
        rows, columns, truth ^ wrong.astype(np.uint8), shape=(int(n_rows), int(n_columns))
    )
    return Planted(observations=observations, X=X, Y=Y, Z=Z)


def _densities(
    n_components: int, product: Product, row: float | None, column: float | None
) -> tuple[float, float]:
    """P(x = 1) and P(y = 1), with defaults for those that are not given."""
    for name, density in (("row_density", row), ("column_density", column)):
        if density is not None:
            _check_probability(name, density)
    if product == "xor":
        return (0.5 if row is None else float(row), 0.5 if column is None else float(column))
    # P(z = 0) = (1 - p_x p_y)^K = 1/2 fixes the product of the two densities.
    both = 1.0 - 0.5 ** (1.0 / n_components)
    if row is not None and column is not None:
        return float(row), float(column)
    given = column if row is None else row
    if given is None:
        return math.sqrt(both), math.sqrt(both)
    given = float(given)
    if given < both:
        raise ValueError(
            f"with a density of {given} for one factor, fewer than half of Z are ones whatever the "
            f"other is (at least {both:.4g} is needed); pass both row_density and column_density"
        )
    return (both / given, given) if row is None else (given, both / given)


def _flip_pair(flip: float | tuple[float, float]) -> tuple[float, float]:
    """`flip` as (p(1 observed | 0), p(0 observed | 1))."""
    pair = (flip, flip) if isinstance(flip, _NUMBERS) else flip
    if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
        raise ValueError(f"flip must be a number or a pair (p(1|0), p(0|1)), got {flip!r}")
    for probability in pair:
        _check_probability("flip", probability)
    return float(pair[0]), float(pair[1])  # type: ignore[arg-type]


def _n_observed(observed: float | int, n_entries: int) -> int:
    """Return the number of observed entries, from a fraction or a count."""
    if isinstance(observed, bool) or not isinstance(observed, _NUMBERS):
        raise TypeError(f"observed must be a fraction in (0, 1] or a count >= 2, got {observed!r}")
    if isinstance(observed, (int, np.integer)) and observed != 1:
        if not 2 <= observed <= n_entries:
            raise ValueError(
                f"observed as a count must lie between 2 and M*N = {n_entries}, got {observed}"
            )
        return int(observed)
    if not 0 < observed <= 1:
        raise ValueError(
            f"observed must be a fraction in (0, 1] or a whole number >= 2, got {observed!r}"
        )
    return max(1, round(float(observed) * n_entries))


def _check_probability(name: str, value: object) -> None:
    if not isinstance(value, _NUMBERS) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a probability between 0 and 1, got {value!r}")


def _generator(random_state: RandomState) -> np.random.Generator:
    """A generator from any kind of seed that scikit-learn accepts."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, size=4))
    return generator_of(random_state)
