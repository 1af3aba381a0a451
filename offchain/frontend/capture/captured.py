"""Capture: a program, the state that it starts from, and the batches that it learns from."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.table import DEFAULT
from moot.offchain.collection import without_collection
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import CaptureError
from moot.offchain.frontend.capture.batches import (
    as_tensors,
    bind_batch,
    check_batches,
    check_repeatable,
    refuse_iterators,
    refuse_trained,
)
from moot.offchain.frontend.capture.draft import (
    Draft,
    check_batch,
    check_recipe,
    make_draft,
    make_start,
)
from moot.offchain.frontend.capture.eager import EagerRun, warm_up
from moot.offchain.frontend.capture.faults import tracing
from moot.offchain.frontend.capture.keeping import Memory, kept, remember, remember_parts
from moot.offchain.frontend.capture.known import Known, make_program
from moot.offchain.frontend.capture.moving import Step, refuse_moving
from moot.offchain.frontend.capture.options import refuse_options
from moot.offchain.frontend.capture.recall import check_kept, find_origin, keep, recall
from moot.offchain.frontend.capture.rehearsal import rehearse
from moot.offchain.frontend.capture.steadiness import Unsteadiness, explain, find_hidden_state
from moot.offchain.frontend.capture.stepping import step_as_user
from moot.offchain.frontend.capture.written import refuse_written
from moot.offchain.frontend.environment import standard_torch, uncompiled
from moot.offchain.frontend.recipe import Recipe, take_first
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state, record
from moot.offchain.programs.graph import Program, Slot

Batches = Callable[[int], list[Array]]
"""Returns the batch of a step, in the order of a program's slots."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A program with what it runs on.

    Attributes:
        program: the whole step.
        initial_state: the state before step 0, in the order of the program's slots.
        batch: returns the batch of a step, in the order of the program's slots.
        is_rehearsed: whether the program was compared with eager torch.

    Example:
        >>> import moot
        >>> captured = moot.capture("mlp")
        >>> captured.initial_state[0].shape == captured.program.state[0].shape
        True
    """

    program: Program
    initial_state: list[Array]
    batch: Batches
    is_rehearsed: bool


@standard_torch()
@uncompiled()
@without_collection()
def capture(
    recipe: Recipe,
    *,
    trust: bool = False,
    arithmetic: Arithmetic = ORDERED,
    example: str | None = None,
    backend: str = DEFAULT,
) -> Captured:
    """Return the program of one step of a recipe; the recipe's model is left as it is.

    Args:
        recipe: the recipe.
        trust: whether to leave out the comparison with eager torch, which runs a few steps.
        arithmetic: the one that the program carries.
        example: of an example of ours, its name and all that it was asked for with. What is
            trusted and was captured before is not traced again, in a process that runs no other
            code than Moot's and that of installed packages.
        backend: what computes the program's side of the comparison.

    Raises:
        CaptureError: the model does something that a program cannot express, or the program does
            not do what eager torch does.
        UsageError: the recipe makes no sense: its seed, its batch, its groups.
    """
    with tracing():
        subject = check_recipe(recipe)
        refuse_iterators(subject)
        recipe, first = take_first(recipe)
        # A batch function may have made the model another one when it was called first.
        is_another = not subject.look_again().is_like(subject)
        subject = check_recipe(recipe) if is_another else replace(subject, recipe=recipe)
        inputs = check_batch(recipe, first)
        batch = bind_batch(subject, inputs)
    origin = None if example is None else find_origin(inputs, arithmetic, example)
    if not trust:
        draft = _trace_and_rehearse(subject, first, inputs, batch, arithmetic, backend)
        if origin is not None:
            check_kept(origin, draft.program)
        return Captured(draft.program, draft.initial_state, batch, is_rehearsed=True)
    known = None if origin is None else recall(origin, subject, inputs)
    if known is not None:
        check_repeatable(batch, inputs)
    else:
        known = _trace(subject, first, inputs, batch, arithmetic)
        if origin is not None:
            keep(origin, known)
    return Captured(known.program, known.initial_state, batch, is_rehearsed=False)


@standard_torch()
@uncompiled()
@without_collection()
def capture_once(
    recipe: Recipe, example: str | None = None, arithmetic: Arithmetic = ORDERED
) -> Captured:
    """Return the program of one step of a recipe of ours, which is traced a single time.

    Whether the step is the same a second time is not looked at: it is code of ours, around a model
    that was captured with care before.

    Args and errors are those of `capture`.
    """
    with tracing():
        subject = check_recipe(recipe)
        recipe, first = take_first(recipe)
        subject = replace(subject, recipe=recipe)
        inputs = check_batch(recipe, first)
        batch = bind_batch(subject, inputs)
        origin = None if example is None else find_origin(inputs, arithmetic, example)
        known = None if origin is None else recall(origin, subject, inputs)
        if known is None:
            with kept(subject) as memory:
                known = make_program(make_start(subject, first, memory.copies), arithmetic)
            if origin is not None:
                keep(origin, known)
    return Captured(known.program, known.initial_state, batch, is_rehearsed=False)


@contextmanager
def _prepared(
    subject: Subject, first: Sequence[torch.Tensor], inputs: Sequence[Slot], batch: Batches
) -> Iterator[tuple[Memory, list[torch.Tensor]]]:
    """Check a recipe's batches, and keep the recipe as it is while its step is traced within.

    Yields:
        The recipe before that, and the batch of the second step.
    """
    with tracing(), kept(subject) as memory:
        check_batches(subject.recipe, memory, batch, inputs)
        second = as_tensors(batch(1))
        memory.restore()
        with tracing(subject.model, lambda: _run_eagerly(subject, first, memory)):
            refuse_options(subject, memory, first)
            yield memory, second


def _run_eagerly(subject: Subject, batch: Sequence[torch.Tensor], memory: Memory) -> None:
    """Make one step in eager torch, from where the recipe began."""
    memory.restore()
    EagerRun(subject, get_initial_state(subject), step_as_user).step(batch, {})


def _trace(
    subject: Subject,
    first: Sequence[torch.Tensor],
    inputs: Sequence[Slot],
    batch: Batches,
    arithmetic: Arithmetic,
) -> Known:
    """Return the program of one step of a recipe, which is not compared with torch."""
    with _prepared(subject, first, inputs, batch) as (memory, second):
        start = make_start(subject, first, memory.copies)
        refuse_written(start)
        known = make_program(start, arithmetic)
        found = find_hidden_state(start, memory, second)
        if found is not None:
            raise explain(*found)
        refuse_trained(subject, memory, batch, known.program)
    return known


def _trace_and_rehearse(
    subject: Subject,
    first: Sequence[torch.Tensor],
    inputs: Sequence[Slot],
    batch: Batches,
    arithmetic: Arithmetic,
    backend: str,
) -> Draft:
    """Return the draft of one step of a recipe, which was compared with torch."""
    with _prepared(subject, first, inputs, batch) as (memory, second):
        warm_up(subject.recipe, first)
        memory.restore()
        start = make_start(subject, first, memory.copies)
        refuse_written(start)
        draft = make_draft(start, arithmetic)
        found = find_hidden_state(start, memory, second)
        refuse_trained(subject, memory, batch, draft.program)
        _rehearse(start.subject, draft, batch, memory, found, backend)
    return draft


def _rehearse(
    subject: Subject,
    draft: Draft,
    batch: Batches,
    memory: Memory,
    found: Unsteadiness | None,
    backend: str,
) -> None:
    """Rehearse a program; where its step was traced differently twice, see whether that settles.

    It does if the difference is what a first call computes once for all later ones. The rehearsal
    may have left other tensors in the model, which is looked at again.
    """
    try:
        rehearse(subject, draft, batch, backend)
    except CaptureError as error:
        # What an optimizer keeps is its own, and was compared.
        objects = memory.list_changed_objects()
        changes = [it for it in objects if not it.path.startswith("optimizer")]
        raise explain(changes, error if changes or found is None else found.difference) from error
    if found is None:
        return
    subject = subject.look_again()
    settled = remember(subject)
    first = record(subject, get_initial_state(subject), as_tensors(batch(0)), {})
    changes = settled.list_changed_objects()
    settled.restore_tensors()
    state, parts = get_initial_state(subject), remember_parts(subject)
    second = record(subject, state, as_tensors(batch(1)), {})
    difference = first.find_difference(second)
    if difference is not None:
        raise explain(changes, difference)
    refuse_moving(Step(subject, state, as_tensors(batch(1)), settled), second, parts)
