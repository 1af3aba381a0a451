"""Batched products of matrices of integers, which wrap around and so have no order.

Numbers of 8 bits, and those of 32 that fit into 8 or 16, are packed into words (`words.py`), which
are multiplied two or four numbers at a time, or by tiles of the processor's (`tiles.py`). Whether
they fit is seen while they are packed, so that no result depends on it.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction import byte_rows, tiles
from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS
from moot.offchain.backends.cpu.kernels.contraction.words import (
    B_STEP_BYTES,
    FORMS,
    HAS_BYTES,
    LIFT,
    ROWS,
    WORD_BYTES,
    Form,
    Packed,
    get_functions,
)
from moot.offchain.native import buffers
from moot.offchain.native.compiled import Kernel, kernel, reads, subroutine, writes
from moot.offchain.native.scratch import get_scratch
from moot.offchain.native.threads import share
from moot.offchain.native.vectors import LANES

Integers = npt.NDArray[Any]

_DEPTH = 512
"""Words of rows and of columns that are multiplied at a time."""

_APART = 16
"""Words between packed rows, so that those a power of two apart fall into several sets of a cache:
a line."""

_BLOCK_ROWS = 1024
"""Rows, about, that one thread multiplies with a panel of columns."""

_GRAIN = 1 << 21
"""Multiply-adds that make another thread worth its start."""

_PACKING_GRAIN = 1 << 16
"""Numbers to pack that do."""


def multiply(a: Integers, b: Integers, init: Integers, out: Integers) -> None:
    """Multiply batches of matrices: out[z] = init[z] + a[z] @ b[z], modulo 2^32 or 2^64.

    Args:
        a: (B, M, K) int8, int32 or int64, any strides, zero and negative ones included.
        b: (B, K, N) of the same type, any strides.
        init: (B, M, N) int32, or int64 where the factors are, any strides; it may be `out`.
        out: (B, M, N) of the type of `init`, in which the elements of a row lie side by side; it
            shares no memory with `a` or `b`.
    """
    forms = FORMS.get(a.dtype.itemsize, ()) if a.shape[2] and out.size else ()
    if a.dtype.itemsize == WORD_BYTES:
        # What is found not to fit may have been written over.
        init = init.copy() if np.may_share_memory(init, out) else init
    for z in range(len(out)):
        if _has_few_rows(a[z], b[z]):
            _multiply_rows(a[z], b[z], init[z], out[z])
        elif _has_few_rows(b[z].T, a[z].T):
            _multiply_rows(b[z].T, a[z].T, init[z].T, out[z].T)
        elif not any(_multiply(form, a[z], b[z], init[z], out[z]) for form in forms):
            np.add(init[z], np.matmul(a[z], b[z], dtype=out.dtype), out=out[z])


def _has_few_rows(a: Integers, b: Integers) -> bool:
    """Whether few rows are multiplied by columns that lie as the instruction reads them."""
    is_few = a.dtype.itemsize == 1 and HAS_BYTES and 0 < len(a) <= byte_rows.MOST_ROWS
    return is_few and a.shape[1] > 0 and (a.strides[1], b.strides[0]) == (1, 1)


def _multiply_rows(a: Integers, b: Integers, init: Integers, out: Integers) -> None:
    """Multiply a few rows by columns, which are shared out."""
    work = partial(byte_rows.make_kernel(), a, b, init, out)
    share(work, out.shape[1], max(1, _GRAIN // a.size))


def _multiply(form: Form, a: Integers, b: Integers, init: Integers, out: Integers) -> bool:
    """Multiply matrices, unless numbers do not fit into words of this form."""
    (m, n), k = out.shape, a.shape[1]
    panels, words = -(-n // COLUMNS), -(-k // (form.packed * LANES)) * LANES
    kernels = _make_kernels(form, has_tiles=form.packed is Packed.BYTES and tiles.are_there())
    height = -(-m // kernels.most_rows) * kernels.most_rows
    rows = buffers.empty((height, words + _APART), np.int32)
    less, outside = np.zeros(height, np.int32), np.zeros(2, np.int64)

    def pack_rows(first: int, stop: int) -> None:
        kernels.pack_rows(a, rows, less, outside, first, stop)

    share(pack_rows, m, max(1, _PACKING_GRAIN // k))
    less *= LIFT if form.packed is Packed.BYTES else 0
    start, step = _find_start(init, out)
    tile = _choose_height(m, kernels.most_rows)
    block = tile * max(1, _BLOCK_ROWS // tile)

    def work(first: int, stop: int) -> None:
        panel = get_scratch("panel of words", words * COLUMNS).view(np.int32)
        packed = panel[: words * COLUMNS].reshape(words, COLUMNS)
        arguments = rows, b, packed, less, outside, start, step, out, tile, block
        kernels.multiply(*arguments, first, stop)

    if not outside.any():
        units = -(-m // block) * panels
        share(work, units, max(1, _GRAIN // (min(m, block) * COLUMNS * k)))
    return not outside.any()


def _find_start(init: Integers, out: Integers) -> tuple[Integers, int]:
    """Return what sums start from, in rows of elements side by side, and bytes between columns.

    These are 0 where all elements are the same, which are there once for each column of a panel.
    """
    if init.strides[1] == WORD_BYTES or init.shape[1] == 1:
        return init, WORD_BYTES
    if init.strides == (0, 0):
        return np.broadcast_to(init[0, :1].repeat(COLUMNS), (len(init), COLUMNS)), 0
    out[...] = init
    return out, WORD_BYTES


def _choose_height(rows: int, most: int) -> int:
    """Return how many rows a tile has, so that all have about as many."""
    tiles_ = -(-rows // most)
    height = -(-rows // tiles_)
    return height + height % 2


class _Kernels(NamedTuple):
    """The kernels of words of one form, each of a range of what can be shared out.

    Attributes:
        pack_rows: packs rows of a, and sums them up.
        multiply: packs panels of columns of b, each for a block of rows, and multiplies them.
        most_rows: the rows of its largest tile.
    """

    pack_rows: Kernel
    multiply: Kernel
    most_rows: int


@cache
def _make_kernels(form: Form, *, has_tiles: bool) -> _Kernels:
    element = {1: types.int8, WORD_BYTES: types.int32}[form.source_bytes]
    functions = get_functions(form)
    rows = _make_row_kernel(functions.pack_row, element)
    pack = functions.pack_columns
    if has_tiles:
        begin, multiply_tile, end = tiles.get_functions()
        pieces = begin, pack, multiply_tile, end
        return _Kernels(rows, _make_product_kernel(element, *pieces), tiles.ROWS)
    pieces = _do_nothing, pack, functions.multiply, _do_nothing
    return _Kernels(rows, _make_product_kernel(element, *pieces), ROWS)


@subroutine
def _do_nothing() -> None:
    """Begin or end a product that takes no care."""


def _make_row_kernel(pack_row: Any, element: Any) -> Kernel:
    @kernel(
        reads(element, 2, "A"),
        writes(types.int32, 2),
        writes(types.int32, 1),
        writes(types.int64, 1),
        *[types.int64] * 2,
    )
    def pack_rows(
        a: Integers, words: Integers, totals: Integers, outside: Integers, first: int, stop: int
    ) -> None:
        for i in range(first, stop):
            source = a.ctypes.data + i * a.strides[0]
            target = words.ctypes.data + i * words.strides[0]
            total = totals.ctypes.data + i * WORD_BYTES
            if pack_row(source, a.strides[1], a.shape[1], target, words.shape[1], total):
                outside[0] = 1

    return pack_rows


def _make_product_kernel(
    element: Any, begin: Any, pack_vector: Any, multiply_tile: Any, end: Any
) -> Kernel:
    @kernel(
        reads(types.int32, 2),
        reads(element, 2, "A"),
        writes(types.int32, 2),
        reads(types.int32, 1),
        writes(types.int64, 1),
        reads(types.int32, 2, "A"),
        types.int64,
        writes(types.int32, 2, "A"),
        *[types.int64] * 4,
    )
    def multiply_blocks(
        rows: Integers,
        b: Integers,
        panel: Integers,
        less: Integers,
        outside: Integers,
        init: Integers,
        init_step: int,
        out: Integers,
        tile: int,
        block: int,
        first: int,
        stop: int,
    ) -> None:
        (m, n), words = out.shape, len(panel)
        blocks = -(-m // block)
        nothing = np.zeros(2 * ROWS + COLUMNS, np.int32)
        begin()
        for unit in range(first, stop):
            left, top = unit // blocks * COLUMNS, unit % blocks * block
            width = min(COLUMNS, n - left)
            for start in range(0, width if unit == first or not top else 0, LANES):
                source = b.ctypes.data + (left + start) * b.strides[1]
                target = panel.ctypes.data + start * WORD_BYTES
                count = min(LANES, width - start)
                if pack_vector(source, *b.strides, b.shape[0], count, target, words):
                    outside[1] = 1
            for k in range(0, words, _DEPTH):
                for row in range(top, min(m, top + block), tile):
                    target = out.ctypes.data + row * out.strides[0] + left * WORD_BYTES
                    source, source_step = target, out.strides[0]
                    if not k:
                        source = init.ctypes.data + row * init.strides[0] + left * init_step
                        source_step = init.strides[0]
                    multiply_tile(
                        min(tile, m - row),
                        width,
                        rows.ctypes.data + row * rows.strides[0] + k * WORD_BYTES,
                        rows.strides[0],
                        panel.ctypes.data + k * B_STEP_BYTES,
                        min(_DEPTH, words - k),
                        nothing.ctypes.data if k else less.ctypes.data + row * WORD_BYTES,
                        source,
                        source_step,
                        target,
                        out.strides[0],
                    )
        end()

    return multiply_blocks
