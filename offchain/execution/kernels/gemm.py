"""Batched matrix products."""

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from offchain.arithmetic.functions import CANONICAL_NAN
from offchain.execution.kernels import vectors
from offchain.execution.kernels.compiled import emitted, kernel, reads, subroutine, writes
from offchain.execution.kernels.threads import get_threads, share
from offchain.execution.kernels.vectors import FLOAT, INDEX, WORD

Floats = npt.NDArray[np.float32]

LANES, ROWS = 16, 14
VECTORS = 2
COLUMNS = VECTORS * LANES
DEPTH = 512
STRIP = 8
PREFETCH = True
_VECTOR = ir.VectorType(FLOAT, LANES)


def _emit_tile(builder, rows, width, a, b, start, start_step, c, c_step, depth):
    def at(base, step, r):
        return builder.add(base, builder.mul(step, WORD(r)))

    tile = [
        vectors.load(builder, _VECTOR, at(start, start_step, r), 4 * LANES * v)
        for r in range(rows)
        for v in range(width)
    ]

    def step(index, carried):
        a_k, b_k, *acc = carried
        bs = [vectors.load(builder, _VECTOR, b_k, 4 * LANES * v) for v in range(width)]
        out = []
        for r in range(rows):
            x = vectors.splat(builder, vectors.load(builder, FLOAT, a_k, 4 * r), LANES)
            for v in range(width):
                out.append(vectors.call(builder, "llvm.fma", [x, bs[v], acc[r * width + v]]))
        return [builder.add(a_k, WORD(4 * LANES)), builder.add(b_k, WORD(4 * COLUMNS)), *out]

    _, _, *tile = vectors.repeat(builder, depth, [a, b, *tile], step)
    bits = ir.VectorType(INDEX, LANES)
    for i, value in enumerate(tile):
        r, v = divmod(i, width)
        x = builder.bitcast(value, bits)
        mag = builder.and_(x, ir.Constant(bits, [0x7FFFFFFF] * LANES))
        x = builder.select(
            builder.icmp_unsigned(">", mag, ir.Constant(bits, [0x7F800000] * LANES)),
            ir.Constant(bits, [CANONICAL_NAN] * LANES),
            x,
        )
        vectors.store(builder, x, at(c, c_step, r), 4 * LANES * v)


@emitted(types.void, *[types.intp] * 9)
def _multiply_tile(builder, rows, width, a, b, start, start_step, c, c_step, depth):
    if PREFETCH:
        for r in range(ROWS):
            vectors.prefetch(
                builder, builder.add(c, builder.mul(c_step, WORD(ROWS + r))), 4 * COLUMNS
            )
    end = builder.append_basic_block("end")
    unreachable = builder.append_basic_block("none")
    key = builder.add(builder.mul(rows, WORD(VECTORS)), width)
    switch = builder.switch(key, unreachable)
    for r in range(1, ROWS + 1):
        for v in range(1, VECTORS + 1):
            block = builder.append_basic_block("tile")
            switch.add_case(WORD(r * VECTORS + v), block)
            builder.position_at_end(block)
            _emit_tile(builder, r, v, a, b, start, start_step, c, c_step, depth)
            builder.branch(end)
    builder.position_at_end(unreachable)
    builder.unreachable()
    builder.position_at_end(end)


@emitted(types.void, *[types.intp] * 5)
def _transpose(builder, source, step, lanes, target, target_step):
    """target[k, lane] = source[lane, k] for 16 x 16"""
    starts = []
    for lane in range(LANES):
        inside = builder.icmp_signed("<", WORD(lane), lanes)
        starts.append(
            builder.select(inside, builder.add(source, builder.mul(step, WORD(lane))), source)
        )
    rows = [vectors.load(builder, _VECTOR, s) for s in starts]
    for i, col in enumerate(vectors.transpose(builder, rows)):
        vectors.store(builder, col, builder.add(target, builder.mul(target_step, WORD(i))))


@emitted(types.void, *[types.intp] * 4)
def _copy_rows(builder, source, step, target, target_step):
    for i in range(LANES):
        v = vectors.load(builder, _VECTOR, builder.add(source, builder.mul(step, WORD(i))))
        vectors.store(builder, v, builder.add(target, builder.mul(target_step, WORD(i))))


@emitted(types.void, types.intp, types.intp)
def _copy_float(builder, source, target):
    vectors.store(builder, vectors.load(builder, INDEX, source), target)


