"""Families of factors, terms and initial terms whose sums are hard to round, or to bound."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape, Shape], tuple[Floats, Floats]]
"""(generator, (M, K), (N, K)) -> the rows of both factors of M x N sums of K products."""


def _ordinary(rng: np.random.Generator, *shapes: Shape) -> tuple[Floats, Floats]:
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return a, b


def _wide(rng: np.random.Generator, *shapes: Shape) -> tuple[Floats, Floats]:
    """Exponents from one end to the other: most terms are far below the last place of the sum."""
    reach = rng.choice([8, 20, 40, 60])
    a, b = (
        (rng.standard_normal(shape) * 2.0 ** rng.integers(-reach, reach, shape)).astype(np.float32)
        for shape in shapes
    )
    return a, b


def _cancelling(rng: np.random.Generator, *shapes: Shape) -> tuple[Floats, Floats]:
    """Products that cancel in pairs, all but a few: sums are far below their terms."""
    a, b = _wide(rng, *shapes) if rng.random() < 0.5 else _ordinary(rng, *shapes)
    half = a.shape[1] // 2
    order = rng.permutation(half)
    a[:, half : 2 * half], b[:, half : 2 * half] = -a[:, :half][:, order], b[:, :half][:, order]
    rest = rng.random(a.shape) < 0.02
    a[rest] = (a[rest] * (1 + 2.0**-20)).astype(np.float32)
    return a, b


def _subnormal(rng: np.random.Generator, *shapes: Shape) -> tuple[Floats, Floats]:
    """Subnormal numbers times numbers around 1, or products that are subnormal themselves."""
    low, high = ((-149, 0), (-90, -60))[rng.integers(2)]
    a = rng.integers(-(2**12), 2**12, shapes[0]) * 2.0**low
    b = rng.standard_normal(shapes[1]) * 2.0**high
    return a.astype(np.float32), b.astype(np.float32)


def _half_way(rng: np.random.Generator, *shapes: Shape) -> tuple[Floats, Floats]:
    """Sums a little above, below, or right at the middle of two neighbours, at any scale."""
    (m, k), (n, _) = shapes
    whole = rng.integers(2**23, 2**24, m) * rng.choice([-1, 1], m)
    a = np.zeros((m, k))
    a[:, 0] = whole
    if k > 1:
        a[:, 1] = rng.choice([-0.5, 0.5], m)
    for place in range(2, k):
        tiny = 2.0 ** rng.integers(-60, -18, m) * rng.integers(-1, 2, m)
        a[:, place] = tiny if place % 2 else rng.choice([0.0, 1.0], m) * tiny
    order = rng.permutation(k)
    b = np.ones((n, k)) * 2.0 ** rng.integers(-60, 60, (n, 1)) * rng.choice([-1, 1], (n, 1))
    return a[:, order].astype(np.float32), b.astype(np.float32)


def _small_integers(rng: np.random.Generator, *shapes: Shape) -> tuple[Floats, Floats]:
    """Ties, exact zeros, and zeros of either sign."""
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes)
    scale = np.float32(2.0 ** rng.choice([0, 12, 24]))
    a[rng.random(a.shape) < 0.2] *= scale
    a[(a == 0) & (rng.random(a.shape) < 0.5)] = -0.0
    return a, b


def _large(rng: np.random.Generator, *shapes: Shape) -> tuple[Floats, Floats]:
    """Sums near the largest number, above it, and above it on the way only."""
    a, b = (rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape) for shape in shapes)
    return (a * 2.0**66).astype(np.float32), (b * 2.0**60).astype(np.float32)


def _no_numbers(rng: np.random.Generator, *shapes: Shape) -> tuple[Floats, Floats]:
    """Infinities, NaN and the zeros that meet them, now and then."""
    a, b = _small_integers(rng, *shapes)
    rare = rng.random(a.shape) < 0.2 / a.shape[1]
    a[rare] = rng.choice(np.array([np.inf, -np.inf, np.nan], np.float32), a.shape)[rare]
    return a, b


FAMILIES: Mapping[str, tuple[float, Draw]] = {
    "ordinary": (0.26, _ordinary),
    "wide exponents": (0.32, _wide),
    "cancellation": (0.03, _cancelling),
    "subnormal": (0.15, _subnormal),
    "half way": (0.04, _half_way),
    "small integers": (0.08, _small_integers),
    "large": (0.09, _large),
    "no numbers": (0.03, _no_numbers),
}
"""The share of each family among the samples, and how its factors are drawn."""


def draw_init(rng: np.random.Generator, sums: npt.NDArray[np.float64]) -> Floats:
    """Return initial terms: +0, -0, ordinary ones, or ones that cancel these sums."""
    kind = rng.integers(5)
    if kind < 2:
        return np.zeros(sums.shape, np.float32)
    if kind == 2:
        return np.full(sums.shape, -0.0, np.float32)
    if kind == 3:
        return rng.standard_normal(sums.shape).astype(np.float32)
    with np.errstate(all="ignore"):
        return (-sums * rng.choice([1, 1 + 2.0**-22, 2.0**-30], sums.shape)).astype(np.float32)
