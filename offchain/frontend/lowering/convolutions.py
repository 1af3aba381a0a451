"""Rules of convolutions of any rank (groups, stride, padding, dilation) and of their gradients.

Three contractions say it all, for x (N, C, ...), w (O, C / G, ...) and y (N, O, ...), where place p
and kernel position k of y and w meet place i = p * stride - padding + k * dilation of x:

    y from x and w   y[n, o, p] = fold over c, k of x[n, c, i] w[o, c, k]
    x from y and w   x[n, c, i] = fold over o, k of y[n, o, p] w[o, c, k]
    w from x and y   w[o, c, k] = fold over n, p of y[n, o, p] x[n, c, i]

Out of range, x and y read +0. A transposed convolution is the second; its gradients are the others.
"""

# ruff: noqa: FBT001 - rules have the signatures of ATen's operators

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moot.offchain.arithmetic.functions import Function
from moot.offchain.frontend.lowering.builder import Builder, Rule
from moot.offchain.frontend.lowering.contractions import emit_contract
from moot.offchain.frontend.lowering.reductions import fold
from moot.offchain.frontend.lowering.views import View, along
from moot.offchain.programs.graph import Row


@dataclass(frozen=True, slots=True)
class Geometry:
    """Stride, padding and dilation of each spatial dimension, and the number of groups."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def lead(self) -> int:
        """Dimensions before the spatial ones: sample, group if there are several, channel."""
        return 2 if self.groups == 1 else 3

    def shape(self, samples: int, channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of an operator over (samples, channels, ...)."""
        return (samples, *self.split(channels), *spatial)

    def split(self, channels: int) -> tuple[int, ...]:
        """Return the channels as (groups, channels of a group) where there are several groups."""
        groups = self.groups
        return (channels,) if groups == 1 else (groups, channels // groups)

    def channel(self, size: int, variable: int) -> Row:
        """Return the coordinate of a channel: `variable` counts inside the group of variable 1."""
        terms = {variable: 1}
        if self.groups > 1:
            terms[1] = size // self.groups
        return Row(size, 0, tuple(sorted(terms.items())))

    def window(self, sizes: Sequence[int], places: int, kernel: int) -> list[Row]:
        """Return the input coordinates of kernel positions at output places (first variables)."""
        return [
            _row(size, -p, {places + i: s, kernel + i: d})
            for i, (size, s, p, d) in enumerate(
                zip(sizes, self.stride, self.padding, self.dilation, strict=True)
            )
        ]

    def inverse(self, sizes: Sequence[int], places: int, kernel: int) -> list[Row]:
        """Return the output coordinates whose windows see input places at kernel positions."""
        return [
            _row(size, p, {places + i: 1, kernel + i: -d}, s)
            for i, (size, s, p, d) in enumerate(
                zip(sizes, self.stride, self.padding, self.dilation, strict=True)
            )
        ]


def _row(size: int, offset: int, terms: Mapping[int, int], divisor: int = 1) -> Row:
    return Row(size, offset, tuple(sorted(terms.items())), divisor)


def _forward(
    b: Builder, x: View, w: View, bias: View | None, spatial: Sequence[int], g: Geometry, part: str
) -> View:
    samples, channels, *sizes = x.shape
    outputs, group_channels, *kernel = w.shape
    shape = g.shape(samples, outputs, spatial)
    rank, places = len(shape), g.lead
    output = g.channel(outputs, places - 1)
    x_rows = [
        along(0, samples),
        g.channel(channels, rank),
        *g.window(sizes, places, rank + 1),
    ]
    w_rows = [output, along(rank, group_channels)]
    w_rows += [along(rank + 1 + i, size) for i, size in enumerate(kernel)]
    fold_shape = (group_channels, *kernel)
    start = None if bias is None else (bias, [output])
    result = emit_contract(b, shape, fold_shape, (x, x_rows), (w, w_rows), start, part)
    return b.reshape(result, (samples, outputs, *spatial))


def _to_input(
    b: Builder, y: View, w: View, bias: View | None, spatial: Sequence[int], g: Geometry, part: str
) -> View:
    samples, outputs, *sizes = y.shape
    _, group_channels, *kernel = w.shape
    channels = group_channels * g.groups
    shape = g.shape(samples, channels, spatial)
    rank, places = len(shape), g.lead
    output = g.channel(outputs, rank)
    y_rows = [along(0, samples), output, *g.inverse(sizes, places, rank + 1)]
    w_rows = [output, along(places - 1, group_channels)]
    w_rows += [along(rank + 1 + i, size) for i, size in enumerate(kernel)]
    fold_shape = (outputs // g.groups, *kernel)
    start = None if bias is None else (bias, [g.channel(channels, places - 1)])
    result = emit_contract(b, shape, fold_shape, (y, y_rows), (w, w_rows), start, part)
    return b.reshape(result, (samples, channels, *spatial))


def _to_weight(
    b: Builder, y: View, x: View, w_shape: Sequence[int], g: Geometry, part: str
) -> View:
    samples, outputs, *spatial = y.shape
    _, channels, *sizes = x.shape
    _, group_channels, *kernel = w_shape
    # A leading dimension of one element keeps the group at variable 1, as in the other two.
    lead = (outputs,) if g.groups == 1 else (1, *g.split(outputs))
    shape = (*lead, group_channels, *kernel)
    rank, inputs = len(shape), len(lead)
    y_rows = [along(rank, samples), g.channel(outputs, inputs - 1)]
    y_rows += [along(rank + 1 + i, size) for i, size in enumerate(spatial)]
    x_rows = [along(rank, samples), g.channel(channels, inputs)]
    x_rows += g.window(sizes, rank + 1, inputs + 1)
    fold_shape = (samples, *spatial)
    result = emit_contract(b, shape, fold_shape, (y, y_rows), (x, x_rows), None, part)
    return b.reshape(result, w_shape)


def convolution(
    b: Builder,
    x: View,
    w: View,
    bias: View | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> View:
    """Lower convolution, transposed or not."""
    del output_padding  # the result's shape says it
    rank = len(x.shape) - 2
    g = Geometry(
        repeat_each(stride, rank), repeat_each(padding, rank), repeat_each(dilation, rank), groups
    )
    step = _to_input if transposed else _forward
    return step(b, x, w, bias, b.result.shape[2:], g, "convolution")


def convolution_backward(
    b: Builder,
    y: View,
    x: View,
    w: View,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> tuple[View | None, ...]:
    """Lower convolution_backward: the gradients of x, w and bias that the mask asks for."""
    del bias_sizes, output_padding
    rank = len(x.shape) - 2
    g = Geometry(
        repeat_each(stride, rank), repeat_each(padding, rank), repeat_each(dilation, rank), groups
    )
    dx = dw = db = None
    if mask[0]:
        step = _forward if transposed else _to_input
        dx = step(b, y, w, None, x.shape[2:], g, "input")
    if mask[1]:
        large, small = (y, x) if transposed else (x, y)
        dw = _to_weight(b, small, large, w.shape, g, "weight")
    if mask[2]:
        axes = [d for d in range(len(y.shape)) if d != 1]
        db = fold(b, Function.ADD, y, axes, part="bias")
    return dx, dw, db


def repeat_each(values: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return one value for each dimension; ATen writes a single one where they are equal."""
    return tuple(values) * (rank if len(values) == 1 else 1)


CONVOLUTIONS: Mapping[str, Rule] = {
    "aten.convolution.default": convolution,
    "aten.convolution_backward.default": convolution_backward,
}
"""ATen overload -> rule."""
