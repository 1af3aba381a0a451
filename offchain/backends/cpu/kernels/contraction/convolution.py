"""Matrix products whose first factor is read through tables of offsets.

out[m, n] starts as init[n] and becomes fma(a[m, k], b[k, n], out[m, n]) for k = 0, 1, 2, ..., where
a[m, k] lies `rows[m] + steps[k]` bytes behind an address: all that a convolution reads of an image
whose border has been filled in, so that the image is never unfolded. A step of k broadcasts an
element of every row of a tile to the vectors of b, which is packed into panels of columns. The sums
of a tile stay in registers over a block of k. Tiles are turned when they are written, for rows are
what lies side by side in the result of a convolution.

Rows are read in place, or first packed in groups of tiles. Where each step lies in a page of its
own, no processor foresees what is read next, and a core waits for few lines of memory at a time.
Packing reads some hundred bytes of each step, and asks for those of later ones before. For the same
reason the results of a group of tiles are written together. Where steps lie side by side and rows
far apart, as for a weight's gradient, each line of a tile's rows is asked for while the tile before
is multiplied.
"""

import platform

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.convolution_packing import (
    STEP_BYTES,
    WORD_BYTES,
    copy_window,
    pack_columns,
    pack_rows,
)
from moot.offchain.backends.cpu.kernels.contraction.convolution_storing import (
    TILE_STEP_BYTES,
    bring_places,
    count_suspects,
    store_tile,
)
from moot.offchain.backends.cpu.kernels.contraction.convolution_tables import (
    plan_lines,
    plan_panels,
)
from moot.offchain.backends.cpu.kernels.contraction.tile import (
    A_STEP_BYTES,
    COLUMNS,
    FLOAT_BYTES,
    ROWS,
    emit_any_size,
    emit_canonical,
)
from moot.offchain.native import vectors
from moot.offchain.native.compiled import kernel, linked, reads, subroutine
from moot.offchain.native.machine import REGISTER_BITS, VECTOR_BITS
from moot.offchain.native.vectors import FLOAT, LANES, VECTOR_BYTES, WORD
from moot.offchain.native.words import load_word, store_word

Integers = npt.NDArray[np.int64]

TILE_BYTES = ROWS * TILE_STEP_BYTES
"""Bytes of a tile."""

_VECTOR = ir.VectorType(FLOAT, LANES)
_REGISTER = "w" if platform.machine().lower() in ("aarch64", "arm64") else "v"
"""LLVM's constraint for a vector register."""


