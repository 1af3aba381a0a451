"""Plans of products on tensor cores: of bfloat16 in their arithmetic, of bytes by warp groups."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.factors import find_rows
from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.single import Flats, Reserve, launch_all
from moot.offchain.backends.cuda.tensor import groups, laying, products, rows
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.outputs import Output
from moot.offchain.backends.cuda.tensor.tiles import (
    BYTE_CYCLES,
    AnyTile,
    Tile,
    choose_tile,
    find_fastest,
)
from moot.offchain.backends.cuda.tiling import find_split
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.programs.graph import Kind, Node

_LEAST_LINES, _LEAST_STEPS = 64, 32
"""Rows or columns, and steps, of bytes that are worth a warp group."""


class Chained:
    """The plan of a contraction whose elements are chains of blocks, or sums of bytes.

    Args:
        machine: what computes it, and has such blocks, or warp groups that multiply bytes.
        node: the contraction, with a positive number of elements and of fold steps.
        block: how products of bfloat16 are added up; None if the factors are bytes.
        tile: what each block of threads computes; None for what fits the machine.

    Attributes:
        matrices: the products that the contraction is.
        tile: what each block of threads computes.
        seen: where the rows of both factors are, None where they have to be copied.
    """

    is_launched = True

    def __init__(
        self, machine: Machine, node: Node, block: Block | None, tile: AnyTile | None = None
    ) -> None:
        self._machine, self._node, self._block = machine, node, block
        self.matrices = matrices = Matrices(node, find_split(node))
        products, steps = [(matrices.sides, matrices.batches)], node.fold_length
        if block is None:
            self.tile: AnyTile = tile or find_fastest(
                BYTE_CYCLES, products, steps, machine.multiprocessors
            )
        else:
            self.tile = tile or choose_tile(
                products,
                steps,
                machine.multiprocessors,
                has_groups=has_groups(machine.capability, block),
            )
        self.seen = find_rows(matrices, 0), find_rows(matrices, 1)

    @cached_property
    def _parts(self) -> list[laying.Parts | None]:
        """For each factor the parts that it is copied to, None where it is read or laid in rows."""
        if isinstance(self.tile, Tile):
            return [None, None]
        return [
            laying.part(self.matrices, axis, side) if seen is None else None
            for axis, (seen, side) in enumerate(zip(self.seen, self.tile.sides, strict=True))
        ]

    @cached_property
    def _copies(self) -> list[Any]:
        """For each factor what copies its rows, None where they are read in their tensor."""
        load, matrices = self._machine.load, self.matrices
        return [
            load(laying.make_kernel(matrices, axis, parts)) if seen is None else None
            for axis, (seen, parts) in enumerate(zip(self.seen, self._parts, strict=True))
        ]

    @cached_property
    def _loaded(self) -> Any:
        return self._machine.load(self.make_kernel())

    def make_kernel(self) -> Kernel:
        """Return the kernel, by the instruction that the tile is for."""
        matrices, block, tile = self.matrices, self._block, self.tile
        if isinstance(tile, Tile):
            assert block is not None
            a, b = (seen or rows.lay_out(matrices, axis) for axis, seen in enumerate(self.seen))
            return products.make_kernel(matrices, (a, b), tile, block)
        first, second = (seen or parts for seen, parts in zip(self.seen, self._parts, strict=True))
        assert first is not None
        assert second is not None
        output = Output(matrices, tile.sides)
        return groups.make_kernel(output, (first, second), tile, block)

    @property
    def blocks(self) -> int:
        """The blocks of threads that the kernel has."""
        return Output(self.matrices, self.tile.sides).count_blocks(self.matrices.batches)

    @property
    def turns(self) -> int:
        """The parts of steps that it goes through."""
        return -(-self._node.fold_length // self.tile.depth)

    def run(self, flats: Flats, _step: int) -> Tensor:
        """Return the output."""
        out = Tensor(self._machine, self._node.shape, NUMPY_TYPES[self._node.dtype])
        launch_all(self._machine, self, flats, [out])
        return out

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], reserve: Reserve
    ) -> list[Launch]:
        """Return the launches: copies of factors, and the products."""
        matrices, found, addresses = self.matrices, list[Launch](), list(sources[:1])
        for axis, (copy, parts) in enumerate(zip(self._copies, self._parts, strict=True)):
            address = sources[1 + axis]
            if copy is not None:
                size = rows.count_bytes(matrices, axis) if parts is None else parts.size
                target = reserve(size)
                blocks = laying.count_blocks(matrices, axis, parts)
                found.append(Launch(copy, blocks, [target, address]))
                address = target
            addresses.append(address)
        return [*found, Launch(self._loaded, self.blocks, [targets[0], *addresses, self.turns])]


def multiplies_bytes(machine: Machine, node: Node) -> bool:
    """Whether warp groups of a machine may multiply a contraction's bytes, and are worth it."""
    types = [operand.dtype for operand in node.operands]
    is_of_bytes = node.kind is Kind.CONTRACT and types == [DType.INT32, DType.INT8, DType.INT8]
    if not is_of_bytes or not has_groups(machine.capability, None):
        return False
    lines = max(Matrices(node, find_split(node)).sides)
    return lines >= _LEAST_LINES and node.fold_length >= _LEAST_STEPS
