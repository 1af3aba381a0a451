"""Transcendental functions, correctly rounded to float32, at the speed of float64.

Each value is first computed in float64, with a relative error below 2^-46, and rounded to float32
from 2^-44 of itself below and above. Where both agree, that is the correctly rounded value; about
one element in a million is left, and takes it from the definition, `offchain.arithmetic`.

The error bound holds for every operand because float32 operands are exact in float64 and no formula
below cancels more than a bit or two. What the C library computes (sin, cos, tan, erfc, pow) is
trusted to 2^-46, or 64 units in the last place, where C libraries aim at one. Results so small or
large that float64 cannot hold them to 2^-46 are far outside float32, and round to 0 or infinity;
and erf beyond 4 is as good as erf(4), which rounds to 1 and is 2^-26 away.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from offchain.arithmetic.evaluate import evaluate
from offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from offchain.execution.kernels.compiled import Kernel, emitted, kernel, reads, subroutine, writes
from offchain.execution.kernels.threads import share

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

MARGIN = 2.0**-44

_NAN = np.uint32(CANONICAL_NAN).view(np.float32)
_GRAIN = 2**15
_DOUBLE = ir.DoubleType()

_EXPONENT_BITS = 52
_EXPONENT_BIAS = 1023
_TO_INTEGER = 1.5 * 2.0**52
"""Adding this rounds to an integer and leaves it in the lowest bits."""

_HUGE = 300.0
"""Beyond this, exponential functions of float32 operands are 0 or infinity in float32."""

_LN2 = math.log(2)
_LOG2_E = 1 / _LN2
_LN2_HIGH = float.fromhex("0x1.62e42fefap-1")
"""So short that its multiples by small integers are exact."""

_LN2_LOW = float.fromhex("0x1.cf79abc9e3b39p-40")
_SQRT_HALF_BITS = int(np.float64(math.sqrt(0.5)).view(np.int64))

SATURATED_ERF = 4.0
"""From here on erf is replaced by its value here, which also rounds to 1."""

_ERF_COEFFICIENTS = [
    float.fromhex(coefficient)
    for coefficient in """
    -0x1.3401a3b7dd590p-45 0x1.0af6471f47987p-46 0x1.1863180e89057p-40 -0x1.d59f1003e9acfp-40
    -0x1.c6d032406d617p-37 0x1.a4378f1eb682ep-35 0x1.d284989a10387p-35 -0x1.77bff098363ecp-31
    0x1.38f993a659e0ep-30 0x1.33a26f4dff9ddp-28 -0x1.98094417670ddp-26 0x1.35010a0620a07p-26
    0x1.80e630328baecp-23 -0x1.5840095e798b7p-21 0x1.857ad1f96663ap-23 0x1.3acd77512f606p-18
    -0x1.d872622402223p-17 0x1.58bd338c202acp-18 0x1.4a844832d8889p-14 -0x1.067178f44d0c6p-12
    0x1.11551df56fe08p-12 0x1.1c610bd017994p-11 -0x1.6ecdbf67d1141p-9 0x1.90e81283ea373p-8
    -0x1.1a89b97ceaac5p-7 0x1.119da0c46d3c9p-7 -0x1.64e3dcd3af4c8p-8 0x1.1d83170fbf687p-9
    0x1.ffcaa8f4c9beap-1
    """.split()  # noqa: SIM905 - as a list, it would be a page
]
"""Powers of x - 2.5, from the 28th: the interpolation of erf at the Chebyshev points of [1, 4]."""


def apply(function: Function, x: Floats, y: Floats | None = None) -> Floats:
    """Apply a transcendental function to every element.

    Args:
        function: one of those for which `is_transcendental` holds.
        x: operands, float32, contiguous, of any shape.
        y: second operands, shaped like `x`, for POW only.

    Returns:
        float32 results, shaped like `x`.
    """
    operands = [operand.reshape(-1) for operand in (x, y) if operand is not None]
    results = np.empty(x.size, np.float32)
    doubtful = np.empty(x.size, np.bool_)
    settle = _KERNELS[function]
    share(lambda *range_: settle(*operands, results, doubtful, *range_), x.size, _GRAIN)
    places = np.flatnonzero(doubtful)
    if places.size:
        results[places] = _define(function, [operand[places] for operand in operands])
    return results.reshape(x.shape)


def _define(function: Function, operands: Sequence[Floats]) -> Floats:
    """The results of 1-D operands by definition, which is asked once for each combination."""
    operand_types = [DType.FLOAT32] * len(operands)
    elements = list(zip(*(operand.view(np.uint32).tolist() for operand in operands), strict=True))
    defined = {
        element: evaluate(function, operand_types, DType.FLOAT32, element)
        for element in dict.fromkeys(elements)
    }
    return np.array([defined[element] for element in elements], np.uint32).view(np.float32)


def _polynomial(coefficients: Sequence[float]) -> Callable[[float], float]:
    """A function of float64 that evaluates a polynomial, highest power first, by Horner's rule."""

    def emit(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
        value = _DOUBLE(coefficients[0])
        for coefficient in coefficients[1:]:
            value = builder.fadd(builder.fmul(value, x), _DOUBLE(coefficient))
        return value

    evaluate_polynomial: Callable[[float], float] = emitted(types.float64, types.float64)(emit)
    return evaluate_polynomial


# exp(r) = 1 + r + r^2 * _exp_tail(r) for |r| <= log(2) / 2
_exp_tail = _polynomial([1 / math.factorial(n) for n in range(13, 1, -1)])
# atanh(s) = s + s^3 * _atanh_tail(s^2) for |s| <= 3 - sqrt(8)
_atanh_tail = _polynomial([1 / n for n in range(21, 1, -2)])
# erf(x) = x * _erf_near_0(x^2) for |x| <= 1
_erf_near_0 = _polynomial(
    [
        (-1) ** n * 2 / math.sqrt(math.pi) / (math.factorial(n) * (2 * n + 1))
        for n in range(17, -1, -1)
    ]
)
_erf_near_5_halves = _polynomial(_ERF_COEFFICIENTS)


@subroutine
def _clamp(x: float, bound: float) -> float:
    """`x`, or the bound that it is beyond; NaN stays, which min and max would not promise."""
    if x > bound:
        return bound
    if x < -bound:
        return -bound
    return x


@subroutine
def _bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))


