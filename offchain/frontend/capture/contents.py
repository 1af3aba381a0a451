"""The contents of Python objects: recorded, compared with a record, and restored from it."""

import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping, MutableSequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from offchain.frontend.neighbours import OURS, Neighbourhood
from offchain.text import show

MemoizedFunction = type(lru_cache(int))
"""The class of functions that keep what they have returned, by `functools`."""

_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_VALUES = (bool, int, float, str, bytes, type(None))
MAX_OBJECTS = 100_000
"""Objects beyond which no further ones are looked at."""

_LEAVES = (
    *(ModuleType, type, BuiltinFunctionType, np.ndarray, torch.Tensor, *_GENERATORS),
    Neighbourhood,
)


@dataclass(frozen=True)
class Globals:
    """The global variables that a function names."""

    variables: dict[str, Any]
    names: tuple[str, ...]


def list_parts(path: str, found: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that one object consists of, with their paths."""
    if isinstance(found, _LEAVES):
        return
    if isinstance(found, MutableMapping):
        yield from ((_name_entry(path, key), value) for key, value in found.items())
    elif isinstance(found, (MutableSequence, tuple)):
        yield from ((f"{path}[{k}]", value) for k, value in enumerate(found))
    elif isinstance(found, CellType):
        yield path, read_content(found)
    elif isinstance(found, Globals):
        entries = ((f"{path}.{name}", found.variables[name]) for name in found.names)
        yield from (entry for entry in entries if _is_plain(entry[1]))
    elif isinstance(found, (MethodType, FunctionType, MemoizedFunction, partial)):
        yield from _list_variables(path, found)
    elif isinstance(getattr(found, "__dict__", None), dict) and not _is_of_library(found):
        yield f"{path}.__dict__", found.__dict__
    if isinstance(found, torch.nn.Module):
        yield path, type(found).forward


def walk(roots: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield all objects that some consist of, each once, with their paths; MAX_OBJECTS at most."""
    seen: dict[int, Any] = {}
    pending = deque(roots)
    while pending and len(seen) < MAX_OBJECTS:
        path, found = pending.popleft()
        if id(found) not in seen:
            seen[id(found)] = found
            yield path, found
            pending += islice(list_parts(path, found), MAX_OBJECTS)


def _is_of_library(found: Any) -> bool:
    """Return whether an object is of a class of Python's own library: a thread, a logger."""
    return type(found).__module__.partition(".")[0] in sys.stdlib_module_names


def _is_plain(found: Any) -> bool:
    """Return whether a global variable is data, not a part of some module's machinery."""
    if isinstance(found, MutableMapping):
        found = list(found.values())
    if isinstance(found, (MutableSequence, set)):
        return all(isinstance(part, (*_VALUES, torch.Tensor, np.ndarray)) for part in found)
    return isinstance(found, (torch.Tensor, np.ndarray, Iterator, *_GENERATORS))


def _name_entry(path: str, key: Any) -> str:
    """Return the path of a mapping's entry; those of objects and modules are attributes."""
    base, _, last = path.rpartition(".")
    if last in ("__dict__", "_modules", "_parameters", "_buffers"):
        return f"{base}.{key}"
    return f"{path}[{show(key)}]"


def is_equal_data(a: Any, b: Any) -> bool:
    """Return whether two values are plain data of equal types and content."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(is_equal_data, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(is_equal_data(a[key], b[key]) for key in a)
    return isinstance(a, _VALUES) and bool(a == b or (a != a and b != b))  # noqa: PLR0124 - NaN


def _list_variables(path: str, function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables of a function or method that live longer than its calls."""
    if not isinstance(function, FunctionType):
        parts = ("__self__", "__func__", "__wrapped__", "func", "args", "keywords")
        yield from ((path, getattr(function, part)) for part in parts if hasattr(function, part))
        return
    if hasattr(function, "__wrapped__") and function.__code__.co_filename.startswith(OURS):
        yield path, function.__wrapped__  # our own wrapper has no name for the user
        return
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    yield from ((f"{path}.{name}", cell) for name, cell in cells)
    yield f"{path}.__defaults__", function.__defaults__ or ()
    variables = function.__globals__
    names = [name for name in function.__code__.co_names if name in variables]
    kept = [n for n in names if isinstance(variables[n], _VALUES) or _is_plain(variables[n])]
    yield path, Globals(variables, tuple(kept))


def read_content(found: Any) -> Any:
    """Return a copy of the content of an object that can change, or None."""
    if isinstance(found, (MutableMapping, MutableSequence, set, np.ndarray)):
        return found.copy() if hasattr(found, "copy") else None
    if isinstance(found, CellType):
        try:
            return found.cell_contents
        except ValueError:  # an empty cell
            return None
    if isinstance(found, Globals):
        return {name: found.variables[name] for name in found.names}
    return _read_generator(found) if isinstance(found, _GENERATORS) else None


def _read_generator(found: Any) -> Any:
    if isinstance(found, random.Random):
        return found.getstate()
    if isinstance(found, np.random.Generator):
        return found.bit_generator.state
    return found.get_state()


def write_content(found: Any, content: Any) -> None:
    """Put the content of an object back; nothing is written where it has not changed."""
    if not any(True for _ in list_changes("", found, content)):
        return
    if isinstance(found, np.ndarray):
        found[...] = content
    elif isinstance(found, MutableSequence):
        found[:] = content
    elif isinstance(found, CellType):
        found.cell_contents = content
    elif isinstance(found, Globals):
        found.variables.update(content)
    elif isinstance(found, random.Random):
        found.setstate(content)
    elif isinstance(found, np.random.Generator):
        found.bit_generator.state = content
    elif isinstance(found, (np.random.RandomState, torch.Generator)):
        found.set_state(content)
    else:
        found.clear()
        found.update(content)


def list_changes(path: str, found: Any, before: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of an object that are not what they were: path, value before, value now."""
    now = read_content(found)
    if isinstance(found, (np.ndarray, *_GENERATORS)):
        if not _is_equal(now, before):
            yield path, before, now
    elif isinstance(found, (MutableMapping, Globals)):
        for key in {**before, **now}:
            if now.get(key) is not before.get(key):
                name = f"{path}.{key}" if isinstance(found, Globals) else _name_entry(path, key)
                yield name, before.get(key), now.get(key)
    elif isinstance(found, MutableSequence) and len(now) == len(before):
        pairs = enumerate(zip(before, now, strict=True))
        yield from ((f"{path}[{k}]", old, new) for k, (old, new) in pairs if old is not new)
    elif isinstance(found, CellType):
        if now is not before:
            yield path, before, now
    elif now != before:
        yield path, before, now


def _is_equal(a: Any, b: Any) -> bool:
    """Return whether two states of a generator, or two arrays, are equal."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_is_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(_is_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)
