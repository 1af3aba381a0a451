"""The scalar functions on arrays, equal to `arithmetic.evaluate` but for the bits of a NaN.

Each writes into its first argument, an array of the result's type, and takes operands that
broadcast to its shape. NumPy's add, subtract, multiply, divide, square root and rounding are those
of IEEE 754 and its integers wrap around, so they are used as they are.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic import bfloat16
from moot.offchain.arithmetic.evaluate import check_types
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.backends.cpu.kernels import elementary
from moot.offchain.commitments.tensors import Array

Apply = Callable[..., None]
"""(out, *operands): computes all elements of `out`."""


def get_function(function: Function, operand_types: Sequence[DType], result_type: DType) -> Apply:
    """Return the array form of a scalar function.

    Raises:
        UndefinedTypesError: if the function is not defined for the types.
    """
    check_types(function, operand_types, result_type)
    if operand_types[-1] is DType.BFLOAT16 and result_type is not DType.BFLOAT16:
        wide = get_function(function, [DType.FLOAT32] * len(operand_types), result_type)
        return lambda out, *operands: wide(out, *map(widen, operands))
    if function.is_transcendental:
        return partial(_transcendental, function)
    if function is Function.CONVERT:
        return _get_conversion(operand_types[0], result_type)
    if operand_types[-1] is DType.FLOAT32 and function in _FLOAT32:
        return _FLOAT32[function]
    return _EXACT[function]


def _ufunc(ufunc: np.ufunc) -> Apply:
    def apply(out: Array, *operands: Array) -> None:
        ufunc(*operands, out=out)

    return apply


def _copy(out: Array, x: Array) -> None:
    np.copyto(out, x)


def _where(out: Array, condition: Array, x: Array, y: Array) -> None:
    np.copyto(out, y)
    np.copyto(out, x, where=condition)


def _transcendental(function: Function, out: Array, *operands: Array) -> None:
    first, *others = operands
    x = _spread(first, out.shape)
    exponents = [_spread(y, out.shape if any(y.strides) else (1,) * out.ndim) for y in others]
    if out.flags.c_contiguous:
        elementary.write(function, out.view(np.float32), x, *exponents)
    else:
        out[...] = elementary.apply(function, x, *exponents)


def _spread(operand: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return a contiguous array of a shape, of what broadcasts to it or is the same everywhere."""
    part = operand[tuple(slice(0, size) for size in shape)] if operand.ndim else operand
    return np.asarray(np.broadcast_to(part, shape), np.float32, order="C")


def _extremum(ufunc: np.ufunc, of_zeros: np.ufunc) -> Apply:
    """Return max or min of floats: NaN wins, and zeros of both signs combine by their sign bits."""

    def apply(out: Array, x: Array, y: Array) -> None:
        equal = x == y
        ufunc(x, y, out=out)
        if equal.any():
            of_zeros(x.view(np.int32), y.view(np.int32), out=out.view(np.int32), where=equal)

    return apply


def _fma(out: Array, x: Array, y: Array, z: Array) -> None:
    """Round x * y + z once: the product is exact in binary64, where the sum is rounded to odd."""
    product = np.multiply(x, y, dtype=np.float64)
    addend = z.astype(np.float64)
    total = np.add(product, addend)
    shift = total - product
    error = (product - (total - shift)) + (addend - shift)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    bits += np.where(inexact, np.where(away, 1, -1), 0)
    np.copyto(out, total, casting="same_kind")


def _get_conversion(source: DType, target: DType) -> Apply:
    if target is DType.BFLOAT16:
        return _copy if source is target else _round
    if target is DType.BOOL:
        return _to_bool
    if source is DType.FLOAT32 and target is not DType.FLOAT32:
        return _truncate_to_integer
    return _cast


def widen(x: Array) -> npt.NDArray[np.float32]:
    """Return bfloat16 patterns, which are uint16, as float32 numbers."""
    return np.left_shift(x, 16, dtype=np.uint32).view(np.float32)


def _round(out: Array, x: Array) -> None:
    bits = x.astype(np.float32).view(np.uint32)
    rounded = bits + np.uint32((1 << 15) - 1) + (bits >> np.uint32(16) & np.uint32(1))
    is_nan = bits << np.uint32(1) > np.uint32(0xFF000000)
    np.copyto(out, np.where(is_nan, bfloat16.NAN, rounded >> np.uint32(16)), casting="unsafe")


def _cast(out: Array, x: Array) -> None:
    np.copyto(out, x, casting="unsafe")


def _to_bool(out: Array, x: Array) -> None:
    np.not_equal(x, 0, out=out)


def _truncate_to_integer(out: Array, x: Array) -> None:
    least = -(1 << 8 * out.itemsize - 1)
    bound = np.float32(-least)
    in_range = (x >= -bound) & (x < bound)
    np.copyto(out, np.where(in_range, x, np.float32(0)), casting="unsafe")
    np.copyto(out, -least - 1, where=x >= bound)
    np.copyto(out, least, where=x < -bound)


_UFUNCS: dict[Function, np.ufunc] = {
    Function.ADD: np.add,
    Function.SUB: np.subtract,
    Function.MUL: np.multiply,
    Function.DIV: np.divide,
    Function.SQRT: np.sqrt,
    Function.MAX: np.maximum,
    Function.MIN: np.minimum,
    Function.NEG: np.negative,
    Function.ABS: np.absolute,
    Function.EQ: np.equal,
    Function.NE: np.not_equal,
    Function.LT: np.less,
    Function.LE: np.less_equal,
    Function.GT: np.greater,
    Function.GE: np.greater_equal,
    Function.AND: np.bitwise_and,
    Function.OR: np.bitwise_or,
    Function.XOR: np.bitwise_xor,
    Function.NOT: np.invert,
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.TRUNC: np.trunc,
    Function.ROUND: np.rint,
    Function.FLOOR_DIVIDE: np.floor_divide,
    Function.REMAINDER: np.remainder,
}

_EXACT: dict[Function, Apply] = {
    Function.COPY: _copy,
    Function.WHERE: _where,
    **{function: _ufunc(ufunc) for function, ufunc in _UFUNCS.items()},
}

_FLOAT32: dict[Function, Apply] = {
    Function.FMA: _fma,
    Function.MAX: _extremum(np.maximum, np.bitwise_and),
    Function.MIN: _extremum(np.minimum, np.bitwise_or),
}

_ASSOCIATIVE = frozenset(
    {Function.ADD, Function.MUL, Function.MAX, Function.MIN, Function.AND, Function.OR}
)


def get_associative(function: Function, dtype: DType) -> np.ufunc | None:
    """Return the ufunc that folds elements exactly, and so in any order, if there is one."""
    is_exact = dtype is not DType.FLOAT32 and function in _ASSOCIATIVE
    return _UFUNCS[function] if is_exact else None
