"""The gas of a service of receipts: what honest ones cost, faults, and the dispute of one lie.

The lie is about one of 512 tokens: one checkpoint after 512 steps, and else the sizes of the
reference. Trees are synthetic, and moves are real, as in every other scenario.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from coincurve import PrivateKey

from moot.contracts.compiler import SOURCE_DIR, compile_contract, read_sources
from moot.contracts.deployment import deploy_service
from moot.contracts.model.abi import pack_args
from moot.contracts.model.bonds import Batch
from moot.contracts.model.receipts import Domain, Receipt, Voucher, hash_announcement
from moot.contracts.model.service import DEFUND_BLOCKS, MAX_BATCH, UNSTAKE_BLOCKS
from moot.contracts.model.types import MIN_BOND_WEI, NOBODY, ZERO, Address, Terms
from moot.offchain.chain import Address as ChainAddress
from moot.offchain.chain import Chain, Contract
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest, Tree, hash_root
from moot.offchain.disputes.play.tournament import Tournament
from moot.offchain.disputes.referee.on_chain import ChainReferee
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import CompileError
from moot.offchain.programs.limits import MAX_SLOTS, MAX_STEPS
from moot.sim.gas.scenarios import LARGE, place_lie
from moot.sim.synthetic.calls import find_call
from moot.sim.synthetic.products import ProductRun, make_task
from moot.sim.synthetic.proofs import compute_top, draw_siblings

SALT = b"\x5a" * 32
ANSWER = replace(LARGE, checkpoints=1, checkpoint_every=512)
"""The sizes of an answer of 512 tokens."""
PRICE_WEI: Final = 10**14
WINDOW_BLOCKS: Final = 10
HASTE: Final = 5
"""Blocks after which money leaves where that is measured."""
COUNT: Final = 64
SLOTS = Tree(Tag.STATE_NODE, [bytes([n]) * 32 for n in range(COUNT)])
"""A last state of so many slots, of which slot 3 is the answer."""


def measure_receipts(chain: Chain) -> Iterator[tuple[str, int]]:
    """Yield what each call of a service costs, in gas, by its name."""
    case = _Case(chain, _deploy_hasty(chain))
    provider, client, reporter = case.provider, case.client, case.challenger
    for name in ("stake", "stake-later"):
        yield name, case.send("stake", provider, value=MIN_BOND_WEI)
    for name in ("fund", "fund-later"):
        yield name, case.send("fund", client, provider, value=2_000 * PRICE_WEI)
    for answers, name in ((1_000, "redeem"), (2_000, "redeem-later")):
        voucher = Voucher(client, provider, answers * PRICE_WEI)
        signature = case.sign(voucher.hash(case.domain), client)
        yield name, case.send("redeem", provider, client, voucher.total_wei, signature)
    receipts = [case.make_receipt(number=n) for n in range(4)]
    batch = Tree(Tag.RECEIPT_NODE, [it.hash(case.domain) for it in receipts])
    yield "publish", case.send("publish", provider, 0, 4, batch.top)
    yield "publish-later", case.send("publish", provider, 4, 1_000_000, batch.top)
    case.send("fund", client, reporter, value=PRICE_WEI)
    yield "unstake", case.send("unstake", provider, MIN_BOND_WEI)
    yield "defund", case.send("defund", client, reporter, PRICE_WEI)
    chain.mine(HASTE)
    yield "take_funds", case.send("take_funds", client, reporter)
    yield "take_stake", case.send("take_stake", provider)


def measure_faults(chain: Chain) -> Iterator[tuple[str, int]]:
    """Yield what each proof of a fault costs, in gas, by its name: of a provider each."""
    case = _Case(chain, deploy_service(chain, chain.accounts[0])[1])
    one, two, three, four, five = chain.accounts[3:8]
    for provider in (one, two, three, four, five):
        case.send("stake", provider, value=MIN_BOND_WEI)
    lie = case.make_receipt(provider=one, answer=ZERO)
    case.announce(lie.hash(case.domain), SLOTS.node(0, 3))
    state = hash_root(Tag.STATE_ROOT, COUNT, SLOTS.top)
    shown = (state, (), SLOTS.node(0, 3), tuple(SLOTS.proof(3)), SALT)
    signature = case.sign(lie.hash(case.domain), one)
    yield "refute_answer", case.send("refute_answer", case.challenger, lie, signature, *shown)
    pair = case.make_receipt(provider=two), case.make_receipt(provider=two, price_wei=0)
    digests = pair[0].hash(case.domain), pair[1].hash(case.domain)
    case.announce(*digests)
    signatures = [case.sign(digest, two) for digest in digests]
    gas = case.send("prove_conflict", case.challenger, pair, *signatures, SALT)
    yield "prove_conflict", gas
    hidden = case.make_receipt(provider=three, number=333_333)
    listed = case.make_receipt(provider=three, number=333_333, price_wei=0).hash(case.domain)
    leaves = [listed] * 1_000
    tree = Tree(Tag.RECEIPT_NODE, leaves)
    case.send("publish", three, 0, 333_000, ZERO)
    case.send("publish", three, 333_000, len(leaves), tree.top)
    case.announce(hidden.hash(case.domain), listed)
    proof, signature = tuple(tree.proof(333)), case.sign(hidden.hash(case.domain), three)
    args = (hidden, signature, Batch(333_000, len(leaves), tree.top), listed, proof, SALT)
    yield "prove_unlisted", case.send("prove_unlisted", case.challenger, *args)
    # Trees as high as they can be.
    root = SLOTS.node(0, 3)
    node = compute_top(Tag.STATE_NODE, root, 0, MAX_SLOTS)
    state = hash_root(Tag.STATE_ROOT, MAX_SLOTS, node)
    lie = case.make_receipt(
        provider=four,
        answer=ZERO,
        answer_slot=0,
        state_slots=MAX_SLOTS,
        operators=MAX_SLOTS,
        steps=MAX_STEPS,
        checkpoint_every=1,
        history=compute_top(Tag.HISTORY_NODE, state, MAX_STEPS - 1, MAX_STEPS),
    )
    case.announce(lie.hash(case.domain), root)
    signature = case.sign(lie.hash(case.domain), four)
    highest = (state, draw_siblings(MAX_STEPS), root, draw_siblings(MAX_SLOTS), SALT)
    gas = case.send("refute_answer", case.challenger, lie, signature, *highest)
    yield "refute_answer-longest", gas
    hidden = case.make_receipt(provider=five, number=0)
    proof, top = draw_siblings(MAX_BATCH), compute_top(Tag.RECEIPT_NODE, listed, 0, MAX_BATCH)
    case.send("publish", five, 0, MAX_BATCH, top)
    case.announce(hidden.hash(case.domain), listed)
    signature = case.sign(hidden.hash(case.domain), five)
    args = (hidden, signature, Batch(0, MAX_BATCH, top), listed, proof, SALT)
    yield "prove_unlisted-longest", case.send("prove_unlisted", case.challenger, *args)


def measure_challenge(chain: Chain) -> Iterator[tuple[str, int]]:
    """Yield what each call of the dispute of one lie costs, in gas, by its name."""
    challenges, service = deploy_service(chain, chain.accounts[0])
    case, task = _Case(chain, service), make_task(ANSWER)
    referee = ChainReferee(chain, challenges, chain.block_number())
    runs: dict[Address, ProductRun] = {
        case.provider: ProductRun(task, place_lie(ANSWER)),
        case.challenger: ProductRun(task),
    }
    case.send("stake", case.provider, value=2 * MIN_BOND_WEI)
    receipt = case.make_receipt(make_terms(task), history=runs[case.provider].history.top)
    top = runs[case.challenger].history.top
    yield "commit", case.announce(receipt.hash(case.domain), top)
    signature = case.sign(receipt.hash(case.domain), case.provider)
    args = (receipt, signature, top, SALT)
    yield "challenge", case.send("challenge", case.challenger, *args, value=MIN_BOND_WEI)
    tournament = Tournament(0, referee.job(0).terms)
    while True:
        tournament.read(referee.events(0))
        if not tournament.boards:
            break
        (board,) = tournament.boards.values()
        made = find_call(runs, tournament.terms, board)
        yield made.name, _play(referee, made.name, made.sender, *made.args)
    chain.mine(max(0, referee.job(0).window_end - chain.block_number()))
    yield "settle", _play(referee, "settle", case.challenger, 0, top)
    yield "collect", _play(referee, "collect", case.challenger, 0)


def _play(referee: ChainReferee, name: str, sender: Address, *args: Any) -> int:
    """Make a call of the challenges, and return its gas."""
    outcome = referee.transact(name, *args, sender=sender)
    assert outcome.receipt is not None, "a chain has receipts"
    return outcome.receipt.gas_used


def _deploy_hasty(chain: Chain) -> Contract:
    """Deploy a service, without challenges, in which money leaves after a few blocks.

    A week of blocks would take longer than all else, and no call's gas depends on how long it is.
    """
    sources = read_sources(SOURCE_DIR)
    for file, name, blocks in (
        ("receipts.vy", "MAX_WINDOW_BLOCKS", UNSTAKE_BLOCKS),
        ("service.vy", "DEFUND_BLOCKS", DEFUND_BLOCKS),
    ):
        line = f"{name}: constant(uint256) = {blocks:_}\n"
        before, *rest = sources[file].split(line)
        if len(rest) != 1:
            raise CompileError(f"{line.strip()} is there {len(rest)} times, not once", file=file)
        sources[file] = before + line.replace(f"{blocks:_}", f"{HASTE}") + rest[0]
    with tempfile.TemporaryDirectory() as folder:
        for path, text in sources.items():
            Path(folder, path).write_text(text, encoding="utf-8")
        artifact = compile_contract("service", Path(folder))
    return chain.deploy(artifact, NOBODY, sender=chain.accounts[0])


class _Case:
    """A service, its challenges, and accounts whose keys are known: those of the chain in memory.

    Args:
        chain: the chain.
        service: the service.
    """

    def __init__(self, chain: Chain, service: Contract) -> None:
        self.chain, self._service = chain, service
        self.provider, self.client, self.challenger = chain.accounts[:3]
        self.domain = Domain(chain.chain_id, self._service.address)
        self._keys = {
            account: PrivateKey(number.to_bytes(32, "big"))
            for number, account in enumerate(chain.accounts, 1)
        }

    def send(self, name: str, sender: ChainAddress, *args: Any, value: int = 0) -> int:
        """Make a call of the service, and return its gas."""
        receipt = self._service.transact(name, *pack_args(args), sender=sender, value=value)
        return receipt.gas_used

    def announce(self, first: Digest, second: Digest) -> int:
        """Let the challenger announce a call, and return its gas."""
        digest = hash_announcement(self.domain, self.challenger, (first, second), SALT)
        return self.send("commit", self.challenger, digest)

    def sign(self, digest: Digest, signer: Address) -> bytes:
        """Return an account's signature, as the contract takes it."""
        signed = self._keys[ChainAddress(signer)].sign_recoverable(digest, hasher=None)
        return signed[:64] + bytes([27 + signed[64]])

    def make_receipt(self, terms: Terms | None = None, **changes: Any) -> Receipt:
        """Return a receipt of an answer of 512 tokens."""
        it, block = terms or make_terms(make_task(ANSWER)), self.chain.block_number()
        state = hash_root(Tag.STATE_ROOT, COUNT, SLOTS.top)
        receipt = Receipt(
            layout=it.layout,
            program_top=it.program_top,
            start_root=it.start_root,
            data_top=it.data_top,
            history=state,
            answer=SLOTS.node(0, 3),
            operators=it.operators,
            state_slots=it.state_slots if terms else COUNT,
            batch_slots=it.batch_slots,
            answer_slot=2 if terms else 3,
            steps=it.steps,
            checkpoint_every=it.checkpoint_every,
            window_blocks=WINDOW_BLOCKS,
            clock_blocks=64,
            increment_blocks=4,
            client=self.client,
            provider=self.provider,
            number=12_345,
            issued_block=block,
            last_block=block + UNSTAKE_BLOCKS,
            stake_wei=10**16,
            total_wei=10**18,
            released_wei=9 * 10**17,
            price_wei=PRICE_WEI,
        )
        return replace(receipt, **changes)
