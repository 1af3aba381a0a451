"""Rules of the operators that work element by element: maps, or a few of them composed."""

from collections.abc import Callable, Mapping
from typing import Any

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, Rule
from moot.offchain.frontend.lowering.views import View, expand

Number = float | int | bool
Argument = View | Number

_LOGICAL = {Function.ADD: Function.OR, Function.MUL: Function.AND}
"""What addition and multiplication mean on booleans."""

_TYPE_ORDER = (DType.BOOL, DType.INT32, DType.INT64, DType.FLOAT32)


def unary(function: Function) -> Rule:
    """Return the rule of a function of one element."""

    def rule(b: Builder, x: View) -> View:
        return b.map(function, b.cast(x, b.result.dtype))

    return rule


def rounding(function: Function) -> Rule:
    """Return the rule of a function that rounds to an integer; integers are rounded already."""

    def rule(b: Builder, x: View) -> View:
        return b.map(function, x) if x.dtype is DType.FLOAT32 else x

    return rule


def binary(function: Function) -> Rule:
    """Return the rule of a function of two elements, of which the second may be scaled first."""

    def rule(b: Builder, x: Argument, y: Argument, *, alpha: Number = 1) -> View:
        dtype = b.result.dtype
        left, right = b.cast(x, dtype), b.cast(y, dtype)
        if alpha != 1:
            right = b.map(Function.MUL, right, b.scalar(alpha, dtype))
        actual = _LOGICAL.get(function, function) if dtype is DType.BOOL else function
        return b.map(actual, left, right)

    return rule


def comparison(function: Function) -> Rule:
    """Return the rule of a comparison, in the wider of both types."""

    def rule(b: Builder, x: Argument, y: Argument) -> View:
        dtype = max((_type_of(x), _type_of(y)), key=_TYPE_ORDER.index)
        return b.map(function, b.cast(x, dtype), b.cast(y, dtype), dtype=DType.BOOL)

    return rule


def _type_of(value: Argument) -> DType:
    if isinstance(value, View):
        return value.dtype
    if isinstance(value, bool):
        return DType.BOOL
    return DType.INT32 if isinstance(value, int) else DType.FLOAT32


def logical(function: Function) -> Rule:
    """Return the rule of a logical function of the truth of its operands."""

    def rule(b: Builder, *values: View) -> View:
        return b.map(function, *(b.cast(value, DType.BOOL) for value in values))

    return rule


def reciprocal(b: Builder, x: View) -> View:
    """Lower reciprocal: one divided by x."""
    return b.map(Function.DIV, b.scalar(1, DType.FLOAT32), b.cast(x, DType.FLOAT32))


def power(b: Builder, x: Argument, y: Argument) -> View:
    """Lower pow: small exponents are products, roots and quotients; others are POW."""
    dtype = b.result.dtype
    base = b.cast(x, dtype)
    if not isinstance(y, View) and y in (0, 1, 2, 3, 4):
        result = base if y else expand(b.scalar(1, dtype), b.result.shape)
        for _ in range(1, int(y)):
            result = b.map(Function.MUL, result, base)
        return result
    if dtype is not DType.FLOAT32:
        return _integer_power(b, base, y)
    one = b.scalar(1, dtype)
    if not isinstance(y, View) and y in _EASY_POWERS:
        return _EASY_POWERS[y](b, base, one)
    if not isinstance(x, View) and x == 2:
        return b.map(Function.EXP2, b.cast(y, dtype))
    return b.map(Function.POW, base, b.cast(y, dtype))


def _integer_power(b: Builder, base: View, exponent: Argument) -> View:
    """Return a power of integers modulo 2 to their width, by squaring as the exponent's bits say.

    A negative exponent leaves what is not a fraction, as torch has it: of 1 and -1.
    """
    dtype = base.dtype
    one, zero = b.scalar(1, dtype), b.scalar(0, dtype)
    count = b.cast(exponent, dtype)
    longest = 8 * dtype.width - 1 if isinstance(exponent, View) else int(exponent).bit_length()
    result, square = one, base
    for bit in range(longest):
        is_set = b.map(
            Function.NE,
            b.map(Function.AND, count, b.scalar(1 << bit, dtype)),
            zero,
            dtype=DType.BOOL,
        )
        result = b.map(
            Function.MUL, result, b.map(Function.WHERE, is_set, square, one, part="factor")
        )
        square = b.map(Function.MUL, square, square, part="square")
    is_unit = b.map(Function.EQ, b.map(Function.MUL, base, base), one, dtype=DType.BOOL)
    is_fraction = b.map(
        Function.AND,
        b.map(Function.LT, count, zero, dtype=DType.BOOL),
        b.map(Function.NOT, is_unit),
    )
    return b.map(Function.WHERE, is_fraction, zero, result, part="power")


_EASY_POWERS: Mapping[float, Callable[[Builder, View, View], View]] = {
    0.5: lambda b, x, _: b.map(Function.SQRT, x),
    -0.5: lambda b, x, _: b.map(Function.RSQRT, x),
    -1: lambda b, x, one: b.map(Function.DIV, one, x),
    -2: lambda b, x, one: b.map(Function.DIV, one, b.map(Function.MUL, x, x)),
}


