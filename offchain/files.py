"""Files that appear whole or not at all, whoever is killed and whenever."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path, aside: Path | None = None, *, is_durable: bool = False) -> Iterator[Path]:
    """Yield the path of a draft, which takes the file's name when the block ends.

    If the block fails, the draft is removed, and the file is as it was before. Several processes
    may do that to one file at once: the last one counts.

    Args:
        path: the file.
        aside: the folder of the draft, on the same disk; the file's own if it is not given.
        is_durable: whether the draft is on the disk before it gets its name, and the name is when
            the block has ended.
    """
    draft = (aside or path.parent) / f".{path.name}.{secrets.token_hex(8)}"
    try:
        yield draft
        if is_durable:
            flush_file(draft)
        draft.replace(path)
        if is_durable:
            flush_file(path.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def making_alone(path: Path) -> Iterator[None]:
    """Wait until no other process or thread makes the same file: the first makes it for all.

    The file's folder is made, too. The lock only saves work: where there can be none, nobody waits.
    """
    lock = path.parent / f".{path.name}.lock"
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            stack.callback(lock.unlink, missing_ok=True)
        yield


@contextmanager
def held_alone(path: Path) -> Iterator[bool]:
    """Hold a file, which is made, while the block runs; yield whether no other process holds it."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it; their names are on the disk when it is done."""
    missing = [it for it in (path, *path.parents) if not it.exists()]
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    for made in missing:
        flush_file(made.parent)


def flush_file(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
