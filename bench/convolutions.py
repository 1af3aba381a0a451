"""ResNet-50's convolutions, forward and both gradients, against eager torch (oneDNN).

The stem has no gradient of its input: no training computes it.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch.nn import functional

from moot.bench.shapes import BATCHES, CONVOLUTIONS, TINY_CONVOLUTIONS, Convolution
from moot.bench.sides import Comparison, Function, Tensors, draw, make_ours

GROUP = "convolution"


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield every convolution in every direction, for every size of the batch."""
    generator = torch.Generator().manual_seed(0)
    for batch in BATCHES:
        for convolution in TINY_CONVOLUTIONS if is_tiny else CONVOLUTIONS:
            yield from _list_directions(convolution, batch, generator)


def _list_directions(
    convolution: Convolution, batch: int, generator: torch.Generator
) -> Iterator[Comparison]:
    x = draw(generator, batch, convolution.channels, convolution.side, convolution.side)
    window = (convolution.window, convolution.window)
    weight = draw(generator, convolution.filters, convolution.channels, *window)
    forward = partial(functional.conv2d, stride=convolution.stride, padding=convolution.padding)
    gradient = draw(generator, *forward(x, weight).shape)
    yield _make(convolution, "forward", forward, (x, weight))
    if convolution.has_input_gradient:
        yield _make(convolution, "input gradient", _backward(convolution, 0), (gradient, x, weight))
    yield _make(convolution, "weight gradient", _backward(convolution, 1), (gradient, x, weight))


def _backward(convolution: Convolution, wanted: int) -> Function:
    """Return one gradient: that of the input (0) or of the weight (1), as autograd calls it."""
    mask = [place == wanted for place in range(3)]
    sizes = [[size, size] for size in (convolution.stride, convolution.padding, 1)]

    def backward(gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        found = torch.ops.aten.convolution_backward(
            gradient, x, weight, None, *sizes, False, [0, 0], 1, mask
        )
        result: torch.Tensor = found[wanted]
        return result

    return backward


def _make(
    convolution: Convolution, direction: str, function: Function, tensors: Tensors
) -> Comparison:
    c = convolution
    name = f"{c.window}x{c.window}/{c.stride} {c.channels}->{c.filters} {direction}"
    batch = tensors[1].shape[0] if len(tensors) == 3 else tensors[0].shape[0]
    shape = f"{batch} x {c.channels} x {c.side} x {c.side}"
    return Comparison(GROUP, name, shape, make_ours(function, tensors), lambda: function(*tensors))
