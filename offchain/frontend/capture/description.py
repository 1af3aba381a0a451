"""The description of a recipe by its content, complete or refused.

It holds all that a tracing can read of a recipe, but for the elements of its parameters and buffers
and what its batches hold, which no graph depends on: plain data, the form of each tensor and which
memory it lies in, the elements of tensors that are no parameters or buffers, the functions and the
classes with their code, the layout of the modules. Attributes are in
the order of their names, mappings in their own. Where an object is reached twice, the second
place says so. A recipe that reaches anything else has no description: hooks, objects that hold
what Python does not show, tensors of other kinds, classes that no module has under their name.

Code is described as it stands in memory, with default arguments and closures; of the global
variables that it reads, nothing is said: `surroundings` has the files of all modules.
"""

import hashlib
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property, partial
from operator import itemgetter
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any, Generic, Protocol

import numpy as np
import torch

from moot.offchain.frontend.exchange import to_array
from moot.offchain.frontend.memory import get_memory
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.frontend.subject import Subject

_VALUES = (type(None), bool, int, float, complex, str, bytes)
_TORCH_VALUES = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_MAPPINGS = (dict, OrderedDict, defaultdict, MappingProxyType)
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_ROOTS = (object, Generic, Protocol)
_UNREAD = ("__annotations__", "__dict__", "__doc__", "__module__", "__weakref__")
"""What a class has and no step reads, or what is said otherwise."""

_OWN_HASH = "_original_object_hash"
"""Where the transformers library keeps what `hash` gave for an object, another in each process."""

_MADE_AT_RUNTIME, _NOT_CALLABLE = 1 << 9, 1 << 7
"""Flags of classes: those that a class statement makes have the first one and not the second."""


class IndescribableError(Exception):
    """A recipe, or the process, has something whose content is not known."""


def describe_recipe(subject: Subject, batch: Sequence[torch.Tensor]) -> str:
    """Return the hash of a recipe's description and of the form of its first batch.

    Raises:
        IndescribableError: the recipe has none.
    """
    recipe, writer = subject.recipe, _Writer(subject.tensors)
    writer.write("model", recipe.model)
    if isinstance(recipe, TrainingRecipe):
        writer.write("loss", recipe.loss)
        writer.write("optimizer", recipe.optimizer)
        writer.write("scheduler", recipe.scheduler)
        writer.write("clip", recipe.clip)
        writer.write("accumulate", recipe.accumulate)
    else:
        writer.write("forward", recipe.forward)
    writer.write("seed", recipe.seed)
    for tensor in batch:
        writer.put(tensor.dtype, tensor.shape, tensor.stride(), type(tensor).__name__)
    return writer.hash()


