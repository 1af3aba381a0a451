"""What a mask selects of a tensor: as many elements as data says, of which the folds are known.

`x[mask]`, `x.masked_select(mask)` and `x[torch.where(mask)]` have no fixed shape, and a program has
fixed shapes. While a step is traced, they return a `Selection`: all elements, and the mask.
Functions of each element or row apply to all of them; sums, means and losses leave out what is not
selected. Whatever asks how many there are is refused.

An element that is not selected holds the first one that is (1 where there is none), so that a
function which is defined on what is selected is defined on all, and no infinity or NaN reaches a
gradient by way of a factor of 0.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from types import FrameType
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from moot.offchain.frontend.escapes import UNKNOWN
from moot.offchain.frontend.regions import Regions

_BY_ELEMENT = frozenset(
    (
        *("abs", "absolute", "add", "and", "bool", "ceil", "clamp", "clamp_max", "clamp_min"),
        *("clip", "clone", "contiguous", "cos", "cosh", "detach", "div", "double", "elu"),
        *("eq", "erf", "exp", "expm1", "float", "floor", "floor_divide", "floordiv"),
        *("full_like", "ge", "gelu", "gt", "hardswish", "hardtanh", "int", "invert"),
        *("isfinite", "isinf", "isnan", "le", "leaky_relu", "log", "log10", "log1p", "log2"),
        *("logical_and", "logical_not", "logical_or", "logical_xor", "mish", "mod"),
        *("logit", "logsigmoid", "long", "lt", "maximum", "minimum", "mul", "multiply"),
        *("nan_to_num", "ne", "neg", "negative", "ones_like", "or", "pow", "radd", "rdiv"),
        *("reciprocal", "relu", "relu6", "remainder", "rmul", "round", "rpow", "rsqrt"),
        *("rsub", "rtruediv", "sigmoid"),
        *("sign", "silu", "sin", "sinh", "softplus", "sqrt", "square", "sub", "subtract"),
        *("tan", "tanh", "to", "true_divide", "truediv", "trunc", "type", "type_as", "where"),
        *("xor", "zeros_like"),
    )
)
"""Functions that take each element for itself."""

_BY_ROW = frozenset(("layer_norm", "linear", "matmul", "mm", "rms_norm"))
"""Functions of rows that leave the first axis as it is, and take other tensors whole."""

_ALONG = frozenset(
    (
        *("argmax", "argmin", "chunk", "cumsum", "log_softmax", "logsumexp", "softmax", "softmin"),
        *("split", "squeeze", "unbind"),
    )
)
"""Functions along an axis, which must not be the one of what is selected."""

_SECOND = frozenset(("chunk", "split"))
"""Functions along an axis that is their third argument."""

_PRODUCTS = frozenset(("linear", "matmul", "mm"))
"""Functions of rows whose second argument is a matrix."""

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
    *("add", "and", "eq", "floordiv", "ge", "getitem", "gt", "invert", "le", "lt", "matmul"),
    *("mod", "mul", "ne", "neg", "or", "pow", "radd", "rmul", "rpow", "rsub", "rtruediv", "sub"),
    *("truediv", "xor"),
)
_ASKING = ("bool", "float", "int", "index", "iter", "len", "setitem")


class Mask:
    """A mask of the first axes of tensors, by whose identity selections are known to be alike.

    Args:
        tensor: BOOL, at least one axis.
        regions: those that the step is in; a mask selects nothing where torch does not go.
    """

    def __init__(self, tensor: Tensor, regions: Regions) -> None:
        self.tensor, self.regions = tensor.clone(), regions  # what it is now
        self.shape = tuple(tensor.shape)
        self._seen: dict[tuple[int, ...], Tensor] = {}

    def see(self, lead: tuple[int, ...]) -> Tensor:
        """Return which elements are selected at all where axes of size 1 stand for whole ones.

        Args:
            lead: the mask's shape, or 1 in the place of a size.

        Returns:
            BOOL (prod(lead),).
        """
        if lead not in self._seen:
            pairs = enumerate(zip(lead, self.shape, strict=True))
            axes = [axis for axis, (size, whole) in pairs if size != whole]
            seen = self.tensor.any(axes) if axes else self.tensor
            self._seen[lead] = seen.reshape(-1)
        condition = self.regions.find_condition()
        return self._seen[lead] if condition is None else self._seen[lead] & condition

    def hide(self, rows: Tensor, lead: tuple[int, ...], otherwise: Tensor) -> Tensor:
        """Return rows in which those that are not selected are like the first that is.

        Args:
            rows: (prod(lead), ...).
            lead: as `see` takes it.
            otherwise: what they are if there is none.
        """
        is_selected = self.see(lead)
        with torch.no_grad():
            first = rows.index_select(0, is_selected.int().argmax(0, keepdim=True))
            other = torch.where(is_selected.any(), first, otherwise)
        return torch.where(spread(is_selected, rows), rows, other)


class Selection:
    """The elements of a tensor at which a mask is true.

    Args:
        rows: (prod(lead), ...), all of them.
        mask: the mask, which two selections share if they are of the same elements.
        lead: the mask's shape, but 1 for an axis along which all elements are alike.
        refuse: raises the error that names a function that has no value.
    """

    rows: Tensor

    def __init__(
        self, rows: Tensor, mask: Mask, lead: tuple[int, ...], refuse: Callable[[str], NoReturn]
    ) -> None:
        self.rows, self.mask, self.lead, self.refuse = rows, mask, lead, refuse

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
            own.require_rows(name, args, options)
            return own.map(name, func, args, options)
        if name in _FORMS:
            return _FORMS[name](own, func, args, options)
        if name in _ALONG or name in _REDUCED:
            axes = own.find_axes(args, options, 2 if name in _SECOND else 1)
            if axes and 0 not in axes:
                return own.map(name, func, args, options)
        args, options = tree_map_only(Selection, Selection.lay_out, (args, options))
        own = next(s for s in tree_leaves((args, options)) if isinstance(s, Selection))
        if name in _LOSSES:
            return own.lose(func, args, options)
        if name not in _HANDLERS:
            own.refuse(name)
        return _HANDLERS[name](own, func, args, options)

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
        return self.mask.tensor.sum()

    @property
    def is_selected(self) -> Tensor:
        """BOOL, which rows count."""
        return self.mask.see(self.lead)

    def replace(self, rows: Tensor) -> "Selection":
        """Return other elements in the places of these."""
        return Selection(rows, self.mask, self.lead, self.refuse)

    def lay_out(self, lead: tuple[int, ...] | None = None) -> "Selection":
        """Return the same elements with a row for each of the mask's, or for each of `lead`."""
        lead = self.mask.shape if lead is None else lead
        if lead == self.lead:
            return self
        rest = self.rows.shape[1:]
        rows = self.rows.reshape(*self.lead, *rest).expand(*lead, *rest)
        return Selection(rows.reshape(prod(lead), *rest), self.mask, lead, self.refuse)

    def join(self, name: str, values: Any) -> tuple[Any, tuple[int, ...]]:
        """Return values with the rows of selections in their places, and which rows these are."""
        given = [other for other in tree_leaves(values) if isinstance(other, Selection)]
        if any(other.mask is not self.mask for other in given):
            self.refuse(f"{name} (with what another mask selects)")
        lead = tuple(torch.broadcast_shapes(*(it.lead for it in given)))  # type: ignore[no-untyped-call]  # torch's is untyped
        return tree_map_only(Selection, lambda s: s.lay_out(lead).rows, values), lead

    def map(self, name: str, func: Any, args: Any, options: Any) -> Any:
        """Return a function of all elements, which leaves each in its place."""
        is_written = func.__name__.endswith("_") and not func.__name__.endswith("__")
        if is_written and type(args[0]) is not Selection:
            self.refuse(func.__name__)
        (given, options), lead = self.join(name, (args, options))
        found = func(*given, **options)
        if is_written:
            args[0].rows, args[0].lead = found, lead
            return args[0]

        def make(rows: Tensor) -> Selection:
            return Selection(rows, self.mask, lead, self.refuse)

        return tree_map_only(Tensor, make, found)

    def require_low(self, name: str, arguments: Any) -> None:
        """Refuse tensors with several elements along the axis of what is selected."""
        for other in tree_leaves(arguments):
            if not isinstance(other, Tensor) or other.ndim < self.rows.ndim:
                continue
            if other.ndim > self.rows.ndim or other.shape[0] != 1:
                self.refuse(f"{name} (with a tensor {list(other.shape)})")

    def require_rows(self, name: str, args: Sequence[Any], options: Mapping[str, Any]) -> None:
        """Refuse a function of rows that takes these otherwise."""
        others = [it for it in tree_leaves((args[1:], options)) if isinstance(it, Selection)]
        if args[0] is not self or others or self.rows.ndim == 1:
            self.refuse(name)
        if name in _PRODUCTS and args[1].ndim > 2:
            self.refuse(f"{name} (with a tensor {list(args[1].shape)})")

    def find_axes(self, args: Any, options: Mapping[str, Any], place: int = 1) -> list[int]:
        """Return the axes that a function along axes names."""
        given = args[place] if len(args) > place else None
        dim = options.get("dim", options.get("axis", given))
        if dim is None or isinstance(dim, torch.dtype):
            return []
        return [
            d % max(self.rows.ndim, 1) for d in (dim if isinstance(dim, (list, tuple)) else [dim])
        ]

    def pick(self, parts: tuple[Any, ...]) -> "Selection":
        """Return parts of the rows, by an index of the axes behind the first."""
        found: Selection = _pick(self, torch.Tensor.__getitem__, (self, (slice(None), *parts)), {})
        return found

    def answer(self, name: str, frame: FrameType) -> Any:
        """Return what Python asks for where it asks to leave out code; refuse it elsewhere."""
        self.mask.regions.why = ""
        found = self.mask.regions.enter_by_number(frame, self.count) if name == "len" else None
        if found is None:
            self.refuse(name + self.mask.regions.why)
        return found

    def fill(self, value: float | bool) -> Tensor:  # noqa: FBT001 - an element
        """Return all elements, with a value for those that are not selected."""
        return torch.where(spread(self.is_selected, self.rows), self.rows, value)

    def fold(self, reduction: str) -> Any:
        """Return the sum or the mean of the elements, or the elements."""
        if reduction == "none":
            return self
        if reduction not in ("mean", "sum"):
            self.refuse(reduction)
        total = self.fill(0).sum()
        return _divide(total, self.count_all()) if reduction == "mean" else total

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


