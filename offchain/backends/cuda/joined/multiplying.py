"""What multiplies in the kernel of rows between products, whichever way products are made."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from llvmlite import ir

from moot.offchain.backends.cuda.copies import Copies
from moot.offchain.backends.cuda.joined.form import STAGES, Area, Joined
from moot.offchain.backends.cuda.kernel import Context, Phase, Products, word


class Sum(NamedTuple):
    """A sum of a thread.

    Attributes:
        cell: the cell that has it.
        row: its row in the block.
        column: its column in the part of the first product, or in the last product.
        is_there: whether the thread has such a sum, and there is such a column; None for yes.
    """

    cell: int
    row: ir.Value
    column: ir.Value
    is_there: ir.Value | None = None


class Multiplying(ABC):
    """The writer of what multiplies.

    Args:
        form: the form.
        factors: the copies of the block's rows, of a part of columns, and of one of the last
            product's steps.

    Attributes:
        cells: the values that a thread keeps.
        rest: multiplies the last product's steps behind whole parts; None if there are none.
    """

    cells: int
    rest: Phase | None = None

    def __init__(self, form: Joined, factors: Sequence[Copies]) -> None:
        self._form, self._factors = form, factors

    @abstractmethod
    def locate(
        self, context: Context, which: int, part: ir.Value
    ) -> tuple[ir.Value | None, ir.Value]:
        """Return the first column and the first step of a part; None for the first there is."""

    @abstractmethod
    def is_whole(self, context: Context) -> ir.Value | None:
        """Return whether a turn ends the sums of the first product; None if each does."""

    @abstractmethod
    def start(self, context: Context, which: int) -> None:
        """Set the sums of a product to its initial value."""

    @abstractmethod
    def take_up(self, context: Context, which: int) -> None:
        """Write what a thread does when a part is there, before it asks for the next one."""

    @abstractmethod
    def multiply(self, which: int) -> Products | Phase:
        """Return what multiplies a part after that."""

    @abstractmethod
    def list_sums(self, context: Context, which: int) -> Iterator[Sum]:
        """Yield a thread's sums of a product."""


def when(builder: ir.IRBuilder, condition: ir.Value | None) -> AbstractContextManager[Any]:
    """Return what to write in, so that it is done if a condition holds; None for always."""
    return nullcontext() if condition is None else builder.if_then(condition)


def find_part(form: Joined, context: Context, part: ir.Value) -> ir.Value:
    """Return where a part of a factor is in shared memory."""
    builder = context.builder
    stage = builder.urem(part, word(STAGES))
    behind = builder.mul(stage, word(form.part_bytes))
    return builder.add(behind, word(form.places[Area.PARTS]))


def find_element(
    form: Joined, context: Context, start: ir.Value, pitch: int, line: ir.Value, at: ir.Value
) -> ir.Value:
    """Return where an element of a factor's line is in shared memory."""
    builder = context.builder
    row = builder.add(start, builder.mul(line, word(pitch)))
    return builder.add(row, builder.mul(at, word(form.product.dtype.width)))