class _Writer:
    """Writes descriptions of objects, one after the other, into one hash.

    Args:
        tensors: the parameters and buffers of the model, whose elements are left out.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._digest = hashlib.sha256()
        self._names = {id(tensor): name for name, tensor in tensors.items()}
        self._owners = {get_memory(tensor): name for name, tensor in tensors.items()}
        self._memories: dict[int, int] = {}
        self._seen: dict[int, tuple[int, Any]] = {}

    def hash(self) -> str:
        """Return the hash of all that was written."""
        return self._digest.hexdigest()

    def put(self, *parts: object) -> None:
        """Write values whose `repr` is their content."""
        text = repr(parts).encode()
        self._digest.update(len(text).to_bytes(8, "big") + text)

    def write(self, path: str, found: Any) -> None:
        """Write the description of an object, which is reached by a path."""
        kind = type(found)
        if kind in _VALUES:
            self.put(kind.__name__, found)
        elif kind in _TORCH_VALUES:
            self.put(kind.__name__, str(found))
        elif kind is tuple:
            self._write_items(path, found)
        elif kind is frozenset or kind is set:
            self._write_set(path, found)
        elif isinstance(found, Enum):
            self._write_class(path, kind)
            self.put(found.name)
        elif self._is_new(found):
            self._write_shared(path, found)

    def _is_new(self, found: Any) -> bool:
        """Return whether an object is here for the first time; say where it was, if it is not."""
        is_new = id(found) not in self._seen
        number, _ = self._seen.setdefault(id(found), (len(self._seen), found))
        self.put("object", number)
        return is_new

    def _write_shared(self, path: str, found: Any) -> None:
        """Write an object of which it matters whether two places have the same one."""
        kind = type(found)
        if kind is list:
            self._write_items(path, found)
        elif kind in _MAPPINGS:
            self._write_mapping(path, found)
        elif kind in _TENSORS:
            self._write_tensor(path, found)
        elif kind is np.ndarray and not found.dtype.hasobject:
            self.put("array", found.dtype.str, found.shape, found.tobytes())
        elif kind is ModuleType:
            self.put("module", found.__name__)
        elif isinstance(found, type):
            self._write_class(path, found)
        elif kind in (FunctionType, BuiltinFunctionType, MethodType, partial):
            self._write_callable(path, found)
        else:
            self._write_object(path, found)

    def _write_items(self, path: str, found: Sequence[Any]) -> None:
        self.put(type(found).__name__, len(found))
        for place, part in enumerate(found):
            self.write(f"{path}[{place}]", part)

    def _write_set(self, path: str, found: Any) -> None:
        if not _is_plain(found):
            raise IndescribableError(f"{path}: a set of what is no plain data")
        self.put("set", _sort(found))

    def _write_mapping(self, path: str, found: Mapping[Any, Any]) -> None:
        self.put(type(found).__name__, len(found))
        if isinstance(found, defaultdict):
            self.write(f"{path}.default_factory", found.default_factory)
        for key, part in found.items():
            self.write(f"{path} key", key)
            self.write(f"{path}[{key!r:.40}]", part)

    def _write_tensor(self, path: str, found: torch.Tensor) -> None:
        """Write a tensor's form, and its elements unless they are the model's."""
        hooks = (found._backward_hooks, getattr(found, "_post_accumulate_grad_hooks", None))  # noqa: SLF001 - torch names them no other way
        if any(hooks) or found.grad_fn is not None or (found.is_leaf and found.grad is not None):
            raise IndescribableError(f"{path}: a tensor with hooks or a gradient")
        if found.layout is not torch.strided or found.device.type != "cpu" or found.is_quantized:
            raise IndescribableError(f"{path}: a tensor that is not dense")
        form = (found.dtype, found.shape, found.stride(), found.storage_offset())
        self.put(type(found).__name__, *form, found.requires_grad, found.is_conj(), found.is_neg())
        memory = get_memory(found)
        self.put(self._memories.setdefault(memory, len(self._memories)))
        if memory in self._owners:
            self.put("of the model", self._names.get(id(found)), self._owners[memory])
        else:
            resolved = found.detach().resolve_conj().resolve_neg().contiguous()
            if resolved.is_complex():
                resolved = torch.view_as_real(resolved)
            self.put(to_array(resolved).tobytes())
        self.write(f"{path}.__dict__", vars(found))

    def _write_callable(self, path: str, found: Any) -> None:
        if isinstance(found, FunctionType):
            self._write_function(path, found, self.write)
        elif isinstance(found, MethodType):
            self.write(f"{path}.__func__", found.__func__)
            self.write(f"{path}.__self__", found.__self__)
        elif isinstance(found, partial):
            for name in ("func", "args", "keywords"):
                self.write(f"{path}.{name}", getattr(found, name))
        elif found.__self__ is None or isinstance(found.__self__, (ModuleType, type)):
            self.put("built in", found.__module__, found.__qualname__)
        else:
            raise IndescribableError(f"{path}: a method of what Python does not show")

    def _write_object(self, path: str, found: Any) -> None:
        """Write an object all of whose content are attributes."""
        made = type(found).__new__ is object.__new__  # type: ignore[comparison-overlap]  # mypy takes the two for different kinds of functions
        for kind in type(found).__mro__:
            if kind not in _ROOTS and not (made and _is_of_python(kind)):
                raise IndescribableError(f"{path}: {kind.__module__}.{kind.__qualname__}")
        self._write_class(path, type(found))
        for name, part in sorted(_list_attributes(found), key=itemgetter(0)):
            if isinstance(found, torch.nn.Module) and "hook" in name and part:
                raise IndescribableError(f"{path}.{name}: hooks")
            self.put(name)
            if name == _OWN_HASH and part == hash(found):
                self.put("its own hash")
            else:
                self.write(f"{path}.{name}", part)

    def _write_class(self, path: str, kind: type) -> None:
        """Write a class and those that it inherits from, with the code of their methods."""
        for base in kind.__mro__:
            self.put("class", base.__module__, base.__qualname__, type(base).__qualname__)
            if base in _ROOTS or not self._is_new(base):
                continue
            if _find_by_name(base) is not base:
                raise IndescribableError(f"{path}: a class that its module does not have")
            for name, member in vars(base).items():
                if name not in _UNREAD:
                    self.put(name)
                    self._write_member(path, member)

    def _write_member(self, path: str, member: Any) -> None:
        """Write what a class, or the closure of one of its methods, has: code and plain data.

        Of anything else the type is written: it came with the file of its class.
        """
        if isinstance(member, (staticmethod, classmethod)):
            self._write_member(path, member.__func__)
        elif isinstance(member, property):
            for part in (member.fget, member.fset, member.fdel):
                self._write_member(path, part)
        elif isinstance(member, cached_property):
            self._write_member(path, member.func)
        elif isinstance(member, FunctionType):
            if self._is_new(member):
                self._write_function(path, member, self._write_member)
        else:
            self.put(type(member).__qualname__, _sort(member) if _is_plain(member) else None)

    def _write_function(self, path: str, function: FunctionType, write: Any) -> None:
        """Write a function, its defaults and what it encloses."""
        self.put("function", function.__module__, function.__qualname__)
        self._write_code(function.__code__)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()):
            write(f"{path} default", default)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                content = cell.cell_contents
            except ValueError:
                self.put("an empty cell")
            else:
                write(f"{path} {name}", content)

    def _write_code(self, code: CodeType) -> None:
        names = [name for name in dir(code) if name.startswith("co_") and name in _CODE]
        self.put(*((name, getattr(code, name)) for name in names))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._write_code(constant)
            else:
                self.put(_sort(constant))


_CODE = frozenset(
    {
        *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_code"),
        *("co_names", "co_varnames", "co_freevars", "co_cellvars", "co_filename", "co_name"),
        *("co_firstlineno", "co_linetable", "co_exceptiontable"),
    }
)
"""The attributes of code that are its content, but for its constants."""


def _list_attributes(found: Any) -> Iterator[tuple[str, Any]]:
    """Yield all attributes of an object, those in slots first."""
    for kind in type(found).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(found, name):
                yield name, getattr(found, name)
    yield from getattr(found, "__dict__", {}).items()


def _is_of_python(kind: type) -> bool:
    """Return whether a class is one of a Python file outside of Python's own library.

    Classes that are written in C may give themselves out to be of such a file.
    """
    is_in_python = kind.__flags__ & _MADE_AT_RUNTIME and not kind.__flags__ & _NOT_CALLABLE
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) or ""
    is_own = kind.__module__.partition(".")[0] in sys.stdlib_module_names
    is_found = file.endswith(".py") and not is_own and _find_by_name(kind) is kind
    return is_found and bool(is_in_python)


def _find_by_name(kind: type) -> Any:
    """Return what a class's module has under the class's name."""
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found


def _is_plain(found: Any) -> bool:
    """Return whether a value is plain data, through and through."""
    kind = type(found)
    if kind in (tuple, list, set, frozenset):
        return all(map(_is_plain, found))
    if kind is dict:
        return all(_is_plain(key) and _is_plain(part) for key, part in found.items())
    return kind in _VALUES or kind in _TORCH_VALUES


def _sort(found: Any) -> Any:
    """Return plain data whose `repr` is its content, with sets in an order of their own."""
    if isinstance(found, (set, frozenset)):
        return ("set", sorted(repr(_sort(part)) for part in found))
    if type(found) is tuple:
        return tuple(map(_sort, found))
    if type(found) is list:
        return [*map(_sort, found)]
    if type(found) is dict:
        return [(_sort(key), _sort(part)) for key, part in found.items()]
    return found
