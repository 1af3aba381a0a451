"""Transcendental functions of one operand, correctly rounded to float32, as LLVM IR.

A formula in float64 errs by about one unit in its last place, 2^-52 of the value. Rounded to
float32, it gives the correctly rounded value unless the true one lies that close to half way
between two neighbours. How often this happens is not argued but tried: all 2^32 operands of the
code as it stands have been compared with an independent computation (`tests/sweeps`), and the few
for which a formula comes out on the wrong side are listed in `EXCEPTIONS`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from llvmlite import ir

from moot.offchain.arithmetic.functions import Function
from moot.offchain.native.transcendental import quick
from moot.offchain.native.transcendental.circular import reduce_angle
from moot.offchain.native.transcendental.constants import (
    COSH_TAIL,
    ERF_DENOMINATOR,
    ERF_NUMERATOR,
    ERFC_DENOMINATOR,
    ERFC_NUMERATOR,
    EXCEPTIONS,
    LN2,
    LN2_LOW,
    LOG2_E,
    LOG2_E_LOW,
    SINH_TAIL,
)
from moot.offchain.native.transcendental.lanes import (
    TO_INTEGER,
    Integers,
    Lanes,
    choose,
    polynomial,
)
from moot.offchain.native.transcendental.pieces import (
    EXPONENT_BIAS,
    exp_less_1,
    exp_square,
    exp_wide,
    expm1_wide,
    log_1_plus,
    power_of_2,
    split_exponential,
    split_significand,
)

_SIGN_32 = 1 << 31

_LOWEST, _HIGHEST = -110.0, 90.0
"""Beyond these, exponential functions round as they do here."""

_HIGHEST_POWER = 128.0
_LOWEST_POWER = -151.0
_TANH_IS_1 = 10.0
_SIGMOID_IS_1 = 20.0
_ERF_IS_1 = 3.92

_RSQRT_BAND = 2.0**-43
"""What the step to an inverse square root is uncertain by, of twice the value."""

_ERFC_IS_0 = 10.1


def emit(builder: ir.IRBuilder, function: Function, x: ir.Value) -> ir.Value:
    """Emit code that applies a function to every lane.

    It may consist of several basic blocks: the builder ends in another one than it began in.

    Args:
        builder: where to emit it.
        function: one of `FUNCTIONS`.
        x: a vector of float32, of any number of lanes.

    Returns:
        The vector of the correctly rounded values; in place of a NaN, any NaN.
    """
    if quick.is_taken(function, x.type.count):
        return quick.emit(builder, function, x, emit_formula)
    return emit_formula(builder, function, x)


def emit_formula(builder: ir.IRBuilder, function: Function, x: ir.Value) -> ir.Value:
    """Emit a function's formula, the same on every machine; its result is that of `emit`."""
    formula = _FORMULAS[function]
    operand = Lanes(builder, x)
    argument = operand if formula.symmetry is _Symmetry.NONE else abs(operand)
    result = formula.evaluate(argument)
    for bits, corrected in EXCEPTIONS.get(function, {}).items():
        is_exception = argument.holds("==", _float32(bits))
        result = argument.filled(_float32(corrected)).where(is_exception, result)
    if formula.symmetry is _Symmetry.ODD:
        result = (result.bits() ^ (operand.bits() & _SIGN_32)).as_lanes()
    return result.value


