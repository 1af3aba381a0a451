"""Kernels of a grid of threads, as data: phases between barriers, each written as LLVM IR.

All threads of a block run a phase before any of them runs the next one. What a thread keeps from
one phase to the next is in its cells, what it gives to others of its block in shared memory. A
thread sees its block's number and its own, and nothing of the others' order. Addresses are 64-bit
integers, and all parameters are, too.

Between phases, the 32 threads of each warp may multiply matrices together, on tensor cores:
`Products`. Sums of products of bytes are 32-bit integers there, so that no order of them makes a
difference. Products of bfloat16 are added in blocks (`arithmetic/tensor/blocks.py`), as the kernel
says; on a device whose blocks are others the kernel computes something else. Warp groups of 128
threads may besides begin products that read shared memory: `Orders` (`warpgroups.py`). These see
what was copied there as the asynchronous proxy does: at once where it was copied in bulk, and
behind `publish_copies` where threads did it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llvmlite import ir

from moot.offchain.arithmetic.tensor.blocks import Block
from moot.offchain.backends.cuda.warpgroups import GROUP, PATTERN_BYTES, Multiply, Orders
from moot.offchain.native.vectors import FLOAT, INDEX, WORD

Locate = Callable[[ir.Value, ir.Value], ir.Value]
"""(the number of a matrix, the number of its row) -> where the row is in shared memory."""


class Copy(NamedTuple):
    """A copy of 16 bytes from device memory, which nobody stores to, to shared memory.

    Attributes:
        address: from where, a multiple of 16.
        offset: where to, likewise.
        is_there: whether there are such bytes, or zeros are stored; None for yes.
    """

    address: ir.Value
    offset: ir.Value
    is_there: ir.Value | None = None


COPIED_BYTES = 16
"""What a thread copies at once, and what copies in bulk are multiples of."""

BARRIER_BYTES = 8


class Bulk(NamedTuple):
    """A copy of many bytes from device memory, which nobody stores to, to shared memory.

    Attributes:
        address: from where, a multiple of 16.
        offset: where to, likewise.
        size: how many bytes, likewise.
    """

    address: ir.Value
    offset: ir.Value
    size: int


class Context(ABC):
    """What a phase is written in: one thread's numbers, and its ways to memory.

    Attributes:
        builder: where to write.
        parameters: the kernel's parameters.
        block: the number of the thread's block.
        thread: the thread's number in its block.
        turn: the number of the loop's turn, 0 outside of loops.
    """

    builder: ir.IRBuilder
    parameters: Sequence[ir.Value]
    block: ir.Value
    thread: ir.Value
    turn: ir.Value

    @abstractmethod
    def load(self, kind: ir.Type, address: ir.Value, *, is_given: bool = False) -> ir.Value:
        """Load a value from device memory; its address is a multiple of its elements' size.

        What is given is stored by nobody while the kernel runs, so that loads of it may be early.
        """

    @abstractmethod
    def store(self, value: ir.Value, address: ir.Value) -> None:
        """Store a value to device memory, likewise."""

    @abstractmethod
    def load_shared(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        """Load a value from the block's shared memory, so many bytes behind its start."""

    @abstractmethod
    def store_shared(self, value: ir.Value, offset: ir.Value) -> None:
        """Store a value to the block's shared memory."""

    def load_matrices(self, count: int, locate: Locate, *, is_turned: bool) -> list[ir.Value]:
        """Load matrices of 8 by 8 elements of 16 bits from shared memory, all threads of a warp.

        In the thread of number t of its warp, with g = t // 4 and r = t % 4, a cell has the two
        elements from 2 r on of row g; if matrices are turned, those of column g in rows 2 r and
        2 r + 1.

        Args:
            count: how many, 2 or 4.
            locate: returns where a row of a matrix begins, as `load_shared` has it, given the
                numbers of both.
            is_turned: whether each is turned.

        Returns:
            A cell for each matrix.
        """
        builder, lane = self.builder, self.builder.urem(self.thread, word(WARP))
        group, place = builder.udiv(lane, word(4)), builder.urem(lane, word(4))
        double, found = builder.mul(place, word(2)), []
        for number in range(count):
            if is_turned:
                rows = double, builder.add(double, word(1))
                offset = builder.mul(group, word(2))
                places = [builder.add(locate(word(number), row), offset) for row in rows]
                low, high = (self.load_shared(ir.IntType(16), at) for at in places)
                upper = builder.shl(builder.zext(high, INDEX), INDEX(16))
                found.append(builder.or_(builder.zext(low, INDEX), upper))
            else:
                offset = builder.mul(place, word(4))
                at = builder.add(locate(word(number), group), offset)
                found.append(self.load_shared(INDEX, at))
        return found

    @abstractmethod
    def begin_copies(self, copies: Sequence[Copy], ticket: ir.Value) -> None:
        """Begin copies, a group of them, which come about at any time until they are waited for.

        Args:
            copies: as many as the kernel has in a group.
            ticket: a number below the kernel's groups; none that is waited for has the same.
        """

    @abstractmethod
    def end_copies(self, ticket: ir.Value, later: int) -> None:
        """Wait for a group that this thread began; then its other threads may see it, too.

        Args:
            ticket: the group's.
            later: how many groups were begun after it.
        """

    @abstractmethod
    def publish_copies(self) -> None:
        """Let products of warp groups see what this thread copied and has waited for.

        Behind the next barrier those of all threads see it.
        """

    @abstractmethod
    def begin_bulk(self, copies: Sequence[Bulk], barrier: ir.Value) -> None:
        """Begin copies in bulk, in one thread of the block: they come about as those of others do.

        Args:
            copies: at most as many as the kernel has at a barrier.
            barrier: the number of one of the kernel's barriers, whose phase ends with them. A
                phase begins when the one before has ended, and has one call of this.
        """

    @abstractmethod
    def end_bulk(self, barrier: ir.Value, parity: ir.Value) -> None:
        """Wait until a phase of a barrier has ended; this thread and its products see its copies.

        Args:
            barrier: the barrier's number.
            parity: 1 if the phase's number, from 0 on, is odd, otherwise 0. No other phase than
                the barrier's last one to end, or the one after that, can be told by it.
        """

    @abstractmethod
    def find_shared(self, offset: ir.Value) -> ir.Value:
        """Return the address, for descriptors, of what is so many bytes behind the start."""

    @abstractmethod
    def load_own(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        """Load a value from the thread's own memory, so many bytes behind its start."""

    @abstractmethod
    def store_own(self, value: ir.Value, offset: ir.Value) -> None:
        """Store a value to the thread's own memory, which lasts for a phase."""

    @abstractmethod
    def get_cell(self, number: int, kind: ir.Type = FLOAT) -> ir.Value:
        """Return a value of 32 bits that this thread has set."""

    @abstractmethod
    def set_cell(self, number: int, value: ir.Value) -> None:
        """Keep a value of 32 bits for later phases."""


Phase = Callable[[Context], None]
"""Writes what one thread does between two barriers."""

WARP = 32
"""Threads of a warp."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A product of matrices that a warp adds to another one: multiply and accumulate.

    Factors are signed bytes that are added up as 32-bit integers, or bfloat16 whose products a
    chain of blocks adds to binary32. A cell has four bytes of a factor, or one element of the sum.
    In the thread of number t of its warp, with g = t // 4 and r = t % 4, these are, of cell number
    j of each matrix:

        the first factor    row g + 8 (j % 2), from byte 4 r + 16 (j // 2) of the row on
        the second factor   column g, from byte 4 r + 16 j of the column on
        the sum             row g + 8 (j // 2), column 2 r + j % 2

    Attributes:
        rows: rows of the first factor.
        columns: columns of the second factor.
        depth: what both share.
        block: how products of bfloat16 are added up; None if the factors are bytes.
    """

    rows: int
    columns: int
    depth: int
    block: Block | None = None

    @property
    def width(self) -> int:
        """The bytes of an element of a factor."""
        return 1 if self.block is None else 2

    @property
    def cells(self) -> tuple[int, int, int]:
        """The cells of each thread for the first factor, the second factor and the sum."""
        halves, parts = self.rows // 8, self.depth * self.width // 16
        return halves * parts, parts, 2 * halves

    @property
    def name(self) -> str:
        """The shape as PTX has it."""
        return f"m{self.rows}n{self.columns}k{self.depth}"


INSTRUCTIONS = {(7, 5): Instruction(8, 8, 16), (8, 0): Instruction(16, 8, 32)}
"""Those of bytes, by the least compute capability that has them."""


def make_instruction(block: Block) -> Instruction:
    """Return the product of bfloat16 that adds up in such blocks."""
    return Instruction(16, 8, 16, block)


@dataclass(frozen=True, slots=True)
class Products:
    """Products that each warp makes after a phase, from its threads' cells; no barrier between.

    Attributes:
        instruction: the instruction.
        places: for each product the first cells of both factors and of the sum, which it adds to.
    """

    instruction: Instruction
    places: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Phases that are repeated, a barrier after each.

    Attributes:
        count: the index of the parameter that is the number of turns, at least 1.
        phases: the phases, and products or orders after some.
    """

    count: int
    phases: tuple[Phase | Products | Orders, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel.

    Attributes:
        name: its name.
        parameters: the number of its parameters.
        steps: phases, orders and loops of phases, a barrier after each but the last.
        threads: the threads of a block.
        shared_bytes: the shared memory of a block.
        cells: the values of 32 bits that a thread keeps between phases.
        own_bytes: a thread's own memory.
        groups: the groups of copies that a thread may wait for at once.
        copies: the copies of a group.
        barriers: barriers of copies in bulk; they begin in phase 0.
        bulks: the most copies of a phase of one.
    """

    name: str
    parameters: int
    steps: tuple[Phase | Orders | Loop, ...]
    threads: int = 256
    shared_bytes: int = 0
    cells: int = 0
    own_bytes: int = 0
    groups: int = 0
    copies: int = 0
    barriers: int = 0
    bulks: int = 0

    def __post_init__(self) -> None:
        """Refuse broken warp groups, sums of two kinds, and barriers that begin anywhere."""
        assert not self.has_groups or not self.threads % GROUP
        assert len({each.block is None for each in self.group_products}) <= 1
        assert not self.barriers or not self.shared_bytes % BARRIER_BYTES

    @property
    def phases(self) -> list[Phase | Products | Orders]:
        """All phases, products and orders, in order."""
        nested = [step.phases if isinstance(step, Loop) else (step,) for step in self.steps]
        return [phase for phases in nested for phase in phases]

    @property
    def has_blocks(self) -> bool:
        """Whether it multiplies bfloat16 on tensor cores."""
        products = [phase for phase in self.phases if isinstance(phase, Products)]
        return any(each.instruction.block is not None for each in products)

    @property
    def has_groups(self) -> bool:
        """Whether its warp groups multiply."""
        return any(isinstance(phase, Orders) for phase in self.phases)

    @property
    def group_products(self) -> list[Multiply]:
        """The products of warp groups."""
        orders = [
            each for phase in self.phases if isinstance(phase, Orders) for each in phase.orders
        ]
        return [each for each in orders if isinstance(each, Multiply)]

    @property
    def sums(self) -> list[int]:
        """The cells to which products of warp groups add."""
        return sorted(
            {each.sums + cell for each in self.group_products for cell in range(each.cells)}
        )

    @property
    def block_bytes(self) -> int:
        """The shared memory of a block, with the barriers behind the rest."""
        return self.shared_bytes + self.barriers * BARRIER_BYTES

    @property
    def alignment(self) -> int:
        """What the start of shared memory is a multiple of."""
        return PATTERN_BYTES if self.has_groups else COPIED_BYTES


def is_apart(step: Phase | Products | Orders, following: Phase | Products | Orders) -> bool:
    """Whether a barrier is between two steps of a loop that follow each other."""
    return not isinstance(following, Products | Orders) and not isinstance(step, Orders)


def word(number: int) -> ir.Constant:
    """Return a 64-bit constant."""
    return ir.Constant(WORD, number)
