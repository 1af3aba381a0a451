"""The sliders of a market's page: keys of its configuration, and how far each may go."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from moot.offchain.errors import UsageError
from moot.sim.economy.config import RULES, Config, Group, replace_keys
from moot.sim.economy.mechanisms.table import make_mechanism
from moot.sim.economy.strategies.base import HONEST
from moot.sim.experiments.plan import check_names

MOST = 8
"""Sliders of a page: the first that a market has a use for."""
MOST_AGENTS = 24
"""The agents of a strategy to which a slider goes; further, if a configuration has more."""


@dataclass(frozen=True, slots=True)
class Slider:
    """A slider.

    Attributes:
        key: of the configuration.
        label: what it is, in words.
        unit: of its values.
        low, high: how far it goes.
        step: from one of its places to the next.
        value: where it stands at the beginning.
        is_whole: whether only whole numbers are values.
    """

    key: str
    label: str
    unit: str
    low: float
    high: float
    step: float
    value: float = 0.0
    is_whole: bool = False

    def place(self, value: float) -> "Slider":
        """Return it with a value, which is one of its places and within its ends."""
        low = min(self.low, value)
        low += (value - low) % self.step
        if math.isclose(low - self.low, self.step):  # the rest of a division in binary
            low = self.low
        digits = 9 - math.floor(math.log10(self.step))  # a billionth of a step
        return replace(self, low=round(low, digits), high=max(self.high, value), value=value)

    def check(self, value: float) -> float | int:
        """Return a value for the configuration; raises UsageError if it is none of the slider's."""
        if not self.low <= value <= self.high:  # nor is a number that is none
            raise UsageError(
                f"{self.key} = {value:g} is not on its slider, which goes from {self.low:g} to "
                f"{self.high:g}"
            )
        if not self.is_whole:
            return float(value)
        if value != int(value):
            raise UsageError(f"{self.key} = {value:g} is no whole number; round it")
        return int(value)


KNOBS = (
    Slider("service.sample_rate", "Samples of a receipt", "a block", 0, 0.001, 0.000001),
    Slider("service.stake_eth", "Stake of a receipt", "ETH", 0.0005, 0.2, 0.0005),
    Slider("service.bond_eth", "Standing bond", "ETH", 0.5, 10, 0.5),
    Slider("service.window_blocks", "Window of a receipt", "blocks", 10, 2000, 10, is_whole=True),
    Slider("service.requests_per_block", "Requests", "a block", 1, 100, 1),
    Slider("bond.eth", "Bond", "ETH", 0, 4, 0.05),
    Slider("bond.multiple", "Bond, of the value of a job", "times", 0, 5, 0.1),
    Slider("bond.least_eth", "Least bond", "ETH", 0, 2, 0.05),
    Slider("audit.rate", "Audits", "of jobs", 0, 1, 0.01),
    Slider("chain.spike_factor", "Demand in a spike", "times", 1, 50, 1),
    Slider("chain.fee_cap", "Fee cap", "times", 1, 50, 1),
    Slider("chain.censor_eth", "Price of silence", "ETH a block", 0, 0.2, 0.005),
    Slider("pricing.eth", "Price of a job", "ETH", 0.01, 0.5, 0.01),
    Slider("chain.base_fee_gwei", "Base fee at the start", "gwei", 1, 500, 1),
    Slider("clients.jobs_per_block", "Arrivals", "jobs a block", 0.05, 4, 0.05),
    Slider("clients.gain_share", "Gain of a lie", "times the value", 0, 2, 0.05),
    Slider("entry.per_1000_blocks", "New providers", "in 1,000 blocks", 0, 20, 0.5),
)
"""The keys that have a slider where a market has a use for them, those first that say most."""

_OF_AUCTIONS = ("bond.eth", "bond.multiple", "bond.least_eth", "pricing.eth")
_OF_REQUESTS = ("sample_rate", "stake_eth", "bond_eth", "window_blocks", "requests_per_block")


def _has_auctions(config: Config) -> bool:
    return config.clients.jobs_per_block > 0 or bool(config.clients.arrivals)


def _has_requests(config: Config) -> bool:
    return config.service.requests_per_block > 0


_USES: Mapping[str, Callable[[Config], bool]] = {
    **dict.fromkeys(_OF_AUCTIONS, _has_auctions),
    **{f"service.{name}": _has_requests for name in _OF_REQUESTS},
    "audit.rate": lambda config: (
        _has_auctions(config) and any(group.count for group in config.watchers)
    ),
    "chain.spike_factor": lambda config: config.chain.spike_every > 0,
    "chain.fee_cap": lambda config: config.chain.spike_every > 0,
    "chain.censor_eth": lambda config: any("censor" in it.strategy for it in config.providers),
    "chain.base_fee_gwei": lambda config: not config.chain.base_fees,
    "clients.jobs_per_block": lambda config: (
        config.clients.jobs_per_block > 0 and not config.clients.arrivals
    ),
    "clients.gain_share": lambda config: config.clients.gain_share > 0,
    "entry.per_1000_blocks": lambda config: config.entry.per_1000_blocks > 0,
}
"""Whether a market has a use for a key; for those that are not here, if it has the key."""


def list_sliders(config: Config) -> tuple[Slider, ...]:
    """Return the sliders of a market: those of its rules and its chain, and of its cheats."""
    found = []
    for knob in KNOBS:
        value, is_used = find_value(config, knob.key), _USES.get(knob.key)
        if value is not None and (is_used is None or is_used(config)):
            found.append(knob.place(value))
    cheats = [group for group in config.providers if group.strategy != HONEST]
    counts = [_count(group) for group in cheats]
    most = max(MOST - len(counts), MOST // 2)
    return tuple([*found[:most], *counts][:MOST])


def find_value(config: Config, key: str) -> float | None:
    """Return the number that a key has, of a rule its default where it is not given; or None."""
    first, _, name = key.partition(".")
    values: Any = getattr(config, first)
    if first in RULES:
        values = make_mechanism(first, values)
    found = getattr(values, name, None)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number else None


def move(config: Config, sliders: Iterable[Slider], values: Mapping[str, float]) -> Config:
    """Return a configuration in which keys have the values to which their sliders were moved.

    Raises:
        UsageError: there is no such slider, it does not go so far, or no market is like that.
    """
    known = {slider.key: slider for slider in sliders}
    chosen = {}
    for key, value in values.items():
        if key not in known:
            raise UsageError.unknown("slider", key, known)
        chosen[key] = known[key].check(value)
    moved = replace_keys(config, chosen)
    check_names(moved)
    return moved


def _count(group: Group) -> Slider:
    """Return the slider of how many providers have a strategy; of a user's file, by its class."""
    name = group.strategy.rpartition(":")[2].capitalize()
    key = f"providers.{group.strategy}.count"
    return Slider(key, name, "providers", 0, MOST_AGENTS, 1, is_whole=True).place(group.count)
