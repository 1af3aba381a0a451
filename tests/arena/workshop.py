"""The process that computes a provider's jobs, simulated: the shipped checks, at a drawn cost."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from moot.contracts.model.types import Terms
from moot.offchain import children
from moot.offchain.disputes.availability.demands import Lack
from moot.offchain.disputes.joining.conditions import Finding
from moot.offchain.errors import MootError
from moot.offchain.parties import computing, workshop
from moot.offchain.parties.computing import IncompleteJob, UnwantedJob
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.folder import Folder
from moot.offchain.parties.policy import Policy
from moot.offchain.parties.workshop import DONE, Checks, encode_lack
from tests.arena.clock import Clock
from tests.arena.jobs import Work, WorkingRun, cut_task, get_task

PIDS = count(1)
FindWork = Callable[[Terms], Work]


class Process:
    """A process that computes one job after another; stands for `subprocess.Popen`.

    Args:
        shop: where it works.
    """

    def __init__(self, shop: "Shop") -> None:
        self._shop, self._is_told = shop, False
        self.stdin = self.stdout = self
        self.returncode: int | None = None
        self.pid = next(PIDS)
        self.listen: Callable[[dict[str, Any]], None] = lambda _: None
        self.die: Callable[[], None] = lambda: None

    def write(self, line: str) -> None:
        """Take a line of what is asked for; the first are the settings."""
        if self._is_told:
            job_id, checks = json.loads(line)
            self._shop.begin(self, job_id, Checks(checks))
        self._is_told = True

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End."""
        self._end(0)

    def kill(self) -> None:
        """End."""
        self._end(-9)

    def _end(self, status: int) -> None:
        if self.returncode is None:
            self.returncode = status
            self._shop.stop(self)

    def poll(self) -> int | None:
        """Return the status if it has ended."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        """Return the status."""
        del timeout
        return self.returncode


class Shop:
    """A workshop's processes, on a simulated clock.

    Args:
        clock: the clock.
        find_work: returns what a job's program costs, by its terms.
        open_context: returns a context of the process's own.

    Attributes:
        spent_s: seconds that each job has been computed for.
        missing: parts that its store does not have, by job.
    """

    def __init__(
        self, clock: Clock, find_work: FindWork, open_context: Callable[[], PartyContext]
    ) -> None:
        self._clock, self._find_work, self._open_context = clock, find_work, open_context
        self._running: tuple[Process | None, int, float] = None, -1, 0.0
        self.spent_s: dict[int, float] = {}
        self.missing: dict[int, list[Any]] = {}

    def stop(self, process: Process) -> None:
        """Count what a process has worked that has ended or is done with a job."""
        if self._running[0] is process:
            _, job_id, started = self._running
            self.spent_s[job_id] += self._clock.now - started
            self._running = None, -1, 0.0

    def begin(self, process: Process, job_id: int, checks: Checks) -> None:
        """Find out what a job comes to, and let that be known once its time has passed."""
        context = self._open_context()
        before = self._clock.work
        with tempfile.TemporaryDirectory(dir=context.folder) as scratch:
            silent = replace(context, tell=lambda *_, **__: None)
            answer = self._try(silent, Path(scratch), job_id, checks)
        seconds = self._clock.work - before
        self._clock.work = before
        started = self._clock.now
        self.spent_s.setdefault(job_id, 0.0)

        def end() -> None:
            if process.returncode is not None:
                return
            self.stop(process)
            if answer is None:
                process.returncode = 1
                process.die()
                return
            if not answer["problem"]:
                with self._pieces(context, job_id):
                    before = self._clock.work
                    self._compute(context, context.folder, job_id, Checks.NONE)
                    self._clock.work = before
            process.listen({"event": DONE, "line": "", "job": job_id, **answer})

        self._running = process, job_id, started
        self._clock.schedule(seconds, end)

    @property
    def is_running(self) -> bool:
        """Whether a process computes a job."""
        return self._running[0] is not None

    def count_seconds(self, job_id: int) -> float:
        """Return for how long a job has been computed so far."""
        _, running, started = self._running
        is_on = self.is_running and running == job_id
        return self.spent_s.get(job_id, 0.0) + (self._clock.now - started if is_on else 0.0)

    def _try(
        self, context: PartyContext, folder: Path, job_id: int, checks: Checks
    ) -> dict[str, Any] | None:
        """Check and compute a job in a folder that nobody keeps; None if that ends the process."""
        problem, is_final, lack = "", False, Lack()
        try:
            with self._pieces(context, job_id):
                self._compute(context, folder, job_id, checks)
        except MootError as error:
            problem, is_final = str(error), isinstance(error, UnwantedJob)
            if isinstance(error, IncompleteJob):
                lack = error.lack
        except Exception:  # noqa: BLE001 - whatever it is, it ends the process alone
            return None
        about = {"problem": problem, "is_final": is_final}
        return about | {"missing": json.loads(json.dumps(encode_lack(lack)))}

    def _compute(self, context: PartyContext, path: Path, job_id: int, checks: Checks) -> None:
        folder = Folder(path, context.chain, context.referee.address)
        computing.compute(context, Policy(), job_id, folder, checks)

    @contextmanager
    def _pieces(self, context: PartyContext, job_id: int) -> Iterator[None]:
        """Let the shipped checks and the run be of a synthetic job."""
        work = self._find_work(context.referee.job(job_id).terms)
        task = get_task(work.size)

        def spend(seconds: float) -> None:
            self._clock.work += seconds

        def get(*_: object) -> Any:
            if self.missing.get(job_id):
                lack = Lack(self.missing[job_id], len(self.missing[job_id]))
                raise IncompleteJob("it may be demanded", lack)
            return task

        def cut(_program: object, _agreed: object, steps: int) -> Any:
            return cut_task(work.size, steps)

        def run(trial: Any, *_: object, **__: object) -> WorkingRun:
            return WorkingRun(work, spend, trial.steps)

        checks: Mapping[str, Any] = {
            "compare_codes": lambda *_: [],
            "encode_program": lambda _: b"",
            "decode_program": lambda _: task.program,
            "_find_misfit": lambda *_: None,
            "_find_wrong_batch": lambda *_: None,
            "estimate_timing": lambda *_, **__: work.timing,
            "_check_leaves": lambda *_, **__: Finding("leaves", None),
            "_make_task": cut,
            "Run": run,
            "Store": lambda *_, **__: None,
        }
        with ExitStack() as stack:
            for name, piece in checks.items():
                stack.enter_context(
                    patch(f"moot.offchain.disputes.joining.job_check.{name}", piece)
                )
            timing = checks["estimate_timing"]
            stack.enter_context(
                patch("moot.offchain.disputes.joining.conditions.estimate_timing", timing)
            )
            stack.enter_context(patch.object(computing, "get_program", lambda *_: task.program))
            stack.enter_context(patch.object(computing, "_get_task", get))
            made = patch.object(computing, "make_run", lambda *_: _computed(work, spend))
            stack.enter_context(made)
            yield


def _computed(work: Work, spend: Callable[[float], None]) -> WorkingRun:
    run = WorkingRun(work, spend)
    run.compute()
    return run


@contextmanager
def simulated(shop: Shop) -> Iterator[None]:
    """Let workshops start simulated processes, and listen to them without threads."""

    def start(*_: object, **__: object) -> Process:
        return Process(shop)

    class Thread:
        """A thread that listens to a process; stands for `threading.Thread`."""

        def __init__(self, target: Any, args: Any, **_: object) -> None:
            pid, process = args
            shop = target.__self__
            process.listen = lambda about: shop._take(pid, about)
            process.die = lambda: shop._results.put((pid, None))

        def start(self) -> None:
            """Do nothing."""

    names = SimpleNamespace(Popen=start, PIPE=-1, TimeoutExpired=TimeoutError)
    with (
        patch.object(children, "subprocess", names),
        patch.object(workshop, "threading", SimpleNamespace(Thread=Thread)),
    ):
        yield


__all__ = ["Process", "Shop", "simulated"]
