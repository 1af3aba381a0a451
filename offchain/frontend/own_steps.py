"""The steps of a user's own optimizers in a traced step of a recipe."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from offchain.frontend.optimizers.observed import BEGUN, Observed, Snapshot, list_kept, run_steps

Tensors = Mapping[str, Tensor]

DIFFERENTIABLE = "differentiable"
"""The option by which torch's own classes compute with the count of their steps as a tensor."""


class _Factors(TorchFunctionMode):
    """Multiplies by rates that are tensors where torch takes numbers: `add_(x, alpha=-rate)`."""

    def __torch_function__(
        self,
        func: Any,
        _types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        place = _SCALED.get(getattr(func, "__name__", "").rstrip("_"))
        if place is not None and isinstance(options.get(place[0]), Tensor):
            factor, scaled = options.pop(place[0]), place[1]
            args = tuple(arg * factor if k == scaled else arg for k, arg in enumerate(args))
        return func(*args, **options)


_SCALED = {
    "add": ("alpha", 1),
    "sub": ("alpha", 1),
    "addcmul": ("value", 1),
    "addcdiv": ("value", 1),
}
"""Name of a function -> its factor, and the number of the argument that it multiplies."""


def trace_own_steps(
    observed: Observed,
    model: nn.Module,
    traced: Tensors,
    gradients: Tensors,
    follow: Callable[[Tensor], Tensor],
    scheduled: Mapping[int, Sequence[Mapping[str, Any]]],
) -> dict[str, Tensor]:
    """Return the tensors of the state that the optimizers' steps change, traced.

    Args:
        observed: the optimizers, and what they keep.
        model: the model, whose parameters they have.
        traced: what stands for the state's tensors, by name; steps change these in place.
        gradients: the gradients, by the names of their parameters.
        follow: returns what stands for a tensor.
        scheduled: options that schedulers have changed, by the `id` of an optimizer and by group.
    """
    owned = {id(p) for it in observed.optimizers for g in it.param_groups for p in g["params"]}
    parameters = {name: p for name, p in model.named_parameters() if id(p) in owned}
    before = Snapshot(observed.optimizers)
    contents = {name: tensor.clone() for name, tensor in traced.items()}

    def step() -> dict[str, Tensor]:
        for name, parameter in parameters.items():
            # A step may write to its gradient, which is a result of the program's.
            parameter.grad = gradients[name].clone() if name in gradients else None
        for optimizer in observed.optimizers:
            for options, changed in zip(
                optimizer.param_groups, scheduled.get(id(optimizer), ()), strict=False
            ):
                options.update(changed)
        for options in (group for it in observed.optimizers for group in it.param_groups):
            if DIFFERENTIABLE in options:
                options[DIFFERENTIABLE] = True
        with _Factors():
            run_steps(observed.optimizers)
        kept = list_kept(observed.optimizers, model)
        learned = {
            f"parameter.{name}": traced[f"parameter.{name}"].clone()
            for name in parameters
            if name in gradients
        }
        return learned | {
            name: follow(kept[name]).clone()
            for name in observed.tensors
            if isinstance(kept.get(name), Tensor)
        }

    try:
        first = step() if observed.is_late else {}
        if first:
            for name, content in contents.items():
                traced[name].copy_(content)
        observed.sample.put_back()
        later = step()
    finally:
        before.put_back()
    if not first:
        return later
    begun = traced[BEGUN]
    chosen = {
        name: torch.where(begun, tensor, first[name]) if name in first else tensor
        for name, tensor in later.items()
    }
    return chosen | {BEGUN: torch.ones_like(begun)}
