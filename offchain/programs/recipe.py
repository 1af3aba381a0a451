"""Recipes: what a user writes to have a program captured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from offchain.programs.optimizers import Optimizer

Batch = Callable[[int], tuple[torch.Tensor, ...]]
"""Returns the batch of a step: a function of its number alone, of shapes that never change."""


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """A model that learns: each step computes the loss of one batch and updates the parameters.

    Attributes:
        model: any module; its parameters and buffers at capture are the initial state.
        loss: called with the model and the batch's tensors; returns one float32 number.
        optimizer: how gradients change parameters.
        batch: returns the batch of a step.
        seed: key of dropout's random numbers, 64 bits.
    """

    model: torch.nn.Module
    loss: Callable[..., torch.Tensor]
    optimizer: Optimizer
    batch: Batch
    seed: int = 0


@dataclass(frozen=True, slots=True)
class InferenceRecipe:
    """A model that answers: each step computes the outputs of one batch.

    Attributes:
        model: any module; its parameters and buffers at capture are the initial state.
        forward: called with the model and the batch's tensors; returns one tensor or several.
        batch: returns the batch of a step.
        seed: key of dropout's random numbers, 64 bits.
    """

    model: torch.nn.Module
    forward: Callable[..., torch.Tensor | Sequence[torch.Tensor]]
    batch: Batch
    seed: int = 0


Recipe = TrainingRecipe | InferenceRecipe
