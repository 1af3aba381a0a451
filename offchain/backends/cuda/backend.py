"""A device as a backend: operators one by one, their tensors in its memory."""

from collections.abc import Collection, Sequence

from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.exact import EXACT
from offchain.arithmetic.ordered import ORDERED
from offchain.backends.cuda.machine import Machine, Tensor
from offchain.backends.cuda.plans import plan
from offchain.backends.port import FusedPlan, Plan
from offchain.commitments.tensors import Array
from offchain.errors import NotEnoughMemory
from offchain.planning.grouping import Fused
from offchain.programs.graph import Node


class Cuda:
    """The backend for devices.

    Args:
        machine: the device, or the emulator.

    Attributes:
        machine: that.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @property
    def arithmetics(self) -> Collection[str]:
        """What it computes."""
        return (ORDERED.name, EXACT.name)

    def plan(self, node: Node, arithmetic: Arithmetic) -> Plan:
        """Return the plan of an operator."""
        return plan(self.machine, node, arithmetic)

    def is_fusible(self, node: Node, arithmetic: Arithmetic) -> bool:
        """Compute operators one by one."""
        del node, arithmetic
        return False

    def plan_fused(self, fused: Fused, kept: Sequence[int]) -> FusedPlan:
        """Refuse, as nothing is fusible."""
        raise NotImplementedError((fused, kept))

    def admit(self, array: Array) -> Tensor:
        """Copy an array to the device."""
        tensor = Tensor(self.machine, array.shape, array.dtype)
        tensor.put(array)
        return tensor

    def fetch(self, tensor: Tensor) -> Array:
        """Copy a tensor from the device."""
        return tensor.get()

    def require_memory(self, needed_bytes: int) -> None:
        """Refuse a run that does not fit into the device's memory."""
        free = self.machine.get_free_bytes()
        if free is not None and needed_bytes > free:
            raise NotEnoughMemory(needed_bytes, free)
