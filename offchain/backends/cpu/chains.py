"""The plans of chains: products that are added up in registers, tile by tile of the output."""

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cpu.calls import call, reserve_scratch, share_out, skip
from moot.offchain.backends.cpu.grouped import GroupedReader
from moot.offchain.backends.cpu.kernels.contraction.chains import (
    LINK_WORDS,
    ROWS,
    accumulate,
    panel_bytes,
)
from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES
from moot.offchain.backends.cpu.views import Reader
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.scratch import get_scratch
from moot.offchain.native.sequences import Block, Call, Place, Word
from moot.offchain.native.threads import share
from moot.offchain.planning.accesses import Sizes, Strided, project
from moot.offchain.planning.chains import Chain, find_factors
from moot.offchain.programs.graph import Node, Operand, Origin, immediate

_GRAIN = 1 << 20
"""Multiply-adds that make another thread worth its start."""

_GROUP_BYTES = 1 << 18
"""Bytes of the factors of rows that are computed together: they stay in the second-level cache."""

_NOTHING = immediate(DType.FLOAT32, 0x8000_0000)
"""What a first product is added to, which leaves it as it is: -0."""


class ChainedProducts:
    """The plan of a chain.

    Attributes:
        chain: the operators.
        operands: the accesses to what it is added to, and to the operands of each product.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self._shape, self._dtype = chain.output.shape, NUMPY_TYPES[chain.output.dtype]
        factors = find_factors(chain.products[0])
        assert factors is not None
        self._rows, self._columns = (
            prod(chain.products[0].shape[v] for v in group)
            for group in (factors.rows, factors.columns)
        )
        start = _NOTHING if chain.start is None else chain.start
        self._reads = [_read_start(start, chain.start_shape, self._rows)]
        self._links = []
        for node in chain.products:
            own, words = _read_product(node)
            self._reads += own
            self._links.append(words)
        self._steps = sum(node.fold_length for node in chain.products)
        self.operands = tuple(read.reader.operand for read in self._reads)
        rows = max(1, _GROUP_BYTES // (self._steps * FLOAT_BYTES * ROWS)) * ROWS
        self._group = min(rows, self._rows)
        self._scratch_bytes = -(-self._group // ROWS) * panel_bytes(self._steps)

    @property
    def _groups(self) -> int:
        return -(-self._rows // self._group)

    @cached_property
    def _template(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """The words of all products, with offsets in place of addresses."""
        return np.array(self._links, np.int64)

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the last sum, given the tensors of the operands."""
        held = [read.reader.buffer(flat) for read, flat in zip(self._reads, flats, strict=True)]
        start, *found = map(buffers.get_address, held)
        links = self._template.copy()
        links[:, _ADDRESSES] += np.array(found, np.int64).reshape(-1, len(_ADDRESSES))
        out = buffers.empty(self._shape, self._dtype)
        places = buffers.get_address(links), len(links), self._steps
        begin = start + self._reads[0].offset, *self._reads[0].steps
        sizes = buffers.get_address(out), self._columns, self._group

        def work(first: int, stop: int) -> None:
            panels = get_scratch("panels", self._scratch_bytes // FLOAT_BYTES)
            address = buffers.get_address(panels)
            accumulate(*places, address, *begin, *sizes, first, stop, self._rows)

        share(work, self._groups, self._grain)
        return [out]

    @property
    def _grain(self) -> int:
        return -(-_GRAIN // (self._group * self._columns * self._steps))

    @property
    def is_called(self) -> bool:
        """Whether a few calls bring its operands into place."""
        return all(read.reader.is_short for read in self._reads)

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the last sum."""
        pairs = zip(self._reads, sources, strict=True)
        found = [read.reader.list_calls(source, memory) for read, source in pairs]
        (start, _), *others = found
        words: list[Word] = []
        for number, link in enumerate(self._links):
            own: list[Word] = [*link]
            first = number * len(_ADDRESSES)
            for place, (address, _) in zip(_ADDRESSES, others[first:], strict=False):
                own[place] = skip(address, link[place])
            words += own
        begin = skip(start, self._reads[0].offset), *self._reads[0].steps
        sizes = self._columns, self._group, 0, self._groups, self._rows
        panels, size = reserve_scratch(memory, self._scratch_bytes)
        factors = Block(tuple(words)), len(self._links), self._steps, panels
        one = call(accumulate, (*factors, *begin, targets[0], *sizes), memory)
        scratch = one.words.index(panels), size
        return [
            *(copy for _, copies in found for copy in copies),
            share_out(one, self._grain, at=-3, scratch=scratch),
        ]


_ADDRESSES = (6, 0, 3)
"""Which of a product's words are the addresses of what it starts from, and of its two factors."""


def _read_start(start: Operand, shape: Sizes, rows: int) -> GroupedReader:
    """Return how to read what a sum starts from, on the variables of its shape."""
    variables = range(len(shape))
    cuts = (cut for cut in range(len(shape) + 1) if prod(shape[:cut]) == rows)
    cut = next(cuts, None)
    if cut is not None:
        return GroupedReader.of(start, shape, (variables[:cut], variables[cut:]), (0, 1))
    if start.origin is Origin.IMMEDIATE:
        return GroupedReader(Reader(start, shape), Strided(0, (0, 0)))
    return GroupedReader(Reader(start, shape, variables), Strided(0, (prod(shape) // rows, 1)))


def _read_product(node: Node) -> tuple[list[GroupedReader], list[int]]:
    """Return how to read a product's operands, and its words with offsets for addresses."""
    factors = find_factors(node)
    assert factors is not None
    rank, sizes = len(node.shape), node.shape + node.fold_shape
    fold = range(rank, len(sizes))
    init, *pair = node.operands
    left, right = pair[::-1] if factors.is_swapped else pair
    a = GroupedReader.of(left, sizes, (factors.rows, fold))
    b = GroupedReader.of(right, sizes, (fold, factors.columns), (1,))
    first = project(init, range(rank))  # at the first step of the fold
    start = GroupedReader.of(first, node.shape, (factors.rows, factors.columns), (0, 1))
    words = [a.offset, *a.steps, b.offset, b.steps[0], node.fold_length, start.offset, *start.steps]
    assert len(words) == LINK_WORDS
    return [start, a, b], words
