"""Maps element by element, whole reductions, and operators that are hardly more than a call."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn import functional

from moot.bench.shapes import TINY_POINTWISE, PointwiseSizes
from moot.bench.sides import Comparison, draw, make_comparison

GROUP = "pointwise"

_compare = partial(make_comparison, GROUP)

_MAPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "SiLU": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "exp": torch.exp,
}

_MAPS_OF_POSITIVE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rsqrt": torch.rsqrt,
    "x ** 3": lambda x: x**3,
    "x ** 2.5": lambda x: x**2.5,
}


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the operators, one by one."""
    sizes = TINY_POINTWISE if is_tiny else PointwiseSizes()
    generator = torch.Generator().manual_seed(0)
    for make in (_small, _maps, _broadcasts, _softmax, _reductions, _products):
        yield from make(sizes, generator)


def _small(sizes: PointwiseSizes, generator: torch.Generator) -> Iterator[Comparison]:
    for shape in sizes.small:
        yield _compare("add", torch.add, draw(generator, *shape), draw(generator, *shape))


def _maps(sizes: PointwiseSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x = draw(generator, sizes.rows, sizes.columns)
    for name, function in _MAPS.items():
        yield _compare(name, function, x)
    for name, function in _MAPS_OF_POSITIVE.items():
        yield _compare(name, function, x.abs() + 0.1)


def _broadcasts(sizes: PointwiseSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x = draw(generator, sizes.rows, sizes.columns)
    row, column = draw(generator, sizes.columns), draw(generator, sizes.rows, 1)
    yield _compare("add", torch.add, x, row)
    yield _compare("multiply", torch.mul, x, column)


def _softmax(sizes: PointwiseSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x = draw(generator, *sizes.scores)
    yield _compare("softmax", lambda x: torch.softmax(x, -1), x)


def _reductions(sizes: PointwiseSizes, generator: torch.Generator) -> Iterator[Comparison]:
    for length in sizes.long:
        x = draw(generator, length)
        yield _compare("sum", torch.sum, x)
        yield _compare("max", torch.amax, x)
    x = draw(generator, sizes.rows, sizes.columns)
    for axis in (0, 1):
        yield _compare(f"mean over axis {axis}", lambda x, axis=axis: x.mean(axis), x)


def _products(sizes: PointwiseSizes, generator: torch.Generator) -> Iterator[Comparison]:
    length = sizes.long[0]
    yield _compare("dot product", torch.dot, draw(generator, length), draw(generator, length))
    for rows, columns in sizes.matrices:
        matrix, vector = draw(generator, rows, columns), draw(generator, columns)
        yield _compare("matrix times vector", torch.mv, matrix, vector)
        yield _compare("vector times matrix", lambda m, v: v @ m, matrix, draw(generator, rows))
