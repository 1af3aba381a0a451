"""Lowering of a whole traced graph, with refusals that name the operator and the user's line."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter, getitem
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map_only

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.errors import CaptureError, MootError
from moot.offchain.frontend.exchange import NARROW, to_array
from moot.offchain.frontend.lowering.builder import (
    WIDENED,
    Builder,
    FaultError,
    Meta,
    RefusalError,
    Rule,
)
from moot.offchain.frontend.lowering.pairs import Pair, holds_pair, lower_pairs
from moot.offchain.frontend.lowering.shapes import SHAPES
from moot.offchain.frontend.lowering.table import FAMILIES, RULES
from moot.offchain.frontend.lowering.views import View

TORCH_TYPES = {
    torch.float32: DType.FLOAT32,
    torch.int64: DType.INT64,
    torch.int32: DType.INT32,
    torch.bool: DType.BOOL,
    torch.bfloat16: DType.BFLOAT16,
    torch.int8: DType.INT8,
    **dict.fromkeys(NARROW, DType.INT32),
}
"""Type of torch's -> that of the arithmetic; small integers are brought back to their range."""

MAX_TENSOR_BYTES = 1 << 63

DATA_DEPENDENT = "the program would depend on data; use where, or a fixed shape"

_MASKED = "; keep the shape, as in torch.where(mask, x, 0).sum() / mask.sum()"

WEIGHED = "; compute it of all, and weigh by the mask, as in y + (mask * w)[:, None] * expert(x)"
"""What to do instead of a function of what a mask selects."""

_ADVICE = {
    "aten._pack_padded_sequence.default": "; give the lengths as numbers, or use a mask",
    "aten.bincount.default": "; give minlength",
    "aten.index.Tensor": _MASKED,
    "aten.masked_select.default": _MASKED,
    "aten.nonzero.default": _MASKED,
}
"""Operator whose result has a shape that depends on data -> what to do instead."""

DRAW = "moot_draw"
"""Where a traced node's custom data holds the draw that it belongs to, (number, call)."""

Lowered = View | Pair | tuple[View | Pair | None, ...] | None


def describe_type(dtype: torch.dtype) -> str:
    """Return why a type is refused."""
    defined = ", ".join(str(known).removeprefix("torch.") for known in TORCH_TYPES)
    return f"{str(dtype).removeprefix('torch.')} is not part of the arithmetic; use {defined}"


def meta_of(tensor: torch.Tensor) -> Meta:
    """Return a traced tensor's type and shape; `RefusalError` where the arithmetic has none."""
    if tensor.dtype not in TORCH_TYPES:
        raise RefusalError(describe_type(tensor.dtype))
    if any(isinstance(size, torch.SymInt) for size in tensor.shape):
        raise RefusalError(DATA_DEPENDENT)
    meta = Meta(TORCH_TYPES[tensor.dtype], tuple(tensor.shape))
    if int(np.prod([1, *meta.shape], dtype=object)) * meta.dtype.width >= MAX_TENSOR_BYTES:
        raise RefusalError(f"a tensor of shape {meta.shape} reaches 2^63 bytes")
    return meta


def _meta_of_part(tensor: torch.Tensor) -> Meta:
    """Return a traced tensor's type and shape, or those of the parts of a complex one."""
    if tensor.dtype is torch.complex64:
        return Meta(DType.FLOAT32, tuple(tensor.shape))
    return meta_of(tensor)


def refusal(
    message: str, operator: str, line: str, kind: type[CaptureError] = CaptureError
) -> CaptureError:
    """Return the error that names an operator and the user's line, in the form of `LineTracker`."""
    module, _, rest = line.partition(" ")
    place = rest.partition(" ")[0]
    where = f" in {line}" if line else ""
    return kind(
        f"{operator}: {message}{where}",
        operator=operator,
        module=module or None,
        source_line=place or None,
    )


def _operator_of(node: Node) -> str:
    """Return the name of the operator as the model called it, before any decomposition."""
    return str(node.meta.get("original_aten") or node.target)


@contextmanager
def blaming(node: Node) -> Iterator[None]:
    """Name a traced node, and the user's line, where what is done with it within fails.

    Raises:
        CaptureError: it is refused.
        FaultError: anything else is raised.
    """
    operator, line = _operator_of(node), node.stack_trace or ""
    try:
        yield
    except RefusalError as error:
        operator, message = error.operator or operator, str(error)
        advice = advise(operator) if message == DATA_DEPENDENT else ""
        raise refusal(message + advice, operator, line) from error
    except (MootError, FaultError):
        raise
    except Exception as error:
        raise FaultError(operator, line) from error


