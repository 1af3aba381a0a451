"""Hooks that round within a model: every leaf module's outputs, and the gradients of its inputs.

The model's own outputs are rounded too. What is not, as published: the gradients of parameters, and
what is computed between modules.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from moot.offchain.errors import UsageError

LOSS = "loss"
"""The layer's name of the loss."""

OUTPUT = "output"
"""The layer's name of the model's own outputs."""


class Rounder(Protocol):
    """The roundings of one direction of a step, in order."""

    def round(self, values: Tensor, layer: str) -> Tensor:
        """Return binary64 values of a layer, rounded."""


class RequireBinary64(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """A mode that refuses operators whose results have another floating-point type.

    Their errors are a thousand million times those that the method counts on. Single numbers may
    have any type, as an optimizer's counters do.
    """

    def __torch_dispatch__(
        self,
        func: Any,
        _types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operator; `UsageError` if it narrows."""
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, Tensor) and value.dim() and value.is_floating_point():
                self._check(func, value.dtype)
        return result

    @staticmethod
    def _check(func: Any, dtype: torch.dtype) -> None:
        if dtype != torch.float64:
            raise UsageError(
                f"{func} computes in {dtype} although the model is in float64; the published "
                "method needs float64 throughout, so take a model that keeps to its type"
            )


class _StraightThrough(torch.autograd.Function):
    """A rounding through which the gradient passes unchanged."""

    @staticmethod
    def forward(_context: Any, values: Tensor, stream: Rounder, layer: str) -> Tensor:
        return _round(stream, values, layer)

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0], None, None


class _RoundGradient(torch.autograd.Function):
    """An identity whose gradient is rounded.

    Torch's own hooks on modules' backward passes have it for outputs as well, which models that
    add to an output in place can't be run with.
    """

    @staticmethod
    def forward(context: Any, values: Tensor, stream: Rounder, layer: str) -> Tensor:
        context.stream, context.layer = stream, layer
        return values.view_as(values)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _round(context.stream, gradients[0], context.layer), None, None


def _round(stream: Rounder, values: Tensor, layer: str) -> Tensor:
    """Round, out of sight of the modes that watch the model."""
    with no_dispatch():
        return stream.round(values, layer)


def name_layer(module: torch.nn.Module) -> str:
    """Return a layer's kind and size: those of its own parameters."""
    shapes = [tuple(parameter.shape) for parameter in module.parameters(recurse=False)]
    return f"{type(module).__name__} {', '.join(map(str, shapes))}".strip()


def list_leaves(model: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Return the modules without children by name; the model itself, where it has none."""
    leaves = {n: m for n, m in model.named_modules() if next(m.children(), None) is None}
    return leaves or {"": model}


def round_outputs(outputs: Any, stream: Rounder, layer: str) -> Any:
    """Return a module's outputs with their binary64 tensors rounded."""
    return _visit(_StraightThrough, outputs, stream, layer)


def _visit(function: Any, values: Any, stream: Rounder, layer: str) -> Any:
    """Apply a function to the binary64 tensors among a module's inputs or outputs."""

    def visit(value: Any) -> Any:
        is_rounded = isinstance(value, Tensor) and value.dtype == torch.float64
        return function.apply(value, stream, layer) if is_rounded else value

    return tree_map(visit, values)


@contextmanager
def rounding(model: torch.nn.Module, forward: Rounder, backward: Rounder) -> Iterator[None]:
    """Let a binary64 model round as it computes.

    A leaf that would change its input in place computes elsewhere, to the same values.
    """
    handles = []

    def round_forward(layer: str) -> Any:
        return lambda _module, _inputs, outputs: round_outputs(outputs, forward, layer)

    def round_backward(layer: str) -> Any:
        return lambda _module, inputs, named: (
            _visit(_RoundGradient, inputs, backward, layer),
            _visit(_RoundGradient, named, backward, layer),
        )

    leaves = list_leaves(model)
    for module in leaves.values():
        if getattr(module, "inplace", False):
            module.inplace = False  # type: ignore[assignment]  # what such modules call it
        layer = name_layer(module)
        handles.append(module.register_forward_hook(round_forward(layer)))
        before = round_backward(layer)
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
    if "" not in leaves:
        handles.append(model.register_forward_hook(round_forward(OUTPUT)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
