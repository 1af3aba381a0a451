"""Which strategies a market has, and how many providers follow each: `honest=3,lazy=1`."""

from dataclasses import dataclass

from moot.offchain.errors import UsageError
from moot.sim.strategies import find_strategy

MIN_PROVIDERS = 2
"""One provider alone is never checked."""


MAX_PROVIDERS = 1_000
"""More than the chains have accounts for, on which a market is played."""


@dataclass(frozen=True, slots=True)
class Group:
    """A number of providers with one strategy."""

    strategy: str
    count: int


def parse_mix(text: str, providers: int | None = None) -> tuple[Group, ...]:
    """Return the groups of a mix, in the order in which they are written.

    Args:
        text: `strategy=count,strategy=count`, each strategy once.
        providers: what the counts have to add up to, if that is given.

    Raises:
        UsageError: a strategy is unknown or named twice, or a count does not make sense.
    """
    groups = tuple(_parse_group(piece.strip()) for piece in text.split(",") if piece.strip())
    names = [group.strategy for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the mix names {name} twice; give it one count")
    total = sum(group.count for group in groups)
    if total > MAX_PROVIDERS:
        raise UsageError(f"a market has at most {MAX_PROVIDERS:,} providers, not {total:,}")
    if providers is not None and total != providers:
        raise UsageError(
            f"the mix {text!r} has {total} providers, not {providers}; "
            "change a count or --providers"
        )
    if total < MIN_PROVIDERS:
        raise UsageError(f"a market has at least {MIN_PROVIDERS} providers, not {total}")
    return groups


def _parse_group(piece: str) -> Group:
    name, equals, digits = piece.partition("=")
    find_strategy(name)
    if not equals:
        raise UsageError(f"the mix names {name} without a count; write {name}=1")
    count = digits.lstrip("0")
    if not (digits.isascii() and digits.isdigit() and count):
        raise UsageError(f"{piece!r} is not a number of providers; write {name}=1 or more")
    if len(count) > len(str(MAX_PROVIDERS)):
        raise UsageError(f"a market has at most {MAX_PROVIDERS:,} providers; {name} has more")
    return Group(name, int(count))
