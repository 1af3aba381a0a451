"""Capture: a program, the state that it starts from, and the batches that it learns from."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from offchain.arithmetic.base import Arithmetic
from offchain.arithmetic.ordered import ORDERED
from offchain.commitments.tensors import Array
from offchain.errors import CaptureError
from offchain.frontend.capture.batches import as_tensors, bind_batch, check_repeatable
from offchain.frontend.capture.draft import (
    Draft,
    check_batch,
    check_recipe,
    make_draft,
    make_start,
)
from offchain.frontend.capture.eager import warm_up
from offchain.frontend.capture.keeping import Memory, kept
from offchain.frontend.capture.known import make_program
from offchain.frontend.capture.rehearsal import rehearse
from offchain.frontend.capture.steadiness import explain, find_hidden_state
from offchain.frontend.environment import standard_torch
from offchain.frontend.recipe import Recipe, get_batch
from offchain.frontend.tracing import get_initial_state, record
from offchain.programs.graph import Program


@contextmanager
def _without_collection() -> Iterator[None]:
    """Put the collector of cycles off: tracing makes millions of objects, which it walks often."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True, slots=True)
class Captured:
    """A program with what it runs on.

    Attributes:
        program: the whole step.
        initial_state: the state before step 0, in the order of the program's slots.
        batch: returns the batch of a step, in the order of the program's slots.
        is_rehearsed: whether the program was compared with eager torch.
    """

    program: Program
    initial_state: list[Array]
    batch: Callable[[int], list[Array]]
    is_rehearsed: bool


@standard_torch()
@_without_collection()
def capture(recipe: Recipe, *, trust: bool = False, arithmetic: Arithmetic = ORDERED) -> Captured:
    """Return the program of one step of a recipe; the recipe's model is left as it is.

    Args:
        recipe: the recipe.
        trust: whether to leave out the comparison with eager torch, which runs a few steps.
        arithmetic: the one that the program carries.

    Raises:
        CaptureError: the model does something that a program cannot express, or the program does
            not do what eager torch does.
        UsageError: the recipe makes no sense: its seed, its batch, its groups.
    """
    check_recipe(recipe)
    first = get_batch(recipe, 0)
    check_batch(recipe, first)
    with kept(recipe) as memory:
        if not trust:
            warm_up(recipe, first)
            memory.restore()
        start = make_start(recipe, first, memory.copies)
        batch = bind_batch(recipe, start.inputs)
        draft = None
        if trust:
            program, initial = make_program(recipe, start, arithmetic)
        else:
            draft = make_draft(recipe, start, arithmetic)
            program, initial = draft.program, draft.initial_state
        for step in (0, 1):
            check_repeatable(batch, start.inputs, step)
        changes = find_hidden_state(recipe, start, memory, as_tensors(batch(1)))
        if changes is not None and trust:
            raise explain(changes)
        if draft is not None:
            memory.restore()
            _rehearse(recipe, draft, batch, memory, is_steady=changes is None)
    return Captured(program, initial, batch, not trust)


def _rehearse(
    recipe: Recipe,
    draft: Draft,
    batch: Callable[[int], list[Array]],
    memory: Memory,
    *,
    is_steady: bool,
) -> None:
    """Rehearse a program; where attributes change from step to step, see whether they settle.

    They do if they are what a first call computes once for all later ones.
    """
    try:
        rehearse(recipe, draft, batch)
    except CaptureError as error:
        if changes := memory.list_changes():
            raise explain(changes, error) from error
        raise
    if is_steady:
        return
    settled = Memory(recipe)
    first = record(recipe, get_initial_state(recipe), as_tensors(batch(0)), {})
    changes = settled.list_changes()
    settled.restore_tensors()
    second = record(recipe, get_initial_state(recipe), as_tensors(batch(1)), {})
    if not first.is_same(second):
        raise explain(changes)
