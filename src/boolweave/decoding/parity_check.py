"""Parity-check codes: encoding, decoding by message passing on the Tanner graph, and channels.

Log-likelihood ratios of channel outputs are log p(0)/p(1), with the sign usual in coding.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from boolweave.decoding.tanner import (
    METHODS,
    DecoderSettings,
    Matrix,
    TannerGraph,
    as_probabilities,
    as_sparse_bits,
    ones_at,
    propagate,
)
from boolweave.io.files import FileError, decoded
from boolweave.model.odds import HARD_BELIEF, log_odds, with_infinities
from boolweave.model.products import boolean_product
from boolweave.runtime.types import Array, Floats
from boolweave.runtime.words import shortened


@dataclass(frozen=True, eq=False)
class DecodingResult:
    """The result of `ParityCheckCode.decode`.

    For a batch, the arrays have a row or an entry per word; for a single word of shape (n,), `bits`
    and `llr` are (n,) and the others are single numbers.

    Attributes
    ----------
    bits : (words, n) uint8 array
        The decided bits.
    converged : (words,) bool array
        Whether the decided bits are a code word (or have the given syndrome) and all of them are
        determined; an erased bit about which no message says anything is not determined.
    n_iter : (words,) int array
        Number of iterations; 0 for words that were received without errors.
    syndrome_weight : (words,) int array
        Number of checks that the decided bits violate.
    llr : (words, n) float32 array
        The beliefs after the last iteration, log p(0)/p(1).

    Examples
    --------
    >>> from boolweave.decoding import ParityCheckCode, bsc_llr
    >>> code = ParityCheckCode(
    ...     [[1, 1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 1]]
    ... )
    >>> found = code.decode(bsc_llr([1, 0, 0, 0, 0, 0, 0], flip=0.05))
    >>> found.bits
    array([0, 0, 0, 0, 0, 0, 0], dtype=uint8)
    >>> found.syndrome_weight
    0
    """

    bits: NDArray[np.uint8]
    converged: NDArray[np.bool_] | bool
    n_iter: NDArray[np.int64] | int
    syndrome_weight: NDArray[np.int64] | int
    llr: Floats = field(repr=False)


class ParityCheckCode:
    """A binary linear code, given by its parity-check matrix.

    Parameters
    ----------
    parity_check : (checks, n) array or sparse matrix of 0 and 1
        H: a word c belongs to the code if H c = 0 modulo 2. Rows may depend on each other.

    Attributes
    ----------
    n : int
        Length of a code word.
    k : int
        Number of message bits, n minus the rank of H.
    n_checks : int
        Rows of H.
    rate : float
        k / n.
    parity_check : scipy.sparse.csr_array of shape (n_checks, n)
    information_positions : (k,) int array
        Positions of the message in a code word: as far left as the code allows.

    Examples
    --------
    >>> import numpy as np
    >>> from boolweave.decoding import ParityCheckCode, bsc_llr
    >>> code = ParityCheckCode(
    ...     [[1, 1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0, 1]]
    ... )
    >>> code
    ParityCheckCode(n=7, k=4, n_checks=3)
    >>> sent = code.encode([1, 0, 1, 1])
    >>> sent
    array([1, 0, 1, 1, 0, 1, 0], dtype=uint8)
    >>> received = sent ^ np.array([0, 0, 0, 0, 0, 1, 0], dtype=np.uint8)
    >>> result = code.decode(bsc_llr(received, flip=0.05))
    >>> np.array_equal(result.bits, sent), result.converged
    (True, True)
    """

    def __init__(self, parity_check: Matrix) -> None:
        self._graph = TannerGraph.from_matrix(parity_check, "parity_check")
        self.parity_check: scipy.sparse.csr_array = self._graph.to_sparse()
        self.n_checks, self.n = self.parity_check.shape

    @classmethod
    def from_alist(cls, path: str | os.PathLike[str]) -> ParityCheckCode:
        """Read H from an alist file, see `read_alist`."""
        return cls(read_alist(path))

    def __repr__(self) -> str:
        return f"ParityCheckCode(n={self.n}, k={self.k}, n_checks={self.n_checks})"

    # ------------------------------------------------------------ encoding

    @cached_property
    def _echelon(self) -> Echelon:
        return eliminate(self.parity_check.toarray())

    @property
    def k(self) -> int:
        """Number of message bits."""
        return len(self._echelon.free)

    @property
    def rate(self) -> float:
        """Message bits per sent bit, k / n."""
        return self.k / self.n

    @property
    def information_positions(self) -> NDArray[np.int64]:
        """Positions of the message in a code word, (k,)."""
        return self._echelon.free

    @cached_property
    def generator(self) -> NDArray[np.uint8]:
        """G, (k, n): a message u becomes the word u G modulo 2."""
        return self.encode(np.eye(self.k, dtype=np.uint8))

    def encode(self, bits: ArrayLike) -> NDArray[np.uint8]:
        """Encode messages systematically.

        Parameters
        ----------
        bits : (k,) or (words, k) array of 0 and 1

        Returns
        -------
        (n,) or (words, n) uint8 array
            The message is at `information_positions`.
        """
        message = _as_words(bits, self.k, "bits", "k, the number of message bits")
        words = np.zeros((len(message), self.n), dtype=np.uint8)
        words[:, self._echelon.free] = message
        words[:, self._echelon.pivots] = boolean_product(
            message, self._echelon.parity.T, product="xor"
        )
        return words[0] if np.ndim(bits) == 1 else words

    def syndrome(self, bits: ArrayLike) -> NDArray[np.uint8]:
        """Compute H c modulo 2 of words c: the checks that they violate.

        Parameters
        ----------
        bits : (n,) or (words, n) array of 0 and 1

        Returns
        -------
        (n_checks,) or (words, n_checks) uint8 array
        """
        words = _as_words(bits, self.n, "bits", "n, the length of a code word")
        sums = self.parity_check.astype(np.int32) @ words.T.astype(np.int32)
        found = np.ascontiguousarray(np.mod(sums, 2).astype(np.uint8).T)
        return found[0] if np.ndim(bits) == 1 else found

    # ------------------------------------------------------------ decoding

    def decode(
        self,
        llr: ArrayLike,
        *,
        method: str = "sum-product",
        schedule: str = "flooding",
        max_iter: int = 50,
        scale: float | None = None,
        damping: float = 1.0,
        n_jobs: int | None = None,
    ) -> DecodingResult:
        """Decode words that were sent through a noisy channel.

        Parameters
        ----------
        llr : (n,) or (words, n) array
            Log-likelihood ratios log p(0)/p(1) of each bit: positive values favour 0. ±∞ means a
            known bit, 0 an erased one. `bsc_llr`, `bec_llr` and `awgn_llr` compute them.
        method : {"sum-product", "max-sum"}
            Other names are "product-sum" and "min-sum". The first looks for the most probable value
            of each bit, the second for the most probable word, with less work.
        schedule : {"flooding", "serial"}
            Update all checks at once, or one after the other (layered), which takes fewer
            iterations.
        max_iter : int
            Maximum number of iterations.
        scale : float in (0, 1], optional
            Scaling factor of the max-sum messages, by default 0.75; 1 is plain min-sum.
        damping : float in (0, 1]
            Weight of the new message in each update.
        n_jobs : int, optional
            Number of threads; −1 uses all cores. The result does not depend on it.

        Returns
        -------
        DecodingResult
        """
        zero = np.zeros((1, self.n_checks), dtype=np.uint8)
        settings = _settings(method, schedule, max_iter, scale, damping)
        return self._run(-_as_llr(llr, self.n), zero, settings, n_jobs, single=np.ndim(llr) == 1)

    def decode_syndrome(
        self,
        syndrome: ArrayLike,
        flip: ArrayLike,
        *,
        method: str = "sum-product",
        schedule: str = "flooding",
        max_iter: int = 50,
        scale: float | None = None,
        damping: float = 1.0,
        n_jobs: int | None = None,
    ) -> DecodingResult:
        """Find a likely error pattern with a given syndrome.

        Parameters
        ----------
        syndrome : (n_checks,) or (words, n_checks) array of 0 and 1
            H e modulo 2 of the unknown error pattern e.
        flip : float or (n,) array
            The probability of an error in each bit.
        method, schedule, max_iter, scale, damping, n_jobs
            As for `decode`.

        Returns
        -------
        DecodingResult
            `bits` is the error pattern; `syndrome_weight` counts the checks in which its syndrome
            differs from the given one.

        Examples
        --------
        >>> from boolweave.decoding import ParityCheckCode
        >>> code = ParityCheckCode([[1, 1, 0], [0, 1, 1]])
        >>> code.decode_syndrome([1, 1], flip=0.1).bits
        array([0, 1, 0], dtype=uint8)
        """
        target = _as_words(syndrome, self.n_checks, "syndrome", "the number of checks")
        p = as_probabilities("flip", flip, (), (self.n,), each="bit")
        prior = np.broadcast_to(log_odds(p, limit=np.inf), (len(target), self.n))
        settings = _settings(method, schedule, max_iter, scale, damping)
        return self._run(prior, target, settings, n_jobs, single=np.ndim(syndrome) == 1)

    def _run(
        self,
        log_odds: Floats,
        target: NDArray[np.uint8],
        settings: DecoderSettings,
        n_jobs: int | None,
        single: bool,
    ) -> DecodingResult:
        """Decode from prior log-odds (words, n) to a syndrome (words or 1, checks)."""
        if settings.method == "max-sum":
            log_odds = _rounded(log_odds)
        evidence = np.where(target == 1, HARD_BELIEF, -HARD_BELIEF)
        found = propagate(self._graph, log_odds, evidence, settings, n_jobs)
        weight = np.zeros(len(found.bits), dtype=np.int64)
        failed = np.flatnonzero(~found.converged)
        if len(failed):
            wanted = target if len(target) == 1 else target[failed]
            weight[failed] = (self.syndrome(found.bits[failed]) != wanted).sum(axis=1)
        llr = with_infinities(-found.log_odds)
        if single:
            plain = bool(found.converged[0]), int(found.n_iter[0]), int(weight[0])
            return DecodingResult(found.bits[0], *plain, llr[0])
        return DecodingResult(found.bits, found.converged, found.n_iter, weight, llr)


# ---------------------------------------------------------------- input


def _as_llr(llr: ArrayLike, size: int) -> NDArray[np.float32]:
    """Check log-likelihood ratios and return them as (words, size)."""
    ratios = np.asarray(llr)
    if ratios.dtype.kind not in "biuf":
        raise TypeError(f"llr must hold numbers, got dtype {ratios.dtype}")
    _check_shape(ratios, size, "llr", "n, the number of bits of a word")
    ratios = np.atleast_2d(ratios)
    if np.isnan(ratios).any():
        word, bit = (int(i) for i in np.argwhere(np.isnan(ratios))[0])
        raise ValueError(f"llr is NaN at word {word}, bit {bit}; use 0 for an erased bit")
    with np.errstate(over="ignore"):  # beyond the range of 32 bits, a bit is as good as certain
        return ratios.astype(np.float32)


def _as_words(bits: ArrayLike, size: int, name: str, what: str) -> NDArray[np.uint8]:
    """Check 0/1 words and return them as (words, size)."""
    words = np.asarray(bits)
    _check_shape(words, size, name, what)
    if words.dtype.kind not in "biuf" or not ((words == 0) | (words == 1)).all():
        raise ValueError(f"{name} must hold only 0 and 1")
    return np.atleast_2d(words).astype(np.uint8)


def _check_shape(words: Array, size: int, name: str, what: str) -> None:
    if words.ndim not in (1, 2) or words.shape[-1] != size:
        raise ValueError(
            f"{name} must have shape (words, {size}) or ({size},), got {words.shape}; there is one "
            f"row per word, and {size} is {what}"
        )


def _rounded(ratios: Floats) -> Floats:
    """Keep 16 of the 24 bits of each ratio, so that sums of some hundred of them are exact.

    Over a symmetric channel, all ratios are equal except for the sign, and min-sum adds and
    subtracts them: a sum that should cancel is then exactly zero and not a rounding error.
    """
    with np.errstate(invalid="ignore"):  # frexp of ±∞ is ±∞
        mantissa, exponent = np.frexp(ratios)
        return np.ldexp(np.round(mantissa * 2.0**16) / 2.0**16, exponent)


def _settings(
    method: str, schedule: str, max_iter: int, scale: float | None, damping: float
) -> DecoderSettings:
    """Settings for codes: a word is done when it satisfies every check; min-sum is scaled."""
    if not isinstance(method, str):
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    exact = METHODS.get(method) == "sum-product"
    if exact and scale is not None:
        raise ValueError(
            f'scale is only for method="max-sum", got {scale} with method={method!r}; leave it out'
        )
    # Plain min-sum is overconfident. Scaling its messages by this factor is the usual remedy; it
    # brings the word error rate of regular codes close to that of product-sum.
    default_scale = 0.75
    if scale is None:
        scale = 1.0 if exact else default_scale
    return DecoderSettings(
        product="xor",
        method=method,
        schedule=schedule,
        damping=damping,
        scale=scale,
        max_iter=max_iter,
        stop_on_checks=True,
    )


# ---------------------------------------------------------------- elimination


class Echelon(NamedTuple):
    """A parity-check matrix after elimination: ``bit[pivots] = parity @ bit[free] mod 2``."""

    pivots: NDArray[np.int64]  # (rank,), the columns whose bit follows from the free ones
    free: NDArray[np.int64]  # (columns − rank,), the other columns, ascending
    parity: NDArray[np.uint8]  # (rank, columns − rank)


def eliminate(matrix: NDArray[np.uint8]) -> Echelon:
    """Reduce a 0/1 matrix (rows, columns) to echelon form, pivots as far right as possible.

    If the message comes first in the words of a code, it thus stays there.
    """
    n_columns = matrix.shape[1]
    packed = np.packbits(matrix, axis=1, bitorder="little")  # a row is added eight bits at a time
    pivots: list[int] = []
    for column in reversed(range(n_columns)):
        rank = len(pivots)
        ones = packed[:, column // 8] >> column % 8 & 1 == 1
        if not ones[rank:].any():
            continue
        pivot = rank + int(ones[rank:].argmax())
        packed[[rank, pivot]] = packed[[pivot, rank]]
        ones[[rank, pivot]] = ones[[pivot, rank]]
        ones[rank] = False
        packed[ones] ^= packed[rank]
        pivots.append(column)
    reduced = np.unpackbits(packed[: len(pivots)], axis=1, count=n_columns, bitorder="little")
    free = np.setdiff1d(np.arange(n_columns), pivots)
    return Echelon(np.array(pivots, dtype=np.int64), free, reduced[:, free])


# ---------------------------------------------------------------- channels


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


# ---------------------------------------------------------------- alist files

# The format of David MacKay's code collection:
#
#     columns rows
#     largest column weight, largest row weight
#     the weight of each column
#     the weight of each row
#     for each column, the rows of its ones, counted from 1
#     for each row, the columns of its ones, counted from 1
#
# Short lists may be padded with zeros. Text after a # is a comment.


class _Numbers:
    """The whole numbers of a file in order, with their lines for error messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: list[int] = []
        self.lines: list[int] = []
        self.next = 0
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            for token in decoded(line, str(path), number).split("#", 1)[0].split():
                try:
                    self.values.append(int(token))
                except ValueError:
                    shown = repr(shortened(token, 40))
                    raise FileError(
                        str(path),
                        f"expected whole numbers, got {shown}; is this an alist file?",
                        line=number,
                    ) from None
                self.lines.append(number)

    def wrong(self, message: str, back: int = 1) -> ValueError:
        at = min(max(self.next - back, 0), len(self.lines) - 1)
        line = self.lines[at] if self.lines else 1
        return FileError(str(self.path), message, line=line)

    def take(self, count: int, what: str) -> list[int]:
        found = self.values[self.next : self.next + count]
        self.next += len(found)
        if len(found) < count:
            raise self.wrong(
                f"the file ends within {what}: expected {count} numbers, got {len(found)}"
            )
        return found

    def skip_zeros(self) -> None:
        while self.next < len(self.values) and self.values[self.next] == 0:
            self.next += 1

    def take_nonzero(self, count: int, what: str) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            self.skip_zeros()
            found += self.take(1, what)
        return found


