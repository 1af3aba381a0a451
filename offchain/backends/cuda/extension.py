"""Factors of contractions that are extended first, so that nobody has to ask what is in range.

A padded convolution reads beyond its image's edges, a gradient of one with strides reads between
elements. For each row of such an access the coordinates that the contraction visits are laid out
once, out of range those that are: by a `MOVE`, whose fills are the access's. The contraction then
reads an access to what was laid out, which is in range on its whole domain, and strided. Each
element of a chain is what it was, in the order in which it was.

Any rows allow it: what a row is before it divides goes from its least to its most in steps of what
divides its coefficients. How large that may be is an estimate's to say: the launch, its elements
and its bytes against the instructions that the contraction's threads are spared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from moot.offchain.arithmetic.functions import Function
from moot.offchain.backends.cuda.tiling import (
    CYCLE_BYTES,
    LANES,
    LAUNCH_CYCLES,
    Tiling,
    count_blocks,
)
from moot.offchain.planning.accesses import find_strided
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row

_SPARED = 10
"""Instructions that a thread is spared with each element that it brings: 7 to 15, as counted in the
code of ResNet-50's convolutions (`docs/measurements/backends.md`)."""

_MADE = 45
"""Instructions that make an element of what is laid out, counted there."""


@dataclass(frozen=True, slots=True)
class Extension:
    """A factor that is extended.

    Attributes:
        move: makes the extended tensor.
        operand: the factor's access to that.
    """

    move: Node
    operand: Operand

    @property
    def size(self) -> int:
        """The bytes of the extended tensor."""
        return self.move.elements * self.move.dtype.width


def extend(operand: Operand, sizes: Sequence[int]) -> Extension | None:
    """Return a factor's extension, None where the factor is in range on its whole domain."""
    if operand.origin is Origin.IMMEDIATE or find_strided(operand.rows, tuple(sizes)) is not None:
        return None
    moved, read = list[Row](), list[Row]()
    for place, row in enumerate(operand.rows):
        terms = [(v, c) for v, c in row.terms if sizes[v] > 1]
        step = gcd(*(c for _, c in terms)) or 1
        least = row.offset + sum(c * (sizes[v] - 1) for v, c in terms if c < 0)
        count = 1 + sum(abs(c) * (sizes[v] - 1) for v, c in terms) // step
        moved.append(Row(row.size, least, ((place, step),), row.divisor))
        read.append(
            Row(count, (row.offset - least) // step, tuple((v, c // step) for v, c in terms))
        )
    shape = tuple(row.size for row in read)
    move = Node(
        Kind.MOVE, Function.COPY, operand.dtype, shape, (replace(operand, rows=tuple(moved)),)
    )
    return Extension(move, replace(operand, rows=tuple(read)))


def choose_extensions(node: Node, tiling: Tiling, multiprocessors: int) -> list[Extension | None]:
    """Return how each factor of a contraction in tiles is extended; None if it is not."""
    threads = prod(tiling.threads)
    waves = -(-count_blocks(node, tiling) // multiprocessors)
    found = list[Extension | None]()
    for operand, side in zip(node.operands[1:], tiling.sides, strict=True):
        extension = extend(operand, node.shape + node.fold_shape)
        if extension is not None:
            made, read = extension.move.elements, prod(row.size for row in operand.rows)
            moved = operand.dtype.width * (made + read)
            work = max(_MADE * made / LANES, moved / CYCLE_BYTES)
            cycles = LAUNCH_CYCLES + work / multiprocessors
            brought = side * node.fold_length / threads  # by each thread of a block
            spared = _SPARED * brought * max(waves * threads / LANES, 1)
            extension = extension if cycles < spared else None
        found.append(extension)
    return found


def replace_factors(node: Node, extensions: Sequence[Extension | None]) -> Node:
    """Return a contraction that reads what was extended."""
    init, *factors = node.operands
    read = (
        factor if found is None else found.operand
        for factor, found in zip(factors, extensions, strict=True)
    )
    return replace(node, operands=(init, *read))
