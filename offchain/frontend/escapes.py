"""What becomes of elements that a model takes out of torch's tensors while a step is traced.

Whatever computes with them is refused; whatever only shows them, such as `print(f"{loss:.4f}")`,
shows a word in their place.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from moot.offchain.frontend.lines import LineTracker
from moot.offchain.frontend.lowering.graph import DATA_DEPENDENT, refusal
from moot.offchain.frontend.routes import Routes

_ESCAPES = ("numpy", "tolist")

_TRACED = (FakeTensor, torch.SymFloat, torch.SymInt, torch.SymBool)

_PLACES = re.compile(r"%(\(\w+\))?[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[diouxXeEfFgGcrsa]")
"""Where a text is filled by `%`."""

UNKNOWN = "(traced)"
"""What a text has in the place of a number that nobody knows yet."""


@contextmanager
def refuse_escapes(tracker: LineTracker, routes: Routes) -> Iterator[None]:
    """Refuse, with the line that the tracker finds, to make Python's numbers of a traced tensor.

    Raises:
        CaptureError: the model does so, with a traced tensor or one of its own.
    """
    with ExitStack() as patches:
        for name in _ESCAPES:
            patches.enter_context(_refuse(name, tracker, routes))
        for kind, name in product(_TRACED, ("__format__", "__repr__", "__str__")):
            patches.enter_context(mock.patch.object(kind, name, _show, create=True))
        patches.enter_context(mock.patch.object(logging.LogRecord, "getMessage", _get_message))
        yield


def _show(value: object, spec: str = "") -> str:
    del value, spec
    return UNKNOWN


def _get_message(record: logging.LogRecord) -> str:
    """Return what a record of a log says, of which `%f` can't show a number that nobody knows."""
    arguments = record.args
    if not arguments:
        return str(record.msg)
    shown = arguments if isinstance(arguments, tuple) else tuple(arguments.values())
    if not any(isinstance(it, _TRACED) for it in shown):
        return str(record.msg) % arguments
    return _PLACES.sub("%\\1s", str(record.msg)) % arguments


@contextmanager
def _refuse(name: str, tracker: LineTracker, routes: Routes) -> Iterator[None]:
    convert = getattr(torch.Tensor, name)

    def escape(tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
        if isinstance(tensor, FakeTensor) or routes.follow(tensor) is not tensor:
            raise refusal(DATA_DEPENDENT, f"torch.Tensor.{name}", tracker.find_line())
        with _disable_current_modes():  # a constant of the model: a mode would trace its copy
            return convert(tensor, *args, **options)

    setattr(torch.Tensor, name, escape)  # hides the method of the base class
    try:
        yield
    finally:
        delattr(torch.Tensor, name)
