"""Words in memory, as kernels read and write them by their addresses."""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

from llvmlite import ir
from numba.core import types

from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted
from moot.offchain.native.vectors import WORD


@emitted(types.int64, types.intp)
def load_word(builder: ir.IRBuilder, source: ir.Value) -> ir.Value:
    """The int64 at an address."""
    return vectors.load(builder, WORD, source)


@emitted(types.void, types.int64, types.intp)
def store_word(builder: ir.IRBuilder, value: ir.Value, target: ir.Value) -> None:
    """Store an int64 at an address."""
    vectors.store(builder, value, target)
