"""Optimizers of users, which are traced as they are: what they keep is state of the program.

An object of `torch.optim.Optimizer` that has no translation makes a few steps on drawn gradients,
to see what it keeps. Tensors become part of the committed state. Anything else may not change from
the second step on, since a program has no Python numbers. What is kept only from the first step on
begins as zeros that nothing reads: the first step is traced apart, and the flag BEGUN chooses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from offchain.errors import UsageError
from offchain.text import show, show_error

BEGUN = "optimizer.has_begun"
"""The flag of the state that says that a first step was made."""

_PROBES = 3
_GRADIENT = 2.0**-10
_OWN = frozenset({"state", "param_groups", "defaults"})

Kept = dict[str, Any]
"""Name in the state of a program -> what an optimizer keeps under it."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What optimizers keep, as a program has it.

    Attributes:
        optimizers: the objects.
        start: tensors by name before the first step.
        tensors: those that the sample has, by name.
        sample: what each optimizer keeps after some steps, by which a later step is traced.
        is_late: whether anything is kept only from the first step on.
    """

    optimizers: Sequence[torch.optim.Optimizer]
    start: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    sample: "Snapshot"
    is_late: bool


class Snapshot:
    """The parameters, states and attributes of optimizers at one time, which can be put back."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers
        self._states = [
            {key: _copy(kept) for key, kept in optimizer.state.items()} for optimizer in optimizers
        ]
        self._groups = [
            [dict(options) for options in optimizer.param_groups] for optimizer in optimizers
        ]
        self._others = [
            {k: v for k, v in vars(optimizer).items() if k not in _OWN} for optimizer in optimizers
        ]

    def put_back(self) -> None:
        """Put all back but the content of tensors, which are the very ones that were kept."""
        rows = zip(self._optimizers, self._states, self._groups, self._others, strict=True)
        for optimizer, states, groups, others in rows:
            optimizer.state.clear()
            optimizer.state.update({key: _copy(kept) for key, kept in states.items()})
            for options, before in zip(optimizer.param_groups, groups, strict=True):
                options.clear()
                options.update(before)
            vars(optimizer).update(others)


def _copy(kept: Any) -> Any:
    return dict(kept) if isinstance(kept, dict) else kept


_SEEN: WeakKeyDictionary[torch.optim.Optimizer, Observed] = WeakKeyDictionary()


def observe(optimizers: Sequence[torch.optim.Optimizer], model: nn.Module) -> Observed:
    """Return what optimizers keep; they and the model are left as they were.

    Raises:
        UsageError: a step fails, or keeps what a program can't have.
    """
    found = _SEEN.get(optimizers[0])
    if found is None:
        with _borrowed(optimizers, model) as step:
            found = _observe(optimizers, model, step)
        _SEEN[optimizers[0]] = found
    return found


def _observe(
    optimizers: Sequence[torch.optim.Optimizer], model: nn.Module, step: Callable[[], None]
) -> Observed:
    seen = [_copy_tensors(list_kept(optimizers, model))]
    for _ in range(_PROBES):
        step()
        seen.append(_copy_tensors(list_kept(optimizers, model)))
    _require_steady(seen[1:])
    kept = list_kept(optimizers, model)
    tensors = {name: tensor for name, tensor in kept.items() if isinstance(tensor, Tensor)}
    is_late = any(not isinstance(seen[0].get(name), Tensor) for name in tensors)
    start = {
        name: torch.zeros_like(tensor) if is_late else seen[0][name]
        for name, tensor in tensors.items()
    }
    begun = {BEGUN: torch.zeros((), dtype=torch.bool)} if is_late else {}
    return Observed(optimizers, start | begun, tensors, Snapshot(optimizers), is_late)


def _copy_tensors(kept: Kept) -> Kept:
    return {k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in kept.items()}


