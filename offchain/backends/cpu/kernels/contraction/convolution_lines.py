"""Products of few columns whose first factor is read in place, as vectors of rows.

The counterpart of `convolution` for results of at most a few channels, such as each channel's own
of a depthwise convolution: a step of k broadcasts the second factor's element of every column to
vectors of rows, which lie side by side, or every other float, in a line of the image.
"""

from functools import partial

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.convolution import hold
from moot.offchain.backends.cpu.kernels.contraction.convolution_packing import (
    WORD_BYTES,
    copy_inside,
    fill_border,
    fill_line,
)
from moot.offchain.backends.cpu.kernels.contraction.convolution_storing import find_suspects
from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES, emit_canonical
from moot.offchain.native import vectors
from moot.offchain.native.compiled import emitted, kernel, linked, reads, subroutine
from moot.offchain.native.machine import VECTOR_REGISTERS
from moot.offchain.native.vectors import FLOAT, LANES, VECTOR_BYTES, WORD
from moot.offchain.native.words import store_word

Integers = npt.NDArray[np.int64]

TILE_COLUMNS = 4
"""Columns of a tile."""

MOST_STRIDE = 2
"""Floats from one row to the next in a line of the image; two vectors hold a vector of rows."""

LINE_FIELDS = 3


_HEIGHTS = (14, 7, 5, 3, 2, 1)
"""Vectors of rows of a tile, of those for which registers suffice."""

TILE_SIZE = _HEIGHTS[0] * TILE_COLUMNS * LANES
_VECTOR = ir.VectorType(FLOAT, LANES)

SLACK = 2 * MOST_STRIDE * LANES
"""Floats behind a window that are read and not used."""


