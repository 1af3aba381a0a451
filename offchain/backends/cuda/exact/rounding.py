"""Whole numbers of 128 bits, rounded once to binary32 by a thread.

A number of more bits than binary64 has is rounded to odd first: cut off, and its last place set if
anything was lost. What is rounded to odd like that rounds to the same 24 bits as the number itself.
"""

from llvmlite import ir

from moot.offchain.backends.cuda.kernel import word
from moot.offchain.native.vectors import DOUBLE, FLOAT, WORD

WIDE = ir.IntType(128)
BIT = ir.IntType(1)
_KEPT_BITS = 53
_BIAS, _FRACTION_BITS = 1023, 52


def wide(number: int) -> ir.Constant:
    """Return a constant of 128 bits."""
    return ir.Constant(WIDE, number)


def round_signed(builder: ir.IRBuilder, value: ir.Value, exponent: ir.Value) -> ir.Value:
    """Return the binary32 number nearest to value * 2^exponent, ties to even; +0 of zero."""
    is_negative = builder.icmp_signed("<", value, wide(0))
    magnitude = builder.select(is_negative, builder.neg(value), value)
    return round_magnitude(builder, is_negative, magnitude, exponent)


def round_magnitude(
    builder: ir.IRBuilder, is_negative: ir.Value, magnitude: ir.Value, exponent: ir.Value
) -> ir.Value:
    """Return the binary32 number nearest to a number of this sign, likewise.

    Args:
        builder: where to write.
        is_negative: whether there is a minus sign.
        magnitude: below 2^127, not negative.
        exponent: of 64 bits; the result's magnitude is within the normal numbers of binary64.
    """
    signature = ir.FunctionType(WIDE, [WIDE, BIT])
    count = builder.module.declare_intrinsic("llvm.ctlz.i128", fnty=signature)
    spare = wide(WIDE.width - _KEPT_BITS)
    excess = builder.sub(spare, builder.call(count, [magnitude, BIT(0)]))
    is_short = builder.icmp_signed("<", excess, wide(0))
    excess = builder.select(is_short, wide(0), excess)
    kept = builder.lshr(magnitude, excess)
    is_odd = builder.icmp_unsigned("!=", builder.shl(kept, excess), magnitude)
    bits = builder.trunc(builder.or_(kept, builder.zext(is_odd, WIDE)), WORD)
    power = builder.add(exponent, builder.trunc(excess, WORD))
    field = builder.shl(builder.add(power, word(_BIAS)), word(_FRACTION_BITS))
    found = builder.fmul(builder.uitofp(bits, DOUBLE), builder.bitcast(field, DOUBLE))
    rounded = builder.fptrunc(found, FLOAT)
    return builder.select(is_negative, builder.fneg(rounded), rounded)
