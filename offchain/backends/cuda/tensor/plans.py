"""Plans of products of bfloat16 in an arithmetic of tensor cores."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.single import Flats, Reserve, launch_all
from moot.offchain.backends.cuda.tensor import groups, laying, products, rows
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.outputs import Output
from moot.offchain.backends.cuda.tensor.tiles import AnyTile, Tile, choose_tile
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
        self, machine: Machine, node: Node, block: Block, tile: AnyTile | None = None
    ) -> None:
        self._machine, self._node, self._block = machine, node, block
        self._matrices = matrices = Matrices(node, find_split(node))
        self.tile = tile or choose_tile(
            matrices.sides,
            node.fold_length,
            matrices.batches,
            machine.multiprocessors,
            has_groups=has_groups(machine.capability, block),
        )
        self._seen = [rows.find_rows(matrices, axis) for axis in (0, 1)]

    @cached_property
    def _parts(self) -> list[laying.Parts | None]:
        """For each factor the parts that it is copied to, None where it is read or laid in rows."""
        if isinstance(self.tile, Tile):
            return [None, None]
        return [
            laying.part(self._matrices, axis, side) if seen is None else None
            for axis, (seen, side) in enumerate(zip(self._seen, self.tile.sides, strict=True))
        ]

    @cached_property
    def _copies(self) -> list[Any]:
        """For each factor what copies its rows, None where they are read in their tensor."""
        load, matrices = self._machine.load, self._matrices
        return [
            load(laying.make_kernel(matrices, axis, parts)) if seen is None else None
            for axis, (seen, parts) in enumerate(zip(self._seen, self._parts, strict=True))
        ]

    @cached_property
    def _loaded(self) -> Any:
        """The kernel, by the instruction that the tile is for."""
        matrices, block, tile = self._matrices, self._block, self.tile
        if isinstance(tile, Tile):
            a, b = (seen or rows.lay_out(matrices, axis) for axis, seen in enumerate(self._seen))
            return self._machine.load(products.make_kernel(matrices, (a, b), tile, block))
        first, second = (seen or parts for seen, parts in zip(self._seen, self._parts, strict=True))
        assert first is not None
        assert second is not None
        output = Output(matrices, tile.sides)
        return self._machine.load(groups.make_kernel(output, (first, second), tile, block))

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
        for axis, (copy, parts) in enumerate(zip(self._copies, self._parts, strict=True)):
            address = sources[1 + axis]
            if copy is not None:
                size = rows.count_bytes(matrices, axis) if parts is None else parts.size
                target = reserve(size)
                blocks = laying.count_blocks(matrices, axis, parts)
                found.append(Launch(copy, blocks, [target, address]))
                address = target
            addresses.append(address)
        turns = -(-self._node.fold_length // self.tile.depth)
        blocks = Output(matrices, self.tile.sides).count_blocks(matrices.batches)
        return [*found, Launch(self._loaded, blocks, [targets[0], *addresses, turns])]
