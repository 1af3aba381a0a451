"""How a client comes to a result that no store has: by demands, within a budget, on the chain."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from moot.contracts.model.types import Job
from moot.contracts.reasons import Part, PremiumStatus, PromiseStatus
from moot.offchain.chain.accounts.fees import GWEI
from moot.offchain.chain.head import Head
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.datastore.objects import TensorShape
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.availability.calldata import ShownChunk
from moot.offchain.disputes.availability.delivery import Buyer, Delivery
from moot.offchain.disputes.availability.demands import Asker, Lack, Place, Promised, TensorProof
from moot.offchain.disputes.referee.port import Call
from moot.offchain.errors import ChainError, StoreError
from moot.offchain.parties.context import PartyContext
from moot.offchain.parties.deliveries import Deliveries, describe
from moot.offchain.parties.settings import to_wei
from moot.offchain.parties.turns import Outages, await_block
from moot.offchain.programs.graph import Slot


def look_after(context: PartyContext, job_id: int, job: Job, *, calls: bool = True) -> None:
    """Do what is due about the premium of a job now, and tell how it stands.

    Late demands are ended, and deposits and the premium are taken back, if they are owed.

    Args:
        context: where the client works.
        job_id: the job.
        job: the job, as the chain has it.
        calls: whether to call for a result that nobody has promised.
    """
    deliveries = Deliveries(context)
    while view := deliveries.look(job_id, job):
        due = [*_list_due(context, view, Lack())]
        if not calls:
            due = [call for call in due if call.name != "call_for"]
        if not due or deliveries.send(due):
            tell_premium(context, job_id, view)
            return


def tell_premium(context: PartyContext, job_id: int, view: Delivery) -> None:
    """Tell how a premium stands."""
    status = view.premium.status.name.lower()
    if view.promised is not None:
        status = view.promised.promise.status.name.lower()
    context.tell("premium", f"job {job_id}: {describe(view)}", job=job_id, status=status)


def demand_result(
    context: PartyContext, job_id: int, job: Job, folder: Path, slots: Sequence[Slot]
) -> Digest:
    """Have the final state of a job in a folder by demands, and return its root.

    What others have demanded, or the same client before, is not demanded again. Killed in between,
    whoever calls this once more goes on from the chain.

    Args:
        context: where the client works; its settings say how much the deposits may be together.
        job_id: the job, which is won.
        job: the job, as the chain has it.
        folder: the folder.
        slots: what a state of the job looks like.

    Raises:
        StoreError: the result is not handed over, or the budget is too small.
    """
    deliveries, head = Deliveries(context), Head(context.chain)
    places, outages, patience = _list_places(slots), Outages(context.tell), 0
    while True:
        try:
            context.referee.look()
            view = deliveries.look(job_id, job)
            if view is None:
                raise StoreError(f"there is no premium for the result of job {job_id} to demand it")
            chunks = deliveries.read_chunks(view, job.opened_block)
            lack = find_lack(places, chunks)
            if not lack.places and view.promised is not None:
                tell_premium(context, job_id, view)
                return _keep(folder, slots, chunks, view.promised.subject.start_root)
            due = [*_list_due(context, view, lack)]
            patience += 1
            if patience <= context.settings.stand_in_blocks:  # whoever has won needs some blocks
                due = [call for call in due if call.name != "call_for"]
            deliveries.send(due)
            if not due and (problem := _find_end(context, view, lack, len(places))):
                tell_premium(context, job_id, view)
                raise StoreError(f"the result of job {job_id} cannot be demanded: {problem}")
            await_block(context, head, is_eager=False)
            outages.end()
        except ChainError as error:
            outages.wait(error)


def find_lack(places: Sequence[Place], chunks: Mapping[Place, ShownChunk]) -> Lack:
    """Return what was not shown of a result; one chunk that was tells of its tensor's others."""
    missing = [place for place in places if place not in chunks]
    shown = {place[:2]: it for place, it in chunks.items()}
    tensors = {
        where: TensorProof(it.header, it.compute_top(), it.proof) for where, it in shown.items()
    }
    return Lack(missing, len(missing), tensors)


def _list_due(context: PartyContext, view: Delivery, lack: Lack) -> Iterator[Call]:
    """Yield what the client has to do about a premium, and demands of what it lacks."""
    if view.premium.client == context.address:
        yield from Buyer(context.address).act(view)
    if view.promised is not None:
        yield from _make_asker(context, lack).act(view.promised)


def _make_asker(context: PartyContext, lack: Lack) -> Asker:
    """Return the asker of what the client lacks of a result."""
    price_wei = context.referee.head.base_fee_wei + GWEI
    budget_wei = to_wei(context.settings.demand_budget)
    return Asker(context.address, lack, budget_wei, price_wei)


def _find_end(context: PartyContext, view: Delivery, lack: Lack, count: int) -> str:
    """Return why nothing more comes; nothing as long as something may."""
    promised = view.promised
    if promised is None:
        is_over = view.premium.status is PremiumStatus.WITHDRAWN
        return "nobody has promised it, and the premium was taken back" if is_over else ""
    if promised.promise.status is not PromiseStatus.KEPT:
        return "a part of it was not shown in time, and the premium was taken back"
    return "" if promised.list_open() else _explain_lack(context, promised, lack, count)


def _explain_lack(context: PartyContext, promised: Promised, lack: Lack, count: int) -> str:
    """Return why nothing more can be demanded of a result."""
    asker, missing = _make_asker(context, lack), len(lack.places)
    if not asker.list_new(promised):
        unread = sum(place in promised.demands for place in lack.places)
        return f"{unread} chunks were shown through other contracts, which are not read"
    if promised.block > promised.promise.last_block:
        return f"the window is over, and {missing} of {count} chunks are missing"
    return f"{missing} of {count} chunks are missing: {asker.explain_refusal(promised)}"


def _list_places(slots: Sequence[Slot]) -> list[Place]:
    """Return the places of all chunks of a state."""
    return [
        (Part.START.value, index, chunk)
        for index, slot in enumerate(slots)
        for chunk in range(TensorShape(slot.dtype, slot.shape).chunks)
    ]


def _keep(
    folder: Path, slots: Sequence[Slot], chunks: Mapping[Place, ShownChunk], root: Digest
) -> Digest:
    """Put a state together of its chunks, keep it in a folder, and return its root."""
    state: list[Array] = []
    for index, slot in enumerate(slots):
        shape = TensorShape(slot.dtype, slot.shape)
        shown = [chunks[Part.START.value, index, chunk] for chunk in range(shape.chunks)]
        data = b"".join(it.content for it in shown)
        if len(data) != shape.size_bytes:
            raise StoreError(f"tensor {index} of the result is not of the type of {slot.name}")
        state.append(np.frombuffer(data, NUMPY_TYPES[slot.dtype]).reshape(slot.shape))
    found = open_store(str(folder)).put_state(state)
    if found != root:
        raise StoreError(f"what was shown is state {found.hex()}, not {root.hex()}")
    return root
