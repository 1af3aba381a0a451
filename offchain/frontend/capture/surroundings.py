"""The surroundings of a recipe: what of its process and its machine a tracing can read.

A process is told apart by the versions of what is installed, by its environment variables, and by
the packages that it has loaded. A process that has loaded code from elsewhere than installed
packages and Moot has no description: it may have put anything in the place of anything, or told
torch whatever it likes.
"""

import hashlib
import os
import platform
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from moot.offchain.frontend.neighbours import OURS

VARIABLES = (
    *("ACCELERATE", "ATEN", "CUDA", "HF_", "HUGGINGFACE", "MKL", "OMP_", "PYTHON", "PYTORCH"),
    *("SYMPY", "TORCH", "TRANSFORMERS", "USE_", "XLA"),
)
"""How the names of the environment variables begin that torch, Python or a library may read."""

OWN = (OURS,)
"""How the paths of our own files begin."""

_INSTALLED = tuple(
    {
        f"{sysconfig.get_path(name)}{os.sep}"
        for name in ("purelib", "platlib", "stdlib", "platstdlib")
    }
)
_MADE = ("cython_runtime", "_cython_", "_remote_module_non_scriptable")
"""How the names of modules begin that Cython's extensions and torch make, from no file."""

_COMMAND = Path(sysconfig.get_path("scripts")) / "moot"


class IndescribableError(Exception):
    """A process has no description; the message says why."""


def describe_process() -> str:
    """Return the hash of all of this process that decides what is traced, but for our sources.

    Raises:
        IndescribableError: it has loaded code that is neither installed nor ours.
    """
    modules = dict(sys.modules)
    stranger = find_stranger(modules)
    if stranger is not None:
        raise IndescribableError(f"{stranger}: its code is neither installed nor Moot's")
    packages = sorted({name.partition(".")[0] for name in modules} - {*sys.stdlib_module_names})
    described = (*_list_settings(), *packages)
    return hashlib.sha256(repr(described).encode()).hexdigest()


def find_stranger(modules: Mapping[str, Any]) -> str | None:
    """Return the name of a module that is neither installed nor ours, if there is one."""
    strangers = (name for name, module in modules.items() if not _is_known(name, module, modules))
    return next(strangers, None)


def _is_known(name: str, module: Any, modules: Mapping[str, Any]) -> bool:
    """Return whether a module is Python's own, or installed, or ours."""
    places = _list_places(module)
    if name in ("__main__", "__mp_main__"):
        return all(p.startswith(OWN) or _is_command(p) for p in places) and bool(places)
    if places:
        return all(place.startswith((*_INSTALLED, *OWN)) for place in places)
    package, _, rest = name.partition(".")
    if rest:  # a part of a package that has made it itself
        return package in modules and _is_known(package, modules[package], modules)
    return package in sys.stdlib_module_names or package.startswith(_MADE)


def _is_command(place: str) -> bool:
    return Path(place).resolve() == _COMMAND.resolve()


def _list_places(module: Any) -> list[str]:
    """Return the file of a module, or the folders of a package without one; nothing is imported."""
    variables = vars(module) if isinstance(module, ModuleType) else {}
    file = variables.get("__file__")
    found = [file] if isinstance(file, str) else list(variables.get("__path__", ()))
    return [it if it.startswith(os.sep) else str(Path(it).absolute()) for it in found]


def _list_settings() -> Iterator[tuple[str, Any]]:
    """Yield versions, and what Python and its environment are told."""
    yield "torch", (torch.__version__, torch.version.git_version)
    yield "python", (sys.version, sys.implementation.name, sys.flags, sys.path)
    yield "machine", (platform.machine(), sys.platform, sys.byteorder)
    yield "devices", (torch.cuda.is_available(), torch.backends.cpu.get_cpu_capability())
    yield "installed", _list_installed()
    yield from sorted((n, value) for n, value in os.environ.items() if n.startswith(VARIABLES))


@cache
def _list_installed() -> tuple[str, ...]:
    """Return the names of what is installed, with the versions in them."""
    folders = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    paths = (path for folder in folders for path in folder.iterdir())
    return tuple(sorted(it.name for it in paths if it.suffix in (".dist-info", ".egg-info")))
