"""Transcendental functions: the correctly rounded value of the real function, on bit patterns.

A value is enclosed in an interval that shrinks until both its ends round alike (Ziv, 1991). This
ends unless the value is exactly half way between two neighbours; a value that is itself a binary32
number is settled at once, for what is next to it rounds to it. No value that reaches the loop is
half way:

- exp, expm1, log, log1p, sin, cos, tan, tanh, sinh, cosh and sigmoid of an algebraic number are
  transcendental (Lindemann, Weierstrass), but for the trivial values at 0 and 1.
- exp2 and log2 are irrational, or a power of two from 2^-149 on, or an integer of at most 8 bits.
- erf and erfc have no such theorem, but finitely many operands: in a search through all of them,
  none but the saturated ones came nearer to a half-way point than 2^-57 of its own size.
- pow is rational and has 25 bits or fewer only where `_exact_power` finds it; see there.
- rsqrt needs no loop.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mpmath import libmp

from moot.offchain.arithmetic.float32 import (
    INFINITY,
    NAN,
    NEGATIVE_INFINITY,
    NEGATIVE_ZERO,
    ONE,
    SIGNIFICAND_BITS,
    ZERO,
    decode,
    encode,
    is_infinite,
    is_nan,
    is_zero,
    magnitude,
    order,
    sign,
    with_sign,
)
from moot.offchain.arithmetic.functions import Function

_Real = tuple[int, int, int, int]
"""A real number of mpmath: sign, significand, exponent, and the significand's bit length."""

_Evaluation = Callable[[_Real, int], _Real]
"""Computes a function of an exact operand to a precision in bits."""

_FIRST_PRECISION = 64
_GUARD_BITS = 20
"""mpmath aims at an error of one unit in the last bit; we rely on all but the last 20."""

_HALF = 0x3F000000
_TWO = 0x40000000
_MINUS_ONE = 0xBF800000
_LEAST_NEGATIVE = 0x80000001


def _exact(x: int) -> _Real:
    significand, exponent = decode(x)
    real: _Real = libmp.from_man_exp(significand, exponent)
    return real


def _leading_bit(real: _Real) -> int:
    """Return e with 2^(e-1) <= |real| < 2^e."""
    return real[2] + real[3]


def _settle(evaluate: Callable[[int], _Real], precision: int) -> int:
    """Round a real number, known to any precision that is asked for, to binary32."""
    while True:
        sign_bit, significand, exponent, length = evaluate(precision + _GUARD_BITS)
        widen = max(precision + 1 - length, 0)
        widened = int(significand) << widen
        error = 1 << (length + widen - precision)
        low = encode(sign_bit, widened - error, exponent - widen)
        if low == encode(sign_bit, widened + error, exponent - widen):
            return low
        precision *= 2


def _exp2(x: _Real, precision: int) -> _Real:
    # The operand's magnitude, at most 150, costs the power eight bits.
    natural = libmp.mpf_mul(x, libmp.mpf_ln2(precision + 10), precision + 10)
    real: _Real = libmp.mpf_exp(natural, precision)
    return real


def _expm1(x: _Real, precision: int) -> _Real:
    cancelled = max(0, -_leading_bit(x)) + 2
    real: _Real = libmp.mpf_sub(libmp.mpf_exp(x, precision + cancelled), libmp.fone, precision)
    return real


def _log1p(x: _Real, precision: int) -> _Real:
    real: _Real = libmp.mpf_log(libmp.mpf_add(x, libmp.fone), precision)
    return real


def _log2(x: _Real, precision: int) -> _Real:
    natural = libmp.mpf_log(x, precision + 4)
    real: _Real = libmp.mpf_div(natural, libmp.mpf_ln2(precision + 4), precision)
    return real


def _sigmoid(x: _Real, precision: int) -> _Real:
    odds = libmp.mpf_exp(libmp.mpf_neg(x), precision + 4)
    one_plus = libmp.mpf_add(odds, libmp.fone, precision + 4)
    real: _Real = libmp.mpf_div(libmp.fone, one_plus, precision)
    return real


