"""The tails of a run's rows: where masks hold one constant to the end, and products are finite."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.backends.cpu.contractions import Views
from moot.offchain.backends.cpu.kernels.contraction.gemm import Floats
from moot.offchain.backends.cpu.kernels.magnitudes import find_magnitude
from moot.offchain.backends.cpu.kernels.tails import UNIT, Integers, find_ends
from moot.offchain.commitments.tensors import Array
from moot.offchain.planning.region import Region
from moot.offchain.planning.tails import Tail

_BOUND = 2.0**126
"""What the magnitude of a sum may reach, so that no rounding on the way makes it infinite."""


class Extents(NamedTuple):
    """What a mask holds in the rows of a run.

    Attributes:
        leads: (rows,) int64: in how many columns, from the first on, it is one constant.
        constant: a vector of that.
        ends: (rows,) int64: in how many columns something is not yet in the row's tail; empty if no
            row has a tail.
    """

    leads: Integers
    constant: npt.NDArray[Any]
    ends: Integers


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
        """Of how many columns a multiple is computed."""
        return self._tail.unit

    @property
    def least(self) -> int:
        """How many of them belong to the tail at least."""
        return self._tail.least

    def find_extents(self, inputs: Sequence[Array | None]) -> Extents:
        """Find what the mask holds, given the region's operands."""
        mask = inputs[self._tail.mask.buffer]
        assert mask is not None
        starts, flat = self._places.reshape(-1), mask.reshape(-1)
        first = flat[starts[-1] : starts[-1] + 1]
        constants = int.from_bytes(first.tobytes(), "little"), self._tail.bits
        leads, ends = find_ends(mask, starts, self._columns, constants)
        has_tails = (ends + self.unit + self.least <= self._columns).any()
        return Extents(
            self._spread(leads),
            np.repeat(first, UNIT),
            self._spread(ends) if has_tails else np.empty(0, np.int64),
        )

    def _spread(self, found: Integers) -> Integers:
        """Return what was found of the mask's rows for each row; kernels take no other strides."""
        wide = np.broadcast_to(found.reshape(self._places.shape), self._rows)
        return np.ascontiguousarray(wide).reshape(-1)

    def is_bounded(self, views: Sequence[Views]) -> bool:
        """Whether no sum of a product overflows, in whatever order its terms come."""
        for a, b, _, _ in views:
            terms = a.shape[2] * find_magnitude(a) * find_magnitude(b)
            if not self._init + terms < _BOUND:
                return False
        return True

    def is_skipped(self, factors: Sequence[Floats]) -> bool:
        """Whether products with some factors may leave tails out: their terms are zeros."""
        return self._is_zero and all(np.isfinite(find_magnitude(factor)) for factor in factors)
