"""A Trainer's recipe means what its `train` means, and what it can't say is refused by name."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback
from transformers.loss.loss_utils import ForCausalLMLoss

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.interop import from_trainer
from tests.interop_helpers import (
    VOCABULARY,
    learn,
    make_arguments,
    make_cases,
    make_judge,
    make_speaker,
    make_texts,
    make_trainer,
    train,
)
from tests.quick import only


def count_errors(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> Any:
    """Return a loss of a user's own, divided by the labels of the whole update."""
    logits = outputs["logits"].flatten(0, 1)
    chosen = labels.flatten()
    return torch.nn.functional.cross_entropy(logits, chosen, reduction="sum") / num_items_in_batch


SETTINGS: dict[str, dict[str, Any]] = {
    "accumulated": {
        "gradient_accumulation_steps": 2,
        "warmup_steps": 2,
        "weight_decay": 0.1,
        "max_grad_norm": 0.5,
        "lr_scheduler_type": "cosine",
        "seed": 7,
        "num_train_epochs": 2,
        "max_steps": -1,
    },
    "plain": {"data_seed": 3},
    "in order, with SGD": {
        "train_sampling_strategy": "sequential",
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 3,
    },
    "own loss": {"compute_loss_func": count_errors, "gradient_accumulation_steps": 2},
}


