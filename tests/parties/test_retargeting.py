"""A reorganisation gives a job's number to another job: no bond that was meant for one is taken."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moot.contracts.deployment import bind_referee, deploy_referee
from moot.contracts.model.types import Terms
from moot.contracts.reasons import Reason, Standing
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.chain import Chain
from moot.offchain.chain.accounts import FeePolicy, NodeAccount, open_chain
from moot.offchain.chain.devnode.server import DevNode, Local
from moot.offchain.chain.jsonrpc import JsonRpc
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.port import Call, Outcome
from moot.offchain.disputes.referee.terms import Stakes, make_terms
from moot.offchain.errors import Reverted
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.daemon import Work
from moot.offchain.parties.polled_referee import PolledReferee
from moot.offchain.parties.provider import Provider
from moot.offchain.parties.recall import Recalled
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.turns import take_turns
from moot.sim.synthetic.products import ProductRun, Size, make_task

TASK = make_task(Size())
TERMS = make_terms(TASK, Stakes(commit_blocks=40, reveal_blocks=1, window_blocks=40))
OTHER = replace(TERMS, start_root=b"\7" * 32)
"""The terms of another run, whose right claim is another one."""
REWARD_WEI = 10**17
CONFIRMATIONS = 4


class Court:
    """A referee on a node, a client who opens jobs, and a provider with a journal of its own."""

    def __init__(self, folder: Path) -> None:
        self.node = DevNode(accounts=3)
        transport = Local(self.node)
        self.chain = Chain(JsonRpc("here", 10.0, transport), None)
        contract = deploy_referee(self.chain, self.chain.accounts[0])
        self.referee = ChainReferee(self.chain, contract, 0)
        _, self.client, self.member = self.chain.accounts
        policy = FeePolicy(confirmations=CONFIRMATIONS)
        account = NodeAccount(self.member, transport)
        self.own = open_chain(transport, [account], policy, folder=folder / "journal")
        sight = PolledReferee(
            self.own, bind_referee(self.own, contract.address), ORDERED, self.member
        )
        settings = Settings(folder=str(folder / "party"), confirmations=CONFIRMATIONS)
        self.context = PartyContext(settings, self.own, sight, self.member, lambda *_, **__: None)
        self.provider = Provider(self.context)

    def open_job(self, terms: Terms, reward_wei: int = REWARD_WEI) -> int:
        """Open a job, and return the block that has it."""
        self.referee.transact("open_job", terms, sender=self.client, value_wei=reward_wei)
        return self.chain.block_number()

    def take_up(self) -> Work:
        """Let the provider take up job 0, of which it has computed the claim before."""
        self.context.referee.look()
        self.provider._begin(0)
        work = self.provider.works[0]
        work.run = Recalled([b"\1" * 32] * TERMS.checkpoints, lambda: ProductRun(TASK))
        return work

    def join(self, *, late: bool) -> Work:
        """Let the provider join job 0, while claims are hidden or after they were shown."""
        work = self.take_up()
        self.mine_to(work.job.reveal_deadline if late else work.job.opened_block + CONFIRMATIONS)
        self.context.referee.look()
        self.provider._sit_down(work, work.run)  # type: ignore[arg-type] # it has one
        (answer,) = self.context.referee.transact_all([self.plan(work, late=late)])
        assert isinstance(answer, Outcome)
        return work

    def plan(self, work: Work, *, late: bool) -> Call:
        """Return the call that joins a job, as the provider's actor plans it."""
        assert work.seat is not None
        assert work.run is not None
        view, player = work.seat.view.look(), Player("provider", self.member, work.run)
        return player.join(view, player.claim) if late else next(iter(player.commit(view)))

    def mine_to(self, block: int) -> None:
        """Let time pass up to a block."""
        self.chain.mine(max(0, block - self.chain.block_number()))

    def replace_job(self, opened_block: int, terms: Terms, reward_wei: int, *, late: bool) -> None:
        """Replace all blocks since the job was opened; another job gets its number."""
        depth = self.chain.block_number() + 1 - opened_block
        self.node.methods.blocks.reorganise(depth, is_kept=False)
        self.open_job(terms, reward_wei)
        if late:
            self.mine_to(self.referee.job(0).reveal_deadline)

    def count_sent(self) -> int:
        """Return how many transactions of the provider the chain has."""
        return self.node.methods.blocks.get_count(bytes.fromhex(self.member[2:]))  # type: ignore[arg-type] # bytes

    def check_untouched(self, reward_wei: int) -> None:
        """Check that the provider has no part in job 0, and has paid for no bond."""
        assert self.referee.member(0, self.member).standing is Standing.NONE
        assert self.chain.balance(self.referee.address) == reward_wei
        assert self.chain.balance(self.member) > self.chain.balance(self.client) - 10**17


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Court]:
    """Yield a court."""
    found = Court(tmp_path)
    yield found
    found.own.close()