def _get_heights(columns: int) -> list[int]:
    most = max(1, (VECTOR_REGISTERS - 2 - columns) // columns - 1)
    return [height for height in _HEIGHTS if height <= most]


@kernel(
    *[types.intp] * 6,
    types.int64,
    types.int64,
    reads(types.int64, 2),
    reads(types.int64, 2),
    reads(types.int64, 2),
    types.int64,
    types.int64,
)
def multiply_lines(
    image: int,
    other: int,
    init: int,
    out: int,
    suspects: int,
    scratch: int,
    fill: int,
    init_step: int,
    boxes: Integers,
    moves: Integers,
    columns: Integers,
    first: int,
    stop: int,
) -> None:
    """Multiply the lines of windows, each of which is somewhere else in the image, by columns.

    Args:
        image: address of the first factor, float32.
        other: address of the second factor.
        init: address of rows of what sums start from, one float32 for each column.
        out: address of the result.
        suspects: address of an int64, which becomes 1 if a result is -0 or not finite; 0 not to
            look.
        scratch: address of room for the largest window and `SLACK` floats, then for a tile.
        fill: the bits of what lies outside of the image.
        init_step: bytes from a row of `init` to the next.
        boxes: (B, fields of `Lines`) int64.
        moves: (T, 4) int64: of each window, the first plane's number, the offset in bytes of its
            part of the second factor, that of its results, and its row of `init`.
        columns: (N, 2) int64: offset of a column in the second factor, and in the result.
        first: the first window of each box to compute.
        stop: the window behind the last one.
    """
    is_bad = 0
    for number in range(len(boxes)):
        box = boxes[number]
        size, corner, shape = (box[0], box[1]), (box[2], box[3]), (box[4], box[5])
        planes, plane_count = box[6], box[7]
        behind = scratch + plane_count * shape[0] * shape[1] * FLOAT_BYTES
        fill_line(behind, 0, SLACK, 0)  # what memory holds by chance may take long to multiply
        fill_border(size, plane_count, corner, shape, fill, scratch)
        for move in range(first, stop):
            copy_inside(image, size, moves[move, 0], planes, plane_count, corner, shape, scratch)
            is_bad |= _multiply_window(
                box,
                scratch + box[12],
                other + moves[move, 1],
                columns,
                init + moves[move, 3] * init_step,
                out + moves[move, 2],
                suspects,
                behind + SLACK * FLOAT_BYTES,
            )
    if is_bad and suspects:
        store_word(1, suspects)


@subroutine
def _multiply_window(
    box: Integers,
    window: int,
    other: int,
    columns: Integers,
    init: int,
    out: int,
    suspects: int,
    tile: int,
) -> int:
    """Multiply the lines of a window by columns, and return whether a result is suspect.

    Args:
        box: the lines (`Lines`).
        window: address of their origin.
        other: address of the columns' origin in the second factor.
        columns: (N, 2) int64: offset of a column in the second factor, and in the result.
        init: address of what the columns' sums start from.
        out: address of the window's origin in the result.
        suspects: 0 not to look for suspects.
        tile: address of room for a tile.
    """
    is_bad, line = 0, 0
    is_direct = box[14] == FLOAT_BYTES and suspects == 0
    while line < box[9]:
        at_line = box[8] + line * LINE_FIELDS * WORD_BYTES
        height = box[9] - line
        for column in range(0, len(columns), TILE_COLUMNS):
            at_column = columns.ctypes.data + column * 2 * WORD_BYTES
            width = min(TILE_COLUMNS, len(columns) - column)
            height = _multiply_tile(  # as high as the first, which has the most columns
                width,
                box[13],
                height,
                window,
                at_line,
                box[10],
                box[11],
                other,
                at_column,
                init + column * FLOAT_BYTES,
                out if is_direct else 0,
                tile,
            )
            if not is_direct:
                is_bad |= _store_lines(tile, height, width, at_line, at_column, out, box[14])
        line += height
    return is_bad


@emitted(types.int64, *[types.intp] * 7)
def _store_lines(
    builder: ir.IRBuilder,
    tile: ir.Value,
    height: ir.Value,
    width: ir.Value,
    lines: ir.Value,
    columns: ir.Value,
    out: ir.Value,
    out_step: ir.Value,
) -> ir.Value:
    """Write a tile to its places; 1 if it holds -0 or what is not finite, else 0."""
    word = partial(vectors.load, builder, WORD)

    def store_line(row: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        line = builder.add(lines, builder.mul(row, WORD(LINE_FIELDS * WORD_BYTES)))
        lanes, place = word(line, WORD_BYTES), builder.add(out, word(line, 2 * WORD_BYTES))
        source = builder.add(tile, builder.mul(builder.mul(row, width), WORD(VECTOR_BYTES)))

        def store(column: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
            at = builder.add(source, builder.mul(column, WORD(VECTOR_BYTES)))
            entry = builder.add(columns, builder.mul(column, WORD(2 * WORD_BYTES)))
            vector = vectors.load(builder, _VECTOR, at)
            mask = vectors.mask_first(builder, LANES, lanes)
            suspects = builder.and_(find_suspects(builder, vector), mask)
            target = builder.add(place, word(entry, WORD_BYTES))
            _store_line(builder, vector, lanes, at, target, out_step)
            return [builder.or_(found[0], suspects)]

        return vectors.repeat(builder, width, found, store)

    none = ir.Constant(ir.VectorType(ir.IntType(1), LANES), None)
    (found,) = vectors.repeat(builder, height, [none], store_line)
    bits = builder.bitcast(found, ir.IntType(LANES))
    return builder.zext(builder.icmp_unsigned("!=", bits, ir.IntType(LANES)(0)), WORD)


def _store_line(
    builder: ir.IRBuilder,
    vector: ir.Value,
    lanes: ir.Value,
    source: ir.Value,
    target: ir.Value,
    out_step: ir.Value,
) -> None:
    """Store the first lanes of a vector, which also lies at `source`, so many bytes apart."""
    is_dense, is_every_other = (
        builder.icmp_signed("==", out_step, WORD(n * FLOAT_BYTES)) for n in (1, 2)
    )
    with builder.if_else(is_dense) as (then, otherwise):
        with then:
            _store_dense(builder, vector, lanes, target)
        with otherwise, builder.if_else(is_every_other) as (spread, apart):
            with spread:
                _store_every_other(builder, vector, lanes, target)
            with apart:

                def copy(lane: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
                    at = builder.add(source, builder.mul(lane, WORD(FLOAT_BYTES)))
                    to = builder.add(target, builder.mul(lane, out_step))
                    vectors.store(builder, vectors.load(builder, FLOAT, at), to)
                    return []

                vectors.repeat(builder, lanes, [], copy)


def _store_dense(
    builder: ir.IRBuilder, vector: ir.Value, lanes: ir.Value, target: ir.Value
) -> None:
    is_whole = builder.icmp_signed("==", lanes, WORD(LANES))
    with builder.if_else(is_whole) as (whole, part):
        with whole:
            vectors.store(builder, vector, target)
        with part:
            vectors.store_first(builder, vector, target, lanes)


def _store_every_other(
    builder: ir.IRBuilder, vector: ir.Value, lanes: ir.Value, target: ir.Value
) -> None:
    """Store the first lanes of a vector to every other float of memory."""
    for half in range(2):
        first = half * LANES // 2
        spread = vectors.shuffle(
            builder, vector, vector, [first + lane // 2 for lane in range(LANES)]
        )
        reached = builder.mul(builder.sub(lanes, WORD(first)), WORD(2))
        even = ir.Constant(ir.VectorType(ir.IntType(1), LANES), [1, 0] * (LANES // 2))
        mask = builder.and_(vectors.mask_first(builder, LANES, reached), even)
        place = builder.add(target, WORD(half * VECTOR_BYTES))
        vectors.store_masked(builder, spread, place, mask)


@linked(*[types.intp] * 12, result=types.int64)
def _multiply_tile(
    builder: ir.IRBuilder,
    columns: ir.Value,
    stride: ir.Value,
    lines: ir.Value,
    *operands: ir.Value,
) -> None:
    """Compute a tile of some of these lines, and return how many."""
    end = builder.append_basic_block("end")
    switch = builder.switch(builder.add(builder.mul(columns, WORD(MOST_STRIDE)), stride), end)
    for width in range(1, TILE_COLUMNS + 1):
        for floats in range(1, MOST_STRIDE + 1):
            block = builder.append_basic_block("sizes")
            switch.add_case(WORD(width * MOST_STRIDE + floats), block)
            builder.position_at_end(block)
            for height in _get_heights(width):
                with builder.if_then(builder.icmp_signed(">=", lines, WORD(height))):
                    _emit_tile(builder, (height, width, floats), *operands)
                    builder.ret(WORD(height))
            builder.branch(end)
    builder.position_at_end(end)
    builder.unreachable()


def _emit_tile(
    builder: ir.IRBuilder,
    size: tuple[int, int, int],
    a: ir.Value,
    lines: ir.Value,
    steps: ir.Value,
    depth: ir.Value,
    b: ir.Value,
    columns: ir.Value,
    init: ir.Value,
    out: ir.Value,
    tile: ir.Value,
) -> None:
    """Write a tile's sums to its places in the result at `out`, or side by side if that is 0."""
    height, width, stride = size
    step_bytes = WORD_BYTES * LINE_FIELDS
    offsets = [vectors.load(builder, WORD, lines, row * step_bytes) for row in range(height)]
    places = [vectors.load(builder, WORD, columns, 2 * n * WORD_BYTES) for n in range(width)]

    def load_line(place: ir.Value) -> ir.Value:
        line = vectors.load(builder, _VECTOR, place)
        if stride == 1:
            return line
        rest = vectors.load(builder, _VECTOR, place, VECTOR_BYTES)
        return vectors.shuffle(builder, line, rest, list(range(0, stride * LANES, stride)))

    def multiply(step: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        entry = builder.add(steps, builder.shl(step, WORD(4)))
        at_a = builder.add(a, vectors.load(builder, WORD, entry))
        at_b = builder.add(b, vectors.load(builder, WORD, entry, WORD_BYTES))
        elements = [vectors.load(builder, FLOAT, builder.add(at_b, place)) for place in places]
        factors = [vectors.splat(builder, element, LANES) for element in elements]
        following = []
        for row, offset in enumerate(offsets):
            line = load_line(builder.add(at_a, offset))
            for n, factor in enumerate(factors):
                terms = [line, factor, sums[row * width + n]]
                following.append(hold(builder, vectors.call(builder, "llvm.fma", terms)))
        return following

    elements = [vectors.load(builder, FLOAT, init, n * FLOAT_BYTES) for n in range(width)]
    start = [vectors.splat(builder, element, LANES) for element in elements] * height
    sums = vectors.repeat(builder, depth, start, multiply)
    results = [emit_canonical(builder, total) for total in sums]
    with builder.if_else(builder.icmp_signed("!=", out, WORD(0))) as (then, otherwise):
        with then:
            for number, result in enumerate(results):
                line, column = divmod(number, width)
                place = vectors.load(builder, WORD, lines, line * step_bytes + 2 * WORD_BYTES)
                shift = vectors.load(builder, WORD, columns, (2 * column + 1) * WORD_BYTES)
                lanes = vectors.load(builder, WORD, lines, line * step_bytes + WORD_BYTES)
                target = builder.add(out, builder.add(place, shift))
                _store_dense(builder, result, lanes, target)
        with otherwise:
            for number, result in enumerate(results):
                vectors.store(builder, result, tile, number * VECTOR_BYTES)
