"""Receipts of real runs are challenged: who has run the program right wins, on the contract."""

import secrets
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from eth_utils.address import to_checksum_address

from moot.contracts.compiler import compile_contract
from moot.contracts.deployment import deploy_service
from moot.contracts.model.receipts import Receipt, hash_announcement
from moot.contracts.model.types import MIN_BOND_WEI, ZERO
from moot.contracts.reasons import Ending, Status
from moot.offchain.arithmetic.table import find_arithmetic
from moot.offchain.chain import Chain, connect
from moot.offchain.disputes.play.actors import Player
from moot.offchain.disputes.play.game import Game
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import Stakes
from moot.offchain.errors import Reverted
from moot.offchain.providers.run import Run
from moot.offchain.receipts.book import Book
from moot.offchain.receipts.issuing import Claimed, Conditions, Issuer, Standing
from moot.offchain.receipts.packed import SignedReceipt
from moot.offchain.receipts.service import ChainService
from tests.end_to_end.fixtures import Case, draw_cheat, get_case
from tests.quick import only
from tests.receipt_helpers import make_key, make_provider

STAKE_WEI = 10 * MIN_BOND_WEI
CONDITIONS = Conditions(last_blocks=200, window_blocks=8)
PROVIDER, CHALLENGER = make_provider(1), make_provider(2)
ANSWER_SLOT = 0
QUICK = frozenset({("mlp", "ordered")})
PROGRAMS = only(
    QUICK,
    [("mlp", "ordered"), ("gpt2", "ordered"), ("gpt2", "exact"), ("gpt2", "hopper")],
)


@dataclass(frozen=True)
class Court:
    """A service on a chain of its own, with the contract of its challenges.

    Attributes:
        chain: the chain.
        service: the service.
        referee: the challenges, behind the referee's port.
    """

    chain: Chain
    service: ChainService
    referee: ChainReferee


def open_court(arithmetic: str) -> Court:
    """Deploy a service and have the provider stake."""
    chain, kind = connect("tester"), find_arithmetic(arithmetic)
    challenges, service = deploy_service(chain, chain.accounts[5], kind)
    found = ChainService(chain, service.address)
    assert found.challenges == to_checksum_address(challenges.address)
    contract = chain.at(
        compile_contract("challenges", arithmetic=kind.contracts), challenges.address
    )
    found.transact("stake", sender=PROVIDER, value_wei=STAKE_WEI)
    return Court(chain, found, ChainReferee(chain, contract, 0, kind))


def make_claim(run: Run) -> Claimed:
    """Return what a run claims, with a tensor of its last state for the answer."""
    task = run.task
    data = task.data_tree
    return Claimed(
        header=task.commitment.header,
        start_root=task.start_root,
        steps=task.steps,
        checkpoint_every=task.checkpoint_every,
        history=run.history.top,
        answer_slot=ANSWER_SLOT,
        answer=run.state_tree(task.steps).node(0, ANSWER_SLOT),
        data_top=data.top if data else ZERO,
    )


def issue(court: Court, run: Run, folder: Path) -> SignedReceipt:
    """Return the provider's receipt of a run."""

    def look(blocks: int) -> Standing:
        block = court.chain.block_number()
        return Standing(block, court.service.get_bond(PROVIDER, block + blocks))

    with Book(folder, court.service.domain, PROVIDER) as book:
        issuer = Issuer(book, make_key(1).sign_digest, CONDITIONS, look)
        return issuer.issue(make_claim(run), CHALLENGER, 0, b"{}")


def challenge(court: Court, signed: SignedReceipt, run: Run) -> int:
    """Announce and make the challenge of a receipt with the claim of a run."""
    salt, top = secrets.token_bytes(32), run.history.top
    subject = (signed.digest, top)
    digest = hash_announcement(court.service.domain, CHALLENGER, subject, salt)
    court.service.transact("commit", digest, sender=CHALLENGER)
    return court.service.challenge(signed, top, salt, CHALLENGER, MIN_BOND_WEI)


