"""The plans of chains: products that are added up in registers, tile by tile of the output."""

from collections.abc import Sequence
from math import prod

from moot.offchain.arithmetic.functions import DType
from moot.offchain.backends.cpu.called_plans import CalledGroup
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
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import Block, Call, Place, Word
from moot.offchain.planning.accesses import Sizes, Strided, project
from moot.offchain.planning.chains import Chain, find_factors
from moot.offchain.programs.graph import Node, Operand, Origin, immediate

_GRAIN = 1 << 20
"""Multiply-adds that make another thread worth its start."""

_GROUP_BYTES = 1 << 18
"""Bytes of the factors of rows that are computed together: they stay in the second-level cache."""

_NOTHING = immediate(DType.FLOAT32, 0x8000_0000)
"""What a first product is added to, which leaves it as it is: -0."""


class ChainedProducts(CalledGroup):
    """The plan of a chain.

    Attributes:
        chain: the operators.
        operands: the accesses to what it is added to, and to the operands of each product.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
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
        readers = [read.reader for read in self._reads]
        super().__init__(readers, [(chain.output.shape, NUMPY_TYPES[chain.output.dtype])])
        self.operands = tuple(reader.operand for reader in readers)
        rows = max(1, _GROUP_BYTES // (self._steps * FLOAT_BYTES * ROWS)) * ROWS
        self._group = min(rows, self._rows)
        self._scratch_bytes = -(-self._group // ROWS) * panel_bytes(self._steps)

    @property
    def _groups(self) -> int:
        return -(-self._rows // self._group)

    @property
    def _grain(self) -> int:
        return -(-_GRAIN // (self._group * self._columns * self._steps))

    def list_own_calls(
        self, places: Sequence[Word], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the call that computes the last sum."""
        start, *others = places
        words: list[Word] = []
        for number, link in enumerate(self._links):
            own: list[Word] = [*link]
            first = number * len(_ADDRESSES)
            for place, address in zip(_ADDRESSES, others[first:], strict=False):
                own[place] = skip(address, link[place])
            words += own
        begin = skip(start, self._reads[0].offset), *self._reads[0].steps
        sizes = self._columns, self._group, 0, self._groups, self._rows
        panels, size = reserve_scratch(memory, self._scratch_bytes)
        factors = Block(tuple(words)), len(self._links), self._steps, panels
        one = call(accumulate, (*factors, *begin, targets[0], *sizes), memory)
        scratch = one.words.index(panels), size
        return [share_out(one, self._grain, at=-3, scratch=scratch)]


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
