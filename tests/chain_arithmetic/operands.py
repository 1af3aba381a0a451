"""Operands for volume tests of the transcendental functions: random ones, and the hard ones."""

import math
from itertools import product

import numpy as np
import numpy.typing as npt

from moot.offchain.arithmetic.functions import Function
from moot.offchain.native.transcendental.constants import EXCEPTIONS
from tests.chain_arithmetic.rounding import SPECIALS, get_hardest

Vectors = npt.NDArray[np.uint32]
"""Operands as bit patterns: shape (count, operands of the function)."""

_SIGN = np.uint32(1 << 31)
_STEPS = np.arange(-3, 4)
_LARGEST_RESULT = 150.0
"""The logarithm to base 2 beyond which a power is infinite or zero."""


def get_known_operands(function: Function) -> Vectors:
    """Return specials, the hardest operands, the kernels' exceptions, and structured numbers.

    For pow they are all pairs of specials, and powers that are half way or exact.
    """
    if function is Function.POW:
        return np.concatenate([_pairs(SPECIALS, SPECIALS), _get_exact_powers()])
    hard = [*get_hardest(function), *EXCEPTIONS.get(function, {})]
    units = [math.pi / 4, math.log(2) / 2, 0.5, 1.0]
    near = [float(count * unit) for unit in units for count in range(1, 400)]
    near += [2.0**exponent for exponent in range(-149, 128)]
    found = np.concatenate([np.array([*SPECIALS, *hard], np.uint32), _patterns(np.array(near))])
    around = (found.astype(np.int64)[:, None] + _STEPS).ravel() & 0xFFFFFFFF
    both = np.concatenate([around, around ^ int(_SIGN)])
    return np.unique(both).astype(np.uint32)[:, None]


def draw_operands(function: Function, rng: np.random.Generator, count: int) -> Vectors:
    """Draw a third of any patterns, a third of moderate size, and a third structured.

    The structured ones are next to multiples of pi / 4, log(2) / 2 and 1 / 2, and to powers of
    two. For pow, three quarters of the pairs have a power that is neither infinite nor zero.
    """
    if function is Function.POW:
        return _draw_powers(rng, count)
    return _draw_numbers(rng, count)[:, None]


def _patterns(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    return numbers.astype(np.float32).view(np.uint32)


def _pairs(first: list[int], second: list[int]) -> Vectors:
    return np.array(list(product(first, second)), np.uint32)


def _draw_numbers(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint32]:
    part = count // 3 + 1
    anywhere = rng.integers(0, 1 << 32, part, np.uint32)
    moderate = _patterns(2.0 ** rng.uniform(-30, 8, part))
    unit = rng.choice([math.pi / 4, math.log(2) / 2, 0.5], part)
    multiples = np.rint(2.0 ** rng.uniform(0, 30, part)) * unit
    powers = 2.0 ** rng.integers(-149, 128, part)
    structured = _patterns(np.where(rng.random(part) < 0.7, multiples, powers))
    structured = (structured.astype(np.int64) + rng.integers(-4, 5, part)).astype(np.uint32)
    sized = np.concatenate([moderate, structured])
    sized ^= rng.choice(np.array([0, _SIGN], np.uint32), sized.size)
    return np.concatenate([anywhere, sized])[:count]


def _draw_powers(rng: np.random.Generator, count: int) -> Vectors:
    """Draw pairs: any; bases of any size, and next to 1; and short bases to short exponents."""
    part = count // 4 + 1
    anywhere = rng.integers(0, 1 << 32, (part, 2), np.uint32)
    bases = rng.integers(1, 0x7F800000, part, np.uint32)
    next_to_one = (0x3F800000 + rng.integers(-(1 << 20), 1 << 20, part)).astype(np.uint32)
    short = _patterns(rng.integers(1, 1 << 12, part) * 2.0 ** rng.integers(-12, 13, part))
    halves = _patterns(rng.integers(-60, 61, part) / 2.0 ** rng.integers(0, 5, part))
    sized = [np.stack([each, _draw_exponents(rng, each)], 1) for each in (bases, next_to_one)]
    exact = np.stack([short ^ rng.choice(np.array([0, _SIGN], np.uint32), part), halves], 1)
    return np.concatenate([anywhere, *sized, exact])[:count]


def _draw_exponents(
    rng: np.random.Generator, bases: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """Draw exponents that give results of any size."""
    logarithms = np.log2(bases.view(np.float32).astype(np.float64))
    logarithms[logarithms == 0] = 1.0
    sizes = rng.uniform(-_LARGEST_RESULT, _LARGEST_RESULT, bases.size)
    return _patterns(np.clip(sizes / logarithms, -3e38, 3e38))


def _get_exact_powers() -> Vectors:
    """Return powers of small odd numbers and of their squares, and of powers of two."""
    found = []
    for odd, scale in product([*range(1, 66, 2), 289, 4095, 4097, 5793, 6561], range(-6, 7)):
        for exponent in (-3, -2, -1, -0.5, 0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 7, 10, 15, 16):
            found += [(odd * 2.0**scale, exponent), (odd**2 * 4.0**scale, exponent)]
    return _patterns(np.array(found))
