"""Plugins: classes that are named by a row of a table, or by a user's `path/to/file.py:Class`.

A plugin is a dataclass whose fields are its parameters.
"""

import hashlib
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import is_dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from moot.offchain.errors import UsageError

_PREFIX = "moot_plugin_"
"""What the names of modules begin with that are users' files."""


def forget_files() -> None:
    """Forget the users' files that were run: the next run begins with them as they are on disk.

    What a file remembers outside its objects lasts for one run, and not from one to the next.
    """
    for name in [name for name in sys.modules if name.startswith(_PREFIX)]:
        del sys.modules[name]


def load_class(subject: str, name: object, table: Mapping[str, str]) -> Any:
    """Return the class that a name stands for; users' classes are dataclasses.

    Raises:
        UsageError: there is no such class.
    """
    if not isinstance(name, str):
        raise UsageError(f"the {subject} has no name; choose one of {', '.join(sorted(table))}")
    path, colon, last = name.rpartition(":")
    if name in table:
        module, _, attribute = table[name].rpartition(":")
        return getattr(import_module(module), attribute)
    if not colon or not path.endswith(".py"):
        if name.endswith(".py"):
            raise UsageError(f"{name} is a file; name a class in it, too: {name}:Class")
        raise UsageError.unknown(subject, name, table, "names")
    found = getattr(run_file(Path(path)), last, None)
    if not isinstance(found, type) or not is_dataclass(found):
        raise UsageError(f"{path} has no dataclass {last}; write @dataclass above class {last}")
    return found


def run_file(path: Path) -> ModuleType:
    """Run a user's file as a module, once for a run."""
    name = f"{_PREFIX}{hashlib.sha256(bytes(path.resolve())).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    try:
        with redirect_stdout(sys.stderr):  # what a user's code prints is not our result
            module = execute_file(path, name)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path} can't be run: {' '.join(what.split())}") from error
    if module is None:
        raise UsageError(f"there is no Python file {path}; name one that ends in .py")
    return module


def execute_file(path: Path, name: str) -> ModuleType | None:
    """Execute a file as the module of a name, which it keeps unless it fails; None for no file."""
    location = spec_from_file_location(name, path)
    if location is None or location.loader is None or not path.is_file():
        return None
    module = module_from_spec(location)
    sys.modules[name] = module  # dataclasses look their own module up
    try:
        location.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
