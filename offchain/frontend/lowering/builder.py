"""The builder: emits operators, each only once, and names them after the traced graph's nodes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import dtype_of
from moot.offchain.errors import ProgramError
from moot.offchain.frontend.lowering.views import (
    View,
    along,
    constant,
    expand,
    flatten,
    is_inside,
    reshape,
    whole,
)
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, Slot, immediate
from moot.offchain.programs.legality import check_node

Extents = Sequence[int | None]
"""The sizes of an operator's variables; None for the value of an index."""

Rule = Callable[..., "View | tuple[View | None, ...] | None"]
"""Lowers one overload: takes the builder and ATen's own arguments, tensors as views."""


WIDENED = {DType.BFLOAT16: DType.FLOAT32, DType.INT8: DType.INT32}
"""Type to keep numbers in -> the type in which they are computed with."""


class Meta(NamedTuple):
    """The facts about a tensor that tracing knows."""

    dtype: DType
    shape: tuple[int, ...]


class RefusalError(Exception):
    """A rule cannot express a call; the message says what and what to use instead.

    Args:
        message: the message.
        operator: the operator that was called, where it is not the one that is traced or lowered.
    """

    def __init__(self, message: str, operator: str = "") -> None:
        super().__init__(message)
        self.operator = operator


class FaultError(Exception):
    """Torch, or our own code, fails where a step is traced or lowered; its cause says how.

    Args:
        operator: the operator that was traced last, or is lowered.
        line: the user's line of it, in the form of `LineTracker`.
    """

    def __init__(self, operator: str, line: str) -> None:
        super().__init__(operator, line)
        self.operator, self.line = operator, line


