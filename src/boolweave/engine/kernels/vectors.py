"""Vectors of 16 numbers in kernels, each of which takes one or two registers of the processor.

LLVM vectorizes loops over arrays by itself, but it writes intermediate results to memory that could
stay in registers, and it cannot transpose. Here a vector is a value: `load` it from the `pointer`
of an array, use operators, and `store` it. (Numba counts references to arrays that are passed to
functions, which in inner loops takes longer than the work itself; it does not count pointers. The
`pointer` of a tuple of arrays is a tuple of pointers.) Without numba's compiler
(NUMBA_DISABLE_JIT=1), the same kernels run on NumPy arrays of 16 numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from boolweave.engine.kernels.jit import njit
from boolweave.runtime.types import Array

LANES = 16


# The type of a vector in a kernel; without the compiler, it is an array of 16 numbers. The others
# are objects of the compiler that have no static types: numba's types, values of LLVM, numba's
# contexts, and LLVM's builders.
Vector: TypeAlias = Any
Kind: TypeAlias = Any
Value: TypeAlias = Any
Context: TypeAlias = Any
Builder: TypeAlias = Any
# The signature of an intrinsic, and the function that generates its code.
Intrinsic: TypeAlias = tuple[Signature, Callable[..., Value]] | None


def compiled_or(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic; if nothing is compiled, use the function `plain` on NumPy arrays."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda typed: plain
    return intrinsic


class VectorType(types.Type):
    """The numba type of a vector of 16 numbers."""

    def __init__(self, dtype: Kind) -> None:
        self.dtype = dtype
        super().__init__(name=f"vector({dtype})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        bits = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
        bits |= {types.boolean: ir.IntType(1)}
        scalar = bits.get(kind.dtype) or ir.IntType(kind.dtype.bitwidth)
        super().__init__(manager, kind, ir.VectorType(scalar, LANES))  # type: ignore[no-untyped-call]


def _llvm(context: Context, dtype: Kind) -> ir.VectorType:
    return context.get_value_type(VectorType(dtype))


# ---------------------------------------------------------------- operators


def _is_float(kind: Kind) -> bool:
    """Whether numbers, or the numbers of a vector, are floats."""
    return isinstance(getattr(kind, "dtype", kind), types.Float)


def _infer(function: Any, mask: bool = False) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if isinstance(args[0], VectorType) and args[0] == args[-1]:
                return signature(VectorType(types.boolean) if mask else args[0], *args)
            return None

    infer_global(function)(Template)


def _binary(function: Any, integer: str, floating: str = "") -> None:
    _infer(function)

    @lower_builtin(function, VectorType, VectorType)
    def lower(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
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

    @lower_builtin(function, VectorType, VectorType)
    def lower(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        if _is_float(sig.args[0]):
            return builder.fcmp_ordered(symbol, *args)
        return builder.icmp_signed(symbol, *args)


_comparison(operator.gt, ">")
_comparison(operator.eq, "==")


# ---------------------------------------------------------------- functions on NumPy arrays


def _plain_in_upper_halves(a: Vector) -> Vector:
    return np.concatenate([a[0::2], a[1::2]]).astype(np.int32) << np.int32(16)


def _plain_from_upper_halves(a: Vector) -> Vector:
    return (a >> 16).astype(np.int16).reshape(2, LANES // 2).T.reshape(LANES)


def _plain_two_largest(best: Vector, second: Vector) -> tuple[np.int16, np.int16]:
    second_largest, largest = np.sort(np.concatenate([best, second]))[-2:]
    return largest, second_largest


def _plain_add_pairs(a: Vector, array: Array, index: int) -> None:
    array[index : index + LANES // 2] += a[0::2].astype(np.int32) + a[1::2]


def _plain_store(array: Array, index: int, value: Vector) -> None:
    array[index : index + LANES] = value


# ---------------------------------------------------------------- functions in compiled kernels


def _with_pointers(kind: Kind) -> Kind:
    """The type that `pointer` returns for an argument of a type."""
    if isinstance(kind, types.Array):
        return types.CPointer(kind.dtype)
    if not isinstance(kind, types.BaseTuple):
        return kind
    parts = [_with_pointers(part) for part in cast(Any, kind)]
    return types.BaseTuple.from_types(parts, getattr(kind, "instance_class", None))


def _to_pointers(context: Context, builder: Builder, kind: Kind, value: Value) -> Value:
    if isinstance(kind, types.Array):
        return cgutils.create_struct_proxy(kind)(context, builder, value=value).data
    if not isinstance(kind, types.BaseTuple):
        return value
    parts = zip(cast(Any, kind), cgutils.unpack_tuple(builder, value), strict=True)
    pointers = [_to_pointers(context, builder, *part) for part in parts]
    return context.make_tuple(builder, _with_pointers(kind), pointers)


@compiled_or(lambda value: value)
def pointer(typing: Context, value: Kind) -> Intrinsic:
    """The address of an array, or a tuple of the addresses of a tuple of arrays."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        return _to_pointers(context, builder, value, args[0])

    return _with_pointers(value)(value), generate