@contextmanager
def _borrowed(
    optimizers: Sequence[torch.optim.Optimizer], model: nn.Module
) -> Iterator[Callable[[], None]]:
    """Give a function that makes a step on drawn gradients; all is as it was in the end."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    contents = [(p, p.detach().clone(), p.grad) for p in parameters]
    before, generator = Snapshot(optimizers), torch.Generator().manual_seed(0)

    def step() -> None:
        for parameter in parameters:
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.grad = (drawn * _GRADIENT).to(parameter.dtype)
        for optimizer in optimizers:
            try:
                optimizer.step()
            except Exception as error:  # whatever a user's code raises
                raise UsageError(
                    f"{name_class(optimizer)}: its step fails, called without a closure: "
                    f"{show_error(error)}"
                ) from error

    states = [
        tensor for it in optimizers for tensor in _list_tensors(it.state) if tensor is not None
    ]
    values = [tensor.detach().clone() for tensor in states]
    try:
        yield step
    finally:
        before.put_back()
        with torch.no_grad():
            for tensor, content in zip(states, values, strict=True):
                tensor.copy_(content)
            for parameter, content, gradient in contents:
                parameter.copy_(content)
                parameter.grad = gradient


def run_steps(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Have each optimizer make its step."""
    for optimizer in optimizers:
        optimizer.step()


def name_class(optimizer: torch.optim.Optimizer) -> str:
    """Return the name of an optimizer's class, with its module's."""
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"


def _list_tensors(state: Mapping[Any, Any]) -> Iterator[Tensor]:
    for kept in state.values():
        values = kept.values() if isinstance(kept, dict) else [kept]
        yield from (value for value in values if isinstance(value, Tensor))


def list_kept(optimizers: Sequence[torch.optim.Optimizer], model: nn.Module) -> Kept:
    """Return all that optimizers keep, by the names that it has in a program's state."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found: Kept = {}
    for index, optimizer in enumerate(optimizers):
        shared = f"optimizer.{index}" if len(optimizers) > 1 else "optimizer"
        for key, kept in optimizer.state.items():
            name = names.get(id(key))
            place = f"optimizer.{name}" if name is not None else f"{shared}.{_name_key(key)}"
            entries = kept.items() if isinstance(kept, dict) else [("", kept)]
            found |= {f"{place}.{entry}".rstrip("."): value for entry, value in entries}
        for number, options in enumerate(optimizer.param_groups):
            others = {k: v for k, v in options.items() if k != "params"}
            found |= {f"{shared}.group{number}.{k}": v for k, v in others.items() if _is_kept(v)}
        attributes = {k: v for k, v in vars(optimizer).items() if k not in _OWN}
        found |= {f"{shared}.{k}": v for k, v in attributes.items() if _is_kept(v)}
    return found


def read_kept(observed: Observed, model: nn.Module) -> dict[str, Tensor]:
    """Return copies of the tensors that optimizers keep after a step, by their names."""
    kept = list_kept(observed.optimizers, model)
    found = {name: kept[name] for name in observed.tensors if isinstance(kept.get(name), Tensor)}
    begun = {BEGUN: torch.ones((), dtype=torch.bool)} if observed.is_late else {}
    return _copy_tensors(found) | begun


def _name_key(key: Any) -> str:
    return key if isinstance(key, str) else type(key).__name__


def _is_kept(value: Any) -> bool:
    """Return whether an option or attribute is a number, which a step may change."""
    return isinstance(value, (int, float, Tensor))


def _get_form(value: Any) -> Any:
    return (value.shape, value.dtype) if isinstance(value, Tensor) else None


def _require_steady(seen: Sequence[Kept]) -> None:
    """Refuse what changes from step to step and is no tensor, or changes its form."""
    first, *others = seen
    for other in others:
        for name in [*first, *(name for name in other if name not in first)]:
            a, b = first.get(name), other.get(name)
            if isinstance(a, Tensor) or isinstance(b, Tensor):
                if _get_form(a) != _get_form(b):
                    raise UsageError(
                        f"{name}: a step changes its shape or its type; keep it as it is"
                    )
            elif isinstance(a, (list, dict, set)) or isinstance(b, (list, dict, set)):
                raise UsageError(f"{name}: it is a {type(b).__name__}; keep tensors only")
            elif a is not b and a != b:
                raise UsageError(
                    f"{name}: a step changes it from {show(a)} to {show(b)}, and a program has no "
                    "Python numbers; keep it as a tensor, and compute with it as one"
                )
