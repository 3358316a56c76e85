"""The sparse graph of a known Boolean factor, and message passing on it.

`TannerGraph` is fixed: the non-zeros of the known matrix, checks × variables. `propagate` decodes a
batch of words on it, each with its own priors and evidence, and returns `DecodedWords`.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from boolweave.data.cells import check_option
from boolweave.model.odds import HARD_BELIEF, HARD_EVIDENCE
from boolweave.model.products import Product, as_bits
from boolweave.runtime.checks import check_count
from boolweave.runtime.threads import effective_jobs, run_all, threads
from boolweave.runtime.types import Floats, Integers

Matrix: TypeAlias = ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix

# Each method has two names, one from inference and one from coding.
METHODS = {
    "max-sum": "max-sum",
    "min-sum": "max-sum",
    "sum-product": "sum-product",
    "product-sum": "sum-product",
}

# Maximum number of words that are decoded at once.
MAX_WIDTH = 128


class TannerGraph(NamedTuple):
    """Which variable nodes each check node touches, in CSR form; made by `from_matrix`."""

    n_variables: int
    indptr: NDArray[np.uint64]  # (checks + 1,)
    variables: NDArray[np.uint32]  # (edges,), ascending within a check

    @property
    def n_checks(self) -> int:
        """Number of rows of the known matrix."""
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of non-zeros."""
        return len(self.variables)

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of variables of each check, (checks,)."""
        return np.diff(self.indptr).astype(np.int64)

    @classmethod
    def from_matrix(cls, matrix: Matrix, name: str = "matrix") -> TannerGraph:
        """Make a graph from a 0/1 matrix (checks, variables); errors call the matrix `name`."""
        sparse = as_sparse_bits(matrix, name)
        return cls(
            sparse.shape[1], sparse.indptr.astype(np.uint64), sparse.indices.astype(np.uint32)
        )

    def to_sparse(self) -> scipy.sparse.csr_array:
        """The matrix, (checks, variables) uint8."""
        ones = np.ones(self.n_edges, dtype=np.uint8)
        return scipy.sparse.csr_array(
            (ones, self.variables.astype(np.int64), self.indptr.astype(np.int64)),
            shape=(self.n_checks, self.n_variables),
        )

    def transposed(self) -> TannerGraph:
        """The graph with variables and checks exchanged."""
        return TannerGraph.from_matrix(self.to_sparse().T)


def as_sparse_bits(matrix: Matrix, name: str) -> scipy.sparse.csr_array:
    """Check that a matrix holds 0 and 1 and return it as CSR, sorted, without stored zeros."""
    if not scipy.sparse.issparse(matrix):
        matrix = as_bits(matrix, name)
    sparse = scipy.sparse.csr_array(matrix, copy=True)
    if sparse.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold 0 and 1, got dtype {sparse.dtype}")
    sparse.sum_duplicates()
    sparse.eliminate_zeros()
    wrong = sparse.data != 1
    if wrong.any():
        raise ValueError(
            f"{name} must hold only 0 and 1, got {sparse.data[wrong][0]}; "
            f"an entry may be listed twice, because a sparse matrix adds up such entries"
        )
    if 0 in sparse.shape:
        raise ValueError(f"{name} must have at least one row and one column, got {sparse.shape}")
    return sparse.astype(np.uint8)


def ones_at(rows: Integers, columns: Integers, shape: tuple[int, int]) -> scipy.sparse.csr_array:
    """The 0/1 matrix with ones at the given places, uint8, sorted."""
    ones = np.ones(len(rows), dtype=np.uint8)
    matrix = scipy.sparse.csr_array((ones, (rows, columns)), shape=shape)
    matrix.sort_indices()
    return matrix


def as_probabilities(
    name: str, values: ArrayLike, *shapes: tuple[int, ...], each: str = ""
) -> NDArray[np.float64]:
    """Check that values lie between 0 and 1 and have one of the shapes; return them as floats."""
    try:
        p = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be between 0 and 1, got {reprlib.repr(values)}") from None
    if shapes and p.shape not in shapes:
        others = " or ".join(str(shape) for shape in shapes if shape)
        raise ValueError(
            f"{name} must be a number or have shape {others}, one for each {each}, got {p.shape}"
        )
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(
            f"{name} must be between 0 and 1 (divide a percentage by 100), got {p.min()} to "
            f"{p.max()}"
        )
    return p


@dataclass(frozen=True)
class DecoderSettings:
    """Settings of message passing, which are checked when they are created.

    Parameters
    ----------
    product : {"or", "xor"}
        The function that a check computes.
    method : {"max-sum", "sum-product"}
        The names in coding, "min-sum" and "product-sum", are also allowed.
    schedule : {"flooding", "serial"}
        Update all checks at once from the beliefs of the last iteration, or one after the other,
        each from the latest beliefs (also called layered).
    damping : float in (0, 1]
        Weight of the new message in each update; 1 means no damping.
    scale : float in (0, 1]
        Scaling factor of the max-sum messages.
    max_iter : int
    tol : float
        Convergence tolerance: a word is done when no log-odds change by more than this. It is not
        used if `stop_on_checks` is set.
    stop_on_checks : bool
        Whether a word is done when its decision satisfies every check.
    """

    product: Product = "xor"
    method: str = "sum-product"
    schedule: str = "flooding"
    damping: float = 1.0
    scale: float = 1.0
    max_iter: int = 50
    tol: float = 1e-3
    stop_on_checks: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise ValueError(
                f'method must be "max-sum" (also "min-sum") or "sum-product" (also '
                f'"product-sum"), got {self.method!r}'
            )
        object.__setattr__(self, "method", METHODS[self.method])
        check_option("schedule", self.schedule, ("flooding", "serial"))
        for name in ("damping", "scale", "tol"):
            if not isinstance(getattr(self, name), Real):
                raise ValueError(f"{name} must be a number, got {getattr(self, name)!r}")
        for name in ("damping", "scale"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, got {value}")
        check_count("max_iter", self.max_iter)
        if not self.tol >= 0:
            raise ValueError(f"tol must not be negative, got {self.tol}")


class DecodedWords(NamedTuple):
    """The beliefs and decisions of `propagate`.

    Attributes
    ----------
    log_odds : (words, variables) float32 array
        Log-odds of 1.
    bits : (words, variables) uint8 array
        The decisions: 1 where the log-odds are positive; if they are zero, the prior decides.
    converged : (words,) bool array
    n_iter : (words,) int array
    """

    log_odds: NDArray[np.float32]
    bits: NDArray[np.uint8]
    converged: NDArray[np.bool_]
    n_iter: NDArray[np.int64]


def propagate(
    graph: TannerGraph,
    prior: Floats,
    evidence: Floats,
    settings: DecoderSettings,
    n_jobs: int | None = None,
) -> DecodedWords:
    """Pass messages for a batch of words.

    Parameters
    ----------
    graph : TannerGraph
    prior : (words, variables) array
        Prior log-odds of 1; ±∞ is certain knowledge.
    evidence : (words, checks) or (1, checks) array
        Log-likelihood ratio of each check, log p(seen | 1) − log p(seen | 0); a single row applies
        to all words.
    settings : DecoderSettings
    n_jobs : int, optional
        Number of threads, which share the words. The result does not depend on it.

    Returns
    -------
    DecodedWords
    """
    from boolweave.decoding import batches  # numba is loaded when it is needed

    by_sum = settings.method == "sum-product"
    # In max-sum with OR, evidence is added and subtracted again; HARD_EVIDENCE stays exact.
    hard = HARD_BELIEF if settings.product == "xor" or by_sum else HARD_EVIDENCE
    prior = np.ascontiguousarray(np.clip(prior, -HARD_BELIEF, HARD_BELIEF), dtype=np.float32)
    evidence = np.ascontiguousarray(np.clip(evidence, -hard, hard), dtype=np.float32)
    n_words = len(prior)
    found = DecodedWords(
        np.empty(prior.shape, np.float32),
        np.empty(prior.shape, np.uint8),
        np.empty(n_words, np.bool_),
        np.empty(n_words, np.int64),
    )
    update = batches.Update(
        settings.product == "xor",
        by_sum,
        settings.schedule == "serial",
        np.float32(settings.damping),
        np.float32(settings.scale),
    )
    stopping = batches.Stopping(
        settings.stop_on_checks, np.float32(settings.tol), int(settings.max_iter)
    )

    def decode(words: slice) -> None:
        share = DecodedWords(
            found.log_odds[words], found.bits[words], found.converged[words], found.n_iter[words]
        )
        batches.run_words(
            graph,
            update,
            stopping,
            np.uint64(_width(graph, words.stop - words.start)),
            prior[words],
            evidence if len(evidence) == 1 else evidence[words],
            share,
        )

    # There are two shares per thread, so that no thread waits long for another.
    n_threads = effective_jobs(n_jobs)
    n_shares = 1 if n_threads == 1 else 2 * n_threads
    cuts = np.linspace(0, n_words, n_shares + 1, dtype=int).tolist()
    with threads(n_jobs) as pool:
        for _ in run_all(pool, decode, [slice(a, b) for a, b in pairwise(cuts) if a < b]):
            pass
    return found


def _width(graph: TannerGraph, n_words: int) -> int:
    """Number of words that are decoded at once: a power of two."""
    a_word = 4 * (graph.n_edges + 4 * graph.n_variables + graph.n_checks)
    # The words take about this much memory, a part of a shared cache.
    tile_bytes = 5 * 2**20
    most = int(np.clip(tile_bytes // max(a_word, 1), 1, MAX_WIDTH))
    return 1 << (min(most, max(n_words, 1)).bit_length() - 1)
