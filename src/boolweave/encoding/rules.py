"""Rules of the user about single columns of a table, given as text or as parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from typing import Any, Literal

SYNTAX = (
    "column=RULE;column=RULE, where RULE is category, bins, thresholds, drop, split:SEPARATOR or "
    "numbers such as 40,60, optionally after thresholds:"
)


@dataclass(frozen=True)
class Rule:
    """The rule for one column; the default is no rule, so that its cells decide."""

    kind: Literal["auto", "category", "bins", "thresholds", "split"] = "auto"
    edges: tuple[float, ...] = ()
    separator: str = ""


@dataclass(frozen=True)
class Rules:
    """Rules for single columns: parameters of the encoder, and columns to leave out.

    Attributes
    ----------
    parameters : dict
        Parameters of `boolweave.TableEncoder`.
    dropped : tuple of str
    """

    parameters: dict[str, Any]
    dropped: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """All columns for which there are rules."""
        own = [name for columns in self.parameters.values() for name in columns]
        return [*dict.fromkeys(own), *self.dropped]

    def renamed(self, name_of: Callable[[str], str]) -> Rules:
        """The same rules for columns with other names."""
        parameters = {
            parameter: [name_of(column) for column in columns]
            if isinstance(columns, list)
            else {name_of(column): value for column, value in columns.items()}
            for parameter, columns in self.parameters.items()
        }
        return Rules(parameters, tuple(name_of(column) for column in self.dropped))


def parse_rules(text: str) -> Rules:
    """The rules in a text such as ``"age=40,60;hobby=split:,;zip=category;name=drop"``.

    Examples
    --------
    >>> parse_rules("age=40,60; hobby=split:,; name=drop").parameters
    {'bins': {'age': [40.0, 60.0]}, 'separators': {'hobby': ','}}
    """
    numbers: dict[str, str] = {}
    bins: dict[str, list[float]] = {}
    separators: dict[str, str] = {}
    categories: list[str] = []
    dropped: list[str] = []
    seen: set[str] = set()
    for part in _parts(text):
        column, equals, rule = (piece.strip() for piece in part.partition("="))
        if not equals or not column:
            raise ValueError(f"expected {SYNTAX}, got {part.strip()!r}")
        if column in seen:
            raise ValueError(f"there are two rules for {column!r}; leave one of them out")
        seen.add(column)
        kind, _, edges = rule.partition(":")
        if rule == "category":
            categories.append(column)
        elif rule == "drop":
            dropped.append(column)
        elif kind == "split" and edges:
            separators[column] = edges
        elif rule in ("bins", "thresholds"):
            numbers[column] = rule
        elif kind in ("bins", "thresholds"):
            numbers[column] = kind
            bins[column] = edges_in(edges, part)
        else:
            bins[column] = edges_in(rule, part)
    given = {"numbers": numbers, "bins": bins, "separators": separators, "categories": categories}
    return Rules({name: value for name, value in given.items() if value}, tuple(dropped))


def _parts(text: str) -> list[str]:
    """The rules, separated by semicolons; ``split:;`` contains a semicolon of its own."""
    parts: list[str] = []
    for piece in text.split(";"):
        if parts and parts[-1].rstrip().endswith("split:"):
            parts[-1] = parts[-1].rstrip() + ";"
        if piece.strip():
            parts.append(piece)
    return parts


def edges_in(text: str, part: str) -> list[float]:
    """The edges of intervals in the text of a rule, of which `part` is shown in errors."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"expected {SYNTAX}, got {part.strip()!r}") from None


def rules_of(
    names: list[str],
    numbers: str | Mapping[str, str],
    bins: Mapping[str, object] | None,
    separators: object,
    categories: object,
) -> dict[str, Rule]:
    """The rules for single columns in the parameters of an encoder."""
    rules: dict[str, Rule] = {}
    if isinstance(numbers, Mapping):
        rules |= {name: Rule(kind_of_numbers(kind)) for name, kind in numbers.items()}
    usual = Rule("thresholds" if numbers == "thresholds" else "bins")
    for name, edges in (bins or {}).items():
        rules[name] = replace(rules.get(name, usual), edges=_edges(name, edges))
    if isinstance(separators, Mapping):
        for name, separator in separators.items():
            check_separator(separator, f" for {name!r}")
            rules[name] = Rule("split", separator=separator)
    for name in categories if isinstance(categories, list | tuple) else ():
        rules[str(name)] = Rule("category")
    unknown = [name for name in rules if name not in names]
    if unknown:
        known = ", ".join(map(repr, names[:10]))
        raise ValueError(f"there is no column {unknown[0]!r} to encode; there are {known}")
    return rules


def kind_of_numbers(kind: str) -> Literal["bins", "thresholds"]:
    """How numbers are encoded; raise for another word."""
    if kind not in ("bins", "thresholds"):
        raise ValueError(f'numbers must be "bins" or "thresholds" for a column, but got {kind!r}')
    return "bins" if kind == "bins" else "thresholds"


def check_separator(separator: object, where: str = "") -> None:
    """Raise unless a separator is a text."""
    if not isinstance(separator, str) or not separator:
        raise ValueError(
            f'separators must be texts{where}, such as ";", but got {separator!r}; leave it out, '
            "or give the character between two choices"
        )


def _edges(name: str, edges: object) -> tuple[float, ...]:
    try:
        found = () if isinstance(edges, str) else tuple(map(float, edges))  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        found = ()
    if not found or not all(map(isfinite, found)) or any(a >= b for a, b in pairwise(found)):
        raise ValueError(
            f"bins must give increasing numbers for {name!r}, such as [40, 60], but got {edges!r}"
        )
    return found
