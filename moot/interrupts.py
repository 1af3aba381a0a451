"""Interrupts that wait: what is being sent to a chain is sent, and then the user is heard."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferring() -> Iterator[None]:
    """Let an interrupt of the keyboard wait for the end of the context; a second one does not.

    In a thread that is not the main one no interrupt arrives, and nothing is done.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    frames: list[FrameType | None] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if frames:
            before(number, frame)
        frames.append(frame)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if frames:
            before(signal.SIGINT, frames[0])
