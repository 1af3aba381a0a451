"""The model is left as it was found: every attribute, tensor, mode and generator."""

import random
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from offchain.programs.recipe import InferenceRecipe, Recipe

MAX_OBJECTS = 100_000
"""Objects beyond which no further ones are looked at."""


@contextmanager
def kept(recipe: Recipe) -> Iterator[None]:
    """Put back, in the end, everything that the model and the functions of a recipe reach."""
    memory = Memory(recipe)
    try:
        yield
    finally:
        memory.restore()


class Memory:
    """What a recipe's model and functions reach, and the process's settings, as they are now.

    Attributes:
        tensors: the tensors, by the path on which they were found.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._settings = _Settings()
        self._seen: dict[int, Any] = {}
        self._contents: list[tuple[Any, Any]] = []
        self._tensors: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any, Any]] = []
        function = recipe.forward if isinstance(recipe, InferenceRecipe) else recipe.loss
        roots = [recipe.model, function]
        if not isinstance(recipe, InferenceRecipe):
            roots.append(recipe.optimizer)
        pending: list[Any] = roots
        while pending and len(self._seen) < MAX_OBJECTS:
            found = pending.pop()
            if id(found) not in self._seen:
                self._seen[id(found)] = found
                pending += self._remember(found)

    def _remember(self, found: Any) -> list[Any]:
        """Note the content of one object, and return what it reaches."""
        if isinstance(found, torch.Tensor):
            return self._remember_tensor(found)
        if isinstance(found, (list, set, MutableMapping, np.ndarray)) and hasattr(found, "copy"):
            self._contents.append((found, found.copy()))
        return _list_parts(found)

    def _remember_tensor(self, tensor: torch.Tensor) -> list[Any]:
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return []
        alias = tensor.detach()
        grad = tensor.grad if tensor.is_leaf else None
        self._tensors.append((tensor, alias, alias.clone(), grad, tensor.requires_grad))
        return [tensor.__dict__] if getattr(tensor, "__dict__", None) else []

    def restore(self) -> None:
        """Put everything back."""
        with torch.no_grad():
            for tensor, alias, content, grad, requires_grad in self._tensors:
                if tensor.data_ptr() != alias.data_ptr() or tensor.shape != alias.shape:
                    tensor.data = alias
                if alias.numel() and not torch.equal(alias, content):
                    alias.copy_(content)
                if tensor.is_leaf:
                    tensor.grad = grad
                    tensor.requires_grad_(requires_grad)
        for found, content in self._contents:
            _put_back(found, content)
        self._settings.restore()


def _list_parts(found: Any) -> list[Any]:
    """Return the objects that one object consists of."""
    parts: list[Any] = []
    if isinstance(found, (ModuleType, type, BuiltinFunctionType, np.ndarray)):
        return parts
    if isinstance(found, MutableMapping):
        parts = list(found.values())
    elif isinstance(found, (list, set, tuple)):
        parts = list(found)
    elif isinstance(found, MethodType):
        parts = [found.__self__, found.__func__]
    elif isinstance(found, FunctionType):
        parts = [*_get_cells(found), *(found.__defaults__ or ())]
    if isinstance(getattr(found, "__dict__", None), dict):
        parts.append(found.__dict__)
    return parts


def _get_cells(function: FunctionType) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises where the cell is empty
    except ValueError:
        return False
    return True


def _put_back(found: Any, content: Any) -> None:
    """Make the content of an array, a list, a set or a mapping what it was."""
    if isinstance(found, np.ndarray):
        if found.flags.writeable:
            found[...] = content
    elif isinstance(found, list):
        found[:] = content
    else:
        same = len(found) == len(content) and all(
            a is b for a, b in zip(found, content, strict=True)
        )
        if isinstance(found, MutableMapping) and same:
            same = all(found[key] is content[key] for key in content)
        if not same:
            found.clear()
            found.update(content)


class _Settings:
    """The generators and modes of the process."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._numpy = np.random.get_state()  # noqa: NPY002 - the user's code may draw from it
        self._python = random.getstate()
        self._dtype = torch.get_default_dtype()
        self._grad = torch.is_grad_enabled()

    def restore(self) -> None:
        torch.set_rng_state(self._torch)
        np.random.set_state(self._numpy)  # noqa: NPY002 - likewise
        random.setstate(self._python)
        torch.set_default_dtype(self._dtype)
        torch.set_grad_enabled(self._grad)
