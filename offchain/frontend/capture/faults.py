"""Faults of a recipe's own code, and of torch where it traces that code, in one line each."""

import linecache
import logging
import re
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import offchain
from offchain.errors import CaptureError, MootError

_MOST_LETTERS = 200
_ADDRESS = re.compile(r"<(?:[\w.]*\.)?(\w+) object at 0x[0-9a-f]+>")
_NOT_THE_USERS = tuple(
    str(path)
    for path in (
        Path(torch.__file__).parent,
        Path(offchain.__path__[0]),
        *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    )
)
_NOISY = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
"""Loggers by which torch says what it raises, too."""


@contextmanager
def reported(doing: str) -> Iterator[None]:
    """Make one line of whatever is raised within: what was done, the fault, and the user's line.

    Args:
        doing: what is being done, such as "tracing the step".

    Raises:
        CaptureError: something was raised that is no error of ours.
    """
    loggers = [logging.getLogger(name) for name in _NOISY]
    were = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    except (MootError, MemoryError):
        raise
    except Exception as error:  # whatever the user's code or torch raises
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = _ADDRESS.sub(r"a \1", (lines or ["it says nothing more"])[0])[:_MOST_LETTERS]
        place, line = _find_place(error)
        raise CaptureError(
            f"{doing} stops with {type(error).__name__}: {said}{line}", source_line=place
        ) from error
    finally:
        for logger, was in zip(loggers, were, strict=True):
            logger.disabled = was


def _find_place(error: BaseException) -> tuple[str | None, str]:
    """Return the innermost place in the user's own code, and the words that name its line."""
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = frame.f_code.co_filename
        if not path.startswith((*_NOT_THE_USERS, "<")):
            place = f"{Path(path).name}:{number}"
            return place, f" in {place} {linecache.getline(path, number).strip()}".rstrip()
    return None, ""
