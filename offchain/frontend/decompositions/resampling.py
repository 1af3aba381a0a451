"""Images sampled at the points of a grid, and resized with antialiasing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
"""torch's numbers of interpolations and of what lies outside of an image."""

GRID_SLOPE, RESIZING_SLOPE = -0.75, -0.5
"""The cubic kernel's slope at 1 in torch, for grids and for antialiasing."""


def _unnormalize(x: Tensor, size: int, *, align: bool) -> Tensor:
    """Return positions in pixels of coordinates in [-1, 1]."""
    return (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2


def _reflect(x: Tensor, size: int, *, align: bool) -> Tensor:
    """Return positions reflected at the image's borders until they are inside."""
    low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
    if not span:
        return torch.zeros_like(x)
    distance = (x - low).abs()
    rest = distance.fmod(span)
    is_even = (distance / span).floor().fmod(2) == 0
    return torch.where(is_even, rest + low, span - rest + low)


def _bring_inside(x: Tensor, size: int, padding: int, *, align: bool) -> Tensor:
    """Return positions inside of the image; those at its border have no gradient, as in torch."""
    if padding == ZEROS:
        return x
    if padding == REFLECTION:
        x = _reflect(x, size, align=align)
    is_inside = (x > 0) & (x < size - 1)
    return torch.where(is_inside, x, x.detach().clamp(0, size - 1))


def _take(image: Tensor, places: Sequence[Tensor]) -> Tensor:
    """Return (N, C, ...) pixels at whole positions, (N, ...) for each axis; 0 outside."""
    sizes = image.shape[2:]
    is_inside, flat = torch.ones((), dtype=torch.bool), torch.zeros((), dtype=torch.int64)
    for place, size in zip(places, sizes, strict=True):
        is_inside = is_inside & (place >= 0) & (place <= size - 1)
        flat = flat * size + place.clamp(0, size - 1).long()
    lines = image.reshape(*image.shape[:2], prod(sizes))
    index = flat.reshape(flat.shape[0], 1, -1).expand(-1, image.shape[1], -1)
    pixels = lines.gather(2, index).reshape(*image.shape[:2], *flat.shape[1:])
    return torch.where(is_inside[:, None], pixels, 0)


def _corners(position: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield both neighbours of a position, with their weights."""
    floor = position.floor().detach()
    yield floor, floor + 1 - position
    yield floor + 1, position - floor


def _cubic_corners(position: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield four neighbours of a position, with their weights."""
    floor = position.floor().detach()
    t = position - floor
    for offset in (-1, 0, 1, 2):
        yield floor + offset, _weigh_cubic((t - offset).abs(), offset in (0, 1))


def _weigh_cubic(distance: Tensor, is_near: bool) -> Tensor:  # noqa: FBT001 - one of two pieces
    a = GRID_SLOPE
    if is_near:
        return ((a + 2) * distance - (a + 3)) * distance * distance + 1
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a


def grid_sampler(
    image: Tensor,
    grid: Tensor,
    mode: int,
    padding: int,
    align_corners: bool,  # noqa: FBT001
) -> Tensor:
    """Return an image's values at the points of a grid.

    Args:
        image: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, ..., 2 or 3), coordinates in [-1, 1] of the last axis first.
        mode: LINEAR, NEAREST or CUBIC.
        padding: ZEROS, BORDER or REFLECTION.
        align_corners: whether -1 and 1 are the centres of the outermost pixels, or their edges.
    """
    sizes = image.shape[2:]
    positions = [
        _unnormalize(grid[..., len(sizes) - 1 - d], size, align=align_corners)
        for d, size in enumerate(sizes)
    ]
    if mode == CUBIC:
        return _blend_cubic(image, positions, padding, align=align_corners)
    positions = [
        _bring_inside(x, size, padding, align=align_corners)
        for x, size in zip(positions, sizes, strict=True)
    ]
    if mode == NEAREST:
        pixels = _take(image, [x.round() for x in positions])
        return pixels * _reach(grid[..., 0])[:, None]
    return _blend(image, [list(_corners(x)) for x in positions])


def _reach(x: Tensor) -> Tensor:
    """Return ones that depend on x, with a gradient of 0, as torch has them."""
    is_one = torch.ones_like(x, dtype=torch.bool)
    return torch.where(is_one, 1.0, x)


def _blend_cubic(
    image: Tensor, positions: Sequence[Tensor], padding: int, *, align: bool
) -> Tensor:
    """Return cubic sums; each neighbour is brought inside by itself."""
    corners = []
    for x, size in zip(positions, image.shape[2:], strict=True):
        pairs = [
            (_bring_inside(place, size, padding, align=align), w) for place, w in _cubic_corners(x)
        ]
        corners.append(pairs)
    return _blend(image, corners)


def _blend(image: Tensor, corners: Sequence[Sequence[tuple[Tensor, Tensor]]]) -> Tensor:
    """Return the sum over all combinations of neighbours, each weighed by its axes' weights."""
    total = None
    for combination in product(*corners):
        weight = torch.ones(())
        for _, factor in combination:
            weight = weight * factor
        part = _take(image, [place for place, _ in combination]) * weight[:, None]
        total = part if total is None else total + part
    assert total is not None
    return total


def _filter_linear(x: float) -> float:
    return max(1 - abs(x), 0.0)


def _filter_cubic(x: float) -> float:
    a, x = RESIZING_SLOPE, abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def _make_weights(
    inputs: int, outputs: int, scale: float, radius: int, kernel: Callable[[float], float]
) -> list[list[float]]:
    """Return (outputs, inputs): how much each input counts, 1 in all for each output."""
    stretch = max(scale, 1.0)
    rows = []
    for o in range(outputs):
        center = scale * (o + 0.5)
        first = max(int(center - radius * stretch + 0.5), 0)
        last = min(int(center + radius * stretch + 0.5), inputs)
        row = [0.0] * inputs
        for i in range(first, last):
            row[i] = kernel((i - center + 0.5) / stretch)
        total = sum(row) or 1.0
        rows.append([weight / total for weight in row])
    return rows


def _resize(radius: int, kernel: Callable[[float], float]) -> Callable[..., Tensor]:
    def resize(
        image: Tensor,
        size: Sequence[int],
        align_corners: bool,  # noqa: FBT001 - ATen's signature
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:
        result = image
        for axis, given in ((-2, scales_h), (-1, scales_w)):
            inputs, outputs = image.shape[axis], size[axis]
            scale = 1 / given if given else inputs / outputs
            if align_corners:
                scale = (inputs - 1) / (outputs - 1) if outputs > 1 else 0.0
            weights = torch.tensor(_make_weights(inputs, outputs, scale, radius, kernel))
            result = result @ weights.T if axis == -1 else weights @ result
        return result

    return resize


RESAMPLING: Mapping[str, Callable[..., Any]] = {
    "aten.grid_sampler_2d.default": grid_sampler,
    "aten.grid_sampler_3d.default": grid_sampler,
    "aten._upsample_bilinear2d_aa.default": _resize(1, _filter_linear),
    "aten._upsample_bicubic2d_aa.default": _resize(2, _filter_cubic),
}
"""ATen overload -> composition that autograd sees."""
