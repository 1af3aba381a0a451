"""Selecting: what torch does with masks, and with the places of what they select, in a traced step.

Functions that select return selections (`selections.py`); functions that read or write by
coordinates read and write by masks (`coordinates.py`).
"""

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import get_proxy_slot
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves

from moot.offchain.frontend.coordinates import (
    Coordinates,
    Positions,
    Raised,
    add,
    list_coordinates,
    look_up,
    put,
    read,
)
from moot.offchain.frontend.lines import LineTracker
from moot.offchain.frontend.lowering.graph import DATA_DEPENDENT, WEIGHED, refusal
from moot.offchain.frontend.selections import Mask, Selection


class _Known(NamedTuple):
    """A mask that was met, and what it was then."""

    mask: Mask
    given: Tensor
    version: int
    node: Node | None


class Selecting(TorchFunctionMode):
    """Makes selections of what is selected while a step is traced.

    Args:
        tracker: finds the user's line.
        tracer: makes the graph, by which two masks are known to be alike.
    """

    def __init__(self, tracker: LineTracker, tracer: Any) -> None:
        super().__init__()
        self._tracker, self._tracer = tracker, tracer
        self._known: list[_Known] = []
        self._rules: Mapping[str, Callable[..., Any]] = {
            "masked_select": self._masked_select,
            "nonzero": self._nonzero,
            "where": self._where,
            "getitem": self._getitem,
            "setitem": self._setitem,
            "embedding": self._embedding,
            **{name: partial(self._call, rule) for name, rule in _BY_PLACES.items()},
        }

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Select instead of the functions that do; call any other function."""
        del types
        options = kwargs or {}
        name = getattr(func, "__name__", "")
        rule = self._rules.get(name.strip("_"))
        found = NotImplemented if rule is None else rule(name, *args, **options)
        return func(*args, **options) if found is NotImplemented else found

    def _masked_select(self, _: str, *args: Any, **options: Any) -> Any:
        if "out" in options:
            return NotImplemented
        x, mask = (*args, *options.values())
        x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]  # torch's is untyped
        return self._read(x, mask, "masked_select")

    def _nonzero(self, _: str, *args: Any, as_tuple: bool = False, **options: Any) -> Any:
        if options or not _is_located(args):
            return NotImplemented
        columns = self._locate(args[0], "nonzero")
        return columns if as_tuple else Positions(columns)

    def _where(self, _: str, *args: Any, **options: Any) -> Any:
        if options or not _is_located(args):
            return NotImplemented
        return self._locate(args[0], "where(mask)")

    def _getitem(self, _: str, x: Any, index: Any) -> Any:
        if not _selects(index) or not _is_plain(x):
            return NotImplemented
        return self._read(x, index, "x[mask]")

    def _setitem(self, _: str, x: Any, index: Any, values: Any) -> Any:
        if not _is_plain(x) or not (isinstance(values, Selection) or _has_selection(index)):
            return NotImplemented
        heads, tail = self._split(index, "x[mask]")
        if tail or not heads:
            self._refuse("x[mask]", "assignment (to another mask)")
        self._write(x, put(x, heads, values, heads[0].refuse))
        return None

    def _embedding(self, _: str, *args: Any, **options: Any) -> Any:
        if not args or not isinstance(args[0], Selection):
            return NotImplemented
        return look_up(torch.nn.functional.embedding, args[0], args[1:], options)

    def _call(self, rule: Callable[..., Any], name: str, *args: Any, **options: Any) -> Any:
        """Call a function of places, and write to its first argument if it does so."""
        given = [it for it in tree_leaves((args, options)) if isinstance(it, Selection)]
        if not given or not args or not _is_plain(args[0]):
            return NotImplemented
        refuse = given[0].refuse
        try:
            bound = signature(rule).bind(refuse, *args, **options)
        except TypeError:
            refuse(f"{name} (with these arguments)")
        found = rule(*bound.args, **bound.kwargs)
        return self._write(args[0], found) if name.endswith("_") else found

    def _write(self, x: Tensor, new: Tensor) -> Tensor:
        """Return a tensor whose elements are other ones now."""
        with self._tracker.regions.aside():
            return x.copy_(new)

    def _read(self, x: Tensor, index: Any, origin: str) -> Selection:
        """Return what an index selects that begins with masks or coordinates."""
        parts = index if isinstance(index, tuple) else (index,)
        is_raised = parts[0] is None
        heads, tail = self._split(parts[1:] if is_raised else parts, origin)
        refuse = heads[0].refuse if heads else partial(self._refuse, origin)
        if not heads or _has_selection(tail):
            refuse("indexing (in this order)")
        found = read(x, heads, refuse)
        if tail:
            found = found.pick(tail)
        return Raised(found.rows, found.mask, found.lead, refuse) if is_raised else found

    def _split(self, index: Any, origin: str) -> tuple[list[Selection], tuple[Any, ...]]:
        """Return the coordinates that an index begins with, and its other parts."""
        parts = list(index if isinstance(index, tuple) else (index,))
        heads: list[Selection] = []
        while parts and (isinstance(parts[0], Selection) or _is_mask(parts[0])):
            part = parts.pop(0)
            heads += [part] if isinstance(part, Selection) else self._locate(part, origin)
        return heads, tuple(parts)

    def _locate(self, x: Tensor, origin: str) -> tuple[Coordinates, ...]:
        """Return the coordinates of what is not zero."""
        mask = self._find(x if x.dtype is torch.bool else x != 0)
        return tuple(list_coordinates(mask, partial(self._refuse, origin)))

    def _find(self, given: Tensor) -> Mask:
        """Return an earlier mask that was computed alike, or else this one."""
        slot = get_proxy_slot(given, self._tracer, default=None)
        node = None if slot is None else slot.proxy.node
        version = given._version  # noqa: SLF001 - autograd's
        for known in reversed(self._known):
            is_same = known.given is given and known.version == version
            if is_same or _is_computed_alike(known.node, node):
                return known.mask
        self._known.append(_Known(Mask(given, self._tracker.regions), given, version, node))
        return self._known[-1].mask

    def _refuse(self, origin: str, name: str) -> NoReturn:
        line = self._tracker.find_line() or self._tracker.line
        raise refusal(DATA_DEPENDENT + WEIGHED, f"{name} of {origin}", line)


def _index_select(refuse: Any, x: Tensor, dim: int, index: Selection) -> Selection:
    _require_first(refuse, "index_select", x, dim)
    return read(x, [index], refuse)


def _index_add(
    refuse: Any, x: Tensor, dim: int, index: Any, source: Any, *, alpha: float = 1
) -> Tensor:
    _require_first(refuse, "index_add", x, dim)
    _require_place(refuse, "index_add", index)
    return add(x, [index], source if alpha == 1 else source * alpha, refuse)


def _index_copy(refuse: Any, x: Tensor, dim: int, index: Any, source: Any) -> Tensor:
    _require_first(refuse, "index_copy", x, dim)
    _require_place(refuse, "index_copy", index)
    return put(x, [index], source, refuse)


def _index_put(
    refuse: Any,
    x: Tensor,
    indices: Any,
    values: Any,
    accumulate: bool = False,  # noqa: FBT001, FBT002 - torch's signature
) -> Tensor:
    for index in indices:
        _require_place(refuse, "index_put", index)
    return (add if accumulate else put)(x, [*indices], values, refuse)


def _gather(refuse: Any, x: Tensor, dim: int, index: Selection) -> Selection:
    _require_first(refuse, "gather", x, dim)
    known = torch.where(index.mask.tensor.any(), index.rows, 0)
    return Selection(x.gather(0, known), index.mask, index.lead, refuse)


def _scatter_add(refuse: Any, x: Tensor, dim: int, index: Any, src: Any) -> Tensor:
    _require_first(refuse, "scatter_add", x, dim)
    _require_place(refuse, "scatter_add", index)
    _require_place(refuse, "scatter_add", src)
    if index.mask is not src.mask:
        refuse("scatter_add (with what another mask selects)")
    return x.scatter_add(0, index.lay_out().fill(0), src.lay_out().fill(0))


def _require_first(refuse: Any, name: str, x: Tensor, dim: Any) -> None:
    if not isinstance(dim, int) or dim % max(x.ndim, 1):
        refuse(f"{name} (along another axis than the first)")


def _require_place(refuse: Any, name: str, index: Any) -> None:
    if not isinstance(index, Selection):
        refuse(f"{name} (at places that are no selection)")


_BY_PLACES: Mapping[str, Callable[..., Any]] = {
    "index_select": _index_select,
    "index_add": _index_add,
    "index_copy": _index_copy,
    "index_put": _index_put,
    "gather": _gather,
    "scatter_add": _scatter_add,
}
"""Functions that read or write at places; those that end in `_` write to their first argument."""


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype is torch.bool and index.ndim > 0


def _is_plain(x: Any) -> bool:
    return isinstance(x, Tensor) and x.ndim > 0


def _is_located(args: tuple[Any, ...]) -> bool:
    """Return whether arguments are one tensor, whose places of what is not zero are asked for."""
    return len(args) == 1 and _is_plain(args[0]) and not args[0].is_complex()


def _selects(index: Any) -> bool:
    """Return whether an index begins with a mask, or has places of a selection in it."""
    first = index[0] if isinstance(index, tuple) and index else index
    return _is_mask(first) or _has_selection(index)


def _has_selection(values: Any) -> bool:
    return any(isinstance(it, Selection) for it in tree_leaves(values))


def _is_computed_alike(first: Node | None, second: Node | None) -> bool:
    """Return whether two nodes are the same operators of the same, and nothing was written."""
    if first is None or second is None or not _is_same(first, second, set()):
        return False
    node = first
    while node is not second:
        target = node.target
        is_mutable = isinstance(target, OpOverload) and target._schema.is_mutable  # noqa: SLF001 - not public
        if node.op == "root" or is_mutable:
            return False
        node = node.next
    return True


def _is_same(a: Any, b: Any, same: set[tuple[Node, Node]]) -> bool:
    """Return whether two values of a graph are the same operators of the same.

    Pairs that are found to be so are added to `same`: many paths may lead to one.
    """
    if not isinstance(a, Node) or not isinstance(b, Node):
        return type(a) is type(b) and bool(a == b)
    if a is b or (a, b) in same:
        return True
    if a.op != "call_function" or a.target is not b.target:
        return False
    (ours, spec), (theirs, other_spec) = (tree_flatten((n.args, n.kwargs)) for n in (a, b))
    if spec != other_spec:
        return False
    if not all(_is_same(one, other, same) for one, other in zip(ours, theirs, strict=True)):
        return False
    same.add((a, b))
    return True
