"""Trainers: the recipe of a `transformers.Trainer`, as its `train` means it."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from moot.offchain.errors import CannotTranslate
from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.interop.items import add_items, make_count, make_loss
from moot.offchain.frontend.interop.loops import end_batches
from moot.offchain.frontend.interop.order import Collate, Numbered, number_batches
from moot.offchain.frontend.interop.refusals import check_trainer
from moot.offchain.frontend.optimizers.timetables import LEAST_UPDATES
from moot.offchain.frontend.recipe import TrainingRecipe, check_model
from moot.offchain.text import name_kind

_DATA = "the Trainer's data"


def from_trainer(trainer: Any) -> TrainingRecipe:
    """Return the recipe of a `transformers.Trainer`.

    A step of it is one update of `trainer.train()`: the batches of a gradient accumulation in the
    order of the Trainer's sampler, its loss with `num_items_in_batch`, its clipping, its optimizer
    with the groups of weight decay, and its scheduler over the same number of updates. Losses are
    those that `train` would have if it were called now, but for rounding and for dropout, whose
    random numbers are Moot's own; there is no update after its last. The Trainer trains nothing
    and can be used as before; its model is in training mode afterwards, and has the special tokens
    of its tokenizer, as in `train`.

    Args:
        trainer: a Trainer, with its data set, on the processor.

    Raises:
        CannotTranslate: it does something in a step that a recipe has no words for.
        UsageError: it is no Trainer, or its model is none.

    Example:
        >>> import moot, tempfile, torch
        >>> from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
        >>> sizes = {"vocab_size": 32, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
        >>> model = GPT2LMHeadModel(GPT2Config(**sizes))
        >>> rows = [{"input_ids": ids, "labels": ids} for ids in torch.arange(32).reshape(4, 8)]
        >>> given = TrainingArguments(tempfile.mkdtemp(), max_steps=1, use_cpu=True, report_to=[])
        >>> trainer = Trainer(model, given, train_dataset=rows[:4])
        >>> type(moot.from_trainer(trainer)).__name__
        'TrainingRecipe'
    """
    check_trainer(trainer)
    model, args = trainer.model, trainer.args
    check_model(model)
    _align(trainer)
    model.train()
    accumulate: int = args.gradient_accumulation_steps
    with torch.random.fork_rng(devices=[]):
        numbered = _number(trainer)
        updates = _count_updates(args, numbered.whole + bool(numbered.rest))
        optimizer, scheduler = _make_optimizer(trainer, updates)
    count = make_count(trainer, numbered.batch, accumulate)
    batch = end_batches(numbered, accumulate, updates, _DATA, "dataloader_drop_last=True")
    return TrainingRecipe(
        model=model,
        loss=make_loss(trainer, accumulate),
        optimizer=optimizer,
        batch=batch if count is None else add_items(batch, accumulate, count),
        seed=args.seed,
        clip=ClipNorm(args.max_grad_norm) if args.max_grad_norm > 0 else None,
        accumulate=accumulate,
        scheduler=scheduler,
    )


def _align(trainer: Any) -> None:
    """Give a model's configuration the special tokens of the tokenizer, as `train` does."""
    from transformers import PreTrainedTokenizerBase, ProcessorMixin  # noqa: PLC0415 - heavy
    from transformers.trainer_utils import align_special_tokens  # noqa: PLC0415 - likewise

    is_known = isinstance(trainer.processing_class, (PreTrainedTokenizerBase, ProcessorMixin))
    if is_known and hasattr(trainer.model, "config"):
        align_special_tokens(trainer.model, trainer.processing_class)


def _number(trainer: Any) -> Numbered:
    """Return the batches of a Trainer by their numbers, as plain dictionaries.

    Raises:
        CannotTranslate: they have no order, are no dictionaries, or are drawn at random.
    """
    loader = trainer.get_train_dataloader()
    loader = getattr(loader, "base_dataloader", loader)  # accelerate's has torch's inside
    collate: Any = loader.collate_fn
    columns = getattr(collate, "signature_columns", None)
    if columns is not None:  # the library's own wrapper, which logs what it leaves out
        collate = _keep_columns(collate.data_collator, tuple(columns))
    numbered = number_batches(loader, _DATA, collate)
    batches = numbered.batch
    first, again = batches(0), batches(0)
    if not isinstance(first, Mapping):
        problem = f"a batch is {name_kind(first)}, and not a dictionary of the model's arguments"
        raise CannotTranslate(_DATA, problem, "give a data_collator that returns one")
    if not all(_is_same(first[name], again.get(name)) for name in first):
        kind = type(getattr(trainer, "data_collator", None)).__name__
        problem = f"{kind} or the data set draws random numbers, which no two providers share"
        raise CannotTranslate(_DATA, problem, "draw them beforehand, into the data set")
    return replace(numbered, batch=lambda number: dict(batches(number)))


def _keep_columns(collate: Collate, columns: Sequence[str]) -> Collate:
    """Return a collator of rows without those of their entries that the model does not take."""

    def keep(rows: Sequence[Any]) -> Any:
        return collate(
            [
                {key: value for key, value in row.items() if key in columns}
                if isinstance(row, dict)
                else row
                for row in rows
            ]
        )

    return keep


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two entries of a batch are the same, as far as they are tensors."""
    if not isinstance(one, torch.Tensor):
        return True
    return isinstance(other, torch.Tensor) and torch.equal(one, other)


def _count_updates(args: Any, batches: int) -> int:
    """Return how many updates `train` makes, by which a schedule is stretched."""
    if args.max_steps > 0:
        return int(args.max_steps)
    per_epoch = math.ceil(batches / int(args.gradient_accumulation_steps))
    return math.ceil(float(args.num_train_epochs) * per_epoch)


def _make_optimizer(trainer: Any, updates: int) -> tuple[Any, Any]:
    """Return the optimizer and the scheduler that `train` would make; the Trainer keeps its own."""
    with _kept(trainer):
        if getattr(trainer, "_created_lr_scheduler", False):
            trainer.lr_scheduler = None
        wrapped = trainer.optimizer
        if type(wrapped).__name__ == "AcceleratedOptimizer":
            trainer.optimizer = wrapped.optimizer
        trainer.create_optimizer()
        is_own = trainer.lr_scheduler is None
        trainer.create_scheduler(num_training_steps=updates)
        scheduler = trainer.lr_scheduler
        if is_own and type(scheduler) is LambdaLR:
            last = max(updates, LEAST_UPDATES)
            scheduler.lr_lambdas = [_end(rate, last) for rate in scheduler.lr_lambdas]
        return trainer.optimizer, scheduler


def _end(rate: Callable[[int], float], last: int) -> Callable[[int], float]:
    """Return a schedule that ends with the last update of `train`, so that its table is short."""

    def ended(update: int) -> float:
        if update > last:
            raise IndexError(update)
        return rate(update)

    return ended


@contextmanager
def _kept(trainer: Any) -> Iterator[None]:
    """Put a Trainer's own optimizer and scheduler back in the end."""
    names = ("optimizer", "lr_scheduler", "_created_lr_scheduler")
    before = {name: getattr(trainer, name) for name in names if hasattr(trainer, name)}
    try:
        yield
    finally:
        vars(trainer).update(before)
