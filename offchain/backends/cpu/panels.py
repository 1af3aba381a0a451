"""The plans of products of few rows with a factor that was copied to panels for many of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from moot.offchain.backends.cpu.called_plans import CalledOperator
from moot.offchain.backends.cpu.calls import (
    call,
    lay_out,
    lay_out_whole,
    reserve_scratch,
    share_out,
    skip,
)
from moot.offchain.backends.cpu.grouped import GroupedReader
from moot.offchain.backends.cpu.kernels.contraction.gemm import GRAIN
from moot.offchain.backends.cpu.kernels.contraction.panels import (
    count_scratch_floats,
    multiply_panels,
)
from moot.offchain.backends.cpu.kernels.contraction.tile import COLUMNS, FLOAT_BYTES
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Call, Place, Word
from moot.offchain.planning.accesses import collapse, find_strided, get_used, project
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.programs.graph import Node, Origin

_COLUMN_VARIABLES = 2


@dataclass(frozen=True, slots=True)
class Panels(Form):
    """The factors of a product one of which lies in panels.

    Attributes:
        rows: the variables of the other factor's rows.
        columns: those of the panels, and of the columns in each.
        is_swapped: whether the first factor is the one in panels.
        width: the columns of a panel.
    """

    rows: tuple[int, ...]
    columns: tuple[int, int]
    is_swapped: bool
    width: int

    preconditions: ClassVar[tuple[Precondition, ...]] = (
        Precondition(
            "width", "a panel has the columns of a tile", lambda form: form.width == COLUMNS
        ),
        Precondition(
            "roles",
            "rows come before panels, and these before the columns in each",
            lambda form: (*form.rows, *form.columns) == tuple(sorted({*form.rows, *form.columns})),
        ),
    )


def find_panels(node: Node) -> Panels | None:
    """Return the factors of a contraction of which one lies in panels, if that is so."""
    sizes, rank = node.shape + node.fold_shape, len(node.shape)
    live = [v for v in range(rank) if sizes[v] > 1]
    fold = [v for v in range(rank, len(sizes)) if sizes[v] > 1]
    if len(live) < _COLUMN_VARIABLES or sizes[live[-1]] != COLUMNS:
        return None
    *rows, panel, column = live
    for is_swapped in (False, True):
        left, right = node.operands[2:0:-1] if is_swapped else node.operands[1:]
        strided = find_strided(right.rows, sizes)
        is_apart = [v for v in get_used(left, sizes) if v not in fold] == rows
        if right.origin is Origin.IMMEDIATE or strided is None or not is_apart:
            continue
        step = collapse([sizes[v] for v in fold], [strided.strides[v] for v in fold])
        strides = strided.strides[panel], step, strided.strides[column]
        is_dense = strides == (node.fold_length * COLUMNS, COLUMNS, 1)
        if is_dense and get_used(right, sizes) == [panel, column, *fold]:
            return make_form(Panels, tuple(rows), (panel, column), is_swapped, sizes[column])
    return None


class PanelledProduct(CalledOperator):
    """The plan of a product with a factor in panels.

    Args:
        node: a contraction.
        panels: its factors.
    """

    def __init__(self, node: Node, panels: Panels) -> None:
        rank, sizes = len(node.shape), node.shape + node.fold_shape
        rows, columns = panels.rows, panels.columns
        fold = range(rank, len(sizes))
        init, *pair = node.operands
        left, right = pair[::-1] if panels.is_swapped else pair
        first = project(init, range(rank))  # at the first step of the fold
        inner = () if init.origin is Origin.IMMEDIATE else (1,)
        self._start = GroupedReader.of(first, node.shape, (rows, columns), inner)
        self._left = GroupedReader.of(left, sizes, (rows, fold))
        self._right = GroupedReader.of(right, sizes, ((columns[0],), fold, (columns[1],)))
        grouped = self._start, self._left, self._right
        self._order = (0, 2, 1) if panels.is_swapped else (0, 1, 2)
        readers = [grouped[number].reader for number in self._order]
        super().__init__(readers, [(node.shape, NUMPY_TYPES[node.dtype])])
        self._steps = node.fold_length
        self._rows, self._columns = (prod(sizes[v] for v in group) for group in (rows, columns))
        self._panels = sizes[columns[0]]
        self._scratch = count_scratch_floats(self._rows, self._steps)

    @property
    def _grain(self) -> int:
        return -(-GRAIN // (self._rows * COLUMNS * self._steps))

    def list_own_calls(
        self, places: Sequence[Word], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the call that computes the output."""
        start, left, right = (places[number] for number in self._order)
        shape = self._rows, self._columns
        place, size = reserve_scratch(memory, self._scratch * FLOAT_BYTES)
        arguments = (
            lay_out(left, FLOAT_BYTES, (self._rows, self._steps), self._left.strided),
            skip(right, self._right.offset),
            lay_out(start, FLOAT_BYTES, shape, self._start.strided),
            lay_out_whole(targets[0], FLOAT_BYTES, shape),
            lay_out_whole(place, FLOAT_BYTES, (self._scratch,)),
            0,
            self._panels,
        )
        product = call(multiply_panels, arguments, memory)
        scratch = product.words.index(place), size
        return [share_out(product, self._grain, scratch=scratch)]
