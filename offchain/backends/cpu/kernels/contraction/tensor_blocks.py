"""Batched products of matrices of bfloat16, added up block by block as tensor cores do.

Each element is the chain that `arithmetic/tensor/blocks.py` defines. Tiles (`tensor_tile.py`) read
packed factors, and know which elements may be beyond what they can compute; these are folded one by
one, in integers, from the patterns as they lie.
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
    INFINITE,
    LEAST_EXPONENT,
    LEAST_MARK,
    MARK_BYTES,
    MOST_EXPONENT,
    MOST_STEPS,
    PAIR_BIAS,
    ROWS,
    TURN,
    multiply_tile,
    pack_columns,
    pack_row,
)
from moot.offchain.native.compiled import emitted, kernel, reads, subroutine, writes
from moot.offchain.native.vectors import CACHE_LINE_BYTES, FLOAT, INDEX, LANES, WORD

Floats = npt.NDArray[np.float32]
Patterns = npt.NDArray[np.uint16]
Integers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

_UNIT = 16
"""What the steps of packed factors are a multiple of: whole blocks, and whole vectors of a row."""

_GROUP = 16
"""Rows that are read at once where their steps do not lie side by side."""

_PATTERN_BYTES, _RANGE_BYTES = 2, 8
_LOWER_HALF = 0xFFFFFFFF

_NAN, _INFINITY, _SIGN, _SIZE = 0x7FC00000, 0x7F800000, 1 << 31, 0x7FFFFFFF
_FRACTION_BITS, _BIAS, _LEAST, _MOST = 23, 127, -149, 127
_FACTOR_INFINITY, _FACTOR_SIZE, _FACTOR_BITS = 0x7F80, 0x7FFF, 7


def divide_steps(steps: int) -> int:
    """Return how many of so many steps are computed at a time."""
    parts = -(-steps // MOST_STEPS)
    return _round_up(-(-steps // parts), _UNIT)


def count_scratch_bytes(rows: int, depth: int) -> int:
    """Return the scratch memory that parts of so many rows, computed so deep at a time, need."""
    return int(_place(_round_up(rows, ROWS), _round_up(depth, _UNIT))[-1]) + CACHE_LINE_BYTES


@subroutine
def _round_up(count: int, unit: int) -> int:
    return -(-count // unit) * unit


@subroutine
def _place(rows: int, depth: int) -> tuple[int, int, int, int, int]:
    """Return where packed columns, marks, ranges and patterns to be packed begin, and the end.

    Before them are packed rows.
    """
    columns = rows * 2 * depth * A_STEP_BYTES
    marks = columns + depth * B_STEP_BYTES
    ranges = marks + ROWS * COLUMNS * MARK_BYTES
    patterns = ranges + rows * _RANGE_BYTES
    end = patterns + depth * max(_GROUP, COLUMNS) * _PATTERN_BYTES
    return columns, marks, ranges, patterns, end


@kernel(
    reads(types.uint16, 3, "A"),
    reads(types.uint16, 3, "A"),
    writes(types.float32, 3, "A"),
    writes(types.uint8, 1),
    *[types.int64] * 8,
)
def multiply_parts(
    a: Patterns,
    b: Patterns,
    out: Floats,
    scratch: Bytes,
    pairs: int,
    kept_bits: int,
    zero_exponent: int,
    depth: int,
    part_m: int,
    part_n: int,
    first: int,
    stop: int,
) -> None:
    """Add the products to some parts of the result, in place.

    Args:
        a: (B, M, K), any strides.
        b: (B, K, N), any strides.
        out: (B, M, N) with contiguous rows, which shares no memory with a and b.
        scratch: `count_scratch_bytes` of memory.
        pairs: the steps of a block: a multiple of `TURN`, and a divisor of `_UNIT`.
        kept_bits: how many bits below the largest exponent a term is cut, 25 at most.
        zero_exponent: the exponent with which a term that is zero takes part: a small one.
        depth: steps that are computed at a time: `divide_steps`.
        part_m: rows of a part of a matrix.
        part_n: columns of one.
        first: the first part to compute; those of a matrix follow each other row by row.
        stop: the first not to.
    """
    _, m, n = out.shape
    steps = a.shape[2]
    at_rows = _round_up(scratch.ctypes.data, CACHE_LINE_BYTES)
    space = scratch[at_rows - scratch.ctypes.data :]
    at_columns, at_marks, at_ranges, at_patterns, end = _place(_round_up(part_m, ROWS), depth)
    marks = space[at_marks:at_ranges].view(np.uint32)
    ranges = space[at_ranges:at_patterns].view(np.int64)
    patterns = space[at_patterns:end].view(np.uint16)
    row_bytes = 2 * depth * A_STEP_BYTES
    tall, long = -(-m // part_m), -(-n // part_n)
    for part in range(first, stop):
        z, up, left = part // (tall * long), part // long % tall * part_m, part % long * part_n
        down, right = min(up + part_m, m), min(left + part_n, n)
        for k in range(0, steps, depth):
            deep = min(k + depth, steps)
            _pack_rows(a[z, up:down, k:deep], row_bytes, at_rows, ranges, patterns)
            for column in range(left, right, COLUMNS):
                width = min(COLUMNS, right - column)
                columns = b[z, k:deep, column : column + width]
                span = _pack_columns(columns, at_rows + at_columns, patterns)
                for row in range(up, down, ROWS):
                    height, place = min(ROWS, down - row), row - up
                    most_a, least_a = _join(ranges[place : place + height])
                    most_b, least_b = span >> 32, span & _LOWER_HALF
                    is_far = max(most_a, most_b) >= INFINITE
                    if is_far or most_a + most_b > MOST_EXPONENT + PAIR_BIAS:
                        marks[:] = 0
                    elif not multiply_tile(
                        height,
                        width,
                        at_rows + place * row_bytes,
                        row_bytes,
                        at_rows + at_columns,
                        -(-(deep - k) // pairs),
                        pairs // TURN,
                        kept_bits,
                        int(least_a + least_b + 2 >= LEAST_EXPONENT + PAIR_BIAS),
                        out.ctypes.data
                        + z * out.strides[0]
                        + row * out.strides[1]
                        + column * out.strides[2],
                        out.strides[1],
                        at_rows + at_marks,
                    ):
                        continue
                    _fold_marked(
                        a[z, row : row + height, k:deep],
                        b[z, k:deep, column : column + width],
                        out[z, row : row + height, column : column + width],
                        marks,
                        pairs,
                        kept_bits,
                        zero_exponent,
                    )


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
    zero_exponent: int,
    first: int,
    stop: int,
) -> None:
    """Add the products to the elements from `first` to `stop` in place, in integers.

    Args:
        a: (B, M, K), any strides.
        b: (B, K, N), any strides.
        out: (B, M, N), any strides.
        pairs: the steps of a block.
        kept_bits: how many bits below the largest exponent a term is cut.
        zero_exponent: the exponent with which a term that is zero takes part.
        first: the first element to compute.
        stop: the first not to.
    """
    _, m, n = out.shape
    for element in range(first, stop):
        z, i, j = element // (m * n), element // n % m, element % n
        out[z, i, j] = _fold(a[z, i], b[z, :, j], out[z, i, j], pairs, kept_bits, zero_exponent)


@subroutine
def _join(ranges: Integers) -> tuple[int, int]:
    """Return the range of the exponents of some rows."""
    most, least = 0, _LOWER_HALF
    for i in range(ranges.size):
        most, least = max(most, ranges[i] >> 32), min(least, ranges[i] & _LOWER_HALF)
    return most, least


@subroutine
def _pack_rows(
    a: Patterns, row_bytes: int, target: int, ranges: Integers, patterns: Patterns
) -> None:
    """Pack rows one after the other, and zeros behind each."""
    m, steps = a.shape
    padded = _round_up(steps, _UNIT)
    is_packed_in_place = a.strides[1] == _PATTERN_BYTES and steps == padded
    for first in range(0, m, _GROUP):
        group = a[first : first + _GROUP]
        source, step = group.ctypes.data, group.strides[0]
        if not is_packed_in_place:
            _copy_rows(group, padded, patterns)
            source, step = patterns.ctypes.data, padded * _PATTERN_BYTES
        for i in range(group.shape[0]):
            place = target + (first + i) * row_bytes
            found = pack_row(source + i * step, padded // LANES, place, place + row_bytes // 2)
            ranges[first + i] = found


@subroutine
def _copy_rows(a: Patterns, padded: int, target: Patterns) -> None:
    """Copy rows, so that their steps lie side by side, and zeros behind each."""
    m, steps = a.shape
    for i in range(m):
        target[i * padded + steps : (i + 1) * padded] = 0
    if a.strides[1] == _PATTERN_BYTES:
        for i in range(m):
            for k in range(steps):
                target[i * padded + k] = a[i, k]
    else:
        for k in range(steps):
            for i in range(m):
                target[i * padded + k] = a[i, k]


@subroutine
def _pack_columns(b: Patterns, target: int, patterns: Patterns) -> int:
    """Pack columns, and zeros beside and behind them, and return the range of their exponents."""
    steps, n = b.shape
    padded = _round_up(steps, _UNIT)
    if b.strides[1] == _PATTERN_BYTES and n == COLUMNS and steps == padded:
        return int(pack_columns(b.ctypes.data, b.strides[0], steps, target))
    if n < COLUMNS or steps < padded:
        patterns[: padded * COLUMNS] = 0
    if b.strides[0] == _PATTERN_BYTES:
        for j in range(n):
            for k in range(steps):
                patterns[k * COLUMNS + j] = b[k, j]
    else:
        for k in range(steps):
            for j in range(n):
                patterns[k * COLUMNS + j] = b[k, j]
    row_bytes = COLUMNS * _PATTERN_BYTES
    return int(pack_columns(patterns.ctypes.data, row_bytes, padded, target))


@subroutine
def _fold_marked(
    a: Patterns,
    b: Patterns,
    out: Floats,
    marks: Marks,
    pairs: int,
    kept_bits: int,
    zero_exponent: int,
) -> None:
    """Add the products to those elements of a tile that are marked."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            if marks[i * COLUMNS + j] < LEAST_MARK:
                out[i, j] = _fold(a[i], b[:, j], out[i, j], pairs, kept_bits, zero_exponent)


