"""The one-line report of an unexpected exception, which blames the user's file or Moot.

The traceback's frames decide: a user's file is one that belongs neither to Moot, nor to Python,
nor to an installed package.
"""

import linecache
import os
from collections.abc import Iterator
from traceback import walk_tb

from moot.offchain.frontend.neighbours import OURS, is_of_user
from moot.offchain.text import show_error


def explain_user(error: BaseException) -> str | None:
    """Return the line of the user's file that an exception comes from, and what it says.

    None where no such file is to blame: none is on the stack, or we failed inside of what it
    called by torch.
    """
    if isinstance(error, SyntaxError) and error.filename and is_of_user(error.filename):
        return f"{_show(error.filename)}:{error.lineno}: {_quote(error.text)}{_say(error)}"
    frames = list(_list_frames(error))
    users = [k for k, (path, _) in enumerate(frames) if is_of_user(path)]
    if not users:
        return None
    last = users[-1]
    is_called_directly = last + 1 < len(frames) and frames[last + 1][0].startswith(OURS)
    if frames[-1][0].startswith(OURS) and not is_called_directly:
        return None
    path, line = frames[last]
    return f"{_show(path)}:{line}: {_quote(linecache.getline(path, line))}{_say(error)}"


def explain_fault(error: BaseException) -> str:
    """Return the line that says that an exception is a fault of Moot, and where."""
    frames = [frame for frame in _list_frames(error) if frame[0].startswith(OURS)]
    place = f" at {_show(frames[-1][0])}:{frames[-1][1]}" if frames else ""
    return f"this is a fault of moot: {_say(error)}{place}"


def _list_frames(error: BaseException) -> Iterator[tuple[str, int]]:
    for frame, line in walk_tb(error.__traceback__):
        yield frame.f_code.co_filename, line


def _show(path: str) -> str:
    """Return a path as it is shortest to read from here."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def _quote(code: str | None) -> str:
    return f"`{code.strip()}` raised " if code and code.strip() else ""


def _say(error: BaseException) -> str:
    """Return the type of an exception and the first line of its text."""
    name = type(error).__name__
    if isinstance(error, StopIteration):
        return f"{name}: there is no more data; return a batch for every step"
    if isinstance(error, SyntaxError):
        return f"{name}: {error.msg}"
    return show_error(error)
