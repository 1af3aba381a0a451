"""Faults of torch where it traces a step, in one line each.

Where the user's own code is on the stack the exception is the user's to read, as Python raised it;
where ours is, it is a bug.
"""

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from offchain.errors import CaptureError, MootError
from offchain.frontend.neighbours import is_of_user

_MOST_LETTERS = 200
_ADDRESS = re.compile(r"<(?:[\w.]*\.)?(\w+) object at 0x[0-9a-f]+>")
_TORCH = str(Path(torch.__file__).parent)
_NOISY = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")
"""Loggers by which torch says what it raises, too."""


@contextmanager
def tracing() -> Iterator[None]:
    """Make one line of what torch raises by itself while it traces a step within.

    Raises:
        CaptureError: torch has raised something, and no line of the user's has called it.
    """
    loggers = [logging.getLogger(name) for name in _NOISY]
    were = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    except MootError:
        raise
    except Exception as error:
        paths = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
        if any(map(is_of_user, paths)) or not paths[-1].startswith(_TORCH):
            raise
        raise CaptureError(
            f"torch can't trace the step: {type(error).__name__}: {clean(str(error))}"
        ) from error
    finally:
        for logger, was in zip(loggers, were, strict=True):
            logger.disabled = was


def clean(text: str) -> str:
    """Return the first line of what an exception says, without addresses in memory."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _ADDRESS.sub(r"a \1", (lines or ["it says nothing more"])[0])[:_MOST_LETTERS]
