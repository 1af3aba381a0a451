"""The limit of a user's code: a question that it never answers is given up."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self, TypeVar

from moot.offchain.collection import without_collection

AnswerT = TypeVar("AnswerT")

BUSY_SECONDS = 0.25
"""How long a user's code may compute for an answer: of the processor's time, so that a machine
that is busy with other things does not count against it."""

IDLE_SECONDS = 1.0
"""How long it may sleep for an answer; to wait for a processor is not to sleep."""

_AGAIN_SECONDS = 0.01
"""Code that goes on all the same is stopped again after this time."""

_LONGEST = 160
"""Characters of what a user's code has answered, or raised, that are shown."""


class TookTooLong(BaseException):
    """A user's code has not answered in time."""


class Faulted(Exception):  # noqa: N818 - it is what the code did, said in an error of ours
    """A user's code raised something, or did not answer in time; the message says which.

    Attributes:
        is_silence: whether it did not answer.
    """

    def __init__(self, message: str, *, is_silence: bool = False) -> None:
        super().__init__(message)
        self.is_silence = is_silence


class Limit:
    """A limit of time for one question, which also tells a user's interrupt from a raised one.

    Code that catches everything in a loop is stopped where it handles what it has caught. Code
    that is not Python's own, such as a sum of endless numbers, can't be stopped. There is no limit
    in a thread that is not the main one: no signal reaches it.
    """

    def __init__(self) -> None:
        self.is_over = self.is_interrupted = False
        self._before: dict[signal.Signals, Any] = {}
        self._tracer = sys.gettrace()
        self._began = 0.0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGPROF, signal.SIGALRM):
                self._before[number] = signal.signal(number, self._stop)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)
            self._began = _measure_idle()
            signal.setitimer(signal.ITIMER_PROF, BUSY_SECONDS, _AGAIN_SECONDS)
            signal.setitimer(signal.ITIMER_REAL, IDLE_SECONDS, _AGAIN_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self.is_over:
            sys.settrace(self._tracer)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Stop the code here, and once more in the next line, should that handle everything."""
        left = IDLE_SECONDS - (_measure_idle() - self._began)
        if number == signal.SIGALRM and left > 0 and not self.is_over:
            signal.setitimer(signal.ITIMER_REAL, max(left, _AGAIN_SECONDS), _AGAIN_SECONDS)
            return
        self.is_over = True
        if frame is None or frame.f_code.co_filename == __file__:
            return  # it has just answered, or is about to be asked
        while frame is not None and frame.f_code is not ask.__code__:
            frame.f_trace = self._trace
            frame = frame.f_back
        sys.settrace(self._trace)
        raise TookTooLong

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        del argument
        if event in ("line", "call") and frame.f_code.co_filename != __file__:
            raise TookTooLong
        return self._trace

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.is_interrupted = True
        signal.default_int_handler(number, frame)


def _measure_idle() -> float:
    """Return the seconds that this process has slept, from any moment on.

    Where the system does not say how long it has waited for a processor, that counts as sleep.
    """
    try:
        waited_ns = int(Path("/proc/self/schedstat").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        waited_ns = 0
    return time.monotonic() - time.process_time() - waited_ns / 1e9


def ask(question: Callable[[], AnswerT]) -> AnswerT:
    """Return what a user's code answers.

    Raises:
        Faulted: it raises, exits, or does not answer in time.
        KeyboardInterrupt: the user has interrupted us, and not the code itself.
    """
    limit = Limit()
    problem = ""
    try:
        # The collector looks at all of the process, which is not the time of who is asked.
        with without_collection(), limit:
            try:
                answer = question()
            except TookTooLong:
                raise
            except BaseException as error:
                if limit.is_interrupted:
                    raise
                problem = f"raises {_describe(error)}"
    except TookTooLong:
        pass
    if limit.is_over:
        raise Faulted(f"takes longer than {BUSY_SECONDS} s for an answer", is_silence=True)
    if problem:
        raise Faulted(problem)
    return answer


def show(value: object) -> str:
    """Return what a user's code has answered in few words; ask for it in `ask`, as it runs code."""
    return _shorten(repr(value))


def _describe(error: BaseException) -> str:
    """Return an error's type, and its text if it has one."""
    name = type(error).__name__
    try:
        text = _shorten(str(error))
    except Exception:  # noqa: BLE001 - a user's error may raise one itself
        return name
    return f"{name}: {text}" if text else name


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    return line.encode("utf-8", "backslashreplace").decode()