def read_alist(path: str | os.PathLike[str]) -> scipy.sparse.csr_array:
    r"""Read a binary matrix from an alist file.

    Parameters
    ----------
    path : path
        The file. Lists may be padded with zeros; lines may have ``#`` comments.

    Returns
    -------
    scipy.sparse.csr_array of shape (rows, columns), uint8

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from boolweave.decoding import read_alist
    >>> text = "3 2\n2 2\n1 2 1\n2 2\n1\n1 2\n2\n1 2\n2 3\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "repeat.alist")
    ...     _ = path.write_text(text)
    ...     read_alist(path).toarray()
    array([[1, 1, 0],
           [0, 1, 1]], dtype=uint8)
    """
    numbers = _Numbers(Path(path))
    n_columns, n_rows = numbers.take(2, "the size of the matrix")
    if n_columns < 1 or n_rows < 1:
        raise numbers.wrong(f"expected columns and rows of at least 1, got {n_columns} {n_rows}")
    numbers.take(2, "the largest weights")
    column_weights = numbers.take(n_columns, "the weights of the columns")
    row_weights = numbers.take(n_rows, "the weights of the rows")
    for name, weights, most in (
        ("column", column_weights, n_rows),
        ("row", row_weights, n_columns),
    ):
        for index, weight in enumerate(weights, 1):
            if not 0 <= weight <= most:
                raise numbers.wrong(
                    f"{name} {index} has weight {weight}, expected 0 to {most}; the file must "
                    f"begin with the number of columns, followed by the number of rows"
                )
    by_column = _read_lists(numbers, "column", column_weights, n_rows)
    by_row = _read_lists(numbers, "row", row_weights, n_columns)
    numbers.skip_zeros()
    if numbers.next < len(numbers.values):
        raise numbers.wrong("there are more numbers after the last row", back=0)
    rows = np.array([row for listed in by_column for row in listed], dtype=np.int64)
    columns = np.repeat(np.arange(n_columns), column_weights)
    matrix = ones_at(rows, columns, (n_rows, n_columns))
    for row, listed in enumerate(by_row):
        start, stop = matrix.indptr[row], matrix.indptr[row + 1]
        if sorted(listed) != matrix.indices[start:stop].tolist():
            raise FileError(
                str(path), f"the list of row {row + 1} does not agree with the lists of the columns"
            )
    return matrix


