"""Premiums for the results of jobs, on a chain: offered, promised, demanded, paid.

`offchain/disputes/availability/delivery.py` says who does what; this looks at the contract, and
sends.
"""

from collections.abc import Iterator
from contextlib import suppress

from moot.contracts.model.abi import unpack_premium, unpack_promise
from moot.contracts.model.answers import (
    MIN_BOND_DEPOSITS,
    MIN_DEPOSIT_WEI,
    Subject,
    hash_subject,
    make_subject,
)
from moot.contracts.model.delivery import make_result
from moot.contracts.model.types import Job
from moot.contracts.reasons import Part, PremiumStatus, PromiseStatus, Status
from moot.offchain.commitments.known import KnownNodes
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tree import hash_root
from moot.offchain.disputes.availability.calldata import ShownChunk
from moot.offchain.disputes.availability.delivery import LEAST_ANSWER_BLOCKS, Delivery
from moot.offchain.disputes.availability.demands import Place, Promised
from moot.offchain.disputes.referee.port import Call
from moot.offchain.errors import CommitmentError
from moot.offchain.parties.answers import Answers, choose_deposit, read_demands
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.event_log import Getter

ANSWER_SHARE = 4
"""A demand of a result is to be answered within one part in so many of the window."""
MOST_PROMISED_BLOCKS = 216_000
"""A result that was promised longer ago, about thirty days, is not taken up again."""
ETHER = 10**18


class Deliveries(Answers):
    """The contract of premiums, as a party uses it for one referee's jobs.

    Args:
        context: where the party works; its settings say where the contract is.

    Raises:
        UsageError: there is none.
    """

    def __init__(self, context: PartyContext) -> None:
        super().__init__(context, "delivery")
        self._results: dict[Subject, Subject | None] = {}

    def look(self, job_id: int, job: Job) -> Delivery | None:
        """Return what the chain shows of the premium of a job; None if there is none.

        That is one exchange, but for the first of a result that somebody has promised.
        """
        subject = make_subject(job.terms, self._context.referee.address, job_id)
        while True:
            result = self._results.get(subject)
            found, again = self._look_once(subject, result, job.opened_block)
            if again == result:
                return found
            self._results[subject] = again

    def _look_once(
        self, subject: Subject, result: Subject | None, first_block: int
    ) -> tuple[Delivery | None, Subject | None]:
        """Return what the chain shows of a premium, and of which result; None as long as none."""
        own, name = self._context.address, hash_subject(subject)
        names = [name]
        getters: list[Getter] = [("premiums", (name,))]
        if result is not None:
            names.append(hash_subject(result))
            getters += [("promises", (names[1],)), ("shares", (names[1], own))]
        looked = self._log.look(dict.fromkeys(names, first_block), getters)
        premium = unpack_premium(looked.answers[0])
        if premium is None:
            return None, None
        registered = [it.args for it in looked.events[name] if it.name == "Registered"]
        status, block = Status.WON, looked.block + 1
        if premium.status is not PremiumStatus.PROMISED:
            status = self._context.referee.job(subject.job_id).status
        found = Delivery(subject, premium, status, None, (), frozenset(), block)
        if premium.status is not PremiumStatus.PROMISED or not registered:
            return found, None
        again = make_result(subject, registered[0]["state_root"])
        promise = unpack_promise(looked.answers[1]) if again == result else None
        if again != result or promise is None:
            return found, again
        demands, authors = read_demands(looked.events[names[1]])
        seen = self._note_returns({again: Promised(again, promise, demands, block, authors)})
        shares = frozenset({own} if looked.answers[2] else ())
        accounts = [str(args["account"]) for args in registered]
        found = Delivery(subject, premium, status, seen[again], accounts, shares, block)
        return found, again

    def offer(self, job_id: int, job: Job, premium_wei: int, window_blocks: int) -> None:
        """Bond a premium on the result of a job.

        Raises:
            ChainError: the premium is not accepted.
        """
        subject = make_subject(job.terms, self._context.referee.address, job_id)
        answer_blocks = max(LEAST_ANSWER_BLOCKS, window_blocks // ANSWER_SHARE)
        deposit_wei = choose_deposit(self._context.settings.max_fee_gwei)
        deposit_wei = max(MIN_DEPOSIT_WEI, min(deposit_wei, premium_wei // MIN_BOND_DEPOSITS))
        args = (subject, deposit_wei, answer_blocks, window_blocks)
        for problem in self.send([Call("offer", self._context.address, args, premium_wei)]):
            raise problem

    def find_due(self) -> Iterator[tuple[int, Job]]:
        """Yield the jobs whose result the account has promised lately, and may have to show."""
        first = self._context.chain.block_number() - MOST_PROMISED_BLOCKS
        _, events = self._log.read_since(first)
        own = {
            bytes(it.args["premium_id"])
            for it in events
            if it.name == "Registered" and it.args["account"] == self._context.address
        }
        for job_id, job, _ in self._context.referee.find_jobs() if own else ():
            subject = make_subject(job.terms, self._context.referee.address, job_id)
            if hash_subject(subject) in own:
                view = self.look(job_id, job)
                if view is not None and view.is_due(self._context.address):
                    yield job_id, job

    def read_chunks(self, view: Delivery, first_block: int) -> dict[Place, ShownChunk]:
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
        found: dict[Place, ShownChunk] = {}
        for it in self.read_shown_of(subject, first_block):
            if isinstance(it, ShownChunk) and it.part == Part.START:
                with suppress(CommitmentError):
                    known.learn(it.compute_root(), it.index, it.proof)
                    found[it.part, it.index, it.chunk] = it
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
