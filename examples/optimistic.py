# ruff: noqa: INP001 - a file of the user's is not part of a package
"""Two trainings that a paper on optimistic verifiable training measures (arXiv 2403.09603).

ResNet-50 learns 32 x 32 images from scratch, 64 at a time, and GPT-2 with 124 million weights
sequences of 64 tokens, 8 at a time. The weights of GPT-2 are random ones, its biases among them,
and not the pretrained ones that the paper starts from; nothing is downloaded.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from moot.offchain.frontend.data import DIGIT_CLASSES, DIGIT_SIDE, digit_batches, text_batches
from moot.offchain.frontend.examples.language import COMMON, causal_loss
from moot.offchain.frontend.examples.vision import classification_loss
from moot.offchain.frontend.optimizers import SGD, AdamW
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.schedules import CosineDecay, LinearDecay

STEPS = 1000
"""Steps of both schedules."""

SIDE = 32
EXPANSION = 4
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""The width of each stage's inner convolutions, its blocks, and the stride of its first one."""


class Bottleneck(nn.Module):
    """A block of ResNet-50 (He et al., arXiv 1512.03385), its stride in the middle convolution."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        outer = EXPANSION * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outer, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outer)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels != outer:
            projection = nn.Conv2d(channels, outer, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(outer))

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, 4 * width, H / stride, W / stride) for x of (N, channels, H, W)."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return functional.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet50(nn.Module):
    """ResNet-50 for small images: its first convolution is 3 x 3, and no maximum follows it.

    Rectifications are functions and no modules, so that the hooks of the published method round as
    many elements of a batch of 64 as the paper's do: 439 million.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(64)
        blocks: list[nn.Module] = []
        channels = 64
        for width, count, stride in STAGES:
            for block in range(count):
                blocks.append(Bottleneck(channels, width, stride if block == 0 else 1))
                channels = EXPANSION * width
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (N, classes) for images (N, 3, H, W)."""
        y: Tensor = self.blocks(functional.relu(self.bn(self.conv(x))))
        logits: Tensor = self.linear(y.mean((2, 3)))
        return logits


def resnet50(seed: int, samples: int = 64) -> TrainingRecipe:
    """Return the training of ResNet-50."""
    torch.manual_seed(seed)
    model = ResNet50(DIGIT_CLASSES)
    batch = digit_batches(seed, samples, channels=3, scale=SIDE // DIGIT_SIDE)
    optimizer = SGD(CosineDecay(0.01, STEPS), momentum=0.9, weight_decay=5e-4)
    return TrainingRecipe(model.train(), classification_loss, optimizer, batch, seed)


def resnet50_by_8(seed: int) -> TrainingRecipe:
    """Return the same with an eighth of the batch, where less is enough to measure."""
    return resnet50(seed, samples=8)


def gpt2(seed: int, **sizes: Any) -> TrainingRecipe:
    """Return the training of GPT-2, or of a smaller one with such sizes of its configuration.

    Its biases do not start at 0: those of keys would learn from rounding errors alone, which no two
    machines share, and the digests of the published method would differ from the first step on.
    """
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415 - heavy

    torch.manual_seed(seed)
    model: Any = GPT2LMHeadModel(GPT2Config(use_cache=False, **COMMON, **sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=model.config.initializer_range)
    batch = text_batches(seed, None, 8, 64)
    optimizer = AdamW(LinearDecay(1e-5, STEPS))
    return TrainingRecipe(model.train(), causal_loss, optimizer, batch, seed)


def small_gpt2(seed: int) -> TrainingRecipe:
    """Return the same of four layers of 128 on bytes, for many steps."""
    return gpt2(seed, vocab_size=256, n_positions=64, n_embd=128, n_layer=4, n_head=4)
