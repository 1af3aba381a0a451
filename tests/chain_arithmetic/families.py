"""The modules of unary functions, and the operands at which each function changes its method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

from moot.contracts.port import load
from moot.offchain.arithmetic.functions import Function
from tests.chain_arithmetic.subjects import PLACES
from tests.sweeps.oracle import round_exactly


@dataclass(frozen=True, slots=True)
class Family:
    """The facts about a module's functions that tests need.

    `edges` are numbers at which it takes another way or comes to a limit; a call costs less than
    `most_gas`, the call from outside included.
    """

    edges: Sequence[float]
    most_gas: int


_EXPONENTIAL = [150, 149, 128, 127, 126, 104, 103.97, 103.28, 90, 89.416, 89, 88.72, 87.34, 18]
_EXPONENTIAL += [17.33, 16.64, 10, 9.01, *(n * log(2) for n in (0.5, 1, 2, 3, 24, 127, 128))]
"""Where results reach a limit or become subnormal, and where the reduction takes another step."""

_LOGARITHM = [53 / 128, 75 / 256, 0.5, 1, 2, 3, 181 / 128, 181 / 256, sqrt(2), sqrt(0.5)]
_LOGARITHM += [1 - sqrt(0.5)]
_LOGARITHM += [2.0**n * factor for n in range(-149, 128, 12) for factor in (1, 1.25, 1.5)]
"""Where the reduction takes another step, and numbers of every size."""

_CIRCULAR = (0.5, 0.7853982, 1.5707964, 2.3561945, 3.1415927, 4.712389, 6.2831855, 2.0**104)
"""Where reduction begins, multiples of an eighth of a turn, and a large power of two."""

_ERROR = (0.5, 1.0, 2.0, 3.919206, 4.0, 8.0, 9.1945496, 9.9996805, 10.054195, 11.0)
"""Where the method changes, erf becomes 1, and erfc subnormal, the least number and 0."""

FAMILIES: Mapping[str, Family] = {
    "exponential": Family(_EXPONENTIAL, 4_000),
    "logarithm": Family(_LOGARITHM, 8_000),
    "circular": Family(_CIRCULAR, 4_000),
    "error": Family(_ERROR, 8_000),
}
"""By the name of the module."""


def get_functions(module: str) -> dict[str, Function]:
    """Return a module's functions by their names there."""
    return {name: function for function, (place, name) in PLACES.items() if place == module}


def is_right(function: Function, x: int) -> bool:
    """Return whether the port's result is MPFR's."""
    module, name = PLACES[function]
    return bool(getattr(load(module), name)(x) == round_exactly(function, x))
