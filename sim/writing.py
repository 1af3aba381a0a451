"""Files that appear whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.offchain.errors import CannotWrite
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


@contextmanager
def reporting(path: Path) -> Iterator[None]:
    """Turn an error of the operating system about a file into one line."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror}; choose another place") from error
    except UnicodeError as error:
        raise CannotWrite(f"cannot write {path}: its text is not Unicode") from error
