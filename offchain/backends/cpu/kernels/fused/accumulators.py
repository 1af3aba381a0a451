"""The accumulators of folds in vectors.

A maximum or minimum of floats is taken on unsigned integers that are ordered as the numbers are,
with -0 below +0, and every NaN beyond the last number: above infinity for a maximum, below minus
infinity for a minimum. That is one instruction a step, where floats would take six in a row.
"""

from dataclasses import dataclass

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import FLOAT, INDEX

_MAGNITUDE = 0x7FFFFFFF
_LAST_BIT = 31

_INFINITY = 0x7F800000
_MINUS_INFINITY = 0x807FFFFF
"""Infinities among signed integers that are ordered as numbers are; NaNs lie outside of them."""

_RANGE = (_INFINITY - _MINUS_INFINITY) % (1 << 32)
"""How far the infinities are apart; the integers beyond stand for NaNs."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The accumulation of one fold.

    Attributes:
        function: the function that folds.
        dtype: the type of the elements that are folded.
    """

    function: Function
    dtype: DType

    @property
    def is_ordered(self) -> bool:
        """Whether integers stand for the floats."""
        return self.dtype is DType.FLOAT32 and self.function in {Function.MAX, Function.MIN}

    def start(self, builder: ir.IRBuilder, bits: int, lanes: int) -> ir.Value:
        """The accumulators before the first step."""
        return self.enter(builder, emit.constant(self.dtype, bits, lanes))

    def enter(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """The operand in the form in which it is accumulated."""
        if not self.is_ordered:
            return value
        kind = ir.VectorType(INDEX, value.type.count)
        ordered = _reorder(builder, builder.bitcast(value, kind))
        return builder.sub(ordered, self._get_least(kind.count))

    def step(self, builder: ir.IRBuilder, before: ir.Value, operand: ir.Value) -> ir.Value:
        """The accumulators after a step with an operand that `enter` has returned."""
        if self.is_ordered:
            name = "llvm.umax" if self.function is Function.MAX else "llvm.umin"
            return vectors.call(builder, name, [before, operand])
        types = (self.dtype, self.dtype)
        return emit.emit(builder, self.function, types, self.dtype, (before, operand))

    def leave(self, builder: ir.IRBuilder, accumulator: ir.Value) -> ir.Value:
        """The results."""
        if not self.is_ordered:
            return accumulator
        lanes = accumulator.type.count
        distance = builder.sub(accumulator, self._constant(self._first, lanes))
        is_nan = builder.icmp_unsigned(">", distance, self._constant(_RANGE, lanes))
        ordered = builder.add(accumulator, self._get_least(lanes))
        bits = builder.select(is_nan, emit.canonical_nan(lanes), _reorder(builder, ordered))
        return builder.bitcast(bits, ir.VectorType(FLOAT, lanes))

    def load(self, builder: ir.IRBuilder, address: ir.Value, lanes: int) -> ir.Value:
        """Load accumulators that lie side by side."""
        kind = ir.VectorType(INDEX if self.is_ordered else emit.STORED[self.dtype], lanes)
        value = vectors.load(builder, kind, address)
        return value if self.is_ordered else emit.from_stored(builder, self.dtype, value)

    def store(self, builder: ir.IRBuilder, accumulator: ir.Value, address: ir.Value) -> None:
        """Store accumulators side by side; each takes as much memory as a result."""
        if not self.is_ordered:
            accumulator = emit.to_stored(builder, self.dtype, accumulator)
        vectors.store(builder, accumulator, address)

    @property
    def _first(self) -> int:
        """What stands for minus infinity: the least of all for a maximum, after NaNs otherwise."""
        return 0 if self.function is Function.MAX else (1 << 32) - 1 - _RANGE

    def _get_least(self, lanes: int) -> ir.Constant:
        """The ordered integer that 0 stands for."""
        return self._constant(_MINUS_INFINITY - self._first, lanes)

    def _constant(self, number: int, lanes: int) -> ir.Constant:
        return emit.constant(DType.INT32, number % (1 << 32), lanes)


def _reorder(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Turn bits of floats into integers of the same order, or back."""
    lanes = bits.type.count
    sign = builder.ashr(bits, emit.constant(DType.INT32, _LAST_BIT, lanes))
    magnitude = emit.constant(DType.INT32, _MAGNITUDE, lanes)
    return builder.xor(bits, builder.and_(sign, magnitude))
