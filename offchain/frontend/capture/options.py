"""The options and the state of a recipe's own optimizers, where the step's functions read them.

A program has the rates of a schedule where it makes updates, and nowhere else: a loss that reads
`optimizer.param_groups[0]["lr"]` would have its first one for good. What the optimizer keeps, its
moments and counts, is no state that a loss can read, either.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch

from moot.offchain.frontend.capture.contents import walk, write_part
from moot.offchain.frontend.capture.keeping import Memory, list_roots
from moot.offchain.frontend.capture.watched import Watch, find_line, is_number, watch_number
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.optimizers.timetables import check_schedulers
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state, record

_OF_SCHEDULERS = ("last_epoch", "_step_count", "_last_lr")
"""What a scheduler changes of itself in every step."""

_WHY = "a schedule changes it"
_ADVICE = "compute the number from a count in a buffer"


def refuse_options(subject: Subject, memory: Memory, batch: Sequence[torch.Tensor]) -> None:
    """Refuse a step whose functions read options that a schedule changes, or an optimizer's state.

    Args:
        subject: the subject.
        memory: the record of what it reaches, which is put back.
        batch: the batch of a step.

    Raises:
        CaptureError: they do.
    """
    recipe, optimizers = subject.recipe, subject.optimizers
    if not isinstance(recipe, TrainingRecipe):
        return
    schedulers = check_schedulers(recipe.scheduler, optimizers)
    bare = replace(subject, recipe=replace(recipe, optimizer=SGD(0.0), scheduler=None))
    if not (optimizers or schedulers):
        return
    reached = {id(found) for _, found in walk(list_roots(bare))}
    known = [part for it in (*optimizers, *schedulers) for part in (it, vars(it))]
    known += [group for it in optimizers for group in it.param_groups]
    if reached.isdisjoint(map(id, known)):
        return
    state, watch = get_initial_state(bare), Watch(why=_WHY, advice=_ADVICE)
    memory.restore_tensors()
    with _watched(optimizers, schedulers, watch):
        record(bare, state, batch, {})
        decisions = list(watch.decisions)
    memory.restore()
    if watch.refused is not None:
        raise watch.refused
    for path, line in decisions:
        raise refusal(f"{_WHY}, and the step decides by it; {_ADVICE}", path, line)


@contextmanager
def _watched(optimizers: Sequence[Any], schedulers: Sequence[Any], watch: Watch) -> Iterator[None]:
    """Put watched numbers where schedulers change some, and guards where optimizers keep state."""
    with ExitStack() as patches:
        for optimizer in optimizers:
            patches.enter_context(mock.patch.object(optimizer, "state", _Guard(watch)))
        places = [
            (f"optimizer.param_groups[{k}][{name!r}]", options, name)
            for it in optimizers
            if schedulers
            for k, options in enumerate(it.param_groups)
            for name in options
        ]
        places += [
            (f"scheduler.{name}", vars(it), name)
            for it in schedulers
            for name in _OF_SCHEDULERS
            if name in vars(it)
        ]
        for path, holder, name in places:
            before = holder[name]
            holder[name] = _watch(watch, path, before)
            patches.callback(write_part, holder, name, before)
        yield


def _watch(watch: Watch, path: str, value: Any) -> Any:
    """Return a number as a watched one, those of a list or a tuple likewise."""
    if isinstance(value, (list, tuple)) and all(map(is_number, value)):
        return type(value)(_watch(watch, path, part) for part in value)
    return watch_number(watch, path, value) if is_number(value) else value


class _Guard(defaultdict[Any, Any]):
    """The state of an optimizer, which nobody may read.

    Args:
        watch: is told of it.
    """

    def __init__(self, watch: Watch) -> None:
        super().__init__(dict)
        self._watch = watch

    def _refuse(self, *_: Any) -> Any:
        found = refusal(
            "the step reads what the optimizer keeps; keep it in buffers",
            "optimizer.state",
            find_line(),
        )
        self._watch.refused = self._watch.refused or found
        raise found

    __getitem__ = __contains__ = __iter__ = __len__ = get = items = keys = values = _refuse
    __missing__ = setdefault = pop = _refuse
