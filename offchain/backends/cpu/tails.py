"""The tails of a run's rows: where masks hold one constant to the end, and products are finite."""

from collections.abc import Sequence

import numpy as np

from offchain.backends.cpu.contractions import Views
from offchain.backends.cpu.kernels.contraction.gemm import Floats
from offchain.backends.cpu.kernels.tails import Integers, find_ends
from offchain.commitments.tensors import Array
from offchain.native.threads import share
from offchain.planning.region import Region
from offchain.planning.tails import Tail

_BOUND = 2.0**126
"""What the magnitude of a sum may reach, so that no rounding on the way makes it infinite."""

_GRAIN = 2**18
"""Elements that make another thread worth its start."""


class Tails:
    """The finder of the tails of a region's rows.

    Args:
        region: the region.
        tail: what makes a tail.
        init: the bits that every sum of the product starts from.
        is_zero: whether zeros, or NaN, are all that a next product folds of a tail.
    """

    def __init__(self, region: Region, tail: Tail, init: int, *, is_zero: bool) -> None:
        self._tail, self._columns, self._is_zero = tail, region.columns, is_zero
        self._rows = region.rows
        self._init = abs(float(np.uint32(init).view(np.float32)))
        sizes = [
            n if stride else 1 for n, stride in zip(region.rows, tail.mask.row_strides, strict=True)
        ]
        places = np.full((1,) * len(sizes), tail.mask.offset, np.int64)
        for axis, (size, stride) in enumerate(zip(sizes, tail.mask.row_strides, strict=True)):
            along = np.arange(size, dtype=np.int64) * stride
            places = places + along.reshape([-1 if a == axis else 1 for a in range(len(sizes))])
        self._places = places

    @property
    def unit(self) -> int:
        """Of how many columns a multiple is computed; so many at least belong to the tail."""
        return self._tail.unit

    def find_ends(self, inputs: Sequence[Array | None], views: Sequence[Views]) -> Integers | None:
        """Find where the tail of each row begins; None if products may not be finite, or in vain.

        Args:
            inputs: the region's operands.
            views: the product's.

        Returns:
            (rows,) int64: multiples of `unit`.
        """
        mask = inputs[self._tail.mask.buffer]
        assert mask is not None
        starts = self._places.reshape(-1)
        ends = find_ends(mask, starts, self._columns, self._tail.bits, self.unit)
        if not (ends + self.unit < self._columns).any() or not self._is_bounded(views):
            return None
        return np.broadcast_to(ends.reshape(self._places.shape), self._rows).reshape(-1)

    def _is_bounded(self, views: Sequence[Views]) -> bool:
        """Whether no sum of a product overflows, in whatever order its terms come."""
        for a, b, _, _ in views:
            terms = a.shape[2] * _find_magnitude(a) * _find_magnitude(b)
            if not self._init + terms < _BOUND:
                return False
        return True

    def is_skipped(self, factors: Sequence[Floats]) -> bool:
        """Whether products with some factors may leave tails out: their terms are zeros."""
        return self._is_zero and all(np.isfinite(_find_magnitude(factor)) for factor in factors)


def _find_magnitude(x: Floats) -> float:
    """Return the greatest magnitude, NaN if there is one."""
    found: list[np.float32] = []

    def work(first: int, stop: int) -> None:
        part = x[first:stop]
        found.extend((part.max(), part.min()))

    share(work, len(x), max(1, _GRAIN * len(x) // x.size))
    return float(np.abs(found).max())
