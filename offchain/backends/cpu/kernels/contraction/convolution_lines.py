"""Products of few columns whose first factor is read in place, as vectors of rows.

The counterpart of `convolution` for results of at most a few channels, such as each channel's own
of a depthwise convolution: a step of k broadcasts the second factor's element of every column to
vectors of rows, which lie side by side, or every other float, in a line of the image.
"""

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from offchain.backends.cpu.kernels.contraction.convolution import hold, is_suspect
from offchain.backends.cpu.kernels.contraction.convolution_packing import WORD_BYTES, copy_window
from offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES, emit_canonical
from offchain.native import vectors
from offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from offchain.native.machine import VECTOR_REGISTERS
from offchain.native.vectors import FLOAT, LANES, VECTOR_BYTES, WORD

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

MOST_COLUMNS = 4
MOST_STRIDE = 2
"""Floats from one row to the next in a line of the image; two vectors hold a vector of rows."""

LINE_FIELDS = 3


_HEIGHTS = (12, 6, 3, 1)
"""Vectors of rows of a tile; fewer of them where registers do not suffice."""

TILE_SIZE = _HEIGHTS[0] * MOST_COLUMNS * LANES
_VECTOR = ir.VectorType(FLOAT, LANES)

SLACK = 2 * MOST_STRIDE * LANES
"""Floats behind a window that are read and not used."""


