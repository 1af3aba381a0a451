"""Descriptions of recipes: what changes them, and what has none."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MethodType, ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from moot.offchain.frontend.capture.description import IndescribableError, describe_recipe
from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.optimizers import SGD, AdamW, Group, everything
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe, get_batch
from moot.offchain.frontend.schedules import CosineDecay
from moot.offchain.frontend.subject import Subject
from moot.offchain.programs.catalogue import NAMES


@dataclass
class Config:
    """Settings of a model, in an object that its modules share."""

    scale: float = 0.5
    names: dict[str, list[int]] = field(default_factory=lambda: {"a": [1, 2]})


class Model(nn.Module):
    """Two layers with all kinds of attributes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = Config()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.drop = nn.Dropout(0.1)
        self.act = functional.gelu
        self.factor, self.table, self.kinds = 2.0, [1.0, 2.0], {"x", "y"}
        self.constant = torch.tensor([1.0, 2.0, 3.0])
        self.array = np.ones(3)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return three numbers for each row."""
        found: torch.Tensor = self.act(self.first(self.drop(x))) * self.factor
        return self.second(found) + self.constant

    def other(self, x: torch.Tensor) -> torch.Tensor:
        """Return something else."""
        return self.first(x)  # type: ignore[no-any-return]  # a module returns anything


def compute_loss(model: nn.Module, x: torch.Tensor, power: int = 2) -> torch.Tensor:
    """Return a loss."""
    return (model(x) ** power).mean()


def _compute_another(model: nn.Module, x: torch.Tensor, power: int = 2) -> torch.Tensor:
    return (model(x) ** power).sum()


def make_recipe(change: Callable[[Any], object] = lambda _: None) -> TrainingRecipe:
    """Return a recipe whose model was changed."""
    model = Model()
    change(model)
    return TrainingRecipe(model, compute_loss, SGD(0.1), lambda step: (torch.full((2, 3), step),))


def describe(recipe: Recipe) -> str:
    """Return a recipe's description."""
    return describe_recipe(Subject.of(recipe), get_batch(recipe, 0))


def test_a_recipe_is_described_by_content() -> None:
    """Another object of the same content is the same, whatever its weights and batches hold."""

    def reweigh(model: Model) -> None:
        with torch.no_grad():
            model.first.weight.add_(1)
            model.count.add_(1)  # type: ignore[operator]  # torch's types say Module, too

    assert describe(make_recipe()) == describe(make_recipe())
    assert describe(make_recipe(reweigh)) == describe(make_recipe())
    other = replace(make_recipe(), batch=lambda _: (torch.ones(2, 3, dtype=torch.int64),))
    assert describe(other) == describe(make_recipe())


def test_a_hash_of_python_is_not_content() -> None:
    """The hash of itself that a library's object keeps, which each process draws, says nothing."""

    def remember(model: Model, number: int) -> None:
        model._original_object_hash = number

    own = [describe(make_recipe(lambda m: remember(m, hash(m)))) for _ in range(2)]
    other = describe(make_recipe(lambda m: remember(m, hash(m) + 1)))
    assert own[0] == own[1] != other


def _tie(model: Model) -> None:
    model.second.weight = model.first.weight


def _turn(model: Model) -> None:
    model.second.weight = nn.Parameter(model.second.weight.t())


def _reorder(model: Model) -> None:
    model._modules["first"] = model._modules.pop("first")


def _view(model: Model) -> None:
    model.constant = model.second.bias.detach()