class Builder:
    """Collects the operators of one program; two equal operators are emitted once.

    Args:
        seed: key of every random operator.
        first_constant: index of the state slot of the first constant tensor.
        arithmetic: the program's.

    Attributes:
        stream: the stream of the next random operator.
    """

    def __init__(self, seed: int, first_constant: int, arithmetic: Arithmetic = ORDERED) -> None:
        self.nodes: list[Node] = []
        self.names: list[str] = []
        self.lines: list[str] = []
        self.constants: list[np.ndarray[Any, Any]] = []
        self.constant_slots: list[Slot] = []
        self._constant_numbers: dict[tuple[DType, tuple[int, ...], bytes], int] = {}
        self._first_constant = first_constant
        self._seed = seed
        self._arithmetic = arithmetic
        self.stream = 0
        self._numbers: dict[Node, int] = {}
        self._taken: set[str] = set()
        self._prefix = self._line = ""
        self._start = 0
        self.results: tuple[Meta, ...] = ()

    @property
    def result(self) -> Meta:
        """What tracing says about the first result of the traced node."""
        return self.results[0]

    def begin(self, name: str, line: str, results: Sequence[Meta] = ()) -> None:
        """Start a traced node: what is emitted from now on is called `name.part`."""
        self._prefix, self._line, self._start = name, line, len(self.nodes)
        self.results = tuple(results)

    def finish(self, result: View | None) -> None:
        """End a traced node: the operator that yields its result takes its bare name."""
        index = result.node if result else None
        if index is None or index < self._start or self.nodes[index].kind is Kind.SOURCE:
            return
        self._taken.discard(self.names[index])
        self.names[index] = self._prefix
        self._taken.add(self._prefix)

    def emit(self, node: Node, part: str) -> View:
        """Add an operator, unless there is an equal one, and return its output."""
        index = self._numbers.setdefault(node, len(self.nodes))
        if index == len(self.nodes):
            _check(node, self._arithmetic)
            self.nodes.append(node)
            self.names.append(self._unique(f"{self._prefix}.{part}"))
            self.lines.append(self._line)
        return whole(node.dtype, node.shape, index)

    def _unique(self, name: str) -> str:
        number, candidate = 1, name
        while candidate in self._taken:
            candidate, number = f"{name}_{number}", number + 1
        self._taken.add(candidate)
        return candidate

    def source(self, slot: Slot, origin: Origin, index: int) -> View:
        """Return a slot's tensor, called `state:slot` or `batch:slot`."""
        rows = flatten(whole(slot.dtype, slot.shape, 0), identity(slot.shape), slot.shape)
        operand = Operand(origin, slot.dtype, index, rows=rows or ())
        node = Node(Kind.SOURCE, Function.COPY, slot.dtype, slot.shape, (operand,))
        view = self.emit(node, "source")
        self.names[view.node or 0] = f"{origin.name.lower()}:{slot.name}"
        return view

    def tensor(self, array: np.ndarray[Any, Any]) -> View:
        """Return exact data: a constant if it is one element, else the slot `constant.k`."""
        dtype = dtype_of(array)
        if array.size <= 1:
            bits = int.from_bytes(array.tobytes(), "little")
            return constant(dtype, bits, array.shape)
        key = (dtype, array.shape, array.tobytes())
        index = self._constant_numbers.setdefault(key, len(self.constants))
        if index == len(self.constants):
            self.constants.append(array)
            self.constant_slots.append(Slot(f"constant.{index}", dtype, array.shape))
        slot = self.constant_slots[index]
        return self.source(slot, Origin.STATE, self._first_constant + index)

    def scalar(self, value: float, dtype: DType) -> View:
        """Return a number as a constant of this type, rounded to nearest even."""
        if dtype is DType.FLOAT32:
            with np.errstate(over="ignore"):
                bits = int(np.float32(value).view(np.uint32))
            return constant(dtype, CANONICAL_NAN if isnan(value) else bits)
        whole_number = bool(value) if dtype is DType.BOOL else int(value)
        return constant(dtype, whole_number % (1 << 8 * dtype.width))

    def cast(self, value: View | float, dtype: DType) -> View:
        """Return a tensor or a number as a tensor of this type."""
        if not isinstance(value, View):
            return self.scalar(value, dtype)
        if value.dtype is dtype:
            return value
        if dtype is DType.INT8 and value.short is not None and value.dtype is WIDENED[dtype]:
            return replace(value, dtype=dtype, node=value.short, short=None)
        if value.node is None:
            bits = evaluate(Function.CONVERT, (value.dtype,), dtype, (value.bits,))
            return constant(dtype, bits, value.shape)
        return self.map(Function.CONVERT, value, dtype=dtype, part="convert")

    def widen(self, view: View) -> View:
        """Return a view of BFLOAT16 or INT8 numbers as one of FLOAT32 or INT32, others as they are.

        The whole tensor that is seen is converted, and seen in the same way, so that a matrix and
        its transpose are converted once; unless most of it is not seen.
        """
        if view.dtype not in WIDENED:
            return view
        dtype = WIDENED[view.dtype]
        if view.node is None:
            return self.cast(view, dtype)
        if 2 * view.elements < view.size:
            short = self.move(view) if self._arithmetic.find_short(dtype) is view.dtype else None
            wide = self.cast(view if short is None else short, dtype)
            return replace(wide, short=None if short is None else short.node)
        source = whole(view.dtype, self.nodes[view.node].shape, view.node)
        wide = self.cast(source, dtype)
        return replace(view, dtype=dtype, node=wide.node, short=view.node)

    def shorten(self, *factors: View) -> tuple[View, ...]:
        """Return the factors of a contraction in the shorter type that there is for them.

        They are returned as they are if there is none, or if one of them is no number of that type.
        """
        short = self._arithmetic.find_short(factors[0].dtype)
        found = [_shorten(view, short) for view in factors if short is not None]
        views = tuple(view for view in found if view is not None)
        is_any = any(view.node is not None for view in views)
        return views if is_any and len(views) == len(factors) else factors

    def operand(
        self, view: View, coordinates: Sequence[Row], extents: Extents, fill: int = 0
    ) -> Operand:
        """Return the operand that reads a view at these coordinates, and `fill` out of range.

        A view that rows cannot address is moved into row-major order first.
        """
        rows = None if view.node is None else flatten(view, coordinates, extents)
        if view.node is None and not view.elements:
            return immediate(view.dtype, fill)
        if view.node is None and all(is_inside(row, extents) for row in coordinates):
            return immediate(view.dtype, view.bits)
        if rows is None:
            view = self.move(view)
            rows = flatten(view, coordinates, extents)
        assert rows is not None
        assert view.node is not None
        return Operand(Origin.NODE, view.dtype, view.node, fill, rows)

    def map(
        self, function: Function, *views: View, dtype: DType | None = None, part: str = ""
    ) -> View:
        """Return a scalar function of views that broadcast; `dtype` is that of the last by default.

        Dimensions along which no view changes are computed once and expanded.
        """
        shape = np.broadcast_shapes(*(view.shape for view in views))
        spread = [expand(view, shape) for view in views]
        small = tuple(
            size if any(view.strides[d] for view in spread) else min(size, 1)
            for d, size in enumerate(shape)
        )
        operands = tuple(
            self.operand(replace(view, shape=small), identity(small), small) for view in spread
        )
        node = Node(Kind.MAP, function, dtype or views[-1].dtype, small, operands)
        return expand(self.emit(node, part or function.name.lower()), shape)

    def move(self, view: View) -> View:
        """Return a copy of a view in row-major order."""
        operand = self.operand(view, identity(view.shape), view.shape)
        node = Node(Kind.MOVE, Function.COPY, view.dtype, view.shape, (operand,))
        return self.emit(node, "move")

    def reshape(self, view: View, shape: Sequence[int]) -> View:
        """Return a view under another shape; it is moved first if strides cannot say it."""
        seen = reshape(view, shape)
        if seen is None:
            seen = reshape(self.move(view), shape)
        assert seen is not None
        return seen

    def uniform(self, shape: Sequence[int]) -> View:
        """Return uniform numbers of the next random stream."""
        node = Node(
            Kind.RANDOM,
            Function.UNIFORM,
            DType.FLOAT32,
            tuple(shape),
            seed=self._seed,
            stream=self.stream,
        )
        self.stream += 1
        return self.emit(node, "uniform")


def _shorten(view: View, dtype: DType) -> View | None:
    """Return a view's numbers in a shorter type, if they are known to be ones."""
    if view.node is not None:
        return None if view.short is None else replace(view, dtype=dtype, node=view.short)
    bits = evaluate(Function.CONVERT, (view.dtype,), dtype, (view.bits,))
    is_same = evaluate(Function.CONVERT, (dtype,), view.dtype, (bits,)) == view.bits
    return constant(dtype, bits, view.shape) if is_same else None


def _check(node: Node, arithmetic: Arithmetic) -> None:
    try:
        check_node(node, arithmetic)
    except ProgramError as error:
        raise RefusalError(str(error)) from error


def identity(shape: Sequence[int]) -> list[Row]:
    """Return the coordinates that address each element by the variables of the same numbers."""
    return [along(d, size) for d, size in enumerate(shape)]
