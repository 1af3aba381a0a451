"""What a party tells: lines for people, or JSON lines for programs."""

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TextIO

from moot.offchain.text import clean, clean_values

LONGEST = 2_000
"""Characters of a text that are told: somebody else may have written it."""


class Tell(Protocol):
    """Takes an event: its name, a line for people, and what it is about for programs."""

    def __call__(self, event: str, line: str, **about: object) -> None:
        """Tell the event."""


class Lines:
    """Events as lines of a stream, each at once and whole, whichever thread tells it.

    What can't be written (a full disk, a reader that is gone) is not told: no work ends for it.

    Args:
        as_json: whether they are for programs.
        stream: where they go, by default the output.
    """

    def __init__(self, *, as_json: bool, stream: TextIO | None = None) -> None:
        self._as_json = as_json
        self._stream = stream or sys.stdout
        self._lock = threading.Lock()

    def __call__(self, event: str, line: str, **about: object) -> None:
        """Tell an event."""
        told = clean_values({"event": event, "line": line, **about}, LONGEST)
        text = json.dumps(told) if self._as_json else clean(line, LONGEST)
        encoding = self._stream.encoding or "utf-8"
        text = text.encode(encoding, "backslashreplace").decode(encoding)
        with self._lock, suppress(OSError):
            self._stream.write(text + "\n")
            self._stream.flush()


def make_say(tell: Tell) -> Callable[[str], None]:
    """Return what takes the lines of a chain."""
    return lambda line: tell("chain", line)
