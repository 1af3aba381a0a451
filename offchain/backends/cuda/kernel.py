"""Kernels of a grid of threads, as data: phases between barriers, each written as LLVM IR.

All threads of a block run a phase before any of them runs the next one. What a thread keeps from
one phase to the next is in its cells, what it gives to others of its block in shared memory. A
thread sees its block's number and its own, and nothing of the others' order. Addresses are 64-bit
integers, and all parameters are, too.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from offchain.native.vectors import WORD


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
    def load(self, kind: ir.Type, address: ir.Value) -> ir.Value:
        """Load a value from device memory; its address is a multiple of its elements' size."""

    @abstractmethod
    def store(self, value: ir.Value, address: ir.Value) -> None:
        """Store a value to device memory, likewise."""

    @abstractmethod
    def load_shared(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        """Load a value from the block's shared memory, so many bytes behind its start."""

    @abstractmethod
    def store_shared(self, value: ir.Value, offset: ir.Value) -> None:
        """Store a value to the block's shared memory."""

    @abstractmethod
    def get_cell(self, number: int) -> ir.Value:
        """Return a float that this thread has set."""

    @abstractmethod
    def set_cell(self, number: int, value: ir.Value) -> None:
        """Keep a float for later phases."""


Phase = Callable[[Context], None]
"""Writes what one thread does between two barriers."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Phases that are repeated, a barrier after each.

    Attributes:
        count: the index of the parameter that is the number of turns, at least 1.
        phases: the phases.
    """

    count: int
    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A kernel.

    Attributes:
        name: its name.
        parameters: the number of its parameters.
        steps: phases and loops of phases, a barrier after each but the last.
        threads: the threads of a block.
        shared_bytes: the shared memory of a block.
        cells: the floats that a thread keeps between phases.
    """

    name: str
    parameters: int
    steps: tuple[Phase | Loop, ...]
    threads: int = 256
    shared_bytes: int = 0
    cells: int = 0

    @property
    def phases(self) -> list[Phase]:
        """All phases, in order."""
        nested = [step.phases if isinstance(step, Loop) else (step,) for step in self.steps]
        return [phase for phases in nested for phase in phases]


def word(number: int) -> ir.Constant:
    """Return a 64-bit constant."""
    return ir.Constant(WORD, number)
