"""Products of warp groups, as data: `wgmma`, what orders it, and how it finds its factors.

A warp group is 128 threads. Its products read both factors from shared memory, by descriptors, and
are begun, not made: they come about at any time until they are waited for. What such a product
reads has to stay as it is, and nobody may look at its sums meanwhile. Factors are bfloat16, whose
blocks are those of `mma.sync` on the same device (`arithmetic/tensor/blocks.py`), or signed bytes,
whose sums are 32-bit integers that wrap around.

All layouts here are those of the 128-byte swizzle. A factor is in panels of lines of 128 bytes.
A line is steps of a row, 64 of bfloat16 or 128 of bytes, or, where a factor of bfloat16 is turned,
64 rows at one step; no factor of bytes may be turned (PTX ISA 9.0, `wgmma.mma_async`: transposition
is for .f16 and .bf16 alone; CUTLASS's traits of S32S8S8_SS_TN have K-major factors). The 16 bytes
of number c of line number l are those of number c ^ (l % 8) among the 128 that the line has.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.native.vectors import WORD

GROUP = 128
"""Threads of a warp group."""

ROWS = 64
"""The rows of a product's first factor."""

STEP_BYTES = 32
"""What a product reads of each row: 16 steps of bfloat16, or 32 of bytes."""

COLUMNS = (64, 128, 256)
"""The columns that a product may have here. The instruction knows every multiple of 8 up to 256 for
bfloat16; for bytes 8, 24 and multiples of 16, of which CUTLASS's SM90_64x256x32_S32S8S8_SS_TN has
the most."""

LINE_BYTES = 128
"""A line of a panel: what the swizzle turns around."""

PATTERN_BYTES = 1024
"""After so many the swizzle begins anew; panels begin where it does."""

_GRAIN_BITS = 4
_ADDRESS_MASK = (1 << 18) - 1
_FIELD_MASK = (1 << 14) - 1
_LEADING_AT, _STRIDE_AT, _BASE_AT, _SWIZZLE_AT = 16, 32, 49, 62
_SWIZZLED = 1
"""How a descriptor says that 128 bytes are swizzled."""

_GRAIN = 16
_LINES = 8
"""Lines of a pattern."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence: later products see the sums that threads have set before (`wgmma.fence`)."""


@dataclass(frozen=True, slots=True)
class Multiply:
    """A product of 64 rows by some columns and 32 bytes that is begun (`wgmma.mma_async`).

    Cell number j of the sum in the thread of number t of its group, with w = t // 32,
    g = t % 32 // 4 and r = t % 4, is the element of

        row 16 w + g + 8 (j // 2 % 2), column 8 (j // 4) + 2 r + j % 2

    of binary32 and of integers (CUTLASS has one layout, CLayout_64xN, for both).

    Attributes:
        columns: one of `COLUMNS`.
        block: how products of bfloat16 are added up; None if the factors are bytes.
        is_turned: of each factor, whether its lines are steps.
        descriptors: the first of two cells with each factor's descriptor, the lower half first;
            all threads of a group have the same.
        ahead: bytes from what a descriptor says to where each factor begins, multiples of 16.
        sums: the first cell of the sum that it adds to.
    """

    columns: int
    block: Block | None
    is_turned: tuple[bool, bool]
    descriptors: tuple[int, int]
    ahead: tuple[int, int]
    sums: int

    def __post_init__(self) -> None:
        """Refuse what the instruction does not know."""
        assert self.columns in COLUMNS
        assert self.block is not None or not any(self.is_turned)
        assert not any(ahead % _GRAIN for ahead in self.ahead)

    @property
    def width(self) -> int:
        """The bytes of an element of a factor."""
        return get_width(self.block)

    @property
    def depth(self) -> int:
        """The steps that both factors share."""
        return STEP_BYTES // self.width

    @property
    def cells(self) -> int:
        """The cells of each thread for the sum."""
        return ROWS * self.columns // GROUP