def place_of(builder: Builder, data: Value, index: Value, vector: Kind) -> Value:
    """A pointer to the vector that begins at an index of an array."""
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def as_index(context: Context, builder: Builder, value: Value, kind: Kind) -> Value:
    """Convert an integer of any type to an index."""
    return context.cast(builder, value, kind, types.intp)


@compiled_or(lambda array, index: array[index : index + LANES].copy())
def load(typing: Context, data: Kind, index: Kind) -> Intrinsic:
    """Read 16 numbers of an array, beginning at an index."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        at = as_index(context, builder, args[1], index)
        place = place_of(builder, args[0], at, _llvm(context, data.dtype))
        return builder.load(place, align=data.dtype.bitwidth // 8)

    return VectorType(data.dtype)(data, index), generate


@compiled_or(_plain_store)
def store(typing: Context, data: Kind, index: Kind, value: Kind) -> Intrinsic:
    """Write 16 numbers to an array, beginning at an index."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        at = as_index(context, builder, args[1], index)
        place = place_of(builder, args[0], at, _llvm(context, data.dtype))
        builder.store(args[2], place, align=data.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(data, index, value), generate


@njit(forceinline=True)
def read(vector: Literal[True] | None, data: Array, index: int) -> Vector:
    """One number of a pointer, or 16 of them unless `vector` is None."""
    return data[index] if vector is None else load(data, index)


@njit(forceinline=True)
def write(vector: Literal[True] | None, data: Array, index: int, value: Vector) -> None:
    """Write one number, or 16 of them unless `vector` is None."""
    if vector is None:
        data[index] = value
    else:
        store(data, index, value)


def _prefetching(to_write: int) -> Any:
    @compiled_or(lambda array, index: None)
    def function(typing: Context, data: Kind, index: Kind) -> Intrinsic:
        def generate(
            context: Context, builder: Builder, sig: Signature, args: list[Value]
        ) -> Value:
            at = as_index(context, builder, args[1], index)
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
            place = builder.bitcast(builder.gep(args[0], [at]), byte)
            how = [ir.Constant(number, n) for n in (to_write, 3, 1)]  # high locality, data cache
            builder.call(function, [place, *how])
            return context.get_dummy_value()

        return types.void(data, index), generate

    return function


# Prefetch the cache line of an element that will soon be written, or only read. A line that several
# threads read must not be prefetched for writing: they would take it away from one another.
prefetch, prefetch_to_read = _prefetching(1), _prefetching(0)


def splatted(builder: Builder, vector: Kind, scalar: Value) -> Value:
    """A vector of a type in which all numbers are the same."""
    first = builder.insert_element(
        ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0)
    )
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