def _get_heights(columns: int) -> list[int]:
    most = max(1, (VECTOR_REGISTERS - 2 - columns) // columns - 1)
    return [min(most, _HEIGHTS[0]), *(h for h in _HEIGHTS[1:] if h < min(most, _HEIGHTS[0]))]


@kernel(
    reads(types.float32, 1),
    reads(types.int64, 1),
    reads(types.int64, 1),
    types.float32,
    reads(types.int64, 2),
    reads(types.int64, 2),
    reads(types.int64, 2),
    types.int64,
    types.int64,
    reads(types.float32, 1),
    reads(types.int64, 2),
    reads(types.float32, 2),
    writes(types.float32, 1),
    types.int64,
    writes(types.float32, 1),
    writes(types.int64, 1),
)
def multiply_lines(
    image: Floats,
    geometry: Integers,
    planes: Integers,
    fill: float,
    moves: Integers,
    lines: Integers,
    steps: Integers,
    start: int,
    stride: int,
    other: Floats,
    columns: Integers,
    init: Floats,
    out: Floats,
    out_step: int,
    scratch: Floats,
    suspects: Integers,
) -> None:
    """Multiply the lines of windows, each of which is somewhere else in the image, by columns.

    Args:
        image: the first factor.
        geometry: (6,) int64: rows and columns of its planes; first row and column of the window,
            of any sign; rows and columns of the window.
        planes: (P,) int64: numbers of the window's planes, the first one's subtracted.
        fill: what lies outside of the image.
        moves: (T, 4) int64: of each window, the first plane's number, the offset in bytes of its
            part of the second factor, that of its results, and its row of `init`.
        lines: (V, 3) int64: offset of a vector of rows in the window, its rows, and the offset of
            its results.
        steps: (K, 2) int64: offset of a step of k in the window, and in the second factor.
        start: offset of the lines' origin in the window.
        stride: floats from a row to the next in the window, at most `MOST_STRIDE`.
        other: the second factor.
        columns: (N, 2) int64: offset of a column in the second factor, and in the result; N is at
            most `MOST_COLUMNS`.
        init: (G, at least N) float32: what sums start from.
        out: the result.
        out_step: bytes from a row to the next in the result.
        scratch: room for the largest window and `SLACK` floats, then for a tile.
        suspects: (1,) int64: is increased if a result is -0 or not finite; (0,) not to look.
    """
    height, width, first_row, first_column, window_rows, window_columns = geometry
    window = scratch.ctypes.data
    tile = window + (len(planes) * window_rows * window_columns + SLACK) * FLOAT_BYTES
    n = len(columns)
    for move in range(len(moves)):
        plane, in_other, in_out, group = moves[move]
        copy_window(
            image.ctypes.data,
            (height, width),
            plane,
            planes.ctypes.data,
            len(planes),
            (first_row, first_column),
            (window_rows, window_columns),
            fill,
            window,
        )
        line = 0
        while line < len(lines):
            count = _multiply_tile(
                n,
                stride,
                len(lines) - line,
                window + start,
                lines.ctypes.data + line * LINE_FIELDS * WORD_BYTES,
                steps.ctypes.data,
                len(steps),
                other.ctypes.data + in_other,
                columns.ctypes.data,
                init.ctypes.data + group * init.strides[0],
                tile,
            )
            for number in range(count):
                _, lanes, place = lines[line + number]
                for column in range(n):
                    source = tile + (number * n + column) * VECTOR_BYTES
                    target = out.ctypes.data + in_out + place + columns[column, 1]
                    _store_line(source, lanes, target, out_step, suspects)
            line += count


@subroutine
def _store_line(source: int, lanes: int, target: int, out_step: int, suspects: Integers) -> None:
    _keep_first(source, lanes)
    for i in range(len(suspects)):
        suspects[i] += is_suspect(source)
    if out_step == FLOAT_BYTES:
        _store_first(source, lanes, target)
    else:
        for lane in range(lanes):
            _copy_float(source + lane * FLOAT_BYTES, target + lane * out_step)


@emitted(types.void, types.intp, types.intp)
def _keep_first(builder: ir.IRBuilder, place: ir.Value, lanes: ir.Value) -> None:
    vectors.store(builder, vectors.load_first(builder, _VECTOR, place, lanes), place)


@emitted(types.void, *[types.intp] * 3)
def _store_first(
    builder: ir.IRBuilder, source: ir.Value, lanes: ir.Value, target: ir.Value
) -> None:
    vectors.store_first(builder, vectors.load(builder, _VECTOR, source), target, lanes)


@emitted(types.void, types.intp, types.intp)
def _copy_float(builder: ir.IRBuilder, source: ir.Value, target: ir.Value) -> None:
    vectors.store(builder, vectors.load(builder, FLOAT, source), target)


@emitted(types.int64, *[types.intp] * 11)
def _multiply_tile(builder: ir.IRBuilder, *words: ir.Value) -> ir.Value:
    """Call `_emit_sizes` as a function of its own, in which the loop has all registers."""
    function = builder.module.globals.get(_emit_sizes.__name__)
    if function is None:
        kind = ir.FunctionType(WORD, [WORD] * len(words))
        function = ir.Function(builder.module, kind, _emit_sizes.__name__)
        function.linkage = "internal"
        function.attributes.add("noinline")
        _emit_sizes(ir.IRBuilder(function.append_basic_block("entry")), *function.args)
    return builder.call(function, words)


def _emit_sizes(
    builder: ir.IRBuilder,
    columns: ir.Value,
    stride: ir.Value,
    lines: ir.Value,
    *operands: ir.Value,
) -> None:
    """Compute a tile of some of these lines, and return how many."""
    for width in range(1, MOST_COLUMNS + 1):
        for floats in range(1, MOST_STRIDE + 1):
            for height in _get_heights(width):
                is_right = builder.and_(
                    builder.icmp_signed("==", columns, WORD(width)),
                    builder.icmp_signed("==", stride, WORD(floats)),
                )
                fits = builder.icmp_signed(">=", lines, WORD(height))
                with builder.if_then(builder.and_(is_right, fits)):
                    _emit_tile(builder, (height, width, floats), *operands)
                    builder.ret(WORD(height))
    builder.ret(WORD(1))


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
    tile: ir.Value,
) -> None:
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
    for number, total in enumerate(sums):
        vectors.store(builder, emit_canonical(builder, total), tile, number * VECTOR_BYTES)
