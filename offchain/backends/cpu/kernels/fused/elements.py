"""The LLVM IR by which a plain fold loads, combines and stores vectors of one element type."""

from dataclasses import dataclass

from llvmlite import ir

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import WORD


@dataclass(frozen=True, slots=True)
class Elements:
    """Vectors of elements of one type while a kernel is written.

    Attributes:
        builder: where the code is written.
        dtype: the type of the elements.
    """

    builder: ir.IRBuilder
    dtype: DType

    def skip(self, place: ir.Value, number: ir.Value, step: int = 1) -> ir.Value:
        """The address behind so many steps, each of some elements."""
        offset = self.builder.mul(number, WORD(step * self.dtype.width))
        return self.builder.add(place, offset)

    def constant(self, bits: int, lanes: int) -> ir.Value:
        """One element in every lane."""
        return emit.constant(self.dtype, bits, lanes)

    def combine(self, function: Function, x: ir.Value, y: ir.Value) -> ir.Value:
        """A function of two vectors."""
        types = (self.dtype, self.dtype)
        return emit.emit(self.builder, function, types, self.dtype, (x, y))

    def load(self, place: ir.Value, lanes: int, skipped: int = 0) -> ir.Value:
        """Load a vector of neighbours, so many elements behind an address."""
        kind = ir.VectorType(emit.STORED[self.dtype], lanes)
        value = vectors.load(self.builder, kind, place, skipped * self.dtype.width)
        return emit.from_stored(self.builder, self.dtype, value)

    def store(self, value: ir.Value, place: ir.Value, skipped: int = 0) -> None:
        """Store a vector of neighbours, so many elements behind an address."""
        stored = emit.to_stored(self.builder, self.dtype, value)
        vectors.store(self.builder, stored, place, skipped * self.dtype.width)
