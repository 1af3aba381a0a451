"""The columns of a mask's rows between one constant, from the first on, and another, to the end."""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, kernel, reads, writes
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import WORD

Integers = npt.NDArray[np.int64]

UNIT = 32
"""Columns that are looked at together."""

_GRAIN = 2**18
"""Elements that make another thread worth its start."""


def find_ends(
    mask: npt.NDArray[Any], starts: Integers, columns: int, constants: tuple[int, int]
) -> tuple[Integers, Integers]:
    """Find how many columns of each row hold one constant, and in how many there is no other yet.

    Args:
        mask: elements of 4 bytes or of 1.
        starts: (R,) the place of the first column of each row.
        columns: of a row, a multiple of `UNIT`.
        constants: the bits of the constant of the first columns, and of that to the end.

    Returns:
        Twice (R,) int64: the columns of the first constant, a multiple of `UNIT`, and those before
        the other one.
    """
    leads, ends = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
    words = mask.reshape(-1).view(np.uint32 if mask.itemsize == 4 else np.uint8)
    find = _find_words if mask.itemsize == 4 else _find_bytes

    def work(first: int, stop: int) -> None:
        part = slice(first, stop)
        find(words, starts[part], columns, *constants, leads[part], ends[part])

    share(work, len(starts), max(1, _GRAIN // columns))
    return leads, ends


def _make(element: Any) -> Any:
    """Return the kernel that finds both for some rows of a mask of some element."""

    @emitted(types.intp, types.intp, types.intp, types.intp, element)
    def count_alike(
        builder: ir.IRBuilder,
        place: ir.Value,
        step: ir.Value,
        most: ir.Value,
        constant: ir.Value,
    ) -> ir.Value:
        """Count the units of columns, from one on and `step` bytes apart, that are a constant."""
        before = builder.block
        head, body, after = (builder.append_basic_block(n) for n in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        count = builder.phi(WORD)
        count.add_incoming(WORD(0), before)
        builder.cbranch(builder.icmp_signed("<", count, most), body, after)
        builder.position_at_end(body)
        here = builder.add(place, builder.mul(step, count))
        vector = vectors.load(builder, ir.VectorType(constant.type, UNIT), here)
        others = builder.icmp_unsigned("!=", vector, vectors.splat(builder, constant, UNIT))
        bits = builder.bitcast(others, ir.IntType(UNIT))
        count.add_incoming(builder.add(count, WORD(1)), body)
        builder.cbranch(builder.icmp_unsigned("==", bits, bits.type(0)), head, after)
        builder.position_at_end(after)
        return count

    width = element.bitwidth // 8
    unit = UNIT
    sizes = types.int64, element, element
    results = writes(types.int64, 1), writes(types.int64, 1)

    @kernel(reads(element, 1), reads(types.int64, 1), *sizes, *results)
    def find(
        mask: npt.NDArray[Any],
        starts: Integers,
        columns: int,
        first: int,
        last: int,
        leads: Integers,
        ends: Integers,
    ) -> None:
        for row in range(len(starts)):
            start = mask.ctypes.data + starts[row] * width
            units = columns // unit
            final = start + (columns - unit) * width
            units -= count_alike(final, -unit * width, units, last)
            leads[row] = count_alike(start, unit * width, units, first) * unit
            end = units * unit
            while end > 0 and mask[starts[row] + end - 1] == last:
                end -= 1
            ends[row] = end

    return find


_find_words, _find_bytes = _make(types.uint32), _make(types.uint8)
