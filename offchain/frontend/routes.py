"""Routes to a model's tensors: an operator gets the traced tensor by whichever way it reads one.

The model is traced as it is: its parameters are the leaves of autograd, with their hooks, and its
lists, closures, tied weights, views and detached aliases lead to the memory where they always led.
Below autograd, each tensor that lies in the memory of a tensor of the model is exchanged for the
traced one, or for a view of it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import _disable_current_modes

from moot.offchain.errors import CaptureError
from moot.offchain.frontend.constants import Constants
from moot.offchain.frontend.lines import LineTracker
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.memory import get_memory, get_span, is_within, list_written
from moot.offchain.frontend.nesting import list_leaves, map_leaves

PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
"""The classes of tensors that are followed; others do more than torch's operators."""

_FRESH = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift.default)
"""Operators by which a tensor that a step has made of numbers begins."""


class Routes:
    """Exchanges the tensors of a model for traced ones wherever operators receive them.

    Args:
        tensors: the tensors of the model, and of what else is state, with their names.
        traced: what stands for them, by the same names; operators may change these in place.
        stale: the paths of tensors that an earlier step has left behind, by their `id`.
        tracker: knows the user's line.
        constants: knows the tensors whose elements are no data.
    """

    def __init__(
        self,
        tensors: Collection[tuple[str, torch.Tensor]],
        traced: Mapping[str, torch.Tensor],
        stale: Mapping[int, str],
        tracker: LineTracker,
        constants: Constants,
    ) -> None:
        self._names = {id(tensor): name for name, tensor in tensors}
        self._views: list[torch.Tensor] = []
        self._stale, self._tracker, self._constants = stale, tracker, constants
        self._routes: dict[int, list[tuple[str, torch.Tensor, torch.Tensor]]] = {}
        for name, tensor in tensors:
            with no_dispatch():  # no operator of the step: what the tensor is at its beginning
                begin = tensor.detach()
            self._routes.setdefault(get_memory(tensor), []).append((name, begin, traced[name]))

    def call(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return what an operator makes of its arguments, or of what stands for them."""
        if func.namespace == "profiler":  # it takes the time, and computes nothing
            with _disable_current_modes():
                return func(*args, **kwargs)
        given, options = map_leaves(self.follow, [*args]), map_leaves(self.follow, kwargs)
        if func._schema.is_mutable:  # noqa: SLF001 - not public
            self._check_written(func, given)
        result = self._constants.call(func, given, options)
        if func.is_view and func not in _FRESH and given and self._is_constant(given[0]):
            self._views += [part for part in list_leaves(result) if part is not given[0]]
        return result

    def _is_constant(self, value: Any) -> bool:
        """Return whether a value is a tensor of which the program has a copy, or a view of it."""
        return type(value) in PLAIN or any(value is view for view in self._views)

    def _check_written(self, func: Any, args: Sequence[Any]) -> None:
        """Refuse to write what is traced into a tensor that is not."""
        has_traced = any(isinstance(value, FakeTensor) for value in list_leaves(args))
        if has_traced and any(map(self._is_constant, list_written(func, args))):
            message = "it changes a tensor that is no buffer; register it as a buffer"
            raise refusal(message, str(func), self._tracker.line)

    def follow(self, value: Any) -> Any:
        """Return what stands for a tensor, and any other value as it is."""
        if id(value) in self._stale:
            message = "a step reads what an earlier step has left here; register it as a buffer"
            raise refusal(message, self._stale[id(value)], self._tracker.line)
        if type(value) not in PLAIN or not value.numel():
            return value
        if value.layout is not torch.strided:
            layout = str(value.layout).removeprefix("torch.")
            message = f"it reads a {layout} tensor; make it dense by .to_dense()"
            raise refusal(message, self._tracker.operator, self._tracker.line)
        if value.device.type == "meta" and id(value) in self._names:
            message = "its data are replaced; change it in place, under torch.no_grad()"
            name = _describe(self._names[id(value)])
            raise refusal(message, name, self._tracker.line)
        routes = self._routes.get(get_memory(value), ())
        for _, tensor, traced in routes:
            if _get_geometry(tensor) == _get_geometry(value) and tensor.dtype == value.dtype:
                return traced
        for name, tensor, traced in routes:
            if is_within(value, tensor):
                return _make_view(name, value, tensor, traced)
        return value


def check_memory(tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuse a model of which two different tensors lie in the same memory.

    Raises:
        CaptureError: there are two; a program has a tensor of its own for each.
    """
    found: dict[int, list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in tensors.items():
        if not tensor.numel():
            continue
        others = found.setdefault(get_memory(tensor), [])
        for other, earlier in others:
            if _overlap(earlier, tensor):
                raise CaptureError(
                    f"{_describe(name)}: it lies in the memory of {_describe(other)}; tie them by "
                    "making both the same tensor, or copy it by .clone()",
                    module=name.split(".", 1)[1].rpartition(".")[0] or "model",
                )
        others.append((name, tensor))


def _describe(name: str) -> str:
    return name.replace(".", " ", 1)


def _get_geometry(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (tensor.storage_offset(), tensor.shape, tensor.stride())


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    (first, last), (start, end) = get_span(a), get_span(b)
    return first <= end and start <= last


def _make_view(
    name: str, value: torch.Tensor, tensor: torch.Tensor, traced: torch.Tensor
) -> torch.Tensor:
    """Return the view of a traced tensor that a view of the model's tensor is."""
    if not tensor.is_contiguous():
        raise CaptureError(
            f"{_describe(name)}: the model has a view of it, and it is not contiguous; "
            "make it so by .contiguous()"
        )
    offset = value.storage_offset() - tensor.storage_offset()
    order = sorted(range(value.ndim), key=lambda d: value.stride()[d], reverse=True)
    shape = [value.shape[d] for d in order]
    flat = traced.reshape(-1)[offset : offset + value.numel()]
    if value.permute(order).is_contiguous():
        return flat.view(shape).permute([order.index(d) for d in range(value.ndim)])
    return traced.as_strided(value.shape, value.stride(), offset)
