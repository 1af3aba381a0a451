"""Optimizers against torch's own, step by step."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch

from moot.offchain.errors import UsageError
from moot.offchain.frontend.optimizers import (
    ASGD,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lion,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
    find_group,
)
from moot.offchain.frontend.optimizers.translation import Ascent, translate
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from moot.offchain.frontend.schedules import LinearDecay
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.updates import check_optimizer
from tests.quick import every, only

STEPS = 120

Reference = Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]


class PaperLion(torch.optim.Optimizer):
    """Lion as its paper's second algorithm has it, in torch's style."""

    def __init__(self, params: Any, lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all parameters."""
        assert closure is None
        for group in self.param_groups:
            for p in group["params"]:
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                update = torch.sign(torch.lerp(p.grad, mean, 0.9))
                p.sub_(group["lr"] * (update + group["weight_decay"] * p))
                mean.lerp_(p.grad, 1 - 0.99)


PAIRS: dict[str, tuple[Any, Reference]] = {
    "sgd": (SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd momentum": (SGD(0.05, momentum=0.9), lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)),
    "sgd nesterov": (
        SGD(0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    ),
    "sgd dampening": (
        SGD(0.05, momentum=0.9, weight_decay=0.01, dampening=0.3),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01, dampening=0.3),
    ),
    "adam": (Adam(), torch.optim.Adam),
    "adam decay": (
        Adam(1e-2, 0.8, 0.95, 1e-6, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, 1e-2, (0.8, 0.95), 1e-6, weight_decay=0.1),
    ),
    "adamw": (AdamW(1e-2), lambda p: torch.optim.AdamW(p, 1e-2)),
    "adam amsgrad": (
        Adam(1e-2, amsgrad=True),
        lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True),
    ),
    "nadam": (NAdam(1e-2), lambda p: torch.optim.NAdam(p, 1e-2)),
    "nadam decoupled": (
        NAdam(1e-2, weight_decay=0.1, decoupled=True),
        lambda p: torch.optim.NAdam(p, 1e-2, weight_decay=0.1, decoupled_weight_decay=True),
    ),
    "radam": (RAdam(1e-2), lambda p: torch.optim.RAdam(p, 1e-2)),
    "radam beta2": (
        RAdam(1e-2, 0.8, 0.9, weight_decay=0.1),
        lambda p: torch.optim.RAdam(p, 1e-2, (0.8, 0.9), weight_decay=0.1),
    ),
    "adamax": (Adamax(1e-2), lambda p: torch.optim.Adamax(p, 1e-2)),
    "rmsprop": (RMSprop(1e-2), lambda p: torch.optim.RMSprop(p, 1e-2)),
    "rmsprop centered": (
        RMSprop(1e-2, 0.9, 1e-4, 0.1, 0.8, centered=True),
        lambda p: torch.optim.RMSprop(p, 1e-2, 0.9, 1e-4, 0.1, 0.8, centered=True),
    ),
    "adagrad": (
        Adagrad(0.1, 0.01, 0.1, 0.5),
        lambda p: torch.optim.Adagrad(p, 0.1, 0.01, 0.1, 0.5),
    ),
    "adadelta": (Adadelta(0.5), lambda p: torch.optim.Adadelta(p, 0.5)),
    "rprop": (Rprop(), torch.optim.Rprop),
    "asgd": (ASGD(start=3), lambda p: torch.optim.ASGD(p, t0=3)),
    "lion": (Lion(1e-3, weight_decay=0.1), lambda p: PaperLion(p, 1e-3, 0.1)),
    "adafactor": (Adafactor(), torch.optim.Adafactor),
    "adafactor decay": (
        Adafactor(0.05, 0.7, (1e-6, 1e-2), 2.0, 0.1),
        lambda p: torch.optim.Adafactor(p, 0.05, -0.7, (1e-6, 1e-2), 2.0, 0.1),
    ),
}