def get_width(block: Block | None) -> int:
    """Return the bytes of an element of a factor, given how products are added up."""
    return 1 if block is None else 2


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a batch: the products that were begun since the last one."""


@dataclass(frozen=True, slots=True)
class Await:
    """A wait until all batches but so many later ones are done (`wgmma.wait_group`).

    Attributes:
        later: how many may be on their way.
    """

    later: int


Order = Fence | Multiply | Commit | Await


@dataclass(frozen=True, slots=True)
class Orders:
    """What each warp group asks its tensor cores for between two phases; no barrier is around it.

    Attributes:
        orders: in turn.
    """

    orders: tuple[Order, ...]


class Descriptor(NamedTuple):
    """A descriptor of a matrix in shared memory, as PTX ISA 8.5, section 9.7.15.5.1.2, has it.

    Attributes:
        start: the address of its first element, of 18 bits: bits 0 to 13, in units of 16 bytes.
        leading: bits 16 to 29, likewise: bytes from 64 rows to the next 64 ones of a matrix whose
            lines are steps, and nothing where they are rows.
        stride: bits 32 to 45, likewise: bytes from 8 lines to the next 8.
        base: bits 49 to 51: 0 where the swizzle's pattern begins at a multiple of 1,024.
        swizzle: bits 62 and 63: 1 for 128 bytes.
    """

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int


def write_descriptor(builder: ir.IRBuilder, start: ir.Value, leading: int) -> ir.Value:
    """Return the descriptor of a matrix in panels, of 64 bits.

    Args:
        builder: where to write.
        start: the address of its first element in shared memory, a multiple of 16.
        leading: the bytes of a panel.
    """
    fixed = _encode(leading) << _LEADING_AT | _encode(PATTERN_BYTES) << _STRIDE_AT
    fixed |= _SWIZZLED << _SWIZZLE_AT
    own = builder.lshr(builder.and_(start, WORD(_ADDRESS_MASK)), WORD(_GRAIN_BITS))
    return builder.or_(own, WORD(fixed))


def _encode(size: int) -> int:
    assert size == size & _ADDRESS_MASK
    assert size % _GRAIN == 0
    return size >> _GRAIN_BITS


def read_descriptor(bits: int) -> Descriptor:
    """Return what a descriptor says."""
    start, leading, stride = (
        (bits >> at & _FIELD_MASK) << _GRAIN_BITS for at in (0, _LEADING_AT, _STRIDE_AT)
    )
    return Descriptor(start, leading, stride, bits >> _BASE_AT & 7, bits >> _SWIZZLE_AT & 3)


def locate(
    descriptor: Descriptor, rows: int, width: int, *, is_turned: bool
) -> npt.NDArray[np.int64]:
    """Return the addresses of a matrix's elements, (rows, steps), by the table of layouts.

    In elements of 16 bytes: of a matrix whose lines are rows ((8, m), 2) : ((8, stride), 1), where
    they are steps (8, m), (8, 2) : (1, leading), (8, stride). Then bits 4 to 6 of each address are
    changed by its bits 7 to 9.

    Args:
        descriptor: where the matrix is.
        rows: how many it has.
        width: the bytes of an element.
        is_turned: whether its lines are steps.

    Raises:
        ValueError: it is no descriptor of this layout.
    """
    if (descriptor.base, descriptor.swizzle) != (0, _SWIZZLED):
        raise ValueError(f"a descriptor has another layout: {descriptor}")
    row, step = np.ogrid[:rows, : STEP_BYTES // width]
    if is_turned:
        each = LINE_BYTES // width
        row_at = row % each * width + row // each * descriptor.leading
        step_at = step % _LINES * LINE_BYTES + step // _LINES * descriptor.stride
    else:
        row_at = row % _LINES * LINE_BYTES + row // _LINES * descriptor.stride
        step_at = step * width
    linear = descriptor.start + row_at + step_at
    found: npt.NDArray[np.int64] = linear ^ (linear >> 7 & 7) << _GRAIN_BITS
    return found


def swizzle(builder: ir.IRBuilder, line: ir.Value, vector: ir.Value) -> ir.Value:
    """Return where 16 bytes of a line are in a panel, given the numbers of both."""
    turned = builder.xor(vector, builder.and_(line, WORD(_LINES - 1)))
    return builder.add(builder.mul(line, WORD(LINE_BYTES)), builder.shl(turned, WORD(_GRAIN_BITS)))
