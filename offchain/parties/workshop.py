"""The workshop of a party: a process that computes its jobs, one at a time.

A program that eats all memory, or breaks its process in another way, takes no match with it.
"""

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from math import inf
from queue import Empty, SimpleQueue
from typing import IO, Any, Self

from moot.contracts.model.types import Job
from moot.offchain.children import end_by_input, start, tell
from moot.offchain.disputes.availability.demands import Lack, TensorProof
from moot.offchain.disputes.joining.conditions import HOUR_S, count_left
from moot.offchain.parties.events import Tell
from moot.offchain.parties.settings import Settings

END_S = 10.0
MOST_DEATHS = 2
"""A job with which the process has died so often is not tried again, unless it has to be."""
DONE = "done"
WORKER = "moot.offchain.parties.worker"
"""The program of the process that computes."""


class Checks(IntEnum):
    """Which checks a job has to pass before it is run."""

    NONE = 0
    """None: a claim of it is made, and has to be defended."""
    COST = 1
    """Whether it can be computed on this machine within the bounds; it is not joined."""
    LATE = 2
    """All but whether there is time to commit: it is joined later."""
    ALL = 3


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


@dataclass(frozen=True, slots=True)
class Errand:
    """A job that is to be computed.

    Attributes:
        job_id: the job.
        checks: what it has to pass.
        worth: what it pays for what it costs; one that has to be computed goes before any.
        limit_s: the seconds of computing after which it is given up.
        until: when it is too late, as `time.monotonic` has it.
        spent_s: the seconds that it was computed before it gave way to another.
    """

    job_id: int
    checks: Checks
    worth: float = 0.0
    limit_s: float = inf
    until: float = inf
    spent_s: float = 0.0

    @property
    def rank(self) -> float:
        """What it is worth; without bounds if a claim of it has to be defended."""
        return inf if self.checks is Checks.NONE else self.worth

    def find_end(self, now: float) -> str:
        """Return why it ends, if it does; nothing if it goes on."""
        if now > self.until:
            return "it is too late: what is computed of it can't be claimed any more"
        if self.spent_s > self.limit_s:
            return f"it takes more than {self.limit_s:,.0f} seconds; it is given up"
        return ""


def plan_errand(settings: Settings, job_id: int, job: Job, block: int, checks: Checks) -> Errand:
    """Return what a workshop is to do about a job, as of a block.

    No job is computed without an end that may be left.
    """
    if checks is Checks.NONE:
        return Errand(job_id, checks)
    left = count_left(job, block, joins_late=checks is not Checks.ALL)
    is_joined = checks is not Checks.COST
    until = time.monotonic() + settings.block_seconds * left if is_joined else inf
    worth = job.reward_wei / (job.terms.steps * max(1, job.terms.operators))
    return Errand(job_id, checks, worth, settings.most_hours * HOUR_S, until)


