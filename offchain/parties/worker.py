"""The process in which a party computes, so that another may watch its clocks meanwhile.

It reads lines of JSON: first its settings, then a job at a time. It writes the party's events, and
after each job `done`. It ends when its input does, whatever it is at: it never outlives the party.
"""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from moot.offchain.disputes.availability.demands import Lack
from moot.offchain.disputes.joining.conditions import get_memory
from moot.offchain.errors import MootError
from moot.offchain.parties.computing import GIGABYTE, IncompleteJob, UnwantedJob, compute
from moot.offchain.parties.context import opened_context
from moot.offchain.parties.events import Lines, Tell
from moot.offchain.parties.folder import Folder
from moot.offchain.parties.policy import load_policy
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.workshop import DONE, Checks, encode_lack


def main() -> None:
    """Compute what is asked for until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lines = _read()
    told = next(lines, None)
    if told is None:
        return
    settings = Settings(**told)
    _restrain(settings)
    asked: SimpleQueue[tuple[int, Checks]] = SimpleQueue()
    threading.Thread(target=_listen, args=(lines, asked), daemon=True).start()
    tell = Lines(as_json=True, stream=sys.stdout)
    sys.stdout = sys.stderr  # what a policy prints is no event
    while True:
        job_id, checks = asked.get()
        problem, is_final, lack = "", False, Lack()
        try:
            _compute(settings, tell, job_id, checks)
        except MootError as error:
            problem, is_final = str(error), isinstance(error, UnwantedJob)
            if isinstance(error, IncompleteJob):
                lack = error.lack
        about: dict[str, object] = {"problem": problem, "is_final": is_final}
        about |= {"missing": encode_lack(lack)}
        tell(DONE, problem, job=job_id, **about)


def _restrain(settings: Settings) -> None:
    """Take no more memory than is allowed, and leave nothing.

    What this process puts aside is cleared away by the next one, however it ends.
    """
    most = int(settings.most_memory_gb * GIGABYTE) or get_memory()
    with suppress(ValueError, OSError):  # it is above what the system allows: then that holds
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    if Path(settings.folder).is_dir():
        scratch = Path(settings.folder) / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        with suppress(OSError):
            scratch.mkdir()
            tempfile.tempdir = str(scratch)


def _read() -> Iterator[Any]:
    """Yield what is asked for; a line that the death of its writer has cut is the end."""
    for line in sys.stdin:
        if line.endswith("\n"):
            yield json.loads(line)


def _listen(lines: Iterator[Any], asked: "SimpleQueue[tuple[int, Checks]]") -> None:
    for job_id, checks in lines:
        asked.put((int(job_id), Checks(checks)))
    os._exit(0)


def _compute(settings: Settings, tell: Tell, job_id: int, checks: Checks) -> None:
    with opened_context(settings, tell, signs=False) as context:
        folder = Folder(context.folder, context.chain, context.referee.address)
        policy = load_policy(settings.policy)
        compute(context, policy, job_id, folder, checks)


if __name__ == "__main__":
    main()
