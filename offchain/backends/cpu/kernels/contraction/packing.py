"""Packing: matrices copied into panels that the micro-kernel reads from end to end.

Panels are made of squares of as many rows and steps as a vector has lanes; a square whose steps
lie side by side in memory is turned in registers.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.native import vectors
from moot.offchain.native.compiled import linked, subroutine
from moot.offchain.native.vectors import FLOAT, LANES, WORD

Floats = npt.NDArray[np.float32]

_FLOAT_BYTES = 4

_AHEAD = 4
"""Squares between the one that is packed and the one that memory is asked for, along rows."""

_VECTOR = ir.VectorType(FLOAT, LANES)


@subroutine
def panel_bytes(depth: int, step_bytes: int) -> int:
    """Bytes of a panel of `depth` steps, whole squares."""
    return -(-depth // LANES) * LANES * step_bytes


@subroutine
def pack(source: Floats, rows: int, step_bytes: int, target: int) -> None:
    """Copy a matrix into panels of `rows` rows, `panel_bytes` apart.

    Args:
        source: (R, K) float32, any strides; rows of a, or columns of b.
        rows: of a panel. Panels of half as many rows as a vector has lanes are packed in pairs.
        step_bytes: bytes of one step of k in a panel: whole vectors, or half a one.
        target: address of the first panel. Lanes beyond the rows of a panel, steps beyond K, and
            the last panel of a pair if it has no rows, get any value.
    """
    m, depth = source.shape
    step, k_step = source.strides
    _pack(source.ctypes.data, m, depth, step, k_step, rows, step_bytes, target)


@subroutine
def _pack(
    source: int,
    m: int,
    depth: int,
    step: int,
    k_step: int,
    rows: int,
    step_bytes: int,
    target: int,
) -> None:
    """Do what `pack` does, with a matrix at an address: numba compiles it once for all arrays."""
    squares = -(-depth // LANES)
    size = squares * LANES * step_bytes
    is_pair = 2 * rows == LANES
    height_of_panels = LANES if is_pair else rows
    panels, panels_size = -(-m // height_of_panels), size * (1 + is_pair)
    later = LANES * (_AHEAD if k_step == _FLOAT_BYTES else 1) * k_step
    for number in range(panels * squares):
        if k_step == _FLOAT_BYTES:
            panel, square = number // squares, number % squares
        else:
            panel, square = number % panels, number // panels
        first, k = panel * height_of_panels, square * LANES
        height = min(height_of_panels, m - first)
        packed = target + panel * panels_size + k * step_bytes
        for row in range(0, height, LANES):
            place = source + (first + row) * step + k * k_step
            ends = min(LANES, height - row), min(LANES, depth - k)
            there = packed + row * _FLOAT_BYTES
            half = size if is_pair else 0
            _pack_square(place, step, k_step, later, *ends, there, step_bytes, half)


@linked(*[types.intp] * 9)
def _pack_square(
    builder: ir.IRBuilder,
    source: ir.Value,
    step: ir.Value,
    k_step: ir.Value,
    later: ir.Value,
    rows: ir.Value,
    depth: ir.Value,
    target: ir.Value,
    target_step: ir.Value,
    half: ir.Value,
) -> None:
    """Copy a square; its upper half to another panel, so many bytes behind, if that is not 0."""

    def place(distance: ir.Value, i: int, end: ir.Value) -> ir.Value:
        is_inside = builder.icmp_signed("<", WORD(i), end)
        offset = builder.mul(distance, WORD(i))
        return builder.add(source, builder.select(is_inside, offset, WORD(0)))

    def store(steps: Sequence[ir.Value]) -> None:
        places = [builder.add(target, builder.mul(target_step, WORD(k))) for k in range(LANES)]
        with builder.if_else(builder.icmp_signed("==", half, WORD(0))) as (whole, halved):
            with whole:
                for there, vector in zip(places, steps, strict=True):
                    vectors.store(builder, vector, there)
            with halved:
                for there, vector in zip(places, steps, strict=True):
                    for part, offset in enumerate((WORD(0), half)):
                        lanes = list(range(part * LANES // 2, (part + 1) * LANES // 2))
                        some = vectors.shuffle(builder, vector, vector, lanes)
                        vectors.store(builder, some, builder.add(there, offset))

    row_is_dense, step_is_dense = (
        builder.icmp_signed("==", distance, WORD(_FLOAT_BYTES)) for distance in (k_step, step)
    )
    line_step = builder.select(row_is_dense, step, k_step)
    for line in range(LANES):
        soon = builder.add(builder.add(source, later), builder.mul(line_step, WORD(line)))
        vectors.prefetch(builder, soon, _FLOAT_BYTES, level=2)
    is_deep = builder.icmp_signed("==", depth, WORD(LANES))
    with builder.if_else(row_is_dense) as (then, otherwise):
        with then, builder.if_else(is_deep) as (whole, part):
            with whole:
                store(vectors.load_columns(builder, _VECTOR, source, step, rows))
            with part:
                places = [place(step, row, rows) for row in range(LANES)]
                loaded = [vectors.load_first(builder, _VECTOR, row, depth) for row in places]
                store(vectors.transpose(builder, loaded))
        with otherwise:
            places = [place(k_step, k, depth) for k in range(LANES)]
            with builder.if_else(step_is_dense) as (dense, strided):
                with dense:
                    store([vectors.load_first(builder, _VECTOR, k, rows) for k in places])
                with strided:
                    store([vectors.gather_first(builder, _VECTOR, k, step, rows) for k in places])
