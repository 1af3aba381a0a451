"""Optimizers of users, which are traced as they are: what they keep is state of the program.

An object of `torch.optim.Optimizer` that has no translation makes a few steps on drawn gradients,
to see what it keeps. Tensors become part of the committed state, and so do numbers that change from
step to step. What there is before the first step is where the state begins. What is kept only from
then on begins as zeros that nothing reads: the first step is traced apart, and the flag BEGUN
chooses.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers.kept import Kept, Snapshot, list_entries, list_kept
from moot.offchain.frontend.subject import Subject
from moot.offchain.text import show, show_error

BEGUN = "optimizer.has_begun"
"""The flag of the state that says that a first step was made."""

_GRADIENTS = (2.0**-10, 2.0**-10, 1.0, 8.0)
"""The sizes of the gradients that are drawn, step by step."""

_LARGEST = 1 << 62
"""The largest whole number that a step may begin from."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What optimizers keep, as a program has it.

    Attributes:
        optimizers: the objects.
        start: what the state holds before the first step, by name.
        tensors: names of the state with the tensors that stand there, at the beginning or in the
            sample.
        numbers: names of the state where the optimizers have numbers.
        begun: what each optimizer keeps before its first step.
        sample: what each optimizer keeps after some steps, by which a later step is traced.
        is_late: whether the first step differs from later ones.
    """

    optimizers: Sequence[torch.optim.Optimizer]
    start: Mapping[str, Tensor]
    tensors: Sequence[tuple[str, Tensor]]
    numbers: frozenset[str]
    begun: Snapshot
    sample: Snapshot
    is_late: bool


_SEEN: WeakKeyDictionary[torch.optim.Optimizer, Observed] = WeakKeyDictionary()


def observe(
    optimizers: Sequence[torch.optim.Optimizer], subject: Subject, *, anew: bool = False
) -> Observed:
    """Return what optimizers keep; they and the model are left as they were.

    Args:
        optimizers: the optimizers.
        subject: the subject, whose model they train.
        anew: whether both may have changed since they were last asked for.

    Raises:
        UsageError: a step fails, or keeps what a program can't have.
    """
    found = None if anew else _SEEN.get(optimizers[0])
    if found is None:
        with _borrowed(optimizers, subject) as step:
            found = _observe(optimizers, subject, step)
        _SEEN[optimizers[0]] = found
    return found


def _observe(
    optimizers: Sequence[torch.optim.Optimizer], subject: Subject, step: Callable[[float], None]
) -> Observed:
    begun, at_first = Snapshot(optimizers, subject), list_kept(optimizers, subject)
    seen = [_copy(at_first)]
    for size in _GRADIENTS:
        step(size)
        seen.append(_copy(list_kept(optimizers, subject)))
    _require_steady(seen[1:])
    kept = list_kept(optimizers, subject)
    numbers = frozenset(it for it in kept if not _has_tensor(kept, it) and _changes(seen[1:], it))
    forms = _tabulate(seen[1:], numbers)
    is_late = any(_is_other(seen[0], seen[1], name, numbers) for name in {**seen[0], **seen[1]})
    start = {name: _get_start(seen[0].get(name), form) for name, form in forms.items()}
    tensors = [
        (name, tensors[name])
        for tensors in (at_first, kept)
        for name in forms
        if _has_tensor(tensors, name) and _get_form(tensors[name]) == _get_form(forms[name])
    ]
    start |= {BEGUN: torch.zeros((), dtype=torch.bool)} if is_late else {}
    sample = Snapshot(optimizers, subject)
    return Observed(optimizers, start, tensors, numbers, begun, sample, is_late)


def _tabulate(seen: Sequence[Kept], numbers: frozenset[str]) -> dict[str, Tensor]:
    """Return a tensor of the form that each name of the state has."""
    last = seen[-1]
    return {
        name: last[name]
        if _has_tensor(last, name)
        else _as_tensor([kept[name] for kept in seen], name)
        for name in last
        if _has_tensor(last, name) or name in numbers
    }


def _as_tensor(values: Sequence[Any], name: str) -> Tensor:
    """Return a tensor of the form that can hold each of some numbers."""
    if all(isinstance(value, (bool, np.bool_)) for value in values):
        return torch.zeros((), dtype=torch.bool)
    if all(isinstance(value, (int, np.integer)) for value in values):
        if any(abs(value) > _LARGEST for value in values):
            raise UsageError(
                f"{name}: {show(values[-1])} is too large a number; keep a smaller one"
            )
        return torch.zeros((), dtype=torch.int64)
    return torch.zeros((), dtype=torch.float32)


def _get_start(value: Any, form: Tensor) -> Tensor:
    """Return what stands in the state before the first step: zeros for what is not there yet."""
    if isinstance(value, Tensor) and _get_form(value) == _get_form(form):
        return value
    if not form.ndim and not isinstance(value, Tensor) and _is_number(value):
        return torch.full((), value, dtype=form.dtype)
    return torch.zeros_like(form)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.number))


def _copy(kept: Kept) -> Kept:
    return {
        k: v.detach().clone() if isinstance(v, Tensor) else v.copy() if _is_open(v) else v
        for k, v in kept.items()
    }


def _is_open(value: Any) -> bool:
    """Return whether a value that is no tensor may change where it is."""
    return isinstance(value, (np.ndarray, set))


@contextmanager
def _borrowed(
    optimizers: Sequence[torch.optim.Optimizer], subject: Subject
) -> Iterator[Callable[[float], None]]:
    """Give a function that makes a step on drawn gradients; all is as it was in the end."""
    parameters = [p for p in subject.parameters.values() if p.requires_grad]
    contents = [(p, p.detach().clone(), p.grad) for p in parameters]
    before, generator = Snapshot(optimizers, subject), torch.Generator().manual_seed(0)

    def step(size: float) -> None:
        for parameter in parameters:
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.grad = (drawn * size).to(parameter.dtype)
        for optimizer in optimizers:
            try:
                optimizer.step()
            except Exception as error:  # whatever a user's code raises
                raise UsageError(
                    f"{name_class(optimizer)}: its step fails, called without a closure: "
                    f"{show_error(error)}"
                ) from error

    entries = list_entries(optimizers, subject)
    values = [(it.value, _copy({"": it.value})[""]) for it in entries]
    generators = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - the user's code may draw from it
    try:
        yield step
    finally:
        torch.set_rng_state(generators[0])
        random.setstate(generators[1])
        np.random.set_state(generators[2])  # noqa: NPY002 - likewise
        before.put_back()
        with torch.no_grad():
            for value, content in values:
                _restore(value, content)
            for parameter, content, gradient in contents:
                parameter.copy_(content)
                parameter.grad = gradient


def _restore(value: Any, content: Any) -> None:
    """Put the content of a tensor, an array or a set back."""
    if isinstance(value, Tensor):
        value.detach().copy_(content)
    elif isinstance(value, np.ndarray):
        value[...] = content
    elif isinstance(value, set):
        value.clear()
        value.update(content)


def run_steps(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Have each optimizer make its step."""
    for optimizer in optimizers:
        optimizer.step()


