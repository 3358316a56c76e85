"""Vectors of 16 numbers in kernels, a register or two of the processor each.

LLVM vectorises loops over arrays by itself, but reads and writes memory for what would stay in
registers, and cannot turn rows into columns. Here a vector is a value: `load` it from the
`pointer` of an array, use operators, `store` it. (Pointers, unlike arrays, are not counted when
they are passed on to functions, which in inner loops takes longer than the work; the `pointer` of
a tuple of arrays is a tuple of pointers.) Without numba's compiler
(NUMBA_DISABLE_JIT=1) the same kernels run on NumPy arrays of 16.
"""

from __future__ import annotations

import operator
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 16

# Entries turned at once from rows of factors to factors of entries, by so many factors.
TILE = 8


class Vector(types.Type):
    """Numba's type of 16 numbers of one kind."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        bits = {types.float32: ir.FloatType(), types.boolean: ir.IntType(1)}
        scalar = bits.get(kind.dtype) or ir.IntType(kind.dtype.bitwidth)
        super().__init__(manager, kind, ir.VectorType(scalar, LANES))


def _llvm(context: Any, dtype: Any) -> ir.VectorType:
    return context.get_value_type(Vector(dtype))


# ---------------------------------------------------------------- operators


def _is_float(kind: Vector) -> bool:
    return kind.dtype is types.float32


def _infer(function: Any, mask: bool = False) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if isinstance(args[0], Vector) and args[0] == args[-1]:
                return signature(Vector(types.boolean) if mask else args[0], *args)
            return None

    infer_global(function)(Template)


def _binary(function: Any, integer: str, floating: str = "") -> None:
    _infer(function)

    @lower_builtin(function, Vector, Vector)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if _is_float(sig.return_type):
            return getattr(builder, floating)(*args, flags=("contract",))
        return getattr(builder, integer)(*args)


_binary(operator.add, "add", "fadd")
_binary(operator.sub, "sub", "fsub")
_binary(operator.mul, "mul", "fmul")
_binary(operator.truediv, "sdiv", "fdiv")
_binary(operator.and_, "and_")
_binary(operator.rshift, "ashr")
_binary(operator.lshift, "shl")


def _comparison(function: Any, symbol: str) -> None:
    _infer(function, mask=True)

    @lower_builtin(function, Vector, Vector)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if _is_float(sig.args[0]):
            return builder.fcmp_ordered(symbol, *args)
        return builder.icmp_signed(symbol, *args)


_comparison(operator.gt, ">")
_comparison(operator.eq, "==")


# ---------------------------------------------------------------- functions in compiled kernels


def _with_pointers(kind: Any) -> Any:
    """The type of what `pointer` makes of a value of some type."""
    if isinstance(kind, types.Array):
        return types.CPointer(kind.dtype)
    if not isinstance(kind, types.BaseTuple):
        return kind
    parts = [_with_pointers(part) for part in cast(Any, kind)]
    return types.BaseTuple.from_types(parts, getattr(kind, "instance_class", None))


def _to_pointers(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        return cgutils.create_struct_proxy(kind)(context, builder, value=value).data
    if not isinstance(kind, types.BaseTuple):
        return value
    parts = zip(cast(Any, kind), cgutils.unpack_tuple(builder, value), strict=True)
    pointers = [_to_pointers(context, builder, *part) for part in parts]
    return context.make_tuple(builder, _with_pointers(kind), pointers)


@intrinsic
def _pointer(typing: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _to_pointers(context, builder, value, args[0])

    return _with_pointers(value)(value), generate


def _place(builder: Any, data: Any, index: Any, vector: Any) -> Any:
    """Pointer to a vector of the numbers behind a pointer, from an index on."""
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _as_index(context: Any, builder: Any, value: Any, kind: Any) -> Any:
    return context.cast(builder, value, kind, types.intp)


@intrinsic
def _load(typing: Any, data: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = _as_index(context, builder, args[1], index)
        place = _place(builder, args[0], at, _llvm(context, data.dtype))
        return builder.load(place, align=data.dtype.bitwidth // 8)

    return Vector(data.dtype)(data, index), generate


@intrinsic
def _store(typing: Any, data: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = _as_index(context, builder, args[1], index)
        place = _place(builder, args[0], at, _llvm(context, data.dtype))
        builder.store(args[2], place, align=data.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(data, index, value), generate


@intrinsic
def _prefetch(typing: Any, data: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = _as_index(context, builder, args[1], index)
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        place = builder.bitcast(builder.gep(args[0], [at]), byte)
        how = [ir.Constant(number, n) for n in (1, 3, 1)]  # to write, to keep, data
        builder.call(function, [place, *how])
        return context.get_dummy_value()

    return types.void(data, index), generate


def _splatted(builder: Any, vector: Any, scalar: Any) -> Any:
    first = builder.insert_element(
        ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
    )
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


@intrinsic
def _splat(typing: Any, scalar: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _splatted(builder, _llvm(context, scalar), args[0])

    return Vector(scalar)(scalar), generate


def _call(builder: Any, name: str, args: Any, result: Any = None) -> Any:
    """Call an LLVM intrinsic on vectors of integers."""
    vector = args[-1].type
    kind = (
        f"v{LANES}f32"
        if isinstance(vector.element, ir.FloatType)
        else f"v{LANES}i{vector.element.width}"
    )
    function_type = ir.FunctionType(result or vector, [arg.type for arg in args])
    function = cgutils.get_or_insert_function(builder.module, function_type, f"{name}.{kind}")
    return builder.call(function, args)


def _two_sided(integer: str, symbol: str) -> Any:
    @intrinsic
    def function(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            if _is_float(a):
                return builder.select(builder.fcmp_ordered(symbol, *args), *args)
            return _call(builder, integer, list(args))

        return a(a, b), generate

    return function


@intrinsic
def _where(typing: Any, mask: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(mask, a, b), generate


@intrinsic
def _mask_bits(typing: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(LANES))

    return types.uint16(mask), generate


def _conversion(target: Any) -> Any:
    @intrinsic
    def function(typing: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            to = _llvm(context, target)
            if target is types.float32:
                return builder.sitofp(args[0], to)
            if _is_float(a):
                return builder.fptosi(args[0], to)
            if a.dtype.bitwidth > target.bitwidth:
                return builder.trunc(args[0], to)
            return builder.zext(args[0], to) if not a.dtype.signed else builder.sext(args[0], to)

        return Vector(target)(a), generate

    return function


@intrinsic
def _in_upper_halves(typing: Any, a: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pairs = ir.VectorType(ir.IntType(32), LANES // 2)
        odd = builder.bitcast(args[0], pairs)
        even = builder.shl(odd, ir.Constant(pairs, [16] * (LANES // 2)))
        join = ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(range(LANES)))
        return builder.shuffle_vector(even, odd, join)

    return Vector(types.int32)(a), generate


@intrinsic
def _from_upper_halves(typing: Any, a: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pairs = ir.VectorType(ir.IntType(32), LANES // 2)
        half = LANES // 2
        firsts, lasts = (
            ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(i, i + half)))
            for i in (0, half)
        )
        even = builder.shuffle_vector(args[0], args[0], firsts)
        odd = builder.shuffle_vector(args[0], args[0], lasts)
        even = builder.lshr(even, ir.Constant(pairs, [16] * half))
        odd = builder.and_(odd, ir.Constant(pairs, [-(1 << 16)] * half))
        return builder.bitcast(builder.or_(even, odd), _llvm(context, types.int16))

    return Vector(types.int16)(a), generate


def _reinterpretation(target: Any) -> Any:
    @intrinsic
    def function(typing: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.bitcast(args[0], _llvm(context, target))

        return Vector(target)(a), generate

    return function


def _reduction(name: str, result: Any) -> Any:
    @intrinsic
    def function(typing: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = args[0]
            if result.bitwidth > a.dtype.bitwidth:
                value = builder.sext(value, _llvm(context, result))
            return _call(builder, f"llvm.vector.reduce.{name}", [value], value.type.element)

        return result(a), generate

    return function


@intrinsic
def _add_pairs(typing: Any, a: Any, data: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pairs = ir.VectorType(ir.IntType(32), LANES // 2)
        sixteen = ir.Constant(pairs, [16] * (LANES // 2))
        odd = builder.bitcast(args[0], pairs)
        even = builder.ashr(builder.shl(odd, sixteen), sixteen)
        sums = builder.add(even, builder.ashr(odd, sixteen))
        place = _place(builder, args[1], _as_index(context, builder, args[2], index), pairs)
        builder.store(builder.add(builder.load(place, align=4), sums), place, align=4)
        return context.get_dummy_value()

    return types.void(a, data, index), generate


def _transposed(builder: Any, rows: Any) -> Any:
    """8 vectors of 16 as two squares of 8 × 8 side by side, each transposed.

    Three rounds of interleaving each vector's halves with those of the one four places further.
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


