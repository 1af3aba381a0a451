"""Memory layout of a run: which call of a sequence has which range of bytes, and until when."""

from bisect import insort
from collections.abc import Collection, Iterable

from moot.offchain.native.sequences import Place
from moot.offchain.native.vectors import CACHE_LINE_BYTES

Range = tuple[int, int]
"""Where the first byte is, and the one behind the last: offsets, or addresses."""


class Memory:
    """Memory layout of one run, built call by call.

    Args:
        alignment: what is taken begins at multiples of so many bytes.

    Attributes:
        most_bytes: the memory that all of them need.
    """

    def __init__(self, alignment: int = CACHE_LINE_BYTES) -> None:
        self._alignment = alignment
        self._taken: list[Range] = []
        self._reserved: list[Place] = []
        self.most_bytes = 0

    def begin_task(self, after: Collection[int], reads: Iterable[Place]) -> None:
        """Begin the next task, which is computed when all earlier ones are.

        Args:
            after: the numbers of the tasks whose outputs it reads.
            reads: those of its operands that are in this memory.
        """

    def take(self, size: int) -> Place:
        """Take memory until it is given back."""
        whole = -(-max(size, 1) // self._alignment) * self._alignment
        start = self._choose(whole)
        insort(self._taken, (start, start + whole))
        self.most_bytes = max(self.most_bytes, start + whole)
        return Place(0, start)

    def _choose(self, size: int) -> int:
        """Return where the next so many bytes are."""
        return find_gap(self._taken, size)

    def give_back(self, place: Place) -> None:
        """Let others have what was taken."""
        self._taken = [taken for taken in self._taken if taken[0] != place.offset]

    def reserve(self, size: int) -> Place:
        """Take memory until the calls of the present task are made."""
        self._reserved.append(self.take(size))
        return self._reserved[-1]

    def end_task(self) -> None:
        """Give back what was reserved for a task."""
        for place in self._reserved:
            self.give_back(place)
        self._reserved.clear()


def find_gap(taken: Iterable[Range], size: int) -> int:
    """Return the start of the first gap of so many bytes between ranges, which are sorted."""
    start = 0
    for first, stop in taken:
        if start + size <= first:
            break
        start = max(start, stop)
    return start
