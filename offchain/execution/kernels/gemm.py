"""Batched matrix products, every element one fold of fused multiply-adds in ascending order.

out[m, n] starts as init[m, n] and becomes fma(a[m, k], b[k, n], out[m, n]) for k = 0, 1, 2, ... A
blocked product computes just that as long as it does not split k among accumulators, so the order
costs no speed. As in BLIS (Van Zee and van de Geijn, 2015), blocks of both operands are packed into
panels that the inner loop reads from end to end, and the inner loop keeps a tile of the result in
registers. The tile goes back to memory only between blocks of k.
"""

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target

from offchain.arithmetic.functions import CANONICAL_NAN
from offchain.execution.kernels import thin, vectors
from offchain.execution.kernels.compiled import emitted, kernel, reads, subroutine, writes
from offchain.execution.kernels.threads import get_threads, share
from offchain.execution.kernels.vectors import FLOAT, INDEX, WORD

Floats = npt.NDArray[np.float32]

_HAS_WIDE_VECTORS = "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2]
_LANES = 16 if _HAS_WIDE_VECTORS else 8
_ROWS = 14 if _HAS_WIDE_VECTORS else 6
"""Rows of the largest tile; it is two vectors wide and leaves registers for one step's operands."""

_DEPTH = 512
"""Steps of k in a block: two panels of b then stay in the second-level cache."""

_BLOCK = 1024
"""Rows and columns of a block at most; a block is what one thread computes at a time."""

_SMALLEST_BLOCK = 8 * _LANES
_BLOCKS_PER_THREAD = 4
_GRAIN = 2**22
"""Multiply-adds that are worth another thread."""

_FLOAT_BYTES = 4
_NAN = np.uint32(CANONICAL_NAN).view(np.float32)
_SQUARE_BYTES = _FLOAT_BYTES * _LANES**2
_TILE_STEP = 2 * _LANES * _FLOAT_BYTES
_VECTOR = ir.VectorType(FLOAT, _LANES)
_BITS = ir.VectorType(INDEX, _LANES)
_scratch = threading.local()


def gemm(a: Floats, b: Floats, init: Floats, out: Floats | None = None) -> Floats:
    """Multiply batches of matrices: out[z] = init[z] + a[z] @ b[z], each sum in ascending order.

    Args:
        a: (B, M, K) float32, any strides, zero and negative ones included.
        b: (B, K, N) float32, any strides.
        init: (B, M, N) float32, any strides: what each sum starts from.
        out: (B, M, N) float32 in which the elements of a row lie side by side; it may be `init`,
            but shares no memory with `a` or `b`. A new array if None.

    Returns:
        `out`.

    Raises:
        ValueError: if the rows of `out` are not contiguous, or the shapes do not fit.
    """
    if out is None:
        out = np.empty(init.shape, np.float32)
    batch, m, n = out.shape
    if init.shape != out.shape or a.shape[:2] != (batch, m) or b.shape != (batch, a.shape[2], n):
        raise ValueError(f"cannot multiply {a.shape} by {b.shape} into {out.shape}")
    if not out.size:
        return out
    if out.strides[2] != _FLOAT_BYTES and n > 1:
        raise ValueError("the rows of the result have to be contiguous")
    if not a.shape[2]:
        out[...] = np.where(np.isnan(init), _NAN, init)
    elif _padded_work(m, n) > 1.5 * _padded_work(n, m):
        turned = gemm(b.swapaxes(1, 2), a.swapaxes(1, 2), init.swapaxes(1, 2))
        out[...] = turned.swapaxes(1, 2)
    elif m <= thin.MOST_ROWS and _FLOAT_BYTES in b.strides[1:]:
        _multiply_few_rows(a, b, init, out)
    else:
        _multiply(a, b, _in_vectors(init, out), out)
    return out


def fold_partials(a: Floats, b: Floats, init: float | np.float32) -> Floats:
    """Every accumulator of one element: `init`, then fma(a[k], b[k], accumulator) for each k.

    Args:
        a: (K,) float32, any stride.
        b: (K,) float32, any stride.
        init: exact in float32.

    Returns:
        (K + 1,) float32.
    """
    partials = np.empty(a.size + 1, np.float32)
    partials[0] = init
    _fold(a, b, partials)
    partials[np.isnan(partials)] = _NAN
    return partials


