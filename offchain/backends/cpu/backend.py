"""The processor as a backend: arrays of numpy, and machine code."""

from collections.abc import Collection, Sequence

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.backends.cpu import partial_sums
from moot.offchain.backends.cpu.back_to_back import BackToBackProducts
from moot.offchain.backends.cpu.chains import ChainedProducts
from moot.offchain.backends.cpu.engines import get_engine, list_arithmetics
from moot.offchain.backends.cpu.partial_sums import Limbs
from moot.offchain.backends.cpu.regions import FusedRegion
from moot.offchain.backends.cpu.selections import LargestElements, SortedLines
from moot.offchain.backends.cpu.sequences import CalledSequence
from moot.offchain.backends.cpu.vertical import VerticalReduction
from moot.offchain.backends.port import FusedPlan, Plan, Step
from moot.offchain.commitments.tensors import Array
from moot.offchain.native.memory import check_memory
from moot.offchain.planning.back_to_back import BackToBack
from moot.offchain.planning.chains import Chain
from moot.offchain.planning.grouping import Fused
from moot.offchain.planning.packing import Packing
from moot.offchain.planning.selections import Selection
from moot.offchain.planning.sorts import Sort
from moot.offchain.planning.vertical import Vertical
from moot.offchain.programs.graph import Node, Slot

_MOST_SEQUENCE_BYTES = 1 << 24


class Cpu:
    """The backend for processors."""

    @property
    def arithmetics(self) -> Collection[str]:
        """All of them."""
        return list_arithmetics()

    def describe(self) -> str:
        """Return that it is this machine's processor."""
        return "this machine's processor"

    def plan(self, node: Node, arithmetic: Arithmetic) -> Plan:
        """Return the plan of an operator."""
        return get_engine(arithmetic).plan(node)

    def is_fusible(self, node: Node, arithmetic: Arithmetic) -> bool:
        """Whether an operator may be in a kernel with others."""
        return get_engine(arithmetic).is_fusible(node)

    def find_packing(self, node: Node, arithmetic: Arithmetic) -> Packing | None:
        """Return how a contraction would rather have a factor."""
        return get_engine(arithmetic).find_packing(node)

    def plan_fused(self, fused: Fused, kept: Sequence[int]) -> FusedPlan:
        """Return the plan of operators that one kernel computes."""
        if isinstance(fused, Selection):
            return LargestElements(fused, kept)
        if isinstance(fused, BackToBack):
            return BackToBackProducts(fused, kept)
        if isinstance(fused, Chain):
            return ChainedProducts(fused)
        if isinstance(fused, Sort):
            return SortedLines(fused)
        if isinstance(fused, Vertical):
            return VerticalReduction(fused)
        return FusedRegion(fused, kept)

    @property
    def most_sequence_bytes(self) -> int:
        """Most bytes that a sequence may write; its memory stays allocated as long as it lives."""
        return _MOST_SEQUENCE_BYTES

    def is_called(self, plan: Plan | FusedPlan) -> bool:
        """Whether a plan is a few calls of machine code, known before it runs."""
        return bool(getattr(plan, "is_called", False))

    def plan_sequence(
        self,
        steps: Sequence[Step],
        reads: Sequence[int],
        kept: Sequence[int],
        slots: Sequence[Slot] = (),
    ) -> CalledSequence:
        """Return the plan of tasks whose calls of machine code are made one after the other."""
        return CalledSequence(steps, reads, kept, slots)

    def list_partials(
        self, node: Node, arithmetic: Arithmetic, element: int, operands: Sequence[Array | None]
    ) -> Array:
        """Return the accumulators of one element of a fold."""
        return get_engine(arithmetic).list_partials(node, element, operands)

    def add_terms(self, node: Node, operands: Sequence[Array | None]) -> Limbs:
        """Return the exact sums of a fold's terms."""
        return partial_sums.add_terms(node, operands)

    def finish_sums(self, node: Node, init: Array | None, sums: Limbs) -> Array:
        """Return the output of an exact fold."""
        return partial_sums.finish(node, init, sums)

    def admit(self, array: Array) -> Array:
        """Return the array."""
        return array

    def fetch(self, tensor: Array) -> Array:
        """Return the tensor, which is an array."""
        return tensor

    def require_memory(self, needed_bytes: int) -> None:
        """Refuse a run for which this process can't get memory."""
        check_memory(needed_bytes)
