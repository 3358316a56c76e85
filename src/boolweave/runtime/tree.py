"""Trees of dataclasses as arrays and JSON, and back: the form of checkpoints and of model files.

`Packer` turns dataclasses, lists, dictionaries, arrays and plain values into nodes of JSON and
named arrays; `Unpacker` makes the tree again. The annotations of the classes say what belongs
where, so that a file can hold nothing else: values of another type are refused, and no code runs
except the constructors of these classes. An object that is in two places is written once, and is
one object again.

| in memory | in JSON |
|---|---|
| None, bool, int, float, str, enumeration | the same; an enumeration is its text |
| list, tuple | a list |
| dict with names | `{"dict": {name: node}}` |
| number of NumPy | `{"float32": 0.5}` |
| array | `{"array": its name}` |
| dataclass, named tuple | `{its class: {field: node}}`; later `{"same": the place of the first}` |
| an object that the reader has anyway | `{"given": its name}` |
"""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from boolweave.runtime.storage import LazyArray, Memory
from boolweave.runtime.types import Array, Floats, Integers
from boolweave.runtime.words import shortened

# JSON: null, a number, a text, a list or a dictionary.
Node: TypeAlias = Any

# For each class, a function that raises ValueError if one of its objects does not fit.
Checks: TypeAlias = dict[type, Callable[[Any], None]]

# What annotations may name although their modules import it for the type checker only; an
# `ArrayLike` is an array by the time it is stored.
_NAMES = {
    "NDArray": NDArray, "ArrayLike": NDArray[np.float64], "Array": Array, "Floats": Floats,
    "Integers": Integers, "Doubles": NDArray[np.float64], "Bits": NDArray[np.uint8],
    "Steps": NDArray[np.int8 | np.int16],
}  # fmt: skip

_SCALARS = {bool: np.bool_, int: np.integer, float: np.floating}
_SCALAR_NAMES = {np.dtype(code).name: np.dtype(code).type for code in "?bhilBHILefd"}

# The annotations of classes that were asked for.
_HINTS: dict[type, dict[str, Any]] = {}


def field_names(kind: type) -> list[str] | None:
    """The names of the fields of a dataclass or of a named tuple; None for other classes."""
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    names = getattr(kind, "_fields", None)
    return None if names is None else list(names)


def inside(place: str, name: str | int) -> str:
    """The place of a part of the object at a place; the root has no name."""
    return f"{place}/{name}" if place else str(name)


