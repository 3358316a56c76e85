"""Tiles of 8 factors by 16 entries, which are transposed in registers.

Beliefs and sums are stored by row or column, the numbers of all factors one after another. Kernels
need vectors of 16 entries for each factor.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from boolweave.engine.kernels.vectors import (
    LANES,
    Builder,
    Context,
    Kind,
    Value,
    as_index,
    compiled_or,
    place_of,
    splatted,
)
from boolweave.runtime.types import Array

# Number of factors in a tile.
TILE = 8


def _plain_gather_tile(source: Array, index: Array, first: int, out: Array) -> None:
    for i in range(LANES):
        row = source[index[i] + first : index[i] + first + TILE]
        out[first * LANES + i : (first + TILE) * LANES : LANES] = row


def _plain_scatter_tile(source: Array, index: Array, first: int, out: Array) -> None:
    for i in range(LANES):
        at = index[i] + first
        out[at : at + TILE] += source[first * LANES + i : (first + TILE) * LANES : LANES]


def _transposed(builder: Builder, rows: list[Value]) -> list[Value]:
    """Transpose 8 vectors of 16 numbers as two squares of 8 × 8 that are next to each other.

    In each of three rounds, the halves of every vector are interleaved with those of the vector
    four places further.
    """
    half = LANES // 2
    masks = []
    for first in (0, half // 2):  # the lower four of either half, then the upper four
        picks = []
        for side in (0, half):
            for i in range(half // 2):
                picks += [side + first + i, LANES + side + first + i]
        masks.append(ir.Constant(ir.VectorType(ir.IntType(32), LANES), picks))
    for _ in range(3):
        turned = []
        for i in range(TILE // 2):
            turned += [builder.shuffle_vector(rows[i], rows[i + TILE // 2], m) for m in masks]
        rows = turned
    return rows


def _tile_places(builder: Builder, data: Value, index: Value, first: Value) -> list[Value]:
    """Pointers to 16 vectors of 8 numbers, which begin at index[i] + first."""
    vector = ir.VectorType(data.type.pointee, TILE)
    pointers = []
    for i in range(LANES):
        at = builder.load(builder.gep(index, [ir.Constant(ir.IntType(64), i)]))
        pointers.append(place_of(builder, data, builder.add(at, first), vector))
    return pointers


def _factor_places(builder: Builder, data: Value, first: Value) -> list[Value]:
    """Pointers to the vectors of 8 factors, beginning with `first`, in (K, 16)."""
    begin = builder.mul(first, ir.Constant(ir.IntType(64), LANES))
    at = [builder.add(begin, ir.Constant(ir.IntType(64), i * LANES)) for i in range(TILE)]
    vector = ir.VectorType(data.type.pointee, LANES)
    return [place_of(builder, data, index, vector) for index in at]


@compiled_or(_plain_gather_tile)
def gather_tile(typing: Context, source: Kind, index: Kind, first: Kind, out: Kind) -> Any:
    """Set out[k, i] = source[index[i] + k] for 8 factors k, beginning with `first`."""

    def generate(context: Context, builder: Builder, sig: Any, args: Any) -> Value:
        tile = as_index(context, builder, args[2], first)
        size = source.dtype.bitwidth // 8
        places = _tile_places(builder, args[0], args[1], tile)
        loaded = [builder.load(place, align=size) for place in places]
        join = ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(range(LANES)))
        rows = [builder.shuffle_vector(loaded[i], loaded[i + TILE], join) for i in range(TILE)]
        targets = _factor_places(builder, args[3], tile)
        for row, place in zip(_transposed(builder, rows), targets, strict=True):
            builder.store(row, place, align=size)
        return context.get_dummy_value()

    return types.void(source, index, first, out), generate


def _parts(builder: Builder, source: Value, first: Value, wide: Kind) -> list[Value]:
    """A tile of 8 factors as 16 vectors, one per entry, of 8 numbers in the type of the sums."""
    places = _factor_places(builder, source, first)
    size = source.type.pointee.width // 8
    rows = _transposed(builder, [builder.load(place, align=size) for place in places])
    parts = []
    for i in range(LANES):
        half = [(i // TILE) * TILE + lane for lane in range(TILE)]
        mask = ir.Constant(ir.VectorType(ir.IntType(32), TILE), half)
        part = builder.shuffle_vector(rows[i % TILE], rows[i % TILE], mask)
        parts.append(builder.sext(part, wide) if wide != part.type else part)
    return parts


def _scatter(sort: bool) -> Any:
    """Make a function that adds source[k, i] to out[index[i] + k] for 8 factors k.

    With `sort`, equal indices must be next to each other; then sums stay in registers.
    """

    @compiled_or(_plain_scatter_tile)
    def function(typing: Context, source: Kind, index: Kind, first: Kind, out: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Any, args: Any) -> Value:
            tile = as_index(context, builder, args[2], first)
            size = out.dtype.bitwidth // 8
            parts = _parts(builder, args[0], tile, ir.VectorType(ir.IntType(8 * size), TILE))
            places = _tile_places(builder, args[3], args[1], tile)
            if not sort:
                for part, place in zip(parts, places, strict=True):
                    total = builder.add(builder.load(place, align=size), part)
                    builder.store(total, place, align=size)
                return context.get_dummy_value()
            before = [builder.load(place, align=size) for place in places]
            wide = ir.VectorType(ir.IntType(64), TILE)
            at = [builder.gep(args[1], [ir.Constant(ir.IntType(64), i)]) for i in range(LANES)]
            numbers = [splatted(builder, wide, builder.load(place)) for place in at]
            total = before[0]
            for i, part in enumerate(parts):
                if i:
                    same = builder.icmp_signed("==", numbers[i], numbers[i - 1])
                    total = builder.select(same, total, before[i])
                total = builder.add(total, part)
                builder.store(total, places[i], align=size)
            return context.get_dummy_value()

        return types.void(source, index, first, out), generate

    return function


scatter_tile, scatter_sorted_tile = _scatter(sort=False), _scatter(sort=True)
