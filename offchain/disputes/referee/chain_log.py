"""A log of what a chain holds, which follows the chain through reorganisations."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from moot.offchain.chain import Chain
from moot.offchain.commitments.tree import Digest

Item = TypeVar("Item")


class ChainLog(Generic[Item]):
    """Items of a chain's blocks, read on from the latest block that the chain still has.

    With each reading the hash of the block is kept up to which it went. As long as the chain has a
    block of that hash, all that was read before stands; where it has another, reading goes on from
    the latest of these blocks that it still has, however deep that lies. So nothing is final but
    what the chain holds.

    Args:
        chain: the chain.
        find_first: returns the first block of interest, or any before; that may change as long as
            nothing was read of blocks that the chain still has.
        fetch: returns the items of some blocks, both ends included, with their blocks, in order.

    Attributes:
        head: the block up to which the log was read last; -1 before the first reading.
    """

    def __init__(
        self,
        chain: Chain,
        find_first: Callable[[], int],
        fetch: Callable[[int, int], Iterable[tuple[int, Item]]],
    ) -> None:
        self._chain = chain
        self._find_first = find_first
        self._fetch = fetch
        self._marks: list[tuple[int, Digest]] = []
        self._items: list[tuple[int, Item]] = []
        self.head = -1

    def read(self) -> list[Item]:
        """Return the items that the chain holds now, in order."""
        while True:
            head = self._chain.block_number()
            digest = self._chain.block_hash(head)
            self._forget_replaced()
            known = self._marks[-1][0] if self._marks else self._find_first() - 1
            found = list(self._fetch(known + 1, head)) if head > known else []
            # What was read while blocks were being replaced may be of both chains.
            if digest is not None and self._chain.block_hash(head) == digest:
                break
        self._items += found
        if head > known:
            self._marks.append((head, digest))
        self.head = head
        return [item for _, item in self._items]

    def _forget_replaced(self) -> None:
        """Forget what was read of blocks that the chain does not have any more."""
        count = len(self._marks)
        while self._marks and self._chain.block_hash(self._marks[-1][0]) != self._marks[-1][1]:
            self._marks.pop()
        if len(self._marks) < count:
            known = self._marks[-1][0] if self._marks else -1
            self._items = [(block, item) for block, item in self._items if block <= known]
