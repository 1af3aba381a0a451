"""Split products: torch's products of matrices, whose terms are summed in parts."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ATEN = torch.ops.aten


class Splitting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """A mode in which products of matrices add up the sums of several parts, the last one first.

    Everything else, convolutions included, is computed as usual.

    Args:
        parts: how many; with 1 nothing changes.
    """

    def __init__(self, parts: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self._parts = parts

    def __torch_dispatch__(
        self,
        func: Any,
        _types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        split = _SPLITS.get(func) if self._parts > 1 and not kwargs else None
        return split(self._parts, *args) if split else func(*args, **(kwargs or {}))


def _multiply(parts: int, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a product of matrices, or of batches of them."""
    pieces = zip(a.chunk(parts, -1), b.chunk(parts, -2), strict=True)
    first, *others = [torch.matmul(x, y) for x, y in pieces][::-1]
    for other in others:
        first = first + other
    return first


def _add(parts: int, bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return bias + _multiply(parts, a, b)


_SPLITS: Mapping[Any, Callable[..., torch.Tensor]] = {
    _ATEN.mm.default: _multiply,
    _ATEN.bmm.default: _multiply,
    _ATEN.addmm.default: _add,
    _ATEN.baddbmm.default: _add,
}
