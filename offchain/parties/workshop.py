"""The workshop of a party: a process that computes its jobs, one at a time.

A program that eats all memory, or breaks its process in another way, takes no match with it.
"""

import json
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from queue import Empty, SimpleQueue
from typing import IO, Any, Self

from offchain.disputes.availability import Lack
from offchain.parties.events import Tell
from offchain.parties.settings import Settings

END_S = 10.0
DONE = "done"


class Checks(IntEnum):
    """Which checks a job has to pass before it is run."""

    NONE = 0
    LATE = 1
    """All but whether there is time to commit."""
    ALL = 2


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a job.

    Attributes:
        job_id: the job.
        problem: why it was not computed; empty if it was.
        is_final: whether there is no use in trying again.
        lack: what may be demanded of the job, so that it can be computed.
    """

    job_id: int
    problem: str
    is_final: bool
    lack: Lack = field(default_factory=Lack)


class Workshop:
    """Computes jobs in another process; a context manager that ends it.

    Args:
        settings: what the party was told.
        tell: takes the events of that process, in a thread of its own.
    """

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._waiting: deque[tuple[int, Checks]] = deque()
        self._process: subprocess.Popen[str] | None = None
        self._results: SimpleQueue[Result | None] = SimpleQueue()

    def __enter__(self) -> Self:
        self._process = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            _end(self._process)

    def submit(self, job_id: int, checks: Checks) -> None:
        """Check and compute a job once those before it are done."""
        self._waiting.append((job_id, checks))
        if len(self._waiting) == 1:
            self._ask()

    def collect(self) -> list[Result]:
        """Return what has come of jobs since the last call."""
        results: list[Result] = []
        with suppress(Empty):
            while True:
                result = self._results.get_nowait() or self._bury()
                if result is not None:
                    results.append(result)
                    self._waiting.popleft()
                    self._ask()
        return results

    def _bury(self) -> Result | None:
        """Give up the process, which says nothing more, and return what that means for its job."""
        assert self._process is not None
        _end(self._process)
        status, self._process = self._process.returncode, None
        if not self._waiting:
            return None
        problem = f"the process that computes has ended with status {status}"
        return Result(self._waiting[0][0], problem, is_final=False)

    def _ask(self) -> None:
        """Let the process compute the next job."""
        if not self._waiting:
            return
        if self._process is None:
            self._process = self._start()
        self._write(self._process, self._waiting[0])

    def _start(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "offchain.parties.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        threading.Thread(target=self._listen, args=(process.stdout,), daemon=True).start()
        self._write(process, asdict(self._settings))
        return process

    @staticmethod
    def _write(process: "subprocess.Popen[str]", value: object) -> None:
        assert process.stdin is not None
        with suppress(OSError):  # it has died: its output ends, too
            process.stdin.write(json.dumps(value) + "\n")
            process.stdin.flush()

    def _listen(self, lines: IO[str]) -> None:
        try:
            with lines:
                for line in lines:
                    self._take(json.loads(line))
        finally:  # whatever ends this: nobody waits for a process that is not heard any more
            self._results.put(None)

    def _take(self, about: dict[str, Any]) -> None:
        event, text = about.pop("event"), about.pop("line")
        if event == DONE:
            places = tuple((part, index, chunk) for part, index, chunk in about["missing"])
            lack = Lack(places, about["least"])
            self._results.put(Result(about["job"], about["problem"], about["is_final"], lack))
        else:
            self._tell(event, text, **about)


def _end(process: "subprocess.Popen[str]") -> None:
    """End a process by the end of its input."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
