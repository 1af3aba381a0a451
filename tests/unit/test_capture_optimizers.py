"""Optimizers of users: what trains a model in torch trains it in the program, or is refused."""

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.optimizers.kept import list_kept
from moot.offchain.frontend.optimizers.translation import TRANSLATIONS, Translation
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.subject import Subject
from tests.quick import every

STEPS = 6

Make = Callable[[nn.Module], Any]


def make_batch(step: int) -> tuple[torch.Tensor, ...]:
    """Return a batch."""
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    return x, x[:, :2].sin()


def make_recipe(make: Make) -> TrainingRecipe:
    """Return a recipe of a small model with an optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    return TrainingRecipe(
        model, lambda m, x, y: nn.functional.mse_loss(m(x), y), make(model), make_batch
    )


class Stranger(torch.optim.Optimizer):
    """The base of optimizers that are a rule for one parameter."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all parameters."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, self.state[parameter], group["lr"])

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""


class SGD(torch.optim.SGD):
    """A class with a familiar name, which clamps gradients in place."""

    def step(self, closure: Any = None) -> Any:
        """Update all parameters."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.clamp_(-0.01, 0.01)
        return super().step(closure)


class Lion(Stranger):
    """Lion as its authors wrote it."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        if not kept:
            kept["exp_avg"] = torch.zeros_like(p)
        mean = kept["exp_avg"]
        p.mul_(1 - rate * 0.1).add_((mean * 0.9 + p.grad * 0.1).sign_(), alpha=-rate / 50)
        mean.mul_(0.99).add_(p.grad, alpha=0.01)


class Lookahead(Stranger):
    """A first step that differs from the others, and slow copies of the weights."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        if "mean" not in kept:
            kept["mean"], kept["slow"] = p.grad.clone(), p.clone()
        else:
            kept["mean"].mul_(0.9).add_(p.grad)
        p.sub_(kept["mean"] * rate)
        kept["slow"].lerp_(p, 0.5)
        p.copy_(kept["slow"])


class Counting(Stranger):
    """A rate that falls with a count, which is a tensor."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        kept.setdefault("step", torch.zeros(())).add_(1)
        p.sub_(p.grad * rate / kept["step"])


class Muon(Stranger):
    """Muon in its author's form."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        mean = kept.setdefault("momentum_buffer", torch.zeros_like(p))
        mean.lerp_(p.grad, 0.05)
        x = p.grad.lerp_(mean, 0.95).bfloat16()
        x = x.mT if p.size(-2) > p.size(-1) else x
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            gram = x @ x.mT
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        x = x.mT if p.size(-2) > p.size(-1) else x
        p.add_(x.reshape(p.shape), alpha=-rate / 5 * max(1, p.size(-2) / p.size(-1)) ** 0.5)


class Begun(Stranger):
    """State from the beginning, in lists of its own and among that of later steps."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.begun = [torch.full_like(p, 0.5) for p in self.param_groups[0]["params"]]
        for p in self.param_groups[0]["params"]:
            self.state[p]["mean"] = torch.full_like(p, 0.01)

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        size = self.begun[[q is p for q in self.param_groups[0]["params"]].index(True)]
        if "late" not in kept:
            kept["late"] = p.grad.clone()
        kept["mean"].lerp_(p.grad + kept["late"], 0.1)
        p.sub_(kept["mean"] * rate * size)
        size.mul_(0.9)


class Corrected(Stranger):
    """Adam with a count of Python's, and a rate that warms up and falls."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        if not kept:
            kept.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
        before = kept["step"]
        kept["step"] += 1
        kept["m"].mul_(0.9).add_(p.grad, alpha=0.1)
        kept["v"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
        size = rate / 5 * min(1.0, (before + 1) / 3) / (1 - 0.9 ** kept["step"])
        root = (kept["v"].sqrt() / math.sqrt(1 - 0.99 ** kept["step"])).add_(1e-6)
        p.addcdiv_(kept["m"], root, value=-size)
        self.param_groups[0]["lr"] *= 0.99


class Ahead(torch.optim.Optimizer):
    """An optimizer around another one, whose groups it has."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        self.slow = {p: p.detach().clone() for p in inner.param_groups[0]["params"]}
        super().__init__(inner.param_groups, {})

    def step(self, closure: Any = None) -> Any:
        """Update all parameters."""
        self.inner.step(closure)
        with torch.no_grad():
            for parameter, slow in self.slow.items():
                slow.lerp_(parameter, 0.5)
                parameter.copy_(slow)


