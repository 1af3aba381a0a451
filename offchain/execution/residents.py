"""Tensors of a state that stay where a backend has them, from one step to the next."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from moot.offchain.backends.port import Backend, ResidentBackend, Tensor
from moot.offchain.commitments.tensors import (
    NUMPY_TYPES,
    Array,
    TensorCommitment,
    compute_tensor_root,
    encode_header,
)
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import DeviceError
from moot.offchain.programs.graph import Slot


class Resident:
    """A tensor of a state in a backend's memory, which numpy takes as an array.

    Args:
        backend: where it is.
        tensor: as the backend holds it.
        slot: the slot of the state that it is for.

    Attributes:
        shape: its dimensions.
        dtype: its elements' type as numpy has it.
        tensor: as the backend holds it, for those who exchange tensors with others there.
    """

    def __init__(self, backend: ResidentBackend, tensor: Tensor, slot: Slot) -> None:
        self._backend, self._slot = backend, slot
        self.tensor = tensor
        self.shape, self.dtype = slot.shape, NUMPY_TYPES[slot.dtype]

    def fetch(self) -> Array:
        """Return it as an array."""
        return self._backend.fetch(self.tensor).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: FBT001 - numpy calls it so
        found = self.fetch()
        return found.astype(dtype) if dtype is not None else np.array(found, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return on which device it is, as DLPack has it, if its backend exchanges tensors."""
        place: tuple[int, int] = self.tensor.__dlpack_device__()
        return place

    def __dlpack__(self, **wishes: Any) -> Any:
        """Return a capsule of it, for `torch.from_dlpack`; it may be read, and not written to."""
        return self.tensor.__dlpack__(**wishes)

    @property
    def commitment(self) -> TensorCommitment:
        """The commitment to the tensor; what is hashed stays where it is."""
        layer = self._backend.compute_layer(self.tensor)
        return TensorCommitment(encode_header(self._slot.dtype, self.shape), layer)

    @property
    def root(self) -> Digest:
        """The tensor's root, likewise."""
        return self.commitment.root

    def hand_over(self, backend: Backend) -> Tensor:
        """Return the tensor as its backend holds it.

        Raises:
            DeviceError: another backend asks for it.
        """
        if backend is not self._backend:
            raise DeviceError(
                f"the tensor of slot {self._slot.name} is in another device's memory, or in that "
                "of another executor; fetch() it before it is given to this one"
            )
        return self.tensor


def fetch_all(state: Sequence[Any]) -> list[Array]:
    """Return a state as arrays."""
    return [x.fetch() if isinstance(x, Resident) else x for x in state]


def hash_all(state: Sequence[Any]) -> list[Digest]:
    """Return the roots of a state's tensors, each hashed where it is."""
    return [x.root if isinstance(x, Resident) else compute_tensor_root(x) for x in state]