@subroutine
def _from_bits(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))


@subroutine
def _scale(integer: float) -> float:
    """2^n, from n + _TO_INTEGER."""
    return _from_bits((_bits(integer) + _EXPONENT_BIAS) << _EXPONENT_BITS)


@subroutine
def _exp_parts(x: float) -> tuple[float, float]:
    """A power of two s, and p with exp(x) = s * (1 + p)."""
    x = _clamp(x, _HUGE)
    shifted = x * _LOG2_E + _TO_INTEGER
    integer = shifted - _TO_INTEGER
    rest = x - integer * _LN2_HIGH - integer * _LN2_LOW
    return _scale(shifted), rest + rest * rest * _exp_tail(rest)


@subroutine
def _exp(x: float) -> float:
    scale, rest = _exp_parts(x)
    return scale + scale * rest


@subroutine
def _expm1(x: float) -> float:
    scale, rest = _exp_parts(x)
    return x if x == 0 else (scale - 1) + scale * rest


@subroutine
def _exp2(x: float) -> float:
    x = _clamp(x, _HUGE)
    shifted = x + _TO_INTEGER
    rest = (x - (shifted - _TO_INTEGER)) * _LN2
    scale = _scale(shifted)
    return scale + scale * (rest + rest * rest * _exp_tail(rest))


@subroutine
def _log(x: float) -> float:
    bits = _bits(x)
    exponent = (bits - _SQRT_HALF_BITS) >> _EXPONENT_BITS
    significand = _from_bits(bits - (exponent << _EXPONENT_BITS))
    s = (significand - 1) / (significand + 1)
    value = exponent * _LN2 + 2 * (s + s * (s * s) * _atanh_tail(s * s))
    if x > 0:
        return x if x == math.inf else value
    return -math.inf if x == 0 else math.nan