@compiled_or(lambda scalar: np.full(LANES, scalar))
def splat(typing: Context, scalar: Kind) -> Intrinsic:
    """A vector of 16 equal numbers."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        return splatted(builder, _llvm(context, scalar), args[0])

    return VectorType(scalar)(scalar), generate


@compiled_or(lambda value, number: np.asarray(value).dtype.type(number))
def like(typing: Context, value: Kind, number: Kind) -> Intrinsic:
    """A number as one of the kind of another value; if that is a vector, 16 such numbers."""
    is_vector = isinstance(value, VectorType)
    target, given = (value.dtype if is_vector else value), types.unliteral(number)

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        scalar = context.cast(builder, args[1], given, target)
        return splatted(builder, _llvm(context, target), scalar) if is_vector else scalar

    return value(value, given), generate


def _call(builder: Builder, name: str, args: list[Value], result: Kind = None) -> Value:
    """Call an LLVM intrinsic on vectors."""
    vector = args[-1].type
    kind = (
        f"v{LANES}f32"
        if isinstance(vector.element, ir.FloatType)
        else f"v{LANES}i{vector.element.width}"
    )
    function_type = ir.FunctionType(result or vector, [arg.type for arg in args])
    function = cgutils.get_or_insert_function(builder.module, function_type, f"{name}.{kind}")
    return builder.call(function, args)


def _two_sided(integer: str, symbol: str, plain: Callable[..., Any]) -> Any:
    @compiled_or(plain)
    def function(typing: Context, a: Kind, b: Kind) -> Intrinsic:
        def generate(
            context: Context, builder: Builder, sig: Signature, args: list[Value]
        ) -> Value:
            if _is_float(a):
                return builder.select(builder.fcmp_ordered(symbol, *args), *args)
            return _call(builder, integer, list(args))

        return a(a, b), generate

    return function


minimum = _two_sided("llvm.smin", "<", np.minimum)
maximum = _two_sided("llvm.smax", ">", np.maximum)


@compiled_or(np.where)
def where(typing: Context, mask: Kind, a: Kind, b: Kind) -> Intrinsic:
    """The numbers of the first vector where a mask is true, of the second elsewhere."""
    return a(mask, a, b), lambda context, builder, sig, args: builder.select(*args)


@compiled_or(lambda mask: np.packbits(mask, bitorder="little").view(np.uint16)[0])
def mask_bits(typing: Context, mask: Kind) -> Intrinsic:
    """A mask as an integer of 16 bits."""
    return types.uint16(mask), lambda _c, builder, _s, args: builder.bitcast(
        args[0], ir.IntType(LANES)
    )


@compiled_or(lambda bits: (int(bits) & -int(bits)).bit_length() - 1)
def lowest_bit(typing: Context, bits: Kind) -> Intrinsic:
    """The number of the lowest bit that is 1 in an integer other than 0."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        number = builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))
        return as_index(context, builder, number, bits)

    return types.intp(bits), generate


def _conversion(target: Kind) -> Any:
    @compiled_or(lambda a: a.astype(str(target)))
    def function(typing: Context, a: Kind) -> Intrinsic:
        def generate(
            context: Context, builder: Builder, sig: Signature, args: list[Value]
        ) -> Value:
            to = _llvm(context, target)
            if target is types.float32:
                return builder.sitofp(args[0], to)
            if _is_float(a):
                return builder.fptosi(args[0], to)
            if a.dtype.bitwidth == target.bitwidth:
                return args[0]
            if a.dtype.bitwidth > target.bitwidth:
                return builder.trunc(args[0], to)
            return builder.zext(args[0], to) if not a.dtype.signed else builder.sext(args[0], to)

        return VectorType(target)(a), generate

    return function


as_uint8, as_int16 = _conversion(types.uint8), _conversion(types.int16)
as_int32, as_float32 = _conversion(types.int32), _conversion(types.float32)


@compiled_or(_plain_in_upper_halves)
def in_upper_halves(typing: Context, a: Kind) -> Intrinsic:
    """Convert int16 to int32, multiplied by 2¹⁶: the even lanes, then the odd lanes."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        pairs = ir.VectorType(ir.IntType(32), LANES // 2)
        odd = builder.bitcast(args[0], pairs)
        even = builder.shl(odd, ir.Constant(pairs, [16] * (LANES // 2)))
        join = ir.Constant(ir.VectorType(ir.IntType(32), LANES), list(range(LANES)))
        return builder.shuffle_vector(even, odd, join)

    return VectorType(types.int32)(a), generate


@compiled_or(_plain_from_upper_halves)
def from_upper_halves(typing: Context, a: Kind) -> Intrinsic:
    """The inverse of `in_upper_halves`; the lower halves are ignored."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
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

    return VectorType(types.int16)(a), generate


