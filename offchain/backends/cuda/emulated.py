"""A thread that is emulated: its phases as machine code of the processor.

Copies are written down when they are begun, where they soil what they will overwrite, and made when
they are waited for.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum

from llvmlite import ir

from moot.offchain.backends.cuda.kernel import (
    COPIED_BYTES,
    Bulk,
    Context,
    Copy,
    Kernel,
    Locate,
    Phase,
    word,
)
from moot.offchain.native import vectors
from moot.offchain.native.vectors import FLOAT, WORD

SOIL = 0xA5
"""What memory is full of before anybody sets it."""

OWN = ("block", "turn", "shared", "cells", "own", "copies", "barriers", "start", "stride")
"""The parameters of a phase's function, after those of the kernel."""

FAULT_BYTES = 8
"""Behind all records of copies: the fault that has come about, if any."""

_CELL_BYTES = 4
_RECORD = ("address", "offset", "is there", "state")
"""A copy that was begun: a word for each."""

_RECORD_BYTES = 8 * len(_RECORD)
_BEGUN, _MADE, _PUBLISHED = 1, 2, 3
_BARRIER = ("phase", "count")
"""A barrier's words: how many phases have ended, and the copies of the one that has not; then
each copy's address, offset and size."""

_BULK_BYTES = 24
_BASES = 5
_COPIED = ir.IntType(8 * COPIED_BYTES)


class Fault(IntEnum):
    """What ends a kernel on a device, or keeps it from ending."""

    MISALIGNED = 1
    NOT_BEGUN = 2


def find_base(kernel: Kernel) -> int:
    """Return the address of the start of shared memory, no more aligned than the kernel says."""
    return _BASES * kernel.alignment


def list_sizes(kernel: Kernel) -> tuple[int, int]:
    """Return the bytes of a block's records of copies, and of its barriers."""
    return _count_bytes(kernel) * kernel.threads + FAULT_BYTES, max(
        kernel.barriers * _count_barrier_bytes(kernel), 1
    )


def _count_bytes(kernel: Kernel) -> int:
    """Return the bytes of the records of a thread's copies."""
    return kernel.groups * kernel.copies * _RECORD_BYTES


def _count_barrier_bytes(kernel: Kernel) -> int:
    return 8 * len(_BARRIER) + kernel.bulks * _BULK_BYTES


