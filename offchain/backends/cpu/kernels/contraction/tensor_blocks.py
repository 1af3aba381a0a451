"""Batched products of matrices of bfloat16 numbers, added up in blocks as tensor cores do.

Each element is the chain that `arithmetic/tensor/blocks.py` defines, for every input. A tile
(`tensor_tile.py`) computes the elements of which it knows that it computes them as defined, and
marks the others; these, and those of factors that no tile may have, are folded in integers.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.tensor_tile import (
    A_STEP_BYTES,
    B_STEP_BYTES,
    COLUMNS,
    LEAST_EXPONENT,
    LEAST_MARKED,
    MOST_EXPONENT,
    MOST_STEPS,
    PACKED_BIAS,
    ROWS,
    TURN,
    multiply_tile,
    pack_panel,
    pack_row,
)
from moot.offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from moot.offchain.native.vectors import FLOAT, INDEX, LANES, WORD

Floats = npt.NDArray[np.float32]
Patterns = npt.NDArray[np.uint16]
Bytes = npt.NDArray[np.uint8]

DEPTH = 1 << MOST_STEPS
"""Steps that are computed at a time at most: whole blocks."""

_NOTHING = 0xFFFFFFFF

_GROUP = 16
"""Rows that are read at once where their steps do not lie side by side."""

_NAN, _INFINITY, _SIGN, _MAGNITUDE = 0x7FC00000, 0x7F800000, 1 << 31, 0x7FFFFFFF
_FRACTION_BITS, _BIAS, _LEAST, _MOST = 23, 127, -149, 127
_FACTOR_NAN, _FACTOR_MAGNITUDE = 0x7F80, 0x7FFF
_FACTOR_BITS = 7


@emitted(types.int64, types.float32)
def _get_bits(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.zext(builder.bitcast(x, INDEX), WORD)


@emitted(types.float32, types.int64)
def _get_float(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    return builder.bitcast(builder.trunc(bits, INDEX), FLOAT)


@emitted(types.int64, types.int64)
def _get_length(builder: ir.IRBuilder, size: ir.Value) -> ir.Value:
    """The bits of a positive integer."""
    bit = ir.IntType(1)
    signature = ir.FunctionType(WORD, [WORD, bit])
    function = builder.module.declare_intrinsic("llvm.ctlz.i64", fnty=signature)
    return builder.sub(WORD(64), builder.call(function, [size, bit(0)]))


@subroutine
def _shift(size: int, places: int) -> int:
    """Return a size shifted up so many places, or down and cut."""
    return size << places if places >= 0 else size >> min(-places, 63)


@subroutine
def _cut(total: int, unit: int) -> int:
    """Return the pattern of the number next to total * 2^unit in the direction of zero."""
    if total == 0:
        return 0
    size, sign = abs(total), _SIGN if total < 0 else 0
    exponent = _get_length(size) - 1 + unit
    if exponent > _MOST:
        return sign | _INFINITY
    last = max(exponent - _FRACTION_BITS, _LEAST)
    bits = _shift(size, unit - last)
    if bits == 0:
        return 0
    return sign | (bits + ((last - _LEAST) << _FRACTION_BITS))


@subroutine
def _add_block(
    a: Patterns, b: Patterns, start: int, stop: int, before: int, kept_bits: int, least: int
) -> int:
    """Return the accumulator after the products of steps of a row and a column.

    Args:
        a: the patterns of the row, and
        b: those of the column.
        start: the first step.
        stop: the first one that is not of the block.
        before: the accumulator's pattern, which is not NaN.
        kept_bits: how many bits below the largest exponent a term is cut.
        least: the exponent with which a term that is zero takes part.
    """
    size = before & _MAGNITUDE
    plus, minus = 0, 0
    if size == _INFINITY:
        plus, minus = int(before < _SIGN), int(before >= _SIGN)
    before_exponent = max(size >> _FRACTION_BITS, 1) - _BIAS
    largest = before_exponent if size else least
    for k in range(start, stop):
        x, y = np.int64(a[k]), np.int64(b[k])
        left, right = x & _FACTOR_MAGNITUDE, y & _FACTOR_MAGNITUDE
        if left >= _FACTOR_NAN or right >= _FACTOR_NAN:
            if max(left, right) > _FACTOR_NAN or min(left, right) == 0:
                return _NAN
            is_minus = (x ^ y) > _FACTOR_MAGNITUDE
            plus, minus = plus | int(not is_minus), minus | int(is_minus)
        elif left != 0 and right != 0:
            exponent = max(left >> _FACTOR_BITS, 1) + max(right >> _FACTOR_BITS, 1) - 2 * _BIAS
            largest = max(largest, exponent)
    if plus and minus:
        return _NAN
    if plus or minus:
        return _INFINITY if plus else _SIGN | _INFINITY
    last = largest - kept_bits
    significand = size & ((1 << _FRACTION_BITS) - 1)
    if size >> _FRACTION_BITS:
        significand |= 1 << _FRACTION_BITS
    total = _shift(significand, before_exponent - _FRACTION_BITS - last)
    if before >= _SIGN:
        total = -total
    hidden = 1 << _FACTOR_BITS
    for k in range(start, stop):
        x, y = np.int64(a[k]), np.int64(b[k])
        left, right = x & _FACTOR_MAGNITUDE, y & _FACTOR_MAGNITUDE
        if left != 0 and right != 0:
            exponent = max(left >> _FACTOR_BITS, 1) + max(right >> _FACTOR_BITS, 1) - 2 * _BIAS
            first = (left & (hidden - 1)) | (hidden if left >= hidden else 0)
            second = (right & (hidden - 1)) | (hidden if right >= hidden else 0)
            term = _shift(first * second, exponent - 2 * _FACTOR_BITS - last)
            total += -term if (x ^ y) > _FACTOR_MAGNITUDE else term
    return _cut(total, last)


@subroutine
def _fold(
    a: Patterns,
    b: Patterns,
    start: int,
    stop: int,
    before: np.float32,
    pairs: int,
    kept_bits: int,
    least: int,
) -> Any:
    """Return a sum after steps of a row and a column, block by block, in integers."""
    total = _get_bits(before)
    for k in range(start, stop, pairs):
        if total & _MAGNITUDE > _INFINITY:
            return _get_float(_NAN)
        total = _add_block(a, b, k, min(k + pairs, stop), total, kept_bits, least)
    return _get_float(total)


@kernel(
    reads(types.uint16, 3, "A"),
    reads(types.uint16, 3, "A"),
    writes(types.float32, 3, "A"),
    *[types.int64] * 5,
)
def fold_elements(
    a: Patterns,
    b: Patterns,
    out: Floats,
    pairs: int,
    kept_bits: int,
    least: int,
    first: int,
    stop: int,
) -> None:
    """Compute the elements from `first` to `stop` in place, in integers."""
    _, m, n = out.shape
    depth = a.shape[2]
    for element in range(first, stop):
        z, i, j = element // (m * n), element // n % m, element % n
        out[z, i, j] = _fold(a[z, i], b[z, :, j], 0, depth, out[z, i, j], pairs, kept_bits, least)


@subroutine
def _round_up(count: int, unit: int) -> int:
    return -(-count // unit) * unit


def count_scratch_bytes(rows: int, depth: int) -> int:
    """Return the bytes of scratch memory for so many rows and steps of a block at most."""
    steps = -(-depth // _UNIT) * _UNIT
    whole = -(-rows // ROWS) * ROWS
    packed = whole * (steps * 2 * A_STEP_BYTES + 2 * 8) + steps * B_STEP_BYTES
    buffer = 2 * steps * max(_GROUP, COLUMNS)
    return packed + buffer + ROWS * COLUMNS * 4 + 5 * 64


_UNIT = 16
"""Steps of packed factors are a multiple of those of every block, and of the lanes of a vector."""


@kernel(
    reads(types.uint16, 3, "A"),
    reads(types.uint16, 3, "A"),
    writes(types.float32, 3, "A"),
    writes(types.uint8, 1),
    *[types.int64] * 8,
)
def multiply_blocks(
    a: Patterns,
    b: Patterns,
    out: Floats,
    scratch: Bytes,
    pairs: int,
    kept_bits: int,
    least: int,
    depth: int,
    block_m: int,
    block_n: int,
    first: int,
    stop: int,
) -> None:
    """Add products to the elements of some blocks of the result, in place.

    Args:
        a: (B, M, K), any strides.
        b: (B, K, N), any strides.
        out: (B, M, N) whose rows are contiguous.
        scratch: `count_scratch_bytes` of memory.
        pairs: steps of a block of the chain.
        kept_bits: how many bits below the largest exponent a term is cut.
        least: the exponent with which a term that is zero takes part.
        depth: steps that are computed at a time, a multiple of `pairs`, at most `DEPTH`.
        block_m: rows of a block of the result.
        block_n: columns of one.
        first: the first block to compute.
        stop: the first not to.
    """
    _, m, n = out.shape
    steps = a.shape[2]
    wide = _round_up(depth, _UNIT)
    row_bytes = wide * 2 * A_STEP_BYTES
    whole = _round_up(block_m, ROWS)
    rows_at = (scratch.ctypes.data + 63) // 64 * 64
    panel_at = _round_up(rows_at + whole * row_bytes, 64)
    marks_at = panel_at + wide * B_STEP_BYTES
    marks = scratch[marks_at - scratch.ctypes.data :][: ROWS * COLUMNS * 4].view(np.uint32)
    ranges_at = marks_at + ROWS * COLUMNS * 4
    ranges = scratch[ranges_at - scratch.ctypes.data :][: whole * 8].view(np.int64)
    buffer_at = ranges_at + whole * 8
    buffer = scratch[buffer_at - scratch.ctypes.data :][: 2 * wide * max(_GROUP, COLUMNS)].view(
        np.uint16
    )
    tall, long = -(-m // block_m), -(-n // block_n)
    for block in range(first, stop):
        z, part, column_part = block // (tall * long), block // long % tall, block % long
        first_row, first_column = part * block_m, column_part * block_n
        last_row, last_column = min(first_row + block_m, m), min(first_column + block_n, n)
        for k in range(0, steps, depth):
            end = min(k + depth, steps)
            _pack_rows(a[z, first_row:last_row, k:end], row_bytes, rows_at, ranges, buffer)
            for column in range(first_column, last_column, COLUMNS):
                width = min(COLUMNS, last_column - column)
                span = _pack_columns(b[z, k:end, column : column + width], panel_at, buffer)
                for row in range(first_row, last_row, ROWS):
                    height = min(ROWS, last_row - row)
                    place = row - first_row
                    most, lowest = 0, _NOTHING
                    for i in range(place, place + ROWS):
                        most = max(most, ranges[i] >> 32)
                        lowest = min(lowest, ranges[i] & _NOTHING)
                    most += span >> 32
                    lowest += (span & _NOTHING) + 2
                    target = out.ctypes.data + z * out.strides[0]
                    is_marked = most > MOST_EXPONENT + PACKED_BIAS
                    if is_marked:
                        marks[:] = 0
                    else:
                        is_marked = multiply_tile(
                            height,
                            width,
                            rows_at + place * row_bytes,
                            row_bytes,
                            panel_at,
                            -(-(end - k) // pairs),
                            pairs // TURN,
                            kept_bits,
                            int(lowest >= LEAST_EXPONENT + PACKED_BIAS),
                            target + row * out.strides[1] + column * out.strides[2],
                            out.strides[1],
                            marks_at,
                        )
                    if not is_marked:
                        continue
                    for i in range(height):
                        for j in range(width):
                            if marks[i * COLUMNS + j] < LEAST_MARKED:
                                left, right = a[z, row + i], b[z, :, column + j]
                                before = out[z, row + i, column + j]
                                out[z, row + i, column + j] = _fold(
                                    left, right, k, end, before, pairs, kept_bits, least
                                )


@subroutine
def _pack_rows(a: Patterns, row_bytes: int, target: int, ranges: Any, buffer: Patterns) -> None:
    """Pack rows, and rows of zeros up to whole tiles, one after the other."""
    m, steps = a.shape
    padded = _round_up(steps, _UNIT)
    for first in range(0, m, _GROUP):
        stop, beyond = min(first + _GROUP, m), min(first + _GROUP, _round_up(m, ROWS))
        is_dense = a.strides[1] == 2 and steps == padded and stop == beyond
        if not is_dense:
            if stop < beyond or steps < padded:
                buffer[: (beyond - first) * padded] = 0
            if a.strides[1] == 2:
                for i in range(first, stop):
                    for k in range(steps):
                        buffer[(i - first) * padded + k] = a[i, k]
            else:
                for k in range(steps):
                    for i in range(first, stop):
                        buffer[(i - first) * padded + k] = a[i, k]
        for i in range(first, beyond):
            source = buffer.ctypes.data + 2 * (i - first) * padded
            if is_dense:
                source = a.ctypes.data + i * a.strides[0]
            place = target + i * row_bytes
            ranges[i] = pack_row(source, padded // LANES, place, place + row_bytes // 2)


@subroutine
def _pack_columns(b: Patterns, target: int, buffer: Patterns) -> int:
    """Pack the columns of a panel, and more of zeros, and return the range of their exponents."""
    steps, n = b.shape
    padded = _round_up(steps, _UNIT)
    if b.strides[1] == 2 and n == COLUMNS and steps == padded:
        return pack_panel(b.ctypes.data, b.strides[0], steps, target)
    if n < COLUMNS or steps < padded:
        buffer[: padded * COLUMNS] = 0
    if b.strides[0] == 2:
        for j in range(n):
            for k in range(steps):
                buffer[k * COLUMNS + j] = b[k, j]
    else:
        for k in range(steps):
            for j in range(n):
                buffer[k * COLUMNS + j] = b[k, j]
    return pack_panel(buffer.ctypes.data, 2 * COLUMNS, padded, target)
