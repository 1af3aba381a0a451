"""The outputs of products in tiles: which tile a block has, and where a thread's elements go."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import prod
from typing import NamedTuple

from llvmlite import ir

from moot.offchain.backends.cuda.elements import Variable, ravel, read, write
from moot.offchain.backends.cuda.kernel import Context, word
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.native import emit, vectors
from moot.offchain.native.vectors import INDEX

_MOST_BAND = 16
"""Tiles of one column of tiles that follow each other, so that its factor is read once for them."""


class Element(NamedTuple):
    """An element of a thread.

    Attributes:
        cell: its number.
        row: the row in the block's tile.
        column: likewise.
    """

    cell: int
    row: ir.Value
    column: ir.Value


_Each = Callable[[int, list[Variable], ir.Value], None]
"""(the cell of an element, its variables, whether it is inside)."""


class Tiles(ABC):
    """Matrices in tiles: a block has one of them.

    Args:
        sizes: the rows and columns of a matrix.
        sides: those of a tile.

    Attributes:
        parameters: the parameters of a kernel, behind the others, that say where elements go.
    """

    parameters = 0

    def __init__(self, sizes: tuple[int, int], sides: tuple[int, int]) -> None:
        self._sizes, self._sides = sizes, sides

    @property
    def tiles(self) -> tuple[int, int]:
        """The tiles along rows and columns."""
        rows, columns = (-(-x // side) for x, side in zip(self._sizes, self._sides, strict=True))
        return rows, columns

    def count_blocks(self, matrices: int) -> int:
        """Return the tiles of so many matrices."""
        return matrices * prod(self.tiles)

    def place(self, context: Context) -> tuple[ir.Value, list[ir.Value]]:
        """Return the block's matrix, and the numbers of its tile along rows and columns."""
        builder = context.builder
        rows, columns = self.tiles
        height = max(n for n in range(1, _MOST_BAND + 1) if rows % n == 0)
        number, found = context.block, []
        for size in (height, columns, rows // height):
            found.append(builder.urem(number, word(size)))
            number = builder.udiv(number, word(size))
        row = builder.add(builder.mul(found[2], word(height)), found[0])
        return number, [row, found[1]]

    def find_firsts(self, context: Context, tile: Iterable[ir.Value]) -> list[ir.Value]:
        """Return the first row and column of a tile."""
        pairs = zip(tile, self._sides, strict=True)
        return [context.builder.mul(x, word(side)) for x, side in pairs]

    def find(
        self, context: Context, firsts: Iterable[ir.Value], element: Element
    ) -> tuple[list[ir.Value], ir.Value]:
        """Return an element's row and column, the last ones for those outside, and if it's inside.

        Args:
            context: where to write.
            firsts: the first row and column of the tile.
            element: the element.
        """
        builder, at, checks = context.builder, [], []
        numbers = zip(firsts, (element.row, element.column), self._sizes, strict=True)
        for first, number, size in numbers:
            last = word(size - 1)
            full = builder.add(first, number)
            checks.append(builder.icmp_unsigned("<=", full, last))
            at.append(vectors.minimum(builder, full, last))
        return at, builder.and_(*checks)

    @abstractmethod
    def start(self, context: Context, elements: Iterable[Element], address: ir.Value) -> None:
        """Set elements to their initial values, which are at an address."""

    @abstractmethod
    def store(self, context: Context, elements: Iterable[Element], address: ir.Value) -> None:
        """Store the elements that are inside."""


class Output(Tiles):
    """The output of a contraction in tiles.

    Args:
        matrices: the products.
        sides: the rows and columns of a tile.
    """

    def __init__(self, matrices: Matrices, sides: tuple[int, int]) -> None:
        super().__init__(matrices.sides, sides)
        self._matrices = matrices

    def start(self, context: Context, elements: Iterable[Element], address: ir.Value) -> None:
        """Set elements to their initial values, whose tensor is at an address."""
        node = self._matrices.node
        nothing = [Variable(word(0), 0, 0)] * len(node.fold_shape)

        def set_one(cell: int, variables: list[Variable], _: ir.Value) -> None:
            value = read(context, node.operands[0], [*variables, *nothing], address)
            context.set_cell(cell, context.builder.extract_element(value, INDEX(0)))

        self._each(context, elements, set_one)

    def store(self, context: Context, elements: Iterable[Element], address: ir.Value) -> None:
        """Store the elements that are inside, every NaN as the canonical one."""
        builder, node = context.builder, self._matrices.node

        def store_one(cell: int, variables: list[Variable], inside: ir.Value) -> None:
            with builder.if_then(inside):
                linear = ravel(context, (it.value for it in variables), node.shape)
                found = context.get_cell(cell, emit.ELEMENTS[node.dtype])
                value = vectors.splat(builder, found, 1)
                write(context, node.dtype, value, address, linear)

        self._each(context, elements, store_one)

    def _each(self, context: Context, elements: Iterable[Element], body: _Each) -> None:
        """Write what is done for each element; those outside have the last variables inside."""
        batch, tile = self.place(context)
        firsts = self.find_firsts(context, tile)
        for element in elements:
            at, is_inside = self.find(context, firsts, element)
            variables = self._matrices.find_variables(context, batch, *at)
            body(element.cell, variables, is_inside)
