"""MPFR's correctly rounded values, and the distance of a value from where rounding changes."""

import math
from collections.abc import Callable, Mapping

import gmpy2
import numpy as np

from moot.offchain.arithmetic.functions import CANONICAL_NAN, Function

BINARY32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)
WIDE = gmpy2.context(precision=400)
_LARGEST = 0x7F7FFFFF


def _rsqrt(x: gmpy2.mpfr) -> gmpy2.mpfr:
    """Infinite at the zeros, with their sign, as the arithmetic says; for MPFR it is positive."""
    return 1 / x if x == 0 else gmpy2.rec_sqrt(x)


def _sigmoid(x: gmpy2.mpfr) -> gmpy2.mpfr:
    """1 / (1 + exp(-x)), rounded from 400 bits."""
    with gmpy2.context(WIDE):
        wide = 1 / (1 + gmpy2.exp(-x))
    return gmpy2.mpfr(wide)


MPFR: Mapping[Function, Callable[..., gmpy2.mpfr]] = {
    Function.EXP: gmpy2.exp,
    Function.EXPM1: gmpy2.expm1,
    Function.EXP2: gmpy2.exp2,
    Function.LOG: gmpy2.log,
    Function.LOG1P: gmpy2.log1p,
    Function.LOG2: gmpy2.log2,
    Function.SIN: gmpy2.sin,
    Function.COS: gmpy2.cos,
    Function.TAN: gmpy2.tan,
    Function.TANH: gmpy2.tanh,
    Function.SINH: gmpy2.sinh,
    Function.COSH: gmpy2.cosh,
    Function.ERF: gmpy2.erf,
    Function.ERFC: gmpy2.erfc,
    Function.RSQRT: _rsqrt,
    Function.SIGMOID: _sigmoid,
    Function.POW: lambda x, y: x**y,
    Function.SQRT: gmpy2.sqrt,
    Function.DIV: lambda x, y=None: 1 / x if y is None else x / y,
}
"""Functions of numbers of any precision, rounded to that of the context."""


def to_float(bits: int) -> float:
    """The number that has a bit pattern."""
    return float(np.uint32(bits).view(np.float32))


def round_exactly(function: Function, *operands: int) -> int:
    """The pattern of the correctly rounded value, from patterns."""
    with gmpy2.context(BINARY32):
        value = float(MPFR[function](*(gmpy2.mpfr(to_float(bits)) for bits in operands)))
    return CANONICAL_NAN if math.isnan(value) else int(np.float32(value).view(np.uint32))


def get_distance(function: Function, operand: int) -> float | None:
    """The distance of a value from the nearest point half way between two neighbours, in ulps.

    None if the operand or the value is infinite or NaN; an ulp is the distance of the neighbours.
    """
    rounded = round_exactly(function, operand)
    if rounded & 0x7FFFFFFF > _LARGEST or not math.isfinite(to_float(operand)):
        return None
    with gmpy2.context(WIDE):
        size = abs(MPFR[function](gmpy2.mpfr(to_float(operand))))
        nearest = rounded & 0x7FFFFFFF
        above, below = _gap(nearest, nearest + 1), _gap(nearest, nearest - 1) if nearest else None
        rest = size - _exact(nearest)
        distances = [abs(rest - above / 2) / above]
        if below is not None:
            distances.append(abs(rest - below / 2) / -below)
        return float(min(distances))


def _exact(bits: int) -> gmpy2.mpfr:
    return gmpy2.mpfr(2) ** 128 if bits > _LARGEST else gmpy2.mpfr(to_float(bits))


def _gap(bits: int, neighbour: int) -> gmpy2.mpfr:
    return _exact(neighbour) - _exact(bits)
