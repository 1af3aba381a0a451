"""Products of few rows, where packing an operand would cost more than multiplying it.

All of b is read once, and mostly from memory, as fast as that gives it: in runs of its rows, or, if
its columns are what lies side by side, in squares that are turned in registers. What comes next is
asked for meanwhile, since no processor foresees so many streams. The sums stay where the result
goes. Products of a few elements are computed element by element.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.arithmetic.functions import CANONICAL_NAN
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, kernel, reads, writes
from moot.offchain.native.vectors import FLOAT, INDEX, LANES, NAN, WORD

Floats = npt.NDArray[np.float32]

MOST_ROWS = 4
MOST_ROWS_IF_TURNED = 12
"""Rows of a up to which this is faster than the blocked product, by how b lies in memory."""

MOST_ELEMENTS = 8
"""Elements of a product up to which it is faster to compute each by itself."""

SIDE = LANES
"""Steps of k and columns are multiples of this."""

_FLOAT_BYTES = 4
_VECTOR = ir.VectorType(FLOAT, SIDE)

_STEPS_OF_RUN = 4
"""Rows of b that are read together, as far as a block reaches: a divisor of `SIDE`."""

_AHEAD = 2 * _STEPS_OF_RUN
"""Rows of b between those that are read and those that are asked for."""

_MOST_STEPS_OF_PANEL = 1 << 12
"""Steps of a panel of `SIDE` columns up to which the second cache holds the next one, too."""

_AHEAD_IF_TURNED = 8 * SIDE
"""Steps of a longer panel between those that are read and those that are asked for."""

_RUN_BYTES = 1 << 15
"""Bytes of these rows and of the sums that they go into, which the first cache holds."""

_GRAIN = 2**15
"""Elements of b that are worth another thread."""

_CHAINS = 4
"""Elements that are computed in turn: as many as a multiply-add takes cycles, or about that."""

_STEPS = 2**17
"""Steps of chains that are worth another thread."""


def get_blocks_grain(block: int, depth: int) -> int:
    """Return how many blocks of so many columns are worth another thread."""
    return max(1, _GRAIN // (block * depth))


def get_elements_grain(depth: int) -> int:
    """Return how many elements of so many steps are worth another thread."""
    return _CHAINS * max(1, _STEPS // (_CHAINS * depth))


def choose_block(out: Sequence[int], b_steps: Sequence[int], threads: int) -> int:
    """Return how many columns a block has: one square, or a long run, as long for each thread.

    Args:
        out: the shape of the result, (B, M, N).
        b_steps: the strides of b.
        threads: how many share the work, matrix by matrix if there are as many of these.
    """
    if b_steps[1] == _FLOAT_BYTES:
        return SIDE
    batch, m, n = out
    widest, parts = _RUN_BYTES // ((_STEPS_OF_RUN + m) * _FLOAT_BYTES), -(-threads // batch)
    blocks = -(-n // (widest * parts)) * parts
    return -(-n // (blocks * SIDE)) * SIDE


@kernel(
    reads(types.float32, 3, "A"),
    reads(types.float32, 3, "A"),
    writes(types.float32, 3, "A"),
    *[types.int64] * 3,
)
def multiply_blocks(a: Floats, b: Floats, out: Floats, width: int, first: int, stop: int) -> None:
    """Compute blocks of `width` columns from `first` to `stop`, batch after batch."""
    depth, n = b.shape[1:]
    step, column_step = b.strides[1:]
    blocks = -(-n // width)
    is_turned = step == _FLOAT_BYTES
    steps = SIDE if is_turned else _STEPS_OF_RUN
    for block in range(first, stop):
        z, start = block // blocks, block % blocks * width
        stop_n = min(start + width, n)
        for k in range(0, depth, steps):
            place = b.ctypes.data + z * b.strides[0] + k * step + start * column_step
            factors = a.ctypes.data + z * a.strides[0] + k * a.strides[2]
            target = out.ctypes.data + z * out.strides[0] + start * _FLOAT_BYTES
            places = factors, a.strides[1], a.strides[2]
            if is_turned:
                if depth > _MOST_STEPS_OF_PANEL:
                    later = _AHEAD_IF_TURNED * step if k + _AHEAD_IF_TURNED < depth else 0
                else:
                    later = SIDE * column_step if stop_n < n else 0
                _multiply_square(
                    a.shape[1], *places, place, column_step, later, target, out.strides[1]
                )
            else:
                later = _AHEAD * step if k + _STEPS_OF_RUN + _AHEAD <= depth else 0
                panels = (stop_n - start) // SIDE
                _multiply_run(
                    a.shape[1], panels, *places, place, step, later, target, out.strides[1]
                )
        for i in range(out.shape[1]):
            for j in range(start, stop_n):
                if np.isnan(out[z, i, j]):
                    out[z, i, j] = NAN


@emitted(types.void, *[types.intp] * 9)
def _multiply_square(
    builder: ir.IRBuilder,
    rows: ir.Value,
    a: ir.Value,
    a_step: ir.Value,
    a_column_step: ir.Value,
    b: ir.Value,
    b_column_step: ir.Value,
    later: ir.Value,
    target: ir.Value,
    target_step: ir.Value,
) -> None:
    """Add the products of rows of a and a square of b, the elements of whose columns are dense."""
    for column in range(SIDE):
        place = builder.add(b, builder.mul(b_column_step, WORD(column)))
        vectors.prefetch(builder, builder.add(place, later), _FLOAT_BYTES, level=2)
    square = vectors.load_columns(builder, _VECTOR, b, b_column_step, WORD(SIDE))

    def multiply_row(row: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        place = builder.add(target, builder.mul(row, target_step))
        factors = builder.add(a, builder.mul(row, a_step))
        total = vectors.load(builder, _VECTOR, place)
        splats = _load_factors(builder, factors, a_column_step)
        for factor, row_of_b in zip(splats, square, strict=True):
            total = vectors.call(builder, "llvm.fma", [factor, row_of_b, total])
        vectors.store(builder, total, place)
        return []

    vectors.repeat(builder, rows, [], multiply_row)


@emitted(types.void, *[types.intp] * 10)
def _multiply_run(
    builder: ir.IRBuilder,
    rows: ir.Value,
    panels: ir.Value,
    a: ir.Value,
    a_step: ir.Value,
    a_column_step: ir.Value,
    b: ir.Value,
    b_step: ir.Value,
    later: ir.Value,
    target: ir.Value,
    target_step: ir.Value,
) -> None:
    """Add the products of rows of a and some vectors of each of a few rows of b."""
    starts = [builder.add(b, builder.mul(b_step, WORD(k))) for k in range(_STEPS_OF_RUN)]

    def multiply_row(row: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        begin = builder.add(target, builder.mul(row, target_step))
        place = builder.add(a, builder.mul(row, a_step))
        factors = _load_factors(builder, place, a_column_step, _STEPS_OF_RUN)

        def multiply_panel(panel: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            offset = builder.mul(panel, WORD(SIDE * _FLOAT_BYTES))
            at = builder.add(begin, offset)
            total = vectors.load(builder, _VECTOR, at)
            for factor, start in zip(factors, starts, strict=True):
                from_b = builder.add(start, offset)
                vectors.prefetch(builder, builder.add(from_b, later), _FLOAT_BYTES, level=2)
                row_of_b = vectors.load(builder, _VECTOR, from_b)
                total = vectors.call(builder, "llvm.fma", [factor, row_of_b, total])
            vectors.store(builder, total, at)
            return []

        vectors.repeat(builder, panels, [], multiply_panel)
        return []

    vectors.repeat(builder, rows, [], multiply_row)


def _load_factors(
    builder: ir.IRBuilder, place: ir.Value, step: ir.Value, count: int = SIDE
) -> list[ir.Value]:
    """Vectors of each of some elements of a row."""
    places = [builder.add(place, builder.mul(step, WORD(k))) for k in range(count)]
    return [vectors.splat(builder, vectors.load(builder, FLOAT, at), SIDE) for at in places]


@kernel(
    reads(types.float32, 3, "A"),
    reads(types.float32, 3, "A"),
    writes(types.float32, 3, "A"),
    *[types.int64] * 2,
)
def fold_elements(a: Floats, b: Floats, out: Floats, first: int, stop: int) -> None:
    """Compute the elements from `first` to `stop`, of which the last may be computed repeatedly."""
    _, m, n = out.shape
    places = np.empty((_CHAINS, 3), np.int64)
    chains = 1 if stop - first == 1 else _CHAINS
    for start in range(first, stop, _CHAINS):
        for chain in range(chains):
            element = min(start + chain, stop - 1)
            z, i, j = element // (m * n), element // n % m, element % n
            places[chain, 0] = a.ctypes.data + z * a.strides[0] + i * a.strides[1]
            places[chain, 1] = b.ctypes.data + z * b.strides[0] + j * b.strides[2]
            places[chain, 2] = (
                out.ctypes.data + z * out.strides[0] + i * out.strides[1] + j * out.strides[2]
            )
        if chains == 1:
            _fold_chain(places.ctypes.data, a.shape[2], a.strides[2], b.strides[1])
        else:
            _fold_chains(places.ctypes.data, a.shape[2], a.strides[2], b.strides[1])


@emitted(types.void, *[types.intp] * 4)
def _fold_chain(builder: ir.IRBuilder, *operands: ir.Value) -> None:
    """Fold the products of one pair of vectors: its loads would wait behind those of copies."""
    _emit_chains(builder, 1, *operands)


@emitted(types.void, *[types.intp] * 4)
def _fold_chains(builder: ir.IRBuilder, *operands: ir.Value) -> None:
    """Fold the products of `_CHAINS` pairs."""
    _emit_chains(builder, _CHAINS, *operands)


def _emit_chains(
    builder: ir.IRBuilder,
    number: int,
    places: ir.Value,
    count: ir.Value,
    a_step: ir.Value,
    b_step: ir.Value,
) -> None:
    """Fold the products of some pairs of vectors into elements; all three by their addresses."""
    chains = [
        [vectors.load(builder, WORD, places, 8 * (3 * chain + i)) for i in range(3)]
        for chain in range(number)
    ]

    def fold_step(k: ir.Value, before: list[ir.Value]) -> list[ir.Value]:
        steps = builder.mul(k, a_step), builder.mul(k, b_step)
        after = []
        for total, (*factors, _) in zip(before, chains, strict=True):
            pair = [
                vectors.load(builder, FLOAT, builder.add(start, step))
                for start, step in zip(factors, steps, strict=True)
            ]
            after.append(vectors.call(builder, "llvm.fma", [*pair, total]))
        return after

    starts = [vectors.load(builder, FLOAT, target) for *_, target in chains]
    totals = vectors.repeat(builder, count, starts, fold_step)
    for total, (*_, target) in zip(totals, chains, strict=True):
        bits = builder.bitcast(total, INDEX)
        is_nan = builder.fcmp_unordered("uno", total, total)
        vectors.store(builder, builder.select(is_nan, INDEX(CANONICAL_NAN), bits), target)
