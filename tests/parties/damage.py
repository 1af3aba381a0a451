"""Damage to files, and disks that are full: what happens to what a party keeps."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from moot.offchain.chain.accounts import journal
from moot.offchain.datastore import disk

RESUMED = "resumed"


def cut(content: bytes, random: Random) -> bytes:
    """Return what is left of a file that ends early."""
    return content[: random.randrange(max(1, len(content)))]


def flip(content: bytes, random: Random) -> bytes:
    """Return a file one of whose bits is another."""
    place, bit = random.randrange(len(content)), random.randrange(8)
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed)


def litter(content: bytes, random: Random) -> bytes:
    """Return a file with something behind it, such as a failure of power leaves."""
    count = random.randint(1, 600)
    tail = bytes(count) if random.random() < 0.5 else random.randbytes(count)
    return content + tail


DAMAGES: dict[str, Callable[[bytes, Random], bytes]] = {"cut": cut, "flip": flip, "tail": litter}


def require_one_line(error: Exception) -> str:
    """Return what is said, after a look at its form."""
    text = str(error)
    assert text, "nothing is said"
    assert "\n" not in text, text
    assert text.isprintable(), text
    return f"said: {text[:100]}"


@contextmanager
def full_disk(at: int) -> Iterator[list[int]]:
    """Let the disk be full from one of the writes of this process on; yield how many were tried.

    A write that fails has written a half. What is only renamed or removed needs no room.
    """
    tried = [0]

    def refuse() -> OSError | None:
        tried[0] += 1
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if tried[0] > at else None

    def plain(function: Any) -> Any:
        def tried_first(*args: Any, **options: Any) -> Any:
            if error := refuse():
                raise error
            return function(*args, **options)

        return tried_first

    def half(function: Any, place: int) -> Any:
        def tried_first(*args: Any, **options: Any) -> Any:
            error = refuse()
            if error is None:
                return function(*args, **options)
            data = args[place]
            if isinstance(data, bytes | str):
                function(*args[:place], data[: len(data) // 2], *args[place + 1 :], **options)
            raise error

        return tried_first

    with ExitStack() as stack:
        for name in ("fsync", "mkdir", "link"):
            stack.enter_context(patch.object(os, name, plain(getattr(os, name))))
        stack.enter_context(patch.object(journal, "_write_all", half(journal._write_all, 1)))
        stack.enter_context(patch.object(disk, "write_all", half(disk.write_all, 1)))
        stack.enter_context(patch.object(disk, "write_directly", plain(disk.write_directly)))
        stack.enter_context(patch.object(Path, "write_text", half(Path.write_text, 1)))
        stack.enter_context(patch.object(Path, "write_bytes", half(Path.write_bytes, 1)))
        yield tried
