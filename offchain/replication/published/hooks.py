"""Hooks that round within a model: every leaf module's outputs, and the gradients of its inputs.

The model's own outputs are rounded too. What is not, as published: the gradients of parameters, and
what is computed between modules.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from offchain.errors import UsageError

LOSS = "loss"
"""The layer's name of the loss."""

OUTPUT = "output"
"""The layer's name of the model's own outputs."""


class Rounder(Protocol):
    """The roundings of one direction of a step, in order."""

    def round(self, values: Tensor, layer: str) -> Tensor:
        """Return binary64 values of a layer, rounded."""


class _StraightThrough(torch.autograd.Function):
    """A rounding through which the gradient passes unchanged."""

    @staticmethod
    def forward(_context: Any, values: Tensor, stream: Rounder, layer: str) -> Tensor:
        return stream.round(values, layer)

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0], None, None


def name_layer(module: torch.nn.Module) -> str:
    """Return a layer's kind and size: those of its own parameters."""
    shapes = [tuple(parameter.shape) for parameter in module.parameters(recurse=False)]
    return f"{type(module).__name__} {', '.join(map(str, shapes))}".strip()


def list_leaves(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Return the modules without children by name; the model itself, where it has none."""
    leaves = {n: m for n, m in model.named_modules() if next(m.children(), None) is None}
    return leaves or {"": model}


def round_outputs(outputs: Any, stream: Rounder, layer: str) -> Any:
    """Return a module's outputs with their binary64 tensors rounded.

    Raises:
        UsageError: one has another floating-point type.
    """

    def visit(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        if value.dtype != torch.float64:
            raise UsageError(
                f"{layer} returns {value.dtype} from float64; "
                "the published method rounds float64 alone, so have the model keep the type"
            )
        rounded: Any = _StraightThrough.apply(value, stream, layer)  # type: ignore[no-untyped-call]  # torch's is untyped
        return rounded

    return tree_map(visit, outputs)


@contextmanager
def rounding(model: torch.nn.Module, forward: Rounder, backward: Rounder) -> Iterator[None]:
    """Let a binary64 model round as it computes.

    A leaf that would change its input in place computes elsewhere, to the same values.
    """
    handles = []

    def round_forward(layer: str) -> Any:
        return lambda _module, _inputs, outputs: round_outputs(outputs, forward, layer)

    def round_backward(layer: str) -> Any:
        return lambda _module, inputs, _outputs: tuple(
            None if gradient is None else backward.round(gradient, layer) for gradient in inputs
        )

    leaves = list_leaves(model)
    for module in leaves.values():
        if getattr(module, "inplace", False):
            module.inplace = False  # type: ignore[assignment]  # what such modules call it
        layer = name_layer(module)
        handles.append(module.register_forward_hook(round_forward(layer)))
        handles.append(module.register_full_backward_hook(round_backward(layer)))
    if "" not in leaves:
        handles.append(model.register_forward_hook(round_forward(OUTPUT)))
    try:
        with warnings.catch_warnings():
            # A module may have no input with a gradient; then there is nothing to round.
            warnings.filterwarnings("ignore", "Full backward hook is firing")
            yield
    finally:
        for handle in handles:
            handle.remove()
