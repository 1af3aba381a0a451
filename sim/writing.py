"""Files that appear whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.offchain.errors import CannotWrite, UsageError
from moot.offchain.files import replacing


def write_whole(path: Path, text: str) -> None:
    """Write a file aside, and give it its name when it is complete; a device is written as it is.

    Raises:
        CannotWrite: the operating system refuses. The file is then as it was before.
    """
    with reporting(path):
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", newline="")
            return
        with replacing(path) as draft:
            draft.write_text(text, encoding="utf-8", newline="")


def open_lines(path: Path, head: bytes, refusal: str) -> list[bytes]:
    """Return the lines after the first of a file that grows by lines; begin it if there is none.

    A last line without its end, whose writer was killed, is taken away.

    Args:
        path: of the file.
        head: its first line, which says what it is about.
        refusal: is said where another file is there, which is left as it is.

    Raises:
        UsageError: the file has another first line.
        CannotWrite: the operating system refuses.
    """
    with reporting(path):
        written = path.read_bytes() if path.exists() else b""
        whole, end, torn = written.rpartition(b"\n")
        first, *lines = whole.split(b"\n") if end else [b""]
        if first != head if end else not head.startswith(torn):
            raise UsageError(refusal)
        if torn or not end:
            path.write_bytes(whole + end or head + b"\n")
    return lines


@contextmanager
def reporting(path: Path) -> Iterator[None]:
    """Turn an error of the operating system about a file into one line."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror}; choose another place") from error
    except UnicodeError as error:
        raise CannotWrite(f"cannot write {path}: its text is not Unicode") from error
