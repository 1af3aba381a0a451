"""Temporary directories for the stores of a job: in memory where they fit, else on disk.

A store waits for the disk after every file, which costs a market of tiny jobs most of its time,
and protects nothing here: a market that is killed starts again.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from moot.offchain.providers.task import Task

MEMORY = Path("/dev/shm")  # noqa: S108 - names within it are made by tempfile
SPARE = 4
"""Memory is used when this many times what the stores need is free."""


@contextmanager
def open_scratch(task: Task, stores: int) -> Iterator[Path]:
    """Give a new directory with room for so many stores of a task, and clear it away afterwards."""
    state_bytes = sum(slot.elements * slot.dtype.width for slot in task.program.state)
    needed_bytes = stores * len(task.checkpoints) * state_bytes
    with open_room(SPARE * needed_bytes) as directory:
        yield directory


@contextmanager
def open_room(needed_bytes: int) -> Iterator[Path]:
    """Give a new directory, in memory where so much is free, and clear it away afterwards."""
    place = MEMORY if has_room(MEMORY, needed_bytes) else None
    with TemporaryDirectory(prefix="moot-", dir=place) as directory:
        yield Path(directory)


def has_room(place: Path, needed_bytes: int) -> bool:
    """Whether a directory is there, may be written to, and has so many bytes free."""
    return os.access(place, os.W_OK) and shutil.disk_usage(place).free >= needed_bytes
