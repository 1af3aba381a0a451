"""The worker's sandbox: limits on memory, time and files, no network and no other programs.

The kernel of the operating system enforces memory, time and the size of files. On Linux it also
gives the process an empty network of its own, where unprivileged user namespaces are allowed. In
any case an audit hook refuses sockets, new programs and signals to others to everything that runs
in Python. What is not closed: the process can read and write what its user can. It runs no code of
a stranger's, only operators, which are data. Memory that is shared with other processes is not
counted, and macOS ignores the limit on memory.
"""

import ctypes
import resource
import signal
import sys
from dataclasses import dataclass

_CLONE_NEWUSER = 0x1000_0000
_CLONE_NEWNET = 0x4000_0000
_PR_SET_NO_NEW_PRIVS = 38

_FILE_BYTES = 1 << 26
"""The largest file that the worker may write: its answer is small, numba's caches are not."""

_REFUSED = (
    *("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.system", "pty."),
    *("os.kill", "os.startfile", "signal.pthread_kill"),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the process, in all.

    Attributes:
        memory_bytes: private writable memory (RLIMIT_DATA).
        cpu_seconds: time of all threads together.
        wall_seconds: time on the clock.
    """

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: float


def enter(limits: Limits) -> None:
    """Lock this process up for good; it must not have started a thread yet."""
    leave_network()
    sys.addaudithook(_refuse)
    _lower(resource.RLIMIT_DATA, limits.memory_bytes)
    _lower(resource.RLIMIT_CPU, limits.cpu_seconds)
    _lower(resource.RLIMIT_FSIZE, _FILE_BYTES)
    _lower(resource.RLIMIT_CORE, 0)
    signal.setitimer(signal.ITIMER_REAL, limits.wall_seconds)


def leave_network() -> bool:
    """Move to a network without interfaces; return whether the system allows it."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0)


def _refuse(event: str, _: object) -> None:
    if event.startswith(_REFUSED):
        raise PermissionError(f"the bounded verifier does not do {event}")


def _lower(limit: int, value: int) -> None:
    """Set both limits; the hard one is one more, so that the soft one's signal is seen."""
    _, hard = resource.getrlimit(limit)
    ceiling = value + 1 if hard == resource.RLIM_INFINITY else min(value + 1, hard)
    resource.setrlimit(limit, (min(value, ceiling), ceiling))
