"""Products by warp groups: both factors are read from shared memory, by `wgmma`.

An element of bfloat16 is one chain of blocks, as in `products.py`, of bytes a sum of integers.
Parts of 128 bytes of each row are in panels with the 128-byte swizzle, several of them: two are
being multiplied or were, the others are on their way. A factor that was copied, or made for this,
is in such parts in device memory, too, and comes in bulk, one copy for a part, which a barrier
counts; one that is read where it is comes in vectors, which threads place.

The kernel takes for granted, and the constructors of what it is given refuse otherwise: panels of
whole patterns (`GroupTile`), vectors that begin at multiples of 16 bytes (`find_rows`), parts of as
many rows as a block's tile (`Parts`), shared memory that begins at a multiple of 1,024 (`Kernel`).

In turn t all threads ask for part t + stages - 2, whose place the products of part t - 2 have left,
begin the products of part t, wait for those of part t - 1, and for part t + 1. So the tensor cores
have a part to multiply while threads wait at the barrier.
"""

from collections.abc import Iterator
from itertools import product

from llvmlite import ir

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.copies import Copies
from moot.offchain.backends.cuda.factors import Rows
from moot.offchain.backends.cuda.kernel import COPIED_BYTES, Bulk, Context, Copy, Kernel, Loop, word
from moot.offchain.backends.cuda.tensor.laying import Parts
from moot.offchain.backends.cuda.tensor.outputs import Element, Tiles
from moot.offchain.backends.cuda.tensor.tiles import GroupTile
from moot.offchain.backends.cuda.warpgroups import (
    GROUP,
    LINE_BYTES,
    ROWS,
    STEP_BYTES,
    Await,
    Commit,
    Fence,
    Multiply,
    Order,
    Orders,
    get_width,
    swizzle,
    write_descriptor,
)
from moot.offchain.native import vectors
from moot.offchain.native.vectors import INDEX

Factor = Rows | Parts
"""Where a factor is read: where it is, or in parts that were copied."""

_PARAMETERS, _TURNS = 5, 4
_DESCRIPTORS = (0, 2)
"""The first cells of both factors' descriptors, before those of the sum."""

_SUMS = 4


def make_kernel(
    output: Tiles, factors: tuple[Factor, Factor], tile: GroupTile, block: Block | None
) -> Kernel:
    """Return the kernel of products with a positive number of elements and of fold steps.

    Parameters are the addresses of the output, of the initial values, and of both factors' rows or
    parts, the number of parts along steps, and those of the output.

    Args:
        output: where elements begin and go, in tiles of the same sides.
        factors: where both factors are.
        tile: what each block of threads computes.
        block: how products of bfloat16 are added up; None if the factors are bytes.
    """
    writer = _Writer(output, factors, tile, block)
    loop = Loop(_TURNS, (writer.advance, writer.orders, writer.follow))
    return Kernel(
        "multiply_groups",
        _PARAMETERS + output.parameters,
        (writer.begin, writer.take, loop, Orders((Await(0),)), writer.end),
        tile.threads,
        tile.stages * writer.buffer_bytes,
        _SUMS + writer.product.cells,
        groups=tile.stages if writer.copies else 0,
        copies=writer.copies,
        barriers=tile.stages if writer.bulks else 0,
        bulks=writer.bulks,
    )


