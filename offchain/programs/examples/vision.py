"""Classifiers of handwritten digits: a perceptron, a convolutional network, a residual network."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from offchain.programs.data import DIGIT_CLASSES, DIGIT_SIDE, digit_batches
from offchain.programs.optimizers import SGD
from offchain.programs.recipe import InferenceRecipe, Recipe, TrainingRecipe

OPTIMIZER = SGD(learning_rate=0.05, momentum=0.9)


@dataclass(frozen=True, slots=True)
class VisionSize:
    """Sizes of a classifier: samples, channels (or units) of each stage, blocks of each stage."""

    samples: int
    widths: tuple[int, ...]
    depths: tuple[int, ...] = ()
    scale: int = 1


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
    "full": VisionSize(samples=2, widths=(256, 512, 1024, 2048), depths=(3, 4, 6, 3), scale=28),
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
    model: torch.nn.Module, size: VisionSize, seed: int, *, channels: int, inference: bool
) -> Recipe:
    batch = digit_batches(seed, size.samples, channels=channels, scale=size.scale)
    if inference:
        return InferenceRecipe(model.eval(), classify, lambda step: batch(step)[:1], seed)
    return TrainingRecipe(model.train(), classification_loss, OPTIMIZER, batch, seed)


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