class Workshop:
    """Computes jobs in another process; a context manager that ends it.

    One job is computed at a time: first what a claim needs that is made, then what pays most for
    what it costs. A job that is computed gives way at once to what has to be, and goes on later
    from its last checkpoint. It gives way to nothing else: whoever posts jobs that seem to pay
    better would keep it from ever coming to its end.

    Args:
        settings: what the party was told.
        tell: takes the events of that process, in a thread of its own.
    """

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._waiting: list[Errand] = []
        self._current: Errand | None = None
        self._began = 0.0
        self._deaths: Counter[int] = Counter()
        self._process: subprocess.Popen[str] | None = None
        self._results: SimpleQueue[tuple[int, Result | None]] = SimpleQueue()

    def __enter__(self) -> Self:
        self._process = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end_by_input(self._process, END_S)

    def submit(self, errand: Errand) -> None:
        """Check and compute a job once those that go before it are done."""
        self._waiting.append(errand)
        current = self._current
        if current is not None and current.rank < errand.rank == inf:
            self._waiting.append(replace(current, spent_s=self._measure()))
            self._stop()
        self._ask()

    def cancel(self, job_id: int) -> None:
        """Have no more to do with a job."""
        self._waiting = [it for it in self._waiting if it.job_id != job_id]
        if self._current is not None and self._current.job_id == job_id:
            self._stop()
            self._ask()

    def collect(self) -> list[Result]:
        """Return what has come of jobs since the last call, and give up what takes too long."""
        results: list[Result] = []
        with suppress(Empty):
            while True:
                pid, result = self._results.get_nowait()
                if self._process is None or pid != self._process.pid:
                    continue  # it was ended before
                found = result or self._bury()
                if found is not None:
                    results.append(found)
                self._current = None
        results += self._give_up()
        return results

    def _give_up(self) -> Iterator[Result]:
        """End what takes too long or is too late, and yield that; then begin what is next."""
        now = time.monotonic()
        if self._current is not None:
            current = replace(self._current, spent_s=self._measure())
            if problem := current.find_end(now):
                self._stop()
                yield Result(current.job_id, problem, is_final=True)
        for errand in [*self._waiting]:
            if problem := errand.find_end(now):
                self._waiting.remove(errand)
                yield Result(errand.job_id, problem, is_final=True)
        self._ask()

    def _measure(self) -> float:
        """Return for how many seconds the current job was computed."""
        assert self._current is not None
        return self._current.spent_s + time.monotonic() - self._began

    def _stop(self) -> None:
        """End the process, whatever it is at."""
        self._current = None
        if self._process is not None:
            self._process.kill()
            end_by_input(self._process, END_S)
            self._process = None

    def _bury(self) -> Result | None:
        """Give up the process, which says nothing more, and return what that means for its job."""
        assert self._process is not None
        end_by_input(self._process, END_S)
        status, self._process = self._process.returncode, None
        if self._current is None:
            return None
        job_id, checks = self._current.job_id, self._current.checks
        self._deaths[job_id] += 1
        is_final = checks is not Checks.NONE and self._deaths[job_id] >= MOST_DEATHS
        problem = f"the process that computes has ended with status {status}"
        return Result(job_id, problem, is_final=is_final)

    def _ask(self) -> None:
        """Let the process compute the job that is worth most, if it has nothing to do."""
        if self._current is not None or not self._waiting:
            return
        if self._process is None:
            self._process = self._start()
        self._current = max(self._waiting, key=lambda it: it.rank)  # the first of equals
        self._waiting.remove(self._current)
        self._began = time.monotonic()
        tell(self._process, (self._current.job_id, self._current.checks))

    def _start(self) -> "subprocess.Popen[str]":
        process = start(WORKER)
        assert process.stdout is not None
        told = process.pid, process.stdout
        threading.Thread(target=self._listen, args=told, daemon=True).start()
        tell(process, asdict(self._settings))
        return process

    def _listen(self, pid: int, lines: IO[str]) -> None:
        try:
            with lines:
                for line in lines:
                    self._take(pid, json.loads(line))
        finally:  # whatever ends this: nobody waits for a process that is not heard any more
            self._results.put((pid, None))

    def _take(self, pid: int, about: dict[str, Any]) -> None:
        event, text = about.pop("event"), about.pop("line")
        if event == DONE:
            lack = decode_lack(about["missing"])
            found = Result(about["job"], about["problem"], about["is_final"], lack)
            self._results.put((pid, found))
        else:
            self._tell(event, text, **about)


def encode_lack(lack: Lack) -> dict[str, Any]:
    """Return what is lacking of a job, as JSON has it between two processes."""
    tensors = [
        (*where, it.header.hex(), it.top.hex(), [node.hex() for node in it.proof])
        for where, it in lack.tensors.items()
    ]
    return {"places": lack.places, "least": lack.least, "tensors": tensors}


def decode_lack(about: dict[str, Any]) -> Lack:
    """Return what `encode_lack` was given."""
    tensors = {
        (part, index): TensorProof(
            bytes.fromhex(header), bytes.fromhex(top), tuple(map(bytes.fromhex, proof))
        )
        for part, index, header, top, proof in about["tensors"]
    }
    places = tuple((part, index, chunk) for part, index, chunk in about["places"])
    return Lack(places, about["least"], tensors)
