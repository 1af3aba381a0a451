"""The order in which the rows of a dataset are taken: as they stand, shuffled, or listed.

    order    kind u8 | rows u64 | epoch u64 | tail
    tail     as they stand: empty | shuffled: seed u64 | listed: row u64 ..., an epoch of them

Place p of the order is place p mod epoch of epoch p / epoch. An epoch may be shorter than there are
rows, so that the last ones, which fill no whole batch, are left out of it. `permute` in
`offchain/arithmetic/permutation.py` defines what shuffled means; here many places are had at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

from moot.offchain.arithmetic.permutation import MAX_ROWS, MIXING_ROUNDS, get_side
from moot.offchain.arithmetic.philox import Block, philox
from moot.offchain.errors import CommitmentError
from moot.offchain.programs.decoding import Reader

MAX_LISTED = 1 << 23
"""Rows that an order lists at most: 64 MiB."""
MAX_SEED = (1 << 64) - 1
_WORD, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)

Rows = NDArray[np.int64]
"""Numbers of rows."""


class OrderKind(IntEnum):
    """How rows are ordered; the number is the kind's encoding."""

    AS_THEY_STAND = 0
    SHUFFLED = 1
    LISTED = 2


@dataclass(frozen=True, eq=False)
class Order:
    """An order of rows; `offchain/datastore/orders.py` says what it means.

    Attributes:
        kind: how they are ordered.
        rows: how many there are.
        epoch: how many of them are taken before the next epoch begins; of a list, its length.
        seed: of a shuffled order, 64 bits.
        listed: of a listed one, int64 (epoch,), numbers of rows.
    """

    kind: OrderKind
    rows: int
    epoch: int
    seed: int = 0
    listed: Rows | None = None

    def __post_init__(self) -> None:
        """Refuse what is no order.

        Raises:
            CommitmentError: a number is out of range.
        """
        if not 1 <= self.rows < MAX_ROWS:
            raise CommitmentError(f"an order of {self.rows:,} rows is none")
        if self.listed is not None:
            outside = self.listed[(self.listed < 0) | (self.listed >= self.rows)]
            if outside.size:
                raise CommitmentError(f"row {outside[0]:,} is listed, and there are {self.rows:,}")
        most = self.rows if self.listed is None else MAX_LISTED
        if not 1 <= self.epoch <= most:
            raise CommitmentError(f"an epoch takes 1 to {most:,} rows, and not {self.epoch:,}")
        if not 0 <= self.seed <= MAX_SEED:
            raise CommitmentError(f"the seed {self.seed} does not have 64 bits")

    @classmethod
    def as_they_stand(cls, rows: int, epoch: int | None = None) -> Self:
        """Return the order of so many rows as they stand."""
        return cls(OrderKind.AS_THEY_STAND, rows, rows if epoch is None else epoch)

    @classmethod
    def shuffled(cls, rows: int, seed: int, epoch: int | None = None) -> Self:
        """Return an order that each epoch shuffles anew."""
        return cls(OrderKind.SHUFFLED, rows, rows if epoch is None else epoch, seed)

    @classmethod
    def listing(cls, rows: int, listed: Sequence[int] | Rows) -> Self:
        """Return the order of a list, which begins anew where it ends.

        Raises:
            CommitmentError: a number is no row's.
        """
        try:
            found = np.asarray(listed, np.int64).reshape(-1)
        except (OverflowError, ValueError) as error:
            raise CommitmentError(f"the order lists what is no row: {error}") from error
        return cls(OrderKind.LISTED, rows, len(found), listed=found)

    def pick(self, first: int, count: int) -> Rows:
        """Return the rows at so many places, from the place `first` on: int64 (count,)."""
        places = np.uint64(first) + np.arange(count, dtype=np.uint64)
        epochs, within = np.divmod(places, np.uint64(self.epoch))
        if self.listed is not None:
            return self.listed[within.astype(np.int64)]
        if self.kind is OrderKind.SHUFFLED:
            within = permute_all(self.seed, epochs, within, self.rows)
        return within.astype(np.int64)


def permute_all(
    seed: int, epochs: NDArray[np.uint64], places: NDArray[np.uint64], rows: int
) -> NDArray[np.uint64]:
    """Return what `permute` says of each place in its epoch."""
    side, found = np.uint64(get_side(rows)), places.copy()
    left_out = np.arange(len(places))
    while left_out.size:
        epoch = epochs[left_out]
        left, right = np.divmod(found[left_out], side)
        for mixing in range(1, MIXING_ROUNDS + 1):
            second = np.full_like(right, mixing)
            added = _draw((right, second, epoch & _WORD, epoch >> _HALF), seed)
            left, right = right, (left + added % side) % side
        found[left_out] = left * side + right
        left_out = left_out[found[left_out] >= np.uint64(rows)]
    return found


def _draw(counter: Block[NDArray[np.uint64]], seed: int) -> NDArray[np.uint64]:
    """Return the first two words of each counter's block, as numbers of 64 bits."""
    low, high, _, _ = philox(counter, (seed & int(_WORD), seed >> 32))
    return high << _HALF | low


def encode_order(order: Order) -> bytes:
    """Return the canonical encoding of an order."""
    parts = [bytes([order.kind]), order.rows.to_bytes(8, "big"), order.epoch.to_bytes(8, "big")]
    if order.kind is OrderKind.SHUFFLED:
        parts.append(order.seed.to_bytes(8, "big"))
    if order.listed is not None:
        parts.append(order.listed.astype(">u8").tobytes())
    return b"".join(parts)


def read_order(reader: Reader) -> Order:
    """Return the order whose encoding comes next.

    Raises:
        CommitmentError: it is none.
        ProgramError: it ends early.
    """
    number, rows, epoch = reader.integer(1), reader.integer(8), reader.integer(8)
    try:
        kind = OrderKind(number)
    except ValueError as error:
        raise CommitmentError(f"it orders rows in an unknown way, {number}") from error
    if kind is not OrderKind.LISTED:
        return Order(kind, rows, epoch, reader.integer(8) if kind is OrderKind.SHUFFLED else 0)
    if epoch > MAX_LISTED:
        raise CommitmentError(f"it lists {epoch:,} rows, above {MAX_LISTED:,}")
    listed = np.frombuffer(reader.take(8 * epoch), ">u8")
    if listed.size and int(listed.max()) >= rows:
        raise CommitmentError(f"row {int(listed.max()):,} is listed, and there are {rows:,}")
    return Order(kind, rows, epoch, listed=listed.astype(np.int64))
