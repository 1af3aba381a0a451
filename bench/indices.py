"""Operators that move elements more than they compute: indices, selection, pooling, resampling."""

from collections.abc import Iterator
from functools import partial

import torch
from torch.nn import functional

from moot.bench.shapes import TINY_INDICES, IndexSizes
from moot.bench.sides import Comparison, Function, draw, make_comparison

GROUP = "indices"

_compare = partial(make_comparison, GROUP)


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the operators, one by one."""
    sizes = TINY_INDICES if is_tiny else IndexSizes()
    generator = torch.Generator().manual_seed(0)
    for make in (_embed, _gather, _select, _add, _choose, _pool, _resize, _rearrange):
        yield from make(sizes, generator)


def _pick(generator: torch.Generator, count: int, *shape: int) -> torch.Tensor:
    """Return indices below `count`."""
    return torch.randint(count, shape, generator=generator)


def _embed(sizes: IndexSizes, generator: torch.Generator) -> Iterator[Comparison]:
    weight = draw(generator, sizes.vocabulary, sizes.width)
    for shape in sizes.tokens:
        tokens = _pick(generator, sizes.vocabulary, *shape)
        yield _compare("embedding", functional.embedding, tokens, weight)


def _gather(sizes: IndexSizes, generator: torch.Generator) -> Iterator[Comparison]:
    for columns, picked in ((sizes.vocabulary, 1), (sizes.rows, sizes.rows)):
        x = draw(generator, sizes.rows, columns)
        index = _pick(generator, columns, sizes.rows, picked)
        yield _compare("gather", lambda x, index: x.gather(1, index), x, index)


def _select(sizes: IndexSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x = draw(generator, sizes.table, sizes.rows)
    rows, columns = (_pick(generator, size, sizes.rows) for size in x.shape)
    yield _compare("index_select of rows", lambda x, i: x.index_select(0, i), x, rows)
    yield _compare("index_select of columns", lambda x, i: x.index_select(1, i), x, columns)
    yield _compare("x[i]", lambda x, i: x[i], x, rows)
    yield _compare("x[i, j]", lambda x, i, j: x[i, j], x, rows, columns)


def _add(sizes: IndexSizes, generator: torch.Generator) -> Iterator[Comparison]:
    for count, size in sizes.scattered:
        x, source = draw(generator, size), draw(generator, count)
        index = _pick(generator, size, count)
        yield _compare("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), x, index, source)
    count, rows, width = sizes.added
    x, source = draw(generator, rows, width), draw(generator, count, width)
    index = _pick(generator, rows, count)
    yield _compare("index_add", lambda x, i, s: x.index_add(0, i, s), x, index, source)


def _choose(sizes: IndexSizes, generator: torch.Generator) -> Iterator[Comparison]:
    for rows in sizes.candidates:
        x = draw(generator, rows, sizes.vocabulary)
        yield _compare(f"{sizes.best} largest", lambda x: x.topk(sizes.best), x)
        yield _compare("argmax", lambda x: x.argmax(-1), x)
    yield _compare("sort", torch.sort, draw(generator, *sizes.sorted))


def _pool(sizes: IndexSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x = draw(generator, *sizes.pooled)
    for window, padding in ((3, 1), (2, 0)):
        name = f"max pooling {window}x{window}/2"
        pool = partial(functional.max_pool2d, kernel_size=window, stride=2, padding=padding)
        values, places = pool(x, return_indices=True)
        yield _compare(name, pool, x)
        yield _compare(f"{name} with indices", partial(pool, return_indices=True), x)
        backward = _pool_backward(window, padding)
        yield _compare(f"{name} gradient", backward, draw(generator, *values.shape), x, places)
    yield _compare("average pooling 2x2/2", lambda x: functional.avg_pool2d(x, 2), x)
    yield _compare(
        "adaptive average pooling to 1x1",
        lambda x: functional.adaptive_avg_pool2d(x, 1),
        draw(generator, *sizes.averaged),
    )


def _pool_backward(window: int, padding: int) -> Function:
    """Return the gradient of max pooling by a stride of 2, as autograd calls it."""
    places = [[size, size] for size in (window, 2, padding, 1)]

    def backward(gradient: torch.Tensor, x: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
            gradient, x, *places, False, found
        )
        return result

    return backward


def _resize(sizes: IndexSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x = draw(generator, *sizes.resized)
    for mode in ("bilinear", "nearest"):
        double = partial(functional.interpolate, scale_factor=2.0, mode=mode)
        gradient = draw(generator, *double(x).shape)
        yield _compare(f"{mode} upsampling", double, x)
        yield _compare(f"{mode} upsampling gradient", _resize_backward(double, x), gradient)


def _resize_backward(resize: Function, x: torch.Tensor) -> Function:
    """Return the gradient of a linear function of one tensor, wherever it is."""

    def backward(gradient: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            leaf = torch.zeros_like(x).requires_grad_()
            (found,) = torch.autograd.grad(resize(leaf), [leaf], gradient)
        return found

    return backward


def _rearrange(sizes: IndexSizes, generator: torch.Generator) -> Iterator[Comparison]:
    x, y = (draw(generator, sizes.rows, sizes.table) for _ in range(2))
    for dim in (0, 1):
        yield _compare(f"cat along {dim}", lambda x, y, dim=dim: torch.cat([x, y], dim), x, y)
    yield _compare("transpose", lambda x: x.mT.contiguous(), x)
    heads = draw(generator, *sizes.heads)
    yield _compare("heads transposed", lambda x: x.transpose(1, 2).contiguous(), heads)
