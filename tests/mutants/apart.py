"""Isolation: a function runs in a child process, whose changes do not reach this one."""

import gc
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

LIMIT_BYTES = 8 << 30


def run_apart(function: Callable[..., Any], *args: Any, seconds: int) -> Any:
    """Return what a function returns in a child of this process; None if the child fails.

    The child is stopped when it has taken so many seconds of a core, or too much memory.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run(writer, function, args, seconds)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return pickle.loads(answer) if answer else None  # noqa: S301 - our own child has written it


def _run(writer: int, function: Callable[..., Any], args: Any, seconds: int) -> None:
    """Send the answer and end the process at once, without the interpreter's own shutdown."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    gc.disable()
    try:
        answer = pickle.dumps(function(*args))
    except BaseException as error:  # noqa: BLE001 - there is nobody above
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)
    with os.fdopen(writer, "wb") as stream:
        stream.write(answer)
    os._exit(0)
