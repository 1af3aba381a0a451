"""The accumulators of folds in vectors.

A maximum or minimum of floats is taken on integers that are ordered as the numbers are, with -0
below +0 and NaN above everything: one instruction a step, where floats would take six in a row.
"""

from dataclasses import dataclass

from llvmlite import ir

from offchain.arithmetic.functions import DType, Function
from offchain.native import emit, vectors
from offchain.native.vectors import FLOAT, INDEX

_MAGNITUDE = 0x7FFFFFFF
_SIGN = 0x80000000
_LAST_BIT = 31


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
        bits = self._flip(builder, builder.bitcast(value, kind))
        is_nan = builder.fcmp_unordered("uno", value, value)
        nan = emit.canonical_nan(kind.count)
        return builder.select(is_nan, nan, _reorder(builder, bits))

    def step(self, builder: ir.IRBuilder, before: ir.Value, operand: ir.Value) -> ir.Value:
        """The accumulators after a step with an operand that `enter` has returned."""
        if self.is_ordered:
            return vectors.call(builder, "llvm.smax", [before, operand])
        types = (self.dtype, self.dtype)
        return emit.emit(builder, self.function, types, self.dtype, (before, operand))

    def leave(self, builder: ir.IRBuilder, accumulator: ir.Value) -> ir.Value:
        """The results."""
        if not self.is_ordered:
            return accumulator
        lanes = accumulator.type.count
        nan = emit.canonical_nan(lanes)
        is_nan = builder.icmp_signed("==", accumulator, nan)
        bits = self._flip(builder, _reorder(builder, accumulator))
        kind = ir.VectorType(FLOAT, lanes)
        return builder.bitcast(builder.select(is_nan, nan, bits), kind)

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

    def _flip(self, builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
        """The bits of the numbers of which the maximum is wanted: a minimum's are negated."""
        if self.function is Function.MAX:
            return bits
        return builder.xor(bits, emit.constant(DType.INT32, _SIGN, bits.type.count))


def _reorder(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Turn bits of floats into integers of the same order, or back."""
    lanes = bits.type.count
    sign = builder.ashr(bits, emit.constant(DType.INT32, _LAST_BIT, lanes))
    magnitude = emit.constant(DType.INT32, _MAGNITUDE, lanes)
    return builder.xor(bits, builder.and_(sign, magnitude))
