"""Plans of sums in `exact`: products on tensor cores, and folds by single threads."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from offchain.backends.cuda.contraction import find_split
from offchain.backends.cuda.exact import finish, folds, products, residues
from offchain.backends.cuda.exact.finish import Layout
from offchain.backends.cuda.exact.products import MOST_PIECES, Tile, choose_tile
from offchain.backends.cuda.exact.residues import MOST_STEPS, PIECE
from offchain.backends.cuda.kernel import Kernel
from offchain.backends.cuda.machine import Machine, Tensor
from offchain.backends.cuda.single import Flats, Single
from offchain.backends.port import Plan
from offchain.programs.graph import Kind, Node

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
        tile: what each block computes.
    """

    def __init__(self, machine: Machine, node: Node, tile: Tile) -> None:
        self._machine, self._node, self._tile = machine, node, tile
        self._layout = Layout(node, find_split(node))

    @cached_property
    def _loaded(self) -> list[Any]:
        cuts = self._layout.cuts
        kernels = [
            *(residues.make_kernel(cut, self._layout.read_factor(a)) for a, cut in enumerate(cuts)),
            products.make_kernel(*cuts, self._tile),
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
        addresses = [0 if flat is None else flat.address for flat in flats]
        for first, batches in self._list_parts():
            self._run_part(out, addresses, first, batches)
        return out

    def _run_part(self, out: Tensor, addresses: Sequence[int], first: int, batches: int) -> None:
        machine, cuts, elements = self._machine, self._layout.cuts, 1
        cutters, (multiply, finisher) = self._loaded[:2], self._loaded[2:]
        bytes_, known = (
            [self._reserve(size) for size in sizes]
            for sizes in (
                [cut.count_bytes(batches) for cut in cuts],
                [cut.count_info_bytes(batches) for cut in cuts],
            )
        )
        for cut, cutter, to, info, source in zip(
            cuts, cutters, bytes_, known, addresses[1:], strict=True
        ):
            parameters = [to.address, info.address, source, first, batches]
            machine.launch(cutter, batches * cut.rows, parameters)
            elements *= cut.rows
        elements *= batches
        found = self._reserve(len(cuts[0].moduli) * elements)
        blocks = products.count_blocks(*cuts, batches, self._tile)
        pieces = cuts[0].padded // PIECE
        for start in range(0, pieces, MOST_PIECES):
            count = min(MOST_PIECES, pieces - start)
            places = [found.address, *(tensor.address for tensor in bytes_)]
            machine.launch(multiply, blocks, [*places, count, start, int(start > 0), batches])
        places = [out.address, *addresses, found.address, *(info.address for info in known)]
        blocks = -(-elements // Kernel("", 0, ()).threads)
        machine.launch(finisher, blocks, [*places, first, elements])

    def _reserve(self, size: int) -> Tensor:
        return Tensor(self._machine, (size,), np.uint8)


def plan_sum(machine: Machine, node: Node) -> Plan:
    """Return the plan of a sum with a positive number of elements and of fold steps.

    Raises:
        ProgramError: it has too many terms.
    """
    if node.kind is Kind.CONTRACT and _LEAST_STEPS <= node.fold_length <= MOST_STEPS:
        layout = Layout(node, find_split(node))
        if min(cut.rows for cut in layout.cuts) >= _LEAST_SIDE:
            return Multiplied(machine, node, choose_tile(machine.capability))
    plan = Summed(machine, node)
    plan.make_kernel()
    return plan