def require_folded(result: Any, name: str) -> None:
    """Refuse a result of the step whose shape is not known."""
    if isinstance(result, Selection):
        result.refuse(name)


def spread(mask: Tensor, rows: Tensor) -> Tensor:
    """Return a mask of the first axes that broadcasts to all."""
    return mask.reshape(*mask.shape, *[1] * (rows.ndim - mask.ndim))


def _reduce(own: Selection, func: Any, args: Any, options: Any) -> Any:
    axes = own.find_axes(args, options)
    if not axes and len(args) == 1 and not options:
        return own.fold(func.__name__)
    if axes != [0] or len(args) + len(options) > 2:
        own.refuse(func.__name__)
    total = own.fill(0).sum(0)
    return _divide(total, own.count) if func.__name__ == "mean" else total


def _divide(total: Tensor, count: Tensor) -> Tensor:
    """Return a mean, NaN of nothing, by which no NaN reaches a gradient."""
    return torch.where(count > 0, total / count.clamp(min=1), torch.nan)


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
    """Return the elements in another shape, which leaves the first axis as it is."""
    shape = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    first, *rest = shape if all(isinstance(size, int) for size in shape) else (0,)
    if options or first != -1 or -1 in rest or prod(rest) != prod(own.rows.shape[1:]):
        own.refuse(func.__name__)
    rows = own.rows
    return own if rest == [*rows.shape[1:]] else own.replace(rows.reshape(len(rows), *rest))