def _get_draw(node: Node) -> tuple[int, int] | None:
    """Return the draw that a traced node belongs to."""
    draw: tuple[int, int] | None = node.meta.get("custom", {}).get(DRAW)
    return draw


def _explain(node: Node) -> str:
    """Return why an operator without a rule is refused."""
    tags = getattr(node.target, "tags", ())
    if node.target is torch.ops.aten._local_scalar_dense.default:  # noqa: SLF001 - the operator's name
        return DATA_DEPENDENT + advise_on_number(node.all_input_nodes[0].meta["val"].dtype)
    if torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags:
        return DATA_DEPENDENT
    if torch.Tag.nondeterministic_seeded in tags:
        return "no rule expresses this random operator; compose it of rand, randn or bernoulli"
    return "no rule expresses this operator; compose it of others"


def advise(operator: str) -> str:
    """Return what to do instead of an operator whose result depends on data in its shape."""
    return _ADVICE.get(operator, "")


def advise_on_number(dtype: torch.dtype) -> str:
    """Return what to do where a model makes a number of an element of a tensor."""
    if dtype.is_floating_point or dtype is torch.bool:
        return "; compute with the tensor itself"
    return "; compute and index with the tensor itself, as in x[i] or x[i + torch.arange(n)]"


def _widen(dtype: DType) -> DType:
    return WIDENED.get(dtype, dtype)


def _fix(view: View) -> View:
    """Return a view that is no longer taken for numbers of a shorter type, if it has floats."""
    return replace(view, short=None) if view.dtype is DType.FLOAT32 else view


_ARITHMETIC = ("Element by element", "Division and shifts", "Contractions", "Reductions")

_COMPUTING = frozenset(
    {
        *(name for family in _ARITHMETIC for name in FAMILIES[family]),
        *("aten.scatter_add.default", "aten.scatter_reduce.two", "aten.index_put.default"),
        *("aten.copy.default", "aten._unsafe_index_put.default"),
    }
    - {"aten.alias.default", "aten.clone.default", "aten.detach.default", "aten.where.self"}
)
"""Operators whose results may leave the range of a `NARROW` type."""


def _wrap(builder: Builder, view: View, dtype: Any) -> View:
    """Return INT32 numbers modulo 2^8 or 2^16, in the range of a type of as many bits."""
    mask = builder.scalar((1 << 8 * dtype.itemsize) - 1, DType.INT32)
    if not dtype.is_signed:
        return builder.map(Function.AND, view, mask)
    half = builder.scalar(1 << 8 * dtype.itemsize - 1, DType.INT32)
    lifted = builder.map(Function.ADD, view, half)
    low = builder.map(Function.AND, lifted, mask)
    return builder.map(Function.SUB, low, half)


