"""The scalar functions of the arithmetic as LLVM IR on vectors, as `arithmetic.evaluate` has them.

A vector has any number of lanes. FLOAT32 and BFLOAT16 lanes are floats, those of INT64, INT32 and
INT8 are integers, BOOL lanes are single bits. A NaN has any bits until it is stored (`to_stored`).
Nothing here depends on the width of the processor's vectors.
"""

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.native.transcendental import functions as transcendental
from moot.offchain.native.vectors import BYTE, FLOAT, INDEX, WORD, call

BIT = ir.IntType(1)

ELEMENTS: Mapping[DType, ir.Type] = {
    DType.FLOAT32: FLOAT,
    DType.INT64: WORD,
    DType.INT32: INDEX,
    DType.BOOL: BIT,
    DType.BFLOAT16: FLOAT,
    DType.INT8: BYTE,
}
"""The type of a lane."""

_HALF = ir.IntType(16)
_LOWER_BITS = 16

STORED: Mapping[DType, ir.Type] = {**ELEMENTS, DType.BOOL: BYTE, DType.BFLOAT16: _HALF}
"""The type of an element in memory."""

FLOATS = frozenset({DType.FLOAT32, DType.BFLOAT16})
"""The types whose lanes are floats."""

_Emit = Callable[..., ir.Value]
"""(builder, *operands) -> the result."""


def emit(
    builder: ir.IRBuilder,
    function: Function,
    types: Sequence[DType],
    result: DType,
    operands: Sequence[ir.Value],
) -> ir.Value:
    """Emit a scalar function on all lanes.

    Args:
        builder: where to.
        function: one that is expressible, and defined for the types.
        types: the types of the operands.
        result: the type of the result.
        operands: vectors of equally many lanes.
    """
    if function is Function.CONVERT:
        return _convert(builder, types[0], result, operands[0])
    is_float = types[-1] in FLOATS
    table = _FLOAT if is_float else _BOOL if types[-1] is DType.BOOL else _INTEGER
    return table[function](builder, *operands)


def constant(dtype: DType, bits: int, lanes: int) -> ir.Constant:
    """The vector that holds one element, given by its bits, in every lane."""
    if dtype in FLOATS:
        wide = bits << _LOWER_BITS if dtype is DType.BFLOAT16 else bits
        element = ir.Constant(INDEX, wide).bitcast(FLOAT)
        return ir.Constant(ir.VectorType(FLOAT, lanes), [element] * lanes)
    value = int(bits != 0) if dtype is DType.BOOL else bits
    return ir.Constant(ir.VectorType(ELEMENTS[dtype], lanes), [value] * lanes)


def canonical_nan(lanes: int) -> ir.Constant:
    """The bits of the canonical NaN in every lane."""
    return constant(DType.INT32, CANONICAL_NAN, lanes)


def from_stored(builder: ir.IRBuilder, dtype: DType, value: ir.Value) -> ir.Value:
    """The lanes of elements that were loaded."""
    if dtype is DType.BOOL:
        return builder.icmp_unsigned("!=", value, ir.Constant(value.type, None))
    if dtype is DType.BFLOAT16:
        kind = ir.VectorType(INDEX, value.type.count)
        wide = builder.shl(builder.zext(value, kind), _splat(kind, _LOWER_BITS))
        return builder.bitcast(wide, ir.VectorType(FLOAT, kind.count))
    return value


def to_stored(builder: ir.IRBuilder, dtype: DType, value: ir.Value) -> ir.Value:
    """The elements to store for lanes."""
    if dtype is DType.BOOL:
        return builder.zext(value, ir.VectorType(BYTE, value.type.count))
    if dtype is DType.BFLOAT16:
        bits = _canonicalize(builder, value)
        upper = builder.lshr(bits, _splat(bits.type, _LOWER_BITS))
        return builder.trunc(upper, ir.VectorType(_HALF, bits.type.count))
    return _canonicalize(builder, value) if dtype is DType.FLOAT32 else value


