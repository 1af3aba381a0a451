"""The making of plugins: objects of classes of a table or of a user's file, with parameters.

A plugin is a dataclass whose fields are its parameters.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any, get_type_hints

from moot.offchain.errors import MootError, UsageError
from moot.offchain.plugins import load_class
from moot.sim.economy.limit import Faulted, ask

_held: dict[str, Any] = {}
"""Objects that a caller holds in memory, by the names that a configuration has for them."""


@contextmanager
def holding(objects: Mapping[str, Any]) -> Iterator[None]:
    """Let names stand for objects, of which every agent and rule gets a copy, within a context."""
    _held.update(objects)
    try:
        yield
    finally:
        for name in objects:
            del _held[name]


def is_user(name: str) -> bool:
    """Whether a name stands for code of the user's, in a file or in memory."""
    return ".py:" in name or name in _held


def is_held(name: str) -> bool:
    """Whether a name stands for an object in memory."""
    return name in _held


def make_plugin(
    subject: str,
    name: object,
    table: Mapping[str, str],
    parameters: Mapping[str, str | float | bool],
) -> Any:
    """Return an object of the class that is named, with its parameters.

    Args:
        subject: what it is, for errors.
        name: a key of the table, or `path/to/file.py:Class`.
        table: `module:Class` by name.
        parameters: the values of its fields; those that are left out have their defaults.

    Raises:
        UsageError: there is no such class, or a parameter is unknown or impossible.
    """
    held = _held.get(name) if isinstance(name, str) else None
    kind = load_class(subject, name, table) if held is None else held
    if name in table:
        return _make(subject, name, kind, parameters)
    refusals: list[MootError] = []

    def make() -> Any:
        try:
            return _make(subject, name, kind, parameters)
        except MootError as refusal:
            refusals.append(refusal)

    try:
        made = ask(make)
    except Faulted as fault:
        raise UsageError(f"{name} can't be made: it {fault}") from fault
    if refusals:
        raise refusals[0]
    return made


def _make(
    subject: str, name: object, kind: Any, parameters: Mapping[str, str | float | bool]
) -> Any:
    hints = get_type_hints(kind if isinstance(kind, type) else type(kind))
    known = {field.name: hints[field.name] for field in fields(kind) if field.init}
    checked = {}
    for key, value in parameters.items():
        if key not in known:
            raise UsageError.unknown(f"parameter of the {subject} {name}:", key, known)
        checked[key] = _check_type(f"{subject} {name}: {key}", value, known[key])
    return kind(**checked) if isinstance(kind, type) else replace(deepcopy(kind), **checked)


def _check_type(where: str, value: str | float | bool, kind: object) -> object:  # noqa: FBT001 - a value of TOML
    """Return a value as its field wants it; a whole number will do for any number."""
    if kind is float and type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            raise UsageError(f"{where} is too large a number") from None
    if type(value) is not kind:
        wanted = getattr(kind, "__name__", str(kind))
        raise UsageError(f"{where} is {value!r}, and not a value of type {wanted}")
    return value
