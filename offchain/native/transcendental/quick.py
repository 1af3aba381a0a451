"""Functions in pairs of float32, sixteen lanes at once: most results, and which ones are certain.

Such a pair, a number and a low word, holds a value to some 2^-35 of itself, which decides how it
rounds to float32 but for about one operand in a thousand. A road gives an `Estimate`: two bounds,
with the value of the function between them. Rounding is monotone, so that where both bounds round
to the same number, the value does, whatever lies between. Where they do not, and for operands that
a road does not take, the formula in float64 decides. Vectors without such lanes skip it; it is a
function of its own, once for each module. What a formula makes of NaN is neither equal nor above a
bound, so that no NaN is certain.

Why the value is between the bounds, in relative errors; a rounding has 2^-24, and a low word below
2^-14 of the value therefore 2^-38:

- exp(n / 32 * log(2) + r) = 2^(n / 32) * exp(r), with |r| < 2^-6.5. The product of n and the first
  part of log(2) / 32 leaves r exact; what is left of log(2), and of the table's rounding, is added
  to r, a rounding of 2^-31 that moves the square by 2^-37.5. The tail's rounding costs as much, the
  square, the small sum and the low word 2^-38 each, the interpolation 2^-41: 2^-35.4 in all. The
  sum of the power and its product with r is exact in two words, one fused operation each.
- A sigmoid divides 1 by 1 + exp(-x), whose two words are exact but for the low one. An estimate of
  the reciprocal, to 2^-14, leaves an error below 2^-13, of which the first two powers count: the
  third is 2^-39, the four roundings 2^-38 each: 2^-34.5 with those of exp, 2^-35.4 of which counts
  in full at worst.
- tanh(a + b) = (tanh(a) + t) / (1 + tanh(a) * t), with t = tanh(b), for an anchor a close by whose
  tanh the table holds to 2^-40. Its interval has |b| < x / 2, or a is 0, and |b| up to 2^-4.9 below
  0.34, 2^-3.9 below 1.34, 2^-2.9 below 3.34, where a change of t moves the result by 1 - tanh(a)^2
  of itself only. t = b + b^3 * p is exact in two words but for p and the cube, of 2^-22.4 of a part
  that is at most 2^-11.9 of the result; all after that is exact in two words, and the quotient is
  corrected by its remainder: 2^-34.1 in all.
- 1 / sqrt(x) is an estimate y, to 2^-14, times 1 + e / 2 + 3 e^2 / 8, with e = 1 - x * y^2, whose
  next power is 2^-40.7. e errs by 2^-37, half of which counts, the rest by 2^-37.4: 2^-36.6.

The exponent of exp is put in at the end, which rounds again where the result is subnormal: those
are not certain. It is not put in where exp rounds to 0, as of a mask's -infinity. The other roads
have no number below 2^-126 that matters: tanh of a tiny operand is the operand, since a is 0,
1 + tanh(a) * t is 1 and only b is left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from moot.offchain.arithmetic.functions import Function
from moot.offchain.native.transcendental import registers
from moot.offchain.native.transcendental.lanes import Lanes, choose, polynomial
from moot.offchain.native.transcendental.quick_tables import (
    ANCHOR_BITS,
    ANCHOR_SHIFT,
    ANCHOR_VALUES,
    ANCHORS,
    EXP_TAIL_32,
    LN2_STEP,
    POWERS,
    POWERS_LOW,
    STEPS,
    TANH_TAIL,
)

_TO_INTEGER = 1.5 * 2.0**23
"""Adding this rounds to an integer and leaves it in the lowest bits."""

_SIGN = 1 << 31
_PLACES = 23

_LOWEST, _HIGHEST = -105.0, 90.0
"""Beyond these, exp rounds as it does here."""

_EXP_IS_0 = -104.0
"""Below this, exp rounds to 0."""

_SIGMOID_IS_1 = 20.0
_SIGMOID_IS_LEAST = -87.0
"""Below this, a sigmoid may be subnormal."""

_TANH_IS_1 = 9.25

EXP_MARGIN = 2.0**-35.3
SIGMOID_MARGIN = 2.0**-34.4
TANH_MARGIN = 2.0**-34
RSQRT_MARGIN = 2.0**-36.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """Two bounds of a value: base + factor * lower, and base + factor * upper.

    Attributes:
        base: the number that the bounds share.
        lower: the low word of the bound that is nearer to 0.
        upper: that of the other one.
        factor: what the low words are multiplied with; 1 if None.
        scale: an exponent, and the mask of the lanes whose value rounds to 0 with it: the value is
            2^floor(exponent) times this one; 1 time if None.
        is_meant: the mask of the lanes that the bounds hold for; all if None.
    """

    base: Lanes
    lower: Lanes
    upper: Lanes
    factor: Lanes | None = None
    scale: tuple[Lanes, ir.Value] | None = None
    is_meant: ir.Value | None = None

    def round(self) -> tuple[Lanes, ir.Value]:
        """The rounded values, and the mask of those that are certain."""
        value, other = (self._add(low) for low in (self.lower, self.upper))
        is_certain, builder = value.holds("==", other), value.builder
        if self.scale is not None:
            exponent, is_zero = self.scale
            value = registers.scale(value, exponent, builder.not_(is_zero))
            is_certain = builder.and_(is_certain, builder.not_(registers.is_subnormal(value)))
        if self.is_meant is not None:
            is_certain = builder.and_(is_certain, self.is_meant)
        return value, is_certain

    def _add(self, low: Lanes) -> Lanes:
        return self.base + low if self.factor is None else low.times_plus(self.factor, self.base)


Formula = Callable[[ir.IRBuilder, Function, ir.Value], ir.Value]
"""(builder, function, x) -> all results, right and slow."""


def is_taken(function: Function, lanes: int) -> bool:
    """Whether a function of so many lanes is computed like this here."""
    return registers.ARE_USED and registers.fill(lanes) and function in ROADS


def emit(builder: ir.IRBuilder, function: Function, x: ir.Value, formula: Formula) -> ir.Value:
    """Emit code that applies a function to every lane.

    Args:
        builder: where to emit it.
        function: one of `ROADS`.
        x: a vector of float32 that fills registers.
        formula: what emits the results that are not certain.
    """
    operand = Lanes(builder, x)
    value, is_certain = estimate(function, operand).round()
    if function in _ODD:
        value = (value.bits() ^ (operand.bits() & _SIGN)).as_lanes()
    split = partial(registers.split, builder)
    results = []
    for usual, is_usual, part in zip(*map(split, (value.value, is_certain, x)), strict=True):
        apart = _set_apart(builder.module, function, part.type, formula)

        def decide(part: ir.Value = part, apart: ir.Function = apart) -> Lanes:
            return Lanes(builder, builder.call(apart, [part]))

        results.append(choose(Lanes(builder, usual), is_usual, decide).value)
    return registers.join(builder, results)


def estimate(function: Function, x: Lanes) -> Estimate:
    """The bounds of a function's value; of an odd function's, those of its magnitude."""
    return ROADS[function](x)


def _set_apart(
    module: ir.Module, function: Function, kind: ir.VectorType, formula: Formula
) -> ir.Function:
    """The module's own function that evaluates a formula; it is rarely called, and stays apart."""
    name = f"{function.name.lower()}_of_{kind.count}"
    if name in module.globals:
        return module.globals[name]
    apart = ir.Function(module, ir.FunctionType(kind, [kind]), name)
    apart.linkage = "internal"
    apart.attributes.add("noinline")
    apart.attributes.add("cold")
    builder = ir.IRBuilder(apart.append_basic_block())
    builder.ret(formula(builder, function, apart.args[0]))
    return apart


