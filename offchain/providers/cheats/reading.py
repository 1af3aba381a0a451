"""The reading of cheats from text: `name:key=value,key=value`; what is left out is drawn.

The name is one of the catalogue, or `path/to/file.py:Class` of a user's own.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import numpy as np

from moot.offchain.errors import UsageError
from moot.offchain.plugins import load_class
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import ALL_CHEATS
from moot.offchain.providers.cheats.drawing import Draws
from moot.offchain.providers.task import Task

_FILE = re.compile(r"(.*?\.py:\w+)(?::(.*))?", re.DOTALL)
_PLACES = {name: cheat.place for name, cheat in ALL_CHEATS.items()}


def parse_cheat(text: str) -> tuple[str, dict[str, str]]:
    """Split `name:key=value,key=value` and check the names.

    Raises:
        UsageError: there is no such cheat, or it has no such setting.
    """
    own = _FILE.fullmatch(text)
    name, _, rest = text.partition(":") if own is None else (own[1], "", own[2] or "")
    if own is None and name not in ALL_CHEATS:
        raise UsageError.unknown("cheat", name, ("none", *ALL_CHEATS))
    settings = ALL_CHEATS[name].settings if own is None else list_settings(load_cheat(name))
    values: dict[str, str] = {}
    for piece in filter(None, rest.split(",")):
        key, equals, value = piece.partition("=")
        if not equals:
            raise UsageError(f"{piece!r} is not of the form key=value")
        if key not in settings:
            raise UsageError.unknown(f"key of {name}", key, settings)
        if key in values:
            raise UsageError(f"{key} is given twice")
        values[key] = value
    return name, values


def load_cheat(name: str) -> type[Behaviour]:
    """Return the class of a cheat: of the catalogue, or of a user's file.

    Raises:
        UsageError: there is none, or it is no dataclass that inherits from `Behaviour`.
    """
    kind: type[Behaviour] = load_class("cheat", name, _PLACES)
    if not issubclass(kind, Behaviour):
        raise UsageError(f"{name} is no cheat; write class {kind.__name__}(moot.Behaviour)")
    return kind


def list_settings(kind: type[Behaviour]) -> tuple[str, ...]:
    """Return the names of a cheat's settings."""
    return tuple(each.name for each in fields(kind) if each.init)  # type: ignore[arg-type] # a dataclass


def read_cheat(cheat: str | Behaviour) -> Behaviour:
    """Return the cheat of a text, with what is given; one that is held in memory as it is.

    Raises:
        UsageError: there is no such cheat or setting, or a value is not of its type.
    """
    if isinstance(cheat, Behaviour):
        return cheat
    name, texts = parse_cheat(cheat)
    kind = load_cheat(name)
    hints = get_type_hints(kind)
    given = {key: _convert(key, text, hints[key]) for key, text in texts.items()}
    return _make(name, kind, given)


def _make(name: str, kind: type[Behaviour], given: Mapping[str, object]) -> Behaviour:
    try:
        return kind(**given)
    except TypeError as error:  # a setting without a default
        raise UsageError(f"{name} can't be made: {error}; give its fields defaults") from error


def make_cheat(cheat: str | Behaviour, task: Task, rng: np.random.Generator) -> Behaviour:
    """Return the behaviour that a cheat's text asks for, drawing what it leaves out.

    Raises:
        UsageError: there is no such cheat, or the task has no room for it.
    """
    return read_cheat(cheat).draw(Draws(task, rng))


def is_open(cheat: Behaviour) -> bool:
    """Whether a cheat leaves something to be drawn."""
    known: Mapping[str, Any] = getattr(cheat, "__dataclass_fields__", {})
    return any(getattr(cheat, key) is None for key, each in known.items() if each.init)


def _convert(key: str, text: str, hint: Any) -> object:
    """Return a value of the type that a field has."""
    kinds = get_args(hint) or (hint,)
    if str in kinds:
        return text
    if bytes in kinds:
        return _read(bytes.fromhex, f"{key}={text} is not hexadecimal", text)
    if bool in kinds:
        return _read({"true": True, "false": False}.__getitem__, f"{key}={text} is not true", text)
    if float in kinds:
        return _read(float, f"{key}={text} is not a number", text)
    return _read(int, f"{key}={text} is not a whole number", text)


def _read(convert: Any, problem: str, text: str) -> object:
    try:
        return convert(text)
    except (ValueError, KeyError):
        raise UsageError(problem) from None
