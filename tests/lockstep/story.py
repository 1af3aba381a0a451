"""Stories about a referee, told once: on a model, beside its contract, or to be recorded."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from moot.contracts.model.checks import name_job, name_match
from moot.contracts.model.types import ZERO, Address, Store
from moot.contracts.model.words import hash_commitment
from moot.offchain.commitments.tree import Digest
from moot.offchain.disputes.play.tournament import order_pair


class Ground(Protocol):
    """Where a story is told.

    Attributes:
        block: the block of the next call.
    """

    block: int

    @property
    def store(self) -> Store:
        """The model of the referee."""

    def call(self, name: str, sender: Address, *args: Any, value_wei: int = 0) -> str | None:
        """Make a call, and return why it was refused."""


def commit(
    ground: Ground, member: Address, top: Digest, salt: Digest = ZERO, job_id: int = 0
) -> str | None:
    """Let a member hide its claim, with the right bond."""
    store = ground.store
    digest = hash_commitment(store, job_id, member, top, salt)
    args, bond_wei = (job_id, digest, name_job(store, job_id)), store.jobs[job_id].terms.bond_wei
    return ground.call("commit", member, *args, value_wei=bond_wei)


def join(ground: Ground, member: Address, top: Digest, job_id: int = 0) -> str | None:
    """Let a member come late with a claim, with the right bond."""
    store = ground.store
    args, bond_wei = (job_id, top, name_job(store, job_id)), store.jobs[job_id].terms.bond_wei
    return ground.call("join", member, *args, value_wei=bond_wei)


def assemble(
    ground: Ground,
    tops: Mapping[Address, Digest],
    salt: Digest = ZERO,
    hidden: Collection[Address] = (),
    job_id: int = 0,
) -> None:
    """Let members hide their claims and then show them, but for some; none of it is refused."""
    for member, top in tops.items():
        assert commit(ground, member, top, salt, job_id) is None
    job = ground.store.jobs[job_id]
    ground.block = job.commit_deadline + 1
    for member, top in tops.items():
        if member not in hidden:
            assert ground.call("reveal", member, job_id, top, salt) is None
    ground.block = job.reveal_deadline + 1


def meet(
    ground: Ground, sender: Address, one: Address, other: Address, job_id: int = 0
) -> str | None:
    """Let somebody begin a match of two members."""
    args = name_match(ground.store, order_pair(job_id, one, other))
    return ground.call("start_match", sender, *args)