@dataclass(frozen=True, slots=True)
class _Exponential:
    """power * exp(r) = base + low, with 2^(steps / 32) = power, but for whole powers of two."""

    steps: Lanes
    power: Lanes
    base: Lanes
    low: Lanes


def _exponential(x: Lanes, sign: int, less: float = 0.0, *, is_whole: bool) -> _Exponential:
    """exp(sign * x) in two words.

    Args:
        x: operands, of a magnitude below some thousands.
        sign: 1 or -1.
        less: what the exponential is lessened by, of itself.
        is_whole: whether the power of two is put in; it must not leave the normal numbers.
    """
    step, step_low = LN2_STEP
    first, second, third = EXP_TAIL_32
    shifted = x.times_plus(sign / step, _TO_INTEGER)
    places, steps = shifted.bits(), shifted - _TO_INTEGER
    r = steps.times_plus(-sign * step, x)
    table = [sign * (low - less) for low in POWERS_LOW]
    low = steps.times_plus(-sign * step_low, registers.look_up(table, places))
    total = r + low
    tail = polynomial(total, (first, sign * second, third))
    small = (total * total).times_plus(tail, low if sign > 0 else -low)
    if is_whole:
        bits = _PLACES + 1 - STEPS.bit_length()
        numbers = registers.lessen(POWERS, bits, is_single=True)
        power = (registers.look_up(numbers, places).bits() + (places << bits)).as_lanes()
    else:
        power = registers.look_up(POWERS, places)
    r = r if sign > 0 else -r
    base = power.times_plus(r, power)
    rest = power.times_plus(r, power - base)
    return _Exponential(steps, power, base, power.times_plus(small, rest))


