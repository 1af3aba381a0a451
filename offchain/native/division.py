"""Quotients of many float32 numbers by one, without dividing: as IEEE 754 has them, and quicker.

With y = RN(1 / b), the nearest number to the reciprocal, computed once, a quotient takes a product
and one correction by its remainder:

    q = RN(a * y),    r = RN(b * q - a),    q' = RN(q - r * y).

If a is 0, or 2^-100 <= |a| < 2^100, and 2^-24 <= b < 2^24, then q' is RN(a / b), signs of zeros
included. Elsewhere, at infinities, NaNs and negative divisors among others, the processor divides.

Why. All of y, q and q' are normal numbers, as are the quotient and its product with b; r has its
last place at 2^-147 or above. So exponents and the sign of a do not matter: let 1 <= a, b < 2, and
Q = a / b. y errs by 2^-25 at most, whence b * y = 1 + d with |d| <= b * 2^-25 < 2^-24.

- Let u be the distance of neighbours where Q is: 2^-23 if a >= b, 2^-24 if a < b. a * y errs by
  a * 2^-25, less than u / 2 in the first case and less than u in the second, and is on the same
  side of 1 as Q, because a * b < 4; but if a = b, where q' is 1. Rounding adds u / 2 at most.
- Let t = Q - q. If |t| < u, this is Markstein's theorem (P. Markstein, Computation of elementary
  functions on the IBM RISC System/6000 processor, 1990; J.-M. Muller et al., Handbook of Floating-
  Point Arithmetic, on division with a fused multiply-add). r is a multiple of 2^-23 * u, below
  b * u, and so exact: q - r * y is q + t * (1 + d), which rounds as Q = q + t does, unless u / 2 is
  between the two. It never is: a - b * (q + u / 2) is a multiple of 2^-24 * u and not 0, for a
  would have 25 bits, so that |t| is 2^-24 * u / b away from u / 2; and there t * d is
  u / 2 * b * 2^-25, which is less, since b * b < 4 * (1 - 2^-24).
- Otherwise a < b and u <= |t| < 3 / 2 * u: RN(Q) is the next neighbour of q. r may be off by 2^-47,
  so that q - r * y = q + t * (1 + d) + e with |e| <= y * 2^-47; this passes u / 2. It stays below
  3 / 2 * u: let b = 2 - n * 2^-23; a <= b - 2^-23 leaves (n + 1) * 2^-48 between |t| and that, and
  |t * d| + |e| is (3 / 4 * b + 2 / b) * 2^-48 at most, less than 2.76 * 2^-48. If n = 1, it is less
  than 2.51 * 2^-48, and y is off by 2^-25 - 2^-49 only, which leaves 2.99 * 2^-48. (The
  handbook has two corrections for this case; with 24 bits, one is enough.)
- If a is 0, q is a zero of its sign, r is +0, and q - r * y is q.

A divisor that is out of its bounds leaves no dividend in theirs, so that only dividends are looked
at: one comparison of their bits without the sign, and one that finds zeros. A vector in which they
find another dividend is divided as a whole.
"""

from dataclasses import dataclass

from llvmlite import ir

from moot.offchain.native.transcendental import registers
from moot.offchain.native.transcendental.lanes import Lanes
from moot.offchain.native.vectors import FLOAT, INDEX, splat

_PLACES, _BIAS = 23, 127

LEAST_EXPONENT, END_EXPONENT = -100, 100
"""A dividend other than 0 is at least 2 to the former, and less than 2 to the latter."""

LEAST_OF_DIVISORS, END_OF_DIVISORS = -24, 24
"""The same for divisors, which are positive."""

_LEAST_VECTORS = 4
"""Quotients by one divisor, in vectors, that make up for its reciprocal."""


@dataclass(frozen=True, slots=True)
class Divisor:
    """A divisor in every lane, and what is known of it.

    Attributes:
        value: the divisor.
        reciprocal: the nearest number to its reciprocal.
        span: how many bit patterns, times two, from the least dividend on are divided by product.
        zero: the bits of zeros, times two, or a pattern that no dividend has.
    """

    value: Lanes
    reciprocal: Lanes
    span: ir.Value
    zero: ir.Value


def is_worth(lanes: int, count: int) -> bool:
    """Whether so many quotients by one divisor, in vectors of so many lanes, are quicker so."""
    return registers.ARE_USED and registers.fill(lanes) and count >= _LEAST_VECTORS * lanes


def prepare(builder: ir.IRBuilder, divisor: ir.Value) -> Divisor:
    """Look at a divisor, a vector with one float32 number in every lane."""
    lanes = divisor.type.count
    number = builder.extract_element(divisor, INDEX(0))
    least = _get_bits(LEAST_OF_DIVISORS)
    offset = builder.sub(builder.bitcast(number, INDEX), INDEX(least))
    is_usual = builder.icmp_unsigned("<", offset, INDEX(_get_bits(END_OF_DIVISORS) - least))
    span = 2 * (_get_bits(END_EXPONENT) - _get_bits(LEAST_EXPONENT))
    return Divisor(
        Lanes(builder, divisor),
        Lanes(builder, splat(builder, builder.fdiv(FLOAT(1.0), number), lanes)),
        splat(builder, builder.select(is_usual, INDEX(span), INDEX(0)), lanes),
        splat(builder, builder.select(is_usual, INDEX(0), INDEX(1)), lanes),
    )


def divide(builder: ir.IRBuilder, dividends: ir.Value, divisor: Divisor) -> ir.Value:
    """The quotients of a vector of float32 numbers by a divisor."""
    a, b = Lanes(builder, dividends), divisor.value
    quotient = _correct(a, b, divisor.reciprocal, a * divisor.reciprocal)
    doubled = a.bits() << 1
    offset = doubled + -2 * _get_bits(LEAST_EXPONENT)
    is_apart = builder.and_(
        builder.icmp_unsigned(">=", offset.value, divisor.span),
        builder.icmp_unsigned("!=", doubled.value, divisor.zero),
    )
    before, together = builder.block, ir.IntType(dividends.type.count)
    is_any = builder.icmp_unsigned("!=", builder.bitcast(is_apart, together), together(0))
    with builder.if_then(is_any, likely=False):
        divided = a / b
        inside = builder.block
    merged = builder.phi(dividends.type)
    merged.add_incoming(quotient.value, before)
    merged.add_incoming(divided.value, inside)
    return merged


def _correct(a: Lanes, b: Lanes, reciprocal: Lanes, quotient: Lanes) -> Lanes:
    """The quotient, corrected by its remainder, with a sign that leaves zeros as they are."""
    rest = b.times_plus(quotient, -a)
    return (-rest).times_plus(reciprocal, quotient)


def _get_bits(exponent: int) -> int:
    """The bits of a power of two."""
    return exponent + _BIAS << _PLACES
