"""The subject of a capture: names are found out once, and looked at again on purpose only."""

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

from moot.offchain.errors import UsageError
from moot.offchain.frontend.capture import capture, captured
from moot.offchain.frontend.capture.draft import Start
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe
from moot.offchain.frontend.subject import Subject, name_tensors

TORCH = "torch/nn/modules/module.py"
"""The file whose functions walk through the tensors of a model."""

AGAIN = {
    "capture": 1,  # after the first batch was asked for
    "_Step._get_state": 2,  # after each of two tracings
    "refuse_trained": 1,  # when a batch function is asked again
    "EagerRun._calling": 3,  # after each step of the rehearsal
}
"""Who looks again in a capture that is compared with torch, and how often."""


class Sign(torch.optim.Optimizer):
    """An optimizer of a user's own, which keeps a mean of gradients."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, _closure: Any = None) -> None:
        """Update all parameters."""
        for parameter in self.param_groups[0]["params"]:
            mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
            mean.lerp_(parameter.grad, 0.5)
            parameter.sub_(mean.sign(), alpha=0.01)


def make_two(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Return an optimizer for each of the model's parameters."""
    weight, bias = model.parameters()
    return [torch.optim.SGD([weight], 0.1, momentum=0.9), torch.optim.AdamW([bias])]


def train(make: Callable[[nn.Module], Any], model: nn.Module | None = None) -> Recipe:
    """Return a recipe that trains a model, a small one by default."""
    model = nn.Linear(3, 2) if model is None else model
    return TrainingRecipe(model, lambda m, x: m(x).square().mean(), make(model), make_batch)


def make_batch(step: int) -> tuple[torch.Tensor, ...]:
    """Return a batch."""
    return (torch.arange(12.0).reshape(4, 3) / 8 - step,)


RECIPES: dict[str, Callable[[], Recipe]] = {
    "inference": lambda: InferenceRecipe(nn.BatchNorm1d(3), lambda m, x: m(x), make_batch),
    "torch's": lambda: train(lambda m: torch.optim.Adam(m.parameters())),
    "several": lambda: train(make_two),
    "a user's": lambda: train(lambda m: Sign(m.parameters())),
}


class Walks:
    """Counts who walks through the tensors of a recipe's model, from outside of torch.

    Attributes:
        counts: how often, by the function; parameters and buffers of one subject are one walk.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.counts: Counter[str] = Counter()
        plain = nn.Module._named_members

        def see(module: nn.Module, *args: Any, **options: Any) -> Any:
            if module is recipe.model:
                self._note()
            return plain(module, *args, **options)

        self._patch = mock.patch.object(nn.Module, "_named_members", see)

    def _note(self) -> None:
        frame = sys._getframe(2)
        while frame.f_code.co_filename.endswith(TORCH) and frame.f_back is not None:
            frame = frame.f_back
        names = []
        while frame.f_back is not None and frame.f_code.co_qualname.startswith("Subject."):
            names.append(frame.f_code.co_qualname)
            frame = frame.f_back
        is_again = "Subject.look_again" in names
        kind = "again" if is_again else "of" if names else "by itself"
        self.counts[f"{kind} {frame.f_code.co_qualname}"] += 1

    def capture(self, recipe: Recipe, *, trust: bool) -> dict[str, float]:
        """Capture a recipe, and return how often each function has walked."""
        with self._patch:
            capture(recipe, trust=trust)
        return {who: count / 2 for who, count in self.counts.items()}


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize("name", RECIPES)
def test_names_are_found_out_once(name: str, *, trust: bool) -> None:
    """One walk makes the subject, and the others are those that look again on purpose."""
    recipe = RECIPES[name]()
    again = {f"again {who}": count for who, count in AGAIN.items()}
    if trust:
        again.pop("again EagerRun._calling")
    assert Walks(recipe).capture(recipe, trust=trust) == {"of check_recipe": 1, **again}


def test_a_place_that_names_them_anew_would_be_seen() -> None:
    """A function of the capture that walks by itself, or makes a subject of its own, is counted."""
    recipe, plain = RECIPES["inference"](), captured.refuse_written

    def walk(start: Start) -> None:
        name_tensors(start.subject.model)
        Subject.of(start.subject.recipe)
        plain(start)

    with mock.patch.object(captured, "refuse_written", walk):
        counts = Walks(recipe).capture(recipe, trust=True)
    here = f"{test_a_place_that_names_them_anew_would_be_seen.__name__}.<locals>.walk"
    assert counts[f"of {here}"] == counts["by itself name_tensors"] == 1


class Replacing(nn.Module):
    """A model that puts another tensor in the place of its buffer in every step."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Count, and weigh by the count."""
        self.count = self.count + 1
        result: torch.Tensor = x * self.weight * self.count
        return result


def test_a_subject_looks_again() -> None:
    """A buffer in whose place the model has put another one is the other one from then on."""
    recipe = train(lambda m: torch.optim.SGD(m.parameters(), 0.1), Replacing())
    subject = Subject.of(recipe)
    recipe.model(torch.ones(3))
    again = subject.look_again()
    assert subject.tensors["buffer.count"] == 0
    assert again.tensors["buffer.count"] == 1
    assert again.parameters["weight"] is subject.parameters["weight"]


@pytest.mark.parametrize("trust", [True, False])
def test_a_step_may_replace_a_buffer(*, trust: bool) -> None:
    """The program has the buffer in its state, and the model has its own one again."""
    recipe = train(lambda m: torch.optim.SGD(m.parameters(), 0.1), Replacing())
    before = name_tensors(recipe.model)
    program = capture(recipe, trust=trust).program
    assert [slot.name for slot in program.state[:2]] == [*before]
    after = name_tensors(recipe.model)
    assert all(after[name] is tensor for name, tensor in before.items())
    assert after["buffer.count"] == 0


def test_a_batch_function_that_replaces_what_is_trained_is_refused() -> None:
    """A parameter that the optimizer does not have any more is named in one line."""
    model = nn.Linear(3, 1)

    def replace_weight(_: int) -> tuple[torch.Tensor]:
        if not hasattr(model, "is_replaced"):
            model.is_replaced = True
            model.weight = nn.Parameter(model.weight.detach().clone())
        return (torch.ones(2, 3),)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recipe = TrainingRecipe(model, lambda m, x: m(x).square().mean(), optimizer, replace_weight)
    with pytest.raises(UsageError, match=r"a parameter of shape \(1, 3\) is none of the model's"):
        capture(recipe)


def test_a_batch_function_may_complete_the_model() -> None:
    """What the first call of a batch function registers is in the state: the names are later."""
    model = nn.Linear(3, 2)

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        if not hasattr(model, "scale"):
            model.register_buffer("scale", torch.full((), 2.0))
        return make_batch(step)

    recipe = InferenceRecipe(model, lambda m, x: m(x) * m.scale, batch)
    slots = [slot.name for slot in capture(recipe).program.state]
    assert slots[:3] == ["parameter.weight", "parameter.bias", "buffer.scale"]


def test_a_tied_tensor_has_one_name() -> None:
    """A tensor that a model has twice is named once, by its first name, and so is a slot."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    recipe = InferenceRecipe(model, lambda m, x: m(x), make_batch)
    subject = Subject.of(recipe)
    assert [*subject.parameters] == ["0.weight", "0.bias", "1.bias"]
    assert subject.owners[id(model[1].weight)] == "0.weight"
    assert subject.optimizers == []
