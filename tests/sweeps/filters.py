"""The transcendental functions in double-double arithmetic, by other formulas than the kernels'.

Nothing here is fitted or tabulated: there are Taylor series, repeated squaring, a Newton step from
the inverse function, the trapezoidal rule, and integers for the reduction of angles. Each filter
takes a finite operand other than 0 from the function's domain, as float64, and errs by less than
ERROR of the value.
"""
# mypy: disallow-untyped-decorators=False, disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mpmath
import numpy as np
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.functions import Function
from moot.offchain.native.compiled import emitted, subroutine
from moot.offchain.native.vectors import call
from tests.sweeps.double_double import (
    Pair,
    add,
    add_float,
    divide,
    multiply,
    negative,
    normalized,
    scale,
    two_product,
    two_sum,
)

ERROR = 2.0**-60


def _pair(value: mpmath.mpf) -> Pair:
    high = float(value)
    return high, float(value - high)


with mpmath.workprec(200):
    _LN2, _LOG2_E = _pair(+mpmath.ln2), _pair(1 / mpmath.ln2)
    _HALF_PI = _pair(mpmath.pi / 2)
    _TWO_OVER_SQRT_PI = _pair(2 / mpmath.sqrt(mpmath.pi))
    _MINUS_SIXTH, _HUNDRED_TWENTIETH = _pair(mpmath.mpf(-1) / 6), _pair(mpmath.mpf(1) / 120)
    _TWENTY_FOURTH = _pair(mpmath.mpf(1) / 24)


def _polynomial(coefficients: Sequence[float]) -> Any:
    """A function of float64 that evaluates a polynomial, lowest power first."""

    @emitted(types.float64, types.float64)
    def evaluate(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
        value = x.type(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = call(builder, "llvm.fma", [value, x, x.type(coefficient)])
        return value

    return evaluate


# exp(t) = 1 + t + t^2 / 2 + t^3 * _exp_tail(t)
_exp_tail = _polynomial([1 / math.factorial(n) for n in range(3, 11)])


@subroutine
def _expm1_near_0(x: Pair) -> Pair:
    """exp(x) - 1 for |x| < 0.4: by Taylor's series for x / 16, squared four times."""
    t = scale(x, 1 / 16)
    grown = add_float(scale(multiply(t, t), 0.5), t[0] * t[0] * t[0] * _exp_tail(t[0]))
    grown = add(t, grown)
    for _ in range(4):
        grown = add(scale(grown, 2.0), multiply(grown, grown))
    return grown


@subroutine
def _power_of_2(exponent: float) -> float:
    return float(np.int64((np.int64(exponent) + 1023) << 52).view(np.float64))


@subroutine
def _split(x: Pair) -> tuple[float, Pair]:
    """2^n, and exp(r) - 1, with x = n * log(2) + r."""
    integer = np.rint(x[0] * _LOG2_E[0])
    high, low = two_product(integer, -_LN2[0])
    r = add(x, (high, low - integer * _LN2[1]))
    return _power_of_2(integer), _expm1_near_0(r)


@subroutine
def _exp_of_pair(x: Pair) -> Pair:
    power, grown = _split(x)
    return scale(add_float(grown, 1.0), power)


@subroutine
def _expm1_of_pair(x: Pair) -> Pair:
    power, grown = _split(x)
    return add(two_sum(power, -1.0), scale(grown, power))


@subroutine
def _bounded(x: float) -> float:
    return min(max(x, -120.0), 120.0)


@subroutine
def _exp(x: float) -> Pair:
    return _exp_of_pair((_bounded(x), 0.0))


@subroutine
def _expm1(x: float) -> Pair:
    return _expm1_of_pair((_bounded(x), 0.0))


@subroutine
def _exp2(x: float) -> Pair:
    bounded = min(max(x, -170.0), 170.0)
    integer = np.rint(bounded)
    high, low = two_product(bounded - integer, _LN2[0])
    grown = _expm1_near_0(normalized(high, low + (bounded - integer) * _LN2[1]))
    return scale(add_float(grown, 1.0), _power_of_2(integer))


@subroutine
def _sinh(x: float) -> Pair:
    grown = _expm1_of_pair((min(abs(x), 120.0), 0.0))
    size = scale(add(grown, divide(grown, add_float(grown, 1.0))), 0.5)
    return size if x > 0 else negative(size)


@subroutine
def _cosh(x: float) -> Pair:
    grown = _expm1_of_pair((min(abs(x), 120.0), 0.0))
    twice = add_float(scale(grown, 2.0), 2.0)
    return add_float(divide(multiply(grown, grown), twice), 1.0)


@subroutine
def _tanh(x: float) -> Pair:
    grown = _expm1_of_pair((2 * min(abs(x), 30.0), 0.0))
    size = divide(grown, add_float(grown, 2.0))
    return size if x > 0 else negative(size)


@subroutine
def _sigmoid(x: float) -> Pair:
    return divide((1.0, 0.0), add_float(_exp_of_pair((_bounded(-x), 0.0)), 1.0))


@subroutine
def _log_near_1(f: Pair) -> Pair:
    """log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2): one step from a guess, by the exponential."""
    s = f[0] / (2 + f[0])
    z = s * s
    guess = 2 * s * (1 + z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9)))))
    inverse = _expm1_near_0((-guess, 0.0))
    rest = add(add(f, inverse), multiply(f, inverse))
    correction = rest[0] * rest[0] * (rest[0] * (1 / 3) - 0.5)
    return add_float(add_float(rest, guess), correction)


