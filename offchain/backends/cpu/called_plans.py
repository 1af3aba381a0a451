"""The base of plans that say their calls of machine code once: alone and in a sequence they are it.

What differs is where the calls find their operands. Alone, a plan's readers bring them into place
before its calls are made; in a sequence, by calls that come before its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy.typing as npt

from moot.offchain.arithmetic.environment import report_change
from moot.offchain.backends.cpu.calls import SharedSequences
from moot.offchain.commitments.tensors import Array
from moot.offchain.native import buffers
from moot.offchain.native.memory_layout import Memory
from moot.offchain.native.sequences import UNSUITABLE, Call, Place, Word
from moot.offchain.planning.accesses import Sizes


class Source(Protocol):
    """A reader of an operand: what calls read is its buffer."""

    @property
    def is_short(self) -> bool:
        """Whether a few calls of machine code give the buffer."""

    def buffer(self, flat: Array | None) -> Array:
        """Return the buffer; `flat` is the operand's tensor, None for a constant."""

    def list_calls(self, source: Place | None, memory: Memory) -> tuple[Word, list[Call]]:
        """Return where the buffer will be, and the calls that fill it."""


class _Called(ABC):
    """The plan of what calls of machine code compute.

    Args:
        readers: the readers of its operands.
        outputs: the shapes and types of what it computes.
    """

    def __init__(
        self, readers: Sequence[Source], outputs: Sequence[tuple[Sizes, npt.DTypeLike]]
    ) -> None:
        self._sources = readers
        self._makers = [buffers.plan_empty(*output) for output in outputs]
        self._alone = SharedSequences(len(readers) + len(outputs))

    @abstractmethod
    def list_own_calls(
        self, places: Sequence[Word], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return the calls that compute the outputs, on buffers.

        Args:
            places: where the readers' buffers will be.
            targets: where the outputs will be.
            memory: what the calls may use besides.
        """

    @property
    def is_called(self) -> bool:
        """Whether a few calls bring its operands into place."""
        return all(reader.is_short for reader in self._sources)

    def list_calls(
        self, sources: Sequence[Place | None], targets: Sequence[Place], memory: Memory
    ) -> list[Call]:
        """Return all calls of a sequence, given where the operands' tensors will be."""
        found = [r.list_calls(s, memory) for r, s in zip(self._sources, sources, strict=True)]
        copies = [copy for _, own in found for copy in own]
        return [*copies, *self.list_own_calls([place for place, _ in found], targets, memory)]

    def _perform(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the outputs, given the tensors of the operands, None for constants."""
        held = [r.buffer(flat) for r, flat in zip(self._sources, flats, strict=True)]
        outputs = [make() for make in self._makers]
        sequence = self._alone.find(self._list_calls_alone)
        if sequence.perform([None, *held, *outputs]) == UNSUITABLE:
            raise report_change()
        return outputs

    def _list_calls_alone(self, memory: Memory) -> list[Call]:
        count = len(self._sources)
        places = [Place(1 + number) for number in range(count + len(self._makers))]
        return self.list_own_calls(places[:count], places[count:], memory)


class CalledOperator(_Called):
    """The plan of one operator."""

    def run(self, flats: Sequence[Array | None], _step: int) -> Array:
        """Return the output, given the tensors of the operands (None for constants)."""
        (output,) = self._perform(flats)
        return output


class CalledGroup(_Called):
    """The plan of several operators."""

    def run(self, flats: Sequence[Array | None]) -> list[Array]:
        """Return the wanted outputs, given the tensors of the operands (None for constants)."""
        return self._perform(flats)
