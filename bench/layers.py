"""Layers that other models have: long attention, recurrence, convolutions in groups, of volumes."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn import functional

from moot.bench.shapes import TINY_LAYERS, GroupedConvolution, LayerSizes
from moot.bench.sides import Comparison, Function, draw, make_comparison

GROUP = "layers"

_compare = partial(make_comparison, GROUP)

_ONE_LAYER = (True, 1, 0.0, False, False, False)
"""With biases, of one layer, without dropout, for inference, in one direction, time first."""

_RECURRENT: dict[str, tuple[int, Callable[..., tuple[torch.Tensor, ...]]]] = {
    "LSTM": (4, lambda x, h, weights: torch.lstm(x, (h, h), weights, *_ONE_LAYER)),
    "GRU": (3, lambda x, h, weights: torch.gru(x, h, weights, *_ONE_LAYER)),
}
"""How many gates a layer has, and the layer."""

_CONVOLUTIONS = (functional.conv1d, functional.conv2d, functional.conv3d)


def list_comparisons(*, is_tiny: bool) -> Iterator[Comparison]:
    """Yield the layers, one by one."""
    sizes = TINY_LAYERS if is_tiny else LayerSizes()
    generator = torch.Generator().manual_seed(0)
    yield from _attention(sizes, generator)
    for shape in sizes.recurrent:
        yield from _recurrence(shape, generator)
    for convolution in sizes.convolutions:
        yield from _convolution(convolution, generator)


def _attention(sizes: LayerSizes, generator: torch.Generator) -> Iterator[Comparison]:
    attend = partial(functional.scaled_dot_product_attention, is_causal=True)
    heads = [draw(generator, *sizes.heads) for _ in range(3)]
    yield _compare("attention", attend, *heads)
    gradient = draw(generator, *sizes.heads)
    yield _compare("attention with gradients", _differentiate(attend), gradient, *heads)


def _recurrence(
    shape: tuple[int, int, int, int], generator: torch.Generator
) -> Iterator[Comparison]:
    steps, samples, inputs, width = shape
    x = draw(generator, steps, samples, inputs)
    hidden = torch.zeros(1, samples, width)
    for name, (gates, layer) in _RECURRENT.items():
        weights = [
            draw(generator, gates * width, *columns) / width**0.5
            for columns in ((inputs,), (width,), (), ())
        ]

        def run(
            x: torch.Tensor,
            hidden: torch.Tensor,
            *weights: torch.Tensor,
            layer: Callable[..., tuple[torch.Tensor, ...]] = layer,
        ) -> torch.Tensor:
            return layer(x, hidden, weights)[0]

        yield _compare(name, run, x, hidden, *weights)
        gradient = draw(generator, steps, samples, width)
        yield _compare(f"{name} with gradients", _differentiate(run), gradient, x, hidden, *weights)


def _convolution(
    convolution: GroupedConvolution, generator: torch.Generator
) -> Iterator[Comparison]:
    c = convolution
    x = draw(generator, 1, c.channels, *c.sides)
    weight = draw(generator, c.filters, c.channels // c.groups, *c.window)
    padding = [size // 2 for size in c.window]
    forward = partial(
        _CONVOLUTIONS[len(c.window) - 1], stride=c.stride, padding=padding, groups=c.groups
    )
    window = "x".join(map(str, c.window))
    name = f"convolution {c.name} {window}/{c.stride}"
    yield _compare(name, forward, x, weight)
    gradient = draw(generator, *forward(x, weight).shape)
    yield _compare(f"{name} with gradients", _differentiate(forward), gradient, x, weight)


def _differentiate(forward: Function) -> Function:
    """Return the function (gradient, *tensors) -> the gradients of the tensors, by autograd."""

    def backward(gradient: torch.Tensor, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in tensors]
            found: tuple[torch.Tensor, ...] = torch.autograd.grad(
                forward(*leaves), leaves, gradient
            )
        return found

    return backward