MODELS: dict[str, Callable[[Any], object]] = {
    "number": lambda model: setattr(model, "factor", 3.0),
    "type of a number": lambda model: setattr(model, "factor", 2),
    "sign of zero": lambda model: model.table.append(-0.0),
    "zero": lambda model: model.table.append(0.0),
    "entry of a list": lambda model: model.table.__setitem__(0, 1.5),
    "set": lambda model: model.kinds.add("z"),
    "config": lambda model: setattr(model.config, "scale", 0.25),
    "config, deep": lambda model: model.config.names["a"].append(3),
    "config's class": lambda model: setattr(model.config, "more", None),
    "dropout": lambda model: setattr(model.drop, "p", 0.2),
    "mode": lambda model: model.drop.eval(),
    "activation": lambda model: setattr(model, "act", functional.relu),
    "activation of two": lambda model: setattr(model, "act", partial(functional.gelu)),
    "options": lambda m: setattr(m, "act", partial(functional.gelu, approximate="tanh")),
    "constant": lambda model: model.constant.__setitem__(0, 1.5),
    "array": lambda model: model.array.__setitem__(0, 1.5),
    "constant's type": lambda model: setattr(model, "constant", model.constant.double()),
    "view of a weight": _view,
    "frozen": lambda model: model.first.weight.requires_grad_(False),
    "tied": _tie,
    "strides": _turn,
    "bias": lambda model: setattr(model.second, "bias", None),
    "buffer": lambda model: model.register_buffer("more", torch.zeros(1)),
    "buffer's type": lambda model: setattr(model, "count", torch.zeros(3, dtype=torch.int64)),
    "module": lambda model: model.add_module("third", nn.Linear(3, 3)),
    "module's class": lambda model: setattr(model, "drop", nn.AlphaDropout(0.1)),
    "order": _reorder,
    "method of an object": lambda m: setattr(m, "forward", MethodType(Model.other, m)),
    "attribute of a weight": lambda model: setattr(model.first.weight, "kind", "a"),
    "type": lambda model: model.bfloat16(),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_has_tells_it_apart(name: str) -> None:
    """Whatever a step may read of a model, apart from its weights' elements, is in it."""
    assert describe(make_recipe(MODELS[name])) != describe(make_recipe())


def test_changes_are_told_from_each_other() -> None:
    """No two of them are the same."""
    found = [describe(make_recipe(change)) for change in MODELS.values()]
    assert len({*found}) == len(found)


def _enclose(power: int) -> Callable[..., torch.Tensor]:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return (model(x) ** power).mean()

    return loss


RECIPES: dict[str, Callable[[TrainingRecipe], Recipe]] = {
    "rate": lambda recipe: replace(recipe, optimizer=SGD(0.2)),
    "momentum": lambda recipe: replace(recipe, optimizer=SGD(0.1, momentum=0.9)),
    "optimizer": lambda recipe: replace(recipe, optimizer=AdamW(0.1)),
    "schedule": lambda recipe: replace(recipe, optimizer=AdamW(CosineDecay(0.1, 10))),
    "other schedule": lambda recipe: replace(recipe, optimizer=AdamW(CosineDecay(0.1, 11))),
    "groups": lambda recipe: replace(recipe, optimizer=(Group(everything, SGD(0.1)),)),
    "torch's": lambda r: replace(r, optimizer=torch.optim.SGD(r.model.parameters(), 0.1)),
    "torch's rate": lambda r: replace(r, optimizer=torch.optim.SGD(r.model.parameters(), 0.2)),
    "clip": lambda recipe: replace(recipe, clip=ClipNorm(1.0)),
    "accumulate": lambda recipe: replace(recipe, accumulate=2),
    "seed": lambda recipe: replace(recipe, seed=1),
    "loss": lambda recipe: replace(recipe, loss=lambda model, x: model(x).mean()),
    "same loss of elsewhere": lambda recipe: replace(recipe, loss=_enclose(2)),
    "closure": lambda recipe: replace(recipe, loss=_enclose(3)),
    "part": lambda recipe: replace(recipe, loss=partial(compute_loss, power=3)),
    "precision": lambda recipe: set_precision(recipe, "bf16"),
    "inference": lambda recipe: InferenceRecipe(recipe.model, compute_loss, recipe.batch),
    "batch's shape": lambda recipe: replace(recipe, batch=lambda _: (torch.ones(3, 3),)),
    "batch's type": lambda recipe: replace(recipe, batch=lambda _: (torch.ones(2, 3),)),
    "batches": lambda recipe: replace(recipe, batch=lambda _: (torch.ones(2, 3),) * 2),
}


def test_what_a_recipe_has_tells_it_apart() -> None:
    """Its functions with what they enclose, its optimizer, its numbers, the form of its batch."""
    found = [describe(change(make_recipe())) for change in (lambda r: r, *RECIPES.values())]
    assert len({*found}) == len(found)


def test_code_tells_it_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that was replaced in a class, a default of a function, and its code are seen."""
    found = [describe(make_recipe())]
    for change in (
        lambda m: m.setattr(Model, "forward", Model.other),
        lambda m: m.setattr(nn.Linear, "forward", lambda _, x: x),
        lambda m: m.setattr(nn.Module, "extra", property(lambda _: 1), raising=False),
        lambda m: m.setattr(nn.Dropout, "__constants__", ["p"]),
        lambda m: m.setattr(compute_loss, "__defaults__", (3,)),
        lambda m: m.setattr(compute_loss, "__code__", _compute_another.__code__),
    ):
        with monkeypatch.context() as patched:
            change(patched)
            found.append(describe(make_recipe()))
    assert len({*found}) == len(found)
    assert describe(make_recipe()) == found[0]


def _hook(*_: object) -> None:
    """Do nothing, as a hook."""


def _parametrize(model: Model) -> None:
    parametrize.register_parametrization(model.first, "weight", nn.Identity())


def _localize(model: Model) -> None:
    class Local(Model):
        pass

    model.__class__ = Local


def _subclass(model: Model) -> None:
    model.constant = model.constant.as_subclass(type("Strange", (torch.Tensor,), {}))


def _learn(model: Model) -> None:
    compute_loss(model, torch.ones(2, 3)).backward()  # type: ignore[no-untyped-call]  # torch's is untyped


INDESCRIBABLE: dict[str, Callable[[Any], object]] = {
    "hook": lambda model: model.first.register_forward_hook(_hook),
    "hook before": lambda model: model.register_forward_pre_hook(_hook),
    "hook backward": lambda model: model.register_full_backward_hook(_hook),
    "hook of a weight": lambda model: model.first.weight.register_hook(_hook),
    "hook of a gradient": lambda m: m.first.weight.register_post_accumulate_grad_hook(_hook),
    "gradient": _learn,
    "parametrization": _parametrize,
    "local class": _localize,
    "tensor of another class": _subclass,
    "sparse": lambda model: setattr(model, "constant", torch.eye(3).to_sparse()),
    "meta": lambda model: setattr(model, "constant", torch.empty(3, device="meta")),
    "derived": lambda model: setattr(model, "constant", model.first.weight * 2),
    "generator": lambda model: setattr(model, "rng", torch.Generator()),
    "generator of numpy": lambda model: setattr(model, "rng", np.random.default_rng(0)),
    "lock": lambda model: setattr(model, "lock", threading.Lock()),
    "iterator": lambda model: setattr(model, "numbers", iter([1])),
    "list of a class's own": lambda m: setattr(m, "table", type("Own", (list,), {})()),
    "object of the library": lambda model: setattr(model, "path", Path()),
    "objects array": lambda model: setattr(model, "array", np.array([None])),
    "method of a list": lambda model: setattr(model, "act", model.table.append),
    "module": lambda model: setattr(model, "made", type("M", (ModuleType,), {})("made")),
    "set of objects": lambda model: model.kinds.add(compute_loss),
}


@pytest.mark.parametrize("name", INDESCRIBABLE)
def test_what_has_no_description(name: str) -> None:
    """What holds content that is not seen is not described; neither is what hooks may do."""
    with pytest.raises(IndescribableError):
        describe(make_recipe(INDESCRIBABLE[name]))


@pytest.mark.parametrize("name", NAMES)
def test_examples_have_descriptions(name: str) -> None:
    """Each example is described, as the same whenever it is made, and as another with a seed."""
    pytest.importorskip("transformers")
    first, again, other = (describe(load_recipe(name, seed=seed)) for seed in (0, 0, 1))
    assert first == again != other