def check_known(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError if there are unknown names."""
    unknown = set(names) - set(known)
    if unknown:
        raise ValueError(f"it holds {shortened(repr(min(unknown)), 60)}, which is unknown")


def _scalar_types(kind: Any) -> tuple[Any, ...]:
    """The types of numbers that an annotation of an array allows."""
    ((scalar,),) = (get_args(part) for part in get_args(kind)[1:])
    scalars = get_args(scalar) if get_origin(scalar) is types.UnionType else (scalar,)
    return tuple(np.generic if one is Any else get_origin(one) or one for one in scalars)


class Packer:
    """Conversion of trees to nodes and arrays.

    Parameters
    ----------
    given : dict, optional
        Objects that are not written, because the reader has them.

    Attributes
    ----------
    arrays : dict
        The arrays of all trees, named after their places.
    """

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        self.arrays: dict[str, Array] = {}
        self._alive: list[object] = []  # an id is unique only as long as its object lives
        self._again: dict[int, Node] = {
            id(value): {"given": name} for name, value in (given or {}).items()
        }

    def node(self, value: Any, place: str) -> Node:
        """The node of a value; what it refers to elsewhere keeps its name in `arrays`."""
        if value is None or type(value) in (bool, int, float):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, np.generic):
            return {value.dtype.name: value.item()}
        if id(value) in self._again:
            return self._again[id(value)]
        if isinstance(value, dict):
            return {"dict": {name: self.node(v, inside(place, name)) for name, v in value.items()}}
        names = field_names(type(value))
        if names is None and isinstance(value, list | tuple):
            return [self.node(item, inside(place, i)) for i, item in enumerate(value)]
        self._alive.append(value)
        if isinstance(value, np.ndarray):
            self.arrays[place] = value
            self._again[id(value)] = {"array": place}
            return {"array": place}
        if names is None and hasattr(value, "to_local"):  # a reference to arrays elsewhere
            node = self.node(value.to_local(), place)
            self._again[id(value)] = {"same": place}
            return node
        if names is None:
            raise TypeError(f"a file cannot hold a {type(value).__name__}")
        self._again[id(value)] = {"same": place}
        parts = {name: self.node(getattr(value, name), inside(place, name)) for name in names}
        return {type(value).__name__: parts}


class Unpacker:
    """Conversion of nodes and arrays to trees.

    Parameters
    ----------
    arrays : dict of LazyArray
        The arrays of the file by name, which are read when they are needed.
    classes : iterable of types
        The classes of objects that may be made, in addition to those in annotations.
    given : dict, optional
        Objects to which nodes refer by name.

    Attributes
    ----------
    classes : dict
        The announced classes by name.
    checks : dict
        For each class, a function that raises if one of its objects does not fit.
    store : Memory
        Where lists of arrays are kept.
    places : container of str
        The places at which there must be an array of that name, and no other one.
    """

    def __init__(
        self,
        arrays: Mapping[str, LazyArray],
        classes: Iterable[type] = (),
        given: Mapping[str, object] | None = None,
    ) -> None:
        self.classes = {kind.__name__: kind for kind in classes}
        self.checks: Checks = {}
        self.store = Memory()
        self.places: Container[str] = ()
        self._arrays, self._given = arrays, given or {}
        self._loaded: dict[str, Array] = {}
        self._made: dict[str, object] = {}

    def value(self, kind: Any, node: Node, place: str) -> Any:
        """The value of a node, which must be of this kind: a class, or another annotation."""
        origin, options = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self._one_of(options, node, place)
        if origin is Literal:
            return self._expect(type(node) is str and node in options, node, options, place)
        if origin is list or origin is tuple:
            return self._sequence(origin, options, node, place)
        if origin is dict:
            items = self._tagged(node, "dict", place)
            self._expect(type(items) is dict, node, "names and values", place)
            return {
                name: self.value(options[1], v, inside(place, name)) for name, v in items.items()
            }
        if origin is np.ndarray:
            return self._array(_scalar_types(kind), self._tagged(node, "array", place), place)
        if kind in _SCALARS:
            return self._number(kind, node, place)
        if kind is type(None) or kind is str:
            return self._expect(type(node) is kind, node, kind.__name__, place)
        if issubclass(kind, enum.Enum):
            return kind(self._expect(type(node) is str, node, "a text", place))
        return self._object(kind, node, place)

    def unread(self) -> set[str]:
        """The names of arrays that belong to nothing so far."""
        return set(self._arrays) - set(self._loaded)

    # ------------------------------------------------------------ kinds of nodes

    def _one_of(self, options: tuple[Any, ...], node: Node, place: str) -> Any:
        if node is None and type(None) in options:
            return None
        options = tuple(kind for kind in options if kind is not type(None))
        for kind in options[:-1]:
            try:
                return self.value(kind, node, place)
            except (TypeError, ValueError):
                continue
        return self.value(options[-1], node, place)

    def _sequence(self, origin: Any, options: tuple[Any, ...], node: Node, place: str) -> Any:
        self._expect(type(node) is list, node, "a list", place)
        kinds = options
        if origin is list or (len(options) == 2 and options[1] is ...):
            kinds = options[:1] * len(node)
        self._expect(len(node) == len(kinds), node, f"a list of {len(kinds)}", place)
        if get_origin(options[0]) is np.ndarray and origin is list:
            self._load([self._tagged(item, "array", place) for item in node])
        return origin(
            self.value(kind, item, inside(place, i))
            for i, (kind, item) in enumerate(zip(kinds, node, strict=True))
        )

    def _load(self, names: list[str]) -> None:
        """Read the arrays of a list into the store, together."""
        new = [name for name in names if name not in self._loaded]
        if new and len(new) == len(names):
            loaded = self.store.load([self._arrays[name] for name in new])
            self._loaded |= dict(zip(new, loaded, strict=True))

    def _array(self, scalars: tuple[Any, ...], name: Any, place: str) -> Array:
        if name not in self._arrays or (name != place and place in self.places):
            raise KeyError(place)
        dtype = self._arrays[name].dtype.newbyteorder("=")
        if not any(np.issubdtype(dtype, scalar) for scalar in scalars):
            wanted = " or ".join(scalar.__name__ for scalar in scalars)
            raise ValueError(f"{place!r} must be an array of {wanted}, but is one of {dtype}")
        if name not in self._loaded:
            self._loaded[name] = self._arrays[name].read()
        return self._loaded[name]

    def _number(self, kind: Any, node: Node, place: str) -> Any:
        value = node
        if type(node) is dict and len(node) == 1:
            ((name, content),) = node.items()
            if name in _SCALAR_NAMES and type(content) in (bool, int, float):
                value = _SCALAR_NAMES[name](content)
        right = type(value) is kind or isinstance(value, _SCALARS[kind])
        # Larger integers would not fit into an array.
        largest_integer = 1 << 62
        if type(value) is int:
            right = kind is not bool and abs(value) <= largest_integer
        self._expect(right, value, f"of the type {kind.__name__}", place)
        return float(value) if kind is float and type(value) is int else value

    def _object(self, kind: type, node: Node, place: str) -> Any:
        """An object of a class, made or found again; of any announced class for a protocol."""
        self._expect(type(node) is dict and len(node) == 1, node, kind.__name__, place)
        ((name, content),) = node.items()
        if name in ("given", "same"):
            where = self._given if name == "given" else self._made
            self._expect(type(content) is str and content in where, node, kind.__name__, place)
            value = where[content]
        else:
            wanted = kind if name == kind.__name__ else self.classes.get(name)
            if wanted is None:
                raise ValueError(
                    f"{place!r} must be {kind.__name__}, but is {shortened(repr(name), 60)}"
                )
            hints = self._hints_of(wanted)
            self._expect(type(content) is dict, content, f"the fields of {name}", place)
            check_known(content, hints)
            parts = {}
            for field, hint in hints.items():
                if field not in content:
                    raise KeyError(inside(place, field))
                parts[field] = self.value(hint, content[field], inside(place, field))
            value = self._made[place] = wanted(**parts)
        right = getattr(kind, "_is_protocol", False) or isinstance(value, kind)
        self._expect(right, type(value).__name__, kind.__name__, place)
        if type(value) in self.checks:
            self.checks[type(value)](value)
        return value

    def _hints_of(self, kind: type) -> dict[str, Any]:
        """The annotations of the fields of a class, in their order."""
        if kind not in _HINTS:
            names = field_names(kind)
            if names is None:
                raise TypeError(f"unexpected {kind.__name__}")
            modules = [vars(sys.modules[base.__module__]) for base in reversed(kind.__mro__)]
            known = {name: value for module in modules for name, value in module.items()}
            hints = get_type_hints(kind, {**self.classes, **known, **_NAMES})
            _HINTS[kind] = {name: hints[name] for name in names}
        return _HINTS[kind]

    def _tagged(self, node: Node, tag: str, place: str) -> Any:
        self._expect(type(node) is dict and list(node) == [tag], node, f"a node {tag!r}", place)
        return node[tag]

    @staticmethod
    def _expect(holds: bool, node: Node, expected: object, place: str) -> Any:
        if not holds:
            raise ValueError(f"{place!r} must be {expected}, but is {shortened(repr(node), 60)}")
        return node
