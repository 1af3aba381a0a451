"""The meter: plays markets of a space, and reads what is asked of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from moot.offchain.errors import UsageError
from moot.sim.analysis.journal import Journal, make_key
from moot.sim.analysis.measures import GAINS, check_measures, measure
from moot.sim.analysis.space import Point, Space
from moot.sim.analysis.trials import Laboratory, Trial, TrialError
from moot.sim.analysis.twins import Contest, Pair, choose_attackers, make_contest
from moot.sim.economy.config import Config
from moot.sim.economy.spans import choose_share
from moot.sim.experiments.plan import spawn_seed

BATCH = 64
"""Markets that are played before what they have come to is written down."""

Asked = tuple[Point, int]
"""A point of a space, and the number of the repetition, which decides its seed; the market as it is
configured has no values at all."""


@dataclass(slots=True)
class Meter:
    """Whatever plays markets of a space, each once.

    Attributes:
        laboratory: where they are played.
        space: the markets.
        names: of the measures that are read.
        strategy: whose gain is measured, if a measure needs the market's honest twin; None for
            all attackers.
        journal: what has been played.
        total: how many markets will be played, about, for the progress.
        played: how many have been played now, and not found in the journal.
    """

    laboratory: Laboratory
    space: Space
    names: Sequence[str]
    strategy: str | None = None
    journal: Journal = field(default_factory=Journal)
    total: int = 0
    played: int = 0
    _attackers: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        check_measures(self.names)
        if self.needs_twins:
            self._attackers = choose_attackers(
                self.space.config,
                self.strategy,
                otherwise="add a group of attackers, or choose a measure of one market",
            )
        elif self.strategy is not None:
            raise UsageError(
                f"--strategy {self.strategy} is about gains beyond honesty; name a measure that "
                f"is one, such as {next(iter(GAINS))}, or leave it out"
            )

    @property
    def needs_twins(self) -> bool:
        """Whether each market is played beside its honest twin."""
        return any(name in GAINS for name in self.names)

    @property
    def runs_each(self) -> int:
        """The runs that each market takes."""
        return 2 if self.needs_twins else 1

    def measure(self, asked: Sequence[Asked]) -> list[Mapping[str, float]]:
        """Return the measures of markets, in their order; what is known is not played again.

        Raises:
            TrialError: a run failed, or a measure is no number.
            UsageError: a point is no market.
        """
        points = dict.fromkeys(point for point, _ in asked)
        configs = {it: self.space.make_config(it) if it else self.space.config for it in points}
        contests = [self._make_contest(configs[point], rep) for point, rep in asked]
        keys = [self._make_key(contest) for contest in contests]
        missing = {
            key: contest
            for key, contest in zip(keys, contests, strict=True)
            if self.journal.get(key) is None
        }
        waiting, size = list(missing.items()), BATCH // self.runs_each
        for start in range(0, len(waiting), size):
            self._play(dict(waiting[start : start + size]))
        found = [self.journal.get(key) for key in keys]
        return [self._check(values, it) for values, it in zip(found, asked, strict=True)]

    def _play(self, contests: Mapping[str, Contest]) -> None:
        """Play contests, and note what they come to."""
        configs = [
            config
            for it in contests.values()
            for config in ((it.attack, it.twin) if self.needs_twins else (it.attack,))
        ]
        laboratory = replace(self.laboratory, progress=self._tell)
        trials, each = laboratory.try_all(configs), self.runs_each
        self.played += len(configs)
        for number, (key, contest) in enumerate(contests.items()):
            own = trials[number * each : (number + 1) * each]
            self.journal.add(key, measure(self._pair(contest, own)))

    def _pair(self, contest: Contest, trials: Sequence[Trial]) -> Trial | Pair:
        if len(trials) == 1:
            return trials[0]
        return Pair(trials[0], trials[1], contest.find(trials[0]))

    def _tell(self, what: str, done: int, total: int) -> None:
        """Tell how many of all runs are done; of other work, what it tells."""
        if what == "runs":
            done, total = self.played + done, max(self.total, self.played + total)
        self.laboratory.progress(what, done, total)

    def _make_contest(self, config: Config, rep: int) -> Contest:
        """Return a market with the seed and the burn-in of a repetition, and its twin."""
        seeded = msgspec.structs.replace(
            config, seed=spawn_seed(config.seed, rep), burn_in=choose_share(config)
        )
        return make_contest(seeded, self._attackers)

    def _make_key(self, contest: Contest) -> str:
        names = ",".join(self._attackers) if self.needs_twins else ""
        return make_key(msgspec.json.encode(contest.attack), names.encode())

    def _check(self, values: Mapping[str, float] | None, asked: Asked) -> Mapping[str, float]:
        assert values is not None, "it has been played"
        for name in self.names:
            if not math.isfinite(values[name]):
                where = self.space.describe(asked[0])
                raise TrialError(f"{name} is no number at {where}; ask for another measure")
        return {name: values[name] for name in self.names}


def describe_files(space: Space) -> dict[str, Any]:
    """Return versions and files on which trials of a space depend: the header of a journal."""
    from moot.sim.experiments.plan import Plan  # noqa: PLC0415 - of journals alone
    from moot.sim.experiments.provenance import describe_plan  # noqa: PLC0415 - imports vyper

    configs = [space.config]
    for number, dimension in enumerate(space.dimensions):
        parts = [0.0] * len(space.dimensions)
        for place in range(len(dimension.choices)):
            parts[number] = (place + 0.5) / len(dimension.choices)
            configs.append(space.make_config(space.pick(parts)))
    told = describe_plan(Plan(space.config, (), 1, tuple(((), config) for config in configs)))
    return {name: told[name] for name in ("versions", "files")}
