"""Kinds of models: the model that is built, its inputs, and the loss that it minimizes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

TOKENS = 32
"""The vocabulary of all language models here."""

Inputs = dict[str, torch.Tensor]
"""A model's keyword arguments."""

MakeInputs = Callable[[torch.Generator], Inputs]
Loss = Callable[[Any], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model at a tiny size, with random weights and random data.

    Attributes:
        name: the library's own name.
        build: makes the model, from torch's generator.
        make_inputs: draws one batch.
        loss: makes one number of what the model returns.
        options: arguments of the model that are no tensors.
        rate: the learning rate of gradient descent.
        refusal: what the line that refuses it says; empty where it is captured.
    """

    name: str
    build: Callable[[], torch.nn.Module]
    make_inputs: MakeInputs
    loss: Loss = lambda output: output.loss
    options: dict[str, Any] = field(default_factory=dict)
    rate: float = 0.125
    refusal: str = ""


def build(model_type: str, head: str, **settings: Any) -> torch.nn.Module:
    """Return a model of the transformers library, with every default but sizes and dropout.

    Dropout is off, because torch draws other random numbers than a program does.
    """
    import transformers  # noqa: PLC0415 - heavy, and the table is read without it

    config = transformers.AutoConfig.for_model(model_type, **settings)
    _stop_dropout(config)
    model: torch.nn.Module = getattr(transformers, head)._from_config(config)
    return model


def _stop_dropout(config: Any) -> None:
    for key, value in list(vars(config).items()):
        if hasattr(value, "model_type"):
            _stop_dropout(value)
        elif isinstance(value, float) and "drop" in key:
            setattr(config, key, 0.0)


def tokens(
    generator: torch.Generator, length: int = 6, samples: int = 2, first: int = 3
) -> torch.Tensor:
    """Return INT64 tokens (samples, length), none of them special."""
    return torch.randint(first, TOKENS, (samples, length), generator=generator)


def image(generator: torch.Generator, side: int, channels: int = 3) -> torch.Tensor:
    """Return two float32 images."""
    return torch.randn(2, channels, side, side, generator=generator)


def mean_square(tensor: torch.Tensor) -> torch.Tensor:
    """Return the mean of the squares."""
    return tensor.square().mean()
