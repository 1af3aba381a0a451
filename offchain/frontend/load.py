"""Recipes by name: an example's, or a function in a file of the user's."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from moot.offchain.errors import UsageError
from moot.offchain.frontend.environment import standard_torch
from moot.offchain.frontend.neighbours import Neighbourhood
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe


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
        spec: an example's name, or `path/to/file.py:function`; the function takes the seed.
        size: an example's size.
        seed: passed on to the recipe.
        data: the text of an example that is a language model.
        inference: an example's forward pass instead of its training.

    Raises:
        UsageError: there is no such example, file or function, or it returns something else.
    """
    path, separator, name = spec.rpartition(":")
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
        function = _load_function(Path(path), name)
        _check_function(spec, function)
        recipe = function(seed)
    if isinstance(recipe, TrainingRecipe):
        loss = neighbours.bind(recipe.loss)
        return replace(recipe, loss=loss, batch=neighbours.bind(recipe.batch))
    if isinstance(recipe, InferenceRecipe):
        forward = neighbours.bind(recipe.forward)
        return replace(recipe, forward=forward, batch=neighbours.bind(recipe.batch))
    raise UsageError(f"{spec} returns {type(recipe).__name__}; return a recipe")


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
        raise UsageError(f"{spec} can't be called with the seed alone: {error}") from error
    except ValueError:  # a function of C says nothing
        return


def _load_function(path: Path, name: str) -> Callable[[int], Any]:
    """Run a file as a module and return one of its functions."""
    name_of_module = f"moot_user_{path.stem}"
    location = spec_from_file_location(name_of_module, path)
    assert location is not None
    assert location.loader is not None
    module = module_from_spec(location)
    sys.modules[name_of_module] = module  # dataclasses look their own module up
    try:
        location.loader.exec_module(module)
    except BaseException:
        del sys.modules[name_of_module]
        raise
    function: Callable[[int], Any] | None = getattr(module, name, None)
    if function is None or not callable(function):
        names = [key for key, value in vars(module).items() if callable(value)]
        raise UsageError.unknown(f"function in {path}:", name, names)
    return function
