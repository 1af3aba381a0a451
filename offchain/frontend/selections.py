"""What a mask selects of a tensor: as many elements as data says, of which the folds are known.

`x[mask]` and `x.masked_select(mask)` have no fixed shape, and a program has fixed shapes. While a
step is traced, both return a `Selection`: all elements, and the mask. Functions of each element or
row apply to all of them; sums, means and losses leave out what is not selected. Whatever asks how
many there are is refused.

An element that is not selected holds the first one that is (1 where there is none), so that a
function which is defined on what is selected is defined on all, and no infinity or NaN reaches a
gradient by way of a factor of 0.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Any, NoReturn, Self

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import get_proxy_slot
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

from offchain.frontend.escapes import UNKNOWN
from offchain.frontend.lines import LineTracker
from offchain.frontend.lowering.graph import DATA_DEPENDENT, refusal

_BY_ELEMENT = frozenset(
    (
        *("abs", "absolute", "add", "and", "bool", "ceil", "clamp", "clamp_max", "clamp_min"),
        *("clip", "clone", "contiguous", "cos", "cosh", "detach", "div", "double", "elu"),
        *("eq", "erf", "exp", "expm1", "float", "floor", "ge", "gelu", "gt", "hardtanh"),
        *("int", "invert", "isfinite", "isinf", "isnan", "le", "leaky_relu", "log", "log10"),
        *("log1p", "log2", "logical_and", "logical_not", "logical_or", "logical_xor"),
        *("logit", "logsigmoid", "long", "lt", "maximum", "minimum", "mul", "multiply"),
        *("nan_to_num", "ne", "neg", "negative", "or", "pow", "radd", "rdiv", "reciprocal"),
        *("relu", "relu6", "rmul", "round", "rpow", "rsqrt", "rsub", "rtruediv", "sigmoid"),
        *("sign", "silu", "sin", "sinh", "softplus", "sqrt", "square", "sub", "subtract"),
        *("tan", "tanh", "to", "true_divide", "truediv", "trunc", "type", "type_as", "where"),
        "xor",
    )
)
"""Functions that take each element for itself."""

_BY_ROW = frozenset(("linear", "layer_norm", "rms_norm"))
"""Functions of rows that leave the first axis as it is, and take other tensors whole."""

_ALONG = frozenset(("argmax", "argmin", "cumsum", "log_softmax", "logsumexp", "softmax", "softmin"))
"""Functions along an axis, which must not be the one of what is selected."""

_LOSSES = frozenset(
    (
        *("binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "kl_div"),
        *("l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss"),
    )
)
"""Losses of each element, which `reduction` folds."""

_WEIGHED = frozenset(("binary_cross_entropy", "binary_cross_entropy_with_logits"))
"""Losses whose weights are factors; the means of others are divided by the sum of weights."""

_OPERATORS = (
    *("add", "and", "eq", "ge", "gt", "invert", "le", "lt", "mul", "ne", "neg", "or", "pow"),
    *("radd", "rmul", "rpow", "rsub", "rtruediv", "sub", "truediv", "xor"),
)
_ASKING = ("bool", "float", "int", "index", "iter", "len", "getitem", "setitem")


class Selecting(TorchFunctionMode):
    """Makes selections of what is selected while a step is traced.

    Args:
        tracker: finds the user's line.
        tracer: makes the graph, by which two masks are known to be alike.
    """

    def __init__(self, tracker: LineTracker, tracer: Any) -> None:
        super().__init__()
        self._tracker, self._tracer = tracker, tracer
        self._masks: list[Tensor] = []

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
        if func in (torch.masked_select, torch.Tensor.masked_select) and "out" not in options:
            x, mask = (*args, *options.values())
            x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]  # torch's is untyped
            return self._select(x, mask, "masked_select")
        if func is torch.Tensor.__getitem__ and _is_mask(args[1]) and args[0].ndim:
            return self._select(args[0], args[1], "x[mask]")
        if func is torch.Tensor.__setitem__ and isinstance(args[2], Selection):
            return args[2].write(args[0], self._find(args[1]) if _is_mask(args[1]) else None)
        return func(*args, **options)

    def _select(self, x: Tensor, mask: Tensor, origin: str) -> "Selection":
        mask = self._find(mask)
        if x.shape[: mask.ndim] != mask.shape:
            raise IndexError(f"a mask of shape {list(mask.shape)} of a tensor {list(x.shape)}")
        is_selected = mask.reshape(-1)
        rows = x.reshape(is_selected.shape[0], *x.shape[mask.ndim :])
        with torch.no_grad():
            first = rows.index_select(0, is_selected.int().argmax(0, keepdim=True))
            other = torch.where(is_selected.any(), first, torch.ones_like(first))
        rows = torch.where(_spread(is_selected, rows), rows, other)
        return Selection(rows, is_selected, mask, partial(self._refuse, origin))

    def _find(self, mask: Tensor) -> Tensor:
        """Return an earlier mask that was computed alike, or else this one."""
        for known in reversed(self._masks):
            if known is mask or _is_computed_alike(self._tracer, known, mask):
                return known
        self._masks.append(mask)
        return mask

    def _refuse(self, origin: str, name: str) -> NoReturn:
        line = self._tracker.find_line() or self._tracker.line
        raise refusal(DATA_DEPENDENT, f"{name} of {origin}", line)


class Selection:
    """The elements of a tensor at which a mask is true.

    Args:
        rows: (N, ...), all of them.
        is_selected: BOOL (N,).
        mask: the mask as it was given, by which two selections are known to be alike.
        refuse: raises the error that names a function that has no value.
    """

    def __init__(
        self, rows: Tensor, is_selected: Tensor, mask: Tensor, refuse: Callable[[str], NoReturn]
    ) -> None:
        self.rows, self.is_selected, self.mask, self.refuse = rows, is_selected, mask, refuse

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what a function of torch makes of selections."""
        del types
        options = dict(kwargs or {})
        name = func.__name__.strip("_")
        own = next(s for s in tree_leaves((args, options)) if isinstance(s, Selection))
        if name in _BY_ELEMENT:
            own.require_low(name, (args, options))
            return own.map(name, func, args, options)
        if name in _BY_ROW:
            if args[0] is not own or own.rows.ndim == 1:
                own.refuse(name)
            return own.map(name, func, args, options)
        if name in _LOSSES:
            return own.lose(func, args, options)
        handler = _HANDLERS.get(name)
        if name in _ALONG or (handler is _reduce and own.find_axes(args, options)):
            axes = own.find_axes(args, options)
            if axes and 0 not in axes:
                return own.map(name, func, args, options)
        if handler is None:
            own.refuse(name)
        return handler(own, func, args, options)

    def __getattr__(self, name: str) -> Any:
        """Return a method of tensors; a property has a value only where it is of all elements."""
        value = getattr(torch.Tensor, name)
        if name in ("dtype", "device", "requires_grad", "is_floating_point", "ndim", "dim"):
            return getattr(self.rows, name)
        if name == "shape":
            return self.count, *self.rows.shape[1:]
        if not callable(value):
            self.refuse(name)

        def call(*args: Any, **options: Any) -> Any:
            return self.__torch_function__(value, (), (self, *args), options)

        return call

    def __hash__(self) -> int:
        """Return what tells this object from others."""
        return id(self)

    def __format__(self, spec: str) -> str:
        """Return the word for what nobody knows yet."""
        return UNKNOWN

    @property
    def count(self) -> Tensor:
        """INT64, the size of the first axis."""
        return self.is_selected.sum()

    def replace(self, rows: Tensor) -> Self:
        """Return other elements in the places of these."""
        return type(self)(rows, self.is_selected, self.mask, self.refuse)

    def map(self, name: str, func: Any, args: Any, options: Any) -> Any:
        """Return a function of all elements, which leaves each in its place."""
        for other in tree_leaves((args, options)):
            if isinstance(other, Selection) and other.mask is not self.mask:
                self.refuse(f"{name} (with what another mask selects)")
        args, options = tree_map_only(Selection, lambda s: s.rows, (args, options))
        return self.replace(func(*args, **options))

    def require_low(self, name: str, arguments: Any) -> None:
        """Refuse tensors with several elements along the axis of what is selected."""
        for other in tree_leaves(arguments):
            if not isinstance(other, Tensor) or other.ndim < self.rows.ndim:
                continue
            if other.ndim > self.rows.ndim or other.shape[0] != 1:
                self.refuse(f"{name} (with a tensor {list(other.shape)})")

    def find_axes(self, args: Any, options: Mapping[str, Any]) -> list[int]:
        """Return the axes that a function along axes names."""
        dim = options.get("dim", options.get("axis", args[1] if len(args) > 1 else None))
        if dim is None or isinstance(dim, torch.dtype):
            return []
        return [
            d % max(self.rows.ndim, 1) for d in (dim if isinstance(dim, (list, tuple)) else [dim])
        ]

    def fill(self, value: float | bool) -> Tensor:  # noqa: FBT001 - an element
        """Return all elements, with a value for those that are not selected."""
        return torch.where(_spread(self.is_selected, self.rows), self.rows, value)

    def fold(self, reduction: str) -> Any:
        """Return the sum or the mean of the elements, or the elements."""
        if reduction == "none":
            return self
        if reduction not in ("mean", "sum"):
            self.refuse(reduction)
        total = self.fill(0).sum()
        return total / self.count_all() if reduction == "mean" else total

    def count_all(self) -> Tensor:
        """Return the number of elements, INT64."""
        return self.count * prod(self.rows.shape[1:])

    def lose(self, func: Any, args: Any, options: dict[str, Any]) -> Any:
        """Return a loss of each element, folded as its `reduction` says."""
        given = {key: value for key, value in options.items() if value is not None}
        reduction = given.pop("reduction", "mean")
        is_weighed = "weight" in given and func.__name__ not in _WEIGHED
        if len(args) > 2 or is_weighed or {"size_average", "reduce"} & {*given}:
            self.refuse(f"{func.__name__} (with these arguments)")
        self.require_low(func.__name__, (args, options))
        losses: Selection = self.map(func.__name__, func, args, {**given, "reduction": "none"})
        return losses.fold(reduction)

    def compact(self) -> Tensor:
        """Return the selected elements in order, and any others behind them."""
        count = self.is_selected.shape[0]
        place = torch.where(self.is_selected, self.is_selected.long().cumsum(0) - 1, count)
        line = torch.zeros_like(self.rows[:1]).repeat(count + 1)
        return line.scatter(0, place, self.rows)[:count]

    def write(self, x: Tensor, mask: Tensor | None) -> None:
        """Write the elements to their places in a tensor."""
        if mask is not self.mask:
            self.refuse("assignment (to another mask)")
        x.copy_(torch.where(_spread(self.mask, x), self.rows.reshape(x.shape), x))


