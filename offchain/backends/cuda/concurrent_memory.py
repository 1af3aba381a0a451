"""Memory of a sequence whose tasks run side by side where none needs what the other makes.

Memory that was given back orders tasks: whoever has it next must wait for all who used it. So a
task would rather have what only such tasks used as it comes after anyway, or what nobody had yet,
as long as all of it is within a limit. Beyond that it has what was given back first, whose users
are the likeliest to be done.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from moot.offchain.native.memory_layout import Memory, find_gap
from moot.offchain.native.sequences import Place


class _Taken(NamedTuple):
    """Memory that somebody has: where it begins and stops, and the tasks that use it."""

    first: int
    stop: int
    users: list[int]


class _Past(NamedTuple):
    """Memory that somebody had.

    `users` are the tasks that used it, and all that these come after: their numbers as bits.
    """

    first: int
    stop: int
    users: int


class ConcurrentMemory(Memory):
    """Memory layout of one run, built task by task.

    Args:
        alignment: what is taken begins at multiples of so many bytes.
        limit_bytes: so much may be needed to keep tasks apart that need not wait for each other.
    """

    def __init__(self, alignment: int, limit_bytes: int) -> None:
        super().__init__(alignment)
        self._limit_bytes = limit_bytes
        self._before: list[int] = []
        self._present: dict[int, _Taken] = {}
        self._past: list[_Past] = []

    def begin_task(self, after: Collection[int], reads: Iterable[Place]) -> None:
        """Begin the next task, which may be computed as soon as those that it comes after are."""
        for place in reads:
            self._present[place.offset].users.append(len(self._before))
        self._before.append(self._close(after))

    def _close(self, numbers: Iterable[int]) -> int:
        """Return tasks and all that they come after, as bits."""
        found = 0
        for number in numbers:
            found |= self._before[number] | 1 << number
        return found

    def take(self, size: int) -> Place:
        """Take memory until it is given back."""
        place = super().take(size)
        first, stop = next(taken for taken in self._taken if taken[0] == place.offset)
        for past in self._past:
            if past.first < stop and first < past.stop:
                self._before[-1] |= past.users
        self._present[first] = _Taken(first, stop, [len(self._before) - 1])
        return place

    def _choose(self, size: int) -> int:
        """Return where the next so many bytes are, apart from tasks that go on beside this one."""
        before = self._before[-1]
        barred = [(past.first, past.stop) for past in self._past if past.users & ~before]
        while True:
            start = find_gap(sorted([*self._taken, *barred]), size)
            if start + size <= self._limit_bytes or not barred:
                return start
            barred = barred[(len(barred) + 1) // 2 :]

    def give_back(self, place: Place) -> None:
        """Let others have what was taken."""
        super().give_back(place)
        first, stop, users = self._present.pop(place.offset)
        past = list[_Past]()
        for old in self._past:
            if old.first < first:
                past.append(old._replace(stop=min(old.stop, first)))
            if stop < old.stop:
                past.append(old._replace(first=max(old.first, stop)))
        self._past = [*past, _Past(first, stop, self._close(users))]
