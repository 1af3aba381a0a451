"""Prints what `how-to/learn.md` and `economics.md` say of learned adversaries.

`python docs/tools/adversary.py observations` lists what a policy sees; `search` looks for a policy
in several markets, compares it with every strategy of ours in markets that no round has seen, and
plays its disputes on the contract. All is computed when it is printed; ± is half an interval of
95%, by Student's distribution over runs with other seeds, for all that is compared together.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.table import Table

from moot.sim.analysis.trials import Laboratory, open_laboratory
from moot.sim.economy.config import replace_keys
from moot.sim.economy.strategies.table import AGENTS
from moot.sim.estimates import Estimate, estimate_mean, share_confidence
from moot.sim.experiments.parts import ignore
from moot.sim.experiments.presets import open_config
from moot.sim.learning import training
from moot.sim.learning.comparing import Standing, compare, list_built_in
from moot.sim.learning.folder import find_market
from moot.sim.learning.judging import Judgement, judge
from moot.sim.learning.linear import choose
from moot.sim.learning.observing import FEATURES, PLACES
from moot.sim.learning.training import Search, State

sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.tools.laboratory import WIDTH, open_engine
from docs.tools.sections import Sections, print_section
from docs.tools.sections import make_table as make_section_table

make_table = partial(make_section_table, "adversary.py")

MARKETS: Mapping[str, Mapping[str, float]] = {
    "no-stake-floor": {},
    "no-stake-floor, mended": {"bond.least_eth": 0.5, "clients.gain_share": 0.1},
}
"""The markets that are searched: a preset, and what differs in it."""

WHOLE = "no-stake-floor"
"""The market in which every cheat and trick is tried; in others it is `lazy` alone."""

JOBS, REPS, REPS_OF_WHOLE, JUDGED = 2_000, 24, 8, 400
"""Jobs of each market, repetitions of comparisons, and jobs whose disputes are played."""

CHOSEN = ("lazy", *AGENTS)
"""The strategies that are tried everywhere."""

RATES = (0.1, 1.0)
"""The shares of jobs in which cheats and tricks are tried."""

BINS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""The bounds of reputation between which lies are counted."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found, how it stands, and what the contract says."""

    search: Search
    state: State
    standings: Sequence[Standing]
    judgement: Judgement

    @property
    def learned(self) -> Standing:
        """The policy."""
        return next(it for it in self.standings if it.name == "learned")

    @property
    def best(self) -> Standing:
        """The best of ours."""
        return next(it for it in self.standings if it.name != "learned")

    @property
    def ahead(self) -> Estimate:
        """What the policy gains more than the best of ours, in the same markets."""
        pairs = zip(self.learned.gains, self.best.gains, strict=True)
        confidence = share_confidence(len(self.standings) - 1)
        return estimate_mean([mine - other for mine, other in pairs], confidence)


def find(laboratory: Laboratory, name: str) -> Found:
    """Search a market."""
    preset, _, _ = name.partition(",")
    config = replace_keys(open_config(preset), {"jobs": JOBS, **MARKETS[name]})
    search = Search(config, count=4, rounds=8, candidates=16, kept=4, reps=1)
    state = training.begin(search)
    training.go_on(search, state, laboratory, lambda _: None)
    tried = [it for it in list_built_in(RATES) if name == WHOLE or it.strategy in CHOSEN]
    newcomers = [search.name(state.weights), *tried]
    reps = REPS_OF_WHOLE if name == WHOLE else REPS
    standings = compare(laboratory, config, newcomers, search.count, reps)
    return Found(search, state, standings, judge(find_market(search, state), ignore, JUDGED))


def show(found: Estimate) -> str:
    """Return an estimate in mETH, and half the width of its interval."""
    return f"{found.value * 1000:+.2f} ± {found.margin * 1000:.2f}"


def tabulate_search() -> Iterator[Table]:
    """Yield what searches have found, how, and when the policies lie."""
    with open_laboratory(open_config(WHOLE), open_engine(), ignore) as laboratory:
        found = {name: find(laboratory, name) for name in MARKETS}
    columns = ("policy", "best of ours", "its gain", "policy less best", "clients lose, ETH")
    runs = f"{REPS} runs, {REPS_OF_WHOLE} of {WHOLE}"
    title = f"Gain beyond honesty, mETH a job; {JOBS:,} jobs, {runs}"
    table = make_table(title, "search", "market", *columns, "disputes played, all as modelled")
    for name, it in found.items():
        table.add_row(
            name,
            show(it.learned.gain),
            it.best.name,
            show(it.best.gain),
            show(it.ahead),
            f"{it.learned.clients_loss.value:.1f}",
            f"{it.judgement.played} of {it.judgement.disputes}",
        )
    yield table
    yield tabulate_standings(found)
    curve = make_table("The policy so far, round by round, mETH a job", "search", "round", *found)
    for number, rounds in enumerate(zip(*(it.state.rounds for it in found.values()), strict=True)):
        curve.add_row(f"{number + 1}", *(f"{it.policy.value * 1000:+.2f}" for it in rounds))
    yield curve
    yield tabulate_lies(found)


def tabulate_standings(found: Mapping[str, Found]) -> Table:
    """Return the policy beside the strategies that are tried everywhere."""
    title = "Gain beyond honesty, mETH a job"
    table = make_table(title, "search", "strategy", *found)
    gains = {
        name: {it.name: show(it.gain) for it in each.standings} for name, each in found.items()
    }
    shared = min(gains.values(), key=len)
    for name in (it for it in shared if it != "learned"):
        table.add_row(name, *(each[name] for each in gains.values()))
    table.add_section()
    table.add_row("learned", *(each["learned"] for each in gains.values()))
    return table


def tabulate_lies(found: Mapping[str, Found]) -> Table:
    """Return in which share of its jobs each policy lies, by its reputation."""
    heads = [f"{low:g} to {high:g}" for low, high in pairwise(BINS)]
    table = make_table(
        "Share of jobs in which it lies, by its reputation", "search", "market", *heads
    )
    for name, it in found.items():
        seen = list(training.watch(it.search, partial(choose, it.state.weights)))
        reputation = np.array([observation[PLACES["reputation"]] for observation, _ in seen])
        lies = np.array([place >= 0 for _, place in seen])
        bins = np.clip(np.digitize(reputation, BINS) - 1, 0, len(heads) - 1)
        cells = []
        for place in range(len(heads)):
            chosen = lies[bins == place]
            cells.append(f"{chosen.mean():.2f} of {len(chosen)}" if len(chosen) else "-")
        table.add_row(name, *cells)
    return table


def tabulate_observations() -> Iterator[Table]:
    """Yield what a policy sees."""
    table = make_table(
        "What a policy sees", "observations", "", "name", "meaning", "from", "to", words=3
    )
    for place, it in enumerate(FEATURES):
        table.add_row(f"{place}", it.name, it.about, f"{it.low:g}", f"{it.high:g}")
    yield table


SECTIONS: Sections = {
    "observations": tabulate_observations,
    "search": tabulate_search,
}


if __name__ == "__main__":
    print_section(SECTIONS, __doc__, WIDTH)