@subroutine
def _exponent(x: float) -> float:
    """The k with sqrt(1/2) <= x * 2^-k < sqrt(2), or a neighbour if x is next to these bounds."""
    exponent = float((np.float64(x).view(np.int64) >> 52) - 1023)
    return exponent + (1.0 if x * _power_of_2(-exponent) > math.sqrt(2) else 0.0)


@subroutine
def _log_of_pair(x: Pair) -> tuple[float, Pair]:
    """k, and log(x * 2^-k)."""
    k = _exponent(x[0])
    power = _power_of_2(-k)
    return k, _log_near_1(add_float(scale(x, power), -1.0))


@subroutine
def _times_ln2(k: float) -> Pair:
    high, low = two_product(k, _LN2[0])
    return high, low + k * _LN2[1]


@subroutine
def _log(x: float) -> Pair:
    k, rest = _log_of_pair((x, 0.0))
    return add(_times_ln2(k), rest)


@subroutine
def _log2(x: float) -> Pair:
    k, rest = _log_of_pair((x, 0.0))
    return add_float(multiply(rest, _LOG2_E), k)


@subroutine
def _log1p(x: float) -> Pair:
    if abs(x) < 0.25:
        return _log_near_1((x, 0.0))
    k, rest = _log_of_pair(two_sum(1.0, x))
    return add(_times_ln2(k), rest)


@subroutine
def _rsqrt(x: float) -> Pair:
    guess = 1 / math.sqrt(x)
    square, square_low = two_product(guess, guess)
    product, product_low = two_product(square, x)
    rest = (1 - product) - product_low - square_low * x
    return normalized(guess, 0.5 * guess * rest)


@subroutine
def _sqrt(x: float) -> Pair:
    guess = math.sqrt(x)
    square, square_low = two_product(guess, guess)
    return normalized(guess, ((x - square) - square_low) / (2 * guess))


@subroutine
def _reciprocal(x: float) -> Pair:
    return divide((1.0, 0.0), (x, 0.0))


_PAD = 160
_WINDOW_WORDS = 5
with mpmath.workprec(600):
    _TWO_OVER_PI_BITS = int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** 416))
_TWO_OVER_PI_WORDS = np.array(
    [_TWO_OVER_PI_BITS >> shift & 0xFFFFFFFF for shift in range(416 + _PAD - 32, -1, -32)],
    np.uint64,
)
"""2 / pi in 32-bit words, the binary point behind the first _PAD bits."""

_LOW_32 = np.uint64(0xFFFFFFFF)


@subroutine
def _turn(x: float) -> tuple[int, Pair]:
    """Return q modulo 4, and f, with |x| = (q + f) * pi / 2 and |f| <= 1/2, for |x| >= 1/2.

    The operand is an integer of 24 bits times 2^k. Of 2 / pi, the bits from 2^(1 - k) down are
    multiplied: 160 of them, two of which end up before the binary point.
    """
    bits = np.uint64(np.float64(abs(x)).view(np.uint64))
    k = np.int64(bits >> np.uint64(52)) - 1023 - 23
    integer = (bits >> np.uint64(29)) & np.uint64(0x7FFFFF) | np.uint64(0x800000)
    start = _PAD + k - 2
    word, offset = start // 32, np.uint64(32 - start % 32)
    carry = np.uint64(0)
    digits = (np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0))
    for i in range(_WINDOW_WORDS):
        j = word + _WINDOW_WORDS - 1 - i
        both = (_TWO_OVER_PI_WORDS[j] << np.uint64(32)) | _TWO_OVER_PI_WORDS[j + 1]
        carry += integer * ((both >> offset) & _LOW_32)
        digits = (carry & _LOW_32, digits[0], digits[1], digits[2], digits[3])
        carry >>= np.uint64(32)
    quarters = np.int64(digits[0] >> np.uint64(30))
    first = np.int64(digits[0] & np.uint64(0x3FFFFFFF))
    if first >= 2**29:
        first -= 2**30
        quarters += 1
    high, low = two_sum(first * 2.0**-30, np.float64(np.int64(digits[1])) * 2.0**-62)
    rest = np.float64(np.int64(digits[2])) * 2.0**-94
    rest += np.float64(np.int64(digits[3])) * 2.0**-126
    return int(quarters & 3), normalized(high, low + rest)


# sin(r) / r = 1 - r^2 / 6 + r^4 / 120 + r^6 * _sin_tail(r^2), and likewise cos
_sin_tail = _polynomial([(-1) ** n / math.factorial(2 * n + 1) for n in range(3, 14)])
_cos_tail = _polynomial([(-1) ** n / math.factorial(2 * n) for n in range(3, 14)])


