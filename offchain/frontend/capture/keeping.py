"""The record of a model before capture, which restores every attribute, tensor and generator."""

import contextvars
import os
import random
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from moot.offchain.frontend.capture.contents import (
    Part,
    is_equal_data,
    list_changes,
    read_content,
    split_content,
    walk,
    write_content,
)
from moot.offchain.frontend.memory import get_memory
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.frontend.subject import Subject

LARGEST = 1 << 12
"""The elements of a tensor or an array above which it is data, and no position or counter."""


@dataclass(frozen=True)
class Change:
    """A place whose content has changed.

    Attributes:
        path: how it is reached, `model.block.calls`.
        before: what it was.
        after: what it is.
    """

    path: str
    before: Any
    after: Any


@contextmanager
def kept(subject: Subject) -> Iterator["Memory"]:
    """Put back, in the end, everything that the model and the functions of a recipe reach."""
    memory = remember(subject)
    try:
        yield memory
    finally:
        memory.restore()


def remember(subject: Subject) -> "Memory":
    """Return the record of everything that the model and the functions of a recipe reach."""
    known = {*map(id, subject.tensors.values())}
    return Memory(list_roots(subject), known)


def remember_parts(subject: Subject) -> "Memory":
    """Return the record of what a recipe reaches, without large tensors and arrays."""
    return Memory(list_roots(subject), largest=LARGEST)


class Memory:
    """A record of everything that some objects reach, and of the settings of the process.

    Args:
        roots: the objects, with their paths.
        known: the `id` of tensors whose changes are not listed.
        largest: the elements of a tensor or an array above which it is not recorded.
    """

    def __init__(
        self,
        roots: Iterable[tuple[str, Any]],
        known: Collection[int] = (),
        largest: int = sys.maxsize,
    ) -> None:
        self._settings = _Settings()
        self._contents: list[tuple[str, Any, Any]] = []
        self._tensors: list[_KeptTensor] = []
        self._known, self._largest = known, largest
        for path, found in walk(roots):
            self._remember(path, found)

    @property
    def copies(self) -> dict[int, torch.Tensor]:
        """Copies of the tensors, which nobody may write to, by their `id`."""
        return {id(kept.tensor): kept.content for kept in self._tensors}

    def _remember(self, path: str, found: Any) -> None:
        """Note the content of one object."""
        if isinstance(found, torch.Tensor):
            is_plain = found.layout is torch.strided and found.device.type == "cpu"
            is_plain = is_plain and not isinstance(found, FakeTensor)
            if is_plain and found.numel() <= self._largest:
                self._tensors.append(_KeptTensor(path, found))
        elif isinstance(found, np.ndarray) and found.size > self._largest:
            return
        elif (content := read_content(found)) is not None:
            self._contents.append((path, found, content))

    def list_parts(self) -> Iterator[Part]:
        """Yield the objects that were recorded, and their parts, by their content then."""
        for path, found, content in self._contents:
            yield from split_content(path, found, content)

    def list_changed_settings(self) -> list[Change]:
        """Return the variables of the process that have changed, and the generators."""
        return self._settings.list_changes()

    def list_changes(self) -> list[Change]:
        """Return what has changed, but for tensors and what torch itself keeps of modules."""
        return [*self._settings.list_changes(), *self.list_changed_objects()]

    def list_changed_objects(self) -> list[Change]:
        """Return what has changed likewise, without the generators of the process."""
        changes = [
            Change(part, before, after)
            for path, found, content in self._contents
            for part, before, after in list_changes(path, found, content)
            if not is_equal_data(before, after)
        ]
        tensors = [
            Change(tensor.path, "one content", "another")
            for tensor in self._tensors
            if id(tensor.tensor) not in self._known and tensor.has_changed
        ]
        return [*tensors, *changes]

    def restore(self) -> None:
        """Put everything back."""
        self.restore_tensors()
        for _, found, content in self._contents:
            write_content(found, content)
        self._settings.restore()

    def restore_tensors(self) -> None:
        """Put the tensors of the model back, and the generators; its other attributes stay."""
        with torch.no_grad():
            for tensor in self._tensors:
                tensor.restore()
        for path, found, content in self._contents:
            if path.endswith(("._parameters", "._buffers")):
                write_content(found, content)
        self._settings.restore()

    def forget(self, is_forgotten: Callable[[Any], bool]) -> None:
        """Put back the entries of mappings that have become something that is to be forgotten."""
        for _, found, content in self._contents:
            if isinstance(found, MutableMapping):
                for key, value in list(found.items()):
                    if value is not content.get(key) and is_forgotten(value):
                        del found[key]
                        found.update({key: content[key]} if key in content else {})


