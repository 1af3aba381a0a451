"""The market: every job goes to a few providers, is really run, and is settled by the referee.

A claim is judged by what it says: a cheat whose lie leaves no trace in the history (a flipped bit
that rounding takes away again) has given the right answer in that job, and is paid for it. Such a
claim is still defended with the tensors that the cheat made, and may be lost by them.

Every call is witnessed: the model makes it, too, and all invariants are checked after it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from moot.contracts.model.types import ZERO
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.actors import Player
from moot.offchain.disputes.evidence import rule_for
from moot.offchain.disputes.game import Game
from moot.offchain.disputes.terms import Stakes
from moot.offchain.errors import UsageError
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.catalogue import HONEST
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store as Disk
from moot.offchain.providers.task import Task
from moot.sim.agents import Agent, View, Work, check_providers, make_providers
from moot.sim.draws import JobDraws, draw_jobs
from moot.sim.ledger import read_balances
from moot.sim.mix import Group
from moot.sim.results import Books, JobResult, Party, judge_job
from moot.sim.scratch import open_scratch
from moot.sim.venue import Venue, open_venue
from moot.sim.witness import Witness

STAKES = Stakes(
    commit_blocks=24, reveal_blocks=24, window_blocks=16, clock_blocks=48, increment_blocks=4
)
"""Short windows and clocks, with room for a block a call in as many matches as there may be."""


@dataclass(frozen=True)
class Market:
    """A market: a number of jobs for some agents.

    Attributes:
        venue: the referee and the accounts with which the jobs are played.
        agents: the providers.
        make_task: returns what the job of a number is about.
        jobs: how many there are.
        seed: source of all that is drawn.
        stakes: money and clocks of every job.
    """

    venue: Venue
    agents: Sequence[Agent]
    make_task: Callable[[int], Task]
    jobs: int
    seed: int
    stakes: Stakes = STAKES

    def play(self) -> Iterator[JobResult]:
        """Play the jobs, one after the other.

        Raises:
            BrokenInvariantError: the referee has done what it must never do.
            ChainError: the money of a job does not add up.
        """
        venue = self.venue
        witness = Witness(venue.referee, f"seed {self.seed}")
        for number, draws in enumerate(draw_jobs(self.seed, self.jobs, len(self.agents))):
            task = self.make_task(number)
            runs = 1 + sum(self.agents[seat].accounts for seat in draws.seats)
            with open_scratch(task, runs) as folder:
                result = _Booking(self, witness, number, task, draws, folder).play()
            result.flows.check()
            yield result


@dataclass
class _Booking:
    """One job of a market, with the agents that take part in it."""

    market: Market
    witness: Witness
    number: int
    task: Task
    draws: JobDraws
    folder: Path

    def play(self) -> JobResult:
        """Play the job, and judge it."""
        venue, witness, stakes = self.market.venue, self.witness, self.market.stakes
        parties = [self._seat(seat) for seat in self.draws.seats]
        shills = [party.seats[0].address for party in parties if party.work.is_client]
        honest = {s.address for p in parties if p.strategy == HONEST for s in p.seats}
        witness.watcher.honest[len(witness.store.jobs)] = frozenset(honest)
        game = Game(
            referee=witness,
            task=self.task,
            client=(shills or [venue.client])[0],
            players=[seat for party in parties if not party.work.scheme for seat in party.seats],
            stakes=stakes,
            verifier=venue.verifier,
            ruler=rule_for,
            watchers=[party.work.scheme(party.seats) for party in parties if party.work.scheme],
            seed=self.draws.salt_seed,
        )
        before = read_balances(witness, venue.addresses)
        burned_wei, refused = witness.store.burned_wei, len(witness.refusals)
        played = list(game.play())
        after = read_balances(witness, venue.addresses)
        books = Books(
            game=game,
            store=witness.store,
            parties=parties,
            played=played,
            refusals=witness.refusals[refused:],
            answer=self._run(Behaviour(), "reference").history.top,
            deltas_wei={address: after[address] - before[address] for address in before},
            burned_wei=witness.store.burned_wei - burned_wei,
        )
        return judge_job(self.number, books)

    def _seat(self, number: int) -> Party:
        """Let an agent decide what it does about the job, and run what its accounts run."""
        market, rng = self.market, self.draws.cheats[number]
        agent, addresses = market.agents[number], market.venue.providers[number]
        balance_wei = self.witness.balance(addresses[0])
        work = agent.act(View(self.number, self.task, market.stakes, balance_wei), rng)
        names = [agent.name, *(f"{agent.name}.{n + 2}" for n in range(len(addresses) - 1))]
        make = work.scheme.player if work.scheme else Player
        seats = tuple(
            make(name, address, self._run(behaviour, name), salt)
            for name, address, behaviour, salt in zip(
                names, addresses, work.behaviours, draw_salts(rng, work), strict=True
            )
        )
        return Party(agent.strategy, work, seats)

    def _run(self, behaviour: Behaviour, name: str) -> Run:
        """Run the task under a behaviour, with the store in a folder of this name."""
        run = Run(self.task, behaviour, Disk(self.folder / name))
        run.compute()
        return run


def draw_salts(rng: np.random.Generator, work: Work) -> list[Digest]:
    """Return the salts of a provider's commitments; the game draws those of its players."""
    return [rng.bytes(32) if work.scheme else ZERO for _ in work.behaviours]


def open_market(setting: Setting, groups: Sequence[Group], jobs: int) -> Market:
    """Capture a program and deploy a referee, so that a market can be played.

    Job n trains on the n-th stretch of the program's data, from the same start.

    Args:
        setting: the program, its length, the chain and the seed.
        groups: the providers.
        jobs: how many jobs there are.

    Raises:
        UsageError: a strategy is impossible with the program, the chain has too few accounts, or
            no contract ends disputes in the arithmetic.
    """
    arithmetic = find_arithmetic(setting.arithmetic)
    if not arithmetic.ends_on_chain:
        raise UsageError(
            f"disputes of a market end at a scalar operation, and no contract computes those of "
            f"`{arithmetic.name}`; choose ordered or exact"
        )
    providers = make_providers(groups)
    venue = open_venue(setting.chain, [it.accounts for it in providers], arithmetic)
    task = make_task(setting)
    check_providers(providers, task)
    return Market(
        venue=venue,
        agents=providers,
        make_task=lambda number: take_stretch(task, number),
        jobs=jobs,
        seed=setting.seed,
    )


def take_stretch(task: Task, number: int) -> Task:
    """Return the same task on other data: the stretch of batches that has this number."""
    first = number * task.steps
    return replace(task, batch=lambda step: task.batch(first + step))