@subroutine
def _fold(
    a: Patterns, b: Patterns, start: float, pairs: int, kept_bits: int, zero_exponent: int
) -> Any:
    """Return what a row and a column make of a sum, block by block, in integers."""
    total = _get_bits(start)
    for k in range(0, a.size, pairs):
        if total & _SIZE > _INFINITY:
            return _get_float(_NAN)
        stop = min(k + pairs, a.size)
        total = _add_block(a[k:stop], b[k:stop], total, kept_bits, zero_exponent)
    return _get_float(total)


@subroutine
def _add_block(a: Patterns, b: Patterns, before: int, kept_bits: int, zero_exponent: int) -> int:
    """Return the pattern of the accumulator after a block, from one that is not NaN."""
    size = before & _SIZE
    is_plus, is_minus = before == _INFINITY, before == _INFINITY | _SIGN
    own = max(size >> _FRACTION_BITS, 1) - _BIAS
    largest = own if size else zero_exponent
    for k in range(a.size):
        x, y = int(np.int64(a[k])), int(np.int64(b[k]))
        left, right = x & _FACTOR_SIZE, y & _FACTOR_SIZE
        if max(left, right) >= _FACTOR_INFINITY:
            if max(left, right) > _FACTOR_INFINITY or min(left, right) == 0:
                return _NAN
            is_negative = (x ^ y) > _FACTOR_SIZE
            is_plus, is_minus = is_plus or not is_negative, is_minus or is_negative
        exponent = _get_exponent(left) + _get_exponent(right)
        largest = max(largest, exponent if min(left, right) else largest)
    if is_plus or is_minus:
        return _NAN if is_plus and is_minus else _INFINITY if is_plus else _INFINITY | _SIGN
    last = largest - kept_bits
    significand = (size & ((1 << _FRACTION_BITS) - 1)) | (
        int(size >> _FRACTION_BITS != 0) << _FRACTION_BITS
    )
    total = _negate(_shift(significand, own - _FRACTION_BITS - last), before >> 31)
    for k in range(a.size):
        x, y = int(np.int64(a[k])), int(np.int64(b[k]))
        left, right = x & _FACTOR_SIZE, y & _FACTOR_SIZE
        unit = _get_exponent(left) + _get_exponent(right) - 2 * _FACTOR_BITS
        product = _get_significand(left) * _get_significand(right)
        total += _negate(_shift(product, unit - last), (x ^ y) >> 15)
    return _cut(total, last)


