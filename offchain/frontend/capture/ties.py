"""Choices that torch leaves open, and those that a program makes.

A kernel that partitions a line takes whichever of equal elements lies well, and which one that is
depends on the processor; an eigenvector may have either sign. A program has one rule for each. A
step in which the two choose differently, and compute something else, is refused in a line that
names the operator.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from moot.offchain.frontend.decompositions.rotations import find_signs
from moot.offchain.frontend.decompositions.selection import kthvalue, mode
from moot.offchain.frontend.lines import LineTracker


class Choice(NamedTuple):
    """A choice that torch leaves open.

    Attributes:
        choose: makes it as a program does, in torch; takes the operator and its arguments.
        rule: what a program takes.
        advice: how to leave nothing open.
        subject: what is open.
    """

    choose: Callable[..., Any]
    rule: str
    advice: str
    subject: str = "it chooses among equals, which torch leaves open"


class Turned(NamedTuple):
    """A choice that torch's kernel makes otherwise than a program.

    Attributes:
        operator: the operator's name.
        line: the user's line.
    """

    operator: str
    line: str


def _sort(_: Any, x: Tensor, dim: int = -1, descending: bool = False) -> Any:  # noqa: FBT001, FBT002 - ATen's signature
    return x.sort(dim=dim, descending=descending, stable=True)


def _sort_stable(
    _: Any, x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Any:
    del stable
    return x.sort(dim=dim, descending=descending, stable=True)


def _topk(_: Any, x: Tensor, k: int, dim: int = -1, largest: bool = True, *_rest: Any) -> Any:  # noqa: FBT001, FBT002 - likewise
    if not x.ndim:
        return x.topk(k)
    return tuple(v.narrow(dim, 0, k) for v in x.sort(dim=dim, descending=largest, stable=True))


def _kthvalue(_: Any, *args: Any) -> Any:
    return kthvalue(*args)


def _mode(_: Any, *args: Any) -> Any:
    return mode(*args)


def _index_put(
    function: Any,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,  # noqa: FBT001, FBT002 - likewise
) -> Any:
    """Put values in their order, which torch's kernel takes from how tensors lie in memory."""
    given = [index for index in indices if index is not None]
    if not accumulate and all(index.dtype != torch.bool for index in given):
        joint = torch.broadcast_tensors(*given)  # type: ignore[no-untyped-call]  # torch's is untyped
        shape = x[tuple(slice(None) if index is None else index for index in indices)].shape
        spread = iter([index.contiguous() for index in joint])
        indices = [None if index is None else next(spread) for index in indices]
        values = values.expand(shape).contiguous()
    return function(x, indices, values, accumulate)


def _eigh(function: Any, *args: Any) -> Any:
    values, vectors = function(*args)
    return values, vectors * find_signs(vectors) if vectors.numel() else vectors


def _svd(function: Any, *args: Any, **options: Any) -> Any:
    left, values, right = function(*args, **options)
    count = values.shape[-1]
    if left.numel():
        signs = find_signs(left[..., :count])
        left = torch.cat([left[..., :count] * signs, left[..., count:]], -1)
        right = torch.cat([right[..., :count, :] * signs.mT, right[..., count:, :]], -2)
    return left, values, right


_STABLE = "sort with stable=True"
_SIGN = "the largest element of each is positive"
_PUT = Choice(
    _index_put,
    "of several values for one place the last one, in the order of the indices",
    "give every place one value, or make indices and values contiguous()",
)
OPEN: Mapping[str, Choice] = {
    "aten.topk.default": Choice(
        _topk, "the first of equal elements", f"{_STABLE} and take the first elements"
    ),
    "aten.sort.default": Choice(_sort, "the order in which equal elements were", _STABLE),
    "aten.sort.stable": Choice(_sort_stable, "the order in which equal elements were", _STABLE),
    "aten.kthvalue.default": Choice(
        _kthvalue,
        "the k-th in the order of a stable sort",
        f"{_STABLE} and take element k - 1",
    ),
    "aten.mode.default": Choice(
        _mode, "the last of the equal elements", "use the value, without its position"
    ),
    "aten.index_put.default": _PUT,
    "aten.index_put_.default": _PUT,
    "aten._index_put_impl_.default": _PUT,
    "aten._linalg_eigh.default": Choice(
        _eigh,
        f"those with which {_SIGN}",
        "multiply each by the sign of one of its elements, or use products that have it twice",
        "torch leaves open the signs of eigenvectors",
    ),
    "aten._linalg_svd.default": Choice(
        _svd,
        f"those of left ones with which {_SIGN}",
        "multiply left and right ones by the sign of an element of the left, or use products of "
        "both",
        "torch leaves open the signs of singular vectors",
    ),
}
"""ATen overload -> the choice that it leaves open."""


class Chooser(LineTracker):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Makes the choices that torch leaves open as a program makes them.

    Args:
        model: the module whose submodules' paths the lines begin with.

    Attributes:
        turned: the choices that torch's kernels make otherwise.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.turned: list[Turned] = []

    def __torch_dispatch__(
        self,
        func: Any,
        _types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        choice = OPEN.get(str(func))
        if choice is None or options.get("stable"):
            return func(*args, **options)
        copies = tree_map_only(Tensor, torch.clone, args) if func._schema.is_mutable else args  # noqa: SLF001 - not public
        theirs = tree_leaves(func(*copies, **options))
        ours = choice.choose(func, *args, **options)
        if not all(map(torch.equal, theirs, tree_leaves(ours))):
            self.turned.append(Turned(str(func), self.find_line()))
        return ours
