"""Batch functions of the programs of practice: what a step reads is drawn from its number."""

from collections.abc import Callable

import torch
from torch import Tensor

Batch = Callable[[int], tuple[Tensor, ...]]

WORDS = 16
"""The vocabulary of the programs here."""


def numbers(*shapes: tuple[int, ...]) -> Batch:
    """Return a batch function of normal numbers of these shapes."""

    def batch(step: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(step)
        return tuple(torch.randn(shape, generator=generator) for shape in shapes)

    return batch


def labelled(shape: tuple[int, ...], classes: int, *labels: int) -> Batch:
    """Return a batch function of normal numbers, and a class for each of the first dimensions."""

    def batch(step: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(step)
        sizes = labels or shape[:1]
        x = torch.randn(shape, generator=generator)
        return x, torch.randint(classes, sizes, generator=generator)

    return batch


def texts(*shapes: tuple[int, ...], words: int = WORDS) -> Batch:
    """Return a batch function of tokens of these shapes."""

    def batch(step: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(step)
        return tuple(torch.randint(words, shape, generator=generator) for shape in shapes)

    return batch


def both(*batches: Batch) -> Batch:
    """Return a batch function of all tensors of several."""
    return lambda step: tuple(tensor for batch in batches for tensor in batch(step))