@kernel(
    *[types.intp] * 6,
    reads(types.int64, 1),
    reads(types.int64, 2),
    reads(types.int64, 2),
    reads(types.int64, 1),
    reads(types.int64, 1),
    reads(types.int64, 2),
    types.int64,
    types.int64,
)
def multiply_items(
    image: int,
    other: int,
    init: int,
    out: int,
    suspects: int,
    scratch: int,
    sizes: Integers,
    chunks: Integers,
    blocks: Integers,
    columns: Integers,
    column_places: Integers,
    items: Integers,
    first: int,
    stop: int,
) -> None:
    """Multiply boxes of rows that are read in place by columns, item by item.

    Args:
        image: address of the first factor, float32.
        other: address of the second factor.
        init: address of the start values of each group's columns, and of `COLUMNS` more.
        out: address of the result.
        suspects: address of an int64, which becomes 1 if a result is -0 or not finite; 0 not to
            look.
        scratch: address of scratch memory.
        sizes: (fields of `Sizes`,) int64.
        chunks: (C, fields of `Chunk`) int64: the blocks of k.
        blocks: (B, fields of `Block`) int64: for each group, for each block of k, all boxes.
        columns: (J,) int64: a group's columns in the second factor, as `pack_columns` takes them.
        column_places: (N,) int64: offset of each column from a row's place.
        items: (I, fields of `Part`) int64; neighbours with the same columns are one.
        first: the first item to compute.
        stop: the item behind the last one.
    """
    found, number = 0, first
    while number < stop:
        item, box_count = items[number], items[number, 5]
        number += 1
        while number < stop and _is_same(item, items[number]):
            box_count += items[number, 5]
            number += 1
        for chunk in range(len(chunks)):
            box = item[4] + chunk * sizes[3]
            found += _multiply_blocks(
                image,
                other + item[2],
                init + item[3] + item[0] * FLOAT_BYTES,
                out,
                suspects,
                scratch,
                sizes,
                chunks[chunk],
                blocks[box : box + box_count],
                columns[item[0] : -(-item[1] // LANES) * LANES],
                column_places[item[0] : item[1]],
                chunk == 0,
                chunk == len(chunks) - 1,
            )
    if found:
        store_word(1, suspects)


@subroutine
def _is_same(item: Integers, other: Integers) -> int:
    """Whether two items have the same columns of the same group."""
    is_same = item[0] == other[0] and item[1] == other[1]
    return int(is_same and item[2] == other[2] and item[3] == other[3])


@subroutine
def _multiply_blocks(
    image: int,
    other: int,
    init: int,
    out: int,
    suspects: int,
    scratch: int,
    sizes: Integers,
    chunk: Integers,
    blocks: Integers,
    columns: Integers,
    column_places: Integers,
    is_first: int,
    is_last: int,
) -> int:
    """Multiply boxes by columns, over a block of k, and return how many results are suspect.

    Args:
        image: address of the first factor.
        other: address of the columns' origin in the second factor.
        init: address of their start values.
        out: address of the result.
        suspects: 0 not to look for suspects.
        scratch: address of scratch memory.
        sizes: where what is in it (`Sizes`).
        chunk: the block of k (`Chunk`).
        blocks: (B, fields of `Block`) int64.
        columns: (J,) int64: the columns, as `pack_columns` takes them.
        column_places: (N,) int64: offset of each column from a row's place.
        is_first: whether no block of k precedes this one.
        is_last: whether none follows.
    """
    size, fill, group = (sizes[0], sizes[1]), sizes[2], sizes[4]
    window, tables, packed, tile = (
        scratch + sizes[5],
        scratch + sizes[6],
        scratch + sizes[7],
        scratch + sizes[8],
    )
    runs, run_count, depth = chunk[0], chunk[1], chunk[2]
    pack_columns(other, columns, len(column_places), runs, run_count, depth, scratch, 2)
    found = 0
    for number in range(len(blocks)):
        block = blocks[number]
        a = image
        if block[7]:
            first, shape = (block[10], block[11]), (block[12], block[13])
            copy_window(a, size, block[9], block[7], block[8], first, shape, fill, window)
            a = window
        a += block[6]
        is_spread = False
        if group == 0 and block[7] == 0:
            is_spread = plan_lines(block[0], block[1], block[2], block[3], tables)
        if group:
            plan_panels(block[2], block[3], tables)
        for top in range(0, block[1], max(group, 1) * ROWS):
            row_count = min(max(group, 1) * ROWS, block[1] - top)
            if group:
                rows = block[0] + top * WORD_BYTES
                pack_rows(a, rows, row_count, block[2], block[3], packed)
            for j in range(0, len(column_places), COLUMNS):
                column_count = min(COLUMNS, len(column_places) - j)
                _multiply_panel(
                    block,
                    top,
                    row_count,
                    column_count,
                    a,
                    packed if group else 0,
                    tables,
                    scratch + j // COLUMNS * depth * TILE_STEP_BYTES,
                    j == 0,
                    is_spread,
                    init + j * FLOAT_BYTES if is_first else 0,
                    tile,
                    out + block[5] if is_last else 0,
                    column_places.ctypes.data + j * WORD_BYTES,
                )
                if suspects and is_last:
                    found += count_suspects(tile, row_count, column_count)
                if not (is_first and is_last):
                    tile += -(-row_count // ROWS) * ROWS * TILE_STEP_BYTES
    return found


@subroutine
def _multiply_panel(
    block: Integers,
    top: int,
    height: int,
    width: int,
    a: int,
    packed: int,
    tables: int,
    panel: int,
    is_first_panel: int,
    is_spread: int,
    start: int,
    tile: int,
    out: int,
    column_places: int,
) -> None:
    """Multiply a group of tiles, one below the other, by a panel of columns.

    Args:
        block: the block (`Block`).
        top: its row that is the group's first.
        height: rows of the group.
        width: columns of the panel.
        a: address of the origin of the block's rows.
        packed: address of the packed rows of the group, 0 to read them where they lie.
        tables: address of the tables by which packed ones are read.
        panel: address of the columns.
        is_first_panel: whether the group is multiplied by no panel before.
        is_spread: whether the tables say which lines of the next tile's rows are brought.
        start: address of the start values of the columns, 0 to go on from sums.
        tile: address of the sums.
        out: address of the block's origin in the result, 0 to write sums only.
        column_places: address of the offset of each column from a row's place.
    """
    row_places = block[4] + top * WORD_BYTES
    for row in range(0, height, ROWS):
        end = min(row + ROWS, height)
        if out:
            part = row * width // height, end * width // height
            bring_places(out, row_places, height, column_places, *part)
        source, source_step = tile + row * TILE_STEP_BYTES, TILE_STEP_BYTES
        if start:
            source, source_step = start, 0
        at_a, rows, steps = a, block[0] + (top + row) * WORD_BYTES, block[2]
        # While a tile is multiplied by the first panel, the last row of the next one is brought,
        # and with it the others where rows lie side by side. Where steps do so instead, each line
        # of each row is.
        next_row = min(top + row + 2 * ROWS, block[1]) - 1
        if is_spread:
            next_row = min(top + row + ROWS, max(block[1] - ROWS, 0))
        soon = a + load_word(block[0] + next_row * WORD_BYTES if is_first_panel else rows)
        soon_steps = tables if is_spread and is_first_panel else steps
        if packed:
            at_a, rows = (
                packed + row // ROWS * block[3] * A_STEP_BYTES,
                tables + block[3] * STEP_BYTES,
            )
            steps = soon_steps = tables
            soon = at_a
        extent = end - row, width
        sums = tile + row * TILE_STEP_BYTES
        _multiply_tile(
            *extent, at_a, soon, soon_steps, rows, steps, block[3], panel, source, source_step, sums
        )
    if out:
        store_tile(tile, height, width, out, row_places, column_places)


@linked(*[types.intp] * 12)
def _multiply_tile(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *operands: ir.Value
) -> None:
    """Add products to a tile; an odd number of rows is rounded up.

    The other arguments: address of a, of a row that is read soon, of the entries of what is brought
    of it at each step, of the rows' offsets, of the steps, their number, the panel of b, what the
    sums start from, the distance of its rows, and the tile.
    """

    def emit(height: int, width: int) -> None:
        _emit_tile(builder, height, width, *operands)

    emit_any_size(builder, rows, columns, emit)


def _emit_tile(
    builder: ir.IRBuilder,
    height: int,
    width: int,
    a: ir.Value,
    soon: ir.Value,
    soon_steps: ir.Value,
    rows: ir.Value,
    steps: ir.Value,
    depth: ir.Value,
    b: ir.Value,
    source: ir.Value,
    source_step: ir.Value,
    tile: ir.Value,
) -> None:
    spots = [(row, v * VECTOR_BYTES) for row in range(height) for v in range(width)]
    offsets = [vectors.load(builder, WORD, rows, row * WORD_BYTES) for row in range(height)]

    def multiply(step: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        entry = builder.add(steps, builder.shl(step, WORD(4)))
        at_a = builder.add(a, vectors.load(builder, WORD, entry))
        at_b = builder.add(b, vectors.load(builder, WORD, entry, WORD_BYTES))
        factors = [vectors.load(builder, _VECTOR, at_b, v * VECTOR_BYTES) for v in range(width)]
        distance = vectors.load(builder, WORD, builder.add(soon_steps, builder.shl(step, WORD(4))))
        vectors.prefetch(builder, builder.add(soon, distance), FLOAT_BYTES)
        following = []
        for row, offset in enumerate(offsets):
            element = vectors.load(builder, FLOAT, builder.add(at_a, offset))
            factor = vectors.splat(builder, element, LANES)
            for v in range(width):
                terms = [factor, factors[v], sums[row * width + v]]
                following.append(hold(builder, vectors.call(builder, "llvm.fma", terms)))
        return following

    start = []
    for row, offset in spots:
        place = builder.add(source, builder.mul(source_step, WORD(row)))
        start.append(vectors.load(builder, _VECTOR, place, offset))
    sums = vectors.repeat(builder, depth, start, multiply)
    for (row, offset), total in zip(spots, sums, strict=True):
        place = builder.add(tile, WORD(row * TILE_STEP_BYTES))
        vectors.store(builder, emit_canonical(builder, total), place, offset)


def hold(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """The vector itself, in a register, and computed before memory is next read.

    LLVM would otherwise load all factors of a step, and more steps, before it uses the first one,
    and run out of registers. A vector that no register holds is left alone.
    """
    if VECTOR_BITS > REGISTER_BITS:
        return vector
    kind = ir.FunctionType(vector.type, [vector.type])
    constraint = f"={_REGISTER},0,~{{memory}}"
    return builder.asm(kind, "", constraint, [vector], side_effect=True)
