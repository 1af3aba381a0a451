"""Dependencies: which tasks must come after which others, by the memory that they use.

A task comes after an earlier one whose writes it reads or overwrites, or whose reads it overwrites.
Ranges of bytes say so, not names: tensors may be views of one another.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

from moot.offchain.native.memory_layout import Range


class Uses(NamedTuple):
    """The ranges of addresses that a task uses; what it reserves for itself is written."""

    reads: Sequence[Range]
    writes: Sequence[Range]


def find_dependencies(tasks: Sequence[Uses]) -> list[list[int]]:
    """Return for each task the numbers of earlier tasks that it must come after, ascending.

    What is implied by others is left out, so that no graph of the same order has fewer edges.
    """
    found, before, memory = list[list[int]](), list[int](), _Memory()
    for number, (reads, writes) in enumerate(tasks):
        needed = set[int]()
        for first, stop in reads:
            memory.read(number, first, stop, needed)
        for first, stop in writes:
            memory.write(number, first, stop, needed)
        own, implied = list[int](), 0
        for other in sorted(needed - {number}, reverse=True):
            if not implied >> other & 1:
                own.append(other)
                implied |= before[other] | 1 << other
        found.append(own[::-1])
        before.append(implied)
    return found


class _Memory:
    """All addresses as parts, each with who wrote it last, and who has read it since."""

    def __init__(self) -> None:
        self._firsts = [0]
        self._writers: list[int | None] = [None]
        self._readers: list[list[int]] = [[]]

    def read(self, number: int, first: int, stop: int, needed: set[int]) -> None:
        """Note that a task reads, and add to what it needs who wrote that."""
        for part in self._find_parts(first, stop):
            needed.update(self._get_writer(part))
            self._readers[part].append(number)

    def write(self, number: int, first: int, stop: int, needed: set[int]) -> None:
        """Note that a task writes, and add to what it needs who read that last, or wrote it."""
        parts = self._find_parts(first, stop)
        for part in parts:
            needed.update(self._readers[part] or self._get_writer(part))
        if parts:
            replaced = slice(parts.start, parts.stop)
            self._firsts[replaced] = [first]
            self._writers[replaced], self._readers[replaced] = [number], [[]]

    def _get_writer(self, part: int) -> Collection[int]:
        writer = self._writers[part]
        return () if writer is None else (writer,)

    def _find_parts(self, first: int, stop: int) -> range:
        """Return the numbers of the parts of a range, at whose ends parts begin."""
        return range(self._split(first), self._split(stop)) if first < stop else range(0)

    def _split(self, address: int) -> int:
        """Return the number of the part that begins at an address."""
        part = bisect_left(self._firsts, address)
        if self._firsts[part : part + 1] != [address]:
            self._firsts.insert(part, address)
            self._writers.insert(part, self._writers[part - 1])
            self._readers.insert(part, [*self._readers[part - 1]])
        return part
