"""The plans of products of few rows with a factor that was copied to panels for many of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, TypeVar

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
from moot.offchain.backends.cpu.views import view
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.scratch import get_scratch
from moot.offchain.native.sequences import Call, Place
from moot.offchain.native.threads import share
from moot.offchain.planning.accesses import collapse, find_strided, get_used, project
from moot.offchain.planning.preconditions import Form, Precondition, make_form
from moot.offchain.programs.graph import Node, Origin

_GivenT = TypeVar("_GivenT")

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


class PanelledProduct:
    """The plan of a product with a factor in panels.

    Args:
        node: a contraction.
        panels: its factors.
    """

    def __init__(self, node: Node, panels: Panels) -> None:
        self._shape, self._dtype = node.shape, NUMPY_TYPES[node.dtype]
        rank, sizes = len(node.shape), node.shape + node.fold_shape
        rows, columns, self._is_swapped = panels.rows, panels.columns, panels.is_swapped
        fold = range(rank, len(sizes))
        init, *pair = node.operands
        left, right = pair[::-1] if self._is_swapped else pair
        first = project(init, range(rank))  # at the first step of the fold
        inner = () if init.origin is Origin.IMMEDIATE else (1,)
        self._start = GroupedReader.of(first, node.shape, (rows, columns), inner)
        self._left = GroupedReader.of(left, sizes, (rows, fold))
        self._right = GroupedReader.of(right, sizes, ((columns[0],), fold, (columns[1],)))
        self._steps = node.fold_length
        self._rows, self._columns = (prod(sizes[v] for v in group) for group in (rows, columns))
        self._panels = sizes[columns[0]]
        self._scratch = count_scratch_floats(self._rows, self._steps)

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of init, a and b (None for constants)."""
        start, left, right = (
            grouped.reader.buffer(flat)
            for grouped, flat in zip(self._readers, self._order(flats), strict=True)
        )
        out = buffers.empty(self._shape, self._dtype)
        a = view(left, (self._rows, self._steps), self._left.strided)
        init = view(start, (self._rows, self._columns), self._start.strided)
        matrix = out.reshape(self._rows, self._columns)
        address = buffers.get_address(right) + self._right.offset

        def work(first: int, stop: int) -> None:
            multiply_panels(
                a, address, init, matrix, get_scratch("panels", self._scratch), first, stop
            )

        share(work, self._panels, self._grain)
        return out

    @property
    def _grain(self) -> int:
        return -(-GRAIN // (self._rows * COLUMNS * self._steps))

    @property
    def is_called(self) -> bool:
        """Whether a few calls bring its operands into place."""
        return all(grouped.reader.is_short for grouped in self._readers)

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the output."""
        pairs = zip(self._readers, self._order(sources), strict=True)
        found = [grouped.reader.list_calls(source, memory) for grouped, source in pairs]
        (start, _), (left, _), (right, _) = found
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
        copies = [copy for _, own in found for copy in own]
        product = call(multiply_panels, arguments, memory)
        scratch = product.words.index(place), size
        return [*copies, share_out(product, self._grain, scratch=scratch)]

    @property
    def _readers(self) -> tuple[GroupedReader, GroupedReader, GroupedReader]:
        return self._start, self._left, self._right

    def _order(self, given: Sequence[_GivenT]) -> tuple[_GivenT, ...]:
        """Return what belongs to init, the other factor and the one in panels, in this order."""
        init, *pair = given
        return (init, *(pair[::-1] if self._is_swapped else pair))
