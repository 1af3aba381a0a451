"""Memory of each thread for what a kernel puts down while it runs, such as packed factors."""

import threading

import numpy as np
import numpy.typing as npt

from moot.offchain.native import buffers

Floats = npt.NDArray[np.float32]

_LEAST_FLOATS = 1 << 14
"""Floats from which memory comes from the pool, and so begins where a line of the cache does.

A kernel reads whole vectors of it. Where each lies in two lines, a product takes a twentieth more.
"""

_scratch = threading.local()


def get_scratch(name: str, size: int) -> Floats:
    """At least `size` floats that belong to this thread, the same ones for the same name."""
    held: dict[str, Floats] = vars(_scratch)
    floats = held.get(name)
    if floats is None or floats.size < size:
        floats = held[name] = buffers.empty((max(size, _LEAST_FLOATS),), np.float32)
    return floats