def play(court: Court, case: Case, job_id: int, provider: Run, challenger: Run) -> Game:
    """Play a challenge to its end, each side by the players that all jobs have."""
    given = CONDITIONS
    stakes = Stakes(
        bond_wei=MIN_BOND_WEI,
        reward_wei=0,
        commit_blocks=0,
        reveal_blocks=0,
        window_blocks=given.window_blocks,
        clock_blocks=given.clock_blocks,
        increment_blocks=given.increment_blocks,
    )
    accounts = court.chain.accounts
    players = [Player("provider", accounts[0], provider), Player("other", accounts[1], challenger)]
    game = Game(court.referee, case.task, accounts[1], players, stakes, job_id=job_id)
    for _ in game.play():
        pass
    assert court.referee.job(job_id).status is Status.WON
    return game


@pytest.mark.parametrize(("program", "arithmetic"), PROGRAMS)
@pytest.mark.parametrize("seed", only({1}, range(1, 5)))
def test_lie_loses_its_bond(program: str, arithmetic: str, seed: int, tmp_path: Path) -> None:
    """A provider that signed another history than its program's loses one bond by one scalar."""
    precision = "bf16" if arithmetic == "hopper" else "fp32"
    case = get_case(program, arithmetic=arithmetic, precision=precision)
    liar = draw_cheat(case, "wrong-output", seed)
    court = open_court(arithmetic)
    signed = issue(court, liar, tmp_path)
    job_id = challenge(court, signed, case.honest)
    game = play(court, case, job_id, liar, case.honest)
    (ended,) = game.ended
    assert ended.ending in {Ending.SCALAR, Ending.SINK}
    assert game.get_winners() == ["other"]
    left = court.service.get_stake(PROVIDER)
    assert left.all_wei == STAKE_WEI - MIN_BOND_WEI
    with pytest.raises(Reverted, match="provider has lost by it"):
        challenge(court, signed, case.honest)


def test_honest_answer_stands(tmp_path: Path) -> None:
    """A challenger with another claim loses its bond, half of it to the provider; it may be again.

    What a provider of an honest receipt has staked comes back to it with a prize.
    """
    case = get_case("mlp")
    court = open_court("ordered")
    signed = issue(court, case.honest, tmp_path)
    for seed in (1, 2):
        liar = draw_cheat(case, "wrong-output", seed)
        before = court.chain.balance(court.chain.accounts[0])
        job_id = challenge(court, signed, liar)
        with pytest.raises(Reverted, match="receipt is being challenged"):
            challenge(court, signed, liar)
        game = play(court, case, job_id, case.honest, liar)
        assert game.get_winners() == ["provider"]
        gained = court.chain.balance(court.chain.accounts[0]) - before
        assert MIN_BOND_WEI < gained <= 3 * MIN_BOND_WEI // 2


def test_silence_loses(tmp_path: Path) -> None:
    """A provider that does not answer a challenge loses by its clock."""
    case = get_case("mlp")
    court = open_court("ordered")
    silent = draw_cheat(case, "silent", 1)
    signed = issue(court, silent, tmp_path)
    job_id = challenge(court, signed, case.honest)
    game = play(court, case, job_id, silent, case.honest)
    assert [it.ending for it in game.ended] == [Ending.CLOCK]
    assert game.get_winners() == ["other"]


def test_changed_receipts_are_not_taken(tmp_path: Path) -> None:
    """The contract takes no receipt that its provider has not signed as it is, nor one too late."""
    case = get_case("mlp")
    court = open_court("ordered")
    signed = issue(court, draw_cheat(case, "wrong-output", 1), tmp_path)
    other: Receipt = replace(signed.receipt, steps=signed.receipt.steps + 1)
    with pytest.raises(Reverted, match="signature does not match"):
        challenge(court, replace(signed, receipt=other), case.honest)
    court.chain.mine(CONDITIONS.last_blocks + 1)
    with pytest.raises(Reverted, match="too late"):
        challenge(court, signed, case.honest)
