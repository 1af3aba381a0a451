"""The terms of a job: what a task, its stakes, and who decides its leaves are to the referee."""

from dataclasses import dataclass

from moot.contracts.model.types import NOBODY, ZERO, Address, Terms
from moot.contracts.reasons import LeafMode
from moot.offchain.providers.task import Task


@dataclass(frozen=True, slots=True)
class Stakes:
    """A job's money and time: wei and blocks."""

    bond_wei: int = 10**18
    reward_wei: int = 10**17
    commit_blocks: int = 16
    reveal_blocks: int = 16
    window_blocks: int = 16
    clock_blocks: int = 64
    increment_blocks: int = 4


USUAL = Stakes()


def make_terms(
    task: Task,
    stakes: Stakes = USUAL,
    leaf_mode: LeafMode = LeafMode.SCALAR,
    verifier: Address = NOBODY,
) -> Terms:
    """Return the terms of a job.

    Args:
        task: what is agreed.
        stakes: money and clocks; the reward is no term, since it is paid with the job's opening.
        leaf_mode: who decides the leaves.
        verifier: the account that posts the bounded verifier's rulings.
    """
    header, data = task.commitment.header, task.data_tree
    return Terms(
        operators=header.operators,
        state_slots=header.state_slots,
        batch_slots=header.batch_slots,
        layout=header.layout,
        program_top=header.top,
        start_root=task.start_root,
        data_top=data.top if data else ZERO,
        steps=task.steps,
        checkpoint_every=task.checkpoint_every,
        leaf_mode=leaf_mode,
        verifier=verifier,
        bond_wei=stakes.bond_wei,
        commit_blocks=stakes.commit_blocks,
        reveal_blocks=stakes.reveal_blocks,
        window_blocks=stakes.window_blocks,
        clock_blocks=stakes.clock_blocks,
        increment_blocks=stakes.increment_blocks,
    )