class Adam(torch.optim.Adam):
    """A subclass that changes nothing."""


def _replace_step(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    step = optimizer.step

    def clip_first(closure: Any = None) -> Any:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        return step(closure)

    optimizer.step = clip_first  # type: ignore[method-assign]  # as users do
    return optimizer


def _hook(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def halve(*_: Any) -> None:
        for parameter in model.parameters():
            parameter.grad.mul_(0.5)

    optimizer.register_step_pre_hook(halve)
    return optimizer


def _continue(kind: Any, model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer of torch that has made steps."""
    optimizer: torch.optim.Optimizer = kind(model.parameters(), 1e-2)
    for step in range(3):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 0.1 * step)
        optimizer.step()
    optimizer.zero_grad()
    return optimizer


def _split(model: nn.Module, of_matrices: Callable[[Any], Any]) -> list[torch.optim.Optimizer]:
    parameters = list(model.parameters())
    others = torch.optim.AdamW([p for p in parameters if p.ndim != 2], 1e-2)
    return [of_matrices([p for p in parameters if p.ndim == 2]), others]


RIGHT: dict[str, Make] = {
    "familiar name": lambda m: SGD(m.parameters(), 0.3),
    "replaced step": _replace_step,
    "hook": _hook,
    "subclass": lambda m: Adam(m.parameters(), 1e-2),
    "lion": lambda m: Lion(m.parameters()),
    "first step": lambda m: Lookahead(m.parameters()),
    "count": lambda m: Counting(m.parameters()),
    "muon's author": lambda m: _split(m, Muon),
    "muon of torch": lambda m: _split(m, lambda p: torch.optim.Muon(p, 1e-2)),
    "some parameters": lambda m: Lion(list(m.parameters())[:2]),
    "from the beginning": lambda m: Begun(m.parameters()),
    "numbers of Python's": lambda m: Corrected(m.parameters()),
    "an optimizer inside": lambda m: Ahead(torch.optim.Adam(m.parameters(), 1e-2)),
    "earlier steps": lambda m: _continue(torch.optim.AdamW, m),
}


@pytest.mark.parametrize("name", every(24, RIGHT))
def test_a_program_trains_as_the_users_own_object(name: str) -> None:
    """After some steps the program's parameters are those that the object itself comes to."""
    recipe = make_recipe(RIGHT[name])
    captured = capture(recipe)
    state, executor = list(captured.initial_state), Executor(captured.program)
    given: Any = recipe.optimizer
    for step in range(STEPS):
        executor.advance(state, captured.batch(step), step)
        x, y = make_batch(step)
        recipe.model.zero_grad()
        recipe.loss(recipe.model, x, y).backward()  # type: ignore[no-untyped-call]  # torch's
        for optimizer in given if isinstance(given, list) else [given]:
            optimizer.step()
    tensors = dict(zip((slot.name for slot in captured.program.state), state, strict=True))
    for key, parameter in recipe.model.named_parameters():
        found = torch.from_numpy(tensors[f"parameter.{key}"])
        torch.testing.assert_close(found, parameter.detach(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    "name", every(8, ["lion", "hook", "from the beginning", "numbers of Python's"])
)
def test_an_optimizer_is_left_as_it_was(name: str) -> None:
    """After capture an optimizer has made no step, and no parameter has moved or has a gradient."""
    recipe = make_recipe(RIGHT[name])
    optimizers: Any = [recipe.optimizer]
    before = [parameter.detach().clone() for parameter in recipe.model.parameters()]
    kept = copy.deepcopy(list_kept(optimizers, Subject.of(recipe)))
    capture(recipe)
    after = list_kept(optimizers, Subject.of(recipe))
    assert after.keys() == kept.keys()
    for key, value in kept.items():
        is_tensor = isinstance(value, torch.Tensor)
        assert torch.equal(after[key], value) if is_tensor else after[key] == value, key
    for parameter, content in zip(recipe.model.parameters(), before, strict=True):
        assert torch.equal(parameter, content)
        assert parameter.grad is None


class EverySecond(Stranger):
    """A decision by a count that is a number of Python's."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        kept["step"] = kept.get("step", 0) + 1
        if kept["step"] % 2:
            p.sub_(p.grad * rate)


class Paired(Stranger):
    """A count in a tuple."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        kept["pair"] = (kept.get("pair", (0, 0))[0] + 1, 1)
        p.sub_(p.grad * rate / kept["pair"][0])


class Named(Stranger):
    """A text that a step changes."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        kept["name"] = kept.get("name", "") + "x"
        p.sub_(p.grad * rate)


class Peeking(Stranger):
    """A decision by the elements of a gradient."""

    def update(self, p: Any, kept: dict[str, Any], rate: float) -> None:
        """Update one parameter."""
        del kept
        if p.grad.norm() > 1:
            p.sub_(p.grad * rate)


def _give_twice(model: nn.Module) -> list[torch.optim.Optimizer]:
    parameters = list(model.parameters())
    return [torch.optim.SGD(parameters, 0.1), torch.optim.AdamW(parameters[:1])]


REFUSED: dict[str, tuple[Make, str]] = {
    "count": (
        lambda m: EverySecond(m.parameters()),
        ' if kept["step"] % 2:',
    ),
    "tuple": (
        lambda m: Paired(m.parameters()),
        "optimizer.0.weight.pair.0: a step changes this number in a tuple; keep it in a list",
    ),
    "text": (
        lambda m: Named(m.parameters()),
        "optimizer.0.weight.name: a step changes it from 'x' to 'xx'; keep what changes as",
    ),
    "earlier steps": (
        lambda m: _continue(torch.optim.RAdam, m),
        "RAdam: the optimizer has made steps already; give a new one",
    ),
    "decision": (lambda m: Peeking(m.parameters()), "the program would depend on data"),
    "closure": (lambda m: torch.optim.LBFGS(m.parameters()), "called without a closure"),
    "sparse": (lambda m: torch.optim.SparseAdam(list(m.parameters())), "dense gradients"),
    "twice": (_give_twice, "two optimizers have the parameter 0.weight"),
    "class": (lambda _: torch.optim.SGD, "the optimizer is the class SGD; give an object"),
    "none": (lambda _: None, "the optimizer is None; give an object"),
    "word": (lambda _: "adam", "the optimizer is 'adam'; give an object"),
    "nothing": (lambda _: [], "the optimizer is []; give an object"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_program_can_step_is_refused(name: str) -> None:
    """An optimizer whose steps are no program is refused in one line."""
    make, message = REFUSED[name]
    with pytest.raises((CaptureError, UsageError)) as caught:
        capture(make_recipe(make))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def _list_mutants() -> Iterator[Any]:
    for kind in TRANSLATIONS:
        for word in ("parameter", "moment"):
            yield kind, word


def _mutate(translation: Translation, word: str, amount: float) -> Translation:
    """Return a translation whose updates, or what they keep, are off by so much."""

    def make(get: Any) -> Any:
        inner = translation.make(get)

        def update(p: Any, gradient: Any, moments: Any, numbers: Any) -> Any:
            new, kept = inner.update(p, gradient, moments, numbers)
            if word == "parameter":
                return p + (new - p) * (1 + amount), kept
            return new, {name: tensor * (1 + amount) for name, tensor in kept.items()}

        wrong = mock.Mock(wraps=inner)
        wrong.update = update
        return wrong

    return Translation(make, translation.moments)


@pytest.mark.parametrize(("kind", "word"), every(30, _list_mutants()))
def test_a_wrong_translation_is_seen(kind: type[torch.optim.Optimizer], word: str) -> None:
    """The rehearsal, which steps with torch's own object, finds a translation that is off."""
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    options |= {"maximize": True} if kind is torch.optim.Adam else {}
    rate = 1.0 if kind is torch.optim.Adadelta else 0.05
    # The products of Muon are rounded to bfloat16, which hides what is less.
    amount = 1.0 if kind is torch.optim.Muon else 0.01

    def make(model: nn.Module) -> torch.optim.Optimizer:
        return kind([p for p in model.parameters() if p.ndim == 2], lr=rate, **options)

    recipe = make_recipe(make)
    changed = {kind: _mutate(TRANSLATIONS[kind], word, amount)}
    with (
        mock.patch.dict(TRANSLATIONS, changed),  # type: ignore[arg-type]  # a dict at run time
        pytest.raises(CaptureError, match="which rounding does not explain"),
    ):
        capture(recipe)
