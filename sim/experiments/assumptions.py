"""Assumptions: where each number that a market begins with comes from, or that it is assumed."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Final

import msgspec

from moot.offchain.errors import UsageError
from moot.offchain.plugins import load_class
from moot.sim.economy.config import RULES, Config, Group, Watchers
from moot.sim.economy.mechanisms.table import MECHANISMS
from moot.sim.economy.strategies.at_rate import AtRate
from moot.sim.economy.strategies.table import AGENTS, WATCHERS
from moot.sim.experiments.presets import list_presets, read_preset

FILE = Path(__file__).with_suffix(".toml")
"""The reasons, by the names of keys."""

BASES: Final = ("sourced", "derived", "neutral", "size", "assumption")
"""What a number can rest on; the page of assumptions says what each word means."""

CHEAT: Final = "CHEAT"
"""Stands for every cheat and trick in the names of keys."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for a default.

    Attributes:
        basis: one of `BASES`.
        why: in words; where it is sourced, with the source.
    """

    basis: str
    why: str


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number that markets begin with.

    Attributes:
        key: its name.
        default: its value where nobody says otherwise; None where each preset has its own.
        presets: the values of presets that have others, by their names.
        reason: why it has these values.
    """

    key: str
    default: float | None
    presets: Mapping[str, str]
    reason: Reason


def list_defaults() -> dict[str, float]:
    """Return every default that is a number, by its key.

    Keys are those of a configuration. Parameters of a rule have its name behind them, and those
    of all groups of providers or watchers a star in place of the strategy.
    """
    found = dict(_list_fields("", msgspec.structs.asdict(Config())))
    for role, kind in (("providers", Group), ("watchers", Watchers)):
        own = {it.name: it.default for it in msgspec.structs.fields(kind)}
        found |= dict(_list_fields(f"{role}.*.", own))
    for rule, rows in MECHANISMS.items():
        for name in rows:
            found |= _list_parameters(load_class(rule, name, rows), f"{rule}.", f" ({name})")
    found |= _list_parameters(AtRate, f"providers.{CHEAT}.", "")
    for role, group in (("providers", AGENTS), ("watchers", WATCHERS)):
        for name, row in group.items():
            strategy = load_class("strategy", name, {name: row.place})
            found |= _list_parameters(strategy, f"{role}.{name}.", "")
    return found


def list_presets_of(key: str, default: float | None) -> dict[str, str]:
    """Return the values that presets give a key in place of its default, by their names."""
    found = {}
    for name in list_presets():
        values = [value for own, value in _list_preset(read_preset(name)) if own == key]
        if values and values != [f"{default:,}"]:
            found[name] = ", ".join(values)
    return found


def list_assumptions() -> list[Assumption]:
    """Return every number that markets begin with, and its reason, in the order of the file.

    Raises:
        UsageError: a number has no reason, or a reason has no number.
    """
    reasons, defaults = read_reasons(FILE), list_defaults()
    named = {key for name in list_presets() for key, _ in _list_preset(read_preset(name))}
    for key in (defaults.keys() | named) - reasons.keys():
        raise UsageError(f"{FILE.name} has no reason for {key}; add a table of its name")
    for key in reasons.keys() - defaults.keys() - named:
        raise UsageError(f"{FILE.name} has a reason for {key}, which no market has; remove it")
    return [
        Assumption(key, defaults.get(key), list_presets_of(key, defaults.get(key)), reason)
        for key, reason in reasons.items()
    ]


def read_reasons(path: Path) -> dict[str, Reason]:
    """Return the reasons of a file, by keys.

    Raises:
        UsageError: a reason rests on nothing that is known, or says nothing.
    """
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    for key, row in rows.items():
        if row["basis"] not in BASES:
            raise UsageError.unknown(f"basis of {key}:", row["basis"], BASES)
        if not row["why"].strip():
            raise UsageError(f"{path.name} does not say why {key} is what it is; fill in `why`")
    return {key: Reason(**row) for key, row in rows.items()}


def _list_fields(place: str, values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a struct's fields, and of the structs inside it."""
    for name, value in values.items():
        if isinstance(value, msgspec.Struct):
            yield from _list_fields(f"{place}{name}.", msgspec.structs.asdict(value))
        elif name in ("providers", "watchers"):
            for group in value:
                yield f"{name}.{group.strategy}.count", group.count
        elif _is_number(value):
            yield f"{place}{name}", value


def _list_parameters(kind: Any, before: str, behind: str) -> dict[str, float]:
    return {
        f"{before}{field.name}{behind}": field.default
        for field in fields(kind)
        if field.init and field.default is not MISSING and _is_number(field.default)
    }


def _list_preset(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the numbers of a preset, as texts, by the keys of `list_defaults`."""
    for name, value in values.items():
        if name in ("providers", "watchers"):
            for group in value:
                yield from _list_group(name, group)
        elif isinstance(value, dict):
            rule = f" ({value['name']})" if name in RULES else ""
            for key, inner in value.items():
                if _is_number(inner):
                    yield f"{name}.{key}{rule}", f"{inner:,}"
        elif _is_number(value):
            yield name, f"{value:,}"


def _list_group(role: str, group: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    strategy = group["strategy"]
    for key, value in group.items():
        if key == "parameters":
            numbers = ((it, own) for it, own in value.items() if _is_number(own))
            yield from ((f"{role}.{strategy}.{it}", f"{own:,}") for it, own in numbers)
        elif _is_number(value):
            yield f"{role}.*.{key}", f"{strategy} {value:,}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
