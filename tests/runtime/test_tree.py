"""Trees of dataclasses as arrays and JSON: what is written comes back, and nothing else is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from boolweave.runtime.storage import LazyArray
from boolweave.runtime.tree import Packer, Unpacker


class Colour(StrEnum):
    RED = "red"


class Pair(NamedTuple):
    left: NDArray[np.float64]
    right: int


class Base:
    """What annotations may name."""


@dataclass(eq=False)
class Leaf(Base):
    values: NDArray[np.integer]
    size: float = 0.5


@dataclass(eq=False)
class Tree:
    name: str
    colour: Colour
    kind: Literal["a", "b"]
    flag: bool
    numbers: list[float]
    pair: Pair
    both: tuple[int, str]
    named: dict[str, Leaf]
    first: Leaf
    again: Leaf | None
    base: Base
    given: Leaf
    arrays: list[NDArray[np.uint8]]
    mixed: list[int | str | Leaf | NDArray[np.float64]]


GIVEN = Leaf(np.arange(2))


def example():
    leaf, array = Leaf(np.arange(3), np.float32(0.1)), np.ones((2, 2), np.uint8)
    return Tree(
        "Zoë", Colour.RED, "b", True, [1.0, float("inf"), np.float64(3)], Pair(np.eye(2), 7),
        (1, "x"), {"one": leaf, "two": Leaf(np.zeros(0, int))}, leaf, leaf, leaf, GIVEN,
        [array, array, array.T], [np.int64(3), "text", leaf, np.zeros(2)],
    )  # fmt: skip


def packed(value):
    packer = Packer({"mine": GIVEN})
    node = json.loads(json.dumps(packer.node(value, "")))
    return node, packer.arrays


def unpacker(arrays):
    lazy = {k: LazyArray(a.shape, a.dtype, partial(np.copy, a)) for k, a in arrays.items()}
    return Unpacker(lazy, [Leaf], {"mine": GIVEN})


def test_round_trip():
    node, arrays = packed(example())
    reader = unpacker(arrays)
    tree = reader.value(Tree, node, "")
    assert reader.unread() == set()
    assert (tree.name, tree.colour, tree.kind, tree.flag) == ("Zoë", Colour.RED, "b", True)
    assert tree.colour is Colour.RED and tree.both == (1, "x") and tree.pair.right == 7
    assert tree.numbers == [1.0, float("inf"), 3.0] and type(tree.numbers[2]) is np.float64
    assert tree.first is tree.again is tree.base is tree.named["one"] is tree.mixed[2]
    assert tree.given is GIVEN and type(tree.first.size) is np.float32
    assert tree.arrays[0] is tree.arrays[1] and tree.arrays[0] is not tree.arrays[2]
    assert type(tree.mixed[0]) is np.int64 and tree.mixed[1] == "text"
    np.testing.assert_array_equal(tree.first.values, [0, 1, 2])
    np.testing.assert_array_equal(tree.mixed[3], [0, 0])


@pytest.mark.parametrize(
    ("field", "node"),
    [
        ("name", 3), ("colour", "blue"), ("colour", None), ("kind", "c"), ("flag", 1),
        ("numbers", ["x"]), ("numbers", [True]), ("numbers", [10**400]), ("numbers", {"list": []}),
        ("numbers", [{"object": 1}]), ("pair", {"Pair": {"left": None, "right": 1}}),
        ("pair", {"Pair": {"right": 1}}), ("both", [1]), ("both", [1, 2]), ("named", {"dict": []}),
        ("named", {"one": 1}), ("first", None), ("first", {"same": "nowhere"}),
        ("first", {"same": ["named"]}), ("first", {"given": "yours"}), ("first", {"Popen": {}}),
        ("first", {"Leaf": {"values": {"array": "numbers"}, "size": 1.0}}),
        ("first", {"Leaf": {"values": {"array": "pair/left"}, "size": 1.0}}),
        ("first", {"Leaf": {"values": {"array": "first/values"}, "size": 1.0, "more": 1}}),
        ("base", {"Pair": {"left": {"array": "pair/left"}, "right": 1}}), ("base", {"Base": {}}),
        ("base", {"same": "pair"}), ("arrays", [{"array": ["x"]}]), ("mixed", [None]),
    ],
)  # fmt: skip
def test_what_is_not_expected_is_refused(field, node):
    tree, arrays = packed(example())
    tree["Tree"][field] = node
    with pytest.raises((ValueError, TypeError, KeyError)):
        unpacker(arrays).value(Tree, tree, "")


def test_checks_are_called_for_every_object():
    node, arrays = packed(example())
    reader, checked = unpacker(arrays), []
    reader.checks[Leaf] = checked.append
    tree = reader.value(Tree, node, "")
    assert len(checked) >= 6 and checked[0] is tree.first


def test_some_arrays_must_have_the_name_of_their_place():
    node, arrays = packed(example())
    node["Tree"]["named"]["dict"]["two"]["Leaf"]["values"] = {"array": "named/one/values"}
    reader = unpacker(arrays)
    reader.value(Tree, node, "")
    reader = unpacker(arrays)
    reader.places = {"named/two/values"}
    with pytest.raises(KeyError):
        reader.value(Tree, node, "")
