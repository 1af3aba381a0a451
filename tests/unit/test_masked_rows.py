"""What is found in the rows of a mask, and how large the elements of a factor are."""

from collections.abc import Callable

import numpy as np
import pytest

from moot.offchain.backends.cpu.kernels.contraction.gemm import Floats
from moot.offchain.backends.cpu.kernels.magnitudes import find_magnitude
from moot.offchain.backends.cpu.kernels.tails import UNIT, find_ends
from moot.offchain.backends.cpu.tails import Tails
from moot.offchain.commitments.tensors import Array
from moot.offchain.native.threads import get_threads, set_threads

ROWS, COLUMNS = 40, 5 * UNIT
SHAPE = (3, 7, 150)

VIEWS: list[Callable[[Floats], Floats]] = [
    lambda x: x,
    lambda x: x.transpose(0, 2, 1),
    lambda x: x[:, :, 1:147],
    lambda x: x[:, ::2, :129],
    lambda x: x[:, :, ::3],
    lambda x: x[::-1, ::-1],
    lambda x: np.broadcast_to(x[1:2, :, :65], (4, 7, 65)),
    lambda x: x[2:, 3:4, 5:6],
]


def draw_mask(rng: np.random.Generator, kind: type, constants: tuple[int, int]) -> Array:
    """Return rows that begin with one constant and end with another, or nearly so."""
    mask = rng.choice(np.array([*constants, 1], kind), (ROWS, COLUMNS))
    for row in mask:
        first, stop = sorted(rng.integers(0, COLUMNS + 1, 2))
        row[:first], row[stop:] = constants
        row[rng.integers(COLUMNS, size=rng.integers(2))] = 1
    mask[0], mask[1] = constants
    return mask


@pytest.mark.parametrize(
    ("kind", "constants"),
    [(np.uint32, (0, 0xFF800000)), (np.uint32, (1 << 31, 1 << 31)), (np.uint8, (1, 0))],
)
def test_what_rows_begin_and_end_with_is_found(kind: type, constants: tuple[int, int]) -> None:
    """It is counted by bits: whole units of one constant, and all before the other one."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        mask = draw_mask(rng, kind, constants)
        starts = rng.permutation(ROWS).astype(np.int64) * COLUMNS
        leads, ends = find_ends(mask, starts, COLUMNS, constants)
        for row, lead, end in zip(mask[starts // COLUMNS], leads, ends, strict=True):
            assert (row[end:] == constants[1]).all()
            assert end == 0 or row[end - 1] != constants[1]
            assert lead % UNIT == 0
            assert (row[:lead] == constants[0]).all()
            is_all = lead >= -(-end // UNIT) * UNIT
            assert is_all or (row[lead : lead + UNIT] != constants[0]).any()


@pytest.mark.parametrize("view", VIEWS)
def test_the_greatest_magnitude_is_found(view: Callable[[Floats], Floats]) -> None:
    """It is that of every element of a view, of any sign; a NaN is greater than all others."""
    rng = np.random.default_rng(5)
    threads = get_threads()
    try:
        for count in (1, 2):
            set_threads(count)
            whole = rng.standard_normal(SHAPE).astype(np.float32)
            seen = view(whole)
            for place in [tuple(rng.integers(n) for n in seen.shape) for _ in range(5)]:
                assert find_magnitude(seen) == np.abs(seen).max()
                for value in (-1e30, np.inf, -np.inf):
                    changed = seen.copy()
                    changed[place] = value
                    assert find_magnitude(changed) == abs(np.float32(value))
                changed[place] = np.nan
                assert np.isnan(find_magnitude(changed))
            assert find_magnitude(seen * np.float32(-0.0)) == 0
    finally:
        set_threads(threads)


def test_elements_beside_a_view_do_not_count() -> None:
    """Neither what lies between the rows of a view nor what is after them is looked at."""
    whole = np.full(SHAPE, np.nan, np.float32)
    for part in (whole[:, ::2, :129], whole[1:, :, 3:140], whole[:, :3, 7:8]):
        part[...] = -2
        assert find_magnitude(part) == 2
        part[...] = np.nan


def test_what_all_rows_share_is_there_for_each() -> None:
    """Rows that read one row of a mask have what was found in it, as kernels read arrays."""
    tails = Tails.__new__(Tails)
    tails._places, tails._rows = np.zeros((1, 1), np.int64), (3, 4)
    spread = tails._spread(np.array([7]))
    assert spread.tolist() == [7] * 12
    assert spread.flags.c_contiguous
    tails._places = np.zeros((3, 4), np.int64)
    assert tails._spread(np.arange(12)).tolist() == list(range(12))