def _tile_places(builder: Any, data: Any, index: Any, first: Any) -> list[Any]:
    """Pointers to tiles of 8 numbers, from index[i] + first on, for 16 i."""
    vector = ir.VectorType(data.type.pointee, TILE)
    pointers = []
    for i in range(LANES):
        at = builder.load(builder.gep(index, [ir.Constant(ir.IntType(64), i)]))
        pointers.append(_place(builder, data, builder.add(at, first), vector))
    return pointers


def _factor_places(builder: Any, data: Any, first: Any) -> list[Any]:
    """Pointers to the vectors of 8 factors from `first` on in (K, 16)."""
    begin = builder.mul(first, ir.Constant(ir.IntType(64), LANES))
    at = [builder.add(begin, ir.Constant(ir.IntType(64), i * LANES)) for i in range(TILE)]
    vector = ir.VectorType(data.type.pointee, LANES)
    return [_place(builder, data, index, vector) for index in at]


@intrinsic
def _gather_tile(typing: Any, source: Any, index: Any, first: Any, out: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        tile = _as_index(context, builder, args[2], first)
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


def _parts(builder: Any, source: Any, first: Any, wide: Any) -> list[Any]:
    """A tile of 8 factors by entry: 16 vectors of 8 numbers, as wide as their sums."""
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


@intrinsic
def _scatter_tile(typing: Any, source: Any, index: Any, first: Any, out: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        tile = _as_index(context, builder, args[2], first)
        size = out.dtype.bitwidth // 8
        wide = ir.VectorType(ir.IntType(out.dtype.bitwidth), TILE)
        places = _tile_places(builder, args[3], args[1], tile)
        for part, place in zip(_parts(builder, args[0], tile, wide), places, strict=True):
            total = builder.add(builder.load(place, align=size), part)
            builder.store(total, place, align=size)
        return context.get_dummy_value()

    return types.void(source, index, first, out), generate


@intrinsic
def _scatter_sorted_tile(typing: Any, source: Any, index: Any, first: Any, out: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        tile = _as_index(context, builder, args[2], first)
        size = out.dtype.bitwidth // 8
        wide = ir.VectorType(ir.IntType(out.dtype.bitwidth), TILE)
        places = _tile_places(builder, args[3], args[1], tile)
        before = [builder.load(place, align=size) for place in places]
        numbers = [
            _splatted(
                builder, ir.VectorType(ir.IntType(64), TILE),
                builder.load(builder.gep(args[1], [ir.Constant(ir.IntType(64), i)])),
            )
            for i in range(LANES)
        ]  # fmt: skip
        total = before[0]
        for i, part in enumerate(_parts(builder, args[0], tile, wide)):
            if i:
                same = builder.icmp_signed("==", numbers[i], numbers[i - 1])
                total = builder.select(same, total, before[i])
            total = builder.add(total, part)
            builder.store(total, places[i], align=size)
        return context.get_dummy_value()

    return types.void(source, index, first, out), generate


@intrinsic
def _widened(typing: Any, a: Any, data: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if data.dtype == a.dtype:
            return args[0]
        return builder.sext(args[0], _llvm(context, data.dtype))

    return Vector(data.dtype)(a, data), generate


# ---------------------------------------------------------------- the same on NumPy arrays


def _plain_gather_tile(source: Any, index: Any, first: int, out: Any) -> None:
    for i in range(LANES):
        row = source[index[i] + first : index[i] + first + TILE]
        out[first * LANES + i : (first + TILE) * LANES : LANES] = row


def _plain_scatter_tile(source: Any, index: Any, first: int, out: Any) -> None:
    for i in range(LANES):
        at = index[i] + first
        out[at : at + TILE] += source[first * LANES + i : (first + TILE) * LANES : LANES]


def _plain_in_upper_halves(a: Any) -> Any:
    return np.concatenate([a[0::2], a[1::2]]).astype(np.int32) << np.int32(16)


def _plain_from_upper_halves(a: Any) -> Any:
    return (a >> 16).astype(np.int16).reshape(2, LANES // 2).T.reshape(LANES)


def _plain_add_pairs(a: Any, array: Any, index: int) -> None:
    array[index : index + LANES // 2] += a[0::2].astype(np.int32) + a[1::2]


def _plain_store(array: Any, index: int, value: Any) -> None:
    array[index : index + LANES] = value


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    pointer: Any = lambda array: array  # noqa: E731
    load: Any = lambda array, index: array[index : index + LANES].copy()  # noqa: E731
    store: Any = _plain_store
    prefetch: Any = lambda array, index: None  # noqa: E731
    splat: Any = lambda scalar: np.full(LANES, scalar)  # noqa: E731
    minimum: Any = np.minimum
    maximum: Any = np.maximum
    where: Any = np.where
    mask_bits: Any = lambda mask: np.packbits(mask, bitorder="little").view(np.uint16)[0]  # noqa: E731
    as_uint8: Any = lambda a: a.astype(np.uint8)  # noqa: E731
    as_int16: Any = lambda a: a.astype(np.int16)  # noqa: E731
    as_int32: Any = lambda a: a.astype(np.int32)  # noqa: E731
    as_float32: Any = lambda a: a.astype(np.float32)  # noqa: E731
    bits_of: Any = lambda a: a.view(np.int32)  # noqa: E731
    float_of: Any = lambda a: a.view(np.float32)  # noqa: E731
    total: Any = lambda a: a.sum(dtype=np.int32)  # noqa: E731
    largest: Any = np.max
    widened: Any = lambda a, array: a.astype(array.dtype)  # noqa: E731
    gather_tile: Any = _plain_gather_tile
    scatter_tile: Any = _plain_scatter_tile
    scatter_sorted_tile: Any = _plain_scatter_tile
    add_pairs: Any = _plain_add_pairs
    in_upper_halves: Any = _plain_in_upper_halves
    from_upper_halves: Any = _plain_from_upper_halves
else:
    pointer, load, store, splat, where = _pointer, _load, _store, _splat, _where
    mask_bits, prefetch = _mask_bits, _prefetch
    minimum = _two_sided("llvm.smin", "<")
    maximum = _two_sided("llvm.smax", ">")
    as_uint8, as_int16 = _conversion(types.uint8), _conversion(types.int16)
    as_int32, as_float32 = _conversion(types.int32), _conversion(types.float32)
    bits_of, float_of = _reinterpretation(types.int32), _reinterpretation(types.float32)
    total, largest = _reduction("add", types.int32), _reduction("smax", types.int16)
    gather_tile, scatter_tile, widened = _gather_tile, _scatter_tile, _widened
    scatter_sorted_tile = _scatter_sorted_tile
    add_pairs = _add_pairs
    in_upper_halves, from_upper_halves = _in_upper_halves, _from_upper_halves
