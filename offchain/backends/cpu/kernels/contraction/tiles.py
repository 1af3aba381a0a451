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

from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS, copy_rows
from moot.offchain.backends.cpu.kernels.contraction.words import (
    B_STEP_BYTES,
    HAS_BYTES,
    link,
)
from moot.offchain.native import vectors
from moot.offchain.native.machine import get_features
from moot.offchain.native.vectors import BYTE, INDEX, LANES, WORD

SIDE, _LINE_BYTES = 16, 64
"""Rows of a tile, and bytes of each."""

ROWS = 2 * SIDE
"""Rows of the largest product; it has `COLUMNS` columns."""

_TILES = 8
_FIRST_A, _FIRST_B = 4, 6
"""Tiles 0 to 3 have sums, two have words of a, two those of b."""

_CONFIGURATION = bytes([1, 0, *bytes(14), *[_LINE_BYTES, 0] * _TILES, *bytes(16), *[SIDE] * _TILES])
_CONFIGURATION_BYTES = 64

_ASK, _TILE_DATA = 0x1023, 18
"""Linux's request for a feature of the processor, ARCH_REQ_XCOMP_PERM, and the number of tiles'."""

_ARCH_PRCTL = 158


_HAS_TILES = (
    {"+amx-tile", "+amx-int8"} <= set(get_features().split(","))
    and (HAS_BYTES and LANES == SIDE)
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
    a, a_row_step, b, depth, _, *places = words
    is_whole = builder.and_(
        builder.icmp_signed("==", builder.urem(rows, WORD(SIDE)), WORD(0)),
        builder.icmp_signed("==", columns, WORD(COLUMNS)),
    )
    scratch = builder.ptrtoint(builder.alloca(ir.ArrayType(INDEX, ROWS * COLUMNS)), WORD)
    scratch_place = scratch, WORD(B_STEP_BYTES)
    with builder.if_then(builder.not_(is_whole)):
        copy_rows(builder, rows, columns, (*places[:2], *scratch_place))
    source, source_step, target, target_step = (
        builder.select(is_whole, direct, indirect)
        for direct, indirect in zip(places, scratch_place * 2, strict=True)
    )
    with builder.if_else(builder.icmp_signed(">", rows, WORD(SIDE))) as (then, otherwise):
        for height, branch in ((2, then), (1, otherwise)):
            with branch:
                sums = (source, source_step), (target, target_step)
                _emit_products(builder, height, (a, a_row_step), b, depth, *sums)
    with builder.if_then(builder.not_(is_whole)):
        copy_rows(builder, rows, columns, (*scratch_place, *places[2:]))


def _emit_products(
    builder: ir.IRBuilder,
    height: int,
    a: tuple[ir.Value, ir.Value],
    b: ir.Value,
    depth: ir.Value,
    before: tuple[ir.Value, ir.Value],
    after: tuple[ir.Value, ir.Value],
) -> None:
    """Add the products of so many tiles of rows and a panel to sums; a pair is a place in rows."""
    numbers = [(row, column) for row in range(height) for column in range(2)]

    def move(name: str, tile: int, place: tuple[ir.Value, ir.Value], row: int, column: int) -> None:
        start, step = place
        offset = builder.add(builder.mul(step, WORD(row * SIDE)), WORD(column * _LINE_BYTES))
        address = builder.inttoptr(builder.add(start, offset), BYTE.as_pointer())
        _call(builder, f"llvm.x86.{name}64", BYTE(tile), address, step)

    def multiply_words(step: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        words = builder.add(a[0], builder.mul(step, WORD(_LINE_BYTES))), a[1]
        panel = builder.add(b, builder.mul(step, WORD(SIDE * B_STEP_BYTES))), WORD(B_STEP_BYTES)
        for column in range(2):
            move("tileloadd", _FIRST_B + column, panel, 0, column)
        for row in range(height):
            move("tileloadd", _FIRST_A + row, words, row, 0)
        for row, column in numbers:
            tiles = BYTE(2 * row + column), BYTE(_FIRST_A + row), BYTE(_FIRST_B + column)
            _call(builder, "llvm.x86.tdpbssd", *tiles)
        return []

    for row, column in numbers:
        move("tileloadd", 2 * row + column, before, row, column)
    vectors.repeat(builder, builder.udiv(depth, WORD(SIDE)), [], multiply_words)
    for row, column in numbers:
        move("tilestored", 2 * row + column, after, row, column)


class Functions(NamedTuple):
    """What kernels call.

    Attributes:
        begin: shapes this thread's tiles.
        multiply: multiplies words of bytes that are not lifted, in between; rows of a have to be
            readable up to whole tiles, and nothing is taken from sums.
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
