"""Log-likelihood ratios of channel outputs, log p(0)/p(1), with the sign usual in coding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from boolweave.model.odds import log_odds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def bsc_llr(received: ArrayLike, flip: float) -> NDArray[np.float64]:
    """Log-likelihood ratios of bits that are flipped with probability `flip` (BSC).

    Parameters
    ----------
    received : array of 0 and 1, any shape; NaN marks an erased bit
    flip : float
        Probability of a flip, between 0 and 1; with 0, every bit is certain.

    Returns
    -------
    llr : array of the same shape

    Examples
    --------
    >>> from boolweave.decoding import bsc_llr
    >>> bsc_llr([0, 1], flip=0.1).round(2)
    array([ 2.2, -2.2])
    """
    if not 0 <= flip <= 1:
        raise ValueError(f"flip must be a probability between 0 and 1, got {flip}")
    bits = np.asarray(received, dtype=np.float64)
    wrong = ~(np.isnan(bits) | (bits == 0) | (bits == 1))
    if wrong.any():
        raise ValueError(
            f"received must hold 0, 1 or NaN (erased), got {bits[wrong][0]}; for real values "
            f"use awgn_llr"
        )
    strength = -log_odds(flip, limit=np.inf)
    return np.where(np.isnan(bits), 0.0, np.where(bits == 1, -strength, strength))


def bec_llr(received: ArrayLike) -> NDArray[np.float64]:
    """Log-likelihood ratios of bits that are either certain or erased (BEC).

    Parameters
    ----------
    received : array of 0, 1 and NaN, any shape

    Returns
    -------
    llr : array of the same shape
        +∞ for 0, −∞ for 1, 0 for an erased bit.

    Examples
    --------
    >>> from boolweave.decoding import bec_llr
    >>> bec_llr([0, 1, float("nan")])
    array([ inf, -inf,   0.])
    """
    return bsc_llr(received, 0.0)


def awgn_llr(received: ArrayLike, sigma: float) -> NDArray[np.float64]:
    """Log-likelihood ratios of a Gaussian channel that sends bit 0 as +1 and bit 1 as −1.

    Parameters
    ----------
    received : array of float, any shape
        The received values: ±1 plus Gaussian noise.
    sigma : float
        Standard deviation of the noise; `ebn0_to_sigma` computes it from decibels.

    Returns
    -------
    llr : array of the same shape

    Examples
    --------
    >>> from boolweave.decoding import awgn_llr
    >>> awgn_llr([1.2, -0.3], sigma=0.5)
    array([ 9.6, -2.4])
    """
    if not sigma > 0:
        raise ValueError(f"sigma must be positive, got {sigma}")
    return 2.0 * np.asarray(received, dtype=np.float64) / sigma**2


def ebn0_to_sigma(ebn0_db: float, rate: float) -> float:
    """Compute the standard deviation of the noise from the energy per message bit.

    Parameters
    ----------
    ebn0_db : float
        Eb/N0 in decibels.
    rate : float
        Message bits per sent bit, `ParityCheckCode.rate`.

    Returns
    -------
    float

    Examples
    --------
    >>> from boolweave.decoding import ebn0_to_sigma
    >>> round(ebn0_to_sigma(0.0, rate=0.5), 3)
    1.0
    """
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be above 0 and at most 1, got {rate}")
    return float(np.sqrt(1.0 / (2.0 * rate * 10.0 ** (ebn0_db / 10.0))))
