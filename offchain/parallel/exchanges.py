"""The ways in which workers exchange arrays, by `torch.distributed`'s names."""

import time
from collections.abc import Callable

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

    Attributes:
        seconds: the time that exchanges have taken, with what this worker waited for others.
        bytes: what was exchanged, each array counted once.
    """

    def __init__(self, exchange: str, rank: int) -> None:
        self.seconds, self.bytes = 0.0, 0
        self._device = torch.device("cuda", rank) if exchange == NCCL else torch.device("cpu")

    def add_up(self, array: Array) -> None:
        """Replace an array of integers by the sum of all workers' arrays."""
        self._exchange(array, distributed.all_reduce)

    def hand_out(self, array: Array, owner: int) -> None:
        """Replace an array of bytes by that of one worker."""
        self._exchange(array, lambda there: distributed.broadcast(there, owner))

    def _exchange(self, array: Array, act: Callable[[torch.Tensor], object]) -> None:
        """Exchange an array in place, and count what that costs."""
        if not array.size:
            return
        started = time.perf_counter()
        here = torch.from_numpy(array)
        there = here.to(self._device)
        act(there)
        here.copy_(there)
        self.seconds += time.perf_counter() - started
        self.bytes += array.nbytes