def _unsqueeze(own: Selection, func: Any, args: Any, options: Any) -> Any:
    dim = options.get("dim", args[-1])
    if dim % (own.rows.ndim + 1) == 0:
        own.refuse(func.__name__)
    return own.map(func.__name__, func, args, options)


def _expand(own: Selection, func: Any, args: Any, options: Any) -> Any:
    """Return rows that are repeated along other axes than the first."""
    shape = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    if func.__name__ == "expand_as" and isinstance(args[1], Selection):
        shape = (-1, *args[1].rows.shape[1:])
    if options or len(shape) != own.rows.ndim or shape[0] != -1:
        own.refuse(func.__name__)
    return own.replace(own.rows.expand(-1, *shape[1:]))


def _pick(own: Selection, func: Any, args: Any, options: Any) -> Any:
    """Return parts of rows, by an index that begins with `:` or with `...`."""
    if args[0] is not own or options:
        own.refuse("getitem")
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    first, *rest = index or (0,)
    known = all(part is None or isinstance(part, (int, slice)) for part in rest)
    used = sum(part is not None for part in rest)
    is_whole = isinstance(first, slice) and first == slice(None)
    if not known or not (is_whole or (first is Ellipsis and used < own.rows.ndim)):
        own.refuse("getitem")
    return own.map("getitem", func, (args[0], index), {})


def _drop(own: Selection, func: Any, args: Any, options: Any) -> Any:
    """Return the elements as they are, where nothing is dropped."""
    chance = args[1] if len(args) > 1 else options.get("p", 0.5)
    is_training = args[2] if len(args) > 2 else options.get("training", True)
    if chance and is_training:
        own.refuse(func.__name__)
    return own


_FORMS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("view", "reshape"), _reshape),
    **dict.fromkeys(("expand", "expand_as"), _expand),
    "unsqueeze": _unsqueeze,
    "getitem": _pick,
    "dropout": _drop,
}
"""Functions that change nothing but forms."""

_REDUCED = frozenset(("mean", "sum"))

_HANDLERS: Mapping[str, Callable[..., Any]] = {
    "sum": _reduce,
    "mean": _reduce,
    **dict.fromkeys(("max", "min", "amax", "amin"), _find_extreme),
    **dict.fromkeys(("any", "all"), _ask),
    **dict.fromkeys(("cross_entropy", "nll_loss"), _classify),
    "ctc_loss": _align,
    **dict.fromkeys(("numel", "size"), _count),
}
"""Functions of all that is selected."""


def _list_operators() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in _OPERATORS:
        function = getattr(torch.Tensor, f"__{name}__")

        def call(self: Selection, *args: Any, function: Any = function) -> Any:
            return self.__torch_function__(function, (), (self, *args))

        yield f"__{name}__", call
    for name in _ASKING:

        def ask(self: Selection, *_: Any, name: str = name) -> Any:
            return self.answer(name, sys._getframe(1))  # noqa: SLF001 - who asks

        yield f"__{name}__", ask


for _name, _method in _list_operators():
    setattr(Selection, _name, _method)
