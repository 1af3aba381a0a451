"""Random convolutions, and the gradients of their inputs: windows over images of any geometry."""

from math import prod
from random import Random
from typing import NamedTuple

from moot.offchain.programs.graph import Row

Rows = tuple[Row, ...]


class Windows(NamedTuple):
    """A convolution as a contraction.

    Attributes:
        shape: of the output: images, channels, and one to three dimensions.
        fold_shape: of the fold: the image's channels and the kernel's dimensions.
        image: the rows of the image, which coordinates may leave.
        kernel: the rows of the kernel.
        bias: the rows of a start value for each channel.
    """

    shape: tuple[int, ...]
    fold_shape: tuple[int, ...]
    image: Rows
    kernel: Rows
    bias: Rows


def draw_windows(rng: Random, most_work: int) -> Windows:
    """Return a convolution of at most so many terms, or the gradient of an input, with any stride.

    Strides wider than the kernel leave elements without terms, and so do wide borders.
    """
    while True:
        rank = rng.choice((1, 1, 2, 2, 3))
        outer = [rng.choice((1, 2, 3, 4, 5, 7)) for _ in range(rank)]
        inner = [rng.choice((1, 1, 2, 3)) for _ in range(rank)]
        channels, depth = rng.choice((1, 2, 4, 17)), rng.choice((1, 1, 2, 3))
        shape, fold_shape = (rng.choice((1, 1, 2)), channels, *outer), (depth, *inner)
        if prod(shape) * prod(fold_shape) <= most_work:
            break
    is_gradient, is_deep = rng.random() < 0.6, rng.random() < 0.3
    folded = len(shape)
    image = [Row(shape[0], 0, ((0, 1),)), Row(depth, 0, ((folded, 1),))]
    kernel = [Row(channels, 0, ((1, 1),)), Row(depth, 0, ((folded, 1),))]
    if is_deep:  # each channel has a kernel and an image of its own
        image.insert(1, Row(channels, 0, ((1, 1),)))
    for place, (out, reach) in enumerate(zip(outer, inner, strict=True)):
        stride, step, padding = (rng.choice(some) for some in ((1, 2, 3), (1, 1, 2), (0, 0, 1, 2)))
        last = ((out - 1) + padding) // stride if is_gradient else stride * (out - 1)
        size = max(1, last + 1 + rng.randint(-2, 2) + (0 if is_gradient else step * (reach - 1)))
        into, over = 2 + place, folded + 1 + place
        image.append(
            Row(size, padding, ((into, 1), (over, -step)), stride)
            if is_gradient
            else Row(size, -padding, ((into, stride), (over, step)))
        )
        kernel.append(Row(reach, 0, ((over, 1),)))
    return Windows(shape, fold_shape, tuple(image), tuple(kernel), (Row(channels, 0, ((1, 1),)),))
