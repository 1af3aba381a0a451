"""The process that plays a market for its page: `python -m moot.sim.live.child`.

It is given a configuration as a line of JSON, says what happens in lines of JSON, and ends with its
input: it never outlives whoever has begun it.
"""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

from moot.offchain.children import say
from moot.sim.economy.config import parse_config
from moot.sim.economy.simulate import simulate
from moot.sim.experiments.parts import say_failure
from moot.sim.live.watch import Point, Watch

EVERY_S = 0.2
"""Seconds from one word about the progress to the next."""
GRACE_S = 1.0
"""Seconds in which a run has to come to its next row, once it is to end."""


class _Stopped(BaseException):
    """Nobody wants to hear any more of the run."""


class Voice:
    """What is said to whoever has begun this process, until the input ends."""

    def __init__(self) -> None:
        # What anybody prints here goes to stderr: the lines are ours alone.
        self._lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._is_over = threading.Event()
        self._said_at = 0.0

    def listen(self) -> None:
        """Wait for the end of the input, and end the process."""
        while os.read(0, 1 << 12):
            pass
        self._is_over.set()
        time.sleep(GRACE_S)
        os._exit(0)

    def check(self) -> None:
        """Stop the run if it is over."""
        if self._is_over.is_set():
            raise _Stopped

    def is_due(self) -> bool:
        """Return whether it is time for a word about the progress, and say so once."""
        now = time.monotonic()
        if now - self._said_at < EVERY_S:
            return False
        self._said_at = now
        return True

    def say(self, **words: Any) -> None:
        """Say something."""
        self.check()
        try:
            say(self._lines, words)
        except BrokenPipeError:
            raise _Stopped from None


def play(voice: Voice, told: dict[str, Any]) -> None:
    """Play the market that is told, and say what it comes to."""

    def tell(place: int, point: Point) -> None:
        voice.say(place=place, point=point)

    def report(what: str, done: int, total: int) -> None:
        voice.check()
        if voice.is_due():
            voice.say(what=what, done=done, total=total)
            watch.tell()

    watch = Watch(told["jobs"], tell)
    try:
        counts = simulate(parse_config(told, "the market"), watch, 0, report)
    except Exception as failure:  # noqa: BLE001 - whatever a run raises is its result
        voice.say(problem=say_failure(failure))
        return
    watch.tell()
    voice.say(counts=asdict(counts))


def main() -> None:
    """Play a market until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = sys.stdin.readline()
    voice = Voice()
    threading.Thread(target=voice.listen, daemon=True).start()
    try:
        play(voice, json.loads(line))
    except _Stopped:
        return


if __name__ == "__main__":
    main()
