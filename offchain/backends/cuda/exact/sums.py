"""Exact sums, each made by one thread: by two-sums, and in whole numbers where these leave a doubt.

A two-sum finds the error of an addition. The sum of all errors is off by so little that both ends
of an interval mostly round to the same number (Ogita, Rump and Oishi, 2005). Otherwise all terms
are added up as integers in the thread's own memory, which is the definition.

Terms are numbers of binary64, which holds every product of two numbers of binary32.
"""

from collections.abc import Callable, Sequence
from functools import reduce

from llvmlite import ir

from moot.offchain.arithmetic.functions import CANONICAL_NAN
from moot.offchain.backends.cuda.exact.rounding import BIT, WIDE, round_magnitude, wide
from moot.offchain.backends.cuda.kernel import Context, word
from moot.offchain.backends.cuda.loops import repeat_together
from moot.offchain.native import vectors
from moot.offchain.native.vectors import DOUBLE, FLOAT, INDEX, WORD

UNIT = 2.0**-52
"""The greatest relative error of an operation in binary64."""

MOST_TERMS = 1 << 30
"""Terms whose limbs 64 bits hold."""

_LIMBS, _LIMB_BITS, _LOW = 21, 32, (1 << 32) - 1
_LEAST_EXPONENT = -352
"""The first limb counts in 2^-352, the others in 2^32 times the unit before them: the last bit of
a term is worth at least 2^-350, and no term has 2^257."""

OWN_BYTES = _LIMBS * 8
"""The memory of a thread that adds up."""

_BIAS, _FRACTION_BITS, _FIELD = 1023, 52, 0x7FF
_MINUS_ZERO = -(1 << 63)

_TOGETHER = 8
"""Terms that a thread asks for at once, so that it waits once for all of them."""

Terms = Callable[[ir.Value], ir.Value]
"""(number of a term, from 0) -> the term, a number of binary64."""


def add_up(context: Context, start: ir.Value, count: int, terms: Terms) -> ir.Value:
    """Return the exact sum, rounded once to binary32.

    Args:
        context: of a kernel whose threads have `OWN_BYTES`.
        start: the initial term.
        count: how many terms there are besides, from 1 to `MOST_TERMS`.
        terms: writes a term; it is asked twice.
    """
    builder = context.builder
    quick, is_doubtful = _add_twice(context, start, count, terms)
    before = builder.block
    with builder.if_then(is_doubtful):
        whole = _add_whole(context, start, count, terms)
        inside = builder.block
    found = builder.phi(FLOAT)
    found.add_incoming(quick, before)
    found.add_incoming(whole, inside)
    return found


def _is_other(builder: ir.IRBuilder, term: ir.Value) -> ir.Value:
    """Whether a term is anything but -0."""
    return builder.icmp_signed("!=", builder.bitcast(term, WORD), word(_MINUS_ZERO))