def list_roots(subject: Subject) -> list[tuple[str, Any]]:
    """Return the objects that a step runs, with their paths."""
    recipe, model = subject.recipe, list[tuple[str, Any]]([("model", subject.model)])
    model += [(f"model.{name}", parameter) for name, parameter in subject.parameters.items()]
    if isinstance(recipe, InferenceRecipe):
        return [*model, ("forward", recipe.forward)]
    updates = [("optimizer", recipe.optimizer), ("optimizer.scheduler", recipe.scheduler)]
    return [*model, ("loss", recipe.loss), *updates]


class _KeptTensor:
    """A tensor, with its content and its place in memory."""

    def __init__(self, path: str, tensor: torch.Tensor) -> None:
        self.path, self.tensor = path, tensor
        self._alias = tensor.detach()
        self.content = self._alias.clone()
        self._grad = tensor.grad if tensor.is_leaf else None
        self._requires_grad = tensor.requires_grad

    @property
    def has_changed(self) -> bool:
        """Whether what lies in the tensor's memory is not what it was."""
        before, now = self.content, self._alias
        return not torch.equal(before, now) and not torch.equal(
            before.nan_to_num(), now.nan_to_num()
        )

    def restore(self) -> None:
        """Put the tensor back where it was, with what was in it."""
        tensor, alias = self.tensor, self._alias
        if get_memory(tensor) != get_memory(alias) or tensor.shape != alias.shape:
            tensor.data = alias
        if self.has_changed:
            alias.copy_(self.content)
        if tensor.is_leaf:
            tensor.grad = self._grad
            tensor.requires_grad_(self._requires_grad)


class _Settings:
    """The generators and modes of the process."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._numpy = np.random.get_state()  # noqa: NPY002 - the user's code may draw from it
        self._python = random.getstate()
        self._dtype = torch.get_default_dtype()
        self._grad = torch.is_grad_enabled()
        self._variables = _read_variables()

    def list_changes(self) -> list[Change]:
        """Return what has changed: the variables of the process, and generators but torch's own."""
        variables = _read_variables()
        found = [
            Change(_name_variable(key), self._variables.get(key), value)
            for key, value in variables.items()
            if _is_other(value, self._variables.get(key))
        ]
        if random.getstate() != self._python:
            found.append(Change("Python's random", None, None))
        now = np.random.get_state()  # noqa: NPY002 - likewise
        if any(not np.array_equal(a, b) for a, b in zip(now, self._numpy, strict=True)):
            found.append(Change("numpy's random", None, None))
        return found

    def restore(self) -> None:
        torch.set_rng_state(self._torch)
        np.random.set_state(self._numpy)  # noqa: NPY002 - likewise
        random.setstate(self._python)
        torch.set_default_dtype(self._dtype)
        torch.set_grad_enabled(self._grad)
        for key, value in _read_variables().items():
            if _is_other(value, self._variables.get(key)):
                _restore_variable(key, self._variables)


def _read_variables() -> dict[str | ContextVar[Any], Any]:
    """Return the variables of the process's environment, and those of the context."""
    found: dict[str | ContextVar[Any], Any] = {}
    found.update(os.environ.items())
    found.update(contextvars.copy_context().items())
    return found


def _is_other(a: Any, b: Any) -> bool:
    """Return whether a variable is another number or text: packages keep other things in some."""
    return isinstance(a, (int, float, str)) and (type(a), a) != (type(b), b)


def _name_variable(key: str | ContextVar[Any]) -> str:
    return (
        f"the context's {key.name}" if isinstance(key, ContextVar) else f"the environment's {key}"
    )


def _restore_variable(
    key: str | ContextVar[Any], before: Mapping[str | ContextVar[Any], Any]
) -> None:
    """Put a variable back; one of the context that was not set can't be unset."""
    if isinstance(key, ContextVar):
        if key in before:
            key.set(before[key])
    elif key in before:
        os.environ[key] = before[key]
    else:
        del os.environ[key]
