"""Operands of sin, cos and tan, reduced to an eighth of a turn to either side of an axis."""

from dataclasses import dataclass
from functools import cache

from llvmlite import ir

from moot.offchain.native.transcendental.constants import (
    COS_TAIL,
    HALF_PI,
    HALF_PI_LOW,
    SIN_TAIL,
    TWO_OVER_PI,
    TWO_OVER_PI_256,
)
from moot.offchain.native.transcendental.lanes import TO_INTEGER, Integers, Lanes, polynomial
from moot.offchain.native.vectors import INDEX, WORD, splat

_DOUBLE = ir.DoubleType()

_HUGE_EXPONENT = 28
_HUGE = 2.0**_HUGE_EXPONENT
"""Up to here, the fused product of a quarter turn, to 107 bits, is precise enough.

The nearest that any of these operands comes to an axis is about 2^-33, and the product errs by less
than 2^-80. Its first step is exact, as all its bits are from 2^-52 up.
"""

_LAST_EXPONENT = 127
_EXPONENT_BIAS = 1023
_SIGNIFICAND_BITS = 52


@dataclass(frozen=True, slots=True)
class Angle:
    """|x| = quarters * pi / 2 + rest + low, the rest up to pi / 4 and a little, low below its ulp.

    The quarters are an integer modulo 4, in the lowest bits.
    """

    quarters: Integers
    rest: Lanes
    low: Lanes

    def sin_and_cos(self) -> tuple[Lanes, Lanes]:
        """The sine and the cosine of the rest."""
        square = self.rest * self.rest
        bend = (self.rest * square).times_plus(polynomial(square, SIN_TAIL), self.low)
        flat = square.times_plus(polynomial(square, COS_TAIL), -0.5)
        drop = square.times_plus(flat, -(self.rest * self.low))
        return self.rest + bend, 1 + drop

    def is_odd(self) -> ir.Value:
        """The mask of the lanes that lie nearer to the vertical axis."""
        return (self.quarters & 1).is_nonzero()


def reduce_angle(x: Lanes) -> Angle:
    """Reduce numbers that are not negative; infinity and NaN become NaN."""
    builder, usual, is_huge = x.builder, _reduce_usual(x), x.holds(">=", _HUGE)
    before = builder.block
    with builder.if_then(_any(builder, is_huge), likely=False):
        huge = _reduce_huge(x, is_huge)
        chosen = [
            builder.select(is_huge, there, here)
            for there, here in zip(_parts(huge), _parts(usual), strict=True)
        ]
        inside = builder.block
    merged = []
    for here, there in zip(_parts(usual), chosen, strict=True):
        merged.append(phi := builder.phi(there.type))
        phi.add_incoming(here, before)
        phi.add_incoming(there, inside)
    quarters, rest, low = merged
    return Angle(Integers(builder, quarters), Lanes(builder, rest), Lanes(builder, low))


def _parts(angle: Angle) -> list[ir.Value]:
    return [angle.quarters.value, angle.rest.value, angle.low.value]


def _reduce_usual(x: Lanes) -> Angle:
    quarters, bits = x.times_and_round(TWO_OVER_PI)
    exact = quarters.times_plus(-HALF_PI, x)
    rest = quarters.times_plus(-HALF_PI_LOW, exact)
    return Angle(bits, rest, quarters.times_plus(-HALF_PI_LOW, exact - rest))


def _any(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    together = ir.IntType(mask.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(mask, together), together(0))


def _reduce_huge(x: Lanes, huge: ir.Value) -> Angle:
    """Multiply a 24-bit integer with the bits of 2 / pi that matter to the fraction of the product.

    The first two products are exact and have no bits below 2^-52; only the third one is rounded.
    """
    exponents = (x.bits() >> _SIGNIFICAND_BITS) + -(_EXPONENT_BIAS + _HUGE_EXPONENT)
    significand = (x.bits() & (2**_SIGNIFICAND_BITS - 1)) | ((_EXPONENT_BIAS + 23) << 52)
    integer = significand.as_lanes()
    is_finite = x.builder.and_(huge, x.holds("<", 2.0 ** (_LAST_EXPONENT + 1)))
    first, second, third = _look_up(exponents, is_finite)

    high, middle = integer * first, integer * second
    shifted = high + middle + TO_INTEGER
    exact = (high - (shifted - TO_INTEGER)) + middle
    turn = integer.times_plus(third, exact)
    turn_low = integer.times_plus(third, exact - turn)
    rest = turn * HALF_PI
    low = turn.times_plus(HALF_PI, -rest) + turn.times_plus(HALF_PI_LOW, turn_low * HALF_PI)
    return Angle(shifted.bits(), rest, low)


def _look_up(rows: Integers, mask: ir.Value) -> list[Lanes]:
    """The three parts of rows of the table, NaN where the mask is not set."""
    builder, lanes = rows.builder, rows.value.type.count
    doubles = ir.VectorType(_DOUBLE, lanes)
    pointers = ir.VectorType(_DOUBLE.as_pointer(), lanes)
    signature = ir.FunctionType(doubles, [pointers, INDEX, mask.type, doubles])
    name = f"llvm.masked.gather.v{lanes}f64.v{lanes}p0"
    gather = builder.module.declare_intrinsic(name, fnty=signature)
    otherwise = ir.Constant(doubles, [float("nan")] * lanes)
    columns = []
    for column in _two_over_pi_table():
        start = splat(builder, builder.ptrtoint(_table(builder.module, column), WORD), lanes)
        places = builder.inttoptr(builder.add(start, (rows << 3).value), pointers)
        columns.append(Lanes(builder, builder.call(gather, [places, INDEX(8), mask, otherwise])))
    return columns


def _table(module: ir.Module, numbers: tuple[float, ...]) -> ir.GlobalVariable:
    name = f"two_over_pi_{_two_over_pi_table().index(numbers)}"
    if name in module.globals:
        return module.globals[name]
    kind = ir.ArrayType(_DOUBLE, len(numbers))
    table = ir.GlobalVariable(module, kind, name)
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(kind, list(numbers))
    return table


@cache
def _two_over_pi_table() -> tuple[tuple[float, ...], ...]:
    """2^(e - 23) * 2 / pi modulo 4, for each e from that of _HUGE on, as three columns.

    The parts add up: the first has 28 bits, from 2 down to 2^-26, the second one the next 26 bits,
    and the third one what is below 2^-52, rounded.
    """
    parts = []
    for exponent in range(_HUGE_EXPONENT, _LAST_EXPONENT + 1):
        remaining = (TWO_OVER_PI_256 << (exponent - 23)) % 2**258
        row = []
        for unit in (230, 204):
            row.append((remaining >> unit) * 2.0 ** (unit - 256))
            remaining %= 2**unit
        parts.append((*row, remaining / 2**256))
    return tuple(zip(*parts, strict=True))
