"""The contents of Python objects: recorded, compared with a record, and restored from it."""

import random
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, MutableMapping, MutableSequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

from moot.offchain.frontend.neighbours import OURS, Neighbourhood, is_of_user
from moot.offchain.text import show

MemoizedFunction = type(lru_cache(int))
"""The class of functions that keep what they have returned, by `functools`."""

_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)
_VALUES = (bool, int, float, str, bytes, type(None))
MAX_OBJECTS = 100_000
"""Objects beyond which no further ones are looked at."""

_LEAVES = (
    *(ModuleType, BuiltinFunctionType, np.ndarray, *_GENERATORS),
    Neighbourhood,
)

_METHODS = (FunctionType, staticmethod, classmethod, property)

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Attributes of a tensor that hold what is called with its gradient."""


@dataclass(frozen=True)
class Globals:
    """The global variables that a function names."""

    variables: dict[str, Any]
    names: tuple[str, ...]

    def read(self) -> dict[str, Any]:
        """Return the variables that there are."""
        return {name: self.variables[name] for name in self.names if name in self.variables}

    def write(self, name: str, value: Any) -> None:
        """Set a variable."""
        self.variables[name] = value

    def restore(self, content: dict[str, Any]) -> None:
        """Put the variables back."""
        self.variables.update(content)


@dataclass(frozen=True)
class Attributes:
    """The attributes of an object that are not in its dictionary: of a class, or in slots."""

    owner: Any

    def read(self) -> dict[str, Any]:
        """Return the attributes that there are, without the methods of a class."""
        if isinstance(self.owner, type):
            found = vars(self.owner).items()
            return {k: v for k, v in found if k[:2] != "__" and not isinstance(v, _METHODS)}
        return {
            k: getattr(self.owner, k) for k in _list_slots(self.owner) if hasattr(self.owner, k)
        }

    def write(self, name: str, value: Any) -> None:
        """Set an attribute."""
        setattr(self.owner, name, value)

    def restore(self, content: dict[str, Any]) -> None:
        """Put the attributes back, and delete those that there were not."""
        for name in [name for name in self.read() if name not in content]:
            delattr(self.owner, name)
        for name, value in content.items():
            self.write(name, value)


def _list_slots(found: Any) -> list[str]:
    """Return the names of an object's slots, where a user has written its class."""
    kinds = [kind for kind in type(found).__mro__ if _is_class_of_user(kind)]
    slots = [vars(kind).get("__slots__", ()) for kind in kinds]
    names = [name for it in slots for name in ([it] if isinstance(it, str) else it)]
    return [name for name in names if name[:2] != "__"]