def assert_follows(
    optimizer: Optimizer, make_reference: Reference, shape: tuple[int, ...], scale: float = 1.0
) -> None:
    """Assert that many updates by random gradients leave the reference's parameters."""
    generator = torch.Generator().manual_seed(1)
    parameter = torch.randn(shape, generator=generator)
    leaf = parameter.clone().requires_grad_()
    reference = make_reference([leaf])
    moments = optimizer.make_moments(parameter)
    counters = optimizer.make_counters()
    for _ in range(STEPS):
        gradient = scale * (torch.randn(shape, generator=generator) + parameter.sign())
        numbers = optimizer.advance(counters)
        counters = {name: torch.as_tensor(numbers[name]) for name in counters}
        parameter, moments = optimizer.update(parameter, gradient, moments, numbers)
        leaf.grad = gradient
        reference.step()
        torch.testing.assert_close(parameter, leaf.detach(), rtol=1e-4, atol=1e-5)


SHAPES = {1: (40,), 2: (6, 7), 3: (3, 4, 5), 0: ()}
"""By rank."""


@pytest.mark.parametrize("rank", only({2}, SHAPES))
@pytest.mark.parametrize("name", every(6, PAIRS))
def test_updates_follow_torch(name: str, rank: int) -> None:
    """After each of many steps with the same gradients the parameters are torch's, to rounding."""
    assert_follows(*PAIRS[name], SHAPES[rank])


def make_subject(model: torch.nn.Module) -> Subject:
    """Return a subject of which nothing but the model matters."""
    return Subject.of(InferenceRecipe(model, torch.nn.Module.__call__, lambda _: ()))


TRANSLATED = [name for name in PAIRS if name != "lion"]


@pytest.mark.parametrize("name", TRANSLATED)
def test_objects_are_translated(name: str) -> None:
    """An optimizer object of torch means the one of ours that follows it, option by option."""
    expected, make = PAIRS[name]
    model = torch.nn.Linear(2, 3)
    (group,) = translate([make(model.parameters())], make_subject(model))
    assert group.optimizer == expected
    assert all(group.matches(name) for name, _ in model.named_parameters())


def test_groups_are_translated() -> None:
    """Each group has its options, and what the optimizer was not given stays as it is."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    options = [{"params": [model[0].weight], "lr": 0.5}, {"params": [model[0].bias]}]
    groups = translate([torch.optim.SGD(options, 0.1, maximize=True)], make_subject(model))
    first, second, rest = (groups[find_group(groups, n)] for n in ("0.weight", "0.bias", "1.bias"))
    assert (first.optimizer, second.optimizer) == (Ascent(SGD(0.5)), Ascent(SGD(0.1)))
    x = torch.ones(2)
    assert rest.optimizer.update(x, x, {}, rest.optimizer.advance({})) == (x, {})


def _step(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return optimizer


def _schedule(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    torch.optim.lr_scheduler.StepLR(optimizer, 3)
    return optimizer


REFUSED: dict[str, tuple[Callable[[Any], torch.optim.Optimizer], str]] = {
    "steps": (lambda p: _step(torch.optim.RAdam(p)), "has made steps already; give a new one"),
    "scheduler": (lambda p: _schedule(torch.optim.AdamW(p)), "a scheduler of torch"),
    "strangers": (lambda _: torch.optim.SGD([torch.ones(4)], 0.1), "shape (4,) is none of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_translation(name: str) -> None:
    """What an object could not mean as part of a step is refused by its name."""
    make, message = REFUSED[name]
    model = torch.nn.Linear(2, 3)
    recipe = TrainingRecipe(model, torch.nn.functional.mse_loss, make(model.parameters()), ())
    with pytest.raises(UsageError, match=re.escape(message)):
        check_optimizer(Subject.of(recipe))


TINY = [("adam", 1e-20), ("adamw", 1e-20), ("adafactor", 1e-20), ("adafactor decay", 1e-7)]


@pytest.mark.parametrize(("name", "scale"), TINY)
def test_tiny_gradients(name: str, scale: float) -> None:
    """Gradients below epsilon, or with subnormal squares, update as torch's, which keeps them."""
    assert_follows(*PAIRS[name], (6, 7), scale)


