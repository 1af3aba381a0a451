"""The kernels that pack matrices of integers into words, and multiply them.

`words.py` says what words are. They are multiplied two or four numbers at a time, or by tiles of
the processor's (`tiles.py`). Whether numbers fit is seen while they are packed.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction import tiles
from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS
from moot.offchain.backends.cpu.kernels.contraction.words import (
    B_STEP_BYTES,
    LIFT,
    ROWS,
    WORD_BYTES,
    Form,
    Packed,
    get_functions,
)
from moot.offchain.native.compiled import Kernel, kernel, reads, subroutine, writes
from moot.offchain.native.vectors import LANES

Integers = npt.NDArray[Any]

_DEPTH = 512
"""Words of rows and of columns that are multiplied at a time."""


class Kernels(NamedTuple):
    """The kernels of words of one form, each of a range of what can be shared out.

    Attributes:
        pack_rows: packs rows of a, and notes what is taken from the sums of each.
        multiply: packs panels of columns of b, each for a block of rows, and multiplies them.
        most_rows: the rows of its largest tile.
    """

    pack_rows: Kernel
    multiply: Kernel
    most_rows: int


@cache
def get_kernels(form: Form) -> Kernels:
    """Return the kernels of a form, which are made when they are first asked for.

    Words of bytes that are not lifted are multiplied by tiles, which have to be there.
    """
    element = {1: types.int8, WORD_BYTES: types.int32}[form.source_bytes]
    functions = get_functions(form)
    rows = _make_row_kernel(functions.pack_row, element, LIFT if form.is_lifted else 0)
    pack = functions.pack_columns
    if form.packed is Packed.BYTES and not form.is_lifted:
        begin, multiply_tile, end = tiles.get_functions()
        pieces = begin, pack, multiply_tile, end
        return Kernels(rows, _make_product_kernel(element, *pieces), tiles.ROWS)
    pieces = _do_nothing, pack, functions.multiply, _do_nothing
    return Kernels(rows, _make_product_kernel(element, *pieces), ROWS)


@subroutine
def _do_nothing() -> None:
    """Begin or end a product that takes no care."""


def _make_row_kernel(pack_row: Any, element: Any, lift: int) -> Kernel:
    @kernel(
        reads(element, 2, "A"),
        writes(types.int32, 2, "A"),
        writes(types.int32, 1),
        writes(types.int64, 1),
        *[types.int64] * 2,
    )
    def pack_rows(
        a: Integers, words: Integers, less: Integers, outside: Integers, first: int, stop: int
    ) -> None:
        for i in range(first, stop):
            source = a.ctypes.data + i * a.strides[0]
            target = words.ctypes.data + i * words.strides[0]
            total = less.ctypes.data + i * WORD_BYTES
            if pack_row(source, a.strides[1], a.shape[1], target, words.shape[1], total):
                outside[0] = 1
            less[i] *= lift

    return pack_rows


def _make_product_kernel(
    element: Any, begin: Any, pack_vector: Any, multiply_tile: Any, end: Any
) -> Kernel:
    is_checked = element is not types.int8

    @kernel(
        reads(types.int32, 2, "A"),
        reads(element, 2, "A"),
        writes(types.int32, 3),
        reads(types.int32, 1),
        writes(types.int64, 1),
        *[types.int64] * 3,
        writes(types.int32, 2, "A"),
        *[types.int64] * 4,
    )
    def multiply_blocks(
        rows: Integers,
        b: Integers,
        panels: Integers,
        less: Integers,
        outside: Integers,
        init: int,
        row_step: int,
        column_step: int,
        out: Integers,
        tile: int,
        block: int,
        first: int,
        stop: int,
    ) -> None:
        if is_checked and outside[0]:
            return
        (m, n), words = out.shape, panels.shape[1]
        blocks, wide = -(-m // block), len(panels) * COLUMNS
        nothing = np.zeros(2 * ROWS + COLUMNS, np.int32)
        begin()
        for unit in range(first, stop):
            left, top = unit // blocks * wide, unit % blocks * block
            right, bottom = min(n, left + wide), min(m, top + block)
            for start in range(left, right if unit == first or not top else left, LANES):
                place, spare = divmod(start - left, COLUMNS)
                source = b.ctypes.data + start * b.strides[1]
                target = panels.ctypes.data + place * panels.strides[0] + spare * WORD_BYTES
                count = min(LANES, right - start)
                if pack_vector(source, *b.strides, b.shape[0], count, target, words):
                    outside[1] = 1
            for k in range(0, words, _DEPTH):
                for row in range(top, bottom, tile):
                    for column in range(left, right, COLUMNS):
                        target = out.ctypes.data + row * out.strides[0] + column * WORD_BYTES
                        source, source_step = target, out.strides[0]
                        if not k:
                            source = init + row * row_step + column * column_step
                            source_step = row_step
                        panel = (column - left) // COLUMNS * panels.strides[0]
                        multiply_tile(
                            min(tile, bottom - row),
                            min(COLUMNS, right - column),
                            rows.ctypes.data + row * rows.strides[0] + k * WORD_BYTES,
                            rows.strides[0],
                            panels.ctypes.data + panel + k * B_STEP_BYTES,
                            min(_DEPTH, words - k),
                            nothing.ctypes.data if k else less.ctypes.data + row * WORD_BYTES,
                            source,
                            source_step,
                            target,
                            out.strides[0],
                        )
        end()

    return multiply_blocks
