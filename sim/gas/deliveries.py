"""The gas of a premium for a job's result and of demands upon it, in a job as large as jobs can be.

The trees are synthetic, as those of `promises.py` are: the history's last state is one that has the
job's start for its tensors, and its proof has a sibling at every level.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from moot.contracts.deployment import deploy_delivery, deploy_referee
from moot.contracts.model.abi import pack_args, unpack_job
from moot.contracts.model.answers import MIN_DEPOSIT_WEI, make_subject
from moot.contracts.model.delivery import make_result
from moot.contracts.model.types import ZERO, Store
from moot.contracts.model.words import hash_commitment, hash_job
from moot.contracts.reasons import Part
from moot.offchain.chain import Address, Chain, Contract
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.availability.demands import list_demand
from moot.sim.gas.promises import BOND_WEI, SIZES, Job
from moot.sim.synthetic.proofs import compute_top, draw_siblings

ANSWER_BLOCKS, WINDOW_BLOCKS = 3, 10
WAITING_BLOCKS = 6
"""Each of the job's times: it is long enough for two members to commit and to reveal."""


def measure_deliveries(chain: Chain) -> Iterator[tuple[str, int]]:
    """Yield what each call costs, in gas, by its name and, behind that, the size of the job."""
    referee = deploy_referee(chain, chain.accounts[0])
    contract = deploy_delivery(chain, chain.accounts[0])
    plays = (("", _hand_over), ("", _promise_nothing), ("-longest", _withhold))
    for job_id, (name, play) in enumerate(plays):
        case = _Case(chain, referee, contract, Job(SIZES[name]), job_id)
        for call, gas in (case.win(), *play(case)):
            yield f"{call}{name}", gas


class _Case:
    """A job for whose result there is a premium, and what can be shown of it.

    Args:
        chain: the chain.
        referee: the referee.
        contract: the contract of premiums.
        job: the job's terms and its synthetic trees.
        job_id: the number that it gets.
    """

    def __init__(
        self, chain: Chain, referee: Contract, contract: Contract, job: Job, job_id: int
    ) -> None:
        self.chain, self.job, self._job_id = chain, job, job_id
        self._referee, self._contract = referee, contract
        self.client, self.asker, *self.sharers = chain.accounts[:4]
        self._terms = replace(
            job.terms,
            commit_blocks=WAITING_BLOCKS,
            reveal_blocks=WAITING_BLOCKS,
            window_blocks=WAITING_BLOCKS,
        )
        self.subject = make_subject(self._terms, referee.address, job_id)
        self.result = make_result(self.subject, job.terms.start_root)
        self._proof = draw_siblings(self._terms.checkpoints)

    def send(self, name: str, sender: Address, *args: Any, value: int = 0) -> tuple[str, int]:
        """Make a call, and return its name and its gas."""
        packed = pack_args(args)
        receipt = self._contract.transact(name, *packed, sender=sender, value=value)
        return name, receipt.gas_used

    def win(self) -> tuple[str, int]:
        """Let two members win the job, and return what the offer of the premium has cost."""
        referee, top = self._referee, self._compute_top()
        referee.transact("open_job", *pack_args([self._terms]), sender=self.client, value=0)
        store = Store(self.chain.chain_id, referee.address)
        named = hash_job(unpack_job(referee.call("jobs", self._job_id)))
        for sharer in self.sharers:
            digest = hash_commitment(store, self._job_id, sharer, top, ZERO)
            args, bond_wei = (self._job_id, digest, named), self._terms.bond_wei
            referee.transact("commit", *args, sender=sharer, value=bond_wei)
        sizes = (MIN_DEPOSIT_WEI, ANSWER_BLOCKS, WINDOW_BLOCKS)
        offer = self.send("offer", self.client, self.subject, *sizes, value=BOND_WEI)
        self.chain.mine(WAITING_BLOCKS - len(self.sharers) - 1)
        for sharer in self.sharers:
            referee.transact("reveal", self._job_id, top, ZERO, sender=sharer)
        self.chain.mine(2 * WAITING_BLOCKS)
        referee.transact("settle", self._job_id, top, sender=self.client)
        return offer

    def register(self, sharer: Address) -> tuple[str, int]:
        """Let a sharer promise the result."""
        shown = (self._compute_top(), self.result.start_root, self._proof)
        return self.send("register", sharer, self.subject, *shown)

    def ask(self) -> Iterator[tuple[str, int]]:
        """Demand a chunk in the middle of the trees, and show it."""
        size, (chunk, *shown) = self.job.size, self.job.chunk
        place = (Part.START, size.slots // 3, chunk)
        yield self.demand(chunk)
        proof = draw_siblings(size.slots)
        yield self.send("show_chunk", self.sharers[0], self.result, *place, *shown, proof)

    def demand(self, chunk: int) -> tuple[str, int]:
        """Demand a chunk of the tensor that can be shown."""
        slots = self.job.size.slots
        tensor = replace(self.job.tensor, proof=draw_siblings(slots))
        args = list_demand((Part.START.value, slots // 3, chunk), tensor)
        name, gas = self.send("demand", self.asker, self.result, *args, value=MIN_DEPOSIT_WEI)
        return (f"{name}-later" if chunk else name), gas

    def _compute_top(self) -> Digest:
        """Return the top of the history that ends with the result."""
        count = self._terms.checkpoints
        return compute_top(Tag.HISTORY_NODE, self.result.start_root, count - 1, count)


def _hand_over(case: _Case) -> Iterator[tuple[str, int]]:
    """Yield the calls of a result that is handed over: to the first, and to the last of sharers."""
    first, last = case.sharers
    yield case.register(first)
    name, gas = case.register(last)
    yield f"{name}-later", gas
    yield from case.ask()
    case.chain.mine(WINDOW_BLOCKS)
    yield case.send("take", first, case.result)
    yield case.send("take", last, case.result)


def _promise_nothing(case: _Case) -> Iterator[tuple[str, int]]:
    """Yield the calls about a result that nobody promises."""
    yield case.send("call_for", case.client, case.subject)
    case.chain.mine(WINDOW_BLOCKS)
    yield case.send("withdraw", case.client, case.subject)


def _withhold(case: _Case) -> Iterator[tuple[str, int]]:
    """Yield the calls about a result of which a part is shown, and another is not."""
    yield case.register(case.sharers[0])
    yield from case.ask()
    place = (Part.START, case.job.size.slots // 3, 0)
    yield case.demand(0)
    case.chain.mine(ANSWER_BLOCKS)
    yield case.send("break_promise", case.client, case.result, *place)
    yield case.send("reclaim", case.asker, case.result, *place)
    yield case.send("take", case.client, case.result)
