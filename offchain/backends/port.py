"""The port of backends: what a device has to offer, so that programs run on it.

A backend computes what `programs/semantics.py` says, bit for bit, from plans that it makes once.
`planning` tells it what is computed together, as data; a backend may compute operators one by one.
docs/explanation/backends.md says how to write one.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.grouping import Fused
from moot.offchain.planning.packing import Packing
from moot.offchain.programs.graph import Node, Operand, Slot

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


@runtime_checkable
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

    def describe(self) -> str:
        """Return what computes, in a few words for people."""

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


@runtime_checkable
class ResidentBackend(Backend, Protocol):
    """A backend in whose memory a state may stay between steps; that is what this method says."""

    def compute_layer(self, tensor: Tensor) -> NDArray[np.uint8]:
        """Return the nodes over `SUBTREE_BYTES` of a tensor each, (n, 32) bytes.

        None where there are no elements; `commitments/tensors.py` defines them.
        """


class Step(NamedTuple):
    """A task of a sequence: a plan, and the places of its operands and outputs.

    Attributes:
        plan: the plan, one of the backend's own.
        reads: where its operands are; 0 for constants.
        writes: where its outputs are.
        outputs: what the outputs are.
    """

    plan: Plan | FusedPlan
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    outputs: tuple[Node, ...]


class SequencePlan(Protocol):
    """A plan that computes tasks one after the other, at once for whoever asks."""

    @property
    def needed_bytes(self) -> int:
        """The memory that a run takes besides what it is given, what it returns included."""

    def run(self, flats: Sequence[Tensor]) -> Sequence[Tensor] | None:
        """Return the tensors that are kept, given those that are read.

        Returns:
            None, and nothing is computed, if it was planned for certain slots, and a tensor that is
            given is not an array that fits its slot, contiguous.
        """


@runtime_checkable
class SequencingBackend(Protocol):
    """What a backend may do besides: compute many small tasks at once, and so sooner."""

    @property
    def most_sequence_bytes(self) -> int:
        """The bytes of all outputs of a sequence, and of what dies only at its end, at most."""

    def is_called(self, plan: Plan | FusedPlan) -> bool:
        """Whether one of its plans may be a part of a sequence."""

    def plan_sequence(
        self,
        steps: Sequence[Step],
        reads: Sequence[int],
        kept: Sequence[int],
        slots: Sequence[Slot] = (),
    ) -> SequencePlan:
        """Return the plan of tasks that are all such parts.

        Args:
            steps: the tasks, in their order.
            reads: the places of the tensors that are given.
            kept: the places of the tensors that are wanted.
            slots: if given, what the tensors that are given have to be: arrays of a program's
                state and batch, as a caller has them, which nobody has brought in. A backend with a
                memory of its own is not asked for that.
        """


@runtime_checkable
class FoldingBackend(Protocol):
    """What a backend may do besides: show how elements of folds come about, from arrays.

    A provider asks for that in a dispute about a fold, and workers that share one out. A backend
    that can't leaves it to the default one.
    """

    def list_partials(
        self, node: Node, arithmetic: Arithmetic, element: int, operands: Sequence[Array | None]
    ) -> Array:
        """Return the accumulators of one element of a fold, the initial one first.

        Args:
            node: a contract, reduce or scatter node.
            arithmetic: what its accumulators are.
            element: index of the output element.
            operands: the tensors of the node's operands; those of constants are not read.

        Returns:
            fold_length + 1 elements.
        """

    def add_terms(self, node: Node, operands: Sequence[Array | None]) -> NDArray[np.int64]:
        """Return the exact sums of a fold's terms, as whole numbers that workers add up."""

    def finish_sums(self, node: Node, init: Array | None, sums: NDArray[np.int64]) -> Array:
        """Return the output of an exact fold: each sum with its initial value, rounded once.

        Args:
            node: the whole operator.
            init: the tensor of its initial values; None for a constant.
            sums: those of all workers' terms together.
        """


@runtime_checkable
class PackingBackend(Protocol):
    """What a backend may do besides: say how a factor should lie that several products read."""

    def find_packing(self, node: Node, arithmetic: Arithmetic) -> Packing | None:
        """Return how a contraction would rather have a factor, which is then copied once a run."""
