"""The steps of the user's own optimizers, beside which a program's updates are rehearsed."""

from collections.abc import Callable, Mapping, Sequence

import torch

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers.observed import name_class, read_kept, run_steps
from moot.offchain.frontend.optimizers.timetables import check_schedulers, run_schedulers
from moot.offchain.frontend.optimizers.translation import is_recognised, read_moments
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.updates import (
    SCHEDULED_UPDATES,
    advance_counters,
    find_observed,
    limit,
    optimize,
)

Tensors = Mapping[str, torch.Tensor]

Step = Callable[[Subject, Tensors, Tensors], dict[str, torch.Tensor]]
"""(subject, state, gradients by parameter) -> the tensors of the state that the updates change."""


def step_as_user(subject: Subject, state: Tensors, gradients: Tensors) -> dict[str, torch.Tensor]:
    """Return the tensors of the state that the user's own updates change.

    Objects of torch step themselves, on the model's parameters, which then have their old content
    again; what they keep stays with them. An optimizer of ours has the program's step only.

    Args:
        subject: the recipe's.
        state: the state before the updates.
        gradients: the gradients, by the names of their parameters.
    """
    optimizers, limited = subject.optimizers, limit(subject.training, gradients)
    if not optimizers:
        return optimize(subject, state, limited)
    parameters = subject.parameters
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    for name, parameter in parameters.items():
        # A step may write to its gradient, which is a result of its own.
        parameter.grad = limited[name].clone() if name in limited else None
    run_steps(optimizers)
    run_schedulers(check_schedulers(subject.training.scheduler, optimizers))
    new = {f"parameter.{n}": parameters[n].detach().clone() for n in gradients}
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(before[name])
    observed = find_observed(subject)
    kept = read_kept(observed, subject) if observed else {}
    counters = advance_counters(subject, state, gradients)
    if SCHEDULED_UPDATES in state:
        counters[SCHEDULED_UPDATES] = state[SCHEDULED_UPDATES] + 1
    return new | _read_moments(optimizers, parameters) | counters | kept


def step_as_program(
    subject: Subject, state: Tensors, gradients: Tensors
) -> dict[str, torch.Tensor]:
    """Return the tensors of the state that the program's updates change; see `step_as_user`.

    Raises:
        UsageError: an optimizer has steps that are known from tracing only.
    """
    observed = find_observed(subject)
    if observed is not None:
        raise UsageError(
            f"{name_class(observed.optimizers[0])}: it steps on the model itself, and not from a "
            "state that is given; choose one of torch.optim as it is, or one of ours"
        )
    return optimize(subject, state, limit(subject.training, gradients))


def _read_moments(
    optimizers: Sequence[torch.optim.Optimizer], parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """Return what recognised optimizers keep of parameters, as the program names it."""
    return {
        f"optimizer.{name}.{moment}": tensor.detach().clone()
        for optimizer in optimizers
        if is_recognised(optimizer)
        for name, parameter in parameters.items()
        for moment, tensor in read_moments(optimizer, parameter).items()
    }