@subroutine
def _log1p(x: float) -> float:
    above_1 = 1 + x
    lost = (x - (above_1 - 1)) / above_1 if abs(x) < 1 else 0.0
    return x if x == 0 else _log(above_1) + lost


@subroutine
def _log2(x: float) -> float:
    return _LOG2_E * _log(x)


@subroutine
def _tanh(x: float) -> float:
    grown = _expm1(2 * x)
    return x if x == 0 else grown / (grown + 2)


@subroutine
def _sinh(x: float) -> float:
    grown = _expm1(abs(x))
    return math.copysign((grown + grown / (grown + 1)) / 2, x)


@subroutine
def _cosh(x: float) -> float:
    grown = _exp(x)
    return (grown + 1 / grown) / 2


@subroutine
def _sigmoid(x: float) -> float:
    return 1 / (1 + _exp(-x))


@subroutine
def _erf(x: float) -> float:
    size = abs(_clamp(x, SATURATED_ERF))
    near_0, beyond_1 = size * _erf_near_0(size * size), _erf_near_5_halves(size - 2.5)
    return math.copysign(near_0 if size < 1 else beyond_1, x)


@subroutine
def _rsqrt(x: float) -> float:
    return 1 / math.sqrt(x)


@subroutine
def _erfc(x: float) -> float:
    return math.erfc(x)


@subroutine
def _sin(x: float) -> float:
    return math.sin(x)


@subroutine
def _cos(x: float) -> float:
    return math.cos(x)


@subroutine
def _tan(x: float) -> float:
    return math.tan(x)


@subroutine
def _settle(value: float, i: int, results: Floats, doubtful: Flags) -> None:
    """Round what float64 says, and flag it unless every number in its margin rounds to the same."""
    low, high = np.float32(value * (1 - MARGIN)), np.float32(value * (1 + MARGIN))
    is_nan = np.isnan(value)
    results[i] = _NAN if is_nan else low
    doubtful[i] = low != high and not is_nan


_OUTPUTS = (writes(types.float32, 1), writes(types.boolean, 1), types.int64, types.int64)


def _unary(approximate: Callable[[float], float]) -> Kernel:
    @kernel(reads(types.float32, 1), *_OUTPUTS)
    def settle(x: Floats, results: Floats, doubtful: Flags, first: int, stop: int) -> None:
        part, part_results, part_doubtful = x[first:stop], results[first:stop], doubtful[first:stop]
        for i in range(part.size):
            _settle(approximate(np.float64(part[i])), i, part_results, part_doubtful)

    return settle


@kernel(reads(types.float32, 1), reads(types.float32, 1), *_OUTPUTS)
def _settle_pow(
    x: Floats, y: Floats, results: Floats, doubtful: Flags, first: int, stop: int
) -> None:
    for i in range(first, stop):
        _settle(math.pow(np.float64(x[i]), np.float64(y[i])), i, results, doubtful)


APPROXIMATIONS = {
    Function.EXP: _exp,
    Function.EXPM1: _expm1,
    Function.EXP2: _exp2,
    Function.LOG: _log,
    Function.LOG1P: _log1p,
    Function.LOG2: _log2,
    Function.SIN: _sin,
    Function.COS: _cos,
    Function.TAN: _tan,
    Function.TANH: _tanh,
    Function.SINH: _sinh,
    Function.COSH: _cosh,
    Function.ERF: _erf,
    Function.ERFC: _erfc,
    Function.RSQRT: _rsqrt,
    Function.SIGMOID: _sigmoid,
}
"""What stands for each function of one operand in float64, to 2^-46 of its value."""

_KERNELS = {
    **{function: _unary(approximate) for function, approximate in APPROXIMATIONS.items()},
    Function.POW: _settle_pow,
}