def require_folded(result: Any, name: str) -> None:
    """Refuse a result of the step whose shape is not known."""
    if isinstance(result, Selection):
        result.refuse(name)


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype is torch.bool and index.ndim > 0


def _is_computed_alike(tracer: Any, a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are the same operators of the same, and nothing was written."""
    first, second = (get_proxy_slot(tensor, tracer, default=None) for tensor in (a, b))
    if first is None or second is None:
        return False
    if not _is_same(first.proxy.node, second.proxy.node, set()):
        return False
    node = first.proxy.node
    while node is not second.proxy.node:
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


def _spread(mask: Tensor, rows: Tensor) -> Tensor:
    """Return a mask of the first axes that broadcasts to all."""
    return mask.reshape(*mask.shape, *[1] * (rows.ndim - mask.ndim))


def _reduce(own: Selection, func: Any, args: Any, options: Any) -> Any:
    axes = own.find_axes(args, options)
    if not axes and len(args) == 1 and not options:
        return own.fold(func.__name__)
    if axes != [0] or len(args) + len(options) > 2:
        own.refuse(func.__name__)
    total = own.fill(0).sum(0)
    return total / own.count if func.__name__ == "mean" else total


def _count(own: Selection, func: Any, args: Any, options: Any) -> Any:
    if func.__name__ == "numel":
        return own.count_all()
    axes = own.find_axes(args, options)
    return own.shape[axes[0]] if axes else own.shape


def _find_extreme(own: Selection, func: Any, args: Any, options: Any) -> Any:
    if len(args) > 1 or options or not own.rows.is_floating_point():
        own.refuse(func.__name__)
    lowest = -torch.inf if "max" in func.__name__ else torch.inf
    return func(own.fill(lowest))


def _ask(own: Selection, func: Any, args: Any, options: Any) -> Any:
    if len(args) > 1 or options:
        own.refuse(func.__name__)
    return func(own.fill(func.__name__ == "all"))


def _classify(own: Selection, func: Any, args: Any, options: dict[str, Any]) -> Any:
    """Return the loss of classes: those that are not selected are ignored."""
    scores, classes, *rest = args
    is_alike = isinstance(scores, Selection) and isinstance(classes, Selection)
    if rest or not is_alike or classes.mask is not scores.mask or classes.is_floating_point():
        own.refuse(func.__name__)
    ignored = options.setdefault("ignore_index", -100)
    losses = func(scores.rows, classes.fill(ignored), **options)
    return own.replace(losses) if options.get("reduction") == "none" else losses


def _align(own: Selection, func: Any, args: Any, options: Any) -> Any:
    """Return the loss of labels one after the other: those behind the last are not read."""
    scores, labels, *rest = args
    if labels is not own or own.rows.ndim != 1:
        own.refuse(func.__name__)
    return func(scores, own.compact(), *rest, **options)


def _reshape(own: Selection, func: Any, args: Any, options: Any) -> Any:
    """Return the elements as they are, where a new shape changes no axis but the first."""
    shape = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    if options or tuple(shape) != (-1, *own.rows.shape[1:]):
        own.refuse(func.__name__)
    return own


_HANDLERS: Mapping[str, Callable[..., Any]] = {
    "sum": _reduce,
    "mean": _reduce,
    **dict.fromkeys(("max", "min", "amax", "amin"), _find_extreme),
    **dict.fromkeys(("any", "all"), _ask),
    **dict.fromkeys(("cross_entropy", "nll_loss"), _classify),
    "ctc_loss": _align,
    **dict.fromkeys(("numel", "size"), _count),
    **dict.fromkeys(("view", "reshape"), _reshape),
}


def _list_operators() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in _OPERATORS:
        function = getattr(torch.Tensor, f"__{name}__")

        def call(self: Selection, *args: Any, function: Any = function) -> Any:
            return self.__torch_function__(function, (), (self, *args))

        yield f"__{name}__", call
    for name in _ASKING:

        def ask(self: Selection, *_: Any, name: str = name) -> NoReturn:
            self.refuse(name)

        yield f"__{name}__", ask


for _name, _method in _list_operators():
    setattr(Selection, _name, _method)
