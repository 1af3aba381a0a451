"""What is asked of a simulated market in Python: a configuration, and objects held in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.economy.config import RULES, Config, parse_config, replace_keys, show_config
from moot.sim.economy.mechanisms.table import MECHANISMS
from moot.sim.economy.strategies.table import LISTED
from moot.sim.experiments.presets import open_config
from moot.sim.experiments.values import Varied, parse_values

GROUPS = ("providers", "watchers")
_TAKEN = {name for names in (*MECHANISMS.values(), *LISTED.values()) for name in names}


@dataclass(frozen=True, slots=True)
class Asked:
    """A configuration, and the objects that names in it stand for."""

    config: Config
    held: Mapping[str, Any]


def ask(config: Config | str, values: Mapping[str, Any], settings: Mapping[str, Any]) -> Asked:
    """Return what is asked for.

    Args:
        config: a preset, a file or a configuration.
        values: by dotted keys.
        settings: by keys whose point is a low line.

    Raises:
        UsageError: a key is unknown, or a value impossible.
    """
    opened = open_config(config) if isinstance(config, str) else config
    given = dict(values)
    for key, value in settings.items():
        dotted = _find_key(key)
        if dotted in given:
            raise UsageError(f"{dotted} is given twice")
        given[dotted] = value
    held: dict[str, Any] = {}
    groups = {key: _list_groups(key, given.pop(key), held) for key in GROUPS if key in given}
    plain = {}
    for key, value in given.items():
        if key in RULES:
            plain[f"{key}.name"] = _name(value, held)
        else:
            plain[key] = value
    replaced = replace_keys(opened, plain)
    if groups:
        replaced = parse_config(show_config(replaced) | groups, "the market")
    return Asked(replaced, held)


def _find_key(key: str) -> str:
    """Return the dotted key of a word of Python: `bond_eth` is `bond.eth`, and `jobs` is itself."""
    names = Config.__struct_fields__
    first, low_line, rest = key.partition("_")
    if key in names or not low_line or first not in names:
        return key
    return f"{first}.{rest}"


def _list_groups(key: str, groups: Any, held: dict[str, Any]) -> list[dict[str, Any]]:
    """Return groups of agents as a configuration has them."""
    pairs = list(groups.items()) if isinstance(groups, Mapping) else list(groups)
    listed = []
    for pair in pairs:
        if isinstance(pair, Mapping):
            listed.append({**pair, "strategy": _name(pair.get("strategy"), held)})
        elif isinstance(pair, tuple) and len(pair) == 2:
            listed.append({"strategy": _name(pair[0], held), "count": pair[1]})
        else:
            raise UsageError(f"{key}: {pair!r} is no pair of a strategy and a count")
    return listed


def _name(value: Any, held: dict[str, Any]) -> Any:
    """Return a name; of an object, a new one by its class, which then stands for it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, type) or not is_dataclass(value):
        name = getattr(value, "__name__", type(value).__name__)
        raise UsageError(f"{name} is no object of a dataclass; write @dataclass, and {name}()")
    base = type(value).__name__
    name, number = base, 1
    while name in held or name in _TAKEN:
        number += 1
        name = f"{base}-{number}"
    held[name] = value
    return name


def vary(varied: Mapping[str, Sequence[Any] | str]) -> tuple[Varied, ...]:
    """Return the keys of a sweep with the values of each.

    Raises:
        UsageError: a key has no values, or one of them twice.
    """
    found = []
    for key, values in varied.items():
        listed = parse_values(values, key) if isinstance(values, str) else tuple(values)
        if not listed or len(set(map(repr, listed))) < len(listed):
            raise UsageError(f"{key} has no values, or one of them twice")
        for value in listed:
            if not isinstance(value, str | int | float | bool):
                raise UsageError(f"{key}: {value!r} can't be varied; vary names and numbers")
        found.append(Varied(key, listed))
    return tuple(found)
