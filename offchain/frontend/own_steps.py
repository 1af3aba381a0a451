"""The steps of a user's own optimizers in a traced step of a recipe."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers.kept import Entry, Snapshot, list_entries, list_groups
from moot.offchain.frontend.optimizers.observed import BEGUN, Observed, run_steps
from moot.offchain.frontend.own_numbers import Numbers, computing_with_tensors
from moot.offchain.frontend.subject import Subject

Tensors = Mapping[str, Tensor]

DIFFERENTIABLE = "differentiable"
"""The option by which torch's own classes compute with the count of their steps as a tensor."""


def trace_own_steps(
    observed: Observed,
    subject: Subject,
    traced: Tensors,
    gradients: Tensors,
    follow: Callable[[Tensor], Tensor],
    scheduled: Mapping[int, Sequence[Mapping[str, Any]]],
) -> dict[str, Tensor]:
    """Return the tensors of the state that the optimizers' steps change, traced.

    Args:
        observed: the optimizers, and what they keep.
        subject: the subject, whose parameters they have.
        traced: what stands for the state's tensors, by name; steps change these in place.
        gradients: the gradients, by the names of their parameters.
        follow: returns what stands for a tensor.
        scheduled: options that schedulers have changed, by the `id` of an optimizer and by group.
    """
    before = Snapshot(observed.optimizers, subject)
    contents = {name: tensor.clone() for name, tensor in traced.items()}
    generator = torch.get_rng_state()
    own = _OwnSteps(observed, subject, traced, gradients, follow, scheduled)
    try:
        first = own.run_first() if observed.is_late else {}
        if first:
            for name, content in contents.items():
                traced[name].copy_(content)
            torch.set_rng_state(generator)  # one of the two steps draws
        later = own.run_later()
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


class _OwnSteps:
    """The steps of optimizers, which can be traced from what they keep before the first and later.

    The arguments are those of `trace_own_steps`.
    """

    def __init__(
        self,
        observed: Observed,
        subject: Subject,
        traced: Tensors,
        gradients: Tensors,
        follow: Callable[[Tensor], Tensor],
        scheduled: Mapping[int, Sequence[Mapping[str, Any]]],
    ) -> None:
        self._observed, self._subject, self._traced = observed, subject, traced
        self._gradients, self._follow, self._scheduled = gradients, follow, scheduled
        owned = {id(p) for it in observed.optimizers for g in it.param_groups for p in g["params"]}
        self._parameters = {n: p for n, p in subject.parameters.items() if id(p) in owned}

    def run_first(self) -> dict[str, Tensor]:
        """Return the state after a first step, which begins with the numbers that there are."""
        self._observed.begun.put_back()
        return self._run([])

    def run_later(self) -> dict[str, Tensor]:
        """Return the state after any later step, or after any where the first is like them."""
        self._observed.sample.put_back()
        numbers = []
        for entry in list_entries(self._observed.optimizers, self._subject):
            if entry.name in self._observed.numbers:
                numbers.append(self._traced[entry.name].clone())
                _write(entry, numbers[-1])
        return self._run(numbers)

    def _run(self, numbers: Sequence[Tensor]) -> dict[str, Tensor]:
        optimizers = self._observed.optimizers
        for name, parameter in self._parameters.items():
            # A step may write to its gradient, which is a result of the program's.
            gradient = self._gradients.get(name)
            parameter.grad = None if gradient is None else gradient.clone()
        for optimizer in optimizers:
            for options, changed in zip(
                optimizer.param_groups, self._scheduled.get(id(optimizer), ()), strict=False
            ):
                options.update(changed)
        for options in list_groups(optimizers, self._subject):
            if DIFFERENTIABLE in options:
                options[DIFFERENTIABLE] = True
        with computing_with_tensors(optimizers, Numbers(numbers, self._is_traced)):
            run_steps(optimizers)
        learned = {
            f"parameter.{name}": self._traced[f"parameter.{name}"].clone()
            for name in self._parameters
            if name in self._gradients
        }
        return learned | self._read()

    def _is_traced(self, tensor: Tensor) -> bool:
        return isinstance(self._follow(tensor), FakeTensor)

    def _read(self) -> dict[str, Tensor]:
        """Return what the optimizers keep, where the state has it."""
        start, found = self._observed.start, dict[str, Tensor]()
        rates = {id(it) for groups in self._scheduled.values() for g in groups for it in g.values()}
        for entry in list_entries(self._observed.optimizers, self._subject):
            name, value = entry.name, entry.value
            if id(value) in rates:
                continue
            if name not in start and isinstance(value, FakeTensor):
                raise UsageError(
                    f"{name}: some steps change this number, and others not; keep it as a tensor"
                )
            if name in start and isinstance(value, Tensor):
                found[name] = self._follow(value).to(start[name].dtype).clone()
            elif name in self._observed.numbers:
                found[name] = torch.full((), value, dtype=start[name].dtype)
        return found


def _write(entry: Entry, number: Tensor) -> None:
    """Put a tensor in the place of a number."""
    try:
        entry.write(number)
    except TypeError as error:
        raise UsageError(
            f"{entry.name}: a step changes this number in a tuple; keep it in a list or a "
            "dictionary"
        ) from error
