"""Recipes by name: an example's, a checkpoint folder's, or what a file of the user's has."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from moot.offchain.errors import UsageError
from moot.offchain.frontend.environment import standard_torch
from moot.offchain.frontend.neighbours import Neighbourhood
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe
from moot.offchain.plugins import execute_file
from moot.offchain.programs.catalogue import FOLDER


@standard_torch()
def load_recipe(
    spec: str,
    size: str = "tiny",
    seed: int = 0,
    data: Path | None = None,
    *,
    inference: bool = False,
) -> Recipe:
    """Return the recipe that a user asks for.

    Args:
        spec: an example's name; `hf:FOLDER`, a checkpoint of the transformers library; or
            `path/to/file.py:NAME`: a function that takes the seed and returns a recipe or a
            Trainer of the transformers library, or either itself.
        size: an example's size, or that of a checkpoint's batches.
        seed: passed on to the recipe; one that a file holds has its own.
        data: the text of a language model, an example or a checkpoint.
        inference: an example's or a checkpoint's forward pass instead of its training.

    Raises:
        UsageError: there is no such example, folder, file or name, or it is something else.
    """
    path, separator, name = spec.rpartition(":")
    if spec.startswith(FOLDER):
        from moot.offchain.frontend.interop.pretrained import load_folder  # noqa: PLC0415 - heavy

        return load_folder(spec, size, seed, data, inference=inference)
    if not separator and not spec.endswith(".py"):
        from moot.offchain.frontend.examples import build  # noqa: PLC0415 - only examples need it

        return build(spec, size, seed, data, inference=inference)
    if not separator:
        raise UsageError(f"{spec} names no function; write {spec}:function")
    if data is not None or inference:
        raise UsageError(f"{spec} chooses its own data and form; leave both options out")
    _check_file(Path(path))
    neighbours = Neighbourhood(Path(path).parent)
    with neighbours:
        recipe = _make_recipe(spec, _load_name(Path(path), name), seed)
    if isinstance(recipe, TrainingRecipe):
        loss = neighbours.bind(recipe.loss)
        return replace(recipe, loss=loss, batch=neighbours.bind(recipe.batch))
    forward = neighbours.bind(recipe.forward)
    return replace(recipe, forward=forward, batch=neighbours.bind(recipe.batch))


def _make_recipe(spec: str, found: Any, seed: int) -> Recipe:
    """Return the recipe that a name in a file stands for.

    Raises:
        UsageError: it stands for something else.
    """
    made = found
    if not isinstance(found, (TrainingRecipe, InferenceRecipe)) and not _is_trainer(found):
        _check_function(spec, found)
        made = found(seed)
    if _is_trainer(made):
        from moot.offchain.frontend.interop.trainers import from_trainer  # noqa: PLC0415 - heavy

        return from_trainer(made)
    if isinstance(made, (TrainingRecipe, InferenceRecipe)):
        return made
    raise UsageError(f"{spec} returns {type(made).__name__}; return a recipe or a Trainer")


def _is_trainer(found: Any) -> bool:
    """Return whether an object is a Trainer, of a library that is not loaded for the question."""
    kind = getattr(sys.modules.get("transformers.trainer"), "Trainer", None)
    return isinstance(kind, type) and isinstance(found, kind)


def _check_file(path: Path) -> None:
    """Refuse what is no file, can't be read, or holds no text."""
    try:
        if path.suffix == ".py" and not path.exists():
            raise UsageError(f"there is no file {path}; write path/to/file.py:function")
        if path.suffix != ".py" or not path.is_file():
            raise UsageError(f"{path} is not a Python file; write path/to/file.py:function")
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if b"\0" in content:
        raise UsageError(f"{path} is not a Python file: it has null bytes")


def _check_function(spec: str, function: Callable[[int], Any]) -> None:
    """Refuse what can't be called with a seed, or makes an object of its own."""
    if isinstance(function, type) or inspect.iscoroutinefunction(function):
        kind = "class" if isinstance(function, type) else "coroutine"
        raise UsageError(f"{spec} is a {kind}; write a function that returns a recipe")
    try:
        inspect.signature(function).bind(0)
    except TypeError as error:
        raise UsageError(
            f"{spec} can't be called with the seed alone ({error}); write a function of one "
            "argument, such as `def build(seed):`, that returns a recipe"
        ) from error
    except ValueError:  # a function of C says nothing
        return


def _load_name(path: Path, name: str) -> Any:
    """Run a file as a module and return one of its functions, its recipes or its Trainers."""
    module = execute_file(path, f"moot_user_{path.stem}")
    assert module is not None, "the file was found before"
    found = getattr(module, name, None)
    if not _is_choice(found):
        names = [key for key, value in vars(module).items() if _is_choice(value)]
        raise UsageError.unknown(f"function in {path}:", name, names)
    return found


def _is_choice(found: Any) -> bool:
    """Return whether a name of a file can be chosen."""
    return (
        callable(found)
        or isinstance(found, (TrainingRecipe, InferenceRecipe))
        or _is_trainer(found)
    )
