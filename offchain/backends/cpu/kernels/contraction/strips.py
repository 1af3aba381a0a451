"""Products of few rows with a factor that a near cache holds: sums stay in registers for all steps.

Each step of a strip is a run of neighbours in a row of b, which is read once, where it lies. The
second-level cache gives these about as fast as nothing but reading would take them.
"""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES, emit_canonical
from moot.offchain.native import vectors
from moot.offchain.native.compiled import kernel, linked, reads, writes
from moot.offchain.native.machine import VECTOR_REGISTERS, get_second_cache_bytes
from moot.offchain.native.vectors import FLOAT, LANES, VECTOR_BYTES, WORD

Floats = npt.NDArray[np.float32]

MOST_ROWS = 4
"""Rows of a at most: so many sums of a column are in registers at once."""

_MOST_BYTES = get_second_cache_bytes() // 2
"""Bytes of a matrix of b that the second-level cache holds from one product to the next."""

_MOST_VECTORS = 16
"""Vectors of a strip at most."""

_VECTOR = ir.VectorType(FLOAT, LANES)


_GRAIN = 2**16
"""Elements of b that are worth another thread."""


def is_suitable(rows: int, b: Sequence[int], b_steps: Sequence[int]) -> bool:
    """Whether there are few rows, and a matrix of b is dense enough, and small.

    Args:
        rows: of a.
        b: the shape of b, (B, K, N).
        b_steps: its strides.
    """
    _, depth, n = b
    is_near = depth * n * FLOAT_BYTES <= _MOST_BYTES
    return rows <= MOST_ROWS and b_steps[2] == FLOAT_BYTES and is_near


def has_readable_columns(init_steps: Sequence[int]) -> bool:
    """Whether columns of what sums start from lie side by side, or all are one."""
    return init_steps[2] in {0, FLOAT_BYTES}


