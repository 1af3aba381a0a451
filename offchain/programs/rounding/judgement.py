"""The look at single results: which boundary is near, and how near, in terms of a proven bound."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.logged.band import BAND_SHARE, REACH

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

SLACK = 1.06
"""More than what E' may be above E: so much wider, a band is too wide in truth, too. The boundaries
beyond the nearest one are out of reach then: at a power of two they are three quarters of the
larger distance apart, of which a band has a quarter."""


class Boundaries(NamedTuple):
    """The boundaries that are nearest to some results, and what a bound says of them.

    Attributes:
        nearest: (P,) float32: the results, rounded.
        low: (P,) float32, and
        high: (P,) float32: the numbers on both sides of the nearest boundary.
        distance: (P,) how far the results are from the boundary; 0 where only the exact value
            tells the rounded one, infinite where nothing is in doubt.
        error: (P,) E', the bound.
        has_band: (P,) whether the boundary has a band, for certain.
        lacks_band: (P,) whether no boundary that the result may be near has one, for certain.
    """

    nearest: Floats
    low: Floats
    high: Floats
    distance: Doubles
    error: Doubles
    has_band: Flags
    lacks_band: Flags

    def is_within(self, reach: float) -> Flags:
        """Whether each boundary is nearer than so many times the bound."""
        return np.asarray(self.distance <= reach * self.error)

    def turn(self, ups: Flags) -> Floats:
        """Return the numbers beside the boundaries, the upper ones where it says so."""
        return np.where(ups, self.high, self.low)


class Judgement(NamedTuple):
    """What binary64 says of some elements of an operator, and what can be asked besides.

    Attributes:
        elements: (P,) their linear indices, ascending.
        boundaries: what is near.
        settle: (some of the elements, as places in P) -> their correctly rounded values.
        obey: (such places, whether their entries go up) -> the entries' effects by definition, and
            which of them have any.
    """

    elements: Integers
    boundaries: Boundaries
    settle: Callable[[Integers], Floats]
    obey: Callable[[Integers, Flags], tuple[Floats, Flags]]


def find_boundaries(
    results: Doubles, error: Doubles, exact: Flags, slack: float = SLACK
) -> Boundaries:
    """Return the boundaries near some results.

    Args:
        results: (P,) in binary64.
        error: (P,) their bounds, E'.
        exact: (P,) where they are what is to be rounded, or its rounding.
        slack: by how much at most E' is above E.
    """
    nearest = results.astype(np.float32)
    ends = np.where(results < nearest, np.float32(-np.inf), np.float32(np.inf))
    other = np.nextafter(nearest, ends)
    low, high = np.minimum(nearest, other), np.maximum(nearest, other)
    middle = (low.astype(np.float64) + high.astype(np.float64)) / 2
    is_plain = np.isfinite(middle) & (low != 0) & (high != 0)
    gap = high.astype(np.float64) - low.astype(np.float64)
    distance = np.abs(results - middle)
    is_settled = ~np.isfinite(results) | exact
    # Beyond the largest number the boundary is no middle of two: let the exact value decide.
    largest = np.float64(np.finfo(np.float32).max)
    unknown = (np.abs(results) >= largest) & ~is_settled
    distance[is_settled], distance[unknown] = np.inf, 0
    is_plain &= ~unknown
    has_band = is_plain & (REACH * error * BAND_SHARE <= gap)
    lacks_band = ~is_plain | (REACH * error * BAND_SHARE > slack * gap)
    nearest[np.isnan(nearest)] = np.float32(np.nan)
    error = np.where(is_settled, 0, error)
    return Boundaries(nearest, low, high, distance, error, has_band, lacks_band)
