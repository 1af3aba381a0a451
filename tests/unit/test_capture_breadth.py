"""What users bring to capture: batches, results, schedulers and layers as their loops have them."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from transformers import BatchEncoding, BertConfig, BertForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from offchain.errors import CaptureError, UsageError
from offchain.frontend.capture import Captured, capture
from offchain.frontend.recipe import InferenceRecipe, TrainingRecipe


def make_points(step: int) -> Tensor:
    """Return points."""
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(step))


def make_recipe(loss: Callable[..., Any], batch: Any) -> TrainingRecipe:
    """Return a recipe of a linear layer."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    return TrainingRecipe(model, loss, torch.optim.SGD(model.parameters(), 0.1), batch)


def name_inputs(captured: Captured) -> list[str]:
    """Return the names of a program's batch tensors."""
    return [slot.name for slot in captured.program.batch]


class Pair(NamedTuple):
    """A batch as a named tuple."""

    x: Tensor
    y: Tensor


@dataclass
class Sample:
    """A batch as a dataclass, with another container in it."""

    x: Tensor
    targets: dict[str, Any]


def compare(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return a loss."""
    return nn.functional.mse_loss(model(x), y)


def tag(x: Tensor) -> dict[str, Any]:
    """Return targets, with what is the same in all batches."""
    return {"all": [x[:, :2], (x[:, 2:],)], "kind": "points", "mask": None, "is_train": True}


FORMS: dict[str, tuple[Callable[[Tensor], Any], Callable[..., Any], list[str]]] = {
    "dict": (
        lambda x: {"x": x, "y": x[:, :2]},
        lambda m, batch: compare(m, **batch),
        ["x", "y"],
    ),
    "ordered": (
        lambda x: OrderedDict(x=x, y=x[:, :2]),
        lambda m, b: compare(m, **b) * isinstance(b, OrderedDict),
        ["x", "y"],
    ),
    "named tuple": (
        lambda x: Pair(x, x[:, :2]),
        lambda m, batch: compare(m, batch.x, batch.y),
        ["x", "y"],
    ),
    "dataclass": (
        lambda x: Sample(x, tag(x)),
        lambda m, batch: compare(m, batch.x, batch.targets["all"][1][0]),
        ["x", "targets.all.0", "targets.all.1.0"],
    ),
    "nested tuple": (
        lambda x: (x, {"all": [x[:, :2]], "none": None}),
        lambda m, x, rest: compare(m, x, rest["all"][0]),
        ["x", "rest.all.0"],
    ),
    "encoding": (
        lambda x: BatchEncoding({"x": x, "y": x[:, :2]}),
        lambda m, batch: compare(m, batch.x, batch["y"]),
        ["x", "y"],
    ),
    "output": (
        lambda x: SequenceClassifierOutput(loss=x[:, :2], logits=x),
        lambda m, batch: compare(m, batch.logits, batch["loss"]),
        ["loss", "logits"],
    ),
    "tensor": (lambda x: x, lambda m, x: m(x).square().mean(), ["input.0"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_batches_have_their_form(form: str) -> None:
    """A loss gets a batch as the batch function has made it, and the rehearsal compares both."""
    make, loss, names = FORMS[form]
    captured = capture(make_recipe(loss, lambda step: make(make_points(step))))
    assert name_inputs(captured) == names


def test_batches_of_a_form_are_accumulated() -> None:
    """Each of the batches that a step accumulates has its form."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    recipe = TrainingRecipe(
        model,
        lambda m, batch: compare(m, **batch),
        torch.optim.SGD(model.parameters(), 0.1),
        lambda step: {"x": make_points(step), "y": make_points(step)[:, :2]},
        accumulate=2,
    )
    assert name_inputs(capture(recipe)) == ["x.0", "y.0", "x.1", "y.1"]


def test_a_batch_of_another_form_is_refused() -> None:
    """A batch with another key, or with another constant, is refused by what differs."""
    renamed = make_recipe(
        lambda m, batch: m(next(iter(batch.values()))).sum(),
        lambda step: {f"x{min(step, 1)}": make_points(step)},
    )
    with pytest.raises(CaptureError, match=r"^batch\(1\) is a dict of x1, but batch\(0\) is .* x0"):
        capture(renamed)
    changed = make_recipe(
        lambda m, batch: m(batch["x"]).sum(),
        lambda step: {"x": make_points(step), "at": f"line {step}"},
    )
    with pytest.raises(CaptureError, match=r"^batch\(1\) has 'line 1' at at, and batch\(0\) 'line"):
        capture(changed)


def test_a_number_in_a_batch_is_refused_by_its_place() -> None:
    """What is no tensor is refused, and the line says where it is."""
    recipe = make_recipe(lambda m, b: m(b["x"]).sum(), lambda s: {"x": make_points(s), "n": [3]})
    with pytest.raises(UsageError, match=r"^batch\(0\) has a int in it, at n\.0; return tensors"):
        capture(recipe)


def test_a_loss_that_takes_other_arguments_is_refused() -> None:
    """A dictionary is one argument, and a loss with one for each key is refused in one line."""
    recipe = make_recipe(compare, lambda s: {"x": make_points(s), "y": make_points(s)})
    with pytest.raises(UsageError, match=r"can't take its batches: .*'y'; batch\(0\) is a dict,"):
        capture(recipe)


def make_classifier() -> nn.Module:
    """Return a model of the transformers library."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=11,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
    )
    return BertForSequenceClassification(config)


def make_tokens(step: int) -> BatchEncoding:
    """Return a batch as a tokenizer and a collator make it."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(11, (3, 5), generator=generator)
    mask = torch.ones_like(tokens)
    return BatchEncoding({"input_ids": tokens, "attention_mask": mask, "labels": tokens[:, 0] % 2})


def test_a_model_of_transformers_is_its_own_loss() -> None:
    """The usual loop, `model(**batch).loss`, needs no more: the loss is found in the output."""
    model = make_classifier()
    captured = capture(
        TrainingRecipe(
            model,
            lambda model, batch: model(**batch),
            torch.optim.AdamW(model.parameters(), lr=1e-3),
            make_tokens,
        )
    )
    assert name_inputs(captured) == ["input_ids", "attention_mask", "labels"]


def test_all_tensors_of_an_output_are_outputs() -> None:
    """An inference returns the tensors that lie in an output, in order."""
    recipe = InferenceRecipe(make_classifier().eval(), lambda m, b: m(**b), make_tokens)
    slots = capture(recipe).program.state
    outputs = [slot.shape for slot in slots if slot.name.startswith("output.")]
    assert outputs == [(), (3, 2)]
