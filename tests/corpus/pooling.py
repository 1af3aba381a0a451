"""Pooling, padding, interpolation and sampling of grids."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.corpus.rows import Row, draw, layer, learn, ramp

LINE = ramp(2, 3, 10)
IMAGE = ramp(2, 3, 7, 6)
VOLUME = ramp(1, 2, 4, 6, 5)
GRID = ramp(2, 4, 5, 2, low=-1.2, high=1.2)
GRID3 = ramp(1, 3, 2, 4, 3, low=-1.2, high=1.2)


def _sample(mode: str, padding: str, *, align: bool = False) -> Row:
    def sample(x: Tensor, grid: Tensor) -> Tensor:
        return functional.grid_sample(x, grid, mode, padding, align)

    suffix = " aligned" if align else ""
    return learn(f"grid_sample {mode} {padding}{suffix}", sample, IMAGE, GRID)


def _unpool(module: nn.Module, x: Tensor) -> Tensor:
    values, places = functional.max_pool2d(x, 2, return_indices=True)
    result: Tensor = module(values, places, output_size=x.shape[-2:])
    return result


def _interpolate(x: Tensor, **options: object) -> Row:
    name = "interpolate " + " ".join(f"{k}={v}" for k, v in options.items())

    def resize(image: Tensor) -> Tensor:
        return functional.interpolate(image, **options)  # type: ignore[arg-type]

    return learn(name, resize, x)


POOLS: tuple[Row, ...] = (
    layer("MaxPool1d", lambda: nn.MaxPool1d(3, 2, padding=1), LINE),
    layer("MaxPool2d", lambda: nn.MaxPool2d(2), IMAGE),
    layer("MaxPool2d ceil", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), IMAGE),
    layer("MaxPool2d dilated", lambda: nn.MaxPool2d(2, 1, dilation=2), IMAGE),
    layer("MaxPool2d indices", lambda: nn.MaxPool2d(2, return_indices=True), IMAGE),
    layer("MaxPool3d", lambda: nn.MaxPool3d(2), VOLUME),
    layer("MaxUnpool2d", lambda: nn.MaxUnpool2d(2), IMAGE, call=_unpool),
    layer("AvgPool1d", lambda: nn.AvgPool1d(3, 2, padding=1), LINE),
    layer("AvgPool2d", lambda: nn.AvgPool2d(2), IMAGE),
    layer(
        "AvgPool2d uncounted",
        lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        IMAGE,
    ),
    layer("AvgPool2d divisor", lambda: nn.AvgPool2d(2, divisor_override=3), IMAGE),
    layer("AvgPool3d", lambda: nn.AvgPool3d(2), VOLUME),
    layer("LPPool1d", lambda: nn.LPPool1d(2, 2), LINE + 2),
    layer("LPPool2d", lambda: nn.LPPool2d(3, 2), IMAGE + 2),
    layer("AdaptiveAvgPool1d", lambda: nn.AdaptiveAvgPool1d(4), LINE),
    layer("AdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d((3, 4)), IMAGE),
    layer("AdaptiveAvgPool2d 1", lambda: nn.AdaptiveAvgPool2d(1), IMAGE),
    layer("AdaptiveAvgPool3d", lambda: nn.AdaptiveAvgPool3d(2), VOLUME),
    layer("AdaptiveMaxPool1d", lambda: nn.AdaptiveMaxPool1d(4), LINE),
    layer("AdaptiveMaxPool2d", lambda: nn.AdaptiveMaxPool2d((3, 4)), IMAGE),
    layer("AdaptiveMaxPool3d", lambda: nn.AdaptiveMaxPool3d(2), VOLUME),
    learn(
        "AdaptiveAvgPool1d transposed",
        lambda x: functional.adaptive_avg_pool1d(x.transpose(1, 2), 1).flatten(1),
        LINE,
    ),
    learn(
        "AdaptiveAvgPool2d transposed",
        lambda x: functional.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), (1, 2)),
        IMAGE,
    ),
    draw(
        "FractionalMaxPool2d",
        nn.FractionalMaxPool2d(2, output_size=(3, 3)),
        lambda outputs: outputs[0].shape == (2, 3, 3, 3),
        IMAGE,
    ),
)

PADS: tuple[Row, ...] = (
    layer("ReflectionPad1d", lambda: nn.ReflectionPad1d(2), LINE),
    layer("ReflectionPad2d", lambda: nn.ReflectionPad2d((1, 2, 0, 3)), IMAGE),
    layer("ReflectionPad3d", lambda: nn.ReflectionPad3d(1), VOLUME),
    layer("ReplicationPad1d", lambda: nn.ReplicationPad1d(2), LINE),
    layer("ReplicationPad2d", lambda: nn.ReplicationPad2d((1, 2, 0, 3)), IMAGE),
    layer("ReplicationPad3d", lambda: nn.ReplicationPad3d(1), VOLUME),
    layer("CircularPad2d", lambda: nn.CircularPad2d(1), IMAGE),
    layer("ConstantPad1d", lambda: nn.ConstantPad1d(1, 0.5), LINE),
    layer("ZeroPad2d", lambda: nn.ZeroPad2d((1, -1, 2, 0)), IMAGE),
)

RESIZED: tuple[Row, ...] = (
    layer("Upsample nearest", lambda: nn.Upsample(scale_factor=2), IMAGE),
    layer("UpsamplingBilinear2d", lambda: nn.UpsamplingBilinear2d(scale_factor=2), IMAGE),
    _interpolate(LINE, size=7, mode="linear"),
    _interpolate(IMAGE, size=(9, 4), mode="nearest"),
    _interpolate(IMAGE, size=(9, 4), mode="nearest-exact"),
    _interpolate(IMAGE, size=(9, 4), mode="bilinear"),
    _interpolate(IMAGE, size=(9, 4), mode="bilinear", align_corners=True),
    _interpolate(IMAGE, size=(4, 3), mode="bilinear", antialias=True),
    _interpolate(IMAGE, size=(9, 4), mode="bicubic"),
    _interpolate(IMAGE, size=(4, 3), mode="bicubic", antialias=True),
    _interpolate(IMAGE, size=(3, 4), mode="area"),
    _interpolate(VOLUME, size=(3, 7, 5), mode="trilinear"),
    _sample("bilinear", "zeros"),
    _sample("bilinear", "border"),
    _sample("bilinear", "reflection", align=True),
    _sample("nearest", "zeros"),
    _sample("bicubic", "zeros"),
    learn("grid_sample 3d", functional.grid_sample, VOLUME, GRID3),
    learn(
        "affine_grid",
        lambda t: functional.affine_grid(t, [2, 3, 4, 5], align_corners=False),
        ramp(2, 2, 3),
    ),
    learn(
        "spatial transformer",
        lambda t, x: functional.grid_sample(
            x, functional.affine_grid(t, [2, 3, 4, 5]), align_corners=False
        ),
        ramp(2, 2, 3),
        IMAGE,
    ),
    learn("roll an image", lambda x: torch.roll(x, (1, -2), (2, 3)), IMAGE),
)

ROWS = (*POOLS, *PADS, *RESIZED)
