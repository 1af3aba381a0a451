"""The micro-kernel of integer products by the processor's tiles of bytes, where it has them (AMX).

A tile is 16 rows of 64 bytes. One instruction adds the products of a tile of a, rows of words, and
of one of b, steps of words of 16 columns, to a tile of sums. Four tiles of sums are made at once.
"""

import ctypes
import platform
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS
from moot.offchain.backends.cpu.kernels.contraction.words import (
    B_STEP_BYTES,
    HAS_BYTES,
    WORD_BYTES,
    link,
)
from moot.offchain.native import vectors
from moot.offchain.native.machine import get_features
from moot.offchain.native.vectors import BYTE, INDEX, LANES, VECTOR_BYTES, WORD

_SIDE, _LINE_BYTES = 16, 64
"""Rows of a tile, and bytes of each."""

ROWS = 2 * _SIDE
"""Rows of the largest product; it has `COLUMNS` columns."""

_TILES = 8
_FIRST_A, _FIRST_B = 4, 6
"""Tiles 0 to 3 have sums, two have words of a, two those of b."""

_CONFIGURATION = bytes(
    [1, 0, *bytes(14), *[_LINE_BYTES, 0] * _TILES, *bytes(16), *[_SIDE] * _TILES]
)
_CONFIGURATION_BYTES = 64

_VECTOR = ir.VectorType(INDEX, LANES)

_ASK, _TILE_DATA = 0x1023, 18
"""Linux's request for a feature of the processor, ARCH_REQ_XCOMP_PERM, and the number of tiles'."""

_ARCH_PRCTL = 158


_HAS_TILES = (
    {"+amx-tile", "+amx-int8"} <= set(get_features().split(","))
    and (HAS_BYTES and LANES == _SIDE)
    and (platform.system(), platform.machine()) == ("Linux", "x86_64")
)


@cache
def are_there() -> bool:
    """Whether this processor has tiles of bytes, and the system lets this process use them."""
    return _HAS_TILES and ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ASK, _TILE_DATA) == 0


def _call(builder: ir.IRBuilder, name: str, *arguments: ir.Value) -> None:
    """Call an instruction of tiles."""
    found = builder.module.globals.get(name)
    kinds = [argument.type for argument in arguments]
    signature = ir.FunctionType(ir.VoidType(), kinds)
    builder.call(found or ir.Function(builder.module, signature, name), arguments)


def _emit_begin(builder: ir.IRBuilder) -> None:
    """Emit what `Functions.begin` does."""
    kind = ir.ArrayType(BYTE, _CONFIGURATION_BYTES)
    place = builder.alloca(kind)
    builder.store(kind(bytearray(_CONFIGURATION.ljust(_CONFIGURATION_BYTES, b"\0"))), place)
    _call(builder, "llvm.x86.ldtilecfg", builder.bitcast(place, BYTE.as_pointer()))


def _emit_end(builder: ir.IRBuilder) -> None:
    """Emit what `Functions.end` does."""
    _call(builder, "llvm.x86.tilerelease")


def _emit(builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *words: ir.Value) -> None:
    """Emit what `Functions.multiply` does, which `words.Functions.multiply` says."""
    a, a_row_step, b, depth, less, *places = words
    scratch = builder.ptrtoint(builder.alloca(ir.ArrayType(INDEX, ROWS * COLUMNS)), WORD)
    _emit_products(builder, (a, a_row_step), b, depth, scratch)
    with builder.if_else(builder.icmp_signed("==", columns, WORD(COLUMNS))) as (then, otherwise):
        with then:
            _emit_sums(builder, rows, None, less, scratch, *places)
        with otherwise:
            _emit_sums(builder, rows, columns, less, scratch, *places)


def _emit_products(
    builder: ir.IRBuilder,
    a: tuple[ir.Value, ir.Value],
    b: ir.Value,
    depth: ir.Value,
    scratch: ir.Value,
) -> None:
    """Write the products of rows, their address and bytes between them, and a panel to memory."""
    start, row_step = a
    pairs = [(row, column) for row in range(2) for column in range(2)]

    def at(address: ir.Value, offset: ir.Value) -> ir.Value:
        return builder.inttoptr(builder.add(address, offset), BYTE.as_pointer())

    def multiply_words(step: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        words = builder.add(start, builder.mul(step, WORD(_LINE_BYTES)))
        panel = builder.add(b, builder.mul(step, WORD(_SIDE * B_STEP_BYTES)))
        for number in range(2):
            place = at(words, builder.mul(row_step, WORD(number * _SIDE)))
            _call(builder, "llvm.x86.tileloadd64", BYTE(_FIRST_A + number), place, row_step)
        for number in range(2):
            place, tile = at(panel, WORD(number * _LINE_BYTES)), BYTE(_FIRST_B + number)
            _call(builder, "llvm.x86.tileloadd64", tile, place, WORD(B_STEP_BYTES))
        for row, column in pairs:
            numbers = BYTE(2 * row + column), BYTE(_FIRST_A + row), BYTE(_FIRST_B + column)
            _call(builder, "llvm.x86.tdpbsud", *numbers)
        return []

    for row, column in pairs:
        _call(builder, "llvm.x86.tilezero", BYTE(2 * row + column))
    vectors.repeat(builder, builder.udiv(depth, WORD(_SIDE)), [], multiply_words)
    for row, column in pairs:
        offset = WORD(row * _SIDE * B_STEP_BYTES + column * _LINE_BYTES)
        number, place = BYTE(2 * row + column), at(scratch, offset)
        _call(builder, "llvm.x86.tilestored64", number, place, WORD(B_STEP_BYTES))


def _emit_sums(
    builder: ir.IRBuilder,
    rows: ir.Value,
    columns: ir.Value | None,
    less: ir.Value,
    scratch: ir.Value,
    source: ir.Value,
    source_step: ir.Value,
    target: ir.Value,
    target_step: ir.Value,
) -> None:
    """Add products in memory to what their sums start from; all columns are there if None."""

    def store_row(row: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        place = builder.add(less, builder.mul(row, WORD(WORD_BYTES)))
        taken = vectors.splat(builder, vectors.load(builder, INDEX, place), LANES)
        sums = builder.add(scratch, builder.mul(row, WORD(B_STEP_BYTES)))
        before = builder.add(source, builder.mul(row, source_step))
        after = builder.add(target, builder.mul(row, target_step))
        for number in range(2):
            offset = WORD(number * VECTOR_BYTES)
            near, far = builder.add(before, offset), builder.add(after, offset)
            added = vectors.load(builder, _VECTOR, sums, number * VECTOR_BYTES)
            change = builder.sub(added, taken)
            if columns is None:
                start = vectors.load(builder, _VECTOR, near)
                vectors.store(builder, builder.add(start, change), far)
            else:
                count = builder.sub(columns, WORD(number * LANES))
                start = vectors.load_first(builder, _VECTOR, near, count)
                vectors.store_first(builder, builder.add(start, change), far, count)
        return []

    vectors.repeat(builder, rows, [], store_row)


class Functions(NamedTuple):
    """What kernels call.

    Attributes:
        begin: shapes this thread's tiles.
        multiply: multiplies words of bytes, in between; all rows have to be readable, up to `ROWS`.
        end: gives this thread's tiles back.
    """

    begin: Any
    multiply: Any
    end: Any


@cache
def get_functions() -> Functions:
    """Return the functions, if `are_there`; their code is made when they are first asked for."""
    return Functions(
        link("begin_tiles", 0, _emit_begin, types.void),
        link("multiply_by_tiles", 11, _emit, types.void),
        link("end_tiles", 0, _emit_end, types.void),
    )
