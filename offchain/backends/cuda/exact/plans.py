"""Plans of sums in `exact`: products on tensor cores, and folds by single threads."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from moot.offchain.backends.cuda.exact import finish, folds, products, residues, tiles
from moot.offchain.backends.cuda.exact.finish import Layout
from moot.offchain.backends.cuda.exact.outputs import Residues
from moot.offchain.backends.cuda.exact.residues import MOST_STEPS
from moot.offchain.backends.cuda.exact.tiles import AnyTile, Tile, choose_tile
from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.single import Flats, Reserve, Single, launch_all
from moot.offchain.backends.cuda.tensor import groups
from moot.offchain.backends.cuda.tiling import find_split
from moot.offchain.backends.port import Plan
from moot.offchain.programs.graph import Kind, Node

_LEAST_SIDE, _LEAST_STEPS = 16, 32
"""Rows, columns and terms that are worth being cut."""

_PART_BYTES = 1 << 28
"""Bytes of residues beyond which batches are made in parts."""


class Summed(Single):
    """The plan of a sum of which each thread has an element."""

    def make_kernel(self) -> Kernel:
        """Return the kernel."""
        return folds.make_kernel(self.node)


class Multiplied:
    """The plan of a contraction on tensor cores.

    Args:
        machine: what computes it.
        node: the contraction, with a positive number of elements and of fold steps.
        tile: what each block computes; None for what fits the machine.
    """

    is_launched = True

    def __init__(self, machine: Machine, node: Node, tile: AnyTile | None = None) -> None:
        self._machine, self._node = machine, node
        matrices, steps = Matrices(node, find_split(node)), node.fold_length
        self.tile = tile or choose_tile(
            machine.capability,
            matrices.sides,
            steps,
            len(residues.choose_moduli(steps)) * matrices.batches,
            machine.multiprocessors,
        )
        self._layout = lay_out(node, self.tile)
        self._output = Residues(self._layout.cuts, self.tile.sides)

    @cached_property
    def _loaded(self) -> list[Any]:
        cuts = self._layout.cuts
        kernels = [
            *(
                residues.make_kernel(cut, self._layout.read_factor(axis, residues.SOURCE))
                for axis, cut in enumerate(cuts)
            ),
            make_products(self._layout, self.tile),
            finish.make_kernel(self._node, self._layout),
        ]
        return [self._machine.load(kernel) for kernel in kernels]

    def _list_parts(self) -> Iterator[tuple[int, int]]:
        """Yield the first batch of each part, and how many it has."""
        layout, (a, b) = self._layout, self._layout.cuts
        each = a.count_bytes(1) + b.count_bytes(1) + len(a.moduli) * a.rows * b.rows
        size = max(1, _PART_BYTES // each)
        for first in range(0, layout.batches, size):
            yield first, min(size, layout.batches - first)

    def run(self, flats: Flats, _step: int) -> Tensor:
        """Return the output."""
        out = Tensor(self._machine, self._node.shape, np.float32)
        launch_all(self._machine, self, flats, [out])
        return out

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], reserve: Reserve
    ) -> list[Launch]:
        """Return the launches of all parts, which share their memory."""
        cuts, parts = self._layout.cuts, list(self._list_parts())
        (_, most), *_ = parts
        rows = prod(cut.rows for cut in cuts)
        places = _Places(
            targets[0],
            sources,
            [reserve(cut.count_bytes(most)) for cut in cuts],
            [reserve(cut.count_info_bytes(most)) for cut in cuts],
            reserve(len(cuts[0].moduli) * rows * most),
        )
        return [
            launch for first, batches in parts for launch in self._list_part(places, first, batches)
        ]

    def _list_part(self, places: "_Places", first: int, batches: int) -> Iterator[Launch]:
        """Yield the launches of some batches."""
        cuts = self._layout.cuts
        cutters, (multiply, finisher) = self._loaded[:2], self._loaded[2:]
        for cut, cutter, to, info, source in zip(
            cuts, cutters, places.bytes_, places.known, places.sources[1:], strict=True
        ):
            yield Launch(cutter, batches * cut.rows, [to, info, source, first, batches])
        blocks = self._output.count_blocks(len(cuts[0].moduli) * batches)
        pieces, most = cuts[0].padded // self.tile.depth, tiles.STEPS_AT_ONCE // self.tile.depth
        for start in range(0, pieces, most):
            before = places.found if start else 0
            firsts = [
                address + start * cut.piece_bytes
                for address, cut in zip(places.bytes_, cuts, strict=True)
            ]
            numbers = [min(most, pieces - start), batches]
            yield Launch(multiply, blocks, [places.found, before, *firsts, *numbers])
        elements = batches * prod(cut.rows for cut in cuts)
        blocks = -(-elements // Kernel("", 0, ()).threads)
        addresses = [places.target, *places.sources, places.found, *places.known]
        yield Launch(finisher, blocks, [*addresses, first, elements])


class _Places(NamedTuple):
    """The addresses of a product: its output and operands, residues, what is known, and sums."""

    target: int
    sources: Sequence[int]
    bytes_: Sequence[int]
    known: Sequence[int]
    found: int


def lay_out(node: Node, tile: AnyTile) -> Layout:
    """Return a contraction's layout for a tile: in parts where warp groups multiply."""
    return Layout(node, find_split(node), None if isinstance(tile, Tile) else tile.sides)


def make_products(layout: Layout, tile: AnyTile) -> Kernel:
    """Return the kernel of products of residues, by the instruction that a tile is for."""
    a, b = layout.cuts
    if isinstance(tile, Tile):
        return products.make_kernel(a, b, tile)
    assert a.parts is not None
    assert b.parts is not None
    return groups.make_kernel(Residues((a, b), tile.sides), (a.parts, b.parts), tile, None)


def plan_sum(machine: Machine, node: Node) -> Plan:
    """Return the plan of a sum with a positive number of elements and of fold steps.

    Raises:
        ProgramError: it has too many terms.
    """
    is_product = node.kind is Kind.CONTRACT and _LEAST_STEPS <= node.fold_length <= MOST_STEPS
    if is_product and min(Matrices(node, find_split(node)).sides) >= _LEAST_SIDE:
        return Multiplied(machine, node)
    plan = Summed(machine, node)
    plan.make_kernel()
    return plan
