"""A swarm: any number of different lies about one job, against one honest provider.

Everybody moves in every block, and every call is witnessed. The honest provider begins all matches,
also those of liars with liars, and ends those that nobody plays: that is what the swarm can make it
pay for, and its prizes are what it gets for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

from contracts.deployment import deploy_referee
from contracts.model.types import Address, Pair, Terms
from contracts.reasons import Status
from offchain.chain import Chain
from offchain.chain.receipts import Mined, Transaction
from offchain.chain.tester import Tester
from offchain.disputes.board import Board
from offchain.disputes.chain_referee import ChainReferee
from offchain.disputes.game import Game, Stakes
from offchain.disputes.players import find_move
from offchain.disputes.referee import ModelReferee, Outcome
from offchain.disputes.tournament import Tournament
from sim.paper import FIRST_PRODUCT, SLOTS, Lie, PaperRun, PaperTask, Size, make_task
from sim.witness import Witness

SIZE = Size(checkpoints=16, operators=8, rows=8, columns=16, terms=16)
STAKES = Stakes(
    commit_blocks=2, reveal_blocks=2, window_blocks=20, clock_blocks=30, increment_blocks=1
)
SALT = b"\x5a" * 32
BLOCK_GAS = 10**9
"""So that a swarm's calls of one turn find room in one block."""


class BusyModel(ModelReferee):
    """The model, with any number of calls in a block: all until time is let pass."""

    def transact(self, name: str, *args: Any, sender: Address, value_wei: int = 0) -> Outcome:
        """Make a call in the next block, which stays the next."""
        outcome = super().transact(name, *args, sender=sender, value_wei=value_wei)
        self._block -= 1
        return outcome


class BusyTester(Tester):
    """A chain in memory, with any number of transactions in a block: all until one is mined."""

    def __init__(self, accounts: int) -> None:
        super().__init__(accounts, BLOCK_GAS)
        self._is_waiting = True

    def send(self, transaction: Transaction) -> Mined:
        """See Node; the next block has it, and its gas is what it adds to those before it."""
        before = self._chain.header.gas_used
        mined = super().send(transaction)
        return replace(mined, block=mined.block + 1, gas_used=mined.gas_used - before)

    def mine(self, blocks: int) -> None:
        """See Node."""
        self._is_waiting = False
        super().mine(blocks)
        self._is_waiting = True

    def _mine_block(self) -> None:
        if not self._is_waiting:
            super()._mine_block()


def open_swarm(lies: Sequence[Lie]) -> "Swarm":
    """Return a swarm on a new chain in memory, with the contract on it."""
    chain = Chain(BusyTester(len(lies) + 1), None)
    contract = deploy_referee(chain, chain.accounts[0])
    chain.mine()
    return Swarm(ChainReferee(chain, contract, 0), chain.accounts, lies)


@dataclass(slots=True)
class Tally:
    """How much a swarm and its opponent have done.

    Attributes:
        liars: how many there were.
        has_won: whether the honest provider is the one that is left.
        meetings: how many claims the honest one has met.
        prizes: how many of their members it has defeated.
        blocks: from the first match to the end of the job.
        gas: by account; nothing on the model.
        calls: by account.
    """

    liars: int
    has_won: bool = False
    meetings: int = 0
    prizes: int = 0
    blocks: int = 0
    gas: dict[Address, int] = field(default_factory=dict)
    calls: dict[Address, int] = field(default_factory=dict)


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
            step=rng.randrange(-1, SIZE.checkpoints - 1),
            operator=rng.randrange(FIRST_PRODUCT, SIZE.operators - SLOTS),
            element=rng.randrange(SIZE.rows * SIZE.columns),
            term=rng.randrange(SIZE.terms),
            mask=1 << rng.randrange(20),
            is_silent=silent,
        )
        lies[lie.step, lie.element, lie.mask] = lie
    return list(lies.values())


