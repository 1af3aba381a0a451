"""A plain training loop's recipe has its losses and its weights, and goes back into its model."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.interop import from_loop, to_state_dict
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.subject import name_tensors
from tests.interop_helpers import ask, make_speaker, make_texts, run

compare = torch.nn.MSELoss()


def make_model() -> Any:
    """Return a model with a buffer that moves and a buffer that is not saved."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1)
    )
    model.register_buffer("unsaved", torch.ones(2), persistent=False)
    return model


def make_loader(rows: int = 12, seed: int | None = 5, **settings: Any) -> Any:
    """Return a loader that shuffles with a seed."""
    points = torch.randn(rows, 3, generator=torch.Generator().manual_seed(2))
    data = TensorDataset(points, points.sum(1, keepdim=True))
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return DataLoader(data, batch_size=4, generator=generator, **{"shuffle": True} | settings)


def make_scheduler(optimizer: torch.optim.Optimizer) -> Any:
    """Return a schedule that ends."""
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 12, cycle_momentum=False)


def loop(model: Any, loader: Any, steps: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Return the losses of a training loop, and the weights after it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = make_scheduler(optimizer)
    losses: list[float] = []
    while len(losses) < steps:
        for x, y in loader:
            value = compare(model(x), y)
            optimizer.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            losses.append(value.item())
    return losses, model.state_dict()


def make_recipe(model: Any, loader: Any, **settings: Any) -> TrainingRecipe:
    """Return the recipe of that loop."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = make_scheduler(optimizer)
    return from_loop(model, optimizer, loader, compare, scheduler, clip=ClipNorm(1.0), **settings)


def test_losses_and_weights_are_those_of_the_loop() -> None:
    """A program does what a loop of three epochs does, and its state is what the model loads."""
    model, steps = make_model(), 9
    recipe = make_recipe(copy.deepcopy(model), make_loader())
    captured = capture(recipe)
    losses, state = run(captured, steps)
    expected, weights = loop(model, make_loader(), steps)
    assert losses == pytest.approx(expected, rel=1e-4)
    found = to_state_dict(state, recipe)
    assert list(found) == list(weights)
    for name, tensor in weights.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.allclose(found[name], tensor, 1e-3, 1e-5)
    make_model().load_state_dict(found)
    kept = to_state_dict(state, captured)
    assert kept.keys() == {*found, "unsaved"}
    make_model().load_state_dict(kept, strict=False)
    with pytest.raises(UsageError, match="the state has 2 tensors, and the program"):
        to_state_dict(state[:2], captured)


@pytest.mark.parametrize("settings", [{"shuffle": False}, {"drop_last": True}])
def test_orders_are_the_loaders(settings: dict[str, Any]) -> None:
    """The batches of three epochs are those that the loader gives, asked for in any order."""
    rows = 12 if "drop_last" not in settings else 14
    recipe = make_recipe(make_model(), make_loader(rows, **settings))
    loader = make_loader(rows, **settings)
    expected = [batch for _ in range(3) for batch in loader]
    for number in (8, 0, 3, 5, 8):
        pairs = zip(recipe.batch(number), expected[number], strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)


def test_to_make_a_recipe_draws_nothing() -> None:
    """The loader of a recipe goes on as if nobody had asked it for a batch."""
    loader = make_loader()
    make_recipe(make_model(), loader).batch(4)
    assert torch.equal(next(iter(loader))[0], next(iter(make_loader()))[0])


def test_a_model_that_has_its_loss_needs_none() -> None:
    """A list of dictionaries and a model of the transformers library make a recipe."""
    names = ("input_ids", "labels")
    batches = [{name: row[name][None] for name in names} for row in make_texts(3)]
    model = make_speaker()
    recipe = from_loop(model, torch.optim.SGD(model.parameters(), 0.1), batches)
    assert ask(recipe).item() == model(**batches[0]).loss.item()
    assert torch.equal(recipe.batch(4)["labels"], batches[1]["labels"])


class Stream(IterableDataset[Any]):
    """A data set without indices."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


UNORDERED: dict[str, tuple[Any, str]] = {
    "iterator": (iter([]), "a list_iterator has batches that no number asks for"),
    "stream": (DataLoader(Stream()), "its data set Stream is a stream"),
    "unseeded": (make_loader(seed=None), r"it shuffles with whatever torch's own generator"),
    "weighted": (
        make_loader(shuffle=False, sampler=WeightedRandomSampler([1.0] * 12, 12)),
        "its sampler WeightedRandomSampler has an order that no number tells",
    ),
    "unbatched": (
        DataLoader(TensorDataset(torch.arange(2)), batch_size=None),
        "its batch sampler is none",
    ),
    "empty": ([], "it has no batch at all"),
    "smaller": (make_loader(13), "last batch has 1 rows, and the others more; choose drop_last"),
}


@pytest.mark.parametrize("name", UNORDERED)
def test_loaders_without_an_order_are_refused(name: str) -> None:
    """What no number tells is refused in one line, which says what to give."""
    loader, words = UNORDERED[name]
    with pytest.raises(CannotTranslate, match=f"the data loader: .*{words}") as caught:
        make_recipe(make_model(), loader)
    assert "\n" not in str(caught.value)


def test_a_short_loop_ends_before_the_smaller_batch() -> None:
    """A loop of so many updates needs no further batch, and there is none."""
    recipe = make_recipe(make_model(), make_loader(13), steps=3)
    recipe.batch(2)
    with pytest.raises(StopIteration):
        recipe.batch(3)
    with pytest.raises(UsageError, match=r"the loss is 3; give a function"):
        from_loop(make_model(), torch.optim.SGD([torch.ones(1)]), make_loader(), 3)  # type: ignore[arg-type]  # refused


def test_a_state_of_another_model_is_refused() -> None:
    """A state that does not fit the model, and what is no state, are refused by name."""
    recipe = make_recipe(make_model(), make_loader())
    state = [it.numpy() for it in name_tensors(recipe.model.requires_grad_(False)).values()]
    with pytest.raises(UsageError, match=r"parameter\.0\.weight has the shape"):
        to_state_dict([*state[1:], state[0]], recipe)
    with pytest.raises(UsageError, match="the state has 2 tensors, and the model"):
        to_state_dict(state[:2], recipe)
    with pytest.raises(UsageError, match="the source is 7; give a state, or a run"):
        to_state_dict(7, recipe)
    with pytest.raises(UsageError, match="the subject is 7; give the recipe"):
        to_state_dict(state, 7)


HELD = """
import torch
from transformers import Trainer

from tests.interop_helpers import make_speaker, make_texts, make_trainer
from moot.offchain.frontend.interop import from_trainer

trainer = make_trainer({folder!r}, max_steps=4)
recipe = from_trainer(trainer)


def make(seed):
    return make_trainer({folder!r}, seed=seed)


something = 3
"""


def test_a_file_may_hold_a_trainer_or_a_recipe(tmp_path: Path) -> None:
    """A name in a file may be a recipe, a Trainer, or a function that returns either."""
    file = tmp_path / "mine.py"
    file.write_text(HELD.format(folder=str(tmp_path)))
    recipes = [load_recipe(f"{file}:{name}", seed=9) for name in ("trainer", "recipe", "make")]
    assert all(isinstance(recipe, TrainingRecipe) for recipe in recipes)
    assert [recipe.seed for recipe in recipes] == [42, 42, 9]
    one, other, _ = (ask(recipe, 3).item() for recipe in recipes)
    assert one == other
    with pytest.raises(UsageError, match=r"unknown function in .* 'something'"):
        load_recipe(f"{file}:something")
