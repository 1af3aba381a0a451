"""Thresholds: from which distance between a value and its rounding on a rounding is logged.

A value v that rounds to r is logged where |v - r| > t * 10^floor(log10 |v|): far from r is near the
boundary between two roundings. The exponent is decimal, as published, although the distance of two
neighbours of the grid is a power of two; docs/measurements/rounding-log.md shows what follows from
that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.replication.published.rounding import MAX_BITS, check_bits, round_to_bits

ULP = 2.0**-23
"""The distance of the binary32 numbers from 1 to 2."""

PIVOT = 0.25

_POWERS = torch.tensor([float(f"1e{power}") for power in range(-323, 309)], dtype=torch.float64)

_SEARCHES = 40
"""Halvings of the search for a threshold: as many as its result has bits that matter."""


def get_grid(bits: int) -> float:
    """Return the distance of two neighbours of a grid from 1 to 2: the published epsilon."""
    return 2.0 ** (MAX_BITS - bits) * ULP


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The threshold of each layer, as a multiple of the decimal exponent.

    Attributes:
        bits: those that are kept, 23 to 32.
        pivot: the published parameter of the threshold of a layer that has none of its own, 0 to
            0.5: at 0.5 it is half the distance of two neighbours from 1 to 2, and it is less by
            2^-23 for each unit below.
        chosen: thresholds of layers by kind and size, as `select` finds them.
    """

    bits: int = MAX_BITS
    pivot: float = PIVOT
    chosen: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_bits(self.bits)
        if not 0 <= self.pivot <= 0.5:
            raise UsageError(f"a pivot of {self.pivot} is not from 0 to 0.5")

    def find(self, layer: str) -> float:
        """Return the threshold of a layer."""
        default = 0.5 * get_grid(self.bits) - (0.5 - self.pivot) * ULP
        return self.chosen.get(layer, default)


def get_decimal_exponent(values: Tensor) -> Tensor:
    """Return 10^floor(log10 |v|) of binary64 values; of zero, the least power there is.

    It is the greatest power of ten, as a binary64 number, that is not above |v|: every machine
    finds the same one, as it would not by way of a logarithm.
    """
    places = torch.bucketize(values.abs(), _POWERS, right=True) - 1
    return _POWERS[places.clamp_(0, len(_POWERS) - 1)]


def is_logged(values: Tensor, rounded: Tensor, threshold: float) -> Tensor:
    """Return where the roundings of binary64 values are logged.

    A value that rounds to an infinity is; an infinity, a NaN and a zero are not.
    """
    return (values - rounded).abs() > threshold * get_decimal_exponent(values)


def note_distances(one: Tensor, other: Tensor, bits: int) -> Tensor:
    """Return both sides' distances, over the decimal exponent, where their roundings differ.

    Args:
        one: a layer's binary64 results on one kind of hardware.
        other: its results from the same inputs on another kind.
        bits: those that are kept.
    """
    roundings = round_to_bits(one, bits), round_to_bits(other, bits)
    differs = roundings[0] != roundings[1]
    sides = zip((one, other), roundings, strict=True)
    noted = [
        ((v - r).abs() / get_decimal_exponent(v))[differs & v.isfinite() & r.isfinite()]
        for v, r in sides
    ]
    return torch.cat(noted)


def select(distances: Iterable[float], bits: int) -> float:
    """Return the largest threshold that every noted distance exceeds, by a binary search.

    It lies from a quarter to half of the distance of two neighbours from 1 to 2.
    """
    noted, grid = tuple(distances), get_grid(bits)
    low, high = 0.25 * grid, 0.5 * grid
    for _ in range(_SEARCHES):
        middle = (low + high) / 2
        if all(distance > middle for distance in noted):
            low = middle
        else:
            high = middle
    return low
