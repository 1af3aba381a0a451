"""The plan of a sweep: which runs it has, each with its configuration and its seed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import msgspec
import numpy as np

from moot.offchain.errors import UsageError
from moot.sim.economy.config import Config, replace_key, replace_keys
from moot.sim.economy.market import make_rules
from moot.sim.economy.strategies.table import make_strategy
from moot.sim.experiments.values import Value, Varied

MOST_RUNS = 100_000
"""The most runs that one sweep can have."""

_SEED_BITS = 53
"""Bits of a repetition's seed: as many as every program that reads JSON keeps."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a sweep.

    Attributes:
        number: its number; all repetitions of a setting follow each other.
        rep: which repetition of its setting it is.
        setting: the values of the varied keys, in the plan's order of keys.
        config: what is run, its seed included.
    """

    number: int
    rep: int
    setting: tuple[Value, ...]
    config: Config


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep: a grid of settings, each repeated with the same seeds (common random numbers).

    Attributes:
        base: the configuration before anything is varied.
        varied: the keys, and the values of each.
        reps: how often each setting is run; repetition 0 has the seed of the configuration.
        settings: the values and the configuration of each setting.
    """

    base: Config
    varied: tuple[Varied, ...]
    reps: int
    settings: tuple[tuple[tuple[Value, ...], Config], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that are varied."""
        return tuple(varied.key for varied in self.varied)

    @property
    def size(self) -> int:
        """The number of runs."""
        return len(self.settings) * self.reps

    def list_runs(self) -> Iterator[Run]:
        """Yield all runs in the order of their numbers."""
        number = 0
        for setting, config in self.settings:
            for rep in range(self.reps):
                seed = spawn_seed(config.seed, rep)
                yield Run(number, rep, setting, msgspec.structs.replace(config, seed=seed))
                number += 1


def make_plan(base: Config, varied: Sequence[Varied] = (), reps: int = 1) -> Plan:
    """Return a sweep over all combinations of values, the last key's values changing first.

    Args:
        base: the configuration before anything is varied.
        varied: the keys, and the values of each.
        reps: how often each setting is run.

    Raises:
        UsageError: a key is unknown, a combination is impossible, or there are too many runs.
    """
    if reps < 1:
        raise UsageError(f"--reps {reps} is not a positive number")
    size = reps * math.prod(len(one.values) for one in varied)
    if size > MOST_RUNS:
        raise UsageError(
            f"that makes {size:,} runs, and a sweep has {MOST_RUNS:,} at most; "
            "vary fewer values, or lower --reps"
        )
    for one in varied:
        for value in one.values:
            replace_key(base, one.key, value)
    keys = [one.key for one in varied]
    settings = []
    for setting in product(*(one.values for one in varied)):
        config = replace_keys(base, dict(zip(keys, setting, strict=True)))
        check_names(config)
        settings.append((setting, config))
    return Plan(base, tuple(varied), reps, tuple(settings))


def check_names(config: Config) -> None:
    """Make the rules and strategies that a configuration names; raises UsageError if one can't."""
    make_rules(config)
    for role, groups in (("providers", config.providers), ("watchers", config.watchers)):
        for group in groups:
            make_strategy(role, group.strategy, group.parameters)


def spawn_seed(seed: int, rep: int) -> int:
    """Return the seed of a repetition: that of the configuration, and then others, independent."""
    if rep == 0:
        return seed
    words = np.random.SeedSequence(seed, spawn_key=(rep,)).generate_state(2, np.uint32)
    return (int(words[0]) << 32 | int(words[1])) >> (64 - _SEED_BITS)
