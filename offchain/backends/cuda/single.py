"""Plans of operators of which each thread has an element, and plans of launches at large."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor
from moot.offchain.backends.cuda.operators import make_kernel
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.programs.graph import Kind, Node

Flats = Sequence[Tensor | None]

Reserve = Callable[[int], int]
"""(bytes) -> the address of memory that is a plan's until all of its launches are done."""


class LaunchedPlan(Protocol):
    """A plan that is launches."""

    @property
    def is_launched(self) -> bool:
        """Whether they depend on addresses alone: on no step, and on nothing the host looks at."""

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], reserve: Reserve
    ) -> list[Launch]:
        """Return the launches, given the addresses of operands (0 for constants) and outputs."""


def launch_all(
    machine: Machine, plan: LaunchedPlan, flats: Flats, targets: Sequence[Tensor]
) -> None:
    """Launch what computes a plan's outputs."""
    own: list[Tensor] = []

    def reserve(size: int) -> int:
        own.append(Tensor(machine, (size,), np.uint8))
        return own[-1].address

    addresses = [tensor.address for tensor in targets]
    for launch in plan.list_launches(find_addresses(flats), addresses, reserve):
        machine.launch(*launch)


def find_addresses(flats: Flats) -> list[int]:
    """Return the addresses of tensors, 0 for constants."""
    return [0 if flat is None else flat.address for flat in flats]


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

    @property
    def is_launched(self) -> bool:
        """Whether no step is a parameter."""
        return self.node.kind is not Kind.RANDOM

    def run(self, flats: Flats, step: int) -> Tensor:
        """Return the output."""
        out = Tensor(self._machine, self.node.shape, NUMPY_TYPES[self.node.dtype])
        self._machine.launch(*self._make_launch(find_addresses(flats), out.address, step))
        return out

    def list_launches(
        self, sources: Sequence[int], targets: Sequence[int], _reserve: Reserve
    ) -> list[Launch]:
        """Return the launch."""
        return [self._make_launch(sources, targets[0], 0)]

    def _make_launch(self, sources: Sequence[int], target: int, last: int) -> Launch:
        given = sources[: len(self.node.operands)]  # a fold without steps has more
        return make_launch(self._loaded, target, given, self.node.elements, last)


def make_launch(loaded: Any, out: int, sources: Sequence[int], threads: int, last: int) -> Launch:
    """Return the launch of a kernel of an operator for so many threads."""
    blocks = -(-threads // Kernel("", 0, ()).threads)
    return Launch(loaded, blocks, [out, *sources, threads, last])
