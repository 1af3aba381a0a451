"""Modules beside a user's file, which it imports by their names as a script does.

They are there while the file or what it defines runs, and at no other time: neither the search path
nor the table of modules is left changed, so that two files may have neighbours of one name. What
such code prints goes to stderr meanwhile, since stdout is for what a command has to say.
"""

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

PACKAGE = "moot"
"""The package of Moot, whose name a neighbour can't have."""

_LIBRARIES = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))

OURS = str(Path(__file__).parents[2]) + os.sep
"""What paths of ours begin with."""
_INSTALLED = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
"""Folders of packages, which may be another environment's: the system's, below this one."""


def is_of_user(path: str) -> bool:
    """Return whether a file of code belongs neither to Moot, nor to Python or a package."""
    if not path.endswith(".py") or path.startswith((OURS, *_INSTALLED, "<")):
        return False
    return not any(folder in path for folder in _PACKAGES)


class _Quiet:
    """Standard output, which leads to stderr while any code of a user's runs."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._depth = 0
        self._stdout = sys.stdout

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._stdout, sys.stdout = sys.stdout, sys.stderr

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                sys.stdout = self._stdout


_quiet = _Quiet()


class Neighbourhood:
    """The modules in a directory, importable while one is inside of this context.

    Args:
        directory: where they are.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._lock = RLock()
        self._depth = 0
        self._path: list[str] = []
        self._known: dict[str, ModuleType] = {}
        self._hidden: dict[str, ModuleType] = {}

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                strangers = list(self._list_neighbours(are_here=False))
                self._hidden = {name: sys.modules.pop(name) for name in strangers}
                sys.modules.update(self._known)
                self._path = list(sys.path)
                sys.path.insert(0, str(self._directory))
                _quiet.__enter__()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                _quiet.__exit__()
                sys.path[:] = self._path
                found = list(self._list_neighbours(are_here=True))
                self._known = {name: sys.modules.pop(name) for name in found}
                sys.modules.update(self._hidden)

    def bind(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return a function that runs in this context; what is none stays what it is."""
        if not callable(function) or isinstance(function, type):
            return function

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return call

    def _list_neighbours(self, *, are_here: bool) -> Iterator[str]:
        """Yield the loaded modules of neighbours' names, from here or from elsewhere."""
        names = {path.stem for path in self._directory.glob("*.py")} - {PACKAGE}
        names |= {path.name for path in self._directory.iterdir() if path.is_dir()} - {PACKAGE}
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] not in names or any(_is_in(module, p) for p in _LIBRARIES):
                continue
            if _is_in(module, self._directory) is are_here:
                yield name


def _is_in(module: ModuleType, directory: Path) -> bool:
    """Return whether a module, or a package without a file of its own, is below a directory."""
    file = getattr(module, "__file__", None)
    places = [file] if file else list(getattr(module, "__path__", ()))
    return any(directory in Path(place).resolve().parents for place in places)