class _OnProcessor(Context):
    """A thread on the processor."""

    def __init__(
        self,
        builder: ir.IRBuilder,
        parameters: Sequence[ir.Value],
        own: dict[str, ir.Value],
        thread: ir.Value,
        kernel: Kernel,
    ) -> None:
        self.builder, self.parameters, self.thread = builder, parameters, thread
        self.block, self.turn, self._shared = own["block"], own["turn"], own["shared"]
        self._copies_each, self._bulks = kernel.copies, kernel.bulks
        self._records_all = kernel.copies * kernel.groups
        self._barriers, self._barrier_bytes = own["barriers"], _count_barrier_bytes(kernel)
        self._base = find_base(kernel)
        self._image_bytes = [0, *[kernel.shared_bytes] * kernel.has_groups]
        self._fault = builder.add(own["copies"], word(_count_bytes(kernel) * kernel.threads))
        sizes = {
            "cells": kernel.cells * _CELL_BYTES,
            "own": kernel.own_bytes,
            "copies": _count_bytes(kernel),
        }
        self._cells, self._own, self._copies = (
            builder.add(own[name], builder.mul(thread, word(size))) for name, size in sizes.items()
        )

    def load(self, kind: ir.Type, address: ir.Value, *, is_given: bool = False) -> ir.Value:  # noqa: ARG002 - phases are loops, whose loads come in turn
        return vectors.load(self.builder, kind, address)

    def store(self, value: ir.Value, address: ir.Value) -> None:
        vectors.store(self.builder, value, address)

    def load_shared(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        return vectors.load(self.builder, kind, self.builder.add(self._shared, offset))

    def store_shared(self, value: ir.Value, offset: ir.Value) -> None:
        vectors.store(self.builder, value, self.builder.add(self._shared, offset))

    def _require_aligned(self, *places: ir.Value) -> None:
        """Report an address or an offset that is no multiple of 16."""
        builder = self.builder
        for place in places:
            behind = builder.and_(place, word(COPIED_BYTES - 1))
            with builder.if_then(builder.icmp_unsigned("!=", behind, word(0))):
                vectors.store(builder, word(Fault.MISALIGNED), self._fault)

    def load_matrices(self, count: int, locate: Locate, *, is_turned: bool) -> list[ir.Value]:
        """Load matrices as it is defined, whose rows have to begin where vectors may."""

        def locate_aligned(matrix: ir.Value, row: ir.Value) -> ir.Value:
            place = locate(matrix, row)
            self._require_aligned(place)
            return place

        return super().load_matrices(count, locate_aligned, is_turned=is_turned)

    def _list_records(self, ticket: ir.Value) -> list[ir.Value]:
        """Return the addresses of the records of a group of copies."""
        builder = self.builder
        group = builder.mul(ticket, word(self._copies_each * _RECORD_BYTES))
        first = builder.add(self._copies, group)
        return [builder.add(first, word(n * _RECORD_BYTES)) for n in range(self._copies_each)]

    def _store_images(self, value: ir.Value, offset: ir.Value) -> None:
        """Store a value as threads see it, and as the asynchronous proxy does."""
        for image in self._image_bytes:
            self.store_shared(value, self.builder.add(offset, word(image)))

    def begin_copies(self, copies: Sequence[Copy], ticket: ir.Value) -> None:
        """Write down what is to be copied, and soil the place where nobody may look any more."""
        builder = self.builder
        for record, copy in zip(self._list_records(ticket), copies, strict=True):
            self._require_aligned(copy.address, copy.offset)
            is_there = word(1) if copy.is_there is None else builder.zext(copy.is_there, WORD)
            words = copy.address, copy.offset, is_there, word(_BEGUN)
            for place, value in enumerate(words):
                vectors.store(builder, value, record, 8 * place)
            self._store_images(_make_soil(), copy.offset)

    def end_copies(self, ticket: ir.Value, later: int) -> None:  # noqa: ARG002 - groups have tickets
        """Copy what was written down, if anything was."""
        builder = self.builder
        for record in self._list_records(ticket):
            address, offset, there, state = self._read_record(record)
            with builder.if_then(builder.icmp_unsigned("==", state, word(_BEGUN))):
                value = vectors.load(builder, _COPIED, address)
                is_there = builder.icmp_unsigned("!=", there, word(0))
                self.store_shared(builder.select(is_there, value, _COPIED(0)), offset)
                vectors.store(builder, word(_MADE), record, 8 * _RECORD.index("state"))

    def _read_record(self, record: ir.Value) -> list[ir.Value]:
        return [vectors.load(self.builder, WORD, record, 8 * n) for n in range(len(_RECORD))]

    def publish_copies(self) -> None:
        """Show the asynchronous proxy what was copied."""
        builder, (*_, image) = self.builder, self._image_bytes

        def publish(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            record = builder.add(self._copies, builder.mul(number, word(_RECORD_BYTES)))
            _, offset, _, state = self._read_record(record)
            with builder.if_then(builder.icmp_unsigned("==", state, word(_MADE))):
                value = self.load_shared(_COPIED, offset)
                self.store_shared(value, builder.add(offset, word(image)))
                vectors.store(builder, word(_PUBLISHED), record, 8 * _RECORD.index("state"))
            return []

        vectors.repeat(builder, word(self._records_all), [], publish)

    def _find_barrier(self, barrier: ir.Value) -> ir.Value:
        offset = self.builder.mul(barrier, word(self._barrier_bytes))
        return self.builder.add(self._barriers, offset)

    def begin_bulk(self, copies: Sequence[Bulk], barrier: ir.Value) -> None:
        """Write copies down, and soil what they will overwrite."""
        builder, place = self.builder, self._find_barrier(barrier)
        assert len(copies) <= self._bulks
        vectors.store(builder, word(len(copies)), place, 8)
        for number, copy in enumerate(copies):
            assert copy.size % COPIED_BYTES == 0
            self._require_aligned(copy.address, copy.offset)
            for at, value in enumerate((copy.address, copy.offset, word(copy.size))):
                start = 8 * (len(_BARRIER) + at) + number * _BULK_BYTES
                vectors.store(builder, value, place, start)
            self._soil(copy)

    def _soil(self, copy: Bulk) -> None:
        def soil(at: ir.Value) -> None:
            self._store_images(_make_soil(), self.builder.add(copy.offset, at))

        self._repeat_vectors(word(copy.size), soil)

    def _repeat_vectors(self, size: ir.Value, body: Callable[[ir.Value], None]) -> None:
        """Write what is done at every vector of some bytes."""
        builder = self.builder

        def turn(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            body(builder.mul(number, word(COPIED_BYTES)))
            return []

        vectors.repeat(builder, builder.udiv(size, word(COPIED_BYTES)), [], turn)

    def end_bulk(self, barrier: ir.Value, parity: ir.Value) -> None:
        """Return if another phase is on, by its parity; make this one's copies and end it."""
        builder, place = self.builder, self._find_barrier(barrier)
        phase, count = (vectors.load(builder, WORD, place, 8 * n) for n in range(2))
        is_on = builder.icmp_unsigned("==", builder.and_(phase, word(1)), parity)
        with builder.if_then(is_on):
            is_begun = builder.icmp_unsigned("!=", count, word(0))
            with builder.if_else(is_begun) as (begun, missing):
                with begun:
                    self._make_bulk(place, count)
                    vectors.store(builder, builder.add(phase, word(1)), place, 0)
                    vectors.store(builder, word(0), place, 8)
                with missing:
                    vectors.store(builder, word(Fault.NOT_BEGUN), self._fault)

    def _make_bulk(self, place: ir.Value, count: ir.Value) -> None:
        """Make all copies of a barrier's phase, which every proxy sees."""
        builder = self.builder

        def make(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            first = builder.add(builder.mul(number, word(_BULK_BYTES)), word(8 * len(_BARRIER)))
            record = builder.add(place, first)
            address, offset, size = (vectors.load(builder, WORD, record, 8 * n) for n in range(3))

            def copy(at: ir.Value) -> None:
                value = vectors.load(builder, _COPIED, builder.add(address, at))
                self._store_images(value, builder.add(offset, at))

            self._repeat_vectors(size, copy)
            return []

        vectors.repeat(builder, count, [], make)

    def find_shared(self, offset: ir.Value) -> ir.Value:
        return self.builder.add(offset, word(self._base))

    def load_own(self, kind: ir.Type, offset: ir.Value) -> ir.Value:
        return vectors.load(self.builder, kind, self.builder.add(self._own, offset))

    def store_own(self, value: ir.Value, offset: ir.Value) -> None:
        vectors.store(self.builder, value, self.builder.add(self._own, offset))

    def get_cell(self, number: int, kind: ir.Type = FLOAT) -> ir.Value:
        return vectors.load(self.builder, kind, self._cells, number * _CELL_BYTES)

    def set_cell(self, number: int, value: ir.Value) -> None:
        vectors.store(self.builder, value, self._cells, number * _CELL_BYTES)


def _make_soil() -> ir.Constant:
    return ir.Constant(_COPIED, int.from_bytes(bytes([SOIL]) * COPIED_BYTES))


def write(kernel: Kernel, phase: Phase) -> ir.Module:
    """Return a module with the loop of a block's threads over a phase."""
    module = ir.Module()
    kinds = [WORD] * (kernel.parameters + len(OWN))
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "phase")
    builder = ir.IRBuilder(function.append_basic_block())
    parameters, last = function.args[: kernel.parameters], function.args[kernel.parameters :]
    own = dict(zip(OWN, last, strict=True))

    def run(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        place = builder.add(own["start"], builder.mul(number, own["stride"]))
        thread = builder.urem(place, word(kernel.threads))
        phase(_OnProcessor(builder, parameters, own, thread, kernel))
        return []

    vectors.repeat(builder, word(kernel.threads), [], run)
    builder.ret_void()
    return module
