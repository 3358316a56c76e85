"""Factors on a terminal: sentences with sizes, a few names and how certain each factor is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from boolweave.estimator import BooleanMatrixFactorization

# Number of factors that a terminal shows.
FACTORS_SHOWN = 20


class Nouns(NamedTuple):
    """Plural nouns for the rows and the columns."""

    rows: str = "rows"
    columns: str = "columns"


def nouns_of(text: str | None) -> Nouns:
    """Parse the value of --nouns, such as "users,films".

    Examples
    --------
    >>> from boolweave.cli.words import nouns_of
    >>> nouns_of("users, films").columns
    'films'
    """
    if text is None:
        return Nouns()
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise ValueError(
            f"--nouns: expected two words, for rows and columns, such as users,films; got {text!r}"
        )
    return Nouns(*names)


def factor_sentences(model: BooleanMatrixFactorization, nouns: Nouns) -> Iterator[str]:
    """Describe each factor: its size, how certain it is, and who belongs to it."""
    from boolweave.recommend import members, some_names

    K = len(model.components_)
    for k in range(min(K, FACTORS_SHOWN)):
        rows, columns = members(model.result_, k, "row"), members(model.result_, k, "column")
        if not rows or not columns:
            yield f"Factor {k + 1} is empty."
            continue
        words = f"Factor {k + 1}: {_count(rows, nouns.rows)} × {_count(columns, nouns.columns)}"
        yield words + _stability(model, k) + _redundancy(model, k)
        yield f"  {nouns.rows}: {some_names(rows)}"
        yield f"  {nouns.columns}: {some_names(columns)}"
    if K > FACTORS_SHOWN:
        yield f"{K - FACTORS_SHOWN:,} more factors are not shown; -o writes all of them to a file."
    rows_outside = int((model.row_factors_.sum(axis=1) == 0).sum())
    columns_outside = int((model.components_.sum(axis=0) == 0).sum())
    if rows_outside or columns_outside:
        M, N = len(model.row_factors_), model.components_.shape[1]
        sides = ((rows_outside, M, nouns.rows), (columns_outside, N, nouns.columns))
        outside = [f"{n:,} of {size:,} {name}" for n, size, name in sides if n]
        yield f"In no factor: {' and '.join(outside)}."


def _stability(model: BooleanMatrixFactorization, k: int) -> str:
    stability = model.factor_stability_
    if stability is None:
        return ""
    share = float(stability[k])
    how = "every search" if share == 1 else f"{share:.0%} of the searches"
    return f"; found in {how}"


def _redundancy(model: BooleanMatrixFactorization, k: int) -> str:
    if model.redundancy_ is None or model.false_one_weight != 1:
        return ""
    n = round(float(model.redundancy_[k]))
    return f"; without it {n:,} more {'entry' if n == 1 else 'entries'} would be wrong"


def _count(names: tuple[str, ...], noun: str) -> str:
    """Write the number of names and the noun; a regular plural loses its s if there is one."""
    if len(names) == 1 and noun.endswith("s"):
        return f"1 {noun.removesuffix('s')}"
    return f"{len(names):,} {noun}"
