"""Formulas on vectors of float64, as LLVM IR: arithmetic operators instead of builder calls.

Each operation is IEEE 754's, rounded to nearest even, and stands in the code as it is written here:
no flag lets LLVM contract or reassociate it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from moot.offchain.native.vectors import FLOAT, INDEX, WORD, call, shuffle

_DOUBLE = ir.DoubleType()
TO_INTEGER = 1.5 * 2.0**52
"""Adding this rounds to an integer and leaves it in the lowest bits."""


@dataclass(frozen=True, slots=True)
class Integers:
    """A vector of integers as wide as float64, or as float32; all operations wrap."""

    builder: ir.IRBuilder
    value: ir.Value

    def _constant(self, number: int) -> ir.Value:
        kind = self.value.type
        return ir.Constant(kind, [number % 2**kind.element.width] * kind.count)

    def __add__(self, other: "Integers | int") -> "Integers":
        added = other.value if isinstance(other, Integers) else self._constant(other)
        return Integers(self.builder, self.builder.add(self.value, added))

    def __rsub__(self, number: int) -> "Integers":
        return Integers(self.builder, self.builder.sub(self._constant(number), self.value))

    def __and__(self, number: int) -> "Integers":
        return Integers(self.builder, self.builder.and_(self.value, self._constant(number)))

    def __or__(self, number: int) -> "Integers":
        return Integers(self.builder, self.builder.or_(self.value, self._constant(number)))

    def __xor__(self, other: "Integers") -> "Integers":
        return Integers(self.builder, self.builder.xor(self.value, other.value))

    def __lshift__(self, places: int) -> "Integers":
        return Integers(self.builder, self.builder.shl(self.value, self._constant(places)))

    def __rshift__(self, places: int) -> "Integers":
        return Integers(self.builder, self.builder.lshr(self.value, self._constant(places)))

    def as_lanes(self) -> "Lanes":
        """The numbers that have these bits."""
        element = _DOUBLE if self.value.type.element == WORD else FLOAT
        kind = ir.VectorType(element, self.value.type.count)
        return Lanes(self.builder, self.builder.bitcast(self.value, kind))

    def is_nonzero(self) -> ir.Value:
        """The mask of the lanes that hold another number than 0."""
        return self.builder.icmp_unsigned("!=", self.value, self._constant(0))


@dataclass(frozen=True, slots=True)
class Lanes:
    """A vector of float64, or of float32."""

    builder: ir.IRBuilder
    value: ir.Value

    def of(self, other: "Lanes | float") -> ir.Value:
        """A vector as wide as this one: the other one, or a number in every lane."""
        if isinstance(other, Lanes):
            return other.value
        return ir.Constant(self.value.type, [float(other)] * self.value.type.count)

    def filled(self, number: float) -> "Lanes":
        """A number in every lane."""
        return Lanes(self.builder, self.of(number))

    def _apply(
        self, operation: Callable[..., ir.Value], a: "Lanes | float", b: "Lanes | float"
    ) -> "Lanes":
        return Lanes(self.builder, operation(self.of(a), self.of(b)))

    def __add__(self, other: "Lanes | float") -> "Lanes":
        return self._apply(self.builder.fadd, self, other)

    def __radd__(self, other: float) -> "Lanes":
        return self._apply(self.builder.fadd, other, self)

    def __sub__(self, other: "Lanes | float") -> "Lanes":
        return self._apply(self.builder.fsub, self, other)

    def __rsub__(self, other: float) -> "Lanes":
        return self._apply(self.builder.fsub, other, self)

    def __mul__(self, other: "Lanes | float") -> "Lanes":
        return self._apply(self.builder.fmul, self, other)

    def __rmul__(self, other: float) -> "Lanes":
        return self._apply(self.builder.fmul, other, self)

    def __truediv__(self, other: "Lanes | float") -> "Lanes":
        return self._apply(self.builder.fdiv, self, other)

    def __rtruediv__(self, other: float) -> "Lanes":
        return self._apply(self.builder.fdiv, other, self)

    def __neg__(self) -> "Lanes":
        return Lanes(self.builder, self.builder.fneg(self.value))

    def times_plus(self, factor: "Lanes | float", summand: "Lanes | float") -> "Lanes":
        """Multiply and add, rounding once."""
        operands = [self.value, self.of(factor), self.of(summand)]
        return Lanes(self.builder, call(self.builder, "llvm.fma", operands))

    def __abs__(self) -> "Lanes":
        return Lanes(self.builder, call(self.builder, "llvm.fabs", [self.value]))

    def sqrt(self) -> "Lanes":
        """The square root."""
        return Lanes(self.builder, call(self.builder, "llvm.sqrt", [self.value]))

    def widened(self) -> "Lanes":
        """The same numbers as float64."""
        kind = ir.VectorType(_DOUBLE, self.value.type.count)
        return Lanes(self.builder, self.builder.fpext(self.value, kind))

    def rounded(self) -> "Lanes":
        """The float32 numbers that these of float64 round to."""
        kind = ir.VectorType(FLOAT, self.value.type.count)
        return Lanes(self.builder, self.builder.fptrunc(self.value, kind))

    def bits(self) -> Integers:
        """The bit patterns."""
        integer = WORD if self.value.type.element == _DOUBLE else INDEX
        kind = ir.VectorType(integer, self.value.type.count)
        return Integers(self.builder, self.builder.bitcast(self.value, kind))

    def holds(self, relation: str, other: "Lanes | float") -> ir.Value:
        """The mask of the lanes where `<`, `==` or the like holds; it never does for NaN."""
        return self.builder.fcmp_ordered(relation, self.value, self.of(other))

    def where(self, mask: ir.Value, otherwise: "Lanes | float") -> "Lanes":
        """These lanes where the mask is set, and others elsewhere."""
        chosen = self.builder.select(mask, self.value, self.of(otherwise))
        return Lanes(self.builder, chosen)

    def at_most(self, bound: float) -> "Lanes":
        """The lesser of each lane and the bound; NaN stays."""
        return self.filled(bound).where(self.holds(">", bound), self)

    def at_least(self, bound: float) -> "Lanes":
        """The greater of each lane and the bound; NaN stays."""
        return self.filled(bound).where(self.holds("<", bound), self)

    def with_sign_of(self, other: "Lanes") -> "Lanes":
        """The same magnitudes, with the signs of others."""
        return Lanes(self.builder, call(self.builder, "llvm.copysign", [self.value, other.value]))

    def times_and_round(self, factor: float) -> tuple["Lanes", Integers]:
        """The integers, up to 2^51, that are nearest to products, and their lowest bits."""
        shifted = self.times_plus(factor, TO_INTEGER)
        return shifted - TO_INTEGER, shifted.bits()


def choose(usual: Lanes, is_usual: ir.Value, compute: Callable[[], Lanes]) -> Lanes:
    """The usual values, or what is computed otherwise, which costs nothing where all are usual."""
    builder = usual.builder
    before, together = builder.block, ir.IntType(is_usual.type.count)
    is_any = builder.icmp_unsigned("!=", builder.bitcast(is_usual, together), together(-1))
    with builder.if_then(is_any, likely=False):
        chosen = usual.where(is_usual, compute())
        inside = builder.block
    merged = builder.phi(usual.value.type)
    merged.add_incoming(usual.value, before)
    merged.add_incoming(chosen.value, inside)
    return Lanes(builder, merged)


def look_up(table: Sequence[int], places: Integers) -> Integers:
    """The numbers of a table at places, each modulo its length, which is a power of two.

    Tables and pieces of places that a register holds are looked up by one permutation.
    """
    builder, count = places.builder, places.value.type.count
    numbers = [number % 2**WORD.width for number in table]
    held = ir.Constant(ir.VectorType(WORD, len(table)), numbers)
    places = places & (len(table) - 1)
    length = min(count, len(table))
    pieces = []
    for first in range(0, count, length):
        lanes = list(range(first, first + length))
        piece = shuffle(builder, places.value, places.value, lanes)
        found = ir.Constant(ir.VectorType(WORD, length), ir.Undefined)
        for lane in map(INDEX, range(length)):
            place = builder.extract_element(piece, lane)
            found = builder.insert_element(found, builder.extract_element(held, place), lane)
        pieces.append(found)
    while len(pieces) > 1:
        lanes = list(range(2 * pieces[0].type.count))
        pairs = zip(pieces[::2], pieces[1::2], strict=True)
        pieces = [shuffle(builder, a, b, lanes) for a, b in pairs]
    return Integers(builder, pieces[0])


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """The value at x of a polynomial, lowest power first, by Horner's rule."""
    *rest, second, highest = coefficients
    value = x.times_plus(highest, second)
    for coefficient in reversed(rest):
        value = value.times_plus(x, coefficient)
    return value