def _reinterpretation(target: Kind) -> Any:
    @compiled_or(lambda a: a.view(str(target)))
    def function(typing: Context, a: Kind) -> Intrinsic:
        def generate(
            context: Context, builder: Builder, sig: Signature, args: list[Value]
        ) -> Value:
            return builder.bitcast(args[0], _llvm(context, target))

        return VectorType(target)(a), generate

    return function


bits_of, float_of = _reinterpretation(types.int32), _reinterpretation(types.float32)


def _reduction(name: str, result: Kind, plain: Callable[..., Any]) -> Any:
    @compiled_or(plain)
    def function(typing: Context, a: Kind) -> Intrinsic:
        def generate(
            context: Context, builder: Builder, sig: Signature, args: list[Value]
        ) -> Value:
            value = args[0]
            if result.bitwidth > a.dtype.bitwidth:
                value = builder.sext(value, _llvm(context, result))
            return _call(builder, f"llvm.vector.reduce.{name}", [value], value.type.element)

        return result(a), generate

    return function


total = _reduction("add", types.int32, lambda a: a.sum(dtype=np.int32))
largest = _reduction("smax", types.int16, np.max)


@compiled_or(_plain_two_largest)
def two_largest(typing: Context, best: Kind, second: Kind) -> Intrinsic:
    """The largest two of 32 numbers of 16 bits: the larger ones and the smaller ones of pairs."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        first, next_to = args
        n = LANES
        while n > 1:  # the halves of the vectors, as long as they have any
            n //= 2
            (a, b), (c, d) = (_halves(builder, vector, n) for vector in (first, next_to))
            smaller = builder.select(builder.icmp_signed("<", a, b), a, b)
            first = builder.select(builder.icmp_signed(">", a, b), a, b)
            either = builder.select(builder.icmp_signed(">", c, d), c, d)
            next_to = builder.select(builder.icmp_signed(">", smaller, either), smaller, either)
        at = ir.Constant(ir.IntType(32), 0)
        found = [builder.extract_element(vector, at) for vector in (first, next_to)]
        return context.make_tuple(builder, sig.return_type, found)

    return types.UniTuple(types.int16, 2)(best, second), generate


def _halves(builder: Builder, vector: Value, n: int) -> list[Value]:
    """The first and the last n numbers of a vector of 2n."""
    index = ir.VectorType(ir.IntType(32), n)
    masks = (ir.Constant(index, list(range(i, i + n))) for i in (0, n))
    return [builder.shuffle_vector(vector, vector, mask) for mask in masks]


@compiled_or(_plain_add_pairs)
def add_pairs(typing: Context, a: Kind, data: Kind, index: Kind) -> Intrinsic:
    """Add the sums of adjacent pairs, 8 numbers of 32 bits, to an array, beginning at an index."""

    def generate(context: Context, builder: Builder, sig: Signature, args: list[Value]) -> Value:
        pairs = ir.VectorType(ir.IntType(32), LANES // 2)
        sixteen = ir.Constant(pairs, [16] * (LANES // 2))
        odd = builder.bitcast(args[0], pairs)
        even = builder.ashr(builder.shl(odd, sixteen), sixteen)
        sums = builder.add(even, builder.ashr(odd, sixteen))
        place = place_of(builder, args[1], as_index(context, builder, args[2], index), pairs)
        builder.store(builder.add(builder.load(place, align=4), sums), place, align=4)
        return context.get_dummy_value()

    return types.void(a, data, index), generate


def _conversion_to_array(cast: str) -> Any:
    @compiled_or(lambda a, array: a.astype(array.dtype))
    def function(typing: Context, a: Kind, data: Kind) -> Intrinsic:
        def generate(
            context: Context, builder: Builder, sig: Signature, args: list[Value]
        ) -> Value:
            if data.dtype == a.dtype:
                return args[0]
            return getattr(builder, cast)(args[0], _llvm(context, data.dtype))

        return VectorType(data.dtype)(a, data), generate

    return function


# Convert a vector to the type of an array of integers, which have no more bits, or no fewer.
narrowed, widened = _conversion_to_array("trunc"), _conversion_to_array("sext")
