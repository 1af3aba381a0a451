"""Products of matrices of integers as calls of machine code; they wrap around and have no order.

Numbers of 8 bits, and those of 32 that fit into 8 or 16, are packed into words and multiplied some
at a time (`kernels/contraction/integers.py`), or read as they lie, where that is worth more than
packing. Whether numbers of 32 bits fit is seen at run time, so that no result depends on it.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.environment import report_change
from moot.offchain.backends.cpu.calls import (
    Layout,
    call,
    lay_out_whole,
    list_copies,
    reserve_scratch,
    share_out,
)
from moot.offchain.backends.cpu.kernels.contraction import byte_rows, integers, tiles
from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS
from moot.offchain.backends.cpu.kernels.contraction.words import (
    FORMS,
    HAS_BYTES,
    WORD_BYTES,
    Form,
    Packed,
)
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import UNSUITABLE, Call, NativeSequence, Place, Word
from moot.offchain.native.threads import get_threads
from moot.offchain.native.vectors import LANES

Integers = npt.NDArray[Any]

_APART = 16
"""Words between packed rows, so that those a power of two apart fall into several sets of a cache:
a line."""

_BLOCK_ROWS = 1024
"""Rows, about, that one thread multiplies with some panels of columns."""

_PANELS, _PANEL_WORDS = 8, 1 << 16
"""Panels of columns that one thread multiplies with a tile of rows, and their words, at most: both
stay in its cache."""

_GRAIN = 1 << 21
"""Multiply-adds that make another thread worth its start."""

_PACKING_GRAIN = 1 << 16
"""Numbers to pack that do."""

_COUNT_BYTES = 8
"""Bytes of what says whether numbers fit: one for the rows, one for the columns."""


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
    for matrices in zip(a, b, init, out, strict=True):
        if not any(_multiply(form, *matrices) for form in forms):
            left, right, start, result = matrices
            np.add(start, np.matmul(left, right, dtype=out.dtype), out=result)


def _multiply(form: Form, a: Integers, b: Integers, init: Integers, out: Integers) -> bool:
    """Multiply matrices, unless numbers do not fit into words of this form."""
    arrays = a, b, init, out
    outside = np.zeros(2, np.int64)
    layouts = tuple((array.shape, array.strides) for array in arrays)
    sequence = _find_sequence(form, tiles.are_there(), layouts, get_threads())
    if sequence.perform([None, *arrays, outside]) == UNSUITABLE:
        raise report_change()
    return form.source_bytes == 1 or not outside.any()


@lru_cache(1024)
def _find_sequence(
    form: Form,
    has_tiles: bool,  # noqa: FBT001 - a part of the cache's key
    layouts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...],
    _threads: int,
) -> NativeSequence:
    """Return the product of a, b, init and out by their shapes and strides."""
    memory, width = Memory(), form.source_bytes
    widths = width, width, WORD_BYTES, WORD_BYTES
    matrices = _Matrices(
        *(
            Layout(Place(1 + number), width, *layout)
            for number, (width, layout) in enumerate(zip(widths, layouts, strict=True))
        )
    )
    outside = lay_out_whole(Place(1 + len(layouts)), _COUNT_BYTES, (2,))
    calls = _list_product(form, matrices, outside, memory, has_tiles=has_tiles)
    return NativeSequence(calls, memory.most_bytes, 1 + len(layouts))


def list_products(a: Layout, b: Layout, init: Layout, out: Layout, memory: Memory) -> list[Call]:
    """Return the calls that multiply batches of matrices of int8, as `multiply` does."""
    (form,) = FORMS[1]
    calls = []
    for z in range(out.shape[0]):
        matrices = _Matrices(
            *(
                Layout(x.skip((z, 0, 0)), x.width, x.shape[1:], x.strides[1:])
                for x in (a, b, init, out)
            )
        )
        outside = lay_out_whole(memory.reserve(2 * _COUNT_BYTES), _COUNT_BYTES, (2,))
        calls += _list_product(form, matrices, outside, memory, has_tiles=tiles.are_there())
    return calls


class _Matrices(NamedTuple):
    """The matrices of one product: (M, K), (K, N), (M, N) and (M, N)."""

    a: Layout
    b: Layout
    init: Layout
    out: Layout

    @property
    def turned(self) -> "_Matrices":
        """The product of the turned matrices, which is the turned product."""
        a, b, init, out = (matrix.swap(0, 1) for matrix in self)
        return _Matrices(b, a, init, out)


def _list_product(
    form: Form, matrices: _Matrices, outside: Layout, memory: Memory, *, has_tiles: bool
) -> list[Call]:
    """Return the calls that multiply matrices, and note in `outside` whether numbers fit."""
    for some in (matrices, matrices.turned):
        if _has_few_rows(some.a, some.b):
            return [_multiply_rows(some, memory)]
    a, b, init, out = matrices
    has_tiles = has_tiles and form.packed is Packed.BYTES
    form = form._replace(is_lifted=form.packed is Packed.BYTES and not has_tiles)
    kernels = integers.get_kernels(form)
    (m, n), k, most = out.shape, a.shape[1], kernels.most_rows
    words = -(-k // (form.packed * LANES)) * LANES
    height = -(-m // most) * most
    less = lay_out_whole(memory.reserve(height * WORD_BYTES), WORD_BYTES, (height,))
    calls = []
    if has_tiles and _are_words(a):
        rows = Layout(a.start, WORD_BYTES, (m, k // WORD_BYTES), (a.strides[0], WORD_BYTES))
    else:
        place = memory.reserve(height * (words + _APART) * WORD_BYTES)
        whole = lay_out_whole(place, WORD_BYTES, (height, words + _APART))
        rows = whole.part(slice(None), slice(words))
        packing = call(kernels.pack_rows, (a, rows, less, outside, 0, m), memory)
        calls.append(share_out(packing, max(1, _PACKING_GRAIN // k)))
    copies, start = _list_start(init, out, memory)
    panels = min(_PANELS, max(1, _PANEL_WORDS // (words * COLUMNS)))
    place, size = reserve_scratch(memory, panels * words * COLUMNS * WORD_BYTES)
    packed = lay_out_whole(place, WORD_BYTES, (panels, words, COLUMNS))
    tile = most if has_tiles else _choose_height(m, most)
    block = tile * max(1, _BLOCK_ROWS // tile)
    units = -(-m // block) * -(-n // (panels * COLUMNS))
    arrays = rows, b, packed, less, outside, *start, out
    product = call(kernels.multiply, (*arrays, tile, block, 0, units), memory)
    grain = max(1, _GRAIN // (min(m, block) * panels * COLUMNS * k))
    scratch = product.words.index(place), size
    return [*calls, *copies, share_out(product, grain, scratch=scratch)]


def _has_few_rows(a: Layout, b: Layout) -> bool:
    """Whether few rows are multiplied by columns that lie as the instruction reads them."""
    is_few = a.width == 1 and HAS_BYTES and a.shape[0] <= byte_rows.MOST_ROWS
    return is_few and (a.strides[1], b.strides[0]) == (1, 1)


def _multiply_rows(matrices: _Matrices, memory: Memory) -> Call:
    """Return the call that multiplies a few rows by columns, which are shared out."""
    (m, k), columns = matrices.a.shape, matrices.out.shape[1]
    product = call(byte_rows.make_kernel(), (*matrices, 0, columns), memory)
    return share_out(product, max(1, _GRAIN // (m * k)))


def _are_words(a: Layout) -> bool:
    """Whether rows of numbers are whole lines of words for tiles as they lie."""
    (m, k), line = a.shape, Packed.BYTES * LANES
    return a.width == a.strides[1] == 1 and not m % tiles.SIDE and not k % line


def _list_start(
    init: Layout, out: Layout, memory: Memory
) -> tuple[list[Call], tuple[Word, int, int]]:
    """Return the calls that bring what sums start from into place, and where it is then.

    That is an address, and the bytes between rows and between columns: elements of a row lie side
    by side, or all are the same, and there once for each column of a panel.
    """
    if init.strides[1] == WORD_BYTES or init.shape[1] == 1:
        return [], (init.start, init.strides[0], WORD_BYTES)
    if init.strides == (0, 0):
        line = lay_out_whole(memory.reserve(COLUMNS * WORD_BYTES), WORD_BYTES, (1, COLUMNS))
        return list_copies(init._replace(shape=line.shape), line, memory), (line.start, 0, 0)
    return list_copies(init, out, memory), (out.start, out.strides[0], WORD_BYTES)


def _choose_height(rows: int, most: int) -> int:
    """Return how many rows a tile has, so that all have about as many."""
    tiles_ = -(-rows // most)
    height = -(-rows // tiles_)
    return height + height % 2
