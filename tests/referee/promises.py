"""The model of clients' promises beside the contract in a bare EVM, and a job to promise about."""

from dataclasses import replace
from typing import Any

import numpy as np

from moot.contracts.deployment import deploy_availability
from moot.contracts.model.answers import MIN_DEPOSIT_WEI, Vault, make_subject
from moot.contracts.model.availability import call
from moot.contracts.model.types import Address
from moot.contracts.reasons import Part
from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tensors import Array
from moot.offchain.disputes.availability.calldata import ShownChunk
from moot.offchain.disputes.availability.demands import (
    Place,
    Promised,
    TensorProof,
    find_answer,
    list_demand,
)
from moot.offchain.disputes.play.players import Move
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.programs.graph import Slot
from moot.offchain.providers.task import Task
from tests.referee.illegal import LEGAL
from tests.referee.stage import CLIENT
from tests.referee.vaults import Vaults

STEPS = 3
BOND_WEI, DEPOSIT_WEI = 10**18 + 1, MIN_DEPOSIT_WEI + 1
ANSWER_BLOCKS, LAST_BLOCK = 5, 41
STATE: tuple[Array, ...] = (
    np.arange(70, dtype=np.float32),
    np.zeros((0, 3), np.float32),
    np.array(-1, np.int64),
)
"""Two chunks, of which the last is ragged; no elements; one element of no dimension."""
BATCH: tuple[Array, ...] = (np.ones(600, np.bool_), np.zeros(64, np.float32))
"""Three chunks, of which the last is ragged; one chunk of zeros."""
F32, BOOL, INT64 = DType.FLOAT32, DType.BOOL, DType.INT64
PROGRAM = replace(
    LEGAL,
    state=(Slot("s", F32, (70,)), Slot("e", F32, (0, 3)), Slot("n", INT64, ())),
    batch=(Slot("b", BOOL, (600,)), Slot("z", F32, (64,))),
)
TASK = Task(PROGRAM, STATE, lambda step: (BATCH[0], BATCH[1] * (step + 1)), STEPS, 1)
PLACES: tuple[Place, ...] = (
    *((0, index, 0) for index in range(4)),
    *((1, index, chunk) for index, count in enumerate((2, 1, 1)) for chunk in range(count)),
    *((2, index, chunk) for index in range(6) for chunk in range((3, 1)[index % 2])),
)
"""All that can be demanded."""
BEYOND: tuple[Place, ...] = (
    *((1, index, chunk) for index, count in enumerate((2, 1, 1)) for chunk in (count, count + 1)),
    *((2, index, chunk) for index in range(6) for chunk in ((3, 4), (1, 2))[index % 2]),
)
"""Chunks beyond the end of every tensor."""


def prove(task: Task, place: Place) -> TensorProof | None:
    """Return what shows how many chunks the tensor of a place has; None of an operator."""
    part, index, _ = place
    if part == Part.PROGRAM or index >= make_subject(make_terms(task), "", 0).count(part):
        return None
    return prove_tensor(find_answer(task, (part, index, 0)))


def prove_tensor(shown: Move) -> TensorProof:
    """Return what the answer to a demand of a chunk shows of its tensor."""
    it = ShownChunk(*shown.args)
    return TensorProof(it.header, it.compute_top(), it.proof)


class Promises(Vaults[Vault]):
    """A job about which its client may promise.

    Args:
        task: what the job is about.
    """

    def __init__(self, task: Task = TASK) -> None:
        super().__init__(task, deploy_availability, Vault, call)

    def promise(self) -> str | None:
        """Let the client promise, on the usual terms."""
        terms = (DEPOSIT_WEI, ANSWER_BLOCKS, LAST_BLOCK)
        return self.call("promise", CLIENT, self.subject, *terms, value_wei=BOND_WEI)

    def demand(self, asker: Address, place: Place, proof: TensorProof | None = None) -> str | None:
        """Let somebody demand something, and show what is true unless something else is given."""
        args = list_demand(place, proof or prove(self.task, place))
        return self.call("demand", asker, self.subject, *args, value_wei=DEPOSIT_WEI)

    def show(self, sender: Address, place: Place, **changes: Any) -> str | None:
        """Let somebody show what is demanded, with other arguments at some places (`at_2=…`)."""
        return self.show_by(sender, self.subject, find_answer(self.task, place), **changes)

    def view(self) -> Promised:
        """Return what the chain shows of the promise."""
        return self.view_of(self.subject)
