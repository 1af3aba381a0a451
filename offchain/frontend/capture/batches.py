"""Batches: functions of a step's number alone, of shapes that never change."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
import torch

from offchain.commitments.tensors import NUMPY_TYPES, Array, compute_tensor_root
from offchain.errors import CaptureError
from offchain.frontend.capture.contents import show, walk
from offchain.frontend.capture.keeping import Memory
from offchain.frontend.environment import standard_torch
from offchain.frontend.exchange import to_array, to_tensor
from offchain.frontend.recipe import Recipe, count_batches, get_batch, join_batches
from offchain.frontend.updates import count_updates
from offchain.programs.graph import Slot

FAR = (999, 64, 5)
"""Steps whose batches are asked for beforehand, out of order."""


def bind_batch(recipe: Recipe, slots: Sequence[Slot]) -> Callable[[int], list[Array]]:
    """Return the function that gives the batch of a step in the order of a program's slots.

    It knows nothing else of the recipe, whose model may die before it.
    """
    batches, count, form = recipe.batch, count_batches(recipe), recipe.form
    updates = count_updates(recipe)

    @standard_torch()
    def batch(step: int) -> list[Array]:
        if updates is not None and step >= updates:
            raise CaptureError(
                f"the scheduler's rates end after {updates} updates, and this is step {step}; "
                "give the recipe an optimizer of ours, with a schedule"
            )
        tensors = join_batches(batches, count, form, step)
        found = [(t.dtype, tuple(t.shape)) for t in tensors]
        arrays: list[Array] = [np.asarray(to_array(t), order="C") for t in tensors]
        wanted = [(NUMPY_TYPES[s.dtype], s.shape) for s in slots]
        if [(a.dtype, a.shape) for a in arrays] != wanted:
            raise CaptureError(
                f"the batch of step {step} is {found}, but that of step 0 made the program; "
                "give all batches the same shapes and types"
            )
        return arrays

    return batch


def check_repeatable(batch: Callable[[int], list[Array]], slots: Sequence[Slot], step: int) -> None:
    """Refuse a batch function that gives other data when it is asked for a step again.

    Raises:
        CaptureError: it does; a provider that runs a step again would lose a dispute.
    """
    first = [compute_tensor_root(array) for array in batch(step)]
    for slot, array, root in zip(slots, batch(step), first, strict=True):
        if compute_tensor_root(array) != root:
            raise CaptureError(
                f"batch {slot.name}: asked twice for step {step}, the batch function gives two "
                "different tensors; make it a function of the step's number alone, "
                "with a generator that is seeded by it"
            )


def check_batches(recipe: Recipe, memory: Memory) -> None:
    """Refuse a batch function that depends on who has asked before, or changes what a step reads.

    Args:
        recipe: the recipe.
        memory: its model, functions and optimizers before these batches are asked for.

    Raises:
        CaptureError: it does.
    """
    for path, found in walk([("batch", recipe.batch)]):
        if isinstance(found, Iterator):
            raise CaptureError(
                f"{path}: the batch function reads an iterator ({type(found).__name__}), so that a "
                "batch depends on which were asked for before; make it of the step's number alone"
            )
    for step in FAR:
        with suppress(Exception):  # data may end before
            get_batch(recipe, step)
        if changes := memory.list_changes():
            change = changes[0]
            raise CaptureError(
                f"{change.path}: asking for the batch of step {step} changes it from "
                f"{show(change.before)} to {show(change.after)}, which no provider sees; give what "
                "a step needs with its batch"
            )


def as_tensors(arrays: Sequence[Array]) -> list[torch.Tensor]:
    """Return a batch as tensors of their own."""
    return [to_tensor(array.copy()) for array in arrays]
