"""Order: the batches of a `DataLoader` as a function of their number, in the order of a loop.

A loop iterates over its loader once an epoch. A batch's number tells its epoch, and the epoch which
rows are in it: the rows stand as they do, or a sampler shuffles them with a seed. The rows are then
read and collated here, by the loader's own data set and its own function.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from moot.offchain.errors import CannotTranslate
from moot.offchain.frontend.recipe import Batch

Rows = Sequence[Sequence[int]]
"""The rows of each batch of an epoch."""

SEEDABLE = "SeedableRandomSampler"
"""The sampler of the accelerate library, which shuffles an epoch with a seed plus its number."""

_SEEDED = "torch.Generator().manual_seed(0)"


@dataclass(frozen=True, slots=True)
class Numbered:
    """The batches of a loader by their numbers, in the order of a loop.

    Attributes:
        batch: returns a batch.
        whole: the batches of an epoch that have as many rows as the first.
        rest: the rows of an epoch's last batch, if it has fewer; 0 if there is none such.
    """

    batch: Batch
    whole: int
    rest: int


Collate = Callable[[Any], Any]
"""Makes a batch of rows."""


def number_batches(loader: Any, subject: str, collate: Collate | None = None) -> Numbered:
    """Return the batches of a loader, or of a list of them, by their numbers.

    Args:
        loader: a `DataLoader` over a data set with indices, or a sequence of batches.
        subject: what it is called in an error.
        collate: makes batches instead of the loader's own function.

    Raises:
        CannotTranslate: it has no order that a number tells.
    """
    if isinstance(loader, Sequence) and not isinstance(loader, (str, bytes)):
        return _number_list(loader, subject)
    if not isinstance(loader, DataLoader):
        kind = type(loader).__name__
        problem = f"a {kind} has batches that no number asks for"
        raise CannotTranslate(subject, problem, "give a DataLoader, or a list of batches")
    if isinstance(loader.dataset, IterableDataset):
        problem = f"its data set {type(loader.dataset).__name__} is a stream, without indices"
        raise CannotTranslate(subject, problem, "give a data set with __getitem__ and __len__")
    list_rows = _find_order(loader, subject)
    first = list_rows(0)
    if not first:
        problem = "it has no batch at all"
        raise CannotTranslate(subject, problem, "give more rows, or leave out drop_last")
    rest = len(first[-1]) if len(first[-1]) != len(first[0]) else 0
    count, fetch = len(first), _make_fetch(loader.dataset, collate or loader.collate_fn)

    def batch(number: int) -> Any:
        epoch, place = divmod(number, count)
        return fetch(list_rows(epoch)[place])

    return Numbered(batch, count - bool(rest), rest)


def _number_list(batches: Sequence[Any], subject: str) -> Numbered:
    """Return the batches of a list, which begins anew where it ends."""
    if not batches:
        raise CannotTranslate(subject, "it has no batch at all", "give at least one")

    def batch(number: int) -> Any:
        return batches[number % len(batches)]

    return Numbered(batch, len(batches), 0)


def _make_fetch(dataset: Any, collate: Collate) -> Callable[[Sequence[int]], Any]:
    """Return the function that reads rows and makes a batch of them, as a loader does."""

    def fetch(rows: Sequence[int]) -> Any:
        several = getattr(dataset, "__getitems__", None)
        return collate(several(rows) if several else [dataset[row] for row in rows])

    return fetch


def _find_order(loader: DataLoader[Any], subject: str) -> Callable[[int], Rows]:
    """Return the function that lists an epoch's rows by its number."""
    batches = loader.batch_sampler
    if type(batches) is not BatchSampler:
        kind = "none" if batches is None else type(batches).__name__
        problem = f"its batch sampler is {kind}, whose order no number tells"
        raise CannotTranslate(subject, problem, "give it a batch_size, and a seed to shuffle with")
    sampler: Any = batches.sampler
    size, drop_last = batches.batch_size, batches.drop_last
    if type(sampler) is SequentialSampler:
        rows = list(BatchSampler(sampler, size, drop_last))
        return lambda _: rows
    if type(sampler).__name__ == SEEDABLE:
        return _shuffle_by_epoch(sampler, size, drop_last=drop_last)
    if type(sampler) is RandomSampler and sampler.generator is not None:
        is_shared = loader.generator is sampler.generator
        return _shuffle_on(sampler, size, drop_last=drop_last, is_shared=is_shared)
    if type(sampler) is RandomSampler:
        problem = "it shuffles with whatever torch's own generator gives when it is asked"
        raise CannotTranslate(subject, problem, f"give it generator={_SEEDED}")
    problem = f"its sampler {type(sampler).__name__} has an order that no number tells"
    raise CannotTranslate(subject, problem, f"shuffle with generator={_SEEDED}, or not at all")


def _shuffle_by_epoch(sampler: Any, size: int, *, drop_last: bool) -> Callable[[int], Rows]:
    """Return the order of a sampler that makes its seed of the epoch's number."""

    @lru_cache(maxsize=4)
    def list_rows(epoch: int) -> Rows:
        own = copy(sampler)
        own.generator = torch.Generator()
        own.set_epoch(epoch)
        return list(BatchSampler(own, size, drop_last))

    return list_rows


def _shuffle_on(
    sampler: Any, size: int, *, drop_last: bool, is_shared: bool
) -> Callable[[int], Rows]:
    """Return the order of a sampler whose generator goes on from one epoch to the next.

    Args:
        sampler: the sampler; its generator stays as it is.
        size: the rows of a batch.
        drop_last: whether the rows that fill no batch are left out.
        is_shared: whether the loader has the same generator, of which each epoch draws one number.
    """
    start = sampler.generator.get_state()

    @cache
    def shuffle(epoch: int) -> tuple[Rows, torch.Tensor]:
        generator = torch.Generator()
        generator.set_state(shuffle(epoch - 1)[1] if epoch else start)
        if is_shared:
            torch.empty((), dtype=torch.int64).random_(generator=generator)
        own = copy(sampler)
        own.generator = generator
        return list(BatchSampler(own, size, drop_last)), generator.get_state()

    def list_rows(epoch: int) -> Rows:
        for earlier in range(epoch):  # so that none asks for many before it
            shuffle(earlier)
        return shuffle(epoch)[0]

    return list_rows
