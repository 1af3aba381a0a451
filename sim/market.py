"""The market: every job goes to a few providers, is really run, and is settled by the referee.

A claim is judged by what it says: a cheat whose lie leaves no trace in the history (a flipped bit
that rounding takes away again) has given the right answer in that job, and is paid for it. Such a
claim is still defended with the tensors that the cheat made, and may be lost by them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from offchain.disputes.evidence import rule_for
from offchain.disputes.game import Game, Player, Stakes
from offchain.disputes.session import Setting, make_task
from offchain.providers.behaviour import Behaviour
from offchain.providers.run import Run
from offchain.providers.store import Store
from offchain.providers.task import Task
from sim.agents import Agent, View, check_providers, make_providers
from sim.draws import JobDraws, draw_jobs
from sim.ledger import read_balances
from sim.mix import Group
from sim.results import Books, JobResult, judge_job
from sim.scratch import open_scratch
from sim.venue import Venue, open_venue

STAKES = Stakes(
    commit_blocks=8, reveal_blocks=8, window_blocks=8, clock_blocks=16, increment_blocks=2
)
"""Short windows: few providers get a job, and they move at once or never."""


@dataclass(frozen=True)
class Market:
    """So many jobs for some agents.

    Attributes:
        venue: where they are played.
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
            ChainError: the money of a job does not add up.
        """
        for number, draws in enumerate(draw_jobs(self.seed, self.jobs, len(self.agents))):
            task = self.make_task(number)
            with open_scratch(task, len(draws.seats) + 1) as folder:
                result = self._play_job(number, task, draws, folder)
            result.flows.check()
            yield result

    def _play_job(self, number: int, task: Task, draws: JobDraws, folder: Path) -> JobResult:
        venue = self.venue
        game = Game(
            referee=venue.referee,
            task=task,
            client=venue.client,
            players=[self._seat(number, task, seat, draws, folder) for seat in draws.seats],
            stakes=self.stakes,
            verifier=venue.verifier,
            ruler=rule_for,
            seed=draws.salt_seed,
        )
        answer = run_provider(task, Behaviour(), folder / "reference").history.top
        before = read_balances(venue.referee, venue.addresses)
        played = list(game.play())
        after = read_balances(venue.referee, venue.addresses)
        books = Books(
            game=game,
            played=played,
            strategies=[self.agents[seat].strategy for seat in draws.seats],
            answer=answer,
            deltas_wei={address: after[address] - before[address] for address in before},
            contract=venue.contract,
        )
        return judge_job(number, books)

    def _seat(self, job: int, task: Task, seat: int, draws: JobDraws, folder: Path) -> Player:
        """Let an agent decide what it does about a job, and do it."""
        agent, address = self.agents[seat], self.venue.providers[seat]
        view = View(job, task, self.stakes, self.venue.referee.balance(address))
        work = agent.act(view, draws.cheats[seat])
        return Player(agent.name, address, run_provider(task, work.behaviour, folder / agent.name))


def run_provider(task: Task, behaviour: Behaviour, folder: Path) -> Run:
    """Run a task under a behaviour, with the store in a folder."""
    run = Run(task, behaviour, Store(folder))
    run.compute()
    return run


def open_market(setting: Setting, groups: Sequence[Group], jobs: int) -> Market:
    """Capture a program and deploy a referee, so that a market can be played.

    Job n trains on the n-th stretch of the program's data, from the same start.

    Args:
        setting: the program, its length, the chain and the seed.
        groups: the providers.
        jobs: how many jobs there are.

    Raises:
        UsageError: a strategy is impossible with the program, or the chain has too few accounts.
    """
    providers = make_providers(groups)
    venue = open_venue(setting.chain, len(providers))
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
    """Return the same task on other data: the batches of the stretch of this number."""
    first = number * task.steps
    return replace(task, batch=lambda step: task.batch(first + step))