class Bigram(torch.nn.Module):
    """A language model of the last token alone, which takes the loss and its count as others do."""

    loss_type = "ForCausalLM"

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.meanings = torch.nn.Embedding(VOCABULARY, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.head = torch.nn.Linear(4, VOCABULARY)

    def forward(
        self, input_ids: torch.Tensor, labels: torch.Tensor | None = None, **kwargs: Any
    ) -> dict[str, torch.Tensor]:
        """Return the logits, and the loss where there are labels."""
        logits = self.head(self.norm(self.meanings(input_ids)))
        if labels is None:
            return {"logits": logits}
        return {"loss": ForCausalLMLoss(logits, labels, VOCABULARY, **kwargs), "logits": logits}


@pytest.mark.parametrize(
    ("name", "model"),
    only([("accumulated", Bigram)], product(SETTINGS, (Bigram, make_speaker))),
)
def test_losses_are_those_of_train(name: str, model: Any, tmp_path: Path) -> None:
    """The losses of a program's first updates are those of the Trainer's own run."""
    trainer = make_trainer(tmp_path, model(), make_texts(8), **SETTINGS[name])
    expected = train(trainer)
    assert len(expected) == (4 if "num_train_epochs" in SETTINGS[name] else 6)
    found = learn(from_trainer(trainer), len(expected))
    assert found == pytest.approx(expected, rel=2e-5)
    assert max(found) - min(found) > 1e-2


class Regression(torch.nn.Module):
    """A module of a user's own, whose loss is a mean over a batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss and the answer."""
        answer = self.layer(x)
        return {"loss": (answer - labels).square().mean(), "logits": answer}


def make_points(count: int = 8) -> list[dict[str, torch.Tensor]]:
    """Return rows for a regression."""
    generator = torch.Generator().manual_seed(2)
    points = torch.randn(count, 3, generator=generator)
    return [{"x": point, "labels": point.sum(0, keepdim=True)} for point in points]


MODELS = [(make_judge, make_cases), (Regression, make_points)]


@pytest.mark.parametrize(("model", "rows"), only([(Regression, make_points)], MODELS))
def test_models_of_other_losses_train_likewise(model: Any, rows: Any, tmp_path: Path) -> None:
    """A classifier that counts its labels and a module that does not have Trainer's losses."""
    trainer = make_trainer(tmp_path, model(), rows(), gradient_accumulation_steps=2, max_steps=4)
    assert learn(from_trainer(trainer), 4) == pytest.approx(train(trainer), rel=2e-5)


@pytest.mark.slow
def test_a_recipe_of_a_trainer_is_rehearsed(tmp_path: Path) -> None:
    """The program is what eager torch does, the optimizer's groups and the schedule included."""
    trainer = make_trainer(tmp_path, weight_decay=0.1, warmup_steps=2, max_steps=4)
    captured = capture(from_trainer(trainer))
    assert captured.is_rehearsed
    names = [slot.name for slot in captured.program.batch]
    assert names == ["input_ids", "attention_mask", "labels", "num_items_in_batch"]


def test_the_trainer_can_be_used_as_before(tmp_path: Path) -> None:
    """To make a recipe trains nothing, and the Trainer makes an optimizer of its own later."""
    trainer = make_trainer(tmp_path, max_steps=2)
    before = {name: it.clone() for name, it in trainer.model.state_dict().items()}
    drawn = torch.get_rng_state()
    recipe = from_trainer(trainer)
    assert trainer.optimizer is None
    assert trainer.lr_scheduler is None
    assert torch.equal(torch.get_rng_state(), drawn)
    assert recipe.model is trainer.model
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_data_end_where_an_update_would_be_smaller(tmp_path: Path) -> None:
    """An epoch that no update divides is a recipe as long as it lasts, and is refused beyond."""
    rows = make_texts(7)
    recipe = from_trainer(make_trainer(tmp_path, rows=rows, max_steps=3))
    recipe.batch(2)
    with pytest.raises(StopIteration):
        recipe.batch(3)
    with pytest.raises(CannotTranslate, match=r"last batch has 1 rows.*dataloader_drop_last=True"):
        from_trainer(make_trainer(tmp_path, rows=rows, max_steps=4))
    with pytest.raises(CannotTranslate, match="the last of its updates fewer than 4"):
        from_trainer(make_trainer(tmp_path, gradient_accumulation_steps=4))


class Meddler(TrainerCallback):  # type: ignore[misc]  # the library's types are not read
    """A callback that changes the rate."""

    def on_step_end(self, *given: Any, **kwargs: Any) -> None:
        """Halve the rate."""
        del given
        kwargs["optimizer"].param_groups[0]["lr"] /= 2


class Shower(TrainerCallback):  # type: ignore[misc]  # the library's types are not read
    """A callback that shows something, and changes nothing."""

    def on_log(self, *given: Any, **kwargs: Any) -> None:
        """Show it."""


class OwnStep(Trainer):  # type: ignore[misc]  # the library's types are not read
    """A Trainer with a step of its own."""

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """Return half of the loss."""
        return super().training_step(*args, **kwargs) / 2


class OwnLoss(Trainer):  # type: ignore[misc]  # the library's types are not read
    """A Trainer with a loss of its own."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """Return the loss."""
        return super().compute_loss(*args, **kwargs)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "bf16": ({"bf16": True}, r"bf16=True changes its steps; leave it out, and choose set_prec"),
    "label smoothing": ({"label_smoothing_factor": 0.1}, "label_smoothing_factor=0.1"),
    "noise": ({"neftune_noise_alpha": 5.0}, "neftune_noise_alpha=5.0 changes its steps"),
    "compiled": ({"torch_compile": True}, "torch_compile=True"),
    "greedy": (
        {"lr_scheduler_type": "greedy", "eval_strategy": "steps", "eval_dataset": make_texts(2)},
        "lr_scheduler_type='greedy' changes its steps; choose a schedule that needs no",
    ),
    "lengths": ({"train_sampling_strategy": "group_by_length"}, "choose random or sequential"),
    "unseeded": (
        {"accelerator_config": {"use_seedable_sampler": False}},
        "use_seedable_sampler=False",
    ),
    "callback": ({"callbacks": [Meddler()]}, "callback Meddler acts in on_step_end"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_changes_the_step_is_refused_by_name(name: str, tmp_path: Path) -> None:
    """Arguments and callbacks that change a step are named in one line."""
    settings, words = REFUSED[name]
    with pytest.raises(CannotTranslate, match=words) as caught:
        from_trainer(make_trainer(tmp_path, **settings))
    assert "\n" not in str(caught.value)
    assert caught.value.subject == "the Trainer"


def test_what_only_looks_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """Callbacks that show, save or stop are left out, and the recipe is the same."""
    callbacks = [Shower(), EarlyStoppingCallback()]
    assert from_trainer(make_trainer(tmp_path, callbacks=callbacks)).accumulate == 1


@pytest.mark.parametrize(("kind", "name"), [(OwnStep, "training_step"), (OwnLoss, "compute_loss")])
def test_steps_of_ones_own_are_refused(kind: type[Trainer], name: str, tmp_path: Path) -> None:
    """A Trainer that overrides a step or its loss is refused, and so is what is no Trainer."""
    trainer = kind(make_speaker(), make_arguments(tmp_path), train_dataset=make_texts())
    with pytest.raises(CannotTranslate, match=f"the Trainer {kind.__name__}: its {name} is its"):
        from_trainer(trainer)
    with pytest.raises(UsageError, match=r"the trainer is 7; give a transformers.Trainer"):
        from_trainer(7)


def test_random_collators_are_refused(tmp_path: Path) -> None:
    """A collator that draws is refused, since no two providers would have the same batches."""

    def hide(rows: Any) -> Any:
        tokens = torch.stack([row["input_ids"] for row in rows])
        return {"input_ids": tokens, "labels": torch.randint_like(tokens, 64)}

    with pytest.raises(CannotTranslate, match="function or the data set draws random numbers"):
        from_trainer(make_trainer(tmp_path, data_collator=hide))
    with pytest.raises(CannotTranslate, match="a batch is a list, and not a dictionary"):
        from_trainer(make_trainer(tmp_path, data_collator=lambda rows: [rows]))