class _Writer:
    """Writes the phases of the kernel; a thread's cells are numbered here."""

    def __init__(
        self, output: Tiles, factors: tuple[Factor, Factor], tile: GroupTile, block: Block | None
    ) -> None:
        assert tile.width == get_width(block)
        self._output, self._factors, self._tile = output, factors, tile
        sizes = tile.part_bytes
        self._behind, self.buffer_bytes = (0, sizes[0]), sum(sizes)
        self._copies = [
            Copies(each, side, tile.depth, tile.threads) if isinstance(each, Rows) else None
            for each, side in zip(factors, tile.sides, strict=True)
        ]
        turned = [isinstance(each, Rows) and each.is_turned for each in factors]
        self._is_turned = turned[0], turned[1]
        self._block = block
        self.copies = sum(each.count for each in self._copies if each is not None)
        self.bulks = self._copies.count(None)

    @property
    def product(self) -> Multiply:
        """The first product of a part."""
        return self._list_products()[0]

    def _list_products(self) -> list[Multiply]:
        """Return the products of a part, in ascending order of steps."""
        found = []
        for straight in range(0, LINE_BYTES, STEP_BYTES):
            turned = straight // self._tile.width * LINE_BYTES
            ahead = [turned if each else straight for each in self._is_turned]
            places = ahead[0], ahead[1]
            shape = self._tile.columns, self._block, self._is_turned
            found.append(Multiply(*shape, _DESCRIPTORS, places, _SUMS))
        return found

    @property
    def orders(self) -> Orders:
        """The products of a part, and the wait for those of the one before."""
        every: list[Order] = [Fence(), *self._list_products(), Commit(), Await(1)]
        return Orders(tuple(every))

    def begin(self, context: Context) -> None:
        """Ask for the first parts, and set the sums to the initial values."""
        for part in range(self._tile.stages - 2):
            self._ask(context, word(part))
        self._output.start(context, self._list_elements(context), context.parameters[1])

    def take(self, context: Context) -> None:
        """Wait for the first part."""
        self._take(context, word(0))

    def advance(self, context: Context) -> None:
        """Ask for a part, and say where the products find that of the turn."""
        builder, stages = context.builder, self._tile.stages
        self._ask(context, builder.add(context.turn, word(stages - 2)))
        buffer = self._find_buffer(context, context.turn)
        group = builder.udiv(context.thread, word(GROUP))
        rows = builder.mul(group, word(ROWS * LINE_BYTES))
        for axis, first in enumerate(_DESCRIPTORS):
            behind = builder.add(buffer, word(self._behind[axis]))
            start = builder.add(behind, rows) if axis == 0 else behind
            panel_bytes = self._tile.depth * LINE_BYTES
            bits = write_descriptor(builder, context.find_shared(start), panel_bytes)
            for place in range(2):
                half = builder.lshr(bits, word(place * INDEX.width))
                context.set_cell(first + place, builder.trunc(half, INDEX))

    def follow(self, context: Context) -> None:
        """Wait for the next part."""
        self._take(context, context.builder.add(context.turn, word(1)))

    def _find_buffer(self, context: Context, part: ir.Value) -> ir.Value:
        """Return where in shared memory a part is."""
        stage = context.builder.urem(part, word(self._tile.stages))
        return context.builder.mul(stage, word(self.buffer_bytes))

    def _ask(self, context: Context, part: ir.Value) -> None:
        """Begin to bring a part; in vectors, instead of those behind the last one, that."""
        builder = context.builder
        if self.bulks:
            is_first = builder.icmp_unsigned("==", context.thread, word(0))
            is_there = builder.icmp_unsigned("<", part, context.parameters[_TURNS])
            with builder.if_then(builder.and_(is_first, is_there)):
                barrier = builder.urem(part, word(self._tile.stages))
                context.begin_bulk(self._list_bulks(context, part), barrier)
        if self.copies:
            ticket = builder.urem(part, word(self._tile.stages))
            context.begin_copies(self._list_copies(context, part), ticket)

    def _list_bulks(self, context: Context, part: ir.Value) -> list[Bulk]:
        builder, found = context.builder, []
        batch, tile = self._output.place(context)
        buffer = self._find_buffer(context, part)
        for axis, factor in enumerate(self._factors):
            if isinstance(factor, Parts):
                behind = factor.locate(context, batch, tile[axis], part)
                address = builder.add(context.parameters[2 + axis], behind)
                offset = builder.add(buffer, word(self._behind[axis]))
                found.append(Bulk(address, offset, factor.part_bytes))
        return found

    def _list_copies(self, context: Context, part: ir.Value) -> list[Copy]:
        builder, found = context.builder, list[Copy]()
        batch, tile = self._output.place(context)
        firsts = self._output.find_firsts(context, tile)
        start = builder.mul(self._clip(context, part), word(self._tile.depth))
        buffer = self._find_buffer(context, part)
        for axis, copies in enumerate(self._copies):
            if copies is None:
                continue

            def place(line: ir.Value, element: ir.Value, axis: int = axis) -> ir.Value:
                """Return where a vector is: of a turned factor a line has one of each panel."""
                vector = builder.udiv(element, word(COPIED_BYTES // self._tile.width))
                each = word(LINE_BYTES // COPIED_BYTES)
                panel, own = builder.udiv(vector, each), builder.urem(vector, each)
                offset = builder.add(buffer, word(self._behind[axis]))
                panel = builder.mul(panel, word(self._tile.depth * LINE_BYTES))
                return builder.add(builder.add(offset, panel), swizzle(builder, line, own))

            at = batch, firsts[axis], start
            found += copies.make(context, at, context.parameters[2 + axis], place)
        return found

    def _clip(self, context: Context, part: ir.Value) -> ir.Value:
        """Return a part, or the last one instead of those behind it."""
        last = context.builder.sub(context.parameters[_TURNS], word(1))
        return vectors.minimum(context.builder, part, last)

    def _take(self, context: Context, part: ir.Value) -> None:
        """Wait for a part, and let products see it; once more for the last one behind it."""
        builder, stages = context.builder, word(self._tile.stages)
        if self.copies:
            context.end_copies(builder.urem(part, stages), self._tile.stages - 3)
            context.publish_copies()
        if self.bulks:
            part = self._clip(context, part)
            parity = builder.and_(builder.udiv(part, stages), word(1))
            context.end_bulk(builder.urem(part, stages), parity)

    def _list_elements(self, context: Context) -> Iterator[Element]:
        """Yield the thread's elements: those of a product of its warp group."""
        builder = context.builder
        warp, lane = (f(context.thread, word(32)) for f in (builder.udiv, builder.urem))
        group, place = builder.udiv(lane, word(4)), builder.urem(lane, word(4))
        first = builder.add(builder.mul(warp, word(16)), group)
        double = builder.mul(place, word(2))
        for block, half, side in product(range(self._tile.columns // 8), (0, 1), (0, 1)):
            row = builder.add(first, word(8 * half))
            column = builder.add(double, word(8 * block + side))
            yield Element(_SUMS + 4 * block + 2 * half + side, row, column)

    def end(self, context: Context) -> None:
        """Store the thread's elements, when nothing is on its way any more."""
        if self.copies:
            builder, stages = context.builder, word(self._tile.stages)
            last = builder.add(context.parameters[_TURNS], word(self._tile.stages - 3))
            context.end_copies(builder.urem(last, stages), 0)
        self._output.store(context, self._list_elements(context), context.parameters[0])
