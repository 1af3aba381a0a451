"""The parts of a recipe, checked for their kinds before anything of it is run."""

import inspect
from pathlib import Path
from typing import Any

import torch

from moot.offchain.errors import UsageError
from moot.offchain.frontend.recipe import (
    Recipe,
    TrainingRecipe,
    check_shapes,
    get_function,
    list_arguments,
)
from moot.offchain.frontend.subject import Subject
from moot.offchain.text import name_kind

_MOST_SEEDS = 1 << 64


def check_parts(subject: Subject) -> None:
    """Refuse a recipe of which a part is of the wrong kind: a class for an object, say.

    Raises:
        UsageError: one is.
    """
    check_shapes([*subject.parameters.items(), *subject.buffers.items()])
    recipe = subject.recipe
    name = "loss" if isinstance(recipe, TrainingRecipe) else "forward"
    _require_function(name, get_function(recipe), "the model and the batch's tensors")
    _require_function("batch", recipe.batch, "the number of a batch, which returns its tensors")
    _require_arguments("batch", recipe.batch, 1, "the number of a batch")
    seed: Any = recipe.seed
    if not isinstance(seed, int) or not 0 <= seed < _MOST_SEEDS:
        raise UsageError(
            f"the seed is {name_kind(seed)}; choose an integer of at most 64 bits, not negative"
        )
    clip: Any = recipe.clip if isinstance(recipe, TrainingRecipe) else None
    if clip is not None and not _is_function(clip):
        raise UsageError(
            f"the clip is {name_kind(clip)}; give ClipNorm(1.0), ClipValue(1.0) or None"
        )
    if clip is not None:
        _require_arguments("clip", clip, 1, "the gradients by name")


def check_call(recipe: Recipe, tensors: int) -> None:
    """Refuse a function that can't be called with the model and a batch of so many tensors.

    Raises:
        UsageError: it takes more arguments, or fewer.
    """
    name = "loss" if isinstance(recipe, TrainingRecipe) else "forward"
    count, needed = tensors, f"{tensors} tensors of a batch"
    if recipe.form is not None:
        count = len(list_arguments(recipe.form.skeleton))
        needed = f"a {recipe.form.kind} of {count} parts, which is batch(0)"
        if count == 1:
            needed = f"batch(0), a {recipe.form.kind}, which is one argument"
    _require_arguments(name, get_function(recipe), 1 + count, f"the model and {needed}")


def _require_function(name: str, given: Any, arguments: str) -> None:
    if not _is_function(given):
        raise UsageError(f"the {name} is {name_kind(given)}; give a function of {arguments}")


def _require_arguments(name: str, given: Any, count: int, needed: str) -> None:
    called = given.forward if isinstance(given, torch.nn.Module) else given
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # a function of C says nothing
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        code = getattr(inspect.unwrap(called), "__code__", None)
        place = "" if code is None else f" in {Path(code.co_filename).name}:{code.co_firstlineno}"
        said = f"the {name}{place} can't be called with {needed}"
        raise UsageError(f"{said}: {error}") from error


def _is_function(given: Any) -> bool:
    """Return whether something is to be called; a class makes another object each time."""
    return callable(given) and not isinstance(given, type)
