"""Prints what simulated markets come to beside the closed forms of `economics.md`.

`python docs/tools/laboratory.py fraud` plays the fraud game, `dilemma` the verifier's dilemma under
several rules of audits, `attacks` every strategy beside its honest twin. All is computed when it is
printed; ± is half an interval of 95%, by Student's distribution over runs with other seeds.
`invariants` says which share of a run's time the check of all money after every block is.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
from rich.table import Table

from moot.sim.analysis.over_time import Course, read_courses
from moot.sim.analysis.trials import Laboratory, open_laboratory
from moot.sim.analysis.twins import MEASURES, make_contest, try_pairs
from moot.sim.economy.config import GWEI, Config, replace_keys
from moot.sim.economy.ledger import Ledger
from moot.sim.economy.reporting import NoRows
from moot.sim.economy.simulate import make_outcomes, simulate
from moot.sim.economy.strategies.base import HONEST, WATCHER
from moot.sim.economy.strategies.table import AGENTS, WATCHERS
from moot.sim.estimates import Estimate, estimate, estimate_mean
from moot.sim.experiments.engines import Processes
from moot.sim.experiments.parts import ignore
from moot.sim.experiments.plan import make_plan
from moot.sim.experiments.presets import open_config
from moot.sim.experiments.sweep import run_sweep
from moot.sim.experiments.values import Varied
from moot.sim.strategies import STRATEGIES
from moot.sim.theory.fraud import Equilibrium, solve_fraud_game

sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.tools.sections import Sections, print_section
from docs.tools.sections import make_table as make_section_table

make_table = partial(make_section_table, "laboratory.py")

WIDTH = 170
REPS, JOBS = 16, 3_000
"""Repetitions of each setting of the fraud game, and the jobs of each where nobody learns."""

LEARNERS_JOBS = 24_000
"""The jobs of each where somebody does; the first half is burn-in."""

FEW = 8
"""Repetitions of what takes long."""

BONDS_ETH = (0.5, 1.0, 2.0)
SHOWN_BOND_ETH = 1.0
MULTIPLES = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Audit rates, as multiples of v*."""

LAZY = {"providers.lazy.count": 20, "providers.honest.count": 0}
"""Providers who all lie: nothing else is measured."""

LIARS: Mapping[str, float] = {
    "providers.opportunist.count": 8,
    "providers.opportunist.slots": 20,
    "providers.opportunist.weight": 1.0,
    "providers.honest.count": 0,
    "providers.lazy.count": 0,
}
"""Providers who all may lie, and believe little before they have seen something."""

TURNS = 4
CROWD_RATES = (25.0, 5.0, 0.5)
CROWD: Mapping[str, float] = {
    "jobs": 100_000,
    "providers.honest.count": 800,
    "providers.lazy.count": 200,
    "watchers.watcher.count": 100,
}
"""A thousand providers: checks are of all of them, after every block."""

RATES = ("asked", "achieved")
"""The rates of audits that are shown: columns of `runs`."""

RULES: Sequence[tuple[str, Mapping[str, str | float]]] = (
    ("volunteers", {}),
    ("constant", {}),
    ("from-bonds", {}),
    ("forced-errors", {}),
    ("forced-errors", {"jackpot_eth": 0.5}),
    ("forced-errors", {"rate": 0.03}),
)
"""Rules of audits, and what differs from a rate of 0.1 and their defaults."""


def open_engine() -> Processes:
    """Return the engine that plays runs on all processors."""
    return Processes(len(os.sched_getaffinity(0)))


