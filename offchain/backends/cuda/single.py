"""Plans of operators of which each thread has an element."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from offchain.backends.cuda.kernel import Kernel
from offchain.backends.cuda.machine import Machine, Tensor
from offchain.backends.cuda.operators import make_kernel
from offchain.commitments.tensors import NUMPY_TYPES
from offchain.programs.graph import Node

Flats = Sequence[Tensor | None]


class Single:
    """The plan of an operator of which each thread has an element.

    Args:
        machine: what computes it.
        node: the operator, with a positive number of elements and of fold steps.
    """

    def __init__(self, machine: Machine, node: Node) -> None:
        self._machine, self.node = machine, node

    def make_kernel(self) -> Kernel:
        """Return the kernel."""
        return make_kernel(self.node)

    @cached_property
    def _loaded(self) -> Any:
        return self._machine.load(self.make_kernel())

    def run(self, flats: Flats, step: int) -> Tensor:
        """Return the output."""
        out = Tensor(self._machine, self.node.shape, NUMPY_TYPES[self.node.dtype])
        given = flats[: len(self.node.operands)]  # a fold without steps has more
        launch(self._machine, self._loaded, out, given, self.node.elements, step)
        return out


def launch(
    machine: Machine, loaded: Any, out: Tensor, flats: Flats, threads: int, last: int
) -> None:
    """Launch a kernel of an operator for so many threads."""
    addresses = [0 if flat is None else flat.address for flat in flats]
    blocks = -(-threads // Kernel("", 0, ()).threads)
    machine.launch(loaded, blocks, [out.address, *addresses, threads, last])
