"""Forms: how the tensors of a batch, or of a result, lie in mappings, sequences and records.

A form also knows which tensors of a batch have types of 8 or 16 bits, which a program widens.

A plain tuple or list of tensors is given to a recipe's function one by one. Any other batch is
given whole, as the batch function has made it, in containers of the same classes: mappings
(`BatchEncoding` of the transformers library, too), named tuples, lists, tuples and dataclasses,
one within another.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import torch

from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.frontend.exchange import NARROW, widen

_CONSTANTS = (type(None), bool, str)
"""What a batch may have beside tensors, if all batches have the same."""

_MOST_LETTERS = 40


class Leaf(NamedTuple):
    """What lies in no further container, with the names that lead to it."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a batch that is no plain tuple of tensors.

    Attributes:
        kind: the name of its class.
        skeleton: the batch, with the numbers of tensors in their places.
        names: the names that lead to each tensor.
        types: the types of the tensors; a program has wider ones for those of 8 or 16 bits.
        constants: what else lies in it, by the names that lead there.
    """

    kind: str
    skeleton: Any
    names: tuple[tuple[str, ...], ...]
    types: tuple[torch.dtype, ...]
    constants: Mapping[tuple[str, ...], Any]

    def fill(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return a batch of this form."""
        narrowed = (t.to(kind) for t, kind in zip(tensors, self.types, strict=True))
        return _fill(self.skeleton, narrowed)


def list_leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield what lies in containers, in their order."""
    parts = _list_parts(value)
    if parts is None:
        yield Leaf(path, value)
        return
    for name, part in parts:
        yield from list_leaves(part, (*path, name))


def make_form(batch: Any, number: int) -> Form:
    """Return the form of a batch.

    Raises:
        UsageError: there is something in it that is no tensor.
    """
    leaves = list(list_leaves(batch))
    tensors = [leaf for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    others = [leaf for leaf in leaves if not isinstance(leaf.value, torch.Tensor)]
    for path, value in others:
        kind = type(value).__name__
        if not path:
            raise UsageError(f"batch({number}) is a {kind}; return a tuple of tensors")
        if not isinstance(value, _CONSTANTS):
            raise UsageError(
                f"batch({number}) has a {kind} in it, at {'.'.join(path)}; return tensors only"
            )
    return Form(
        type(batch).__name__,
        _fill(batch, iter(range(len(tensors)))),
        tuple(leaf.path for leaf in tensors),
        tuple(leaf.value.dtype for leaf in tensors),
        dict(others),
    )


def list_tensors(batch: Any, form: Form, number: int) -> list[torch.Tensor]:
    """Return the tensors of a batch, in the types that a program has for them.

    Raises:
        CaptureError: its form is not the one of the first batch.
    """
    found = make_form(batch, number)
    if (found.kind, found.names) != (form.kind, form.names):
        have, want = (f"{it.kind} of {_show_names(it)}" for it in (found, form))
        raise CaptureError(
            f"batch({number}) is a {have}, but batch(0) is a {want}; give all batches one form"
        )
    for path, value in found.constants.items():
        if value != form.constants[path]:
            raise CaptureError(
                f"batch({number}) has {value!r:.{_MOST_LETTERS}} at {'.'.join(path)}, and batch(0) "
                f"{form.constants[path]!r:.{_MOST_LETTERS}}; leave it out, or give it as a tensor"
            )
    for path, before, now in zip(form.names, form.types, found.types, strict=True):
        if before != now and {before, now} & {*NARROW}:
            raise CaptureError(
                f"batch({number}) has {now} at {'.'.join(path)}, and batch(0) {before}; give all "
                "batches the same types"
            )
    leaves = [leaf.value for leaf in list_leaves(batch)]
    return [widen(value) for value in leaves if isinstance(value, torch.Tensor)]


def _show_names(form: Form) -> str:
    return ", ".join(".".join(path) for path in (*form.names, *form.constants)) or "nothing"


def _list_parts(value: Any) -> list[tuple[str, Any]] | None:
    """Return what a container holds, by name; None of what is no container."""
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, (tuple, list)):
        return [(str(index), part) for index, part in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value)]
    return None


def _fill(value: Any, tensors: Iterator[Any]) -> Any:
    """Return a copy of containers, with what an iterator gives in the places of their tensors.

    The places are those of tensors, or of the numbers that a skeleton has there.
    """
    parts = _list_parts(value)
    if parts is None:
        is_place = isinstance(value, (torch.Tensor, int)) and not isinstance(value, bool)
        return next(tensors) if is_place else value
    new = [_fill(part, tensors) for _, part in parts]
    if isinstance(value, MutableMapping):
        mapping = copy(value)
        for key, part in zip(value, new, strict=True):
            mapping[key] = part
        return mapping
    if isinstance(value, Mapping):
        return type(value)(dict(zip(value, new, strict=True)))  # type: ignore[call-arg]  # as mappings are made
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(new)
    if isinstance(value, (tuple, list)):
        return type(value)(new)
    record = copy(value)
    for field, part in zip(fields(value), new, strict=True):
        object.__setattr__(record, field.name, part)
    return record
