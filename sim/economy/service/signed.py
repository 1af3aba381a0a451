"""Signed receipts as a market has them, and what somebody who keeps them can prove with two."""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import NamedTuple


class Signed(NamedTuple):
    """A receipt of a provider, as far as its numbers go; amounts are in gwei.

    Attributes:
        chain: on which of the provider's chains it is; 0 is the one that it publishes.
        born: the number with which that chain has left the first one.
        number: its running number.
        issued: the block in which it was signed.
        last: the last block in which it may be challenged.
        stake: what backs it.
        total: the stakes of all receipts up to it, as it says.
        released: the total up to which all had ended, as it says.
    """

    chain: int
    born: int
    number: int
    issued: int
    last: int
    stake: int
    total: int
    released: int

    @property
    def open(self) -> int:
        """The stakes that had not ended when it was issued, as it says."""
        return self.total - self.released


def find_conflict(first: Signed, second: Signed) -> bool:
    """Whether two receipts of one provider do not go together: the rule of the contract's model.

    `first` has the lower number, or the same.
    """
    if first.number == second.number:
        return first.chain != second.chain
    least = first.total + second.stake
    if second.number == first.number + 1 and second.total != least:
        return True
    was_open = first.last >= second.issued
    return second.total < least or (was_open and first.total <= second.released)


def has_fork(one: Signed, other: Signed) -> bool:
    """Whether the chains before two receipts differ at a number that both chains have."""
    if one.chain == other.chain:
        return False
    born = min(it.born for it in (one, other) if it.chain)
    return min(one.number, other.number) >= born


@dataclass(slots=True)
class Pool:
    """The receipts of one provider that somebody has seen, and keeps while they may be of use.

    Attributes:
        is_chained: whether each was seen with the chain of all before it.
    """

    is_chained: bool
    _numbers: list[int] = field(default_factory=list)
    _kept: dict[int, Signed] = field(default_factory=dict)
    _heads: dict[int, Signed] = field(default_factory=dict)

    def see(self, new: Signed) -> bool:
        """Keep a receipt; return whether it makes a proof of fault with one that is there."""
        if self.is_chained:
            head = self._heads.get(new.chain)
            if head is None or head.number < new.number:
                self._heads[new.chain] = new
            if any(has_fork(new, other) for other in self._heads.values()):
                return True
        if new.number in self._kept:
            return find_conflict(self._kept[new.number], new)
        self._forget(new)
        place = bisect_left(self._numbers, new.number)
        found = self._clashes(place, new)
        insort(self._numbers, new.number)
        self._kept[new.number] = new
        return found

    def list_forked(self) -> list[Signed]:
        """Return those that are on a chain which nobody publishes."""
        return [it for it in (*self._kept.values(), *self._heads.values()) if it.chain]

    def _clashes(self, place: int, new: Signed) -> bool:
        """Whether a receipt conflicts with any that is kept; those do not conflict.

        Totals and releases of theirs ascend, so that four say it for all: the two neighbours, the
        oldest that was open when the new one was issued, and the newest issued in its window.
        """
        kept, numbers = self._kept, self._numbers
        before, after = numbers[max(place - 1, 0) : place], numbers[place : place + 1]
        for index in range(place):
            if kept[numbers[index]].last >= new.issued:
                before.append(numbers[index])
                break
        for index in range(len(numbers) - 1, place - 1, -1):
            if kept[numbers[index]].issued <= new.last:
                after.append(numbers[index])
                break
        return any(find_conflict(kept[it], new) for it in before) or any(
            find_conflict(new, kept[it]) for it in after
        )

    def _forget(self, new: Signed) -> None:
        """Let those go that had ended before a receipt's window has begun, all but the last."""
        while len(self._numbers) > 1 and self._kept[self._numbers[0]].last < new.issued:
            del self._kept[self._numbers.pop(0)]
