"""Classifiers of handwritten digits: perceptrons, convolutional networks, a vision transformer.

The larger ones are those of the transformers library, never downloaded.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from moot.offchain.frontend.data import DIGIT_CLASSES, DIGIT_SIDE, digit_batches
from moot.offchain.frontend.optimizers import SGD, AdamW, Optimizer
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe

OPTIMIZER = SGD(learning_rate=0.05, momentum=0.9)


@dataclass(frozen=True, slots=True)
class VisionSize:
    """Sizes of a classifier.

    Attributes:
        samples: images of a batch.
        widths: channels or units of each stage.
        depths: blocks of each stage; of MobileNet, whose stages are fixed: their first block only.
        scale: an image has 8 * scale pixels along each side.
        heads: of attention.
        patch: pixels along each side of a patch.
    """

    samples: int
    widths: tuple[int, ...]
    depths: tuple[int, ...] = ()
    scale: int = 1
    heads: int = 0
    patch: int = 0


MLP_SIZES = {
    "tiny": VisionSize(samples=4, widths=(16,)),
    "small": VisionSize(samples=32, widths=(128, 64)),
    "full": VisionSize(samples=256, widths=(1024, 1024)),
}
CNN_SIZES = {
    "tiny": VisionSize(samples=2, widths=(4, 8)),
    "small": VisionSize(samples=16, widths=(16, 32)),
    "full": VisionSize(samples=128, widths=(64, 128)),
}
RESNET_SIZES = {
    "tiny": VisionSize(samples=2, widths=(4, 8), depths=(1, 1), scale=4),
    "small": VisionSize(samples=4, widths=(16, 32, 64), depths=(1, 1, 1), scale=4),
    "full": VisionSize(samples=16, widths=(256, 512, 1024, 2048), depths=(3, 4, 6, 3), scale=28),
}
MOBILENET_SIZES = {
    "tiny": VisionSize(samples=4, widths=(4,), depths=(1,), scale=4),
    "small": VisionSize(samples=4, widths=(8,), depths=(1,), scale=8),
    "full": VisionSize(samples=16, widths=(32,), scale=28),
}
VIT_SIZES = {
    "tiny": VisionSize(samples=2, widths=(16,), depths=(2,), scale=1, heads=2, patch=4),
    "small": VisionSize(samples=4, widths=(128,), depths=(4,), scale=4, heads=4, patch=4),
    "full": VisionSize(samples=8, widths=(768,), depths=(12,), scale=28, heads=12, patch=16),
}


def classify(model: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return the logits of each class, (samples, 10)."""
    logits = model(images)
    return logits if isinstance(logits, torch.Tensor) else logits.logits


def classification_loss(
    model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Return the mean cross-entropy of the labels."""
    return functional.cross_entropy(classify(model, images), labels)


def _make_recipe(
    model: torch.nn.Module,
    size: VisionSize,
    seed: int,
    *,
    channels: int,
    inference: bool,
    optimizer: Optimizer = OPTIMIZER,
) -> Recipe:
    batch = digit_batches(seed, size.samples, channels=channels, scale=size.scale)
    if inference:
        return InferenceRecipe(
            model.train(mode=False), classify, lambda step: batch(step)[:1], seed
        )
    return TrainingRecipe(model.train(), classification_loss, optimizer, batch, seed)


def build_mlp(size: VisionSize, seed: int, *, inference: bool) -> Recipe:
    """Return a perceptron with rectified hidden layers."""
    layers: list[torch.nn.Module] = [torch.nn.Flatten()]
    units = DIGIT_SIDE * DIGIT_SIDE
    for width in size.widths:
        layers += [torch.nn.Linear(units, width), torch.nn.ReLU()]
        units = width
    layers.append(torch.nn.Linear(units, DIGIT_CLASSES))
    return _make_recipe(torch.nn.Sequential(*layers), size, seed, channels=1, inference=inference)


def build_cnn(size: VisionSize, seed: int, *, inference: bool) -> Recipe:
    """Return convolutions with batch norm, each followed by a maximum over 2 x 2 windows."""
    layers: list[torch.nn.Module] = []
    channels, side = 1, DIGIT_SIDE
    for width in size.widths:
        layers += [
            torch.nn.Conv2d(channels, width, 3, padding=1),
            torch.nn.BatchNorm2d(width),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
        ]
        channels, side = width, side // 2
    layers += [torch.nn.Flatten(), torch.nn.Linear(channels * side * side, DIGIT_CLASSES)]
    return _make_recipe(torch.nn.Sequential(*layers), size, seed, channels=1, inference=inference)


def build_resnet(size: VisionSize, seed: int, *, inference: bool) -> Recipe:
    """Return a residual network of bottlenecks (He et al., arXiv 1512.03385); full is ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification  # noqa: PLC0415 - heavy and optional

    labels: dict[str, Any] = {"num_labels": DIGIT_CLASSES}  # a property that its types leave out
    config = ResNetConfig(
        embedding_size=size.widths[0] // 4,
        hidden_sizes=list(size.widths),
        depths=list(size.depths),
        **labels,
    )
    model = ResNetForImageClassification(config)
    return _make_recipe(model, size, seed, channels=3, inference=inference)


def build_mobilenet(size: VisionSize, seed: int, *, inference: bool) -> Recipe:
    """Return MobileNetV2 (Sandler et al., arXiv 1801.04381) of depthwise convolutions.

    With `size.depths`, blocks that repeat the shape of the one before are left out, but for one.
    """
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification  # noqa: PLC0415 - heavy and optional

    (width,) = size.widths
    labels: dict[str, Any] = {"num_labels": DIGIT_CLASSES}  # likewise
    config = MobileNetV2Config(
        image_size=DIGIT_SIDE * size.scale,
        depth_multiplier=width / 32,
        depth_divisible_by=min(width, 8),
        min_depth=min(width, 8),
        finegrained_output=False,
        output_stride=32 if size.scale > 4 else 8,
        classifier_dropout_prob=0.2,
        **labels,
    )
    model = MobileNetV2ForImageClassification(config)
    if size.depths:
        model.mobilenet_v2.layer = _drop_repeats(model.mobilenet_v2.layer)
    return _make_recipe(model, size, seed, channels=3, inference=inference)


def _drop_repeats(blocks: torch.nn.ModuleList) -> torch.nn.ModuleList:
    """Return the blocks of which none repeats the one before, but for the first that does."""
    first = next(block for block in blocks if block.use_residual)
    return torch.nn.ModuleList([b for b in blocks if b is first or not b.use_residual])


def build_vit(size: VisionSize, seed: int, *, inference: bool) -> Recipe:
    """Return a vision transformer (Dosovitskiy et al., arXiv 2010.11929); full is ViT-B/16."""
    from transformers import ViTConfig, ViTForImageClassification  # noqa: PLC0415 - heavy and optional

    (width,), (layers,) = size.widths, size.depths
    untyped: dict[str, Any] = {"num_labels": DIGIT_CLASSES, "attn_implementation": "eager"}
    config = ViTConfig(
        image_size=DIGIT_SIDE * size.scale,
        patch_size=size.patch,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * width,
        hidden_dropout_prob=0.1,
        **untyped,
    )
    model = ViTForImageClassification(config)
    optimizer = AdamW(learning_rate=3e-4)
    return _make_recipe(model, size, seed, channels=3, inference=inference, optimizer=optimizer)
