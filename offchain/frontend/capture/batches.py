"""Batches: functions of a step's number alone, of shapes that never change."""

import io
import math
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from moot.offchain.commitments.tensors import Array, compute_tensor_root
from moot.offchain.errors import CaptureError, MootError
from moot.offchain.frontend.capture.contents import MemoizedFunction, walk
from moot.offchain.frontend.capture.keeping import LARGEST, Memory, list_roots
from moot.offchain.frontend.environment import standard_torch
from moot.offchain.frontend.exchange import to_array, to_tensor
from moot.offchain.frontend.lowering.graph import TORCH_TYPES
from moot.offchain.frontend.recipe import Recipe, count_batches, join_batches
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.updates import count_updates
from moot.offchain.programs.graph import Kind, Program, Slot
from moot.offchain.text import show

ALONE = "make it a function of the step's number alone, with a generator that is seeded by it"

NEAR, FAR, DRAWN = 8, (64, 999), 6
"""Steps whose batches are asked for beforehand: the first ones, far ones, some between."""

MOST, FEWEST = 32, 4
"""Batches that are asked for, at most; but these steps at least."""

_SOURCES = 3
"""Collections whose ends are tried."""


class NoMoreDataError(CaptureError):
    """A batch is empty, as what is cut of a collection behind its end."""


Outcome = list[Array] | str
"""The batch of a step, or the name of the exception that ends the data before it."""


def bind_batch(subject: Subject, slots: Sequence[Slot]) -> Callable[[int], list[Array]]:
    """Return the function that gives the batch of a step in the order of a program's slots.

    It knows nothing else of the subject, whose model may die before it.
    """
    recipe = subject.recipe
    batches, count, form = recipe.batch, count_batches(recipe), recipe.form
    updates = count_updates(subject)

    @standard_torch()
    def batch(step: int) -> list[Array]:
        if updates is not None and step >= updates:
            raise NoMoreDataError(
                f"the scheduler's rates end after {updates} updates, and this is step {step}; "
                "give the recipe an optimizer of ours, with a schedule"
            )
        try:
            tensors = join_batches(batches, count, form, step)
        except StopIteration as error:
            message = f"there is no more data in step {step}; return a batch for every step"
            raise NoMoreDataError(message) from error
        _require_form(tensors, slots, step)
        return [np.asarray(to_array(tensor), order="C") for tensor in tensors]

    return batch


def _require_form(tensors: Sequence[torch.Tensor], slots: Sequence[Slot], step: int) -> None:
    """Refuse a batch that has not the tensors that made the program."""
    if len(tensors) != len(slots):
        raise CaptureError(
            f"the batch of step {step} has {len(tensors)} tensors, and that of step 0 has "
            f"{len(slots)}; give all batches the same tensors"
        )
    for slot, tensor in zip(slots, tensors, strict=True):
        is_same = TORCH_TYPES.get(tensor.dtype) is slot.dtype and tuple(tensor.shape) == slot.shape
        if not is_same or tensor.layout is not torch.strided or tensor.device.type != "cpu":
            before = f"{slot.dtype.name.lower()} {slot.shape}"
            is_over = tensor.numel() == 0 and math.prod(slot.shape) > 0
            raise (NoMoreDataError if is_over else CaptureError)(
                f"batch {slot.name}: {_describe(tensor)} in step {step}, and {before} in step 0; "
                "give all batches the same shapes and types"
            )


def _describe(tensor: torch.Tensor) -> str:
    place = "" if tensor.device.type == "cpu" else f" on {tensor.device}"
    layout = "" if tensor.layout is torch.strided else f" {tensor.layout}"
    return f"{tensor.dtype}{layout} {tuple(tensor.shape)}{place}".replace("torch.", "")


