"""Signed receipts as a market has them, and what somebody who keeps them can prove with two."""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import NamedTuple

KEPT_WINDOWS = 2
"""For so many windows after its own a receipt is kept: checks of it may come in late."""


class Signed(NamedTuple):
    """A receipt of a provider, as far as its numbers go; amounts are in gwei.

    Attributes:
        chain: on which of the provider's chains it is; 0 is the one that it publishes, and no other
            number is used again.
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


Pair = tuple[Signed, Signed]
"""Two receipts, that of the lower number first."""


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

    def see(self, new: Signed) -> Pair | None:
        """Keep a receipt; return the proof of fault that it makes with one that is there."""
        if self.is_chained:
            head = self._heads.get(new.chain)
            if head is None or head.number < new.number:
                self._heads[new.chain] = new
            for other in self._heads.values():
                if has_fork(new, other):
                    number = min(new.number, other.number)
                    return other._replace(number=number), new._replace(number=number)
        if new.number in self._kept:
            same = self._kept[new.number]
            return (same, new) if find_conflict(same, new) else None
        self._forget(new)
        place = bisect_left(self._numbers, new.number)
        found = self._clash(place, new)
        insort(self._numbers, new.number)
        self._kept[new.number] = new
        return found

    def list_forked(self) -> list[Signed]:
        """Return those that are on a chain which nobody publishes."""
        return [it for it in (*self._kept.values(), *self._heads.values()) if it.chain]

    def _clash(self, place: int, new: Signed) -> Pair | None:
        """Return a receipt with one that it conflicts with, the earlier first; the rest do not.

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
        pairs = [*((kept[it], new) for it in before), *((new, kept[it]) for it in after)]
        return next((pair for pair in pairs if find_conflict(*pair)), None)

    def _forget(self, new: Signed) -> None:
        """Let those go that ended long before a receipt's window has begun, all but the last."""
        long_ago = new.issued - KEPT_WINDOWS * (new.last - new.issued)
        while len(self._numbers) > 1 and self._kept[self._numbers[0]].last < long_ago:
            del self._kept[self._numbers.pop(0)]