def sweep(
    config: Config, varied: Varied, reps: int
) -> Iterator[tuple[list[dict[str, Any]], Course]]:
    """Yield for each value of a sweep the rows of `runs` of its repetitions, and their course."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sweep"
        run_sweep(make_plan(config, (varied,), reps), path, open_engine(), simulate)
        rows = pq.read_table(path / "runs.parquet").to_pylist()
        for place, course in enumerate(read_courses(path, rows, reps)):
            assert course is not None, "a run has failed"
            yield rows[place * reps : (place + 1) * reps], course


def solve(config: Config) -> Equilibrium:
    """Return the equilibrium of the fraud game that a market is.

    The provider's stake is its bond and the gas of a lost dispute. The one who audits is a watcher,
    who loses nothing by a cheat that it does not look at, and whose reward is its prize and the
    reward of the job, less gas.
    """
    (liar, watcher) = make_outcomes(config).judge(("lazy", WATCHER), 0).seats
    chain, bond, price = config.chain, float(config.bond["eth"]), float(config.pricing["eth"])
    gas_eth = (chain.base_fee_gwei + chain.tip_gwei) / GWEI
    reward = watcher.prizes * bond / 2 + watcher.shares * price - watcher.gas * gas_eth
    work = config.providers[0].work_eth
    return solve_fraud_game(
        *(work, 0.0, price, bond + liar.gas * gas_eth), config.watchers[0].work_eth, 0.0, reward
    )


def show(found: Estimate, digits: int = 4) -> str:
    """Return an estimate and half the width of its interval as text."""
    return f"{found.value:.{digits}f} ± {found.margin:.{digits}f}"


def share(rows: Sequence[Mapping[str, Any]], part: str, whole: str = "jobs") -> Estimate:
    """Return the mean share of one count in another."""
    return estimate_mean([row[part] / max(1, row[whole]) for row in rows])


def tabulate_fraud() -> Iterator[Table]:
    """Yield where cheating stops to pay, and where those who learn stop to cheat."""
    base = replace_keys(open_config("baseline"), {"jobs": JOBS})
    games = {bond: replace_keys(base, {"bond.eth": bond}) for bond in BONDS_ETH}
    table = make_table(
        "Audit rate at which cheating stops to pay", "fraud", "bond, ETH", "v*", "lazy breaks even"
    )
    with open_laboratory(next(iter(games.values())), open_engine(), ignore) as laboratory:
        for bond, game in games.items():
            rate = solve(game).audit_rate
            market = replace_keys(game, LAZY)
            found = find_indifference(laboratory, market, (rate / 2, rate * 3 / 2))
            table.add_row(f"{bond:g}", f"{rate:.4f}", show(found))
    yield table
    yield from tabulate_learners(games)


def tabulate_learners(games: Mapping[float, Config]) -> Iterator[Table]:
    """Yield how often those who learn cheat after their burn-in, and how they got there."""
    columns = [f"{multiple:g} v*" for multiple in MULTIPLES]
    title = "Share of jobs in which opportunists cheat after the burn-in, by the audit rate"
    table = make_table(title, "fraud", "bond, ETH", *columns)
    title = f"The same with a bond of {SHOWN_BOND_ETH:g} ETH, over time; * is still changing"
    over_time = make_table(title, "fraud", "from job", *columns)
    for bond, game in games.items():
        rate = solve(game).audit_rate
        rates = Varied("audit.rate", tuple(multiple * rate for multiple in MULTIPLES))
        learners = replace_keys(game, {**LIARS, "jobs": LEARNERS_JOBS})
        cells, courses = [], []
        for rows, course in sweep(learners, rates, REPS):
            cells.append(f"{show(share(rows, 'cheated'), 3)}{'*' * bool(course.judge().trends)}")
            courses.append(course.list_rows())
        table.add_row(f"{bond:g}", *cells)
        if bond == SHOWN_BOND_ETH:
            for spans in list(zip(*courses, strict=True))[::2]:
                first = f"{spans[0]['first_job']:,}{' (burn-in)' * spans[0]['is_burn_in']}"
                over_time.add_row(first, *(f"{span['cheated']:.3f}" for span in spans))
    yield table
    yield over_time


def find_indifference(
    laboratory: Laboratory, config: Config, rates: tuple[float, float]
) -> Estimate:
    """Return the audit rate at which lazy providers earn what their honest twins do.

    What an audit costs them is in proportion to its rate, so that two rates are enough.
    """
    contests = [
        make_contest(replace_keys(config, {"audit.rate": rate}), ("lazy",)) for rate in rates
    ]
    tried = try_pairs(laboratory, contests, REPS)
    gains = np.array([[pair.gain_eth_per_job for pair in pairs] for pairs in tried])

    def locate(chosen: Any) -> float:
        (low, high), (first, second) = rates, gains[:, chosen].mean(axis=1)
        return float(low + (high - low) * first / (first - second))

    return estimate(REPS, locate)


def tabulate_dilemma() -> Iterator[Table]:
    """Yield what becomes of fraud and checks under several rules of audits."""
    market = open_config("verifier-dilemma")
    solved = solve(market)
    table = make_table(
        f"The verifier's dilemma; v* = {solved.audit_rate:.4f}, q* = {solved.cheating_rate:.4f}",
        "dilemma",
        *("rule of audits", "asked", "audited", "checked", "lies", "found", "clients, ETH a job"),
        *("watchers", "burned, mETH a job"),
    )
    for name, changed in RULES:
        given = {"audit.name": name} | {f"audit.{key}": value for key, value in changed.items()}
        ((rows, _),) = sweep(replace_keys(market, given), Varied("audit.name", (name,)), FEW)
        words = [f"{key} = {value}" for key, value in changed.items()]
        money = [
            show(estimate_mean([row[key] / row["jobs"] / scale for row in rows]), digits)
            for key, scale, digits in (
                ("client_gwei", GWEI, 3),
                ("watcher_gwei", GWEI, 4),
                ("burned_gwei", GWEI / 1000, 2),
            )
        ]
        table.add_row(
            ", ".join([name, *words]),
            *(f"{fmean(row[f'audit_rate_{it}'] for row in rows):.3f}" for it in RATES),
            *(show(share(rows, count)) for count in ("checked", "cheated")),
            show(share(rows, "caught", "cheated"), 2),
            *money,
        )
    yield table


def list_attacks(market: Config) -> Iterator[tuple[str, Config]]:
    """Yield each strategy, and the market in which it takes the place of the lazy providers.

    A strategy of watchers takes the place of one of two watchers.
    """
    for name in (*STRATEGIES, *AGENTS):
        if name != HONEST:
            changed = {f"providers.{name}.count": 4}
            yield name, replace_keys(market, {"providers.lazy.count": 0} | changed)
    for name in WATCHERS:
        if name != WATCHER:
            changed = {f"watchers.{WATCHER}.count": 1, f"watchers.{name}.count": 1}
            yield name, replace_keys(market, changed)


ATTACK_COLUMNS: Mapping[str, tuple[str, float, int]] = {
    "gain_eth_per_job": ("gain, mETH a job of its own", 1000, 1),
    "profit_eth": ("profit, ETH", 1, 1),
    "honest_profit_eth": ("… when honest", 1, 1),
    "clients_loss_eth": ("clients lose, ETH", 1, 1),
    "honesty_cost_eth": ("honesty costs, ETH", 1, 1),
    "finality_blocks": ("blocks to finality", 1, 1),
    "slow_finality_blocks": ("… of 99 in 100 jobs", 1, 0),
    "locked_eth_blocks": ("capital, ETH x blocks a job", 1, 1),
    "burned_share": ("bonds burned, %", 100, 2),
}
"""The measures of twins that are shown: a heading, the unit and the digits."""


def tabulate_attacks() -> Iterator[Table]:
    """Yield what each strategy brings and costs in the baseline, beside its honest twin."""
    market = replace_keys(open_config("baseline"), {"jobs": JOBS})
    headings = [heading for heading, _, _ in ATTACK_COLUMNS.values()]
    jobs = f"{JOBS:,} jobs, the later half where one learns"
    title = f"Strategies in the baseline, {jobs}, {FEW} runs"
    table = make_table(title, "attacks", "strategy", *headings)
    attacks = dict(list_attacks(market))
    contests = [make_contest(config, (name,)) for name, config in attacks.items()]
    with open_laboratory(market, open_engine(), ignore) as laboratory:
        tried = dict(zip(attacks, try_pairs(laboratory, contests, FEW), strict=True))
    for name in sorted(tried, key=lambda it: -fmean(p.gain_eth_per_job for p in tried[it])):
        cells = []
        for measure, (_, unit, digits) in ATTACK_COLUMNS.items():
            compute = MEASURES[measure][1]
            value = estimate_mean([unit * compute(pair) for pair in tried[name]])
            plain = f"{value.value:,.{digits}f}"
            cells.append(show(value, digits) if measure == "gain_eth_per_job" else plain)
        table.add_row(name, *cells)
    yield table


def tabulate_invariants() -> Iterator[Table]:
    """Yield how long a job takes with the ledger's checks and without them, by turns.

    Times are the processor's, the least of each side; no tables are written, beside which the
    checks would look cheaper.
    """
    base = replace_keys(open_config("baseline"), CROWD)
    columns = ("jobs a block", "us a job", "without checks", "share of the checks")
    table = make_table("The check of all money after every block", "invariants", *columns)
    for rate in CROWD_RATES:
        config = replace_keys(base, {"clients.jobs_per_block": rate})
        time_run(config)
        checked, unchecked = [], []
        for _ in range(TURNS):
            checked.append(time_run(config))
            with patch.object(Ledger, "check", lambda *_: (0, 0)):
                unchecked.append(time_run(config))
        least = min(checked), min(unchecked)
        micros = (f"{seconds / config.jobs * 1e6:.1f}" for seconds in least)
        table.add_row(f"{rate:g}", *micros, f"{1 - least[1] / least[0]:.1%}")
    yield table


def time_run(config: Config) -> float:
    """Return the seconds of a processor that a run takes."""
    start = time.process_time()
    simulate(config, NoRows())
    return time.process_time() - start


SECTIONS: Sections = {
    "fraud": tabulate_fraud,
    "dilemma": tabulate_dilemma,
    "attacks": tabulate_attacks,
    "invariants": tabulate_invariants,
}


if __name__ == "__main__":
    print_section(SECTIONS, __doc__, WIDTH)
