"""Constants: small tensors that a step makes of numbers alone, whose elements are known.

A branch on one is no branch on data: it goes the same way in every step. torch knows what
`torch.tensor` has made, and what was computed of that; here it learns of `ones`, `full`, `arange`
and their like, and forgets tensors that something else was written to, by whichever view.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.utils._mode_utils import no_dispatch

from moot.offchain.frontend.memory import get_memory, list_written
from moot.offchain.frontend.nesting import list_leaves

MOST_CONSTANTS = 1 << 10
"""Elements of a tensor whose elements are known."""

_ALIKE: Mapping[str, float | None] = {
    "aten::zeros_like": 0,
    "aten::ones_like": 1,
    "aten::new_zeros": 0,
    "aten::new_ones": 1,
    "aten::full_like": None,
    "aten::new_full": None,
    "aten::_efficientzerotensor": 0,
}
"""Operators that look at a shape alone, and what they fill their tensor with; None: with their
last argument. torch's own tensor that is known to be zero has no memory: another one is kept."""


class Constants:
    """Knows the elements of constants, as long as nothing else is written to them.

    Args:
        tracer: what makes the graph; it keeps what is known of a tensor.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._known: dict[int, list[Any]] = {}

    def call(self, func: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Return what an operator of the step makes, and note or forget what is known of it."""
        if func._schema.is_mutable and not self._stays_known(func, args, options):  # noqa: SLF001 - not public
            for tensor in list_leaves([*list_written(func, args, options)]):
                self._forget(tensor)
        result = func(*args, **options)
        if isinstance(result, torch.Tensor) and result.numel() <= MOST_CONSTANTS:
            self._learn(func, args, options, result)
        for tensor in list_leaves(result):
            self._keep(tensor)
        return result

    def _stays_known(self, func: Any, args: Any, options: Any) -> bool:
        """Return whether an operator writes what is known."""
        tensors = [x for x in list_leaves((args, options)) if isinstance(x, torch.Tensor)]
        known = (get_constant(x, self._tracer) is not None for x in tensors)
        return not _is_random(func) and all(known)

    def _learn(self, func: Any, args: Any, options: Any, result: torch.Tensor) -> None:
        """Note the elements that an operator makes of numbers."""
        slot = get_proxy_slot(result, self._tracer, default=None)
        if slot is None or slot.constant is not None:
            return
        name = func._schema.name  # noqa: SLF001 - likewise
        if name in _ALIKE:
            fill = args[-1] if _ALIKE[name] is None else _ALIKE[name]
            if isinstance(fill, bool | int | float):
                with no_dispatch():
                    slot.constant = torch.full(result.shape, fill, dtype=result.dtype)
        elif (
            all(map(_is_plain, list_leaves((args, options))))
            and not _is_random(func)
            and not name.startswith("aten::empty")
        ):
            with no_dispatch():
                slot.constant = func(*args, **options)

    def _keep(self, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor) and get_constant(tensor, self._tracer) is not None:
            slot = get_proxy_slot(tensor, self._tracer)
            self._known.setdefault(get_memory(tensor), []).append(slot)

    def _forget(self, tensor: torch.Tensor) -> None:
        for slot in self._known.pop(get_memory(tensor), ()):
            slot.constant = None


def get_constant(tensor: torch.Tensor, tracer: Any) -> torch.Tensor | None:
    """Return what is known of a traced tensor's elements."""
    slot: Any = get_proxy_slot(tensor, tracer, default=None)
    constant: torch.Tensor | None = getattr(slot, "constant", None)
    return constant


def is_constant(tensor: torch.Tensor) -> bool:
    """Return whether the elements of a tensor are known while a step is traced."""
    mode = get_proxy_mode()
    return mode is not None and get_constant(tensor, mode.tracer) is not None


def _is_random(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def _is_plain(value: Any) -> bool:
    """Return whether an argument is none that was computed in the step."""
    return not isinstance(value, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool)
