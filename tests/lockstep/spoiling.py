"""Calls that are right but for one thing: other values of arguments, of whatever type."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from moot.contracts.model.types import ZERO, Address, Dive, Facts, Position
from moot.contracts.reasons import Phase

Pick = Callable[[Sequence[Any]], Any]
"""Makes a choice: of a seeded generator, or of Hypothesis."""
HUGE = 1 << 255


def spoil(
    pick: Pick, args: tuple[Any, ...], accounts: Sequence[Address], place: int | None = None
) -> tuple[Any, ...]:
    """Return the arguments of a call, of which the one at a place, or at any, is another."""
    place = pick(range(len(args))) if place is None else place
    return (*args[:place], pick(mutate(args[place], accounts)), *args[place + 1 :])


def mutate(value: Any, accounts: Sequence[Address]) -> list[Any]:
    """Return other values of an argument's type; those of an address are among some accounts."""
    if isinstance(value, int):
        return [value ^ 1, HUGE + value]
    if isinstance(value, str):
        return [account for account in accounts if account != value]
    if isinstance(value, bytes):
        return _mutate_bytes(value)
    if is_dataclass(value):
        return _mutate_struct(value, accounts)
    items = tuple(value)
    others = [items[:-1], items + items[:1], items[::-1], items * 60]
    if not items:
        return [(ZERO,)]
    return others + [(*items[:-1], changed) for changed in mutate(items[-1], accounts)]


def _mutate_bytes(value: bytes) -> list[bytes]:
    if not value:
        return [b"\1"]
    flipped = [bytes([value[0] ^ 1]) + value[1:], value[:-1] + bytes([value[-1] ^ 128])]
    return flipped if len(value) == len(ZERO) else [*flipped, value[:-1], value + b"\1"]


def _mutate_struct(value: Any, accounts: Sequence[Address]) -> list[Any]:
    if isinstance(value, Position | Facts):
        return [replace(value, **change) for change in _list_changes(value)]
    names = [entry.name for entry in fields(value)]
    others = [replace(value, **{n: v}) for n in names for v in mutate(getattr(value, n), accounts)]
    if isinstance(value, Dive) and value.nodes:
        others.append(replace(value, node=value.nodes[0]))
    return others


def _list_changes(value: Position | Facts) -> Iterator[dict[str, Any]]:
    """Yield other values of single fields, which fit into the words that they are packed in."""
    for entry in fields(value):
        old = getattr(value, entry.name)
        if isinstance(old, Phase):
            yield {entry.name: Phase(old % max(Phase) + 1)}
        else:
            yield {entry.name: old[::-1] if isinstance(old, tuple) else mutate(old, ())[0]}
