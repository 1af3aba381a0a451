"""Powers in float64 to 2^-48 of their value, and whether that decides their float32 rounding.

Where registers have 512 bits, an estimate to 2^-39 comes first, which is enough for all but one
lane in ten thousand. Tables of 16 shorten both polynomials, and the logarithm is one number: it
errs by 2^-46 of itself, for what a table adds to the polynomial is 0 around 1, and elsewhere the
logarithm of a significand is above 2^-4.2. A power that is not 0 or infinity is 2^p with |p| below
151, so that p errs by 2^-38.8, and the power by 2^-39.3 of itself.
"""

import math

from llvmlite import ir

from moot.offchain.native.transcendental import registers
from moot.offchain.native.transcendental.constants import (
    EXP2_STEPS,
    EXP2_TAIL,
    LN2,
    LOG2_DIVISORS,
    LOG2_E,
    LOG2_E_LOW,
    LOG2_PIECES,
    LOG2_TAIL,
)
from moot.offchain.native.transcendental.lanes import Lanes, choose, polynomial
from moot.offchain.native.transcendental.pieces import (
    FROM_SQRT_HALF,
    PLACES,
    exp_less_1,
    log_1_plus,
    power_of_2,
    split_significand,
)

_MARGIN = 2.0**-46
QUICK_MARGIN = 2.0**-38.5
_FAR = 200.0
"""Beyond this, powers of two are 0 or infinity in float32."""

_STEPS = len(EXP2_STEPS)

_EVEN = 2.0**30
"""From 2^24 on, every float32 is an even integer."""

_SIGN = 1 << 63


def emit_power(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Emit code that raises every lane of x to that of y.

    Args:
        builder: where to emit it.
        x: a vector of float32, of any number of lanes.
        y: likewise.

    Returns:
        A vector of float32 and a mask of the lanes whose values are in doubt; the others hold the
        correctly rounded values, but in place of a NaN, any NaN.
    """
    is_usual = _is_usual(Lanes(builder, x), Lanes(builder, y))
    base, exponent = Lanes(builder, x).widened(), Lanes(builder, y).widened()
    if not (registers.ARE_USED and registers.fill(x.type.count)):
        return _decide(is_usual, base, exponent)
    low, high = _round_both_ways(_estimate(base, exponent), QUICK_MARGIN)
    is_certain = builder.and_(is_usual, low.holds("==", high))
    before, together = builder.block, ir.IntType(is_certain.type.count)
    is_any = builder.icmp_unsigned("!=", builder.bitcast(is_certain, together), together(-1))
    with builder.if_then(is_any, likely=False):
        decided = _decide(is_usual, base, exponent)
        inside = builder.block
    merged = []
    for usual, found in zip((low.value, ir.Constant(is_certain.type, None)), decided, strict=True):
        merged.append(phi := builder.phi(usual.type))
        phi.add_incoming(usual, before)
        phi.add_incoming(found, inside)
    value, is_doubtful = merged
    return value, is_doubtful


def _decide(is_usual: ir.Value, base: Lanes, exponent: Lanes) -> tuple[ir.Value, ir.Value]:
    usual = _magnitude(exponent, *_log2(base))
    value = choose(usual, is_usual, lambda: _at_any_operands(base, exponent))
    low, high = _round_both_ways(value, _MARGIN)
    return low.value, low.holds("!=", high)


def _round_both_ways(value: Lanes, margin: float) -> tuple[Lanes, Lanes]:
    return (value * (1 - margin)).rounded(), (value * (1 + margin)).rounded()


def _estimate(base: Lanes, exponent: Lanes) -> Lanes:
    """base^exponent for a positive base, both finite."""
    m, k = split_significand(base)
    bits_below = PLACES + 1 - _STEPS.bit_length()
    places = (base.bits() + FROM_SQRT_HALF) >> bits_below
    rest = m.times_plus(registers.look_up(LOG2_DIVISORS, places), -1)
    piece = registers.look_up(LOG2_PIECES, places)
    logarithm = k + rest.times_plus(polynomial(rest, LOG2_TAIL), piece)
    power = (exponent * logarithm).at_least(-_FAR).at_most(_FAR)
    steps, bits = power.times_and_round(_STEPS)
    fraction = steps.times_plus(-1 / _STEPS, power)
    powers = registers.lessen(EXP2_STEPS, bits_below, is_single=False)
    scale = (registers.look_up(powers, bits).bits() + (bits << bits_below)).as_lanes()
    return scale.times_plus(fraction * polynomial(fraction, EXP2_TAIL), scale)


def _is_usual(x: Lanes, y: Lanes) -> ir.Value:
    """The mask of the lanes with a positive base, and both operands finite."""
    both = x.builder.and_(x.holds(">", 0), x.holds("<", math.inf))
    return x.builder.and_(both, abs(y).holds("<", math.inf))


def _magnitude(exponent: Lanes, high: Lanes, low: Lanes) -> Lanes:
    """exp2(exponent * log2(base)); only the sum of the logarithm's two parts is precise enough."""
    power = exponent * high
    power_low = exponent.times_plus(high, -power) + exponent * low
    is_near = abs(power).holds("<=", _FAR)
    power = power.at_least(-_FAR).at_most(_FAR)
    integer, bits = power.times_and_round(1.0)
    fraction = (power - integer) + power_low.where(is_near, 0.0)
    scale = power_of_2(bits)
    return scale.times_plus(exp_less_1(fraction * LN2), scale)


def _log2(x: Lanes) -> tuple[Lanes, Lanes]:
    """log2(x) for positive numbers, as a number and a correction, to 2^-56 of the value."""
    m, k = split_significand(x)
    main, tail = log_1_plus(m - 1)
    half_divisor = (m + 1) * 0.5
    main_low = main.times_plus(-half_divisor, m - 1) / half_divisor + tail
    product = main * LOG2_E
    product_low = main.times_plus(LOG2_E, -product) + main.times_plus(LOG2_E_LOW, main_low * LOG2_E)
    high = k + product
    low = (k - high) + product + product_low
    total = high + low
    return total, (high - total) + low


def _at_any_operands(base: Lanes, exponent: Lanes) -> Lanes:
    """The power, with the special values of C's pow."""
    builder = base.builder
    size, bound = abs(base), exponent.at_least(-_EVEN).at_most(_EVEN)
    high, low = _log2(size)
    high = high.where(size.holds("<", math.inf), size)
    high = high.filled(-math.inf).where(size.holds("==", 0), high)
    magnitude = _magnitude(exponent, high, low)
    integer, bits = bound.times_and_round(1.0)
    is_integer = integer.holds("==", bound)
    is_negative = (base.bits() & _SIGN).is_nonzero()

    is_unit = builder.and_(size.holds("==", 1), exponent.holds("==", exponent))
    value = magnitude.filled(1).where(is_unit, magnitude)
    is_flipped = builder.and_(is_negative, builder.and_(is_integer, (bits & 1).is_nonzero()))
    value = (-value).where(is_flipped, value)
    is_between = builder.and_(size.holds(">", 0), size.holds("<", math.inf))
    is_real = builder.or_(is_integer, builder.not_(builder.and_(is_negative, is_between)))
    value = value.where(is_real, math.nan)
    is_one = builder.or_(exponent.holds("==", 0), base.holds("==", 1))
    return value.filled(1).where(is_one, value)