OTHERS: dict[str, tuple[Terms, int]] = {
    "another run": (OTHER, REWARD_WEI),
    "another reward": (TERMS, 0),
}


@pytest.mark.parametrize("late", [False, True], ids=["commit", "join"])
@pytest.mark.parametrize("other", OTHERS)
def test_what_the_journal_sends_again_is_refused(court: Court, other: str, *, late: bool) -> None:
    """The bytes that joined one job are sent again; the other job of its number refuses them."""
    terms, reward_wei = OTHERS[other]
    opened = court.open_job(TERMS)
    work = court.join(late=late)
    assert court.referee.member(0, court.member).standing is not Standing.NONE
    court.replace_job(opened, terms, reward_wei, late=late)
    assert court.count_sent() == 0
    court.own.tend()
    court.chain.mine(1)
    court.own.tend()
    assert court.count_sent() == 1
    court.check_untouched(reward_wei)
    court.context.referee.look()
    court.provider._advance(work)
    assert court.provider.works[0] is not work
    assert court.provider.works[0].seat is None


@pytest.mark.parametrize("late", [False, True], ids=["commit", "join"])
@pytest.mark.parametrize("other", OTHERS)
def test_a_seat_joins_no_job_but_its_own(court: Court, other: str, *, late: bool) -> None:
    """Whoever sat down for one job and finds another under its number calls in vain."""
    terms, reward_wei = OTHERS[other]
    opened = court.open_job(TERMS)
    work = court.take_up()
    court.provider._sit_down(work, work.run)  # type: ignore[arg-type] # it has one
    court.chain.mine(2)
    court.replace_job(opened, terms, reward_wei, late=late)
    court.context.referee.look()
    (answer,) = court.context.referee.transact_all([court.plan(work, late=late)])
    assert isinstance(answer, Reverted)
    assert answer.reason == Reason.OTHER_TERMS
    court.check_untouched(reward_wei)


def test_the_job_itself_may_move(court: Court) -> None:
    """The same job in another block of a replaced chain takes the bytes that were sent before."""
    opened = court.open_job(TERMS)
    court.join(late=False)
    court.replace_job(opened, TERMS, REWARD_WEI, late=False)
    court.own.tend()
    court.chain.mine(1)
    assert court.referee.member(0, court.member).standing is Standing.COMMITTED


@pytest.mark.parametrize(("commit_blocks", "waits"), [(2 * CONFIRMATIONS - 1, False), (40, True)])
def test_a_commit_waits_for_its_job_to_be_final(
    court: Court, commit_blocks: int, *, waits: bool
) -> None:
    """A provider commits after its job's confirmations, or at once if time is short."""
    opened = court.open_job(replace(TERMS, commit_blocks=commit_blocks))
    work = court.take_up()
    made: list[Any] = []
    while not made and court.chain.block_number() < opened + 2 * CONFIRMATIONS:
        court.context.referee.look()
        court.provider._advance(work)
        if work.seat is not None:
            work.seat.view.look()
            made = take_turns(court.context, [work.seat])
        else:
            court.chain.mine(1)
    assert [it.call.name for _, it in made] == ["commit"]
    assert isinstance(made[0][1].answer, Outcome)
    assert court.chain.block_number() == opened + (CONFIRMATIONS if waits else 1)
