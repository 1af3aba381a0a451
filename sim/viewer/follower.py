"""The follower of a chain: keeps frames of a referee up to date, whatever becomes of the node."""

import threading
from dataclasses import dataclass
from typing import Any

from moot.offchain.errors import MootError
from moot.offchain.record.entries import Entry
from moot.offchain.record.names import Names
from moot.offchain.record.reducer import Reducer
from moot.offchain.record.referee_log import RefereeLog
from moot.offchain.record.schema import Frame, RecordedReferee

MOST_FRAMES = 2_000
"""Frames in one answer; whoever wants more asks again."""


@dataclass(frozen=True, slots=True)
class Film:
    """What is known of a referee: frames that are never changed, of one epoch of the chain.

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
    """Reads a referee's log again and again, in a thread of its own.

    Only that thread uses the chain. A film whose frames were replaced has the next epoch.

    Args:
        log: the referee's log.
        every_s: seconds from one reading to the next.
        names: of the operators of programs, as far as they are at hand.
    """

    def __init__(self, log: RefereeLog, every_s: float, names: Names | None = None) -> None:
        self._log = log
        self._every_s = every_s
        self._names = names or (lambda _: ())
        self._seen: list[Entry] = []
        self._reducer = self._begin()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        # The epoch of a page that has nothing is 0.
        self.film = Film(epoch=1, head=0)

    @property
    def about(self) -> RecordedReferee:
        """The referee that is followed."""
        log = self._log
        return RecordedReferee(
            referee=log.address,
            chain_id=log.chain.chain_id,
            arithmetic=str(log.arithmetic),
        )

    def start(self) -> None:
        """Read the log once, and go on in a thread.

        Raises:
            ChainError: the chain cannot be read.
        """
        self._read()
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and give up the connection."""
        self._stop.set()
        self._thread.join()
        self._log.chain.close()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._read()
            except MootError as error:
                film = self.film
                self.film = Film(film.epoch, film.head, film.frames, " ".join(str(error).split()))

    def _read(self) -> None:
        """Read on; begin anew where the chain has replaced what was read."""
        entries, film = self._log.read(), self.film
        known = len(self._seen)
        is_same = len(entries) >= known and all(map(_is, self._seen, entries))
        epoch, frames = film.epoch, film.frames
        if not is_same:
            self._log.require_referee()
            epoch, frames, known = epoch + 1, (), 0
            self._reducer = self._begin()
        new = tuple(self._reducer.reduce(entries[known:]))
        self._seen = entries
        self.film = Film(epoch, self._log.head, frames + new)

    def _begin(self) -> Reducer:
        log = self._log
        return Reducer(log.address, log.chain.chain_id, log.arithmetic, self._names)


def _is(one: Entry, other: Entry) -> bool:
    return one is other
