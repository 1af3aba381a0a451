"""Clients' promises that what a job commits to can be had, on a chain: made, demanded, kept.

`offchain/disputes/availability.py` says who does what; this looks at the contract, and sends.
"""

from collections.abc import Iterable, Iterator, Sequence

from contracts.compiler import compile_contract
from contracts.model.abi import pack_args, unpack_demand, unpack_promise
from contracts.model.answers import MIN_DEPOSIT_WEI, Demand, hash_subject
from contracts.model.types import Job
from contracts.reasons import DemandStatus, Part, PromiseStatus
from offchain.chain import Address
from offchain.commitments.keccak import keccak256
from offchain.commitments.tree import Digest
from offchain.datastore.objects import (
    BATCHES,
    STATES,
    TENSORS,
    compute_batches_root,
    name_object,
)
from offchain.datastore.store import DataStore, open_store
from offchain.disputes.availability import Asker, Place, Promised, make_subject
from offchain.disputes.chain_referee import CALL_GAS
from offchain.disputes.referee import Call
from offchain.errors import ChainError, StoreError
from offchain.parties.live import Desk
from offchain.providers.publication import get_program
from offchain.providers.store import Store

ANSWER_SHARE = 2
"""A client promises to answer within one part in so many of the time to commit."""
MOST_DEMANDS = 16
"""A provider demands so many parts of a job at once."""


class Promises:
    """The contract of promises, as a party uses it for one referee's jobs.

    Args:
        desk: where the party works; its settings say where the contract is.

    Raises:
        UsageError: there is none.
    """

    def __init__(self, desk: Desk) -> None:
        desk.settings.require("availability")
        artifact = compile_contract("availability")
        self._desk = desk
        self._contract = desk.chain.at(artifact, Address(desk.settings.availability.lower()))

    def look(self, job_id: int, job: Job) -> Promised | None:
        """Return what the chain shows of the promise about a job; None if there is none."""
        contract, chain = self._contract, self._desk.chain
        subject = make_subject(job.terms, self._desk.referee.address, job_id)
        name = hash_subject(subject)
        promise = unpack_promise(contract.call("promises", name))
        if promise is None:
            return None
        head = chain.block_number()
        demands: dict[Place, Demand] = {}
        for _, event in contract.events(job.opened_block, head, [name]):
            if event.name == "Demanded":
                place: Place = tuple(event.args[it] for it in ("part", "index", "chunk"))
                demand = unpack_demand(contract.call("demands", _hash_place(name, place)))
                if demand is not None:
                    demands[place] = demand
        return Promised(subject, promise, demands, head + 1)

    def make(self, job_id: int, job: Job, bond_wei: int) -> None:
        """Promise that a job's program, start and data can be had until nobody can join any more.

        Raises:
            ChainError: the promise is not accepted.
        """
        terms = job.terms
        last = job.reveal_deadline + terms.window_blocks
        subject = make_subject(terms, self._desk.referee.address, job_id)
        answer_blocks = max(1, terms.commit_blocks // ANSWER_SHARE)
        args = (subject, MIN_DEPOSIT_WEI, answer_blocks, last)
        for problem in self.send([Call("promise", self._desk.address, args, bond_wei)]):
            raise problem

    def send(self, calls: Iterable[Call]) -> list[ChainError]:
        """Make calls, tell of them, and return why some were refused."""
        made = [*calls]
        transactions = [
            self._contract.prepare(
                call.name,
                *pack_args(call.args),
                sender=Address(call.sender),
                value=call.value_wei,
                gas_limit=CALL_GAS,
            )
            for call in made
        ]
        answers = self._contract.send(transactions) if transactions else []
        refused = []
        for call, answer in zip(made, answers, strict=True):
            is_made = not isinstance(answer, ChainError)
            result = "made" if is_made else f"refused: {answer}"
            job_id = call.args[0].job_id
            line = f"job {job_id}: {call.name} {result}"
            self._desk.tell("call", line, job=job_id, call=call.name, accepted=is_made)
            if isinstance(answer, ChainError):
                refused.append(answer)
        return refused

    def demand(self, job_id: int, job: Job, missing: Sequence[Place], budget_wei: int) -> bool:
        """Demand parts of a job, end a promise that is not kept, and take back what is owed.

        Args:
            job_id: the job.
            job: the job, as the chain has it.
            missing: what to demand, if it is not demanded yet.
            budget_wei: the most that the deposits may be together.

        Returns:
            Whether something is still due of the own demands.
        """
        view = self.look(job_id, job)
        if view is None:
            return False
        self.send(Asker(self._desk.address, missing, budget_wei).act(view))
        return self._is_due(job_id, job)

    def find_due(self) -> Iterator[tuple[int, Job]]:
        """Yield the jobs in which something is due of the own demands, as the chain says."""
        for job_id, job, _ in self._desk.referee.find_jobs():
            if self._is_due(job_id, job):
                yield job_id, job

    def _is_due(self, job_id: int, job: Job) -> bool:
        """Whether a demand of one's own in a job waits for its answer, or for its deposit."""
        view = self.look(job_id, job)
        if view is None or view.promise.status is PromiseStatus.WITHDRAWN:
            return False
        due = {DemandStatus.OPEN, DemandStatus.UNANSWERED}
        own = [it for it in view.demands.values() if it.asker == self._desk.address]
        return any(it.status in due for it in own)


def find_missing(store: Store, job: Job) -> list[Place]:
    """Return places of some parts of a job that a store's folder lacks, a few at most.

    Where even the program or a list of tensors is missing, its first parts stand for it.
    """
    terms = job.terms
    local = open_store(str(store.path))
    try:
        program = get_program(local, terms)
    except StoreError:
        return [(Part.PROGRAM.value, it, 0) for it in range(min(terms.operators, MOST_DEMANDS))]
    count = terms.steps * len(program.batch)
    batches = compute_batches_root(count, terms.data_top) if count else b""
    wanted = (
        (Part.START, STATES, terms.start_root, len(program.state)),
        (Part.DATA, BATCHES, batches, count),
    )
    missing = [place for it in wanted if it[-1] for place in _list_missing(local, *it)]
    return missing[:MOST_DEMANDS]


def _list_missing(
    store: DataStore, part: Part, kind: str, root: Digest, count: int
) -> Iterator[Place]:
    """Yield the first chunk of each tensor of a list that a folder does not have."""
    try:
        roots = store.get_roots(kind, root, count)
    except StoreError:
        yield from ((part.value, index, 0) for index in range(min(count, MOST_DEMANDS)))
        return
    for index, tensor in enumerate(roots):
        if store.disk.get_size(name_object(TENSORS, tensor)) is None:
            yield part.value, index, 0


def _hash_place(promise: Digest, place: Place) -> Digest:
    """Return the number of a demand: the digest of the promise's and of the place."""
    return keccak256(promise + b"".join(int(it).to_bytes(32, "big") for it in place))