@subroutine
def _pack(source, lane_step, step, lanes, depth, target, target_step):
    """target[k, offset + lane] = source[lane, k]; source up to 16 lanes"""
    vectorised = 0
    if step == 4 or (lane_step == 4 and lanes == LANES):
        vectorised = depth // LANES * LANES
    for k in range(0, vectorised, LANES):
        if step == 4:
            _transpose(source + step * k, lane_step, lanes, target + target_step * k, target_step)
        else:
            _copy_rows(source + step * k, step, target + target_step * k, target_step)
    for k in range(vectorised, depth):
        for lane in range(lanes):
            _copy_float(source + step * k + lane_step * lane, target + target_step * k + 4 * lane)


@subroutine
def _copy_tile(source, source_step, target, target_step, rows, columns):
    for r in range(rows):
        for c in range(columns):
            _copy_float(source + source_step * r + 4 * c, target + target_step * r + 4 * c)


@kernel(
    reads(types.float32, 3, "A"),
    reads(types.float32, 3, "A"),
    reads(types.float32, 3, "A"),
    writes(types.float32, 3),
    writes(types.float32, 1),
    types.int64,
    types.int64,
    types.int64,
    types.int64,
    types.int64,
)
def _multiply(a, b, init, out, scratch, rows, block_m, block_n, first, stop):
    batch, m, n = out.shape
    depth = a.shape[2]
    across = -(-n // block_n)
    down = -(-m // block_m)
    a_z, a_m, a_k = a.strides
    b_z, b_k, b_n = b.strides
    o_z, o_m, o_n = out.strides
    i_z, i_m, i_n = init.strides
    panel = 4 * LANES * min(depth, DEPTH)
    edge = scratch.ctypes.data
    packed_b = edge + 4 * ROWS * COLUMNS
    packed_a = packed_b + 2 * panel * STRIP
    for index in range(first, stop):
        z = index // across // down
        i0 = index // across % down * block_m
        i1 = min(i0 + block_m, m)
        j0 = index % across * block_n
        j1 = min(j0 + block_n, n)
        for k in range(0, depth, DEPTH):
            kk = min(DEPTH, depth - k)
            for i in range(i0, i1, rows):
                _pack(
                    a.ctypes.data + z * a_z + i * a_m + k * a_k,
                    a_m,
                    a_k,
                    min(rows, i1 - i),
                    kk,
                    packed_a + (i - i0) // rows * panel,
                    4 * LANES,
                )
            for s0 in range(j0, j1, COLUMNS * STRIP):
                s1 = min(j1, s0 + COLUMNS * STRIP)
                for k1 in range(0, kk, LANES):
                    for v in range(s0, s1, LANES):
                        _pack(
                            b.ctypes.data + z * b_z + v * b_n + (k + k1) * b_k,
                            b_n,
                            b_k,
                            min(LANES, s1 - v),
                            min(LANES, kk - k1),
                            packed_b
                            + (v - s0) // COLUMNS * 2 * panel
                            + 4 * ((v - s0) % COLUMNS)
                            + 4 * COLUMNS * k1,
                            4 * COLUMNS,
                        )
                for j in range(s0, s1, COLUMNS):
                    columns = min(COLUMNS, j1 - j)
                    width = 1 if columns <= LANES else 2
                    for i in range(i0, i1, rows):
                        h = min(rows, i1 - i)
                        place = out.ctypes.data + z * o_z + i * o_m + j * o_n
                        start, start_step = place, o_m
                        if k == 0:
                            start, start_step = init.ctypes.data + z * i_z + i * i_m + j * i_n, i_m
                        c, c_step = place, o_m
                        if columns < COLUMNS:
                            c, c_step = edge, 4 * COLUMNS
                            _copy_tile(start, start_step, c, c_step, h, columns)
                            start, start_step = c, c_step
                        _multiply_tile(
                            h,
                            width,
                            packed_a + (i - i0) // rows * panel,
                            packed_b + (j - s0) // COLUMNS * 2 * panel,
                            start,
                            start_step,
                            c,
                            c_step,
                            kk,
                        )
                        if columns < COLUMNS:
                            _copy_tile(c, c_step, place, o_m, h, columns)


MAXM = 1024


def gemm(a, b, init, out=None):
    batch, m, depth = a.shape
    n = b.shape[2]
    if out is None:
        out = np.empty((batch, m, n), np.float32)
    rows = -(-m // -(-m // ROWS))
    panels = -(-m // rows)
    bm = rows * -(-panels // -(-m // MAXM))
    th = get_threads()
    bn = n if th == 1 else COLUMNS * -(-n // (4 * COLUMNS))
    blocks = batch * -(-m // bm) * -(-n // bn)

    def work(f, s):
        scratch = np.empty(
            ROWS * COLUMNS + min(depth, DEPTH) * (COLUMNS * STRIP + LANES * -(-bm // rows)),
            np.float32,
        )
        _multiply(a, b, init, out, scratch, rows, bm, bn, f, s)

    share(work, blocks, 1)
    return out
