"""The port of backends: what a device has to offer, so that programs run on it.

A backend computes what `programs/semantics.py` says, bit for bit, from plans that it makes once.
`planning` tells it what is computed together, as data; a backend may compute operators one by one.
docs/backends.md says how to write one.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from offchain.arithmetic.base import Arithmetic
from offchain.commitments.tensors import Array
from offchain.planning.grouping import Fused
from offchain.programs.graph import Node, Operand

Tensor = Any
"""A tensor as a backend holds it; only the backend looks into it."""

Journal = Any
"""A log of roundings, which plans of an arithmetic that has logs read, or write."""


class Plan(Protocol):
    """A plan that computes the output of one operator as often as it is asked."""

    def run(self, flats: Sequence[Tensor | None], step: int) -> Tensor:
        """Return the output.

        Args:
            flats: the operands' tensors, contiguous, of any shape; None for constants.
            step: number of the training step.

        Returns:
            A contiguous tensor of the node's shape and type. It may be one of the operands.
        """


class JournaledPlan(Plan, Protocol):
    """A plan whose result a log of roundings may turn."""

    def run_journaled(
        self, flats: Sequence[Tensor | None], step: int, operator: int, journal: Journal
    ) -> Tensor:
        """Return the output of an operator, given its index, by a log; or write the log."""


class FusedPlan(Protocol):
    """A plan that computes several operators at once."""

    @property
    def operands(self) -> Sequence[Operand]:
        """The accesses to what it reads."""

    def run(self, flats: Sequence[Tensor | None]) -> Sequence[Tensor]:
        """Return the outputs that are kept, given the tensors of the operands."""


class Backend(Protocol):
    """A device, or a library, that computes operators."""

    @property
    def arithmetics(self) -> Collection[str]:
        """The names of the arithmetics that it computes."""

    def plan(self, node: Node, arithmetic: Arithmetic) -> Plan:
        """Return the plan of a legal operator by itself.

        Raises:
            ProgramError: the backend can't compute it; the message says why, and what to do.
        """

    def is_fusible(self, node: Node, arithmetic: Arithmetic) -> bool:
        """Whether an operator may be computed together with its neighbours."""

    def plan_fused(self, fused: Fused, kept: Sequence[int]) -> FusedPlan:
        """Return the plan of operators that are all fusible.

        Args:
            fused: the operators, in one of the forms of `planning`.
            kept: the indices of those whose outputs are needed, ascending.
        """

    def admit(self, array: Array) -> Tensor:
        """Bring an array in, which is contiguous, and which nobody changes meanwhile."""

    def fetch(self, tensor: Tensor) -> Array:
        """Bring a tensor out, as a contiguous array of its shape, which may share its memory."""

    def require_memory(self, needed_bytes: int) -> None:
        """Refuse a run that needs more memory than there is, before it begins.

        Raises:
            NotEnoughMemory: there is less.
        """


class ResidentBackend(Backend, Protocol):
    """A backend in whose memory a state may stay between steps; that is what this method says."""

    def compute_layer(self, tensor: Tensor) -> NDArray[np.uint8]:
        """Return the nodes over `SUBTREE_BYTES` of a tensor each, (n, 32) bytes.

        None where there are no elements; `commitments/tensors.py` defines them.
        """
