"""Weights: the way back from a state into `model.load_state_dict`."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.frontend.exchange import to_tensor
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from moot.offchain.frontend.subject import name_tensors
from moot.offchain.text import name_kind


def to_state_dict(source: Any, subject: Any) -> dict[str, torch.Tensor]:
    """Return a state as `model.load_state_dict` takes it.

    It has the names, shapes and types that the model has: a tied weight is there under each of its
    names, buffers are there if they are saved with the model, and what belongs to the optimizer is
    left out. The tensors are copies, on the processor.

    Args:
        source: a state, which is a sequence of arrays in the order of a program's slots; or a run,
            of which the last state is taken.
        subject: the recipe that was captured, or its model. With a captured program alone, which
            knows no ties and no buffers that are not saved, every tensor is there once, under the
            first of its names: load it with `strict=False`.

    Raises:
        UsageError: the state is not one of this model.

    Example:
        >>> import moot, torch
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> batches = [(torch.ones(4, 2), torch.zeros(4, 1))]
        >>> recipe = moot.from_loop(model, optimizer, batches, torch.nn.MSELoss())
        >>> run = moot.run(moot.Task(moot.capture(recipe), steps=2))
        >>> model.load_state_dict(moot.to_state_dict(run, recipe))
        <All keys matched successfully>
    """
    state = _find_state(source)
    if hasattr(subject, "program"):
        return _list_slots(state, subject.program)
    is_recipe = isinstance(subject, (TrainingRecipe, InferenceRecipe))
    model = subject.model if is_recipe else subject
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"the subject is {name_kind(model)}; give the recipe, or its model")
    known = name_tensors(model)
    if len(state) < len(known):
        raise UsageError(
            f"the state has {len(state)} tensors, and the model {len(known)}; give the recipe that "
            "was captured"
        )
    found = {
        id(tensor): _convert(array, tensor, name)
        for (name, tensor), array in zip(known.items(), state, strict=False)
    }
    saved = model.state_dict(keep_vars=True)
    for name, value in saved.items():
        if isinstance(value, torch.Tensor) and id(value) not in found:
            raise UsageError(
                f"the model saves {name}, which is none of its parameters and buffers; give the "
                "captured program, and load the tensors by their names"
            )
    return {name: found.get(id(value), value) for name, value in saved.items()}


def _find_state(source: Any) -> Sequence[Array]:
    """Return a state, or the last one of a run."""
    if isinstance(source, Sequence):
        return source
    final = getattr(source, "final_state", None)
    if final is not None:
        return _find_state(final() if callable(final) else final)
    task, read = getattr(source, "task", None), getattr(source, "state", None)
    if task is None or not callable(read):
        raise UsageError(f"the source is {name_kind(source)}; give a state, or a run")
    state = read(task.steps)  # of `moot.Run` by the names of slots, which keep their order
    return list(state.values()) if isinstance(state, Mapping) else list(state)


def _convert(array: Array, like: torch.Tensor, name: str) -> torch.Tensor:
    """Return a copy of an array in the shape and the type that a model's tensor has."""
    if tuple(array.shape) != tuple(like.shape):
        raise UsageError(
            f"{name} has the shape {tuple(array.shape)} in the state, and {tuple(like.shape)} in "
            "the model; give the recipe that was captured"
        )
    return to_tensor(array.copy()).to(like.dtype)


def _list_slots(state: Sequence[Array], program: Any) -> dict[str, torch.Tensor]:
    """Return the model's tensors of a state by the names that a program's slots have."""
    if len(state) != len(program.state):
        raise UsageError(
            f"the state has {len(state)} tensors, and the program {len(program.state)}; give the "
            "program that was run"
        )
    slots = zip(program.state, state, strict=True)
    pairs = [(slot.name.partition("."), array) for slot, array in slots]
    return {
        name: to_tensor(array.copy())
        for (kind, _, name), array in pairs
        if kind in ("parameter", "buffer")
    }
