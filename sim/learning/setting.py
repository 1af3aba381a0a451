"""The setting of an environment: a market, and which groups of it learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from moot.offchain.errors import UsageError
from moot.sim.economy.config import GWEI, Config, replace_keys
from moot.sim.economy.strategies.base import PROVIDER_CONDUCTS, WATCHER_CONDUCTS
from moot.sim.economy.strategies.table import is_learner, make_strategy
from moot.sim.experiments.presets import open_config
from moot.sim.learning.acting import PROVIDERS, WATCHERS, read_conducts

LEARNER = "learner"
"""The name of the group that learns, unless others are named."""

_KNOWN = {"providers": PROVIDER_CONDUCTS, "watchers": WATCHER_CONDUCTS}
_USUAL = {"providers": PROVIDERS, "watchers": WATCHERS}

Learners = Mapping[str, str | Sequence[str]]
"""By the name of a group, the conducts of its actions; none for the usual ones of its role."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of an environment.

    Attributes:
        config: the market.
        conducts: of each learner, by the name of its group, what its actions mean.
        agents: of each learner, by the name that an environment has for it, the name of its group
            and its name in the market.
    """

    config: Config
    conducts: Mapping[str, tuple[str, ...]]
    agents: Mapping[str, tuple[str, str]]

    @property
    def unit_gwei(self) -> float:
        """The unit of rewards: what a usual job is worth."""
        return self.config.clients.value_eth * GWEI


def make_setting(
    config: Config | str, learners: Learners | None, values: Mapping[str, object] | None
) -> Setting:
    """Return a setting; a learner of no group of the market is a provider like the first ones.

    Args:
        config: a preset, a file or a configuration.
        learners: the conducts of each group that learns; None for one group, `learner`.
        values: of the market, by dotted keys.

    Raises:
        UsageError: a key or a conduct is unknown, a name is no learner's, or nobody learns.
    """
    market = replace_keys(open_config(config) if isinstance(config, str) else config, values or {})
    named = dict(learners or {LEARNER: ()})
    for name in named:
        market = _admit(market, name)
    conducts: dict[str, tuple[str, ...]] = {}
    agents: dict[str, tuple[str, str]] = {}
    for role, groups in (("providers", market.providers), ("watchers", market.watchers)):
        for group in groups:
            name = group.strategy
            if not is_learner(name):
                make_strategy(role, name, group.parameters)  # or refuse it now
            elif name in conducts:
                raise UsageError(f"two groups are called {name}; call one of them {name}-2")
            elif name not in named:
                raise UsageError.unknown("learner", name, named)
            else:
                given = named[name]
                conducts[name] = read_conducts(given, _KNOWN[role]) if given else _USUAL[role]
                short = name.removeprefix(f"{LEARNER}-")
                places = range(1, group.count + 1)
                agents |= {f"{short}_{place}": (name, f"{name}-{place}") for place in places}
    if not agents:
        raise UsageError(f"nobody learns: the count of {', '.join(named)} is 0; set it to 1")
    return Setting(market, conducts, agents)


def _admit(market: Config, name: str) -> Config:
    """Return a market in which a learner has a group."""
    if not is_learner(name):
        raise UsageError(f"{name!r} is no name of a learner; call it {LEARNER}, or {LEARNER}-NAME")
    if any(group.strategy == name for group in (*market.providers, *market.watchers)):
        return market
    like = next((group for group in market.providers if group.count), market.providers[0])
    group = msgspec.structs.replace(like, strategy=name, count=1, parameters={})
    return msgspec.structs.replace(market, providers=(*market.providers, group))
