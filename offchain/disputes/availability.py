"""Who demands what it lacks of a job, and who shows it: the actors of a client's promise.

A provider commits only to what it has in full. Before that, an `Asker` demands what its store
lacks; an `Answerer`, the client or anybody else, shows what is demanded from what it has. What is
promised of a result (`delivery.py`) is demanded and shown alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contracts.model.answers import ANSWERS_A_BLOCK, Demand, Promise, Subject
from contracts.model.types import Address, Terms
from contracts.reasons import DemandStatus, Part, PromiseStatus
from offchain.commitments.tags import CHUNK_BYTES, Tag
from offchain.commitments.tensors import Array, TensorTree
from offchain.commitments.tree import Tree
from offchain.disputes.players import Move
from offchain.disputes.referee import Call
from offchain.providers.task import Task

Place = tuple[int, int, int]
"""A part of a job, the operator or tensor in it, and the chunk."""


@dataclass(frozen=True, slots=True)
class Promised:
    """What the chain shows of a promise: all demands upon it, too, and the next call's block."""

    subject: Subject
    promise: Promise
    demands: Mapping[Place, Demand]
    block: int

    def list_open(self) -> list[tuple[Place, Demand]]:
        """Return the demands that wait for an answer, the most urgent first."""
        waiting = [(p, d) for p, d in self.demands.items() if d.status is DemandStatus.OPEN]
        return sorted(waiting, key=lambda each: (each[1].deadline, each[0]))


@dataclass(frozen=True, slots=True)
class Asker:
    """Whoever demands what its store lacks, as far as it wants to pay for answers.

    Attributes:
        address: the account that sends the calls.
        missing: what is lacking, in the order in which it is demanded.
        budget_wei: how much the deposits of its demands may be together.
    """

    address: Address
    missing: Sequence[Place]
    budget_wei: int

    def act(self, view: Promised) -> Iterator[Call]:
        """Yield demands; say that one was not answered in time; take back what is owed."""
        promise, own = view.promise, (view.subject,)
        if promise.status is PromiseStatus.KEPT:
            late = [place for place, demand in view.list_open() if view.block > demand.deadline]
            if late:
                yield Call("break_promise", self.address, (*own, *late[0]))
            elif view.block <= promise.last_block:
                for place in self._choose(view):
                    args = (*own, *place)
                    yield Call("demand", self.address, args, promise.deposit_wei)
        elif promise.status is PromiseStatus.BROKEN:
            due = {DemandStatus.OPEN, DemandStatus.UNANSWERED}
            for place, demand in view.demands.items():
                if demand.asker == self.address and demand.status in due:
                    yield Call("reclaim", self.address, (*own, *place))

    def _choose(self, view: Promised) -> list[Place]:
        """Return what is not demanded yet, as much as there is money for."""
        spent = sum(demand.asker == self.address for demand in view.demands.values())
        left = self.budget_wei // view.promise.deposit_wei - spent
        return [place for place in self.missing if place not in view.demands][: max(left, 0)]


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
    """Yield the answers to the first of some demands, as many as a block is expected to take."""
    for place, demand in waiting[:ANSWERS_A_BLOCK]:
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
    """Return the call that shows a chunk of a tensor, or that the tensor has no such chunk.

    Args:
        array: the tensor.
        tree: the tree that it is a leaf of.
        place: what is demanded.
    """
    part, index, chunk = place
    tensor, proof = TensorTree(array), tuple(tree.proof(index))
    if tensor.tree is None or chunk * CHUNK_BYTES >= array.nbytes:
        return Move("show_end", (part, index, chunk, tensor.header, tensor.top, proof))
    shown = (tensor.header, tensor.chunk(chunk), tuple(tensor.tree.proof(chunk)), proof)
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
