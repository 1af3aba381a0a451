"""A simulated market for tests: rows that are kept, and outcomes drawn of what the law allows."""

import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from moot.sim.economy.cases import Case, Lineup, Seat
from moot.sim.economy.config import Config, parse_config
from moot.sim.economy.congested import Closed
from moot.sim.economy.market import Market
from moot.sim.economy.outcomes import Money, Outcomes
from moot.sim.economy.reporting import Counts
from moot.sim.economy.schema import STAGES, TABLES
from moot.sim.economy.strategies.base import HONEST, WATCHER
from moot.sim.strategies import STRATEGIES

Row = Mapping[str, Any]

GAS_TOLERANCE = 0.02
"""How far the gas of a stage may be from what was measured."""


@dataclass
class Kept:
    """A sink that keeps the rows of each table."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Keep a row."""
        assert len(row) == len(TABLES[table].names)
        self.rows[table].append(row)

    def read(self, table: str) -> list[Row]:
        """Return the rows of a table, each by the names of its columns."""
        names = TABLES[table].names
        return [dict(zip(names, row, strict=True)) for row in self.rows[table]]


@dataclass(frozen=True)
class DrawnOutcomes:
    """Outcomes that are drawn from all that a referee could decide, honest or not.

    A lineup's case is the same whoever asks. Nobody who claims what is right loses a bond.

    Attributes:
        seed: of all cases.
        gas: what a seat uses at most.
    """

    seed: int = 0
    gas: int = 900_000

    def judge(self, lineup: Lineup, number: int, money: Money | None = None) -> Case:
        """Draw a case."""
        del money
        words = [self.seed, number, *(zlib.crc32(name.encode()) for name in lineup)]
        rng = np.random.default_rng(np.random.SeedSequence(words))
        honest = [name in (HONEST, WATCHER) for name in lineup]
        is_void = not all(honest) and rng.random() < 0.1
        is_right = any(honest) and not is_void
        opener = next((k for k, name in enumerate(lineup) if _is_client(name)), None)
        accounts = [STRATEGIES[name].accounts for name in lineup]
        lost = [
            0 if is_void or is_told else int(rng.integers(is_right, count + 1))
            for count, is_told in zip(accounts, honest, strict=True)
        ]
        hidden = int(rng.integers(0, sum(lost) + 1))
        defeated = sum(lost) - hidden
        prizes = [0] * len(lineup)
        for _ in range(int(rng.integers(0, defeated + 1))):
            there = [k for k in range(len(lineup)) if lost[k] < accounts[k]]
            if there:
                prizes[int(rng.choice(there))] += 1
        is_won = not is_void and sum(accounts) > sum(lost) and (is_right or rng.random() < 0.8)
        shares = [
            int(is_won and (is_told or not is_right)) * (count - gone)
            for is_told, count, gone in zip(honest, accounts, lost, strict=True)
        ]
        outcome = "void" if not is_won else "right" if is_right else "wrong"
        seats = tuple(
            Seat(
                conduct=lineup[k],
                accounts=accounts[k],
                lost=lost[k],
                prizes=prizes[k],
                shares=shares[k],
                is_client=k == opener,
                is_right=honest[k],
                work=float(honest[k]) or round(float(rng.random()), 3),
                gas=int(rng.integers(100_000, self.gas)),
                held_blocks=int(rng.integers(0, 20)) if lineup[k] == "censor" else 0,
            )
            for k in range(len(lineup))
        )
        return Case(
            seats=seats,
            outcome=outcome,
            sharers=sum(shares),
            defeated=defeated,
            forfeits=defeated - sum(prizes),
            hidden=hidden,
            is_disputed=len(set(lineup)) > 1,
            blocks=int(rng.integers(1, 300)),
            client_gas=int(rng.integers(100_000, 400_000)),
            moves=(),
        )

    def congest(
        self, lineup: Lineup, number: int, closed: Closed, money: Money | None = None
    ) -> Case:
        """Return the same case, later."""
        case = self.judge(lineup, number, money)
        return replace(case, blocks=case.blocks + sum(end - first for first, end in closed))

    def verify(self, lineup: Lineup, number: int, case: Case, closed: Closed) -> Case | None:
        """Play nothing."""
        del lineup, number, case, closed
        return None


@dataclass(frozen=True)
class FixedOutcomes:
    """Outcomes in which truth wins where it is told, and all calls and times are the same.

    Attributes:
        work: of conducts, the share of the steps that they compute; 1 of the honest, 0 of others.
        gas: what each seat uses.
        blocks: how long each case takes.
    """

    work: Mapping[str, float] = field(default_factory=dict)
    gas: int = 150_000
    blocks: int = 65

    def judge(self, lineup: Lineup, number: int, money: Money | None = None) -> Case:
        """Let those who are right win, and the first of them have a prize for each lie."""
        del number, money
        honest = [name in (HONEST, WATCHER) for name in lineup]
        first = honest.index(True) if any(honest) else -1
        lies = honest.count(False) if any(honest) else 0
        shares = [
            int(name == HONEST or not any(honest)) * int(is_told or not any(honest))
            for name, is_told in zip(lineup, honest, strict=True)
        ]
        seats = tuple(
            Seat(
                conduct=name,
                accounts=1,
                lost=int(any(honest) and not is_told),
                prizes=lies if place == first else 0,
                shares=shares[place],
                is_client=False,
                is_right=is_told,
                work=self.work.get(name, float(is_told)),
                gas=self.gas,
                held_blocks=0,
            )
            for place, (name, is_told) in enumerate(zip(lineup, honest, strict=True))
        )
        return Case(
            seats=seats,
            outcome="right" if any(honest) else "wrong",
            sharers=sum(shares),
            defeated=lies,
            forfeits=0,
            hidden=0,
            is_disputed=lies > 0,
            blocks=self.blocks,
            client_gas=0,
            moves=(),
        )

    def congest(
        self, lineup: Lineup, number: int, closed: Closed, money: Money | None = None
    ) -> Case:
        """Return the same case: its blocks are what they are."""
        del closed
        return self.judge(lineup, number, money)

    def verify(self, lineup: Lineup, number: int, case: Case, closed: Closed) -> Case | None:
        """Play nothing."""
        del lineup, number, case, closed
        return None


def _is_client(name: str) -> bool:
    return STRATEGIES[name].is_client


def make_config(**values: Any) -> Config:
    """Return a configuration: a few jobs, one honest provider in two, unless values say else."""
    groups = [make_group("honest", count=4), make_group("lazy", count=4)]
    watchers = [make_group("watcher", count=2)]
    plain = {"jobs": 200, "providers": groups, "watchers": watchers}
    return parse_config(plain | values, "a test")


def make_group(strategy: str, **values: Any) -> dict[str, Any]:
    """Return a group of agents that have enough of everything."""
    return {"strategy": strategy, "slots": 1000, "capital_eth": 1e4} | values


def play(config: Config, outcomes: Outcomes | None = None) -> tuple[Kept, Counts]:
    """Play a market; return its rows and its counts."""
    kept = Kept()
    return kept, Market(config, outcomes or DrawnOutcomes(), kept).play()


def sum_gas(kept: Kept) -> tuple[Counter[str], Counter[str]]:
    """Return the gas of each stage of all sampled disputes: of the table, and of the contract."""
    modelled, played = Counter[str](), Counter[str]()
    for game in kept.read("games"):
        if game["agrees"] is not None:
            modelled.update({stage: game[f"gas_{stage}"] for stage in STAGES})
            played.update({stage: game[f"played_gas_{stage}"] for stage in STAGES})
    return modelled, played
