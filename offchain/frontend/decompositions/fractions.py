"""Fractional max pooling: windows of one size at places that a random number spreads."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor


def _find_starts(draws: Tensor, size: int, count: int, width: int) -> Tensor:
    """Return where windows begin along an axis, INT64 (..., count), as torch spreads them.

    Args:
        draws: float32 (...), uniform numbers.
        size: elements of the axis.
        count: windows.
        width: elements of a window.
    """
    last = torch.full((*draws.shape, 1), size - width)
    if count == 1:
        return last
    step = torch.tensor(float(size - width)) / float(count - 1)
    offset = (draws * step).long()[..., None]
    places = ((torch.arange(count - 1).float() + draws[..., None]) * step).long() - offset
    return torch.cat([places, last], -1)


def _pool(
    x: Tensor, kernel: Sequence[int], output: Sequence[int], draws: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its place in its plane."""
    rank = len(output)
    planes = x[None] if x.ndim == rank + 1 else x
    sizes = planes.shape[2:]
    flat = torch.zeros((), dtype=torch.int64)
    for axis, (size, count, width) in enumerate(zip(sizes, output, kernel, strict=True)):
        starts = _find_starts(draws[axis], size, count, width)
        places = starts[..., None] + torch.arange(width)
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = count, width
        flat = flat * size + places.reshape(*draws[axis].shape, *shape)
    windows = flat.reshape(*planes.shape[:2], prod(output), prod(kernel))
    lines = planes.reshape(*planes.shape[:2], prod(sizes))
    with torch.no_grad():
        found = lines.gather(2, windows.flatten(2)).reshape(windows.shape)
        index = windows.gather(3, found.argmax(3, keepdim=True))[..., 0]
    shape = [*x.shape[:-rank], *output]
    return lines.gather(2, index).reshape(shape), index.reshape(shape)


def pool_2d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """Return an image's fractional maxima; torch draws the place along the last axis first."""
    across, down = random_samples.unbind(-1)
    return _pool(x, kernel_size, output_size, (down, across))


def pool_3d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """Return a volume's fractional maxima."""
    return _pool(x, kernel_size, output_size, random_samples.unbind(-1))


FRACTIONS: Mapping[str, Callable[..., Any]] = {
    "aten.fractional_max_pool2d.default": pool_2d,
    "aten.fractional_max_pool3d.default": pool_3d,
}
"""ATen overload -> composition that autograd sees."""