def sign(b: Builder, x: View) -> View:
    """Lower sign: (x > 0) - (x < 0)."""
    zero = b.scalar(0, x.dtype)
    above = b.map(Function.GT, x, zero, dtype=DType.BOOL)
    below = b.map(Function.LT, x, zero, dtype=DType.BOOL)
    return b.map(Function.SUB, b.cast(above, x.dtype), b.cast(below, x.dtype))


def relu(b: Builder, x: View) -> View:
    """Lower relu: the larger of x and +0."""
    return b.map(Function.MAX, x, b.scalar(0, x.dtype))


def clamp(b: Builder, x: View, low: Argument | None = None, high: Argument | None = None) -> View:
    """Lower clamp: first the lower bound, then the upper one."""
    result = b.cast(x, b.result.dtype)
    if low is not None:
        result = b.map(Function.MAX, result, b.cast(low, result.dtype))
    if high is not None:
        result = b.map(Function.MIN, result, b.cast(high, result.dtype))
    return result


def where(b: Builder, condition: View, x: Argument, y: Argument) -> View:
    """Lower where."""
    dtype = b.result.dtype
    return b.map(Function.WHERE, b.cast(condition, DType.BOOL), b.cast(x, dtype), b.cast(y, dtype))


def is_nan(b: Builder, x: View) -> View:
    """Lower isnan: x differs from itself."""
    return b.map(Function.NE, x, x, dtype=DType.BOOL)


def is_infinite(b: Builder, x: View) -> View:
    """Lower isinf: the magnitude is infinite."""
    infinity = b.scalar(float("inf"), DType.FLOAT32)
    return b.map(Function.EQ, b.map(Function.ABS, x), infinity, dtype=DType.BOOL)


def convert(b: Builder, x: View, *_: Any, **__: Any) -> View:
    """Lower the copies: a conversion where the type changes, nothing where it does not."""
    return b.cast(x, b.result.dtype)


_UNARY = {
    "abs": Function.ABS,
    "bitwise_not": Function.NOT,
    "cos": Function.COS,
    "cosh": Function.COSH,
    "erf": Function.ERF,
    "erfc": Function.ERFC,
    "exp": Function.EXP,
    "exp2": Function.EXP2,
    "expm1": Function.EXPM1,
    "log": Function.LOG,
    "log1p": Function.LOG1P,
    "log2": Function.LOG2,
    "neg": Function.NEG,
    "rsqrt": Function.RSQRT,
    "sigmoid": Function.SIGMOID,
    "sin": Function.SIN,
    "sinh": Function.SINH,
    "sqrt": Function.SQRT,
    "tan": Function.TAN,
    "tanh": Function.TANH,
}
_ROUNDING = {
    "ceil": Function.CEIL,
    "floor": Function.FLOOR,
    "round": Function.ROUND,
    "trunc": Function.TRUNC,
}
_BINARY = {
    "add": Function.ADD,
    "bitwise_and": Function.AND,
    "bitwise_or": Function.OR,
    "bitwise_xor": Function.XOR,
    "mul": Function.MUL,
    "sub": Function.SUB,
}
_COMPARISONS = {
    "eq": Function.EQ,
    "ge": Function.GE,
    "gt": Function.GT,
    "le": Function.LE,
    "lt": Function.LT,
    "ne": Function.NE,
}
_OVERLOADS = ("Tensor", "Scalar")

ELEMENTWISE: Mapping[str, Rule] = {
    **{f"aten.{name}.default": unary(function) for name, function in _UNARY.items()},
    **{f"aten.{name}.default": rounding(function) for name, function in _ROUNDING.items()},
    **{f"aten.{name}.{o}": binary(f) for name, f in _BINARY.items() for o in _OVERLOADS},
    **{f"aten.{name}.{o}": comparison(f) for name, f in _COMPARISONS.items() for o in _OVERLOADS},
    "aten.maximum.default": binary(Function.MAX),
    "aten.minimum.default": binary(Function.MIN),
    "aten.logical_and.default": logical(Function.AND),
    "aten.logical_or.default": logical(Function.OR),
    "aten.logical_xor.default": logical(Function.XOR),
    "aten.logical_not.default": logical(Function.NOT),
    **{f"aten.pow.{o}": power for o in ("Tensor_Scalar", "Tensor_Tensor", "Scalar")},
    "aten.reciprocal.default": reciprocal,
    **{f"aten.{name}.default": sign for name in ("sign", "sgn")},
    "aten.relu.default": relu,
    **{f"aten.clamp.{o}": clamp for o in ("default", "Tensor")},
    "aten.where.self": where,
    "aten.isnan.default": is_nan,
    "aten.isinf.default": is_infinite,
    **{
        f"aten.{name}.default": convert
        for name in ("_to_copy", "alias", "clone", "detach", "lift_fresh_copy")
    },
    "prims.convert_element_type.default": convert,
}
"""ATen overload -> rule."""