def _read_lists(numbers: _Numbers, name: str, weights: list[int], size: int) -> list[list[int]]:
    lists = []
    for index, weight in enumerate(weights, 1):
        found = numbers.take_nonzero(weight, f"the list of {name} {index}")
        if min(found, default=1) < 1 or max(found, default=1) > size or len(set(found)) < weight:
            raise numbers.wrong(
                f"the list of {name} {index} must hold {weight} different numbers from 1 to "
                f"{size}, got {found}"
            )
        lists.append([value - 1 for value in found])
    return lists


def write_alist(path: str | os.PathLike[str], matrix: Matrix) -> None:
    """Write a binary matrix as an alist file, with short lists padded with zeros.

    Parameters
    ----------
    path : path
    matrix : (rows, columns) array or sparse matrix of 0 and 1
    """
    by_row = as_sparse_bits(matrix, "matrix")
    by_column = by_row.T.tocsr()
    lines = [f"{by_row.shape[1]} {by_row.shape[0]}"]
    weights = [np.diff(lists.indptr) for lists in (by_column, by_row)]
    lines.append(" ".join(str(int(each.max())) for each in weights))
    lines += [" ".join(map(str, each)) for each in weights]
    for lists, each in zip((by_column, by_row), weights, strict=True):
        for i in range(lists.shape[0]):
            found = lists.indices[lists.indptr[i] : lists.indptr[i + 1]] + 1
            lines.append(" ".join(map(str, [*found, *[0] * int(each.max() - len(found))])))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
