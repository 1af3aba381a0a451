"""A device as a backend: operators and regions of them, their tensors in its memory."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT, is_sum
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import TENSOR
from moot.offchain.arithmetic.tensor.blocks import BLOCKS
from moot.offchain.backends.cuda.exchange import adopt
from moot.offchain.backends.cuda.hashing import Hasher
from moot.offchain.backends.cuda.joined.plans import LEAST_CAPABILITY, JoinedProducts
from moot.offchain.backends.cuda.machine import Machine, Tensor
from moot.offchain.backends.cuda.plans import plan
from moot.offchain.backends.cuda.regions.plans import FusedRegion, is_fusible
from moot.offchain.backends.cuda.sequences import LaunchedSequence
from moot.offchain.backends.cuda.tensor.bytes_trial import require_bytes
from moot.offchain.backends.cuda.tensor.examination import Examination
from moot.offchain.backends.cuda.tensor.tiles import GroupTile
from moot.offchain.backends.cuda.tensor.trial import require_blocks
from moot.offchain.backends.cuda.tiling import count_sides
from moot.offchain.backends.port import FusedPlan, Plan, Step
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import NotEnoughMemory
from moot.offchain.planning.back_to_back import BackToBack
from moot.offchain.planning.grouping import Fused
from moot.offchain.planning.roles import Group
from moot.offchain.programs.graph import Kind, Node, Slot

_MOST_SEQUENCE_BYTES = 1 << 32

_BYTES = "bytes"
"""What was tried, beside the names of arithmetics."""


class Cuda:
    """The backend for devices.

    Args:
        machine: the device, or the emulator.

    Attributes:
        machine: that.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._hasher = Hasher(machine)
        self._tried: set[str] = set()

    @property
    def arithmetics(self) -> Collection[str]:
        """What it computes, those of tensor cores if the machine's are such."""
        return [row.name for row in (ORDERED, EXACT, *TENSOR)]

    def describe(self) -> str:
        """Return the machine's name."""
        return self.machine.name

    def plan(self, node: Node, arithmetic: Arithmetic) -> Plan:
        """Return the plan of an operator.

        Raises:
            DeviceError: it needs tensor cores that the machine does not have, or that compute
                another sum.
        """
        if node.has_short_factors and arithmetic.name not in self._tried:
            require_blocks(self.machine, arithmetic)
            self._tried.add(arithmetic.name)
        found = plan(self.machine, node, arithmetic)
        tile = getattr(found, "tile", None)
        if isinstance(tile, GroupTile) and tile.width == 1 and _BYTES not in self._tried:
            require_bytes(self.machine)
            self._tried.add(_BYTES)
        return found

    def is_fusible(self, node: Node, arithmetic: Arithmetic) -> bool:
        """Whether an operator may be in a kernel with others: sums of `exact` may not.

        Products of bfloat16 may, where there is one arithmetic that they can be in; those of
        floats in `ordered`, if they are of several matrices, since one has too few rows for all
        multiprocessors, and on devices whose kernels copy while they compute.
        """
        if node.has_short_factors:
            return [arithmetic.name] == [*self.machine.generations]
        if node.kind is Kind.CONTRACT and not node.multiplies_integers:
            copies = self.machine.capability >= LEAST_CAPABILITY
            return copies and arithmetic == ORDERED and count_sides(node)[2] > 1
        is_exact = arithmetic == EXACT and node.kind.folds and is_sum(node.function, node.dtype)
        return not is_exact and is_fusible(node)

    def plan_fused(self, fused: Fused, kept: Sequence[int]) -> FusedPlan:
        """Return the plan of a region, perhaps between products: what is fusible here."""
        if isinstance(fused, BackToBack):
            block = None
            if fused.nodes[fused.first].has_short_factors:
                (name,) = self.machine.generations
                block = BLOCKS[name]
            return JoinedProducts(self.machine, fused, kept, block)
        assert isinstance(fused, Group)
        return FusedRegion(self.machine, fused, kept)

    @property
    def most_sequence_bytes(self) -> int:
        """What a graph of launches may write: a step's tensors, or as many as leave others room."""
        return _MOST_SEQUENCE_BYTES

    def is_called(self, plan: Plan | FusedPlan) -> bool:
        """Whether a plan is launches that depend on addresses alone."""
        return bool(getattr(plan, "is_launched", False))

    def plan_sequence(
        self,
        steps: Sequence[Step],
        reads: Sequence[int],
        kept: Sequence[int],
        slots: Sequence[Slot] = (),
    ) -> LaunchedSequence:
        """Return the plan of tasks that are launched as a graph, on tensors that are brought in."""
        assert not slots
        return LaunchedSequence(self.machine, steps, reads, kept)

    def examine(self, arithmetic: Arithmetic, rows: int) -> Examination:
        """Return the examination of the tensor cores in an arithmetic, so many rows at once."""
        return Examination(self.machine, arithmetic, rows)

    def admit(self, array: Array) -> Tensor:
        """Copy an array to the device, every NaN as the canonical one."""
        tensor = Tensor(self.machine, array.shape, array.dtype)
        tensor.put(encode_elements(array))
        return tensor

    def adopt(self, external: Any) -> Tensor:
        """Return a tensor of torch, or of whoever speaks DLPack, where it is on this device.

        Raises:
            DeviceError: it is on another device.
            ProgramError: it has another type than programs know, or is not contiguous.
        """
        return adopt(self.machine, external)

    def fetch(self, tensor: Tensor) -> Array:
        """Copy a tensor from the device."""
        return tensor.get()

    def compute_layer(self, tensor: Tensor) -> NDArray[np.uint8]:
        """Return the nodes over `SUBTREE_BYTES` of a tensor each."""
        return self._hasher.compute_layer(tensor)

    def compute_top(self, tensor: Tensor) -> Digest:
        """Return the node over all chunks of a tensor, which stays on the device."""
        return self._hasher.compute_top(tensor)

    def require_memory(self, needed_bytes: int) -> None:
        """Refuse a run that does not fit into the device's memory."""
        free = self.machine.get_free_bytes()
        if free is not None and needed_bytes > free:
            raise NotEnoughMemory(needed_bytes, free)
