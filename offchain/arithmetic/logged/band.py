"""The band around a rounding boundary in which the entry of a log decides: exact integers.

A boundary is the middle of two neighbouring binary32 numbers, finite, other than zero and of one
sign. Its band reaches 8 E to both sides, if that is at most a quarter of the neighbours' distance;
otherwise it has none. E is what binary64 operators may err by, each by 2^-52 at most of its result
(so that it does not matter which way they round):

    a sum           E = 2^-52 (D S + 2 |t|) with S the sum of the magnitudes of its terms, of which
                    none is infinite or NaN, t its initial term, and D = depth(terms + 1)
    a scatter       likewise, with D the number of terms that land on the element, and one more
    a function      E = 2^-46 |b| with b the boundary

But where S + |t| <= 2^52 g, with g the largest power of two of which t and all terms are multiples,
every sum of some of them is a number of binary64: it makes no error, and there is no band. (Sums of
a few numbers are often half way between two others.)

So whether an entry counts follows from the operands alone, whoever computes, however it rounds.
Two bands never meet: the nearest two boundaries are three quarters of the larger distance apart.

**Who needs what.** Let v be computed with an error of at most E, and E' be E as it is computed:
from E to 1.05 E. A trainer logs where |v - b| <= 3.25 E', and there the exact value x is within
4.42 E of b, inside the band. Where it doesn't, |x - b| > 2.25 E, so that every auditor, whose w is
within E of x, finds |w - b| > 1.25 E > E': it rounds w, and knows that x rounds likewise. Where an
element is logged it finds |w - b| <= 5.42 E <= 6 E', from which it knows that |x - b| <= 7.3 E,
inside the band. So two honest parties never need an exact value, unless there is no band (where
sums cancel).
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

import mpmath
from mpmath import libmp

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.exact import sums
from moot.offchain.arithmetic.functions import DType, Function

CHUNK = 128
"""Terms that are added up by themselves, before such sums are, and so on."""

UNIT_EXPONENT = -52
FUNCTION_EXPONENT = -46
"""E of a sum in units, and of a function relative to the boundary, as powers of two."""

EXACT_BITS = 52
"""The multiples of a number that binary64 has exactly: up to two to this power of them."""

REACH = 8
"""The band's half width, in multiples of E."""

LOGGED_WITHIN, OBEYED_WITHIN = 3.25, 6.0
"""How near v is to a boundary where trainers log, and where auditors obey, in multiples of E'."""

BAND_SHARE = 4
"""The band's half width is at most the neighbours' distance over this."""

_NOTHING = sums.begin(float32.NEGATIVE_ZERO)

_PRECISION_BITS = 256
_KEPT_BITS = 160
"""A real value is taken as its nearest number of so many bits, and computed with more."""

_REAL = mpmath.MPContext()
_REAL.prec = _PRECISION_BITS

_EVALUATIONS = {
    Function.EXP: _REAL.exp,
    Function.EXPM1: _REAL.expm1,
    Function.EXP2: lambda x: _REAL.power(2, x),
    Function.LOG: _REAL.log,
    Function.LOG1P: _REAL.log1p,
    Function.LOG2: lambda x: _REAL.log(x) / _REAL.ln2,
    Function.SIN: _REAL.sin,
    Function.COS: _REAL.cos,
    Function.TAN: _REAL.tan,
    Function.TANH: _REAL.tanh,
    Function.SINH: _REAL.sinh,
    Function.COSH: _REAL.cosh,
    Function.ERF: _REAL.erf,
    Function.ERFC: _REAL.erfc,
    Function.RSQRT: lambda x: 1 / _REAL.sqrt(x),
    Function.SIGMOID: lambda x: 1 / (1 + _REAL.exp(-x)),
    Function.POW: _REAL.power,
}


def depth(terms: int) -> int:
    """Return how many additions each of so many terms goes through at most, in chunks."""
    return terms if terms <= CHUNK else CHUNK + depth(-(-terms // CHUNK))


def choose_sum(
    initial: int, terms: Sequence[Sequence[int]], additions: int, *, up: bool
) -> int | None:
    """Return what an entry makes of a sum, given its direction; None if the entry is void.

    Args:
        initial: the bits of the initial term.
        terms: the bits of the other terms: two factors each, or one number.
        additions: D.
        up: the direction.
    """
    found = [sums.get_finite(sums.advance(_NOTHING, term)) for term in terms]
    start = sums.get_finite(sums.begin(initial))
    finite = [term for term in found if term is not None]
    if start is None or len(finite) < len(found):
        return None
    magnitude = sum(map(abs, finite))
    bits = reduce(or_, map(abs, finite), abs(start))
    if magnitude + abs(start) <= (bits & -bits) << EXACT_BITS:
        return None
    total = reduce(sums.advance, terms, sums.begin(initial))
    error = additions * magnitude + 2 * abs(start)
    for low, high in _find_neighbours(sums.finish(total)):
        middle, distance = _scale(low) + _scale(high), _scale(high) - _scale(low)
        # The band's whole width, and what is compared with it, both times 2^52.
        width = 2 * REACH * error
        is_near = abs(2 * (start + sum(finite)) - middle) << -UNIT_EXPONENT <= width
        if is_near and BAND_SHARE * width <= 2 * distance << -UNIT_EXPONENT:
            return high if up else low
    return None


def choose_function(function: Function, operands: Sequence[int], *, up: bool) -> int | None:
    """Return what an entry makes of a transcendental function of the bits of some operands."""
    if any(float32.is_nan(x) or float32.is_infinite(x) for x in operands):
        return None
    types = (DType.FLOAT32,) * len(operands)
    rounded = evaluate(function, types, DType.FLOAT32, operands)
    for low, high in _find_neighbours(rounded):
        middle = (_as_real(low) + _as_real(high)) / 2
        value = _EVALUATIONS[function](*map(_as_real, operands))
        kept = _REAL.make_mpf(libmp.mpf_pos(value._mpf_, _KEPT_BITS))
        reach = _REAL.ldexp(abs(middle), FUNCTION_EXPONENT) * REACH
        if abs(kept - middle) <= reach:
            return high if up else low
    return None


def _find_neighbours(rounded: int) -> list[tuple[int, int]]:
    """Return the numbers on both sides of the boundaries next to a number, the lower one first."""
    if float32.magnitude(rounded) >= float32.INFINITY:
        return []
    size, negative = float32.magnitude(rounded), float32.sign(rounded)
    pairs = [(size - 1, size), (size, size + 1)]
    found = [(a, b) for a, b in pairs if a > 0 and b < float32.INFINITY]
    if not negative:
        return found
    return [(float32.with_sign(1, b), float32.with_sign(1, a)) for a, b in found]


def _scale(x: int) -> int:
    """Return a finite number in the units of sums."""
    finite = sums.get_finite(sums.begin(x))
    return 0 if finite is None else finite


def _as_real(x: int) -> mpmath.mpf:
    significand, exponent = float32.decode(x)
    return _REAL.ldexp(_REAL.mpf(significand), exponent)
