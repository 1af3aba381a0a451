"""The rows of factors in bfloat16 that are copied once, zeros behind the last step (`laying.py`).

These are factors whose tensors have no vectors of neighbours that products could read.
"""

from math import prod

from moot.offchain.backends.cuda.factors import Axis, Rows
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.tensor.tiles import WIDTH

PIECE = 32
"""Steps of a row that is copied are a multiple of this."""


def lay_out(matrices: Matrices, axis: int) -> Rows:
    """Return where the rows of a factor are that was copied."""
    count, steps = matrices.sides[axis], pad(matrices.node.fold_length)
    batches, lines = Axis((matrices.batches,), (count * steps,)), Axis((count,), (steps,))
    return Rows(count, 0, batches, lines, Axis((steps,), (1,)))


def pad(steps: int) -> int:
    """Return the steps of a row that is copied."""
    return -(-steps // PIECE) * PIECE


def count_bytes(matrices: Matrices, axis: int) -> int:
    """Return the bytes of a factor's copy."""
    steps = pad(matrices.node.fold_length)
    return prod((matrices.batches, matrices.sides[axis], steps, WIDTH))