def _canonicalize(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """The bits of floats, those of every NaN replaced by the canonical ones.

    Between floats LLVM drops such a choice, because to it all NaNs are alike.
    """
    nan = canonical_nan(value.type.count)
    is_nan = builder.fcmp_unordered("uno", value, value)
    return builder.select(is_nan, nan, builder.bitcast(value, nan.type))


def _mangle(kind: ir.VectorType) -> str:
    return f"v{kind.count}{kind.element.intrinsic_name}"


def _splat(kind: ir.VectorType, value: int) -> ir.Constant:
    return ir.Constant(kind, [value] * kind.count)


def _intrinsic(name: str) -> _Emit:
    return lambda builder, *operands: call(builder, name, operands)


def _method(name: str) -> _Emit:
    return lambda builder, *operands: getattr(builder, name)(*operands)


def _compare(method: str, predicate: str) -> _Emit:
    return lambda builder, x, y: getattr(builder, method)(predicate, x, y)


def _transcendental(function: Function) -> _Emit:
    return lambda builder, x: transcendental.emit(builder, function, x)


def _with_flag(name: str) -> _Emit:
    """An intrinsic that takes a bit besides: whether an extreme operand is an error."""

    def emit_call(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
        signature = ir.FunctionType(x.type, [x.type, BIT])
        function = builder.module.declare_intrinsic(f"{name}.{_mangle(x.type)}", fnty=signature)
        return builder.call(function, [x, BIT(0)])

    return emit_call


def _convert(builder: ir.IRBuilder, source: DType, target: DType, x: ir.Value) -> ir.Value:
    types = (_WIDENED.get(source, source), _WIDENED.get(target, target))
    result = _convert_wide(builder, *types, x)
    return _round(builder, result) if target is DType.BFLOAT16 else result


_WIDENED = {DType.BFLOAT16: DType.FLOAT32}


def _convert_wide(builder: ir.IRBuilder, source: DType, target: DType, x: ir.Value) -> ir.Value:
    kind = ir.VectorType(ELEMENTS[target], x.type.count)
    if source is target:
        return x
    if target is DType.BOOL:
        zero = ir.Constant(x.type, None)
        is_float = source is DType.FLOAT32
        compare = builder.fcmp_unordered if is_float else builder.icmp_unsigned
        return compare("!=", x, zero)
    if source is DType.FLOAT32:
        name = f"llvm.fptosi.sat.{_mangle(kind)}.{_mangle(x.type)}"
        signature = ir.FunctionType(kind, [x.type])
        return builder.call(builder.module.declare_intrinsic(name, fnty=signature), [x])
    if source is DType.BOOL:
        return builder.uitofp(x, kind) if target is DType.FLOAT32 else builder.zext(x, kind)
    if target is DType.FLOAT32:
        return builder.sitofp(x, kind)
    return builder.trunc(x, kind) if target.width < source.width else builder.sext(x, kind)


def _round(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The nearest numbers whose lower half is 0, ties to even."""
    bits = _canonicalize(builder, x)
    upper = _splat(bits.type, (1 << _LOWER_BITS) - 1 << _LOWER_BITS)
    odd = builder.and_(builder.lshr(bits, _splat(bits.type, _LOWER_BITS)), _splat(bits.type, 1))
    below = builder.add(bits, _splat(bits.type, (1 << _LOWER_BITS - 1) - 1))
    return builder.bitcast(builder.and_(builder.add(below, odd), upper), x.type)


def _divide(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ...]:
    """The quotient toward zero where it is defined, and the defined value where it is not.

    Returns:
        The quotient and the remainder (of 1 for divisors 0 and -1), whether both are to be
        corrected toward minus infinity, whether the divisor is 0, and whether it is -1.
    """
    zero, one = _splat(x.type, 0), _splat(x.type, 1)
    is_zero = builder.icmp_signed("==", y, zero)
    is_minus_one = builder.icmp_signed("==", y, _splat(x.type, -1))
    divisor = builder.select(builder.or_(is_zero, is_minus_one), one, y)
    quotient, rest = builder.sdiv(x, divisor), builder.srem(x, divisor)
    differs = builder.icmp_signed("<", builder.xor(rest, y), zero)
    is_inexact = builder.icmp_signed("!=", rest, zero)
    return quotient, rest, builder.and_(differs, is_inexact), is_zero, is_minus_one


def _floor_divide(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    quotient, _, is_low, is_zero, is_minus_one = _divide(builder, x, y)
    lowered = builder.sub(quotient, builder.zext(is_low, x.type))
    signed = builder.select(is_minus_one, builder.neg(x), lowered)
    return builder.select(is_zero, _splat(x.type, 0), signed)


def _remainder(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    _, rest, is_low, _, _ = _divide(builder, x, y)
    return builder.select(is_low, builder.add(rest, y), rest)


_COMPARISONS = {
    Function.EQ: "==",
    Function.NE: "!=",
    Function.LT: "<",
    Function.LE: "<=",
    Function.GT: ">",
    Function.GE: ">=",
}

_ANY: dict[Function, _Emit] = {
    Function.COPY: lambda _, x: x,
    Function.WHERE: _method("select"),
    Function.AND: _method("and_"),
    Function.OR: _method("or_"),
    Function.XOR: _method("xor"),
    Function.NOT: _method("not_"),
}

_INTEGER: dict[Function, _Emit] = {
    **_ANY,
    Function.ADD: _method("add"),
    Function.SUB: _method("sub"),
    Function.MUL: _method("mul"),
    Function.MAX: _intrinsic("llvm.smax"),
    Function.MIN: _intrinsic("llvm.smin"),
    Function.NEG: _method("neg"),
    Function.ABS: _with_flag("llvm.abs"),
    Function.FLOOR_DIVIDE: _floor_divide,
    Function.REMAINDER: _remainder,
    **{f: _compare("icmp_signed", predicate) for f, predicate in _COMPARISONS.items()},
}

_BOOL: dict[Function, _Emit] = {
    **_ANY,
    **{f: _compare("icmp_unsigned", predicate) for f, predicate in _COMPARISONS.items()},
}

_FLOAT: dict[Function, _Emit] = {
    **_ANY,
    Function.ADD: _method("fadd"),
    Function.SUB: _method("fsub"),
    Function.MUL: _method("fmul"),
    Function.DIV: _method("fdiv"),
    Function.FMA: _intrinsic("llvm.fma"),
    Function.SQRT: _intrinsic("llvm.sqrt"),
    Function.MAX: _intrinsic("llvm.maximum"),
    Function.MIN: _intrinsic("llvm.minimum"),
    Function.NEG: _method("fneg"),
    Function.ABS: _intrinsic("llvm.fabs"),
    Function.FLOOR: _intrinsic("llvm.floor"),
    Function.CEIL: _intrinsic("llvm.ceil"),
    Function.TRUNC: _intrinsic("llvm.trunc"),
    Function.ROUND: _intrinsic("llvm.roundeven"),
    **{f: _compare("fcmp_ordered", predicate) for f, predicate in _COMPARISONS.items()},
    Function.NE: _compare("fcmp_unordered", "!="),
    **{function: _transcendental(function) for function in transcendental.FUNCTIONS},
}

EXPRESSIBLE = frozenset({Function.CONVERT, *_INTEGER, *_BOOL, *_FLOAT})
"""The functions that `emit` knows."""