def _padded_work(m: int, n: int) -> int:
    """Elements that are computed for a result of m rows and n columns; columns fill vectors."""
    return _panel_rows(m) * _count(m, _ROWS) * _count(n, _LANES) * _LANES


def _panel_rows(m: int) -> int:
    """Rows of a tile such that equal tiles cover m rows."""
    return _count(m, _count(m, _ROWS))


def _count(items: int, size: int) -> int:
    return -(-items // size) if items else 0


def _multiply_few_rows(a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    """Multiply whole squares of b in place, and the rest of its rows and columns as always."""
    k, n = (size // thin.SIDE * thin.SIDE for size in b.shape[1:])
    left, right = out[:, :, :n], out[:, :, n:]
    out[...] = init
    if k and n:
        thin.multiply_thin(a[:, :, :k], b[:, :k, :n], left)
        out[np.isnan(out)] = _NAN
    if k < b.shape[1] and n:
        _multiply(a[:, :, k:], b[:, k:, :n], left, left)
    if n < b.shape[2]:
        _multiply(a, b[:, :, n:], right, right)


def _in_vectors(init: Floats, out: Floats) -> Floats:
    """`init` laid out so that the columns of a row lie side by side."""
    if init.strides[2] == _FLOAT_BYTES or init.shape[2] == 1:
        return init
    if init.strides == (0, 0, 0):
        row = np.full(init.shape[2], init[0, 0, 0])
        return np.broadcast_to(row, init.shape)
    out[...] = init
    return out


def _multiply(a: Floats, b: Floats, init: Floats, out: Floats) -> None:
    batch, m, n = out.shape
    squares = _count(min(a.shape[2], _DEPTH), _LANES)
    rows = _panel_rows(m)
    block_m, block_n = _get_block(batch, m, n, a.shape[2])
    panels = _count(block_m, rows) + _count(block_n, _LANES)
    size = squares * _LANES**2 * panels + 2 * _LANES * _ROWS

    def work(first: int, stop: int) -> None:
        _multiply_blocks(a, b, init, out, _get_scratch(size), rows, block_m, block_n, first, stop)

    blocks = batch * _count(m, block_m) * _count(n, block_n)
    share(work, blocks, max(1, _GRAIN // (block_m * block_n * a.shape[2])))


def _get_block(batch: int, m: int, n: int, depth: int) -> tuple[int, int]:
    """Rows and columns of a block, small enough for all threads to get some."""
    tile = [_panel_rows(m), 2 * _LANES]
    block = [min(m, _BLOCK), min(n, _BLOCK)]
    wanted = get_threads() * _BLOCKS_PER_THREAD if get_threads() > 1 else 1
    while True:
        rows, columns = (_count(x, t) * t for x, t in zip(block, tile, strict=True))
        larger = int(block[1] >= block[0])
        if (
            batch * _count(m, rows) * _count(n, columns) >= wanted
            or rows * columns * depth < 2 * _GRAIN
            or block[larger] < 2 * _SMALLEST_BLOCK
        ):
            return rows, columns
        block[larger] //= 2


def _get_scratch(size: int) -> Floats:
    """At least `size` floats that belong to this thread."""
    scratch: Floats | None = getattr(_scratch, "floats", None)
    if scratch is None or scratch.size < size:
        scratch = _scratch.floats = np.empty(size, np.float32)
    return scratch


@kernel(
    *[reads(types.float32, 3, "A")] * 3,
    writes(types.float32, 3, "A"),
    writes(types.float32, 1),
    *[types.int64] * 5,
)
def _multiply_blocks(
    a: Floats,
    b: Floats,
    init: Floats,
    out: Floats,
    scratch: Floats,
    rows: int,
    block_m: int,
    block_n: int,
    first: int,
    stop: int,
) -> None:
    """Compute the blocks from `first` to `stop`, counted along columns, then rows, then batches."""
    _, m, n = out.shape
    across, down = -(-n // block_n), -(-m // block_m)
    for block in range(first, stop):
        z = block // across // down
        i, j = block // across % down * block_m, block % across * block_n
        end_i, end_j = min(i + block_m, m), min(j + block_n, n)
        target = out[z, i:end_i, j:end_j]
        start = init.ctypes.data + z * init.strides[0] + i * init.strides[1] + j * _FLOAT_BYTES
        start_step = init.strides[1]
        for k in range(0, a.shape[2], _DEPTH):
            end_k = min(k + _DEPTH, a.shape[2])
            parts = a[z, i:end_i, k:end_k], b[z, k:end_k, j:end_j].T
            _multiply_block(*parts, start, start_step, target, scratch.ctypes.data, rows)
            start, start_step = target.ctypes.data, target.strides[0]


@subroutine
def _multiply_block(
    a: Floats,
    b_turned: Floats,
    start: int,
    start_step: int,
    out: Floats,
    scratch: int,
    rows: int,
) -> None:
    """Pack both operands and compute the block tile by tile, from what lies at `start`."""
    (m, depth), n = a.shape, len(b_turned)
    panel_bytes = -(-depth // _LANES) * _SQUARE_BYTES
    tile = scratch
    packed_a = tile + _TILE_STEP * _ROWS
    packed_b = packed_a + panel_bytes * -(-m // rows)
    _pack(a, rows, packed_a, panel_bytes)
    _pack(b_turned, _LANES, packed_b, panel_bytes)
    for j in range(0, n, 2 * _LANES):
        columns = min(2 * _LANES, n - j)
        b = packed_b + j // _LANES * panel_bytes
        for i in range(0, m, rows):
            height = min(rows, m - i)
            source = start + i * start_step + j * _FLOAT_BYTES
            target = out.ctypes.data + i * out.strides[0] + j * _FLOAT_BYTES
            _copy_tile(source, start_step, tile, _TILE_STEP, height, columns)
            _multiply_tile(
                height, columns, packed_a + i // rows * panel_bytes, b, panel_bytes, tile, depth
            )
            _copy_tile(tile, _TILE_STEP, target, out.strides[0], height, columns)


@subroutine
def _copy_tile(
    source: int, source_step: int, target: int, target_step: int, rows: int, columns: int
) -> None:
    """Copy rows of at most two vectors, with one pattern for every NaN."""
    for row in range(rows):
        _copy_row(source + row * source_step, target + row * target_step, columns)


@emitted(types.void, *[types.intp] * 3)
def _copy_row(builder: ir.IRBuilder, source: ir.Value, target: ir.Value, columns: ir.Value) -> None:
    for column in (0, _LANES):
        count = builder.sub(columns, WORD(column))
        place, copy = (builder.add(x, WORD(column * _FLOAT_BYTES)) for x in (source, target))
        bits = vectors.load_first(builder, _BITS, place, count)
        vectors.store_first(builder, _emit_canonical(builder, bits), copy, count)


@subroutine
def _pack(source: Floats, rows: int, target: int, panel_bytes: int) -> None:
    """Turn panels of `rows` rows: one vector of each panel for one k, then for the next.

    Lanes beyond the rows of a panel, and steps beyond its depth, hold anything.
    """
    m, depth = source.shape
    step, k_step = source.strides
    panels, squares = -(-m // rows), -(-depth // _LANES)
    for number in range(panels * squares):
        if k_step == _FLOAT_BYTES:
            panel, square = number // squares, number % squares
        else:
            panel, square = number % panels, number // panels
        first, k = panel * rows, square * _LANES
        place = source.ctypes.data + first * step + k * k_step
        packed = target + panel * panel_bytes + square * _SQUARE_BYTES
        _pack_square(place, step, k_step, min(rows, m - first), min(_LANES, depth - k), packed)


@emitted(types.void, *[types.intp] * 6)
def _pack_square(
    builder: ir.IRBuilder,
    source: ir.Value,
    step: ir.Value,
    k_step: ir.Value,
    rows: ir.Value,
    depth: ir.Value,
    target: ir.Value,
) -> None:
    def place(distance: ir.Value, i: int, end: ir.Value) -> ir.Value:
        is_inside = builder.icmp_signed("<", WORD(i), end)
        offset = builder.mul(distance, WORD(i))
        return builder.add(source, builder.select(is_inside, offset, WORD(0)))

    def store(steps: Sequence[ir.Value]) -> None:
        for k, vector in enumerate(steps):
            vectors.store(builder, vector, target, k * _FLOAT_BYTES * _LANES)

    row_is_dense, step_is_dense = (
        builder.icmp_signed("==", distance, WORD(_FLOAT_BYTES)) for distance in (k_step, step)
    )
    with builder.if_else(row_is_dense) as (then, otherwise):
        with then:
            places = [place(step, row, rows) for row in range(_LANES)]
            loaded = [vectors.load_first(builder, _VECTOR, row, depth) for row in places]
            store(vectors.transpose(builder, loaded))
        with otherwise:
            places = [place(k_step, k, depth) for k in range(_LANES)]
            with builder.if_else(step_is_dense) as (dense, strided):
                with dense:
                    store([vectors.load_first(builder, _VECTOR, k, rows) for k in places])
                with strided:
                    store([vectors.gather_first(builder, _VECTOR, k, step, rows) for k in places])


def _emit_canonical(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """The bits of a vector of floats, with one pattern for every NaN."""
    sign, infinity, nan = (
        ir.Constant(_BITS, [number] * _LANES) for number in (-(2**31), 0x7F800000, CANONICAL_NAN)
    )
    magnitude = builder.and_(bits, builder.not_(sign))
    return builder.select(builder.icmp_signed(">", magnitude, infinity), nan, bits)


@emitted(types.void, *[types.intp] * 7)
def _multiply_tile(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *operands: ir.Value
) -> None:
    """Add the products of panels to a tile of `rows` rows and one or two vectors of columns.

    An odd number of rows is rounded up, so the tile has room for another row. The other arguments:
    the panel of a, the first panel of b, the bytes of a panel, the tile, and the steps of k.
    """
    end = builder.append_basic_block("end")
    is_wide = builder.icmp_signed(">", columns, WORD(_LANES))
    even = builder.and_(builder.add(rows, WORD(1)), WORD(-2))
    switch = builder.switch(builder.or_(even, builder.zext(is_wide, WORD)), end)
    for height in range(2, _ROWS + 1, 2):
        for width in (1, 2):
            block = builder.append_basic_block("tile")
            switch.add_case(WORD(height | width - 1), block)
            builder.position_at_end(block)
            _emit_tile(builder, height, width, *operands)
            builder.branch(end)
    builder.position_at_end(end)


def _emit_tile(
    builder: ir.IRBuilder,
    height: int,
    width: int,
    a: ir.Value,
    b: ir.Value,
    panel_bytes: ir.Value,
    tile: ir.Value,
    depth: ir.Value,
) -> None:
    vector_bytes = _FLOAT_BYTES * _LANES
    offsets = [row * _TILE_STEP + v * vector_bytes for row in range(height) for v in range(width)]

    def multiply(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        at_a, at_b, *sums = carried
        b_row = [vectors.load(builder, _VECTOR, at_b)]
        if width == 2:
            b_row.append(vectors.load(builder, _VECTOR, builder.add(at_b, panel_bytes)))
        following = [builder.add(place, WORD(vector_bytes)) for place in (at_a, at_b)]
        for i, accumulator in enumerate(sums):
            element = vectors.load(builder, FLOAT, at_a, i // width * _FLOAT_BYTES)
            terms = [vectors.splat(builder, element, _LANES), b_row[i % width], accumulator]
            following.append(vectors.call(builder, "llvm.fma", terms))
        return following

    start = [vectors.load(builder, _VECTOR, tile, offset) for offset in offsets]
    _, _, *sums = vectors.repeat(builder, depth, [a, b, *start], multiply)
    for offset, value in zip(offsets, sums, strict=True):
        vectors.store(builder, value, tile, offset)


@emitted(types.float32, *[types.float32] * 3)
def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return vectors.call(builder, "llvm.fma", [a, b, c])


@kernel(reads(types.float32, 1, "A"), reads(types.float32, 1, "A"), writes(types.float32, 1))
def _fold(a: Floats, b: Floats, partials: Floats) -> None:
    for k in range(a.size):
        partials[k + 1] = _fma(a[k], b[k], partials[k])