@subroutine
def _get_exponent(size: int) -> int:
    """Return the exponent of a factor without its sign."""
    return max(size >> _FACTOR_BITS, 1) - _BIAS


@subroutine
def _get_significand(size: int) -> int:
    """Return the significand of a factor without its sign."""
    hidden = int(size >> _FACTOR_BITS != 0) << _FACTOR_BITS
    return (size & ((1 << _FACTOR_BITS) - 1)) | hidden


@subroutine
def _negate(size: int, is_negative: int) -> int:
    return (size ^ -is_negative) + is_negative


@subroutine
def _shift(size: int, places: int) -> int:
    """Return a size shifted up so many places, or down and cut."""
    return size << min(max(places, 0), 63) >> min(max(-places, 0), 63)


@subroutine
def _cut(total: int, unit: int) -> int:
    """Return the pattern of the number next to total * 2^unit in the direction of zero."""
    if total == 0:
        return 0
    size, sign = abs(total), _SIGN if total < 0 else 0
    exponent = int(_count_bits(size)) - 1 + unit
    if exponent > _MOST:
        return sign | _INFINITY
    last = max(exponent - _FRACTION_BITS, _LEAST)
    bits = _shift(size, unit - last)
    if bits == 0:
        return 0
    # A normal number's leading bit adds one to its biased exponent; a subnormal one has none.
    return sign | (bits + ((last - _LEAST) << _FRACTION_BITS))


@emitted(types.int64, types.float32)
def _get_bits(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.zext(builder.bitcast(x, INDEX), WORD)


@emitted(types.float32, types.int64)
def _get_float(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    return builder.bitcast(builder.trunc(bits, INDEX), FLOAT)


@emitted(types.int64, types.int64)
def _count_bits(builder: ir.IRBuilder, size: ir.Value) -> ir.Value:
    """The bits of a positive integer."""
    is_never_zero = ir.IntType(1)(1)
    signature = ir.FunctionType(WORD, [WORD, is_never_zero.type])
    function = builder.module.declare_intrinsic("llvm.ctlz.i64", fnty=signature)
    return builder.sub(WORD(64), builder.call(function, [size, is_never_zero]))
