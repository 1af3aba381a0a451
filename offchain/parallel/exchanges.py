"""The ways in which workers exchange arrays, by `torch.distributed`'s names."""

import torch
from torch import distributed

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ParallelError, UsageError

GLOO, NCCL = "gloo", "nccl"
EXCHANGES = (GLOO, NCCL)
"""Between processors, or between NVIDIA devices, of which every worker has its own."""


def require_exchange(name: str, workers: int) -> None:
    """Refuse a way of exchange that is not here for so many workers.

    Raises:
        UsageError: there is no such way.
        ParallelError: torch has no nccl, or there are fewer devices than workers.
    """
    if name not in EXCHANGES:
        raise UsageError.unknown("exchange", name, EXCHANGES)
    if name == GLOO:
        return
    if not distributed.is_nccl_available():
        raise ParallelError(
            "this torch has no nccl; install one that is built for CUDA, or exchange over gloo"
        )
    devices = torch.cuda.device_count()
    if devices < workers:
        raise ParallelError(
            f"nccl needs a device for each of {workers} workers, and there are {devices}; "
            "use fewer workers, or exchange over gloo"
        )


class Group:
    """The other workers, by way of torch; arrays go to the worker's device and back with nccl.

    Args:
        exchange: the way of exchange.
        rank: the worker's number, and that of its device.
    """

    def __init__(self, exchange: str, rank: int) -> None:
        self._device = torch.device("cuda", rank) if exchange == NCCL else torch.device("cpu")

    def add_up(self, array: Array) -> None:
        """Replace an array of integers by the sum of all workers' arrays."""
        if array.size:
            here = torch.from_numpy(array)
            there = here.to(self._device)
            distributed.all_reduce(there)
            here.copy_(there)

    def hand_out(self, array: Array, owner: int) -> None:
        """Replace an array of bytes by that of one worker."""
        if array.size:
            here = torch.from_numpy(array)
            there = here.to(self._device)
            distributed.broadcast(there, owner)
            here.copy_(there)
