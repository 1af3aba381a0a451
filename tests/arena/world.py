"""The world of a game: the chain, the honest provider's seat, the client, and the adversaries."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moot.contracts.model.types import Address, Job
from moot.contracts.model.types import Terms as JobTerms
from moot.contracts.reasons import Standing, Status
from moot.offchain.disputes.joining.conditions import bound_locked_blocks
from moot.offchain.disputes.play.actors import Client
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.referee.port import Call
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.parties.settings import Settings
from moot.sim.synthetic.products import Size
from tests.arena.adversaries.table import FAMILIES
from tests.arena.chain import Chain
from tests.arena.clock import Clock
from tests.arena.codec import Codec
from tests.arena.court import Court
from tests.arena.funding import calculate_clock, calculate_least
from tests.arena.jobs import Work, WorkingRun, get_task
from tests.arena.ledger import PROMISES, REFEREE
from tests.arena.names import CLIENT, HONEST, NODES
from tests.arena.node import Node
from tests.arena.party import Seat, Server
from tests.arena.records import BLOCK_S, GWEI, Fill, Sent
from tests.arena.story import Story
from tests.arena.workshop import Shop

MOST_BLOCKS, LONGEST_BLOCKS, SPARE_BLOCKS = 600, 4_000, 20
"""A game ends after so many blocks, or when the bond should long be free."""
RICH_WEI = 10**24
OPERATORS, ROWS, COLUMNS, TERMS = 8, 2, 2, 4


class GameOver(BaseException):
    """The game has ended: this is the signal that ends a party."""


class Killed(BaseException):
    """The provider is killed, and will be started again."""


@dataclass(frozen=True, slots=True)
class Told:
    """An event that the provider has told."""

    block: int
    event: str
    line: str


class World:
    """A game's world.

    Args:
        story: what was drawn.
        folder: where files go.
    """

    def __init__(self, story: Story, folder: Path) -> None:
        self.story, self.clock, self.codec = story, Clock(), Codec()
        self.chain = Chain(self._get_level, self._fill, self._drops)
        self.court = Court(self.chain)
        self.works: dict[bytes, Work] = {}
        self.told: list[Told] = []
        self.broken: dict[str, str] = {}
        self.size = Size(story.terms.checkpoints, 1, OPERATORS, ROWS, COLUMNS, TERMS)
        self.settings = Settings(
            referee=REFEREE,
            store=str(folder / "store"),
            folder=str(folder / "provider"),
            availability=PROMISES if "demand_budget" in story.settings else "",
            **story.settings,
        )
        has_two = any(it.family in {"nodes", "falsehoods"} for it in story.moves)
        urls = NODES if has_two else NODES[:1]
        self.nodes = {
            url: Node(self.chain, self.codec, url, self._twist, self._withholds) for url in urls
        }
        self.seat = Seat(HONEST, self.settings, self.codec, self.nodes, folder, self._tell)
        self.shop = Shop(self.clock, self.find_work, self.seat.open_other_context)
        self.served = Server.served
        self.served.clear()
        self.watchers: list[Any] = []
        self.work = Work(self.size, story.terms.step_s)
        self.adversaries = [FAMILIES[it.family](self, it.params) for it in story.moves]
        for adversary in self.adversaries:
            adversary.shape()
        self.main = self._make_terms()
        self.start_wei = self._fund()
        self._client = Party((), [Client("client", CLIENT, ())])
        self.is_client_active = True
        self.restarts = 0

    def begin(self) -> None:
        """Open the main job, and let blocks come."""
        for adversary in self.adversaries:
            adversary.prepare()
        self.chain.head.state = self.chain.ledger.save()
        self.chain.build()
        self.open_job(CLIENT, self.main, self.story.terms.reward_wei, self.work)
        self.clock.schedule(BLOCK_S, self._step)

    def open_job(self, client: Address, terms: JobTerms, reward_wei: int, work: Work) -> None:
        """Send the call that opens a job, whose program costs this."""
        self.note_work(terms, work)
        self.fund(client)
        self.chain.submit(Call("open_job", client, (terms,), reward_wei))

    def note_work(self, terms: JobTerms, work: Work) -> None:
        """Note what the program of jobs with some terms costs."""
        self.works[terms.start_root + terms.layout + terms.steps.to_bytes(8, "big")] = work

    def submit_once(self, call: Call) -> None:
        """Send a call unless it waits already."""
        waiting = self.chain.pool.get(call.sender, {}).values()
        if all(it.call != call for it in waiting):
            self.chain.submit(call)

    def count_matches(self) -> int:
        """Return how many matches the provider has had."""
        started = (it for it in self.court.events(0) if it.name == "MatchStarted")
        return sum(HONEST in it.args[1:3] for it in started)

    def hide(self, job_id: int, sender: Address, top: bytes, salt: bytes) -> bytes:
        """Return the digest with which an account commits to a claim."""
        return self.court.commitment(job_id, sender, top, salt)

    def kill(self) -> None:
        """End the provider's process."""
        self.restarts += 1
        raise Killed

    def find_work(self, terms: JobTerms) -> Work:
        """Return what a job's program costs."""
        return self.works[terms.start_root + terms.layout + terms.steps.to_bytes(8, "big")]

    def recall(self, job: Job, *_: object) -> WorkingRun:
        """Return the honest run of a job, whose answers take the time of the provider itself."""
        return WorkingRun(self.find_work(job.terms), self.clock.sleep)

    def fund(self, address: Address) -> None:
        """Give somebody more than enough."""
        self.chain.ledger.balances[address] = max(RICH_WEI, self.chain.ledger.balances[address])

    def list_jobs(self) -> list[tuple[int, Job]]:
        """Return all jobs."""
        return [*self.chain.ledger.store.jobs.items()]

    def standing(self, job_id: int, address: Address = HONEST) -> Standing:
        """Return where somebody stands."""
        return self.court.member(job_id, address).standing

    def _make_terms(self) -> JobTerms:
        drawn = self.story.terms
        names = [it for it in Stakes.__slots__ if it in type(drawn).__slots__]
        stakes = Stakes(**{it: getattr(drawn, it) for it in names})
        terms = make_terms(get_task(self.size), stakes)
        if not terms.clock_blocks:
            job = Job(CLIENT, terms, drawn.reward_wei, 0, 0)
            clock_blocks = calculate_clock(self.settings, job, self.work)
            terms = replace(terms, clock_blocks=clock_blocks)
        return terms

    def _fund(self) -> int:
        """Give the provider what its check asks for, and return it."""
        spare = self.story.spare_wei
        least = calculate_least(self.settings, self.main)
        self.chain.ledger.balances[HONEST] = 100 * 10**18 if spare is None else least + spare
        self.fund(CLIENT)
        return self.chain.ledger.balances[HONEST]

    def _step(self) -> None:
        """Let a block come, and what is done about it."""
        for job_id, job in self.list_jobs():
            if job.client == CLIENT and self.is_client_active:
                for call in self.court.plan("client", self._client, job_id):
                    self.chain.submit(call)
        for adversary in self.adversaries:
            adversary.act()
        self.chain.build()
        for adversary in self.adversaries:
            adversary.watch()
        for watch in self.watchers:
            watch(self)
        if self._is_over():
            raise GameOver
        self.clock.schedule(BLOCK_S, self._step)

    def _is_over(self) -> bool:
        jobs = self.list_jobs()
        ends = [self._bound_end(job) for job_id, job in jobs if self._is_locked(job_id, job)]
        if self.chain.head.number >= max([MOST_BLOCKS, *ends]):
            return True
        is_idle = not self.shop.is_running
        return bool(jobs) and is_idle and all(self._is_settled(*it) for it in jobs)

    def _is_locked(self, job_id: int, job: Job) -> bool:
        return job.status is Status.OPEN and self.standing(job_id) is not Standing.NONE

    def _bound_end(self, job: Job) -> int:
        """Return the block by which a job should have ended, if that is seen in a game."""
        blocks = bound_locked_blocks(job.terms, self.settings.crowd) + SPARE_BLOCKS
        return job.opened_block + min(blocks, LONGEST_BLOCKS)

    def _is_settled(self, job_id: int, job: Job) -> bool:
        standing = self.standing(job_id)
        if standing is Standing.NONE:
            return self.chain.head.number > job.commit_deadline + 2
        if job.status is Status.OPEN:
            return False
        return not self.court.debt(job_id, HONEST)

    def _get_level(self, number: int) -> int:
        levels = [gwei for block, gwei in self.story.levels if block <= number]
        return int(levels[-1] * GWEI)

    def _fill(self, number: int, base_fee_wei: int) -> Iterable[Fill]:
        return [it for each in self.adversaries for it in each.fill(number, base_fee_wei)]

    def _drops(self, number: int, sent: Sent) -> bool:
        return any(each.drops(number, sent) for each in self.adversaries)

    def _twist(self, url: str, questions: Sequence[Any], answers: list[Any]) -> list[Any]:
        for adversary in self.adversaries:
            answers = adversary.twist(url, questions, answers)
        return answers

    def _withholds(self, url: str) -> bool:
        return any(each.withholds(url) for each in self.adversaries)

    def _tell(self, event: str, line: str, **_: object) -> None:
        self.told.append(Told(self.chain.head.number, event, line))