@pytest.mark.parametrize("name", [name for name in PAIRS if name not in {"adafactor", "rprop"}])
def test_another_rate_is_noticed(name: str) -> None:
    """The comparison is sharp: a learning rate that is off by a hundredth fails it."""
    optimizer, make_reference = PAIRS[name]
    off = replace(optimizer, learning_rate=optimizer.learning_rate * 1.01)
    with pytest.raises(AssertionError, match="Mismatched"):
        assert_follows(off, make_reference, (6, 7))


def test_moments_have_the_shapes_of_their_factors() -> None:
    """Adafactor keeps a column and a row for a matrix, and as much as Adam for a vector."""
    shapes = {k: tuple(x.shape) for k, x in Adafactor().make_moments(torch.ones(2, 3, 4)).items()}
    assert shapes == {"rows": (2, 3, 1), "columns": (2, 1, 4)}
    assert Adafactor().make_moments(torch.ones(5))["second_moment"].shape == (5,)
    assert sorted(SGD(0.1, momentum=0.1).make_moments(torch.ones(5))) == ["momentum"]
    assert SGD(0.1).make_moments(torch.ones(5)) == {}


def test_counters() -> None:
    """Only what needs the number of updates counts them: schedules, Adam, Adafactor, dampening."""
    schedule = LinearDecay(0.1, 5)
    assert SGD(0.1, momentum=0.5).make_counters() == {}
    assert sorted(SGD(0.1, momentum=0.5, dampening=0.5).make_counters()) == ["is_damped"]
    assert sorted(SGD(schedule).make_counters()) == ["updates"]
    assert sorted(Adam().make_counters()) == ["beta1_power", "beta2_power"]
    assert sorted(AdamW(schedule).make_counters()) == ["beta1_power", "beta2_power", "updates"]
    assert sorted(Lion(schedule).make_counters()) == ["updates"]
    assert sorted(Adafactor(schedule).make_counters()) == ["count", "updates"]


NONSENSE: dict[str, tuple[Callable[[], object], str]] = {
    "negative rate": (lambda: SGD(-0.1), "learning rate is -0.1"),
    "infinite rate": (lambda: Lion(float("inf")), "finite"),
    "no rate": (lambda: AdamW(float("nan")), "learning rate is nan"),
    "momentum": (lambda: SGD(0.1, momentum=-1), "momentum"),
    "nesterov": (lambda: SGD(0.1, nesterov=True), "Nesterov's method needs a momentum"),
    "nesterov dampening": (
        lambda: SGD(0.1, momentum=0.9, dampening=0.1, nesterov=True),
        "no dampening",
    ),
    "beta1": (lambda: Adam(beta1=1.0), r"beta1 is 1.0; choose a number that is in \[0, 1\)"),
    "beta2": (lambda: AdamW(beta2=-0.1), "beta2"),
    "smoothing": (lambda: RMSprop(smoothing=-1), "smoothing"),
    "rate decay": (lambda: Adagrad(rate_decay=-1), "rate decay"),
    "epsilon": (lambda: Adam(epsilon=-1), "epsilon"),
    "weight decay": (lambda: Lion(weight_decay=-1), "weight decay"),
    "lion beta": (lambda: Lion(beta2=1.5), "beta2"),
    "adafactor epsilon": (lambda: Adafactor(epsilon=(-1.0, 1.0)), "epsilon"),
    "adafactor decay": (lambda: Adafactor(decay=-0.8), "the decay"),
    "adafactor clip": (lambda: Adafactor(clip=0.5), "choose at least 1"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name: str) -> None:
    """Parameters that make no sense are refused, with what to choose instead."""
    make, message = NONSENSE[name]
    with pytest.raises(UsageError, match=message):
        make()
