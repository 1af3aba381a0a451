"""Products of a few rows of int8 with columns whose steps lie side by side, which are read once.

A model that answers has one row, or a few, and a matrix of weights that no cache holds: the time is
that of reading it. So nothing is packed. Numbers of columns are lifted by 128, as the instruction
for bytes wants one factor without a sign, and 128 times a row's sum is taken from its sums.

The processor must have that instruction (`words.HAS_BYTES`); `multiply_rows` says what else.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.words import (
    LIFT,
    WORD_BYTES,
    Packed,
    add_products,
    link,
)
from moot.offchain.native import vectors
from moot.offchain.native.compiled import Kernel, kernel, reads, writes
from moot.offchain.native.vectors import BYTE, INDEX, LANES, VECTOR_BYTES, WORD

Bytes = npt.NDArray[np.int8]
Words = npt.NDArray[np.int32]

MOST_ROWS = 8
"""Rows up to which columns are not worth packing."""

_ROWS, _COLUMNS = 4, 4
"""Of a tile: each of its elements is a vector of sums."""

_VECTOR = ir.VectorType(INDEX, LANES)
_BYTES = ir.VectorType(BYTE, VECTOR_BYTES)


@cache
def make_kernel() -> Kernel:
    """Return the kernel, whose code is made when it is first asked for."""
    multiply_tile = link("byte_rows", 8, _emit, types.void)

    @kernel(
        reads(types.int8, 2, "A"),
        reads(types.int8, 2, "A"),
        reads(types.int32, 2, "A"),
        writes(types.int32, 2, "A"),
        *[types.int64] * 2,
    )
    def multiply_rows(a: Bytes, b: Bytes, init: Words, out: Words, first: int, stop: int) -> None:
        """Write some columns of out = init + a @ b, modulo 2^32.

        Args:
            a: (M, K), K at least 1, the numbers of a row side by side.
            b: (K, N), the numbers of a column side by side.
            init: (M, N), any strides; it may be `out`.
            out: (M, N), any strides, which shares no memory with `a` and `b`.
            first: the first column.
            stop: the first not to.
        """
        m, steps = a.shape
        found = np.zeros(_ROWS * _COLUMNS, np.int32)
        less = np.zeros(m, np.int32)
        for row in range(m):
            for step in range(steps):
                less[row] += LIFT * np.int32(a[row, step])
        for column in range(first, stop, _COLUMNS):
            width = min(_COLUMNS, stop - column)
            for row in range(0, m, _ROWS):
                height = min(_ROWS, m - row)
                multiply_tile(
                    height,
                    width,
                    a.ctypes.data + row * a.strides[0],
                    a.strides[0],
                    b.ctypes.data + column * b.strides[1],
                    b.strides[1],
                    steps,
                    found.ctypes.data,
                )
                for i in range(height):
                    for j in range(width):
                        total = found[i * _COLUMNS + j] - less[row + i]
                        out[row + i, column + j] = init[row + i, column + j] + total

    return multiply_rows


def _emit(builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *rest: ir.Value) -> None:
    """Emit a tile: rows and columns, their addresses and bytes between them, steps, the target."""
    end = builder.append_basic_block("end")
    switch = builder.switch(builder.add(builder.mul(rows, WORD(_COLUMNS)), columns), end)
    for height in range(1, _ROWS + 1):
        for width in range(1, _COLUMNS + 1):
            block = builder.append_basic_block("tile")
            switch.add_case(WORD(height * _COLUMNS + width), block)
            builder.position_at_end(block)
            _emit_size(builder, height, width, *rest)
            builder.branch(end)
    builder.position_at_end(end)


def _emit_size(builder: ir.IRBuilder, height: int, width: int, *rest: ir.Value) -> None:
    """Emit a tile of so many rows and columns."""
    a, a_step, b, b_step, steps, target = rest
    rows = [builder.add(a, builder.mul(a_step, WORD(i))) for i in range(height)]
    columns = [builder.add(b, builder.mul(b_step, WORD(j))) for j in range(width)]
    lift = ir.Constant(_BYTES, [LIFT] * VECTOR_BYTES)

    def add(load: Any, sums: list[ir.Value]) -> list[ir.Value]:
        factors = [builder.xor(load(column), lift) for column in columns]
        found = []
        for i, row in enumerate(rows):
            factor = load(row)
            for j in range(width):
                place = sums[i * width + j]
                found.append(add_products(builder, Packed.BYTES, place, factor, factors[j]))
        return found

    def step(index: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        offset = builder.mul(index, WORD(VECTOR_BYTES))
        return add(lambda at: vectors.load(builder, _BYTES, builder.add(at, offset)), sums)

    whole = builder.udiv(steps, WORD(VECTOR_BYTES))
    rest_at = builder.mul(whole, WORD(VECTOR_BYTES))
    left = builder.sub(steps, rest_at)
    begun = [ir.Constant(_VECTOR, None)] * (height * width)
    before = builder.block
    looped, joined = (builder.append_basic_block(name) for name in ("whole", "rest"))
    builder.cbranch(builder.icmp_signed(">", whole, WORD(0)), looped, joined)
    builder.position_at_end(looped)
    sums = vectors.repeat(builder, whole, begun, step)
    after = builder.block
    builder.branch(joined)
    builder.position_at_end(joined)
    both = []
    for start, total in zip(begun, sums, strict=True):
        phi = builder.phi(_VECTOR)
        phi.add_incoming(start, before)
        phi.add_incoming(total, after)
        both.append(phi)
    ended = add(
        lambda at: vectors.load_first(builder, _BYTES, builder.add(at, rest_at), left), both
    )
    for place, total in enumerate(ended):
        row, column = divmod(place, width)
        signature = ir.FunctionType(INDEX, [_VECTOR])
        name = f"llvm.vector.reduce.add.v{LANES}i32"
        reduced = builder.call(builder.module.declare_intrinsic(name, fnty=signature), [total])
        vectors.store(builder, reduced, target, (row * _COLUMNS + column) * WORD_BYTES)