def refuse_iterators(subject: Subject) -> None:
    """Refuse a recipe that reads an iterator, before any batch is asked for.

    Raises:
        CaptureError: it does.
    """
    for path, found in walk([("batch", subject.recipe.batch)]):
        if isinstance(found, Iterator):
            raise CaptureError(
                f"{path}: the batch function reads an iterator ({type(found).__name__}), so that a "
                "batch depends on which were asked for before; make it of the step's number alone"
            )
    for path, found in walk(list_roots(subject)):
        is_plain = isinstance(found, Iterator) and not hasattr(found, "__dict__")
        if is_plain and not isinstance(found, io.IOBase):
            raise CaptureError(
                f"{path}: the step reads an iterator ({type(found).__name__}), and a program does "
                "not know how far it is; give what a step needs with its batch"
            )


def check_batches(
    recipe: Recipe,
    memory: Memory,
    batch: Callable[[int], list[Array]],
    slots: Sequence[Slot],
) -> None:
    """Refuse a batch function that depends on who has asked before, or changes what a step reads.

    Steps are asked for in their order, and then in another, by one who has not asked before: what
    the function keeps is put back in between.

    Args:
        recipe: the recipe.
        memory: its model, functions and optimizers before these batches are asked for.
        batch: its bound batch function.
        slots: the slots of batches.

    Raises:
        CaptureError: it does, or some step has a batch of another form.
    """
    roots = [("batch", recipe.batch)]
    check_repeatable(batch, slots)
    steps = _choose_steps(recipe, slots)
    past = Memory(roots, largest=LARGEST)
    in_order = {}
    try:
        for step in sorted(steps):
            in_order[step] = _digest(ask(batch, step))
            if step in {NEAR - 1, *FAR, max(steps)}:
                _refuse_changes(memory, step)
        _forget(roots, past)
        for step in np.random.default_rng(recipe.seed).permutation(steps).tolist():
            found = ask(batch, step)
            if _digest(found) != in_order[step]:
                _forget(roots, past)
                *_, before = (ask(batch, it) for it in sorted(steps) if it <= step)
                require_same(before, found, slots, f"step {step}, asked for out of order,")
    finally:
        past.restore()


def refuse_trained(
    subject: Subject,
    memory: Memory,
    batch: Callable[[int], list[Array]],
    program: Program,
) -> None:
    """Refuse a batch function that reads what the step changes of the model.

    What the step leaves as it is may be read: a frozen encoder, a data set in a buffer. What the
    function reads are the tensors that the model has by now, so they are looked at again.

    Args:
        subject: the subject.
        memory: its model, functions and optimizers, which are put back.
        batch: its bound batch function.
        program: the step.

    Raises:
        CaptureError: it does.
    """
    sources = [program.nodes[sink.inputs[0]].kind for sink in program.nodes[program.first_sink :]]
    pairs = zip(program.state, sources, strict=True)
    trained = {slot.name for slot, kind in pairs if kind is not Kind.SOURCE}
    roots = [("batch", subject.recipe.batch)]
    past = Memory(roots, largest=LARGEST)
    try:
        before = {step: ask(batch, step) for step in (0, 1)}
        _forget(roots, past)
        with torch.no_grad():
            for name, tensor in subject.look_again().tensors.items():
                if name in trained:
                    tensor.copy_(~tensor if tensor.dtype is torch.bool else tensor + 1)
        for step, found in before.items():
            said = f"step {step}, asked for when the model has changed,"
            require_same(found, ask(batch, step), program.batch, said)
    finally:
        past.restore()
        memory.restore()


