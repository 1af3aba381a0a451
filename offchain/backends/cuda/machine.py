"""Machines: what kernels run on, a device or the emulator, and tensors in their memory."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.commitments.tensors import Array

_LEAST_BYTES = 16
"""Every tensor has so many, so that its first element may be read, even where there is none."""


HOST, DEVICE = 1, 2
"""Kinds of memory, by DLPack's numbers."""


class Launch(NamedTuple):
    """A launch: a kernel that is loaded, how many blocks of it, and its parameters."""

    loaded: Any
    blocks: int
    parameters: Sequence[int]


class Vertex(NamedTuple):
    """A launch of a graph, and the numbers of the earlier ones that it comes after."""

    launch: Launch
    after: Sequence[int]


class Machine(Protocol):
    """A device, or what stands in for one.

    Attributes:
        name: what people call it.
        capability: its compute capability.
        generations: the arithmetics of tensor cores that it should compute; a trial decides.
        multiprocessors: how many it has; what it computes does not depend on them.
        place: the kind of its memory and its number, as DLPack has them.
    """

    name: str
    capability: tuple[int, int]
    generations: Sequence[str]
    multiprocessors: int
    place: tuple[int, int]

    def allocate(self, size: int, holder: int = 0) -> int:
        """Return the address of so many bytes of any content, aligned to 16.

        Args:
            size: how many.
            holder: the number of who asks for them again and again, and would rather have the same
                ones; 0 for whom it is all one. Those who have the same number share.

        Raises:
            NotEnoughMemory: there are not so many.
        """

    def release(self, address: int) -> None:
        """Give memory back."""

    def upload(self, address: int, content: bytes) -> None:
        """Copy bytes to an address."""

    def download(self, address: int, size: int) -> bytes:
        """Copy bytes from an address, after all that was launched before."""

    def load(self, kernel: Kernel) -> Any:
        """Make a kernel ready to be launched."""

    def launch(self, loaded: Any, blocks: int, parameters: Sequence[int]) -> None:
        """Launch a kernel after all that was launched before."""

    def record(self, vertices: Sequence[Vertex]) -> Any:
        """Return launches as one graph, without launching any of them."""

    def replay(self, recorded: Any) -> None:
        """Launch all of a graph, in any order that it allows, after all that was launched before.

        Launches between which there is no way along its edges may run side by side.
        """

    def wait(self) -> None:
        """Return after all that was launched before."""

    def get_free_bytes(self) -> int | None:
        """Return how much memory there is, None where nobody knows."""


class Tensor:
    """A tensor in a machine's memory, which is given back with it.

    Args:
        machine: whose memory.
        shape: the dimensions.
        dtype: the elements' type as numpy has it.
        holder: of the memory, as the machine has it.
    """

    def __init__(
        self, machine: Machine, shape: tuple[int, ...], dtype: Any, holder: int = 0
    ) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.size = prod(shape) * self.dtype.itemsize
        self.machine = machine
        self.address = machine.allocate(max(self.size, _LEAST_BYTES), holder)

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self.machine.release(self.address)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the kind of its memory and the device's number."""
        return self.machine.place

    def __dlpack__(self, **_: Any) -> Any:
        """Return a capsule of it, to be read where it is, after all that was launched before."""
        from moot.offchain.backends.cuda.exchange import export  # noqa: PLC0415 - which knows tensors

        return export(self)

    def put(self, array: Array) -> None:
        """Copy an array of the same type, and of as many elements, to the tensor."""
        if self.size:
            self.machine.upload(self.address, np.ascontiguousarray(array).tobytes())

    def get(self) -> Array:
        """Return a copy of the tensor as an array."""
        content = self.machine.download(self.address, self.size) if self.size else b""
        flat: Array = np.frombuffer(bytearray(content), self.dtype)
        return flat.reshape(self.shape)