def name_class(optimizer: torch.optim.Optimizer) -> str:
    """Return the name of an optimizer's class, with its module's."""
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"


def read_kept(observed: Observed, subject: Subject) -> dict[str, Tensor]:
    """Return copies of what optimizers keep after a step, by their names, as a program has it.

    What belongs to a parameter without a gradient is not there, and begins as it was.
    """
    kept, found = list_kept(observed.optimizers, subject), dict[str, Tensor]()
    for name, start in observed.start.items():
        value = kept.get(name)
        if isinstance(value, Tensor):
            found[name] = value.detach().clone()
        else:
            found[name] = start.clone() if value is None else _get_start(value, start)
    return found | ({BEGUN: torch.ones((), dtype=torch.bool)} if observed.is_late else {})


def _has_tensor(kept: Kept, name: str) -> bool:
    return isinstance(kept.get(name), Tensor)


def _get_form(value: Any) -> tuple[torch.Size, torch.dtype] | None:
    return (value.shape, value.dtype) if isinstance(value, Tensor) else None


def _is_equal(a: Any, b: Any) -> bool:
    """Return whether two values that are no tensors are equal."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(type(a) is type(b) and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(a is b or a == b or (a != a and b != b))  # noqa: PLR0124 - NaN


def _changes(seen: Sequence[Kept], name: str) -> bool:
    """Return whether a value that is no tensor changes from one step to another."""
    return any(not _is_equal(seen[0].get(name), kept.get(name)) for kept in seen[1:])


def _is_other(before: Kept, after: Kept, name: str, numbers: frozenset[str]) -> bool:
    """Return whether the first step makes something else of what is kept under a name."""
    a, b = before.get(name), after.get(name)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return _get_form(a) != _get_form(b)
    if name in numbers:
        return not _is_number(a)
    return (name in before) != (name in after) or not _is_equal(a, b)


def _require_steady(seen: Sequence[Kept]) -> None:
    """Refuse what changes from step to step and is no tensor or number, or changes its form."""
    first, *others = seen
    for other in others:
        for name in [*first, *(name for name in other if name not in first)]:
            a, b = first.get(name), other.get(name)
            if isinstance(a, Tensor) or isinstance(b, Tensor):
                if _get_form(a) != _get_form(b):
                    raise UsageError(
                        f"{name}: a step changes its shape or its type; keep it as it is"
                    )
            elif not _is_equal(a, b) and not (_is_number(a) and _is_number(b)):
                raise UsageError(
                    f"{name}: a step changes it from {show(a)} to {show(b)}; keep what changes as "
                    "a tensor or a number"
                )
