"""Models whose linear layers have int8 weights, and multiply them by activations rounded to int8.

Each output has a scale of its own for its weights, each row of activations one that is found when
it is there, so that the largest number of either becomes 127 or -127. Products are exact sums of
integers, which are scaled in float32; all else of a model stays as it is.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from moot.offchain.errors import UsageError

INSTEAD = "give the model as it was before; --precision int8 answers by int8 weights"
"""What to do in place of torch's own quantization, whose numbers are packed for its kernels."""

_LARGEST = 127
_LEAST = 2.0**-100
"""The least magnitude of a row's largest number: rows of zeros have a scale, too."""


class Int8Linear(nn.Module):
    """A linear layer of int8 weights.

    Args:
        weight: (N, K) float32, whose rows are those of outputs.
        bias: (N,) float32, if there is one.
    """

    weight: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.rounds = True
        numbers = weight.detach().float()
        scale = _find_scale(numbers)
        self.register_buffer("weight", _round(numbers, scale))
        self.register_buffer("scale", scale[:, 0])
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        """Return x @ weight.T + bias, of rows that are rounded to int8, unless `unrounded`."""
        if not self.rounds:
            return nn.functional.linear(x, self.weight * self.scale[:, None], self.bias).to(x.dtype)
        rows = x.reshape(-1, x.shape[-1]).float()
        scale = _find_scale(rows)
        sums = torch._int_mm(_round(rows, scale), self.weight.t())  # noqa: SLF001 - torch's name
        found = sums.float() * scale * self.scale
        if self.bias is not None:
            found = found + self.bias.float()
        return found.reshape(*x.shape[:-1], -1).to(x.dtype)


@contextmanager
def unrounded(model: nn.Module) -> Iterator[None]:
    """Let int8 layers multiply activations as they are, for as long as this lasts.

    Two ways to call a model that rounds differ by more than float32 does, since numbers next to the
    middle of two integers go one way or the other.
    """
    layers = [module for module in model.modules() if isinstance(module, Int8Linear)]
    for layer in layers:
        layer.rounds = False
    try:
        yield
    finally:
        for layer in layers:
            layer.rounds = True


def _find_scale(rows: Tensor) -> Tensor:
    return rows.abs().amax(1, keepdim=True).clamp(min=_LEAST) / _LARGEST


def _round(rows: Tensor, scale: Tensor) -> Tensor:
    """Return rows in units of their scales; none has a number that rounds beyond 127."""
    return (rows / scale).round().to(torch.int8)


def quantize(model: nn.Module) -> nn.Module:
    """Return a model like another one, whose linear layers have int8 weights; it shares all else.

    Raises:
        UsageError: it has no linear layer.
    """
    shared = (*model.parameters(), *model.buffers())
    twin = copy.deepcopy(model, {id(tensor): tensor for tensor in shared})
    found = _replace_layers(twin)
    if not any(isinstance(module, Int8Linear) for module in found.modules()):
        raise UsageError(
            "the model has no linear layer, so int8 brings nothing; choose fp32 or bf16"
        )
    return found


def _replace_layers(module: nn.Module) -> nn.Module:
    """Return a module with its linear layers replaced, or the layer that takes its place."""
    if type(module) is nn.Linear:
        return Int8Linear(module.weight, module.bias)
    if type(module).__name__ == "Conv1D" and hasattr(module, "nf"):
        # A linear layer of transformers', whose weights are (K, N).
        return Int8Linear(module.get_parameter("weight").t(), module.get_parameter("bias"))
    for name, child in module.named_children():
        setattr(module, name, _replace_layers(child))
    return module


def has_parts(tensor: Tensor) -> bool:
    """Whether a tensor is of a class of somebody's own, and holds others that it is made of."""
    return bool(is_traceable_wrapper_subclass(tensor))


def unwrap(model: nn.Module) -> nn.Module:
    """Hold plain tensors in a model where it has tensors of a class of somebody's own.

    Such are torchao's weights, which `quantize_` puts in the place of a linear layer's: integers,
    scales, and an operator of their own for what torch does with them. Afterwards the layer has
    the integers and the scales as parameters (`parametrizations.weight.original0`, ...), and makes
    its weight of them where it is asked for it.

    Args:
        model: a model for inference; it is changed.

    Returns:
        The model.

    Raises:
        UsageError: a tensor of this kind wants a gradient.

    Example:
        >>> import moot, torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(64, 8))
        >>> # torchao.quantization.quantize_(model, torchao.quantization.Int8WeightOnlyConfig())
        >>> moot.unwrap(model) is model
        True
    """
    for name, module in [*model.named_modules()]:
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        for place, tensor in own:
            if not has_parts(tensor):
                continue
            if tensor.requires_grad:
                where = f"{name}.{place}".lstrip(".")
                raise UsageError(
                    f"{where}: a {type(tensor).__name__} that wants a gradient; train the "
                    "model as it was before, and quantize it afterwards"
                )
            register_parametrization(module, place, _Parts(tensor), unsafe=True)
    return model


class _Parts(nn.Module):
    """How a tensor of a class of somebody's own is made of plain ones.

    Args:
        whole: the tensor.
    """

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self._kind = type(whole)
        self._size, self._stride = whole.size(), whole.stride()
        self._names, self._context = whole.__tensor_flatten__()
        inner = [getattr(whole, name) for name in self._names]
        self._parts = [_Parts(x) if has_parts(x) else None for x in inner]

    def right_inverse(self, whole: Tensor) -> list[Tensor]:
        """Return the plain tensors."""
        found = list[Tensor]()
        for name, parts in zip(self._names, self._parts, strict=True):
            inner = getattr(whole, name)
            found += [inner] if parts is None else parts.right_inverse(inner)
        return found

    def forward(self, *plain: Tensor) -> Tensor:
        """Return the tensor."""
        return self._make(iter(plain))

    def _make(self, plain: Iterator[Tensor]) -> Tensor:
        inner = {
            name: next(plain) if parts is None else parts._make(plain)
            for name, parts in zip(self._names, self._parts, strict=True)
        }
        made: Tensor = self._kind.__tensor_unflatten__(
            inner, self._context, self._size, self._stride
        )
        return made