@dataclass(frozen=True, slots=True)
class _Unary:
    """A function of one operand: its evaluation, and its values where no evaluation is needed.

    `low` is (bound, result): the result of every operand up to the bound, -inf included; `high`
    likewise from the bound on. `singular` maps operands to results; both zeros are among them.
    """

    evaluate: _Evaluation
    low: tuple[int, int]
    high: tuple[int, int]
    singular: Mapping[int, int] = field(hash=False)

    def __call__(self, x: int) -> int:
        if is_nan(x):
            return NAN
        if x in self.singular:
            return self.singular[x]
        if order(x) <= order(self.low[0]):
            return self.low[1]
        if order(x) >= order(self.high[0]):
            return self.high[1]
        exact = _exact(x)
        # Near 0 a function is within x or x^2 of its leading term: so many bits more must be seen.
        precision = _FIRST_PRECISION + 2 * max(0, -_leading_bit(exact))
        return _settle(lambda bits: self.evaluate(exact, bits), precision)


def _bound(value: int) -> int:
    return encode(int(value < 0), abs(value), 0)


_ODD = {ZERO: ZERO, NEGATIVE_ZERO: NEGATIVE_ZERO}


def _at_zeros(result: int) -> dict[int, int]:
    return {ZERO: result, NEGATIVE_ZERO: result}


_POLE = _at_zeros(NEGATIVE_INFINITY)
_UP = (INFINITY, INFINITY)
_NOWHERE = ((NEGATIVE_INFINITY, NAN), (INFINITY, NAN))

UNARY: Mapping[Function, Callable[[int], int]] = {
    Function.EXP: _Unary(
        libmp.mpf_exp, (_bound(-104), ZERO), (_bound(89), INFINITY), _at_zeros(ONE)
    ),
    Function.EXPM1: _Unary(_expm1, (_bound(-18), _MINUS_ONE), (_bound(89), INFINITY), _ODD),
    # 2^-150 is half way between 0 and 2^-149, and 0 is even.
    Function.EXP2: _Unary(_exp2, (_bound(-150), ZERO), (_bound(128), INFINITY), _at_zeros(ONE)),
    Function.LOG: _Unary(libmp.mpf_log, (_LEAST_NEGATIVE, NAN), _UP, _POLE),
    Function.LOG1P: _Unary(
        _log1p, (_MINUS_ONE + 1, NAN), _UP, _ODD | {_MINUS_ONE: NEGATIVE_INFINITY}
    ),
    Function.LOG2: _Unary(_log2, (_LEAST_NEGATIVE, NAN), _UP, _POLE),
    Function.SIN: _Unary(libmp.mpf_sin, *_NOWHERE, _ODD),
    Function.COS: _Unary(libmp.mpf_cos, *_NOWHERE, _at_zeros(ONE)),
    Function.TAN: _Unary(libmp.mpf_tan, *_NOWHERE, _ODD),
    Function.TANH: _Unary(libmp.mpf_tanh, (_bound(-10), _MINUS_ONE), (_bound(10), ONE), _ODD),
    Function.SINH: _Unary(
        libmp.mpf_sinh, (_bound(-90), NEGATIVE_INFINITY), (_bound(90), INFINITY), _ODD
    ),
    Function.COSH: _Unary(
        libmp.mpf_cosh, (_bound(-90), INFINITY), (_bound(90), INFINITY), _at_zeros(ONE)
    ),
    Function.ERF: _Unary(libmp.mpf_erf, (_bound(-4), _MINUS_ONE), (_bound(4), ONE), _ODD),
    Function.ERFC: _Unary(libmp.mpf_erfc, (_bound(-4), _TWO), (_bound(11), ZERO), _at_zeros(ONE)),
    Function.SIGMOID: _Unary(_sigmoid, (_bound(-104), ZERO), (_bound(18), ONE), _at_zeros(_HALF)),
}
"""The functions that Ziv's loop settles.

Beyond a bound that cuts a function off, it is monotone, and has rounded to its limit already.
"""


