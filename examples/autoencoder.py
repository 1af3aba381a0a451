# ruff: noqa: INP001 - a file of the user's is not part of a package
"""A program of your own: an autoencoder that squeezes handwritten digits through a narrow layer.

Write a function that takes a seed and returns a recipe, and name it where an example's name is
expected: `examples/autoencoder.py:build`.
"""

import torch
from torch import nn

from moot.offchain.frontend.data import DIGIT_SIDE, digit_batches
from moot.offchain.frontend.optimizers import AdamW
from moot.offchain.frontend.recipe import TrainingRecipe

PIXELS = DIGIT_SIDE * DIGIT_SIDE


class Autoencoder(nn.Module):
    """Two dense layers down to a few numbers for each digit, and two back up to its pixels."""

    def __init__(self, hidden: int = 48, code: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, hidden), nn.GELU(), nn.Linear(hidden, code))
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.GELU(), nn.Linear(hidden, PIXELS))
        self.norm = nn.LayerNorm(code)
        self.dropout = nn.Dropout(0.1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the pixels that the code of each image stands for, in (0, 1)."""
        code = self.norm(self.encoder(self.dropout(images.flatten(1))))
        pixels: torch.Tensor = self.decoder(code).sigmoid().view_as(images)
        return pixels


def loss(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error of the pixels."""
    return nn.functional.mse_loss(model(images), images)


def build(seed: int) -> TrainingRecipe:
    """Return the recipe; everything random in it comes from the seed."""
    torch.manual_seed(seed)
    digits = digit_batches(seed, samples=16)
    return TrainingRecipe(
        model=Autoencoder(),
        loss=loss,
        optimizer=AdamW(learning_rate=3e-3),
        batch=lambda step: digits(step)[:1],
        seed=seed,
    )