def divide(b: Sequence[int], threads: int) -> tuple[int, int, int]:
    """Return the columns of a block, how many blocks there are, and how many a thread is worth.

    Args:
        b: the shape of b, (B, K, N).
        threads: how many share the work, matrix by matrix if there are as many of these.
    """
    batch, depth, n = b
    parts = max(1, min(-(-threads // batch), depth * n // _GRAIN))
    width = -(-n // (parts * LANES)) * LANES
    return width, batch * -(-n // width), max(1, _GRAIN // (width * depth))


@kernel(
    reads(types.float32, 3, "A"),
    reads(types.float32, 3, "A"),
    reads(types.float32, 3, "A"),
    writes(types.float32, 3, "A"),
    *[types.int64] * 3,
)
def multiply_strips(
    a: Floats, b: Floats, init: Floats, out: Floats, width: int, first: int, stop: int
) -> None:
    """Compute blocks of `width` columns from `first` to `stop`, batch after batch.

    Args:
        a: (B, M, K) with `MOST_ROWS` rows at most, any strides.
        b: (B, K, N); the elements of each row lie side by side.
        init: (B, M, N), where sums start; the elements of each row lie side by side, or all are one
            element. It may be `out`.
        out: (B, M, N); the elements of each row lie side by side.
        width: columns of a block.
        first: the first block to compute.
        stop: the first not to.
    """
    _, m, n = out.shape
    blocks = -(-n // width)
    for block in range(first, stop):
        z, start = block // blocks, block % blocks * width
        _multiply_block(
            m,
            min(width, n - start),
            a.ctypes.data + z * a.strides[0],
            a.strides[1],
            a.strides[2],
            b.ctypes.data + z * b.strides[0] + start * FLOAT_BYTES,
            b.strides[1],
            b.shape[1],
            init.ctypes.data + z * init.strides[0] + start * init.strides[2],
            init.strides[1],
            init.strides[2],
            out.ctypes.data + z * out.strides[0] + start * FLOAT_BYTES,
            out.strides[1],
        )


@linked(*[types.intp] * 13)
def _multiply_block(
    builder: ir.IRBuilder, rows: ir.Value, columns: ir.Value, *words: ir.Value
) -> None:
    """Compute some columns of a product, strip by strip, the widest first.

    Args:
        builder: where the code is written.
        rows: of a, from 1 to `MOST_ROWS`.
        columns: of b, at least 1.
        *words: the addresses of the factors, of what sums start from and of the result, each with
            its steps: as `_Strip` has them.
    """
    for height in range(1, MOST_ROWS + 1):
        with builder.if_then(builder.icmp_signed("==", rows, WORD(height))):
            done: ir.Value = WORD(0)
            for width in _list_widths(height):
                strip = _Strip(builder, height, width, words)
                left = builder.sub(columns, done)
                count = builder.udiv(left, WORD(width * LANES))
                with builder.if_then(builder.icmp_signed(">", count, WORD(0))):
                    strip.emit_all(count, done)
                done = builder.add(done, builder.mul(count, WORD(width * LANES)))
            with builder.if_then(builder.icmp_signed("<", done, columns)):
                strip.emit(done, builder.sub(columns, done))


def _list_widths(height: int) -> list[int]:
    """Return the vectors of strips of so many rows, the widest first, the last of which is 1."""
    most = min(_MOST_VECTORS, (VECTOR_REGISTERS - 4) // height)
    widest = most.bit_length() - 1
    return [1 << power for power in range(widest, -1, -2)] + ([1] if widest % 2 else [])


class _Strip:
    """The writer of strips of a size.

    Args:
        builder: where the code is written.
        height: rows.
        width: vectors of each.
        words: address of a, bytes between its rows and between its steps; address of b, bytes
            between its steps, how many there are; address of what the sums start from, bytes
            between its rows and its columns; address of the result, bytes between its rows.
    """

    def __init__(
        self, builder: ir.IRBuilder, height: int, width: int, words: Sequence[ir.Value]
    ) -> None:
        self._builder = builder
        self._height, self._width, self._words = height, width, words

    def emit_all(self, count: ir.Value, first: ir.Value) -> None:
        """Write the code for some strips of whole vectors, from a column on."""
        builder, columns = self._builder, WORD(self._width * LANES)

        def emit(number: ir.Value, _: object) -> list[ir.Value]:
            self.emit(builder.add(first, builder.mul(number, columns)))
            return []

        vectors.repeat(builder, count, [], emit)

    def emit(self, column: ir.Value, some: ir.Value | None = None) -> None:
        """Write the code for a strip from a column on, only the first `some` columns if given."""
        builder = self._builder
        a, a_row_step, a_step, b, b_step, depth, *_, target, target_step = self._words
        skipped = builder.mul(column, WORD(FLOAT_BYTES))
        rows = [builder.mul(a_row_step, WORD(row)) for row in range(self._height)]

        def multiply(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            at_a, at_b, *sums = carried
            right = [self._load(at_b, v, some) for v in range(self._width)]
            after = []
            for row, skip in enumerate(rows):
                factor = vectors.load(builder, FLOAT, builder.add(at_a, skip))
                left = vectors.splat(builder, factor, LANES)
                own = sums[row * self._width : (row + 1) * self._width]
                for value, total in zip(right, own, strict=True):
                    after.append(vectors.call(builder, "llvm.fma", [left, value, total]))
            return [builder.add(at_a, a_step), builder.add(at_b, b_step), *after]

        begin = [a, builder.add(b, skipped), *self._load_starts(column, some)]
        _, _, *sums = vectors.repeat(builder, depth, begin, multiply)
        for number, total in enumerate(sums):
            row, v = divmod(number, self._width)
            place = builder.add(target, builder.mul(target_step, WORD(row)))
            place = builder.add(builder.add(place, skipped), WORD(v * VECTOR_BYTES))
            value = emit_canonical(builder, total)
            if some is None:
                vectors.store(builder, value, place)
            else:
                vectors.store_first(builder, value, place, some)

    def _load(self, place: ir.Value, number: int, some: ir.Value | None) -> ir.Value:
        """Load a vector of a run of neighbours."""
        if some is None:
            return vectors.load(self._builder, _VECTOR, place, number * VECTOR_BYTES)
        return vectors.load_first(self._builder, _VECTOR, place, some)

    def _load_starts(self, column: ir.Value, some: ir.Value | None) -> list[ir.Value]:
        """Load what the sums start from."""
        builder = self._builder
        *_, start, step, column_step, _, _ = self._words
        spots = [(row, v) for row in range(self._height) for v in range(self._width)]
        places = [builder.add(start, builder.mul(step, WORD(row))) for row in range(self._height)]
        is_one = builder.icmp_signed("==", column_step, WORD(0))
        with builder.if_else(is_one) as (one, each):
            with one:
                same = [
                    vectors.splat(builder, vectors.load(builder, FLOAT, place), LANES)
                    for place in places
                ]
                after_one = builder.block
            with each:
                skipped = builder.mul(column, WORD(FLOAT_BYTES))
                own = [self._load(builder.add(places[row], skipped), v, some) for row, v in spots]
                after_each = builder.block
        found = []
        for (row, _), value in zip(spots, own, strict=True):
            phi = builder.phi(_VECTOR)
            phi.add_incoming(same[row], after_one)
            phi.add_incoming(value, after_each)
            found.append(phi)
        return found
