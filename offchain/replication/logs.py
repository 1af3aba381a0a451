"""The replication by a log: a trainer writes one for each step, which an auditor repeats with it.

Both methods do it so (`proven`, `published`); what is in a log, and what an auditor makes of it, is
each method's own.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from moot.offchain.replication.compare import Setting, Step, compare_processes, running
from moot.offchain.replication.orders import Method
from moot.offchain.replication.profiles import Profile


def name_log(folder: Path, step: int) -> Path:
    """Return the file of a step's log."""
    return folder / f"step-{step}.log"


def compare_by_log(
    setting: Setting,
    profiles: Sequence[Profile],
    methods: Sequence[Method],
    folder: Path,
    head_bytes: int = 0,
) -> Iterator[Step]:
    """Train under the first profile and audit under the second, and yield how far both differ.

    Args:
        setting: what is trained.
        profiles: the trainer's, and the auditor's.
        methods: the trainer's, which writes logs to the folder, and the auditor's.
        folder: where the logs are; each is removed after its step.
        head_bytes: the size of a log's head, which is not counted.

    Raises:
        ReplicationError: a process fails; its message says why, for example that a log is refused.
    """
    with running(setting, profiles, methods) as pair:
        for step in range(setting.steps):
            states = []
            for process in pair:
                process.begin()
                states.append(process.finish())
            path = name_log(folder, step)
            log = path.read_bytes()
            path.unlink()
            yield replace(
                compare_processes(step, pair, states),
                log_bytes=len(log) - head_bytes,
                compressed_bytes=len(zlib.compress(log)),
            )
