"""What optimizers of users keep: every entry of their states, groups, attributes and closures.

An entry is a place in a dictionary, a list, the attributes of an object or a closure. What an
optimizer refers to is followed through all of these, and through optimizers that it has inside; the
model itself is not followed.
"""

import sys
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from inspect import unwrap
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.optim import Optimizer

from moot.offchain.frontend.memory import get_memory, is_within
from moot.offchain.frontend.subject import Subject

Kept = dict[str, Any]
"""Name in the state of a program -> what an optimizer keeps under it."""

ROOT = "optimizer"
"""What the names of entries begin with."""

MEMBERS = "params"
"""The option of a group that has its parameters."""

MAX_OBJECTS = 100_000
"""Objects beyond which no further ones are looked into."""

_OF_TORCH = frozenset({"state", "param_groups", "defaults", "_opt_called"})
"""Attributes of an optimizer that are no entries of its own."""

_SEQUENCES = (list, tuple, deque)
_WRITABLE = (MutableMapping, list, deque, CellType)
_LEAVES = (bool, int, float, str, bytes, type(None), np.number, np.ndarray, set, Tensor)
_CLOSED = (ModuleType, type, BuiltinFunctionType)
"""What has no entries that belong to an optimizer."""


class Entry(NamedTuple):
    """A place where an optimizer keeps something.

    Attributes:
        name: the name that it has in a program's state.
        container: what it is an entry of.
        key: the key, index or None by which it is found there.
        value: what is there now.
    """

    name: str
    container: Any
    key: Any
    value: Any

    def write(self, value: Any) -> None:
        """Put something else there."""
        if isinstance(self.container, CellType):
            self.container.cell_contents = value
        else:
            self.container[self.key] = value


class Snapshot:
    """The entries of optimizers at one time, which can be put back.

    The content of tensors is not recorded: what comes back are the very tensors that were kept.
    """

    def __init__(self, optimizers: Sequence[Optimizer], subject: Subject) -> None:
        reached = [*optimizers, *(it.value for it in _walk(optimizers, subject) if _is_open(it))]
        found = {id(it): it for value in reached for it in _list_containers(value)}
        self._contents = [(it, _read(it)) for it in found.values()]

    def put_back(self) -> None:
        """Put all entries back; what has not changed is not written to."""
        for container, content in self._contents:
            if _is_same(_read(container), content):
                continue
            if isinstance(container, CellType):
                container.cell_contents = content[0]
            elif isinstance(container, MutableMapping):
                container.clear()
                container.update(content)
            else:
                container.clear()
                container.extend(content)


def _is_same(now: Any, before: Any) -> bool:
    """Return whether two copies of a container have the very same things in it."""
    if len(now) != len(before):
        return False
    if isinstance(now, MutableMapping):
        return all(key in now and now[key] is before[key] for key in before)
    return all(a is b for a, b in zip(now, before, strict=True))


def _is_open(entry: Entry) -> bool:
    """Return whether what is in a place is looked into."""
    is_closed = isinstance(entry.value, (*_LEAVES, *_CLOSED))
    return not is_closed and not _is_of_library(entry.value)


def _list_containers(found: Any) -> Iterator[Any]:
    """Yield what one object keeps its entries in, even if there are none."""
    if isinstance(found, Optimizer):
        yield from (found.state, vars(found), *found.param_groups)
    elif isinstance(found, _WRITABLE):
        yield found
    elif isinstance(getattr(found, "__dict__", None), dict):
        yield found.__dict__


def _read(container: Any) -> Any:
    return [*_open(container)] if isinstance(container, CellType) else container.copy()


def list_entries(optimizers: Sequence[Optimizer], subject: Subject) -> list[Entry]:
    """Return the entries that are numbers, texts or tensors, but for those of the model's tensors.

    A tensor that lies in the memory of another entry's has no entry of its own.
    """
    found = {(id(it.container), it.key): it for it in reversed([*_walk(optimizers, subject)])}
    leaves = [it for it in reversed(found.values()) if isinstance(it.value, _LEAVES)]
    known = [*subject.tensors.values()]
    tensors = sorted((it for it in leaves if _is_tensor(it)), key=lambda it: -it.value.numel())
    own: set[int] = set()
    for entry in tensors:
        if not any(_lies_in(entry.value, tensor) for tensor in known):
            known.append(entry.value)
            own.add(id(entry))
    return [it for it in leaves if not _is_tensor(it) or id(it) in own]


def _is_tensor(entry: Entry) -> bool:
    return isinstance(entry.value, Tensor)


def _lies_in(inner: Tensor, outer: Tensor) -> bool:
    return inner is outer or (
        bool(inner.numel()) and get_memory(inner) == get_memory(outer) and is_within(inner, outer)
    )


