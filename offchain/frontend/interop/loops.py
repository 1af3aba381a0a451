"""Loops: the recipe of a plain training loop, made of the objects that the loop has."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.modules.loss import _Loss
from torch.optim.lr_scheduler import LRScheduler

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.clipping import Clip
from moot.offchain.frontend.interop.order import Numbered, number_batches
from moot.offchain.frontend.recipe import Batch, TrainingRecipe, check_model
from moot.offchain.text import name_kind

_SUBJECT = "the data loader"


def from_loop(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    dataloader: Any,
    loss: Callable[..., Any] | None = None,
    scheduler: LRScheduler | Sequence[LRScheduler] | None = None,
    *,
    clip: Clip | None = None,
    accumulate: int = 1,
    steps: int | None = None,
    seed: int = 0,
) -> TrainingRecipe:
    """Return the recipe of a plain training loop.

    It is that of `for batch in dataloader`, epoch after epoch: the loss of a batch, `backward()`,
    `optimizer.step()`, `scheduler.step()`, with as many batches to an update as `accumulate` says.
    The order of the batches is the loop's, if it has a seed; nothing is trained, and neither the
    model nor the loader changes.

    Args:
        model: the model, in the mode in which it is trained.
        optimizer: the loop's optimizer, or several.
        dataloader: a `DataLoader` over a data set with indices, or a list of batches.
        loss: a function of the model and the batch, as a recipe has; or a loss of `torch.nn`, which
            compares the model's answer to all but the last tensor of a batch with the last; or
            none, where the model returns its loss, as those of the transformers library do.
        scheduler: the loop's schedulers, which are stepped after every update.
        clip: what the loop does to the gradients before an update.
        accumulate: batches of an update, of which the loop takes the mean.
        steps: the updates that the loop makes, where an epoch's last batch is smaller: the data
            end before it.
        seed: key of dropout's random numbers.

    Raises:
        CannotTranslate: the loader has no order that a number tells, or batches of two sizes.
        UsageError: something is not what it has to be.

    Example:
        >>> import moot, torch
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> batches = [(torch.ones(4, 2), torch.zeros(4, 1))]
        >>> recipe = moot.from_loop(model, optimizer, batches, torch.nn.MSELoss())
        >>> moot.capture(recipe).program.batch[0].shape
        (4, 2)
    """
    check_model(model)
    numbered = number_batches(dataloader, _SUBJECT)
    batch = end_batches(numbered, accumulate, steps, _SUBJECT, "drop_last=True")
    return TrainingRecipe(
        model=model,
        loss=_make_loss(loss),
        optimizer=optimizer,
        batch=batch,
        seed=seed,
        clip=clip,
        accumulate=accumulate,
        scheduler=scheduler,
    )


def end_batches(
    numbered: Numbered, accumulate: int, steps: int | None, subject: str, drop: str
) -> Batch:
    """Return the batches of a loop, which end before the first update that has another form.

    Args:
        numbered: the batches of the loader.
        accumulate: batches of an update.
        steps: the updates that the loop makes, if that is known.
        subject: what the loader is called in an error.
        drop: the setting that leaves out an epoch's last batch.

    Raises:
        CannotTranslate: the loop goes on beyond that.
    """
    whole = numbered.whole // accumulate
    is_even = not numbered.rest and numbered.whole % accumulate == 0
    if is_even:
        return numbered.batch
    if steps is None or steps > whole:
        problem = (
            f"an epoch's last batch has {numbered.rest} rows, and the others more"
            if numbered.rest
            else f"an epoch has {numbered.whole} batches, and the last of its updates fewer than "
            f"{accumulate}"
        )
        raise CannotTranslate(subject, problem, f"choose {drop} and sizes that divide the rows")
    batches, last = numbered.batch, whole * accumulate

    def batch(number: int) -> Any:
        if number >= last:
            raise StopIteration
        return batches(number)

    return batch


def _make_loss(loss: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return the loss of a recipe."""
    if loss is None:
        return _ask_model
    if isinstance(loss, _Loss):
        criterion = loss

        def compare(model: torch.nn.Module, *batch: torch.Tensor) -> Any:
            *inputs, target = batch
            return criterion(model(*inputs), target)

        return compare
    if not callable(loss):
        raise UsageError(f"the loss is {name_kind(loss)}; give a function of the model and a batch")
    return loss


def _ask_model(model: torch.nn.Module, *batch: Any) -> Any:
    """Return what a model that computes its own loss makes of a batch."""
    first, *others = batch
    outputs = model(**first) if isinstance(first, Mapping) else model(first, *others)
    if isinstance(outputs, Mapping):
        return outputs["loss"]
    return outputs[0] if isinstance(outputs, tuple) else getattr(outputs, "loss", outputs)