@dataclass
class Swarm:
    """A job with one honest provider and its liars.

    Attributes:
        referee: where it is played; any number of calls are in a block.
        accounts: the honest provider's, who is the client too, and the liars'.
        lies: what the liars say.
    """

    referee: BusyModel | ChainReferee
    accounts: Sequence[Address]
    lies: Sequence[Lie]

    def __post_init__(self) -> None:
        label = f"a swarm of {len(self.lies)}"
        self._witness = Witness(self.referee, label)
        self._witness.watcher.honest[0] = frozenset(self.accounts[:1])
        self.task: PaperTask = make_task(SIZE)
        self.honest = self.accounts[0]
        self.runs = {self.honest: PaperRun(self.task)}
        others = zip(self.accounts[1:], self.lies, strict=False)
        self.runs |= {account: PaperRun(self.task, lie) for account, lie in others}
        self.tally = Tally(len(self.lies))
        self.job_id = -1

    @cached_property
    def terms(self) -> Terms:
        """The terms of the job."""
        return Game(self._witness, self.task, self.honest, (), STAKES).terms

    def play(self) -> Tally:
        """Play the job to its end."""
        self._assemble()
        begun = self._witness.block_number()
        tournament = Tournament(self.job_id, self.terms)
        while self._witness.job(self.job_id).status is Status.OPEN:
            tournament.read(self._witness.events(self.job_id))
            if not self._take_turn(tournament):
                self._wait(tournament)
            self._witness.mine(1)
        self.tally.blocks = self._witness.block_number() - begun
        self.tally.has_won = self._witness.member(self.job_id, self.honest).is_contender
        self.tally.prizes = self._witness.member(self.job_id, self.honest).prizes
        self._send("collect", self.honest, self.job_id)
        self._witness.mine(1)
        return self.tally

    def _send(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> Outcome:
        outcome = self._witness.transact(name, *args, sender=sender, value_wei=value_wei)
        gas = outcome.receipt.gas_used if outcome.receipt else 0
        self.tally.gas[sender] = self.tally.gas.get(sender, 0) + gas
        self.tally.calls[sender] = self.tally.calls.get(sender, 0) + 1
        return outcome

    def _assemble(self) -> None:
        opened = self._send("open_job", self.honest, self.terms, value_wei=STAKES.reward_wei)
        self.job_id = int(str(opened.events[0].args[0]))
        self._witness.mine(1)
        bond = self.terms.bond_wei
        for account, run in self.runs.items():
            digest = self._witness.commitment(self.job_id, account, run.history.top, SALT)
            self._send("commit", account, self.job_id, digest, value_wei=bond)
        self._witness.mine(STAKES.commit_blocks)
        for account, run in self.runs.items():
            self._send("reveal", account, self.job_id, run.history.top, SALT)
        self._witness.mine(STAKES.reveal_blocks)

    def _take_turn(self, tournament: Tournament) -> bool:
        """Make every call that there is a reason for; return whether there was any."""
        block, has_moved = self._witness.block_number() + 1, False
        for pair in list(tournament.find_pairs(block)):
            self._send("start_match", self.honest, *tournament.name_match(pair))
            self.tally.meetings += self.honest in {pair.first, pair.second}
            has_moved = True
        for board in list(tournament.boards.values()):
            has_moved |= self._move(board, block)
        claims = list(tournament.get_claims())
        if len(claims) <= 1 and block > self._witness.job(self.job_id).window_end:
            self._send("settle", self.honest, self.job_id, *(claims or [bytes(32)]))
            has_moved = True
        return has_moved

    def _move(self, board: Board, block: int) -> bool:
        """Let a match go on, if anybody has a move in it, or its clock has run out."""
        place = (board.pair, board.position)
        if block > board.position.deadline:
            self._send("timeout", self.honest, *place)
            return True
        for side, account in self._list_sides(board.pair, board.position.mover):
            move = find_move(self.runs[account], self.terms, board, side)
            if move is not None:
                self._send(move.call, account, *place, *move.args)
                return True
        return False

    @staticmethod
    def _list_sides(pair: Pair, mover: int) -> Iterator[tuple[int, Address]]:
        """Yield both sides of a match, the side to move first."""
        sides = list(enumerate((pair.first, pair.second)))
        yield from (sides[mover], sides[1 - mover])

    def _wait(self, tournament: Tournament) -> None:
        """Let time pass until a clock has run out, or a window is over."""
        block = self._witness.block_number()
        ends = [board.position.deadline for board in tournament.boards.values()]
        ends += [*tournament.list_windows(), self._witness.job(self.job_id).window_end]
        self._witness.mine(min(end for end in ends if end > block) - block)