class GraphLowering:
    """Lowers the nodes of one traced graph in order.

    Args:
        builder: receives the operators.
        module: the traced graph; it holds the tensor constants.

    Attributes:
        spans: the first and the following number of the operators that a traced node emitted.
        draws: the results of draws, by their number, and of the traced nodes that draw, by name.
    """

    def __init__(self, builder: Builder, module: GraphModule) -> None:
        self._builder = builder
        self._module = module
        self._values: dict[Node, Lowered] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        self._calls: dict[int, int] = {}
        self._first_streams: dict[int, int] = {}
        self._next_streams: dict[int, int] = {}
        self.draws: dict[int | str, tuple[View, ...]] = {}

    def run(self, inputs: Sequence[View]) -> list[View]:
        """Return the graph's outputs, given its inputs."""
        rest = iter(inputs)
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = next(rest)
            elif node.op == "output":
                outputs: list[View] = list(self._arguments(node.args[0]))
                return outputs
            else:
                first = len(self._builder.nodes)
                self._values[node] = self._lower(node)
                self._record(node, first)
        raise AssertionError("a traced graph ends in its output")

    def _record(self, node: Node, first: int) -> None:
        """Note what a traced node has emitted, and whether it draws random numbers."""
        last = len(self._builder.nodes)
        lowered = self._values[node]
        if first == last and isinstance(lowered, View) and lowered.node is not None:
            first, last = lowered.node, lowered.node + 1  # an equal operator was there before
        self.spans[node.name] = (first, last)
        draw = _get_draw(node)
        if draw is not None and node.target is not getitem:
            value = self._values[node]
            views = value if isinstance(value, tuple) else (value,)
            drawn = tuple(view for view in views if isinstance(view, View))
            number, call = draw
            if self._calls.setdefault(number, call) == call:
                self.draws[number] = drawn
            if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                self.draws[node.name] = drawn

    def _lower(self, node: Node) -> Lowered:
        line = node.stack_trace or ""
        with blaming(node):
            if node.op == "get_attr":
                return self._constant(node, line)
            if node.target is getitem:
                values, index = self._arguments(node.args)
                item: Lowered = values[index]
                return item
            return self._call(node, line)

    def _constant(self, node: Node, line: str) -> View | Pair:
        tensor: torch.Tensor = attrgetter(str(node.target))(self._module)
        _meta_of_part(tensor)
        self._builder.begin(node.name, line)
        if tensor.is_complex():
            parts = torch.view_as_real(tensor.detach().resolve_conj()).unbind(-1)
            return Pair(*(self._builder.tensor(part.contiguous().numpy()) for part in parts))
        return self._builder.tensor(to_array(tensor.detach().contiguous()))

    def _call(self, node: Node, line: str) -> Lowered:
        expected = node.meta.get("val")
        tensors = expected if isinstance(expected, (tuple, list)) else [expected]
        metas = [_meta_of_part(t) if isinstance(t, torch.Tensor) else None for t in tensors]
        args, options = self._arguments(node.args), self._arguments(node.kwargs)
        is_complex = any(isinstance(t, torch.Tensor) and t.is_complex() for t in tensors)
        self._builder.begin(node.name, line, [meta for meta in metas if meta])
        result: Lowered
        if is_complex or holds_pair((args, options)):
            result = lower_pairs(self._builder, str(node.target), args, options)
        elif (rule := RULES.get(str(node.target))) is None:
            raise RefusalError(_explain(node))
        else:
            with self._drawing(node):
                result = self._apply(str(node.target), rule, args, options, metas)
        kind = expected.dtype if isinstance(expected, torch.Tensor) else None
        if kind in NARROW and str(node.target) in _COMPUTING and isinstance(result, View):
            result = _wrap(self._builder, result, kind)
        values = result if isinstance(result, tuple) else (result,)
        for value, meta in zip(values, metas, strict=False):
            views = value.views if isinstance(value, Pair) else (value,)
            for view in views:
                assert view is None or meta == (view.dtype, view.shape), (node.format_node(), view)
        self._builder.finish(next((v for v in values if isinstance(v, View)), None))
        return result

    def _apply(
        self, target: str, rule: Rule, args: Any, options: Any, metas: Sequence[Meta | None]
    ) -> Lowered:
        """Apply a rule; where a tensor is BFLOAT16 or INT8, to FLOAT32 or INT32 numbers.

        What a rule computes of such numbers is rounded once, or wraps around, when it is done, as
        torch does it. Rules that move elements move them as they are. A result that the program
        itself has in FLOAT32 is of that type from there on, though it holds numbers of BFLOAT16;
        of integers the products are the same.
        """
        builder = self._builder
        given = [value for value in tree_leaves((args, options)) if isinstance(value, View)]
        types = {meta.dtype for meta in builder.results} | {view.dtype for view in given}
        wide = {WIDENED[dtype] for dtype in types if dtype in WIDENED}
        if not wide or (target in SHAPES and types.isdisjoint(wide)):
            return rule(builder, *args, **options)
        builder.results = tuple(Meta(_widen(meta.dtype), meta.shape) for meta in builder.results)
        args, options = tree_map_only(View, builder.widen, (args, options))
        result = rule(builder, *args, **options)
        views = result if isinstance(result, tuple) else (result,)
        rounded = tuple(
            _fix(builder.cast(view, meta.dtype)) if view and meta else view
            for view, meta in zip(views, metas, strict=False)
        )
        return rounded if isinstance(result, tuple) else rounded[0]

    @contextmanager
    def _drawing(self, node: Node) -> Iterator[None]:
        """Let an operator that repeats a draw have the streams of the first one."""
        draw = _get_draw(node)
        if draw is None:
            yield
            return
        number, call = draw
        following = self._builder.stream
        first = self._first_streams.setdefault(number, following)
        self._builder.stream = self._next_streams.get(call, first)
        yield
        self._next_streams[call] = self._builder.stream
        self._builder.stream = max(following, self._builder.stream)

    def _arguments(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self._values[value]
        if isinstance(value, (tuple, list)):
            return [self._arguments(item) for item in value]
        if isinstance(value, dict):
            return {key: self._arguments(item) for key, item in value.items()}
        return value
