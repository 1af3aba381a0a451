"""Memory of tensors: what tells one tensor's from that of others."""

import torch


def get_memory(tensor: torch.Tensor) -> int:
    """Return what tells the memory of a tensor, and of its views, from that of others."""
    memory: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - the identity of the storage
    return memory
