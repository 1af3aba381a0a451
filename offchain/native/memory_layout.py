"""Memory layout of a run: which call of a sequence has which range of bytes, and until when."""

from bisect import insort

from moot.offchain.native.sequences import Place
from moot.offchain.native.vectors import CACHE_LINE_BYTES


class Memory:
    """Memory layout of one run, built call by call.

    Args:
        alignment: what is taken begins at multiples of so many bytes.

    Attributes:
        most_bytes: the memory that all of them need.
    """

    def __init__(self, alignment: int = CACHE_LINE_BYTES) -> None:
        self._alignment = alignment
        self._taken: list[tuple[int, int]] = []
        self._reserved: list[Place] = []
        self.most_bytes = 0

    def take(self, size: int) -> Place:
        """Take memory until it is given back: the first gap that is wide enough."""
        start, whole = 0, -(-max(size, 1) // self._alignment) * self._alignment
        for first, stop in self._taken:
            if start + whole <= first:
                break
            start = stop
        insort(self._taken, (start, start + whole))
        self.most_bytes = max(self.most_bytes, start + whole)
        return Place(0, start)

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
