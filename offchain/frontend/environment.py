"""The settings under which torch computes initial weights, batches and constants of a capture."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from offchain.arithmetic.environment import standard_environment


@contextmanager
def standard_torch() -> Iterator[None]:
    """Let torch compute on the calling thread alone, in the default floating-point environment.

    Torch's own threads keep the environment of the one that first used them, for good, and nobody
    can set it; nor do sums that several threads share depend on the operands alone.

    Raises:
        UnsuitableEnvironment: something changed the environment in between.
    """
    threads = torch.get_num_threads()
    with standard_environment():
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
