"""Designs of pools, and the classical rules COMP, DD and SCOMP, which trust every outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from boolweave.decoding.tanner import Matrix, as_sparse_bits, ones_at
from boolweave.runtime.checks import check_count, generator_of, is_whole
from boolweave.runtime.free_memory import check_answer

Pools: TypeAlias = Sequence[Sequence[int]]  # the items of each pool, counted from 0
Design: TypeAlias = Matrix | Pools


def as_design(design: Design, n_items: int | None = None) -> scipy.sparse.csr_array:
    """Convert a design in any form to a sparse matrix (pools, items) of 0 and 1.

    A list of lists is either a list of pools, each with item numbers counted from 0, or a 0/1
    matrix; a list that could be either is refused.
    """
    if n_items is not None:
        check_count("n_items", n_items)
    if isinstance(design, list | tuple) and not _is_nested_matrix(design):
        return pools_to_matrix(design, n_items)
    matrix = as_sparse_bits(design, "design")
    if n_items is not None and matrix.shape[1] != n_items:
        raise ValueError(
            f"design must have a column for each of the {n_items} items, got {matrix.shape[1]}"
        )
    return matrix


def _is_nested_matrix(rows: Sequence[Sequence[int]]) -> bool:
    """Whether a list of lists is a 0/1 matrix, whose rows repeat numbers, unlike pools."""
    try:
        lists = [list(row) for row in rows]
    except TypeError:
        raise ValueError(
            "design must be a matrix (pools, items) of 0 and 1 or a list of pools, each a list "
            f"of item numbers; got a {type(rows).__name__} of single values"
        ) from None
    lengths = {len(row) for row in lists}
    if len(lengths) != 1 or not lengths - {0}:
        return False
    try:
        if not all(value in (0, 1) for row in lists for value in row):
            return False
    except ValueError:
        return False
    if any(len(set(row)) < len(row) for row in lists):
        return True
    raise ValueError(
        "design can be read as a 0/1 matrix and as lists of item numbers; pass "
        "numpy.array(design) for a matrix, or make it with pools_to_matrix(design, n_items)"
    )


def pools_to_matrix(pools: Pools, n_items: int | None = None) -> scipy.sparse.csr_array:
    """Make the 0/1 matrix of pools that are given as lists of items.

    Parameters
    ----------
    pools : list of lists of int
        The items of each pool, counted from 0.
    n_items : int, optional
        Number of items; by default, the largest item number plus 1.

    Returns
    -------
    scipy.sparse.csr_array of shape (pools, items), uint8

    Examples
    --------
    >>> from boolweave.decoding import pools_to_matrix
    >>> pools_to_matrix([[0, 2], [1, 2]]).toarray()
    array([[1, 0, 1],
           [0, 1, 1]], dtype=uint8)
    """
    rows, columns = [], []
    for number, pool in enumerate(pools):
        items = np.asarray(list(pool))
        if items.size == 0:
            continue
        if items.ndim != 1 or items.dtype.kind not in "iu":
            raise ValueError(f"pool {number} must list item numbers, got {list(pool)[:3]}")
        if items.min() < 0 or (n_items is not None and items.max() >= n_items):
            allowed = "0 up" if n_items is None else f"0 to {n_items - 1}"
            wrong = items.min() if items.min() < 0 else items.max()
            raise ValueError(f"pool {number} lists item {wrong}; expected numbers from {allowed}")
        if len(np.unique(items)) < len(items):
            raise ValueError(f"pool {number} lists an item twice")
        rows.append(np.full(len(items), number))
        columns.append(items)
    if not rows:
        raise ValueError("design has no pool with an item in it")
    flat = np.concatenate(columns)
    size = int(flat.max()) + 1 if n_items is None else n_items
    return ones_at(np.concatenate(rows), flat, (len(pools), size))


class PoolError(ValueError):
    """An outcome that is impossible.

    Attributes
    ----------
    pool : int
        The number of the pool, from 0.
    problem : str
        The message, with {pool} instead of the pool.
    """

    def __init__(self, pool: int, problem: str) -> None:
        super().__init__(problem.format(pool=f"pool {pool}"))
        self.pool = pool
        self.problem = problem


def as_outcomes(outcomes: ArrayLike, n_pools: int) -> NDArray[np.float64]:
    """Outcomes (pools,) or (pools, columns) of 0, 1 and NaN as a float array (pools, columns)."""
    try:
        results = np.asarray(outcomes, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "outcomes must hold 0, 1 or NaN (not tested); replace other values first"
        ) from None
    if results.ndim not in (1, 2) or results.shape[0] != n_pools:
        raise ValueError(
            f"outcomes must have shape ({n_pools},) or ({n_pools}, columns), one row for each pool "
            f"of the design, got {results.shape}"
        )
    wrong = ~(np.isnan(results) | (results == 0) | (results == 1))
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"outcomes must hold 0, 1 or NaN (not tested), got {results[where]} for pool {where[0]}"
        )
    return results[:, None] if results.ndim == 1 else results


def design_pools(
    items: int,
    pools: int,
    *,
    kind: Literal["constant", "random"] = "constant",
    prevalence: float | None = None,
    pools_per_item: int | None = None,
    density: float | None = None,
    random_state: int | np.random.Generator | None = None,
) -> scipy.sparse.csr_array:
    """Draw a random design, which says which items go into which pools.

    Parameters
    ----------
    items, pools : int
    kind : {"constant", "random"}
        With "constant", every item goes into the same number of pools, and the sizes of the pools
        are as equal as possible. With "random", every item goes into every pool with the same
        probability.
    prevalence : float, optional
        Expected fraction of positive items. It sets the number of pools per item or the density so
        that a pool is positive half of the time, because outcomes are then most informative.
    pools_per_item : int, optional
        For kind="constant", instead of `prevalence`.
    density : float, optional
        For kind="random", instead of `prevalence`.
    random_state : int or Generator, optional

    Returns
    -------
    scipy.sparse.csr_array of shape (pools, items), uint8

    Examples
    --------
    >>> from boolweave.decoding import design_pools
    >>> design = design_pools(1000, 120, prevalence=0.01, random_state=0)
    >>> design.shape, int(design.sum(axis=0).max()), int(design.sum(axis=1).max())
    ((120, 1000), 8, 67)
    """
    check_count("items", items)
    check_count("pools", pools)
    if kind not in ("constant", "random"):
        raise ValueError(f'kind must be "constant" or "random", got {kind!r}')
    given = {"pools_per_item": pools_per_item, "density": density}
    option = "pools_per_item" if kind == "constant" else "density"
    value = given.pop(option)
    for other, unwanted in given.items():
        if unwanted is not None:
            raise ValueError(f'{other} does not fit kind="{kind}"; pass {option} or prevalence')
    if (value is None) == (prevalence is None):
        raise ValueError(f"expected either prevalence or {option}; pass one of them")
    if prevalence is not None and not 0 < prevalence < 1:
        raise ValueError(f"prevalence must lie between 0 and 1, got {prevalence}")
    positives = 1.0 if prevalence is None else max(prevalence * items, 1.0)
    rng = generator_of(random_state)
    if kind == "random":
        share = density if density is not None else 1 - 0.5 ** (1 / positives)
        if not 0 < share <= 1:
            raise ValueError(f"density must be above 0 and at most 1, got {share}")
        _check_room(items, pools, pools)
        chosen = np.flatnonzero(rng.random(items * pools, dtype=np.float32) < share)
        rows, columns = np.divmod(chosen, items)
    else:
        weight = pools_per_item
        if weight is None:
            weight = int(np.clip(round(np.log(2) * pools / positives), 1, pools))
        if not is_whole(weight) or not 1 <= weight <= pools:
            raise ValueError(
                f"pools_per_item must be a whole number from 1 to {pools}, got {weight!r}"
            )
        _check_room(items, pools, weight)
        rows = _constant_weight(items, pools, weight, rng).ravel()
        columns = np.repeat(np.arange(items), weight)
    return ones_at(rows, columns, (pools, items))


def _check_room(items: int, pools: int, per_item: int) -> None:
    """Raise MemoryError unless there is memory for so many draws per item, of 8 bytes each."""
    what = f"a random design with {pools} pools, a table"
    check_answer((items, per_item), 8, what, "draw fewer items or pools")


def _constant_weight(
    items: int, pools: int, weight: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """`weight` different pools for every item, (items, weight), pools nearly equal in size.

    All places are dealt out like a shuffled pack of cards; if an item gets a pool twice, it swaps
    that place with a random one, until there is no such item.
    """
    if 2 * weight > pools:  # swaps would take long: deal out the other pools instead
        is_in: NDArray[np.bool_] = np.ones((items, pools), dtype=bool)
        others = _constant_weight(items, pools, pools - weight, rng)
        is_in[np.arange(items)[:, None], others] = False
        return np.nonzero(is_in)[1].reshape(items, weight)
    pack = np.arange(items * weight) % pools
    dealt = rng.permutation(pack).reshape(items, weight)
    while True:
        dealt.sort(axis=1)
        twice = np.flatnonzero((np.diff(dealt, axis=1) == 0).any(axis=1))
        if not len(twice):
            return dealt
        for item in twice:
            values, counts = np.unique(dealt[item], return_counts=True)
            if counts.max() == 1:  # an earlier swap has helped
                continue
            place = int(np.flatnonzero(dealt[item] == values[counts.argmax()])[0])
            other, there = int(rng.integers(items)), int(rng.integers(weight))
            mine, theirs = dealt[item, place], dealt[other, there]
            if theirs not in dealt[item] and mine not in dealt[other]:
                dealt[item, place], dealt[other, there] = theirs, mine


# ---------------------------------------------------------------- classical rules


def comp(design: Design, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Declare every item positive that is in no negative pool (COMP).

    Parameters
    ----------
    design : (pools, items) array or sparse matrix of 0 and 1, or lists of items
    outcomes : (pools,) or (pools, columns) array of 0, 1 and NaN
        NaN means that the pool was not tested.

    Returns
    -------
    (items,) or (items, columns) uint8 array

    Examples
    --------
    >>> from boolweave.decoding import comp
    >>> comp([[0, 1, 2], [2, 3]], outcomes=[1, 0])
    array([1, 1, 0, 0], dtype=uint8)
    """
    _, _, possible, _ = _classify(design, outcomes)
    return _shaped(possible, outcomes)