def _exp(x: Lanes) -> Estimate:
    found = _exponential(x.at_least(_LOWEST).at_most(_HIGHEST), 1, EXP_MARGIN, is_whole=False)
    upper = found.power.times_plus(2 * EXP_MARGIN, found.low)
    is_zero = x.holds("<", _EXP_IS_0)
    return Estimate(found.base, found.low, upper, scale=(found.steps * (1 / STEPS), is_zero))


def _sigmoid(x: Lanes) -> Estimate:
    found = _exponential(x.at_most(_SIGMOID_IS_1), -1, is_whole=True)
    odds = found.base
    divisor, is_less = odds + 1, odds.holds("<", 1)
    greater, lesser = odds.filled(1).where(is_less, odds), odds.where(is_less, 1)
    divisor_low = ((greater - divisor) + lesser) + found.low
    near = registers.estimate_reciprocal(divisor)
    error = (-near).times_plus(divisor_low, (-near).times_plus(divisor, 1))
    rise = error.times_plus(error, error)
    is_meant = x.holds(">", _SIGMOID_IS_LEAST)
    return Estimate(
        near, rise - SIGMOID_MARGIN, rise + SIGMOID_MARGIN, factor=near, is_meant=is_meant
    )


def _tanh(x: Lanes) -> Estimate:
    size = abs(x).at_most(_TANH_IS_1)
    places = (size + ANCHOR_SHIFT).bits() >> ANCHOR_BITS
    known = registers.look_up(ANCHOR_VALUES, places)
    distance = size - registers.look_up(ANCHORS, places)
    square = distance * distance
    cube, tail = distance * square, polynomial(square, TANH_TAIL)
    added = cube.times_plus(tail, distance)
    added_low = cube.times_plus(tail, distance - added)

    sum_ = known + added
    sum_low = ((known - sum_) + added) + added_low
    divisor = known.times_plus(added, 1)
    divisor_low = known.times_plus(added_low, known.times_plus(added, 1 - divisor))
    near = registers.estimate_reciprocal(divisor)
    near = near.times_plus((-near).times_plus(divisor, 1), near)
    quotient = sum_ * near
    rest = (-quotient).times_plus(divisor_low, (-quotient).times_plus(divisor, sum_) + sum_low)
    lower, upper = (sum_.times_plus(m, rest) for m in (-TANH_MARGIN, TANH_MARGIN))
    return Estimate(quotient, lower, upper, factor=near)


def _rsqrt(x: Lanes) -> Estimate:
    near = registers.estimate_inverse_root(x)
    product = x * near
    rest = x.times_plus(near, -product)
    error = (-rest).times_plus(near, (-product).times_plus(near, 1))
    growth = error.times_plus(0.375, 0.5)
    lower, upper = (error.times_plus(growth, m) for m in (-RSQRT_MARGIN, RSQRT_MARGIN))
    return Estimate(near, lower, upper, factor=near)


ROADS: Mapping[Function, Callable[[Lanes], Estimate]] = {
    Function.EXP: _exp,
    Function.SIGMOID: _sigmoid,
    Function.TANH: _tanh,
    Function.RSQRT: _rsqrt,
}

_ODD = frozenset({Function.TANH})