def _float32(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def _exp(x: Lanes) -> Lanes:
    return exp_wide(x.at_least(_LOWEST).at_most(_HIGHEST).widened()).rounded()


def _expm1(x: Lanes) -> Lanes:
    value = expm1_wide(x.at_least(_LOWEST).at_most(_HIGHEST).widened())
    return value.rounded().with_sign_of(x)


def _exp2(x: Lanes) -> Lanes:
    wide = x.at_least(_LOWEST_POWER).at_most(_HIGHEST_POWER).widened()
    shifted = wide + TO_INTEGER
    scale = power_of_2(shifted.bits())
    return scale.times_plus(exp_less_1((wide - (shifted - TO_INTEGER)) * LN2), scale).rounded()


def _hyperbolic(x: Lanes) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """c, s, c', s' with cosh(x) = c * (1 + c') + s * s' and sinh(x) = c * s' + s * (1 + c')."""
    exponent, r = split_exponential(x.at_most(_HIGHEST).widened())
    half, inverse_half = (
        power_of_2(power, EXPONENT_BIAS - 1) for power in (exponent, 0 - exponent)
    )
    square = r * r
    odd = (r * square).times_plus(polynomial(square, SINH_TAIL), r)
    return half + inverse_half, half - inverse_half, square * polynomial(square, COSH_TAIL), odd


def _sinh(x: Lanes) -> Lanes:
    even_step, odd_step, even, odd = _hyperbolic(x)
    return (odd_step.times_plus(even, even_step * odd) + odd_step).rounded()


def _cosh(x: Lanes) -> Lanes:
    even_step, odd_step, even, odd = _hyperbolic(x)
    return (even_step.times_plus(even, odd_step * odd) + even_step).rounded()


def _tanh(x: Lanes) -> Lanes:
    bounded = x.at_most(_TANH_IS_1)
    grown = expm1_wide((bounded + bounded).widened())
    return (grown / (grown + 2)).rounded()


def _sigmoid(x: Lanes) -> Lanes:
    wide = x.at_least(_LOWEST).at_most(_SIGMOID_IS_1).widened()
    value = (1 / (1 + exp_wide(-wide))).rounded()
    is_far = abs(x).holds(">=", 2.0**-10)
    return choose(value, is_far, lambda: _sigmoid_near_0(wide).rounded())


def _sigmoid_near_0(x: Lanes) -> Lanes:
    """1/2 + x/4 - x^3/48, where x/4 alone may lie half way and float64 does not hold the rest.

    So the sum is moved by a unit in the last place to the side on which the rest lies.
    """
    quarter = x * 0.25
    rise = quarter.times_plus(x * x * (-1 / 12), quarter)
    return 0.5 + (rise - x.filled(2.0**-53).with_sign_of(x))


def _natural(k: Lanes, main: Lanes, tail: Lanes) -> Lanes:
    """Return k * log(2) + main + tail, rounded to float32."""
    return k.times_plus(LN2, main + k.times_plus(LN2_LOW, tail)).rounded()


def _log(x: Lanes) -> Lanes:
    m, k = split_significand(x.widened())
    return _with_pole(x, 0, _natural(k, *log_1_plus(m - 1)))


def _log2(x: Lanes) -> Lanes:
    m, k = split_significand(x.widened())
    main, tail = log_1_plus(m - 1)
    tail = main.times_plus(LOG2_E_LOW, tail * LOG2_E)
    return _with_pole(x, 0, (k + main.times_plus(LOG2_E, tail)).rounded())


def _log1p(x: Lanes) -> Lanes:
    wide = x.widened()
    m, k = split_significand(wide + 1)
    # Where k is 0, 1 + x may have been rounded; elsewhere it was not, or x is beyond 2^29.
    value = _natural(k, *log_1_plus(wide.where(k.holds("==", 0), m - 1)))
    return _with_pole(x, -1, value.with_sign_of(x))


def _with_pole(x: Lanes, pole: float, value: Lanes) -> Lanes:
    """Minus infinity at the pole, NaN below it, infinity at infinity."""
    above = value.where(x.holds("<", math.inf), x).where(x.holds(">", pole), math.nan)
    return x.filled(-math.inf).where(x.holds("==", pole), above)


def _rsqrt(x: Lanes) -> Lanes:
    """One step of Newton's in float32 from 1 / sqrt(x), which two roundings put off by 2^-23 of it.

    `product + rest` is x * root exactly, so `error`, 1 - x * root^2, is at most 2^-22 and errs by
    2^-46; three quarters of its square are left out, less than 2^-44.4. Where the band around it
    has two results, and for zeros, infinities and what is negative, float64 decides.
    """
    root = 1 / x.sqrt()
    product = x * root
    rest = x.times_plus(root, -product)
    error = (-rest).times_plus(root, (-product).times_plus(root, 1))
    half = root * 0.5
    value = half.times_plus(error + _RSQRT_BAND, root)
    is_certain = value.holds("==", half.times_plus(error - _RSQRT_BAND, root))
    return choose(value, is_certain, (1 / x.widened().sqrt()).rounded)


def _erf(x: Lanes) -> Lanes:
    wide = x.at_most(_ERF_IS_1).widened()
    square = wide * wide
    numerator = wide * polynomial(square, ERF_NUMERATOR)
    return (numerator / polynomial(square, ERF_DENOMINATOR)).rounded()


def _erfc(x: Lanes) -> Lanes:
    size = abs(x).at_most(_ERFC_IS_0).widened()
    numerator = exp_square(-(size * size)) * polynomial(size, ERFC_NUMERATOR)
    beyond = numerator / polynomial(size, ERFC_DENOMINATOR)
    return (2 - beyond).where(x.widened().holds("<", 0), beyond).rounded()


def _sin(x: Lanes) -> Lanes:
    angle = reduce_angle(x.widened())
    sin, cos = angle.sin_and_cos()
    return _turned(cos.where(angle.is_odd(), sin), angle.quarters)


def _cos(x: Lanes) -> Lanes:
    angle = reduce_angle(x.widened())
    sin, cos = angle.sin_and_cos()
    return _turned(sin.where(angle.is_odd(), cos), angle.quarters + 1)


def _turned(value: Lanes, quarters: Integers) -> Lanes:
    """The value, negated where the second bit of the quarters is set."""
    return (value.bits() ^ ((quarters & 2) << 62)).as_lanes().rounded()


def _tan(x: Lanes) -> Lanes:
    angle = reduce_angle(x.widened())
    sin, cos = angle.sin_and_cos()
    is_odd = angle.is_odd()
    quotient = cos.where(is_odd, sin) / sin.where(is_odd, cos)
    return (quotient.bits() ^ (angle.quarters << 63)).as_lanes().rounded()


class _Symmetry(Enum):
    NONE = auto()
    EVEN = auto()
    ODD = auto()


@dataclass(frozen=True, slots=True)
class _Formula:
    """How to compute a function; a symmetric one only of operands whose sign bit is not set."""

    evaluate: Callable[[Lanes], Lanes]
    symmetry: _Symmetry = _Symmetry.NONE


_FORMULAS: Mapping[Function, _Formula] = {
    Function.EXP: _Formula(_exp),
    Function.EXPM1: _Formula(_expm1),
    Function.EXP2: _Formula(_exp2),
    Function.LOG: _Formula(_log),
    Function.LOG1P: _Formula(_log1p),
    Function.LOG2: _Formula(_log2),
    Function.SIN: _Formula(_sin, _Symmetry.ODD),
    Function.COS: _Formula(_cos, _Symmetry.EVEN),
    Function.TAN: _Formula(_tan, _Symmetry.ODD),
    Function.TANH: _Formula(_tanh, _Symmetry.ODD),
    Function.SINH: _Formula(_sinh, _Symmetry.ODD),
    Function.COSH: _Formula(_cosh, _Symmetry.EVEN),
    Function.ERF: _Formula(_erf, _Symmetry.ODD),
    Function.ERFC: _Formula(_erfc),
    Function.RSQRT: _Formula(_rsqrt),
    Function.SIGMOID: _Formula(_sigmoid),
}

FUNCTIONS = tuple(_FORMULAS)
"""The transcendental functions of one operand."""