def definite_defectives(design: Design, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Declare an item positive if some positive pool has no other possible item (DD).

    Parameters
    ----------
    design, outcomes
        As for `comp`.

    Returns
    -------
    (items,) or (items, columns) uint8 array

    Examples
    --------
    >>> from boolweave.decoding import definite_defectives
    >>> definite_defectives([[0, 1, 2], [2, 3], [0, 3]], outcomes=[1, 0, 0])
    array([0, 1, 0, 0], dtype=uint8)
    """
    _, _, _, definite = _classify(design, outcomes)
    return _shaped(definite, outcomes)


def scomp(design: Design, outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Extend DD by the items that explain most unexplained positive pools (SCOMP).

    Items are added one by one until all positive pools are explained.

    Parameters
    ----------
    design, outcomes
        As for `comp`.

    Returns
    -------
    (items,) or (items, columns) uint8 array

    Examples
    --------
    >>> from boolweave.decoding import scomp
    >>> scomp([[0, 1, 2], [2, 3], [0, 3], [1, 3], [1, 2]], outcomes=[1, 0, 0, 1, 1])
    array([0, 1, 0, 0], dtype=uint8)
    """
    counts, results, possible, chosen = _classify(design, outcomes)
    for column in range(results.shape[1]):
        while True:
            covered = counts @ chosen[:, column] > 0
            open_pools = (results[:, column] == 1) & ~covered
            explains = np.where(possible[:, column], counts.T @ open_pools, 0)
            if not explains.any():
                break
            chosen[int(explains.argmax()), column] = True
    return _shaped(chosen, outcomes)


def _classify(
    design: Design, outcomes: ArrayLike
) -> tuple[scipy.sparse.csr_array, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """The design, the outcomes, items in no negative pool, and items alone in a positive pool."""
    counts = as_design(design).astype(np.int32)
    results = as_outcomes(outcomes, counts.shape[0])
    possible = counts.T @ (results == 0) == 0
    alone = (counts @ possible == 1) & (results == 1)
    return counts, results, possible, (counts.T @ alone > 0) & possible


def _shaped(items: NDArray[np.bool_], outcomes: ArrayLike) -> NDArray[np.uint8]:
    """The items as 0 and 1, (items,) if the outcomes had one dimension."""
    return (items[:, 0] if np.ndim(outcomes) == 1 else items).astype(np.uint8)