def _is_class_of_user(kind: type) -> bool:
    """Return whether a user has written a class."""
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return False
    functions = (getattr(it, "__func__", it) for it in vars(kind).values())
    codes = [it.__code__ for it in functions if isinstance(it, FunctionType)]
    if codes:  # those of a dataclass are made of a text
        paths = [code.co_filename for code in codes if code.co_filename[:1] != "<"]
        if paths:
            return any(map(is_of_user, paths))
    return is_of_user(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")


def list_parts(path: str, found: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects that one object consists of, with their paths."""
    if type(found) in _VALUES or isinstance(found, _LEAVES):
        return
    if isinstance(found, torch.Tensor):
        hooks = [dict(getattr(found, it, None) or {}) for it in _HOOKS]
        yield from ((f"{path} hook", hook) for it in hooks for hook in it.values())
        return
    if isinstance(found, type):
        yield from _list_class(path, found)
        return
    yield from _list_contained(path, found)
    if isinstance(found, torch.nn.Module):
        yield path, type(found).forward
    if _is_class_of_user(type(found)):
        yield type(found).__name__, type(found)
        if _list_slots(found):
            yield path, Attributes(found)


def _list_contained(path: str, found: Any) -> Iterator[tuple[str, Any]]:
    """Yield what is in a container, or what a function or an object refers to."""
    if isinstance(found, MutableMapping):
        yield from ((_name_entry(path, key), value) for key, value in found.items())
    elif isinstance(found, (MutableSequence, tuple)):
        yield from ((f"{path}[{k}]", value) for k, value in enumerate(found))
    elif isinstance(found, CellType):
        yield path, read_content(found)
    elif isinstance(found, Globals):
        entries = ((f"{path}.{name}", found.variables[name]) for name in found.names)
        yield from (entry for entry in entries if _is_followed(entry[1]))
    elif isinstance(found, Attributes):
        yield from ((f"{path}.{name}", value) for name, value in found.read().items())
    elif isinstance(found, (MethodType, FunctionType, MemoizedFunction, partial)):
        yield from _list_variables(path, found)
    elif isinstance(found, weakref.ref):
        yield path, found()
    elif isinstance(getattr(found, "__dict__", None), dict) and not _is_of_library(found):
        yield f"{path}.__dict__", found.__dict__


def _list_class(path: str, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the attributes and methods of a class that a user has written, and its bases."""
    if not _is_class_of_user(kind):
        return
    yield path, Attributes(kind)
    for method in vars(kind).values():
        if isinstance(method, _METHODS):
            functions = [getattr(method, name, None) for name in ("__func__", "fget", "fset")]
            yield from ((path, it) for it in (method, *functions) if isinstance(it, FunctionType))
    yield from ((base.__name__, base) for base in kind.__bases__)


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
    if isinstance(found, threading.local):
        return False
    return type(found).__module__.partition(".")[0] in sys.stdlib_module_names


def _is_plain(found: Any) -> bool:
    """Return whether a global variable is data, not a part of some module's machinery."""
    if isinstance(found, MutableMapping):
        found = list(found.values())
    if isinstance(found, (MutableSequence, set)):
        return all(isinstance(part, (*_VALUES, torch.Tensor, np.ndarray)) for part in found)
    return isinstance(found, (torch.Tensor, np.ndarray, Iterator, *_GENERATORS))


def _is_followed(found: Any) -> bool:
    """Return whether a global variable is data, or what a user has written."""
    if isinstance(found, FunctionType):
        return is_of_user(found.__code__.co_filename)
    return _is_plain(found) or _is_class_of_user(found if isinstance(found, type) else type(found))


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
    yield f"{path}.__dict__", function.__dict__
    names = [name for code in _list_codes(function.__code__) for name in code.co_names]
    kept = [
        name
        for name in dict.fromkeys(names)
        if name in variables
        and (isinstance(variables[name], _VALUES) or _is_followed(variables[name]))
    ]
    yield path, Globals(variables, tuple(kept))


def _list_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of all functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_codes(constant)


def read_content(found: Any) -> Any:
    """Return a copy of the content of an object that can change, or None."""
    content = None
    if isinstance(found, (MutableMapping, MutableSequence, set, np.ndarray)):
        content = found.copy() if hasattr(found, "copy") else None
    elif isinstance(found, tuple):
        content = found
    elif isinstance(found, CellType):
        with suppress(ValueError):  # an empty cell
            content = found.cell_contents
    elif isinstance(found, (Globals, Attributes)):
        content = found.read()
    elif isinstance(found, _GENERATORS):
        content = _read_generator(found)
    return content


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
    elif isinstance(found, deque):
        found.clear()
        found.extend(content)
    elif isinstance(found, MutableSequence):
        found[:] = content
    elif isinstance(found, CellType):
        found.cell_contents = content
    elif isinstance(found, (Globals, Attributes)):
        found.restore(content)
    elif isinstance(found, _GENERATORS):
        _write_generator(found, content)
    else:
        found.clear()
        found.update(content)


def _write_generator(found: Any, content: Any) -> None:
    if isinstance(found, random.Random):
        found.setstate(content)
    elif isinstance(found, np.random.Generator):
        found.bit_generator.state = content
    else:
        found.set_state(content)


def list_changes(path: str, found: Any, before: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of an object that are not what they were: path, value before, value now."""
    now = read_content(found)
    if isinstance(found, (np.ndarray, *_GENERATORS)):
        if not _is_equal(now, before):
            yield path, before, now
    elif isinstance(found, (MutableMapping, Globals, Attributes)):
        for key in {**before, **now}:
            if now.get(key) is not before.get(key):
                yield _name_part(path, found, key), before.get(key), now.get(key)
    elif isinstance(found, MutableSequence) and len(now) == len(before):
        pairs = enumerate(zip(before, now, strict=True))
        yield from ((f"{path}[{k}]", old, new) for k, (old, new) in pairs if old is not new)
    elif isinstance(found, CellType):
        if now is not before:
            yield path, before, now
    elif now is not before and now != before:
        yield path, before, now


class Part(NamedTuple):
    """A part of an object.

    Attributes:
        path: how it is reached.
        holder: the object.
        key: by which the object has it; None where it is the whole content.
        value: the part.
    """

    path: str
    holder: Any
    key: Any
    value: Any


def split_content(path: str, found: Any, content: Any) -> Iterator[Part]:
    """Yield the content of a container or an array as a whole, and each part of an object."""
    if isinstance(found, (MutableMapping, MutableSequence, set, np.ndarray)):
        yield Part(path, found, None, content)
    if isinstance(found, CellType):
        yield Part(path, found, "cell_contents", content)
    elif isinstance(found, (MutableSequence, tuple)):
        yield from (Part(f"{path}[{k}]", found, k, it) for k, it in enumerate(content))
    elif isinstance(found, (MutableMapping, Globals, Attributes)):
        for key, value in content.items():
            yield Part(_name_part(path, found, key), found, key, value)


def write_part(found: Any, key: Any, value: Any) -> None:
    """Set a part of an object that can be set."""
    if isinstance(found, (Globals, Attributes)):
        found.write(key, value)
    elif isinstance(found, CellType):
        found.cell_contents = value
    else:
        found[key] = value


def _name_part(path: str, found: Any, key: Any) -> str:
    is_named = isinstance(found, (Globals, Attributes))
    return f"{path}.{key}" if is_named else _name_entry(path, key)


def _is_equal(a: Any, b: Any) -> bool:
    """Return whether two states of a generator, or two arrays, are equal."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_is_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(_is_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)
