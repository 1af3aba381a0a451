"""Children: processes of our own, and their end."""

import subprocess
from contextlib import suppress


def end_by_input(process: "subprocess.Popen[str]", patience_s: float) -> None:
    """End a process that ends with its input; kill it where it does not in so many seconds."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    wait_or_kill(process, patience_s)


def wait_or_kill(process: "subprocess.Popen[str]", patience_s: float) -> None:
    """Wait for the end of a process that was told to end, and kill it after so many seconds."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
