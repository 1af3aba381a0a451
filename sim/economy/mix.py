"""A mix: how many providers of a market have each strategy, in few words: `honest=3,lazy=1`."""

from collections.abc import Mapping

import msgspec

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config, Group, parse_config, show_config

_DIGITS = 6
"""More than the number of providers that a group can have takes."""


def parse_mix(text: str, providers: int | None = None) -> dict[str, int]:
    """Return how many providers have each strategy, in the order in which they are written.

    Args:
        text: `strategy=count,strategy=count`, each strategy once.
        providers: what the counts have to add up to, if that is given.

    Raises:
        UsageError: a strategy is named twice, or a count does not make sense.
    """
    counts: dict[str, int] = {}
    for piece in (piece.strip() for piece in text.split(",")):
        if piece:
            name, count = _parse_piece(piece)
            if name in counts:
                raise UsageError(f"the mix names {name} twice; give it one count")
            counts[name] = count
    if not counts:
        raise UsageError("the mix names nobody; write honest=3,lazy=1")
    total = sum(counts.values())
    if providers is not None and total != providers:
        raise UsageError(
            f"the mix {text!r} has {total} providers, not {providers}; "
            "change a count or --providers"
        )
    return counts


def _parse_piece(piece: str) -> tuple[str, int]:
    name, equals, digits = piece.rpartition("=")
    if not equals:
        raise UsageError(f"the mix names {piece} without a count; write {piece}=1")
    count = digits.lstrip("0")
    if not (digits.isascii() and digits.isdigit() and count and name):
        raise UsageError(
            f"{piece!r} is not a number of providers; write {name or 'honest'}=1 or more"
        )
    if len(count) > _DIGITS:
        raise UsageError(f"the mix has {count[:_DIGITS]}... providers of {name}; have fewer")
    return name, int(count)


def mix_providers(config: Config, counts: Mapping[str, int]) -> Config:
    """Return a configuration whose providers are those of a mix, and nobody else.

    A strategy that the configuration has keeps what it says of it; others have what the first
    group has, but for its parameters.

    Raises:
        UsageError: a market of these is impossible.
    """
    known = {group.strategy: group for group in config.providers}
    first = config.providers[0]
    groups = [
        msgspec.structs.replace(known[name], count=count)
        if name in known
        else msgspec.structs.replace(first, strategy=name, count=count, parameters={})
        for name, count in counts.items()
    ]
    return parse_config(
        show_config(config) | {"providers": [_show(group) for group in groups]}, "the mix"
    )


def _show(group: Group) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(group)
    return plain