def reciprocal_square_root(x: int) -> int:
    """Return 1 / sqrt(x): infinite at the zeros, with their sign, and NaN below.

    An integer root and whether it is exact decide the rounding: significand m and even exponent e
    give sqrt(2^84 / m) * 2^(-42 - e / 2), and the root of a floor has the floor of the root.
    """
    if is_nan(x) or (sign(x) and not is_zero(x)):
        return NAN
    if is_zero(x):
        return with_sign(sign(x), INFINITY)
    if is_infinite(x):
        return ZERO
    significand, exponent = decode(x)
    significand <<= exponent % 2
    scale = 1 << 84
    root = math.isqrt(scale // significand)
    inexact = root * root * significand != scale
    return encode(0, root << 1 | inexact, -43 - (exponent - exponent % 2) // 2)


def _is_integer(x: int) -> bool:
    significand, exponent = decode(x)
    return exponent >= 0 or significand % (1 << -exponent) == 0


def _is_odd_integer(x: int) -> bool:
    significand, exponent = decode(x)
    return exponent <= 0 and _is_integer(x) and bool((significand >> -exponent) & 1)


def _power_at_infinite_exponent(x: int, y: int) -> int:
    if magnitude(x) == ONE:
        return ONE
    grows = (magnitude(x) > ONE) != bool(sign(y))
    return INFINITY if grows else ZERO


def _odd_and_exponent(x: int) -> tuple[int, int]:
    """Return odd m and e with |x| = m * 2^e."""
    significand, exponent = decode(magnitude(x))
    trailing = (significand & -significand).bit_length() - 1
    return significand >> trailing, exponent + trailing


def _exact_power(x: int, y: int) -> int | None:
    """Return x^y rounded, for positive x, if it is rational with at most 25 significant bits.

    Let x = m * 2^e with m odd, and |y| = n / 2^j with n odd or j = 0. The power is rational only if
    x has a rational root of order 2^j. If m = 1, it is then a power of two. If m > 1, no negative
    power is a binary fraction, and the n-th power of an odd root has over 25 bits if n > 15.
    """
    odd, exponent = _odd_and_exponent(x)
    times, binary_point = _odd_and_exponent(y)
    if odd > 1 and sign(y):
        return None
    for _ in range(-binary_point):
        root = math.isqrt(odd)
        if root * root != odd or exponent % 2 or (odd, exponent) == (1, 0):
            break
        odd, exponent, binary_point = root, exponent // 2, binary_point + 1
    if (odd, exponent) == (1, 0):
        return ONE
    if binary_point < 0:
        return None
    times <<= binary_point
    if odd > 1 and (times > 15 or (odd**times).bit_length() > SIGNIFICAND_BITS + 1):
        return None
    return encode(0, odd**times, -exponent * times if sign(y) else exponent * times)


def _positive_power(x: int, y: int) -> int:
    """Return x^y for finite x > 0 and finite y other than 0."""
    base, power = _exact(x), _exact(y)
    logarithm = libmp.mpf_mul(power, libmp.mpf_log(base, _FIRST_PRECISION), _FIRST_PRECISION)
    # exp(90) is above the largest number, and exp(-105) below half the least.
    if libmp.mpf_gt(logarithm, libmp.from_int(90)):
        return INFINITY
    if libmp.mpf_lt(logarithm, libmp.from_int(-105)):
        return ZERO
    exact = _exact_power(x, y)
    if exact is not None:
        return exact

    def evaluate(bits: int) -> _Real:
        # The exponent's magnitude, at most 105, costs the power seven bits.
        natural = libmp.mpf_mul(power, libmp.mpf_log(base, bits + 10), bits + 10)
        real: _Real = libmp.mpf_exp(natural, bits)
        return real

    return _settle(evaluate, _FIRST_PRECISION + max(0, -_leading_bit(logarithm)))


def power(x: int, y: int) -> int:
    """Return x^y with the special values of C's pow: x^0 and 1^y are 1, even for NaN."""
    if is_zero(y) or x == ONE:
        return ONE
    if is_nan(x) or is_nan(y):
        return NAN
    if is_infinite(y):
        return _power_at_infinite_exponent(x, y)
    result_sign = sign(x) & _is_odd_integer(y)
    if is_zero(x) or is_infinite(x):
        vanishes = is_zero(x) != bool(sign(y))
        return with_sign(result_sign, ZERO if vanishes else INFINITY)
    if sign(x) and not _is_integer(y):
        return NAN
    return with_sign(result_sign, _positive_power(magnitude(x), y))
