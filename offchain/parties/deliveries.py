"""Premiums for the results of jobs, on a chain: offered, promised, demanded, paid.

`offchain/disputes/delivery.py` says who does what; this looks at the contract, and sends.
"""

from collections.abc import Iterator
from contextlib import suppress

from contracts.model.abi import unpack_premium
from contracts.model.answers import MIN_DEPOSIT_WEI, hash_subject, make_subject
from contracts.model.delivery import make_result
from contracts.model.types import Job
from contracts.reasons import Part, PremiumStatus, PromiseStatus, Status
from offchain.commitments.known import KnownNodes
from offchain.commitments.tags import Tag
from offchain.commitments.tree import hash_root
from offchain.disputes.availability import Place
from offchain.disputes.delivery import LEAST_ANSWER_BLOCKS, Delivery
from offchain.disputes.referee import Call
from offchain.disputes.shown import ShownChunk
from offchain.errors import CommitmentError
from offchain.parties.answers import Answers
from offchain.parties.live import Desk

ANSWER_SHARE = 4
"""A demand of a result is to be answered within one part in so many of the window."""
ETHER = 10**18


class Deliveries(Answers):
    """The contract of premiums, as a party uses it for one referee's jobs.

    Args:
        desk: where the party works; its settings say where the contract is.

    Raises:
        UsageError: there is none.
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk, "delivery")

    def look(self, job_id: int, job: Job) -> Delivery | None:
        """Return what the chain shows of the premium of a job; None if there is none."""
        contract, desk = self._contract, self._desk
        subject = make_subject(job.terms, desk.referee.address, job_id)
        name = hash_subject(subject)
        premium = unpack_premium(contract.call("premiums", name))
        if premium is None:
            return None
        head = desk.chain.block_number()
        status = desk.referee.job(job_id).status
        found = Delivery(subject, premium, status, None, (), frozenset(), head + 1)
        if premium.status is not PremiumStatus.PROMISED:
            return found
        events = contract.events(job.opened_block, head, [name])
        registered = [event.args for _, event in events if event.name == "Registered"]
        if not registered:  # the chain was another one a moment ago
            return found
        result = make_result(subject, registered[0]["state_root"])
        promised = self.look_at(result, job.opened_block)
        own = contract.call("shares", hash_subject(result), desk.address)
        shares = frozenset({desk.address} if own else ())
        accounts = [str(args["account"]) for args in registered]
        return Delivery(subject, premium, status, promised, accounts, shares, head + 1)

    def offer(self, job_id: int, job: Job, premium_wei: int, window_blocks: int) -> None:
        """Bond a premium on the result of a job.

        Raises:
            ChainError: the premium is not accepted.
        """
        subject = make_subject(job.terms, self._desk.referee.address, job_id)
        answer_blocks = max(LEAST_ANSWER_BLOCKS, window_blocks // ANSWER_SHARE)
        args = (subject, MIN_DEPOSIT_WEI, answer_blocks, window_blocks)
        for problem in self.send([Call("offer", self._desk.address, args, premium_wei)]):
            raise problem

    def find_due(self) -> Iterator[tuple[int, Job]]:
        """Yield the jobs whose result the account has promised, and may have to show."""
        for job_id, job, _ in self._desk.referee.find_jobs():
            if job.status is Status.WON:
                view = self.look(job_id, job)
                if view is not None and view.is_due(self._desk.address):
                    yield job_id, job

    def read_chunks(self, view: Delivery, first_block: int) -> dict[Place, bytes]:
        """Return the chunks of a result that were shown, from the calls that showed them.

        Each is proven; what a contract of somebody's has made by itself is not found.
        """
        if view.promised is None:
            return {}
        subject = view.promised.subject
        known = KnownNodes(
            Tag.STATE_NODE,
            count := subject.state_slots,
            lambda top: hash_root(Tag.STATE_ROOT, count, top) == subject.start_root,
        )
        found: dict[Place, bytes] = {}
        for it in self.read_shown_of(subject, first_block):
            if isinstance(it, ShownChunk) and it.part == Part.START:
                with suppress(CommitmentError):
                    known.learn(it.compute_root(), it.index, it.proof)
                    found[it.part, it.index, it.chunk] = it.content
        return found


def describe(view: Delivery) -> str:
    """Return a line about how a premium stands."""
    premium, promised = view.premium, view.promised
    amount = f"a premium of {premium.premium_wei / ETHER:g} ETH"
    if premium.status is PremiumStatus.WITHDRAWN:
        return f"{amount} was taken back: nobody has promised the result"
    if promised is None:
        until = f" until block {premium.last_block}" if premium.last_block else ""
        return f"{amount} waits for somebody to promise the result{until}"
    promise, count = promised.promise, len(view.registered)
    if promise.status is PromiseStatus.BROKEN:
        return f"{amount} is the client's again: a part of the result was not shown in time"
    if view.block <= promise.last_block or promised.list_open():
        waiting = len(promised.list_open())
        return (
            f"{amount}: {count} promise the result up to block {promise.last_block}, "
            f"{waiting} of {len(promised.demands)} demands are open"
        )
    return f"{amount} is earned by {count}"