def _choose_steps(recipe: Recipe, slots: Sequence[Slot]) -> list[int]:
    """Return the steps that are asked for: far, drawn and near ones, and the ends of the data."""
    count = count_batches(recipe)
    ends = [end // count for end in _find_ends(recipe, slots)]
    drawn = np.random.default_rng(recipe.seed).integers(NEAR, FAR[-1], DRAWN).tolist()
    steps = dict.fromkeys([*FAR, *ends, *drawn, *range(NEAR)])
    return [*steps][: max(FEWEST, MOST // count)]


def _find_ends(recipe: Recipe, slots: Sequence[Slot]) -> list[int]:
    """Return the numbers of batches at which collections that a function reads may end.

    One of so many is a batch, a row of one, or an element.
    """
    sizes = sorted({_count(found) for _, found in walk([("batch", recipe.batch)])}, reverse=True)
    shape = slots[0].shape if slots else ()
    parts = [shape[0] if shape else 1, math.prod(shape)]
    ends = [[size - 1, *(size // part for part in parts if part)] for size in sizes[:_SOURCES]]
    return [end for several in ends for end in several if end >= 0]


def _count(found: object) -> int:
    """Return how many parts something has that may be data."""
    if not isinstance(found, Sized) or isinstance(found, (str, bytes)):
        return 0
    with suppress(Exception):  # a tensor without dimensions, or the user's own code
        return len(found)
    return 0


def _refuse_changes(memory: Memory, step: int) -> None:
    for change in memory.list_changed_objects():
        raise CaptureError(
            f"{change.path}: asking for the batch of step {step} changes it from "
            f"{show(change.before)} to {show(change.after)}, which no provider sees; give what "
            "a step needs with its batch"
        )


def _forget(roots: Sequence[tuple[str, Any]], past: Memory) -> None:
    """Put back what a batch function has kept of the steps that it was asked for."""
    past.restore()
    for _, found in walk(roots):
        if isinstance(found, MemoizedFunction):
            found.cache_clear()


def ask(batch: Callable[[int], list[Array]], step: int) -> Outcome:
    """Return the batch of a step, or by which exception the data end before it.

    Raises:
        CaptureError: the batch has another form.
        UsageError: it is no batch.
    """
    try:
        return batch(step)
    except NoMoreDataError:
        return "no data"
    except MootError:
        raise
    except Exception as error:  # noqa: BLE001 - data may end before, in ways of their own
        return type(error).__name__


def _digest(outcome: Outcome) -> Sequence[bytes] | str:
    return outcome if isinstance(outcome, str) else [*map(compute_tensor_root, outcome)]


def check_repeatable(batch: Callable[[int], list[Array]], slots: Sequence[Slot]) -> None:
    """Refuse a batch function that gives other data when it is asked for a step again.

    Raises:
        CaptureError: it does; a provider that runs a step again would lose a dispute.
    """
    for step in (0, 1):
        first = batch(step)
        require_same(first, batch(step), slots, f"step {step}, asked for twice,")


def require_same(one: Outcome, other: Outcome, slots: Sequence[Slot], subject: str) -> None:
    """Refuse a batch that is another one at another time.

    Args:
        one: the batch.
        other: the same batch, asked for in another way.
        slots: its slots.
        subject: which batch that is, and how it was asked for, as the subject of the line.
    """
    if isinstance(one, str) or isinstance(other, str):
        if _digest(one) != _digest(other):
            found = [it if isinstance(it, str) else "data" for it in (one, other)]
            raise CaptureError(
                f"batch: {subject} gives {found[0]} once and {found[1]} then; {ALONE}"
            )
        return
    for slot, a, b in zip(slots, one, other, strict=True):
        if compute_tensor_root(a) != compute_tensor_root(b):
            place = find_difference(a, b)
            values = [to_tensor(it.copy()).reshape(-1)[place].item() for it in (a, b)]
            raise CaptureError(
                f"batch {slot.name}: {subject} gives two different tensors (element {place} is "
                f"{values[0]:.9g} once and {values[1]:.9g} then); {ALONE}"
            )


def find_difference(a: Array, b: Array) -> int:
    """Return the first place at which two arrays of one form have other numbers."""
    flat, other = (np.ascontiguousarray(it).reshape(-1) for it in (a, b))
    bits = np.dtype(f"u{flat.itemsize}")
    is_number = (flat == flat) | (other == other)  # noqa: PLR0124 - NaN
    return int(np.flatnonzero((flat.view(bits) != other.view(bits)) & is_number)[0])


def as_tensors(arrays: Sequence[Array]) -> list[torch.Tensor]:
    """Return a batch as tensors of their own."""
    return [to_tensor(array.copy()) for array in arrays]