def list_kept(optimizers: Sequence[Optimizer], subject: Subject) -> Kept:
    """Return all that optimizers keep, by the names that it has in a program's state."""
    return {entry.name: entry.value for entry in list_entries(optimizers, subject)}


def list_groups(optimizers: Sequence[Optimizer], subject: Subject) -> list[dict[str, Any]]:
    """Return the groups of optimizers, and of those that they have inside."""
    inside = [it.value for it in _walk(optimizers, subject) if isinstance(it.value, Optimizer)]
    found = {id(group): group for it in (*optimizers, *inside) for group in it.param_groups}
    return list(found.values())


def _walk(optimizers: Sequence[Optimizer], subject: Subject) -> Iterator[Entry]:
    """Yield the entries of all that optimizers reach; a name that is taken gets a number."""
    names = subject.owners
    seen = {id(module) for module in subject.model.modules()}
    used: dict[str, int] = {}
    pending: deque[tuple[str, Any]] = deque()
    for index, optimizer in enumerate(optimizers):
        pending.append((f"{ROOT}.{index}" if len(optimizers) > 1 else ROOT, optimizer))
    tops = {id(optimizer) for optimizer in optimizers}
    while pending and len(seen) < MAX_OBJECTS:
        path, found = pending.popleft()
        if id(found) in seen:
            continue
        seen.add(id(found))
        for place, container, key, value in _list_parts(found):
            name = f"{path}.{_name(key if place is None else place, names)}".rstrip(".")
            if place is None and isinstance(found, Optimizer) and id(found) in tops:
                name = f"{ROOT}.{names[id(key)]}" if id(key) in names else name
            if isinstance(value, _LEAVES):
                used[name] = used.get(name, 0) + 1
                name = name if used[name] == 1 else f"{name}.{used[name]}"
            entry = Entry(name, container, key, value)
            if _is_open(entry):
                pending.append((name, value))
            yield entry


def _list_parts(found: Any) -> Iterator[tuple[str | None, Any, Any, Any]]:
    """Yield the entries of one object: their names, or None for the key, and what `Entry` has."""
    if isinstance(found, Optimizer):
        yield from ((None, found.state, key, value) for key, value in found.state.items())
        for number, group in enumerate(found.param_groups):
            yield from (
                (f"group{number}.{k}", group, k, v) for k, v in group.items() if k != MEMBERS
            )
        others = {k: v for k, v in vars(found).items() if k not in _OF_TORCH}
        yield from ((None, vars(found), key, value) for key, value in others.items())
        yield from (("", (), None, function) for function in list_functions(found))
    elif isinstance(found, Mapping):
        yield from ((None, found, key, value) for key, value in found.items())
    elif isinstance(found, _SEQUENCES):
        yield from ((None, found, k, value) for k, value in enumerate(found))
    elif isinstance(found, CellType):
        yield from (("", found, None, value) for value in _open(found))
    elif isinstance(found, FunctionType):
        cells = zip(found.__code__.co_freevars, found.__closure__ or (), strict=True)
        yield from ((name, (), None, cell) for name, cell in cells)
    elif isinstance(found, (MethodType, partial)):
        parts = ("__self__", "__func__", "func", "args", "keywords")
        yield from (("", (), None, getattr(found, it)) for it in parts if hasattr(found, it))
    elif isinstance(getattr(found, "__dict__", None), dict):
        yield from ((None, found.__dict__, key, value) for key, value in found.__dict__.items())


def list_functions(optimizer: Optimizer) -> list[FunctionType]:
    """Return the functions of an optimizer's class and of its bases, but for torch's."""
    kinds = [kind for kind in type(optimizer).__mro__ if not kind.__module__.startswith("torch.")]
    values = [value for kind in kinds for value in vars(kind).values()]
    found = [unwrap(getattr(value, "__func__", value)) for value in values if callable(value)]
    return [it for it in found if isinstance(it, FunctionType)]


def _open(cell: CellType) -> Iterator[Any]:
    """Yield what a cell holds, unless it is empty."""
    try:
        yield cell.cell_contents
    except ValueError:
        return


def _is_of_library(found: Any) -> bool:
    """Return whether an object is of a class of Python's own library: a thread, a logger."""
    is_followed = isinstance(found, (Mapping, *_SEQUENCES, CellType, FunctionType, MethodType))
    is_known = type(found).__module__.partition(".")[0] in sys.stdlib_module_names
    return is_known and not is_followed and not isinstance(found, partial)


def _name(key: Any, names: Mapping[int, str]) -> str:
    """Return a key as a part of a name: a parameter's is its own."""
    if id(key) in names:
        return names[id(key)]
    return str(key) if isinstance(key, (str, int)) else type(key).__name__
