"""Elements of operands, read by one thread: coordinates in integers that are wide enough.

What a coordinate may be is known when the code is written, but for the values of indices. It is
computed in 32 bits where they hold it, since devices have no wider registers, and in 128 where 64
may not, so that it is what it is defined to be.
"""

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cuda.kernel import Context, word
from moot.offchain.errors import ProgramError
from moot.offchain.native import emit
from moot.offchain.native.vectors import INDEX, WORD
from moot.offchain.programs.graph import Operand, Origin, Row

_WIDE = ir.IntType(128)
_LIMIT = 1 << 63
_NARROW_LIMIT = 1 << 31


class Variable(NamedTuple):
    """A variable of an operator, or the value of an index.

    Attributes:
        value: a 64-bit integer.
        least: the least that it may be.
        most: the most that it may be.
    """

    value: ir.Value
    least: int
    most: int


def unravel(context: Context, index: ir.Value, shape: Sequence[int]) -> list[Variable]:
    """Return the row-major coordinates of a linear index, which is below the product of sizes.

    Divisions are of 32 bits where these hold it, since devices take long for others.
    """
    builder, found = context.builder, []
    if sum(size > 1 for size in shape) == 1:
        return [Variable(index if size > 1 else word(0), 0, size - 1) for size in shape]
    is_narrow = prod(shape) <= 1 << INDEX.width
    kind = INDEX if is_narrow else WORD
    linear = builder.trunc(index, INDEX) if is_narrow else index
    for place, size in enumerate(shape):
        if size <= 1:
            found.append(Variable(word(0), 0, 0))
            continue
        inner = prod(shape[place + 1 :])
        value = builder.udiv(linear, kind(inner)) if inner > 1 else linear
        if any(outer > 1 for outer in shape[:place]):
            value = builder.urem(value, kind(size))
        value = builder.zext(value, WORD) if is_narrow else value
        found.append(Variable(value, 0, size - 1))
    return found


def ravel(context: Context, coordinates: Iterable[ir.Value], shape: Sequence[int]) -> ir.Value:
    """Return the linear index of row-major coordinates."""
    builder, linear = context.builder, word(0)
    for coordinate, size in zip(coordinates, shape, strict=True):
        linear = builder.add(builder.mul(linear, word(size)), coordinate)
    return linear


def any_integer(value: ir.Value) -> Variable:
    """Return the value of an index, which may be any."""
    return Variable(value, -_LIMIT, _LIMIT - 1)


def read(
    context: Context, operand: Operand, variables: Sequence[Variable], address: ir.Value
) -> ir.Value:
    """Return an operand's element in one lane: a constant, an element or the fill."""
    if operand.origin is Origin.IMMEDIATE:
        return emit.constant(operand.dtype, operand.value, 1)
    value, inside = find(context, operand, variables, address)
    if inside is None:
        return value
    fill = emit.constant(operand.dtype, operand.value, 1)
    return context.builder.select(inside, value, fill)


def find(
    context: Context, operand: Operand, variables: Sequence[Variable], address: ir.Value
) -> tuple[ir.Value, ir.Value | None]:
    """Return an element, any where the access is out of range, and whether it is in range.

    The latter is None where that is known.
    """
    builder = context.builder
    linear, inside = _locate(context, operand.rows, variables)
    if inside is not None:
        linear = builder.select(inside, linear, word(0))
    place = builder.add(address, builder.mul(linear, word(operand.dtype.width)))
    stored = context.load(_get_kind(operand.dtype), place, is_given=True)
    return emit.from_stored(builder, operand.dtype, stored), inside


def write(context: Context, dtype: DType, value: ir.Value, address: ir.Value, at: ir.Value) -> None:
    """Store an element."""
    builder = context.builder
    place = builder.add(address, builder.mul(at, word(dtype.width)))
    context.store(emit.to_stored(builder, dtype, value), place)


def read_at(
    context: Context, dtype: DType, address: ir.Value, at: ir.Value, *, is_given: bool = False
) -> ir.Value:
    """Return the element of a tensor, which is given or the kernel's own."""
    builder = context.builder
    place = builder.add(address, builder.mul(at, word(dtype.width)))
    stored = context.load(_get_kind(dtype), place, is_given=is_given)
    return emit.from_stored(builder, dtype, stored)


def as_integer(context: Context, value: ir.Value) -> ir.Value:
    """Return an index, an integer in one lane, as a 64-bit integer."""
    scalar = context.builder.extract_element(value, ir.IntType(32)(0))
    return scalar if scalar.type == WORD else context.builder.sext(scalar, WORD)


def _get_kind(dtype: DType) -> ir.VectorType:
    return ir.VectorType(emit.STORED[dtype], 1)


def _locate(
    context: Context, rows: Sequence[Row], variables: Sequence[Variable]
) -> tuple[ir.Value, ir.Value | None]:
    """Return the element that rows address, and whether it is in range (None: always)."""
    builder = context.builder
    kind = INDEX if prod(row.size for row in rows) < _NARROW_LIMIT else WORD
    linear, inside = kind(0), None
    for row in rows:
        coordinate, fits = _compute(context, row, variables)
        if fits is not None:
            inside = fits if inside is None else builder.and_(inside, fits)
        linear = builder.add(builder.mul(linear, kind(row.size)), _fit(builder, coordinate, kind))
    return (linear if kind is WORD else builder.zext(linear, WORD)), inside


def _compute(
    context: Context, row: Row, variables: Sequence[Variable]
) -> tuple[ir.Value, ir.Value | None]:
    """Return a coordinate, in 32 bits or 64, and whether it is in range (None: always)."""
    builder, stop = context.builder, row.size * row.divisor
    if stop >= _LIMIT:
        raise ProgramError(f"a coordinate below {stop} does not fit into 64 bits; use the cpu")
    ends = [sorted((c * variables[v].least, c * variables[v].most)) for v, c in row.terms]
    least = row.offset + sum(low for low, _ in ends)
    most = row.offset + sum(high for _, high in ends)
    widest = max([abs(row.offset), *(max(map(abs, end)) for end in ends)]) * (len(ends) + 1)
    kind = next((k for k, limit in _KINDS if max(widest, stop) < limit), _WIDE)
    value: ir.Value = ir.Constant(kind, row.offset)
    for variable, coefficient in row.terms:
        factor = _fit(builder, variables[variable].value, kind)
        value = builder.add(value, builder.mul(factor, ir.Constant(kind, coefficient)))
    fits = None
    if least < 0 or most >= stop:
        fits = builder.icmp_unsigned("<", value, ir.Constant(kind, stop))
    kind = WORD if kind is _WIDE else kind
    value = _fit(builder, value, kind)
    if row.divisor > 1:
        rest = builder.urem(value, kind(row.divisor))
        is_whole = builder.icmp_unsigned("==", rest, kind(0))
        fits = is_whole if fits is None else builder.and_(fits, is_whole)
        value = builder.udiv(value, kind(row.divisor))
    return value, fits


_KINDS = (INDEX, _NARROW_LIMIT), (WORD, _LIMIT)
"""Integers, and what is less than they hold, with its sign."""


def _fit(builder: ir.IRBuilder, value: ir.Value, kind: ir.Type) -> ir.Value:
    """Return an integer in another type, which holds it if anybody reads it."""
    if value.type.width == kind.width:
        return value
    return (builder.trunc if value.type.width > kind.width else builder.sext)(value, kind)
