"""Plans of products of bfloat16 in an arithmetic of tensor cores."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.single import Flats, Reserve, launch_all
from moot.offchain.backends.cuda.tensor import products, rows
from moot.offchain.backends.cuda.tensor.tiles import Tile, choose_tile
from moot.offchain.backends.cuda.tiling import find_split
from moot.offchain.programs.graph import Node


class Chained:
    """The plan of a contraction whose elements are chains of blocks.

    Args:
        machine: what computes it, and has such blocks.
        node: the contraction, with a positive number of elements and of fold steps.
        block: how products are added up.
        tile: what each block of threads computes; None for what fits the machine.
    """

    is_launched = True

    def __init__(
        self, machine: Machine, node: Node, block: Block, tile: Tile | None = None
    ) -> None:
        self._machine, self._node, self._block = machine, node, block
        self._matrices = Matrices(node, find_split(node))
        sides, batches = self._matrices.sides, self._matrices.batches
        self._tile = tile or choose_tile(sides, batches, machine.multiprocessors)
        self._seen = [rows.find_rows(self._matrices, axis) for axis in (0, 1)]

    @cached_property
    def _copies(self) -> list[Any]:
        """For each factor what copies its rows, None where they are read in their tensor."""
        load, matrices = self._machine.load, self._matrices
        return [
            load(rows.make_kernel(matrices, axis)) if seen is None else None
            for axis, seen in enumerate(self._seen)
        ]

    @cached_property
    def _loaded(self) -> Any:
        a, b = (seen or rows.lay_out(self._matrices, axis) for axis, seen in enumerate(self._seen))
        kernel = products.make_kernel(self._matrices, (a, b), self._tile, self._block)
        return self._machine.load(kernel)

    def run(self, flats: Flats, _step: int) -> Tensor:
        """Return the output."""
        out = Tensor(self._machine, self._node.shape, np.float32)
        launch_all(self._machine, self, flats, [out])
        return out

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], reserve: Reserve
    ) -> list[Launch]:
        """Return the launches: copies of factors, and the products."""
        matrices, found, addresses = self._matrices, list[Launch](), list(sources[:1])
        for axis, copy in enumerate(self._copies):
            address = sources[1 + axis]
            if copy is not None:
                target = reserve(rows.count_bytes(matrices, axis))
                blocks = rows.count_blocks(matrices, axis)
                found.append(Launch(copy, blocks, [target, address]))
                address = target
            addresses.append(address)
        turns = products.count_turns(matrices, self._tile)
        blocks = products.count_blocks(matrices, self._tile)
        return [*found, Launch(self._loaded, blocks, [targets[0], *addresses, turns])]
