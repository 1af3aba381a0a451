"""The scalar function of any number, on bit patterns: types, then one table that is data.

Functions of a position are not in the table: UNIFORM is `philox.uniform_bits`, and ARGMAX and
ARGMIN are folds.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from moot.offchain.arithmetic import bfloat16, elementary, float32, integers
from moot.offchain.arithmetic.functions import DType, Function

_KINDS = {
    "F": (DType.FLOAT32,),
    "I": (DType.INT64, DType.INT32),
    "B": (DType.BOOL,),
    "X": tuple(DType),
    "Y": tuple(DType),
}

_COMPARISON = ("XX>B",)
_ARITHMETIC = ("FF>F", "II>I")
_BITWISE = ("BB>B", "II>I")

SIGNATURES: Mapping[Function, tuple[str, ...]] = {
    Function.COPY: ("X>X",),
    **dict.fromkeys((Function.ADD, Function.SUB, Function.MUL), _ARITHMETIC),
    Function.DIV: ("FF>F",),
    Function.FMA: ("FFF>F",),
    Function.SQRT: ("F>F",),
    **dict.fromkeys((Function.MAX, Function.MIN), _ARITHMETIC),
    **dict.fromkeys((Function.NEG, Function.ABS), ("F>F", "I>I")),
    **dict.fromkeys((Function.EQ, Function.NE, Function.LT), _COMPARISON),
    **dict.fromkeys((Function.LE, Function.GT, Function.GE), _COMPARISON),
    **dict.fromkeys((Function.AND, Function.OR, Function.XOR), _BITWISE),
    Function.NOT: ("B>B", "I>I"),
    Function.WHERE: ("BXX>X",),
    Function.CONVERT: ("X>Y",),
    **dict.fromkeys((Function.FLOOR, Function.CEIL, Function.TRUNC, Function.ROUND), ("F>F",)),
    **dict.fromkeys((Function.FLOOR_DIVIDE, Function.REMAINDER), ("II>I",)),
    **dict.fromkeys(elementary.UNARY, ("F>F",)),
    Function.RSQRT: ("F>F",),
    Function.POW: ("FF>F",),
}
"""Operand types > result type; each letter is a kind of type and stands for one type throughout."""


class UndefinedTypesError(ValueError):
    """The function is not defined for these types."""

    def __init__(
        self, function: Function, operand_types: Sequence[DType], result_type: DType
    ) -> None:
        self.function = function
        self.operand_types = tuple(operand_types)
        self.result_type = result_type
        operands = ", ".join(dtype.name for dtype in operand_types)
        defined = " or ".join(_get_signatures(function)) or "another function"
        super().__init__(
            f"{function.name} is not defined as ({operands}) -> {result_type.name}; use {defined}"
        )


class OperandError(ValueError):
    """An operand is not a bit pattern of its type; pass its unsigned bits."""

    def __init__(self, operand: int, dtype: DType) -> None:
        self.operand = operand
        self.dtype = dtype
        super().__init__(f"{operand:#x} is not a pattern of {dtype.width} bytes of {dtype.name}")


def _get_signatures(function: Function) -> tuple[str, ...]:
    return SIGNATURES.get(function, ())


def _matches(signature: str, types: Sequence[DType]) -> bool:
    letters = signature.replace(">", "")
    bound: dict[str, DType] = {}
    return len(letters) == len(types) and all(
        dtype in _KINDS[letter] and bound.setdefault(letter, dtype) == dtype
        for letter, dtype in zip(letters, types, strict=True)
    )


def check_types(function: Function, operand_types: Sequence[DType], result_type: DType) -> None:
    """Check that a function is defined for these types.

    Raises:
        UndefinedTypesError: if it is not.
    """
    if not _is_defined(function, (*operand_types, result_type)):
        raise UndefinedTypesError(function, operand_types, result_type)


@cache
def _is_defined(function: Function, types: tuple[DType, ...]) -> bool:
    return any(_matches(signature, types) for signature in _get_signatures(function))


def _convert(source: DType, target: DType, x: int) -> int:
    """Convert a canonical pattern: to BOOL as x != 0, else by value; BFLOAT16 through FLOAT32."""
    wide = bfloat16.widen(x) if source is DType.BFLOAT16 else x
    result = _convert_wide(_WIDENED.get(source, source), _WIDENED.get(target, target), wide)
    return bfloat16.narrow(result) if target is DType.BFLOAT16 else result


_WIDENED = {DType.BFLOAT16: DType.FLOAT32}


def _convert_wide(source: DType, target: DType, x: int) -> int:
    if target is DType.BOOL:
        return int(x != 0 and not (source is DType.FLOAT32 and float32.is_zero(x)))
    if source is DType.FLOAT32:
        if target is DType.FLOAT32:
            return x
        width = 8 * target.width
        return integers.wrap(width, float32.to_integer(x, width))
    value = x if source is DType.BOOL else integers.signed(8 * source.width, x)
    if target is DType.FLOAT32:
        return float32.from_integer(value)
    return integers.wrap(8 * target.width, value)


def _identity(x: int) -> int:
    return x


def _where(condition: int, x: int, y: int) -> int:
    return x if condition else y


_ANY_TYPE: Mapping[Function, Callable[..., int]] = {
    Function.COPY: _identity,
    Function.WHERE: _where,
}

_BITS: Mapping[Function, Callable[..., int]] = {
    Function.EQ: lambda x, y: x == y,
    Function.NE: lambda x, y: x != y,
    Function.AND: lambda x, y: x & y,
    Function.OR: lambda x, y: x | y,
    Function.XOR: lambda x, y: x ^ y,
}

_BOOL: Mapping[Function, Callable[..., int]] = {
    Function.LT: lambda x, y: x < y,
    Function.LE: lambda x, y: x <= y,
    Function.GT: lambda x, y: x > y,
    Function.GE: lambda x, y: x >= y,
    Function.NOT: lambda x: 1 - x,
}

_INTEGER: Mapping[Function, Callable[..., int]] = {
    Function.ADD: integers.add,
    Function.SUB: integers.subtract,
    Function.MUL: integers.multiply,
    Function.MAX: integers.maximum,
    Function.MIN: integers.minimum,
    Function.NEG: integers.negate,
    Function.ABS: integers.absolute,
    Function.LT: integers.less,
    Function.LE: integers.less_equal,
    Function.GT: lambda width, x, y: integers.less(width, y, x),
    Function.GE: lambda width, x, y: integers.less_equal(width, y, x),
    Function.NOT: integers.complement,
    Function.FLOOR_DIVIDE: integers.floor_divide,
    Function.REMAINDER: integers.remainder,
}

_FLOAT32: Mapping[Function, Callable[..., int]] = {
    Function.ADD: float32.add,
    Function.SUB: float32.subtract,
    Function.MUL: float32.multiply,
    Function.DIV: float32.divide,
    Function.FMA: float32.fma,
    Function.SQRT: float32.square_root,
    Function.MAX: float32.maximum,
    Function.MIN: float32.minimum,
    Function.NEG: float32.negate,
    Function.ABS: float32.absolute,
    Function.EQ: float32.equal,
    Function.NE: lambda x, y: not float32.equal(x, y),
    Function.LT: float32.less,
    Function.LE: float32.less_equal,
    Function.GT: lambda x, y: float32.less(y, x),
    Function.GE: lambda x, y: float32.less_equal(y, x),
    Function.FLOOR: float32.floor,
    Function.CEIL: float32.ceil,
    Function.TRUNC: float32.truncate,
    Function.ROUND: float32.round_half_even,
    **elementary.UNARY,
    Function.RSQRT: elementary.reciprocal_square_root,
    Function.POW: elementary.power,
}


def _widened(comparison: Callable[..., int]) -> Callable[..., int]:
    return lambda x, y: comparison(bfloat16.widen(x), bfloat16.widen(y))


_COMPARED = (Function.EQ, Function.NE, Function.LT, Function.LE, Function.GT, Function.GE)


def _of_width(width: int) -> dict[Function, Callable[..., int]]:
    return {function: partial(operation, width) for function, operation in _INTEGER.items()}


_COMPARED_BYTES = {f: {**_BITS, **_of_width(8)}[f] for f in _COMPARED}


_TABLE: Mapping[DType, Mapping[Function, Callable[..., int]]] = {
    DType.FLOAT32: {**_ANY_TYPE, **_FLOAT32},
    DType.INT64: {**_ANY_TYPE, **_BITS, **_of_width(64)},
    DType.INT32: {**_ANY_TYPE, **_BITS, **_of_width(32)},
    DType.BOOL: {**_ANY_TYPE, **_BITS, **_BOOL},
    DType.BFLOAT16: {**_ANY_TYPE, **{f: _widened(_FLOAT32[f]) for f in _COMPARED}},
    DType.INT8: {**_ANY_TYPE, **_COMPARED_BYTES},
}
"""What each function does on canonical patterns of the type of its last operand."""


_PATTERNS = {dtype: 1 << 8 * dtype.width for dtype in DType}
"""The number of bit patterns of each type."""


def _canonical(dtype: DType, x: int) -> int:
    """Return the one pattern of an operand's value: NaN is `NAN`, any non-zero byte is true."""
    if not 0 <= x < _PATTERNS[dtype]:
        raise OperandError(x, dtype)
    if dtype is DType.FLOAT32:
        return float32.canonical(x)
    if dtype is DType.BFLOAT16:
        return bfloat16.narrow(bfloat16.widen(x))
    return int(x != 0) if dtype is DType.BOOL else x


def evaluate(
    function: Function,
    operand_types: Sequence[DType],
    result_type: DType,
    operands: Sequence[int],
) -> int:
    """Return a scalar function's result as its bit pattern.

    Operands are the bits of their types as integers from 0 on; results are canonical.

    Raises:
        UndefinedTypesError: if the function is not defined for the types.
        OperandError: if an operand has more bits than its type.
    """
    check_types(function, operand_types, result_type)
    canonical = [_canonical(t, x) for t, x in zip(operand_types, operands, strict=True)]
    if function is Function.CONVERT:
        return _convert(operand_types[0], result_type, canonical[0])
    return int(_TABLE[operand_types[-1]][function](*canonical))
