"""The follower of a chain: keeps the frames of a court up to date, whatever becomes of the node."""

import threading
from dataclasses import dataclass
from typing import Any

from moot.offchain.court.chain_court import ChainCourt
from moot.offchain.court.entries import Entry
from moot.offchain.court.names import Names
from moot.offchain.court.record import Court, Frame
from moot.offchain.court.reducer import Reducer
from moot.offchain.errors import MootError

MOST_FRAMES = 2_000
"""Frames in one answer; whoever wants more asks again."""


@dataclass(frozen=True, slots=True)
class Film:
    """What is known of a court: frames that are never changed, of one epoch of the chain.

    `problem` is one line about why nothing new comes, None if the chain goes on.
    """

    epoch: int
    head: int
    frames: tuple[Frame, ...] = ()
    problem: str | None = None

    def answer(self, epoch: int, first: int) -> dict[str, Any]:
        """Return what a page lacks that has the first frames of an epoch."""
        start = first if epoch == self.epoch and 0 <= first <= len(self.frames) else 0
        end = start + MOST_FRAMES
        return {
            "epoch": self.epoch,
            "head": self.head,
            "problem": self.problem,
            "frames": self.frames[start:end],
            "more": end < len(self.frames),
        }


class Follower:
    """Reads a court again and again, in a thread of its own.

    Only that thread uses the chain. A film whose frames were replaced has the next epoch.

    Args:
        court: the court.
        every_s: seconds from one reading to the next.
        names: of the operators of programs, as far as they are at hand.
    """

    def __init__(self, court: ChainCourt, every_s: float, names: Names | None = None) -> None:
        self._court = court
        self._every_s = every_s
        self._names = names or (lambda _: ())
        self._seen: list[Entry] = []
        self._reducer = self._begin()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        # The epoch of a page that has nothing is 0.
        self.film = Film(epoch=1, head=0)

    @property
    def about(self) -> Court:
        """The court that is followed."""
        court = self._court
        return Court(
            referee=court.address,
            chain_id=court.chain.chain_id,
            arithmetic=str(court.arithmetic),
        )

    def start(self) -> None:
        """Read the court once, and go on in a thread.

        Raises:
            ChainError: the chain cannot be read.
        """
        self._read()
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and give up the connection."""
        self._stop.set()
        self._thread.join()
        self._court.chain.close()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._read()
            except MootError as error:
                film = self.film
                self.film = Film(film.epoch, film.head, film.frames, " ".join(str(error).split()))

    def _read(self) -> None:
        """Read on; begin anew where the chain has replaced what was read."""
        entries, film = self._court.read(), self.film
        known = len(self._seen)
        is_same = len(entries) >= known and all(map(_is, self._seen, entries))
        epoch, frames = film.epoch, film.frames
        if not is_same:
            self._court.require_referee()
            epoch, frames, known = epoch + 1, (), 0
            self._reducer = self._begin()
        new = tuple(self._reducer.reduce(entries[known:]))
        self._seen = entries
        self.film = Film(epoch, self._court.head, frames + new)

    def _begin(self) -> Reducer:
        court = self._court
        return Reducer(court.address, court.chain.chain_id, court.arithmetic, self._names)


def _is(one: Entry, other: Entry) -> bool:
    return one is other
