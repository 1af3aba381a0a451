"""Who demands what it lacks of a job, and who shows it: the actors of a client's promise.

A provider commits only to what it has in full. Before that, an `Asker` demands what its store
lacks; an `Answerer`, the client or anybody else, shows what is demanded from what it has. What is
promised of a result (`delivery.py`) is demanded and shown alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moot.contracts.model.answers import ANSWERS_A_BLOCK, Demand, Promise, Subject
from moot.contracts.model.types import ZERO, Address, Job, Terms
from moot.contracts.reasons import DemandStatus, Part, PromiseStatus
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import Array, TensorTree
from moot.offchain.commitments.tree import Digest, Tree
from moot.offchain.disputes.play.players import Move
from moot.offchain.disputes.referee.gas import MOST_GAS
from moot.offchain.disputes.referee.port import Call
from moot.offchain.providers.task import Task

DEMAND_GAS = MOST_GAS["demand"]
"""The most gas of a demand."""
ANSWER_GAS = max(gas for call, gas in MOST_GAS.items() if call.startswith("show_"))
"""The most gas of an answer."""

Place = tuple[int, int, int]
"""A part of a job, the operator or tensor in it, and the chunk."""


@dataclass(frozen=True, slots=True)
class Promised:
    """What the chain shows of a promise: all demands upon it, too, and the next call's block.

    `authors` are those who have shown what was demanded, by its place.
    """

    subject: Subject
    promise: Promise
    demands: Mapping[Place, Demand]
    block: int
    authors: Mapping[Place, Address] = field(default_factory=dict)

    def list_own(self, address: Address) -> list[Place]:
        """Return what an account has demanded."""
        return [place for place, demand in self.demands.items() if demand.asker == address]

    def list_owed(self, address: Address) -> list[Place]:
        """Return the own demands whose deposit a broken promise has not given back yet."""
        if self.promise.status is not PromiseStatus.BROKEN:
            return []
        due = {DemandStatus.OPEN, DemandStatus.UNANSWERED}
        own = self.list_own(address)
        return [place for place in own if self.demands[place].status in due]

    def list_open(self) -> list[tuple[Place, Demand]]:
        """Return the demands that wait for an answer, the most urgent first."""
        waiting = [(p, d) for p, d in self.demands.items() if d.status is DemandStatus.OPEN]
        return sorted(waiting, key=lambda each: (each[1].deadline, each[0]))


@dataclass(frozen=True, slots=True)
class TensorProof:
    """A tensor's header and the top of its chunks, and the proof of the root that is made of them.

    It shows how many chunks the tensor has, without showing any.
    """

    header: bytes
    top: Digest
    proof: tuple[Digest, ...]


@dataclass(frozen=True, slots=True)
class Lack:
    """What is lacking of a job or a result.

    Attributes:
        places: what to demand next, in this order.
        least: so many parts have to be demanded at least until nothing is lacking.
        tensors: by part and place the tensors whose roots can be taken apart, so that their later
            chunks can be demanded. Of others the first chunk is demanded, whose answer shows that.
    """

    places: Sequence[Place] = ()
    least: int = 0
    tensors: Mapping[tuple[int, int], TensorProof] = field(default_factory=dict)

    def can_demand(self, place: Place) -> bool:
        """Whether a part can be shown to be one."""
        return place[2] == 0 or place[:2] in self.tensors


@dataclass(frozen=True, slots=True)
class Asker:
    """Whoever demands what its store lacks, if it wants to pay for all that is known to lack.

    A part of what is lacking is of no use, so that nothing is demanded where the rest will not be.

    Attributes:
        address: the account that sends the calls.
        lack: what is lacking.
        budget_wei: what its demands upon this promise may cost together, deposits and gas.
        price_wei: what a unit of gas costs.
        needed_by: the first block in which an answer is too late to be of use, if there is any.
    """

    address: Address
    lack: Lack
    budget_wei: int
    price_wei: int = 0
    needed_by: int | None = None

    def act(self, view: Promised) -> Iterator[Call]:
        """Yield demands; say that one was not answered in time; take back what is owed."""
        promise, own = view.promise, (view.subject,)
        if promise.status is PromiseStatus.KEPT:
            late = [place for place, demand in view.list_open() if self._can_break(view, demand)]
            if late:
                yield Call("break_promise", self.address, (*own, *late[0]))
            elif view.block <= promise.last_block and not self.explain_refusal(view):
                for place in self.list_new(view):
                    args = (*own, *list_demand(place, self.lack.tensors.get(place[:2])))
                    yield Call("demand", self.address, args, promise.deposit_wei)
        else:
            for place in view.list_owed(self.address):
                yield Call("reclaim", self.address, (*own, *place))

    def explain_refusal(self, view: Promised) -> str:
        """Return why nothing is demanded of what is lacking; nothing if it is."""
        new = len(self.list_new(view))
        if not new:
            return ""
        own = view.list_own(self.address)
        again = sum(place in self.lack.places for place in own)
        count = len(own) - again + max(new + again, self.lack.least)
        need_wei = count * cost_demand(view.promise.deposit_wei, self.price_wei)
        if need_wei > self.budget_wei:
            return (
                f"{count} demands at least, {need_wei} wei, would be needed for what it lacks; "
                f"they may cost {self.budget_wei} wei"
            )
        wait_blocks = view.promise.answer_blocks + (len(view.list_open()) + new) // ANSWERS_A_BLOCK
        if self.needed_by is not None and view.block + wait_blocks >= self.needed_by:
            return f"an answer may take {wait_blocks} blocks, until block {self.needed_by} or later"
        return ""

    def list_new(self, view: Promised) -> list[Place]:
        """Return what can be demanded, and is not yet."""
        lack = self.lack
        places = [it if lack.can_demand(it) else (*it[:2], 0) for it in lack.places]
        return [place for place in dict.fromkeys(places) if place not in view.demands]

    def _can_break(self, view: Promised, demand: Demand) -> bool:
        """Whether a demand is late that breaks the promise in favour of this account."""
        is_own = self.address in {demand.asker, view.promise.client}
        return is_own and view.block > demand.deadline


def list_demand(place: Place, tensor: TensorProof | None) -> tuple[Any, ...]:
    """Return the arguments of a demand behind the subject.

    Args:
        place: what is demanded.
        tensor: what shows that the tensor has the chunk, if it is not the first.
    """
    if tensor is None or place[2] == 0:
        return (*place, b"", ZERO, ())
    return (*place, tensor.header, tensor.top, tensor.proof)


def cost_demand(deposit_wei: int, price_wei: int) -> int:
    """Return what a demand that is answered costs its asker, in wei."""
    return deposit_wei + DEMAND_GAS * price_wei


def calculate_share(job: Job, share: float) -> int:
    """Return what the demands of an account in a job may cost: a share of what it may be paid.

    Whoever has committed to the job already is paid alike.
    """
    return int(share * (job.reward_wei // (1 + job.hidden)))


@dataclass(frozen=True, slots=True)
class Answerer:
    """Whoever shows what is demanded: the client, which also gets its bond back, or anybody else.

    Attributes:
        address: the account that sends the calls.
        task: what it has, in full.
    """

    address: Address
    task: Task

    def act(self, view: Promised) -> Iterator[Call]:
        """Yield the most urgent answers, as many as a block is expected to take; and the end."""
        promise = view.promise
        if promise.status is not PromiseStatus.KEPT:
            return
        waiting = view.list_open()
        yield from list_answers(view, self.address, waiting, lambda it: find_answer(self.task, it))
        is_over = view.block > promise.last_block and not waiting
        if is_over and self.address == promise.client:
            yield Call("withdraw", self.address, (view.subject,))


def list_answers(
    view: Promised,
    sender: Address,
    waiting: Sequence[tuple[Place, Demand]],
    find: Callable[[Place], Move],
) -> Iterator[Call]:
    """Yield the answers to the first of some demands, as many as a block is expected to take.

    No contract takes a demand of what its subject does not have: only a node can tell of one.
    """
    known = [(place, it) for place, it in waiting if place[1] < view.subject.count(place[0])]
    for place, demand in known[:ANSWERS_A_BLOCK]:
        if view.block <= demand.deadline:
            move = find(place)
            yield Call(move.call, sender, (view.subject, *move.args))


def find_answer(task: Task, place: Place) -> Move:
    """Return the call that shows what is demanded; the subject comes before its arguments."""
    part, index, _ = place
    if part == Part.PROGRAM:
        commitment = task.commitment
        proof = tuple(commitment.tree.proof(index))
        return Move("show_operator", (index, commitment.encodings[index], proof))
    return show_tensor(*_find_tensor(task, part, index), place)


def show_tensor(array: Array, tree: Tree, place: Place) -> Move:
    """Return the call that shows a chunk of a tensor; that of one without elements is empty.

    Args:
        array: the tensor.
        tree: the tree that it is a leaf of.
        place: what is demanded.
    """
    part, index, chunk = place
    tensor, proof = TensorTree(array), tuple(tree.proof(index))
    siblings = tuple(tensor.tree.proof(chunk)) if tensor.tree else ()
    shown = (tensor.header, tensor.chunk(chunk), siblings, proof)
    return Move("show_chunk", (part, index, chunk, *shown))


def _find_tensor(task: Task, part: int, index: int) -> tuple[Array, Tree]:
    """Return a tensor of the start or of the data, and the tree that it is a leaf of."""
    if part == Part.START:
        return task.initial_state[index], Tree(Tag.STATE_NODE, task.start_roots)
    assert task.data_tree is not None, "there are tensors of data"
    step, slot = divmod(index, len(task.program.batch))
    return task.batch(step)[slot], task.data_tree


def explain_weakness(promise: Promise, terms: Terms, opened_block: int, bond_wei: int) -> str:
    """Return why a provider should not rely on a promise, or nothing if there is no reason.

    A demand has to be answered before providers commit, so that whoever commits has everything; and
    late claims need the data until nobody can join any more.
    """
    commit_end = opened_block + terms.commit_blocks
    window_end = commit_end + terms.reveal_blocks + terms.window_blocks
    if promise.status is not PromiseStatus.KEPT:
        return f"the promise is {promise.status.name.lower()}"
    if promise.bond_wei < bond_wei:
        return f"its bond is {promise.bond_wei} wei, below {bond_wei}"
    if opened_block + promise.answer_blocks >= commit_end:
        return f"an answer may take {promise.answer_blocks} blocks, longer than one may commit"
    if promise.last_block < window_end:
        return f"it ends at block {promise.last_block}, before the window does, at {window_end}"
    return ""
