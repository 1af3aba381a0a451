"""Items: the labels of a whole update, which divide the losses of its batches in a Trainer."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from moot.offchain.frontend.data import IGNORED
from moot.offchain.frontend.recipe import Batch

ITEMS = "num_items_in_batch"
"""The argument of a model's forward that has the number of labels of a whole update."""


def make_count(trainer: Any, batches: Batch, accumulate: int) -> Callable[[int], int] | None:
    """Return the function that counts the labels of an update; None where `train` counts none."""
    takes_items = trainer.model_accepts_loss_kwargs or trainer.compute_loss_func is not None
    first = batches(0)
    if not takes_items or not isinstance(first.get("labels"), torch.Tensor):
        return None
    is_shifted = getattr(trainer, "_loss_shifts_labels", False)

    @cache
    def count(update: int) -> int:
        total = 0
        for number in range(update * accumulate, (update + 1) * accumulate):
            batch = batches(number)
            labels = batch["labels"][..., 1:] if is_shifted else batch["labels"]
            total += int(batch.get("shift_labels", labels).ne(IGNORED).sum())
        return total

    return count


def add_items(batches: Batch, accumulate: int, count: Callable[[int], int]) -> Batch:
    """Return batches that have the number of labels of their update, too."""

    def batch(number: int) -> Any:
        found = batches(number)
        return {**found, ITEMS: torch.tensor(float(count(number // accumulate)))}

    return batch


def make_loss(trainer: Any, accumulate: int) -> Callable[..., Any]:
    """Return the loss of a batch, as large as a mean over the batches of an update needs it.

    Losses that are divided by the labels of the whole update are added up by `train`.
    """
    takes_items: bool = trainer.model_accepts_loss_kwargs
    compute: Callable[..., Any] | None = trainer.compute_loss_func
    says_so: bool | None = getattr(trainer, "loss_is_scaled_for_ga", None)

    def loss(model: torch.nn.Module, batch: Mapping[str, Any]) -> Any:
        inputs = dict(batch)
        items = inputs.pop(ITEMS, None)
        labels = inputs.pop("labels", None) if compute is not None else None
        if takes_items and items is not None:
            inputs[ITEMS] = items
        outputs = model(**inputs)
        if compute is not None:
            value = compute(outputs, labels, num_items_in_batch=items)
        else:
            value = outputs["loss"] if isinstance(outputs, dict) else outputs[0]
        is_sum = (takes_items and items is not None) or compute is not None
        is_sum = is_sum if says_so is None else says_so
        return value * accumulate if is_sum and accumulate > 1 else value

    return loss