def _add_twice(
    context: Context, start: ir.Value, count: int, terms: Terms
) -> tuple[ir.Value, ir.Value]:
    """Return the sum by two-sums, and whether it is in doubt."""
    builder = context.builder

    def step(term: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
        total, errors, made, others = before
        after = builder.fadd(total, term)
        shown = builder.fsub(after, total)
        lost = builder.fsub(total, builder.fsub(after, shown))
        error = builder.fadd(lost, builder.fsub(term, shown))
        magnitude = builder.fadd(made, vectors.call(builder, "llvm.fabs", [error]))
        others = builder.or_(others, _is_other(builder, term))
        return [after, builder.fadd(errors, error), magnitude, others]

    zero = ir.Constant(DOUBLE, 0.0)
    begun = [start, zero, zero, _is_other(builder, start)]
    total, errors, made, others = _run_through(builder, count, terms, begun, step)
    middle = builder.fadd(total, errors)
    size = vectors.call(builder, "llvm.fabs", [middle])
    slack = builder.fadd(
        builder.fmul(made, ir.Constant(DOUBLE, 2 * (count + 1) * UNIT)),
        builder.fmul(size, ir.Constant(DOUBLE, 4 * UNIT)),
    )
    low, high = (
        builder.fptrunc(end, FLOAT)
        for end in (builder.fsub(middle, slack), builder.fadd(middle, slack))
    )
    is_open = builder.or_(
        builder.fcmp_unordered("!=", low, high), builder.fcmp_ordered("==", low, FLOAT(0.0))
    )
    sized = vectors.call(builder, "llvm.fabs", [total])
    is_infinite = builder.fcmp_ordered("==", sized, ir.Constant(DOUBLE, float("inf")))
    is_known = builder.or_(builder.fcmp_ordered("==", made, zero), is_infinite)
    is_nan = builder.fcmp_unordered("uno", total, total)
    found = builder.select(is_known, builder.fptrunc(total, FLOAT), low)
    is_zero = builder.and_(is_known, builder.fcmp_ordered("==", total, zero))
    signed = builder.select(others, FLOAT(0.0), FLOAT(-0.0))
    found = builder.select(is_zero, signed, found)
    found = builder.select(is_nan, builder.bitcast(INDEX(CANONICAL_NAN), FLOAT), found)
    return found, builder.and_(is_open, builder.not_(builder.or_(is_known, is_nan)))


def _place(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    return builder.shl(number, word(3))


def _add_whole(context: Context, start: ir.Value, count: int, terms: Terms) -> ir.Value:
    """Return the sum of finite terms in whole numbers; one of them is not -0."""
    builder = context.builder
    for number in range(_LIMBS):
        context.store_own(word(0), word(8 * number))
    _add_term(context, start)

    def step(term: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        _add_term(context, term)
        return []

    _run_through(builder, count, terms, [], step)
    return _finish(context)


def _run_through(
    builder: ir.IRBuilder,
    count: int,
    terms: Terms,
    begun: Sequence[ir.Value],
    step: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Run `state = step(term, state)` for all terms."""

    def body(numbers: Sequence[ir.Value], before: list[ir.Value]) -> Sequence[ir.Value]:
        return reduce(lambda state, term: step(term, state), list(map(terms, numbers)), before)

    return repeat_together(builder, count, begun, _TOGETHER, body)


def _add_term(context: Context, term: ir.Value) -> None:
    """Add a finite number to three limbs."""
    builder = context.builder
    bits = builder.bitcast(term, WORD)
    field = builder.and_(builder.lshr(bits, word(_FRACTION_BITS)), word(_FIELD))
    is_zero = builder.icmp_unsigned("==", field, word(0))
    fraction = builder.and_(bits, word((1 << _FRACTION_BITS) - 1))
    significand = builder.or_(fraction, word(1 << _FRACTION_BITS))
    significand = builder.select(is_zero, word(0), significand)
    place = builder.sub(field, word(_BIAS + _FRACTION_BITS + _LEAST_EXPONENT))
    place = builder.select(is_zero, word(0), place)
    limb, shift = builder.lshr(place, word(5)), builder.and_(place, word(_LIMB_BITS - 1))
    low = builder.shl(builder.and_(significand, word(_LOW)), shift)
    high = builder.shl(builder.lshr(significand, word(_LIMB_BITS)), shift)
    carried = builder.lshr(low, word(_LIMB_BITS))
    pieces = (
        builder.and_(low, word(_LOW)),
        builder.add(carried, builder.and_(high, word(_LOW))),
        builder.lshr(high, word(_LIMB_BITS)),
    )
    is_negative = builder.icmp_signed("<", bits, word(0))
    for number, piece in enumerate(pieces):
        offset = _place(builder, builder.add(limb, word(number)))
        added = builder.select(is_negative, builder.neg(piece), piece)
        context.store_own(builder.add(context.load_own(WORD, offset), added), offset)


def _finish(context: Context) -> ir.Value:
    """Return what the limbs are, rounded."""
    builder = context.builder

    def carry(number: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
        offset = _place(builder, number)
        limb = builder.add(context.load_own(WORD, offset), before[0])
        context.store_own(builder.and_(limb, word(_LOW)), offset)
        return [builder.ashr(limb, word(_LIMB_BITS))]

    (last,) = vectors.repeat(builder, word(_LIMBS), [word(0)], carry)
    is_negative = builder.icmp_signed("<", last, word(0))

    def climb(number: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
        """Go up the magnitude's limbs, and keep the highest that is not zero, with two below it."""
        more, window, below, top, kept = before
        limb = context.load_own(WORD, _place(builder, number))
        turned = builder.add(builder.xor(limb, word(_LOW)), more)
        limb = builder.select(is_negative, turned, limb)
        more, limb = builder.lshr(limb, word(_LIMB_BITS)), builder.and_(limb, word(_LOW))
        lowest = builder.and_(window, wide(_LOW))
        below = builder.or_(below, builder.icmp_unsigned("!=", lowest, wide(0)))
        shifted = builder.shl(builder.zext(limb, WIDE), wide(2 * _LIMB_BITS))
        window = builder.or_(builder.lshr(window, wide(_LIMB_BITS)), shifted)
        is_some = builder.icmp_unsigned("!=", limb, word(0))
        found = builder.or_(window, builder.zext(below, WIDE))
        top, kept = builder.select(is_some, number, top), builder.select(is_some, found, kept)
        return [more, window, below, top, kept]

    begun = [word(1), wide(0), BIT(0), word(0), wide(0)]
    *_, top, kept = vectors.repeat(builder, word(_LIMBS), begun, climb)
    exponent = builder.mul(builder.sub(top, word(2)), word(_LIMB_BITS))
    exponent = builder.add(exponent, word(_LEAST_EXPONENT))
    is_negative = builder.and_(is_negative, builder.icmp_unsigned("!=", kept, wide(0)))
    return round_magnitude(builder, is_negative, kept, exponent)
