"""Activations and normalizations of torch.nn."""

import torch
from torch import nn
from torch.nn import functional

from tests.corpus.rows import Row, ask, layer, learn, ramp

X = ramp(4, 6, low=-3, high=3)
LINE = ramp(3, 4, 5)
IMAGE = ramp(2, 4, 5, 3)
VOLUME = ramp(2, 2, 3, 2, 3)

ACTIVATIONS: tuple[Row, ...] = tuple(
    layer(make.__name__, make, X)
    for make in (
        *(nn.CELU, nn.ELU, nn.GELU, nn.GLU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish),
        *(nn.Hardtanh, nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6),
        *(nn.SELU, nn.Sigmoid, nn.SiLU, nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh),
        nn.Tanhshrink,
    )
)

OTHERS: tuple[Row, ...] = (
    layer("GELU tanh", lambda: nn.GELU("tanh"), X),
    layer("PReLU channels", lambda: nn.PReLU(4), IMAGE),
    layer("Softmax", lambda: nn.Softmax(-1), X),
    layer("Softmax2d", nn.Softmax2d, IMAGE),
    layer("Softmin", lambda: nn.Softmin(0), X),
    layer("LogSoftmax", lambda: nn.LogSoftmax(1), X),
    layer("Threshold", lambda: nn.Threshold(0.5, -1), X),
    learn("relu_", lambda x: torch.relu_(x * 2), X),
    learn("functional.normalize", functional.normalize, X),
    learn("functional.softmax of integers", lambda x: x.long().softmax(-1, torch.float32) * x, X),
)

NORMS: tuple[Row, ...] = (
    layer("BatchNorm1d", lambda: nn.BatchNorm1d(4), LINE),
    layer("BatchNorm2d", lambda: nn.BatchNorm2d(4), IMAGE),
    layer("BatchNorm3d", lambda: nn.BatchNorm3d(2), VOLUME),
    layer("BatchNorm2d momentum=None", lambda: nn.BatchNorm2d(4, momentum=None), IMAGE),
    layer("BatchNorm2d no statistics", lambda: nn.BatchNorm2d(4, track_running_stats=False), IMAGE),
    layer("BatchNorm2d not affine", lambda: nn.BatchNorm2d(4, affine=False), IMAGE),
    layer("BatchNorm2d eval", lambda: nn.BatchNorm2d(4).eval(), IMAGE),
    layer("SyncBatchNorm eval", lambda: nn.SyncBatchNorm(4).eval(), IMAGE),
    layer("InstanceNorm1d", lambda: nn.InstanceNorm1d(4), LINE),
    layer("InstanceNorm2d", lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    layer(
        "InstanceNorm2d statistics",
        lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        IMAGE,
    ),
    layer("InstanceNorm3d", lambda: nn.InstanceNorm3d(2), VOLUME),
    layer("GroupNorm", lambda: nn.GroupNorm(2, 4), IMAGE),
    layer("LayerNorm", lambda: nn.LayerNorm(6), X),
    layer("LayerNorm 2d", lambda: nn.LayerNorm([5, 3]), IMAGE),
    layer("RMSNorm", lambda: nn.RMSNorm(6), X),
    layer("LocalResponseNorm", lambda: nn.LocalResponseNorm(3), IMAGE),
    layer("CrossMapLRN2d", lambda: nn.CrossMapLRN2d(3), IMAGE),
    ask("batch_norm eval", lambda x: functional.batch_norm(x, x[0] * 0, x[0] * 0 + 1), X),
)

ROWS = (*ACTIVATIONS, *OTHERS, *NORMS)
