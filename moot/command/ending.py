"""The clean end of a command that goes on until it is told to stop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class _Stopped(BaseException):
    """The process was asked to end."""


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise _Stopped


@contextmanager
def until_terminated() -> Iterator[None]:
    """Let SIGTERM end the block from within, so that whatever it has opened is closed."""
    kept = signal.signal(signal.SIGTERM, _stop)
    try:
        with suppress(_Stopped):
            yield
    finally:
        signal.signal(signal.SIGTERM, kept)


@contextmanager
def catching_end() -> Iterator[threading.Event]:
    """Give an event that is set when this process is asked to end."""
    stopped = threading.Event()
    kept = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
