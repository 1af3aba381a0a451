"""A swarm: any number of liars, behind any number of claims, against one honest provider.

Both sides have half of every block, the liars the first half, and every call is checked. The
honest provider begins the matches that are needed, also those of liars with liars, and ends those
that nobody plays: that is what the swarm can make it pay for, and its prizes are what it gets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from moot.contracts.deployment import deploy_referee
from moot.contracts.model.types import Address, Terms
from moot.offchain.chain import Chain
from moot.offchain.chain.tester import Tester
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.actors import Client, Player, View
from moot.offchain.disputes.play.arena import Arena, ChainView, Made
from moot.offchain.disputes.play.party import Party
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.board import Board
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.port import Call, ModelReferee, Outcome
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.sim.checked_referee import CheckedReferee
from moot.sim.relay import read_cost
from moot.sim.synthetic.products import (
    FIRST_PRODUCT,
    SLOTS,
    Lie,
    ProductRun,
    ProductTask,
    Size,
    make_task,
)

SIZE = Size(checkpoints=16, operators=8, rows=8, columns=16, terms=16)
STAKES = Stakes(
    commit_blocks=2, reveal_blocks=2, window_blocks=20, clock_blocks=30, increment_blocks=1
)
SALT = b"\x5a" * 32


def open_swarm(lies: Sequence[Lie], stakes: Stakes = STAKES) -> "Swarm":
    """Return a swarm on a new chain in memory, with the contract on it."""
    chain = Chain(Tester(len(lies) + 1), None)
    contract = deploy_referee(chain, chain.accounts[0])
    return Swarm(ChainReferee(chain, contract, 0), chain.accounts, lies, stakes)


def open_model_swarm(lies: Sequence[Lie], stakes: Stakes = STAKES) -> "Swarm":
    """Return a swarm on the model, whose accounts are in an order of their own."""
    numbers = Random(len(lies)).sample(range(1, 1 << 30), len(lies) + 1)  # noqa: S311 - not a secret
    accounts = [f"0x{number:040x}" for number in numbers]
    return Swarm(ModelReferee(dict.fromkeys(accounts, 10**24)), accounts, lies, stakes)


@dataclass(slots=True)
class Tally:
    """The counts of a game between a swarm and one honest provider.

    Attributes:
        liars: how many there were.
        has_won: whether the honest provider is the one that is left.
        meetings: how many claims have met the honest one.
        matches: how many have begun.
        prizes: how many of their members it has defeated.
        blocks: from the first match to the end of the job.
        gas: by account, refused calls included; nothing on the model.
        calls: by account, refused calls included.
        uses: how often a call was made, and for how much gas in all, by its name and by whether the
            honest provider made it.
    """

    liars: int
    has_won: bool = False
    meetings: int = 0
    matches: int = 0
    prizes: int = 0
    blocks: int = 0
    gas: dict[Address, int] = field(default_factory=dict)
    calls: dict[Address, int] = field(default_factory=dict)
    uses: dict[tuple[str, bool], tuple[int, int]] = field(default_factory=dict)


def draw_lies(count: int, seed: int, *, silent: bool = False) -> list[Lie]:
    """Return so many lies about a job, of which no two claim the same history.

    Args:
        count: how many.
        seed: where they are drawn from.
        silent: whether the liars never move.
    """
    rng, lies = Random(seed), dict[tuple[int, ...], Lie]()  # noqa: S311 - not a secret
    while len(lies) < count:
        lie = Lie(
            step=rng.randrange(SIZE.checkpoints),
            operator=rng.randrange(FIRST_PRODUCT, SIZE.operators - SLOTS),
            element=rng.randrange(SIZE.rows * SIZE.columns),
            term=rng.randrange(SIZE.terms),
            mask=1 << rng.randrange(20),
            is_silent=silent,
        )
        lies[lie.step, lie.element, lie.mask] = lie
    return list(lies.values())


def draw_crowds(roots: int, members: int, seed: int, *, silent: bool = False) -> list[Lie]:
    """Return the lies of so many members behind each of so many claims.

    The claims are wrong deep in a step, so that their matches are among the longest.
    """
    rng = Random(seed)  # noqa: S311 - not a secret
    lies = [
        Lie(rng.randrange(6), FIRST_PRODUCT + 1, 77, 5, 1 << root, is_silent=silent)
        for root in range(roots)
    ]
    return [lie for lie in lies for _ in range(members)]


class _Liar(Player):
    """A liar that moves and calls nobody late: that, too, it leaves to the honest provider."""

    def move(self, view: View, board: Board) -> Call | None:
        """Make the move that its side has."""
        return None if view.block > board.position.deadline else super().move(view, board)


@dataclass
class Swarm:
    """A job with one honest provider and its liars.

    Attributes:
        referee: where it is played.
        accounts: the honest provider's, who is the client too, and the liars'.
        lies: the lie of each liar.
        stakes: money and clocks.
    """

    referee: ModelReferee | ChainReferee
    accounts: Sequence[Address]
    lies: Sequence[Lie]
    stakes: Stakes = STAKES

    def __post_init__(self) -> None:
        label = f"a swarm of {len(self.lies)}"
        self._checked = CheckedReferee(self.referee, label)
        self._checked.watcher.honest[0] = frozenset(self.accounts[:1])
        self.task: ProductTask = make_task(SIZE)
        self.honest = self.accounts[0]
        self.tally = Tally(len(self.lies))
        self._top = ProductRun(self.task).history.top
        self._met: set[Digest] = set()

    @cached_property
    def terms(self) -> Terms:
        """The terms of the job."""
        return make_terms(self.task, self.stakes)

    def play(self) -> Tally:
        """Play the job to its end."""
        opening = Call("open_job", self.honest, (self.terms,), self.stakes.reward_wei)
        (opened,) = self._checked.transact_all([opening])
        self._count(Made(opening, opened))
        view = ChainView(self._checked, Tournament(0, self.terms))
        for turn in Arena(view, self._make_parties()).play():
            for made in turn:
                self._count(made)
        return self.tally

    def _make_parties(self) -> tuple[Party, Party]:
        """Return the liars, who come first, and the honest provider."""
        honest = Player("honest-1", self.honest, ProductRun(self.task), SALT)
        liars = [
            _Liar(f"liar-{number}", account, ProductRun(self.task, lie), SALT)
            for number, (account, lie) in enumerate(
                zip(self.accounts[1:], self.lies, strict=False), 1
            )
        ]
        client = Client("client", self.honest, [honest])
        return Party(liars, joins_at_once=True), Party([honest], [client])

    def _count(self, made: Made) -> None:
        call, answer, tally = made.call, made.answer, self.tally
        gas, _ = read_cost(answer)
        if isinstance(answer, Outcome) and call.name == "start_match":
            tally.matches += 1
            self._note_meeting(call.args[3])
        elif isinstance(answer, Outcome) and call.name == "settle":
            self._note_end()
        tally.gas[call.sender] = tally.gas.get(call.sender, 0) + gas
        tally.calls[call.sender] = tally.calls.get(call.sender, 0) + 1
        use = (call.name, call.sender == self.honest)
        count, spent = tally.uses.get(use, (0, 0))
        tally.uses[use] = (count + 1, spent + gas)

    def _note_end(self) -> None:
        """Note how the honest provider stands when the job is closed, before it is paid."""
        member, job = self._checked.member(0, self.honest), self._checked.job(0)
        self.tally.blocks = self._checked.block_number() - job.reveal_deadline
        self.tally.has_won, self.tally.prizes = member.is_contender, member.prizes

    def _note_meeting(self, tops: tuple[Digest, Digest]) -> None:
        """Count the claims that the honest one has met."""
        if self._top in tops:
            self._met |= {*tops} - {self._top}
            self.tally.meetings = len(self._met)
