"""The rule by which the batches of a job are made of a dataset, and its canonical encoding.

    rule    first line | dataset root | tensors u32 | steps u64 | rows of a step u64
            | first place u64 | order (`orders.py`) | takes u32 | take ...
    take    tensor u32 | way u8 | rows u64 | first u64

A dataset is a list of tensors, and its root is that of a state of them. Step s takes the rows at
the places from first place + s * rows of a step on. Each slot of the batch has one take, in the
order of the slots: by rows, it gets as many of the step's rows as its first dimension says, from
the row `first` of the step on; by step, it gets the tensor's row first + s as a whole. `rows` is
the tensor's first dimension, so that a take and its slot say the type and the shape of the tensor.

A rule is named by the root of the batches that it makes: one that makes others is refused.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from moot.offchain.commitments.keccak_lanes import DIGEST_BYTES
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.objects import TensorShape
from moot.offchain.datastore.orders import MAX_LISTED, Order, encode_order, read_order
from moot.offchain.errors import CommitmentError, ProgramError
from moot.offchain.programs.decoding import Reader
from moot.offchain.programs.graph import Slot
from moot.offchain.programs.limits import MAX_RANK, MAX_SLOTS, MAX_STEPS, MAX_TENSOR_BYTES

FIRST_LINE = b"moot rule 1\n"
_TAKE = struct.Struct(">IBQQ")
MAX_RULE_BYTES = 128 + 8 * MAX_LISTED + _TAKE.size * MAX_SLOTS
"""More than any rule has."""


class Way(IntEnum):
    """What a slot takes of a tensor; the number is the way's encoding."""

    ROWS = 1
    STEP = 2


@dataclass(frozen=True, slots=True)
class Take:
    """What a slot of the batch takes: some of the step's rows of a tensor, or the step's own row.

    Attributes:
        tensor: its place in the dataset.
        rows: its first dimension.
        way: what is taken of it.
        first: the first of the step's rows that is taken; or the row of the first step.
    """

    tensor: int
    rows: int
    way: Way = Way.ROWS
    first: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """How the batches of a job are made; `offchain/datastore/rules.py` says what it means.

    Attributes:
        dataset: the root of the dataset.
        tensors: how many it has.
        steps: how many batches are made.
        step_rows: rows that a step takes.
        first_place: the place of the order at which the first step begins.
        order: the order of the rows.
        takes: what each slot of the batch takes.
    """

    dataset: Digest
    tensors: int
    steps: int
    step_rows: int
    first_place: int
    order: Order
    takes: tuple[Take, ...]

    def check(self, slots: Sequence[Slot], steps: int) -> dict[int, TensorShape]:
        """Return the type and the shape of each tensor that is taken, for these slots of a batch.

        Raises:
            CommitmentError: it is no rule for so many steps of such batches.
        """
        if self.steps != steps:
            raise CommitmentError(f"it is for {self.steps:,} steps, and {steps:,} are wanted")
        if len(self.takes) != len(slots):
            raise CommitmentError(f"it fills {len(self.takes)} inputs, and there are {len(slots)}")
        if self.first_place + steps * self.step_rows >= MAX_TENSOR_BYTES:
            raise CommitmentError(f"{steps:,} steps of {self.step_rows:,} rows are too many")
        shapes: dict[int, TensorShape] = {}
        for take, slot in zip(self.takes, slots, strict=True):
            about = f"input {slot.name} takes tensor {take.tensor} of the dataset"
            try:
                shape = self._check_take(take, slot)
            except CommitmentError as error:
                raise CommitmentError(f"{about}: {error}") from error
            if shapes.setdefault(take.tensor, shape) != shape:
                raise CommitmentError(f"{about}, and another takes it with another type or shape")
        return shapes

    def _check_take(self, take: Take, slot: Slot) -> TensorShape:
        if take.tensor >= self.tensors:
            raise CommitmentError(f"there are {self.tensors}")
        if take.way is Way.STEP:
            needed, row = take.first + self.steps, slot.shape
        elif not slot.shape:
            raise CommitmentError("a number without dimensions has no rows; take a row for a step")
        else:
            end, (count, *rest) = self.step_rows, slot.shape
            row, needed = tuple(rest), self.order.rows
            if take.first + count > end:
                raise CommitmentError(f"rows {take.first} to {take.first + count} of {end} a step")
        if needed > take.rows:
            raise CommitmentError(f"{needed:,} rows are needed, and it has {take.rows:,}")
        shape = TensorShape(slot.dtype, (take.rows, *row))
        if len(shape.shape) > MAX_RANK or shape.size_bytes >= MAX_TENSOR_BYTES:
            raise CommitmentError(f"no tensor is as large as {shape.shape}")
        return shape


def encode_rule(rule: Rule) -> bytes:
    """Return the canonical encoding of a rule."""
    sizes = (rule.steps, rule.step_rows, rule.first_place)
    return b"".join(
        [
            FIRST_LINE,
            rule.dataset,
            rule.tensors.to_bytes(4, "big"),
            *(size.to_bytes(8, "big") for size in sizes),
            encode_order(rule.order),
            len(rule.takes).to_bytes(4, "big"),
            *(_TAKE.pack(it.tensor, it.way, it.rows, it.first) for it in rule.takes),
        ]
    )


def decode_rule(data: bytes) -> Rule:
    """Return the rule of an encoding, which another party has sent.

    Raises:
        CommitmentError: it is none, or not canonical.
    """
    if not data.startswith(FIRST_LINE):
        raise CommitmentError("it does not begin as a rule does")
    reader = Reader(data[len(FIRST_LINE) :])
    try:
        dataset, tensors = reader.take(DIGEST_BYTES), reader.integer(4)
        steps, step_rows, first_place = (reader.integer(8) for _ in range(3))
        if not (tensors <= MAX_SLOTS and 1 <= steps <= MAX_STEPS):
            raise CommitmentError(f"it has {tensors:,} tensors, and {steps:,} steps")
        order, count = read_order(reader), reader.integer(4)
        if count > MAX_SLOTS:
            raise CommitmentError(f"it fills {count:,} inputs, above {MAX_SLOTS:,}")
        takes = [reader.unpack(_TAKE) for _ in range(count)]
        reader.finish()
    except ProgramError as error:
        raise CommitmentError(f"it is no rule: {error}") from error
    try:
        found = tuple(Take(tensor, rows, Way(way), first) for tensor, way, rows, first in takes)
    except ValueError as error:
        raise CommitmentError(f"an input takes rows in an unknown way: {error}") from error
    return Rule(dataset, tensors, steps, step_rows, first_place, order, found)
