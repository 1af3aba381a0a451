"""The runs of steps that lie side by side in the factor whose columns a convolution packs."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.backends.cpu.kernels.contraction.tile import FLOAT_BYTES
from moot.offchain.native.vectors import LANES

Integers = npt.NDArray[np.int64]


class Runs(NamedTuple):
    """The steps of a block of the fold, in runs that lie side by side in the other factor.

    Attributes:
        table: first step, number of steps and offset in bytes of each run.
        depth: number of steps.
    """

    table: Integers
    depth: int


def find_runs(offsets: Integers) -> Runs:
    """Return the runs of consecutive floats, of at most `LANES`, at these offsets in bytes."""
    numbers = np.arange(len(offsets))
    is_first = np.append(True, np.diff(offsets) != FLOAT_BYTES)
    inside = numbers - np.maximum.accumulate(np.where(is_first, numbers, 0))
    firsts = np.flatnonzero(inside % LANES == 0)
    lengths = np.diff(np.append(firsts, len(offsets)))
    return Runs(np.stack([firsts, lengths, offsets[firsts]], axis=1), len(offsets))
