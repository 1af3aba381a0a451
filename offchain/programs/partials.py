"""The accumulators of a fold as an array, in the form in which disputes narrow them down."""

from collections.abc import Sequence

import numpy as np

from moot.offchain.commitments.tensors import Array


def pack_partials(partials: Sequence[int], size: int) -> Array:
    """Return accumulators of so many bytes each, little-endian, as an array."""
    return np.frombuffer(b"".join(each.to_bytes(size, "little") for each in partials), f"V{size}")
