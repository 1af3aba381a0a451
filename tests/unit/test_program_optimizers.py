"""Optimizers against torch's own, step by step."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

from offchain.programs.optimizers import SGD, Adam, AdamW, Optimizer

STEPS = 120

Reference = Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]

PAIRS: dict[str, tuple[Optimizer, Reference]] = {
    "sgd": (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd momentum": (SGD(0.05, momentum=0.9), lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)),
    "sgd nesterov": (
        SGD(0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    ),
    "adam": (Adam(), torch.optim.Adam),
    "adam decay": (
        Adam(1e-2, 0.8, 0.95, 1e-6, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, 1e-2, (0.8, 0.95), 1e-6, weight_decay=0.1),
    ),
    "adamw": (AdamW(1e-2), lambda p: torch.optim.AdamW(p, 1e-2)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_updates_follow_torch(name: str) -> None:
    """After each of many steps with the same gradients the parameters are torch's, to rounding."""
    optimizer, make_reference = PAIRS[name]
    generator = torch.Generator().manual_seed(1)
    parameter = torch.randn(40, generator=generator)
    leaf = parameter.clone().requires_grad_()
    reference = make_reference([leaf])
    moments = [torch.zeros_like(parameter) for _ in optimizer.moments]
    counters = {name: torch.ones(()) for name in optimizer.counters}
    for _ in range(STEPS):
        gradient = torch.randn(40, generator=generator) + parameter.sign()
        counters = optimizer.advance(counters)
        parameter, updated = optimizer.update(parameter, gradient, moments, counters)
        moments = list(updated)
        leaf.grad = gradient
        reference.step()
        torch.testing.assert_close(parameter, leaf.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PAIRS)
def test_another_rate_is_noticed(name: str) -> None:
    """The comparison is sharp: a learning rate that is off by a thousandth fails it."""
    optimizer, make_reference = PAIRS[name]
    off: Any = type(optimizer)(
        **{field: getattr(optimizer, field) for field in optimizer.__dataclass_fields__}  # type: ignore[attr-defined]  # all are dataclasses
        | {"learning_rate": optimizer.learning_rate * 1.001}  # type: ignore[attr-defined]  # likewise
    )
    parameter = torch.ones(4)
    leaf = parameter.clone().requires_grad_()
    reference = make_reference([leaf])
    moments = [torch.zeros_like(parameter) for _ in off.moments]
    counters = {name: torch.ones(()) for name in off.counters}
    for _ in range(STEPS):
        counters = off.advance(counters)
        parameter, moments = off.update(parameter, torch.ones(4), moments, counters)
        leaf.grad = torch.ones(4)
        reference.step()
    assert not torch.allclose(parameter, leaf.detach(), rtol=1e-4, atol=1e-5)