@subroutine
def _circular(x: float) -> tuple[int, Pair, Pair]:
    """Quarters, and the sine and cosine of the rest of |x|, by Taylor's series."""
    quarters, r = 0, (abs(x), 0.0)
    if abs(x) > 0.75:
        quarters, fraction = _turn(x)
        r = multiply(fraction, _HALF_PI)
    z = multiply(r, r)
    sin = add_float(_HUNDRED_TWENTIETH, z[0] * _sin_tail(z[0]))
    sin = multiply(z, add(_MINUS_SIXTH, multiply(z, sin)))
    cos = add_float(_TWENTY_FOURTH, z[0] * _cos_tail(z[0]))
    cos = multiply(z, add_float(multiply(z, cos), -0.5))
    return quarters, add(r, multiply(r, sin)), add_float(cos, 1.0)


@subroutine
def _sin(x: float) -> Pair:
    quarters, sin, cos = _circular(x)
    value = cos if quarters & 1 else sin
    return negative(value) if (quarters >= 2) != (x < 0) else value


@subroutine
def _cos(x: float) -> Pair:
    quarters, sin, cos = _circular(x)
    value = sin if quarters & 1 else cos
    return negative(value) if quarters in (1, 2) else value


@subroutine
def _tan(x: float) -> Pair:
    quarters, sin, cos = _circular(x)
    value = divide(negative(cos), sin) if quarters & 1 else divide(sin, cos)
    return negative(value) if x < 0 else value


with mpmath.workprec(200):
    _ERF_TAYLOR = tuple(
        _pair(mpmath.mpf((-1) ** n) / (mpmath.factorial(n) * (2 * n + 1))) for n in range(8)
    )
_erf_tail = _polynomial([(-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(8, 26)])

_STEP = 7 / 16
_LEADING_TERMS = 6
with mpmath.workprec(200):
    _WEIGHTS = tuple(_pair(2 * mpmath.exp(-((n * mpmath.mpf(_STEP)) ** 2))) for n in range(17))
    _STEP_OVER_PI = _pair(mpmath.mpf(_STEP) / mpmath.pi)
_POLE_RATE = -2 * math.pi / _STEP
_POLE_END = math.pi / _STEP


@subroutine
def _erf_near_0(x: float) -> Pair:
    """erf(x) for |x| <= 1, by Taylor's series; the square of x is exact."""
    z = (x * x, 0.0)
    total = (_erf_tail(z[0]), 0.0)
    for i in range(8):
        total = add(multiply(z, total), _ERF_TAYLOR[7 - i])
    product, product_low = two_product(x, _TWO_OVER_SQRT_PI[0])
    return multiply(normalized(product, product_low + x * _TWO_OVER_SQRT_PI[1]), total)


@subroutine
def _erfc_beyond_1(x: float) -> Pair:
    """erfc(x) for x >= 1, by the trapezoidal rule and the residue at its pole.

    exp(-x^2) * x / pi times the integral of exp(-t^2) / (t^2 + x^2), with an error of about
    exp(-(pi / step)^2) of the value (Hunter and Regan, Math. Comp. 26, 1972).
    """
    z = x * x
    total = (0.0, 0.0)
    for i in range(10):
        n = 16 - i
        total = (total[0] + _WEIGHTS[n][0] / ((n * _STEP) ** 2 + z), 0.0)
    for i in range(_LEADING_TERMS):
        n = _LEADING_TERMS - i
        total = add(total, divide(_WEIGHTS[n], two_sum(z, (n * _STEP) ** 2)))
    total = add(total, divide((1.0, 0.0), (z, 0.0)))
    product, product_low = two_product(x, _STEP_OVER_PI[0])
    total = multiply(total, normalized(product, product_low + x * _STEP_OVER_PI[1]))
    total = multiply(total, _exp_of_pair((-z, 0.0)))
    if x < _POLE_END:
        grown = _exp_of_pair((_POLE_RATE * x, 0.0))[0]
        total = add_float(total, -2 * grown / (1 - grown))
    return total


@subroutine
def _erf(x: float) -> Pair:
    if abs(x) <= 1:
        return _erf_near_0(x)
    size = (1.0, 0.0)
    if abs(x) < 7:
        size = add_float(negative(_erfc_beyond_1(abs(x))), 1.0)
    return size if x > 0 else negative(size)


@subroutine
def _erfc(x: float) -> Pair:
    if abs(x) <= 1:
        return add_float(negative(_erf_near_0(x)), 1.0)
    beyond = (0.0, 0.0)  # as good as values below 2^-158
    if abs(x) < 10.5:
        beyond = _erfc_beyond_1(abs(x))
    return beyond if x > 0 else add_float(negative(beyond), 2.0)


FILTERS: Mapping[Function, Callable[[float], Pair]] = {
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
    Function.SQRT: _sqrt,
    Function.DIV: _reciprocal,
}
"""Division stands for the reciprocal."""
