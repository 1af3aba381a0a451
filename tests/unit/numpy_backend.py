"""A third backend, as small as can be: numpy, one operator after the other, nothing fused.

It shows what a backend has to do, and shares nothing with the others but the port. Every element of
an output is computed at once, every step of a fold after the one before; coordinates are integers
of any size. What numpy does not round as IEEE 754 does comes from the definition, bit by bit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.arithmetic.philox import uniform_bits
from moot.offchain.backends.port import FusedPlan, Plan
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.planning.grouping import Fused
from moot.offchain.programs.graph import Kind, Node, Operand, Origin

Columns = list[Any]
"""The values of variables at all elements of an output, as arrays of Python's integers."""


class Held:
    """A tensor of this backend, which is not an array to anybody else."""

    def __init__(self, array: Array) -> None:
        self.flat = np.array(array).reshape(-1)
        self.shape = array.shape


class Numpy:
    """The backend."""

    arithmetics = ("ordered",)

    def describe(self) -> str:
        """Return what it is."""
        return "numpy"

    def plan(self, node: Node, arithmetic: Arithmetic) -> Plan:
        """Return the plan of an operator, which is the operator itself."""
        assert arithmetic.name in self.arithmetics
        return Single(node)

    def is_fusible(self, node: Node, arithmetic: Arithmetic) -> bool:
        """Fuse nothing."""
        del node, arithmetic
        return False

    def plan_fused(self, fused: Fused, kept: Sequence[int]) -> FusedPlan:
        """Refuse, since nobody asks for it."""
        raise AssertionError((fused, kept))

    def admit(self, array: Array) -> Held:
        """Copy an array."""
        return Held(array)

    def fetch(self, tensor: Held) -> Array:
        """Copy a tensor."""
        return tensor.flat.reshape(tensor.shape).copy()

    def require_memory(self, needed_bytes: int) -> None:
        """Take what there is."""


class Single:
    """The plan of one operator.

    Args:
        node: the operator.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    def run(self, flats: Sequence[Held | None], step: int) -> Held:
        """Return the output."""
        node = self._node
        grid = np.indices(node.shape, object).reshape(len(node.shape), node.elements)
        variables: Columns = list(grid)
        tensors = [None if flat is None else flat.flat for flat in flats]
        with np.errstate(all="ignore"):
            if node.kind.folds:
                values = self._fold(variables, tensors)
            elif node.kind is Kind.RANDOM:
                bits = [uniform_bits(node.seed, step, node.stream, e) for e in range(node.elements)]
                values = np.array(bits, np.uint32).view(np.float32)
            else:
                values = self._read_all(variables, tensors)
        return Held(canonical(values.astype(NUMPY_TYPES[node.dtype])).reshape(node.shape))

    def _read_all(self, variables: Columns, tensors: Sequence[Array | None]) -> Array:
        """Return the elements of a map, a move or a gather."""
        node, count = self._node, self._node.elements
        if node.kind is Kind.GATHER:
            pairs = zip(node.operands[1:], tensors[1:], strict=True)
            indices = [read(o, t, variables, count).astype(object) for o, t in pairs]
            return read(node.operands[0], tensors[0], [*variables, *indices], count)
        pairs = zip(node.operands, tensors, strict=True)
        if node.kind is Kind.MAP:
            types = [operand.dtype for operand in node.operands]
            operands = [read(operand, tensor, variables, count) for operand, tensor in pairs]
            return apply(node.function, types, node.dtype, operands)
        found, is_missing = read(node.operands[-1], None, variables, count), np.ones(count, bool)
        for operand, tensor in pairs:
            here = is_missing & locate(operand, variables, count)[1]
            found = np.where(here, read(operand, tensor, variables, count), found)
            is_missing &= ~here
        return found

    def _fold(self, variables: Columns, tensors: Sequence[Array | None]) -> Array:
        """Return the elements of a fold: one step of all of them, and then the next one."""
        node, count = self._node, self._node.elements
        init, *operands = node.operands
        start = [*variables, *(np.zeros(count, object) for _ in node.fold_shape)]
        total, best = read(init, tensors[0], start, count), None
        for number, place in enumerate(np.ndindex(node.fold_shape)):
            here = [*variables, *(np.full(count, p, object) for p in place)]
            pairs = zip(operands, tensors[1:], strict=True)
            values = [read(operand, tensor, here, count) for operand, tensor in pairs]
            if node.function in {Function.ARGMAX, Function.ARGMIN}:
                if best is None:
                    best = self._read_best(total, variables, tensors[1])
                total, best = self._choose(number, total, best, values[0])
            elif node.kind is Kind.SCATTER:
                total = self._scatter(total, values, variables)
            elif node.multiplies_integers:
                first, second = (value.astype(total.dtype) for value in values)
                total = total + first * second
            else:
                types = [node.dtype] * (3 if node.kind is Kind.CONTRACT else 2)
                terms = [*values, total] if node.kind is Kind.CONTRACT else [total, *values]
                total = canonical(apply(node.function, types, node.dtype, terms))
        return total

    def _read_best(self, start: Array, variables: Columns, tensor: Array | None) -> Array:
        """Return the elements at the positions that a search starts from, where they are some."""
        node = self._node
        inside = start.view(np.uint64) < node.fold_length
        places = np.unravel_index(np.where(inside, start, 0), node.fold_shape)
        here = [*variables, *(place.astype(object) for place in places)]
        return read(node.operands[1], tensor, here, node.elements)

    def _choose(self, number: int, total: Array, best: Array, value: Array) -> tuple[Array, Array]:
        """Return positions and elements after another one: NaN beats all, the first of equals."""
        node, dtype = self._node, self._node.operands[1].dtype
        compare = Function.GT if node.function is Function.ARGMAX else Function.LT

        def is_true(function: Function, x: Array, y: Array) -> Array:
            return apply(function, [dtype, dtype], DType.BOOL, [x, y])

        is_nan = is_true(Function.NE, value, value) & is_true(Function.EQ, best, best)
        is_better = is_true(compare, value, best) | is_nan
        is_better |= total.view(np.uint64) >= node.fold_length
        return np.where(is_better, number, total), np.where(is_better, value, best)

    def _scatter(self, total: Array, values: Sequence[Array], variables: Columns) -> Array:
        """Return the elements after a step that reaches some of them."""
        node = self._node
        source, *indices = values
        reached = np.ones(node.elements, bool)
        for index, target in zip(indices, node.targets, strict=True):
            reached &= (index.astype(object) == variables[target]).astype(bool)
        after = source
        if node.function is not Function.COPY:
            types = [node.dtype, node.dtype]
            after = canonical(apply(node.function, types, node.dtype, [total, source]))
        return np.where(reached, after, total)


def locate(operand: Operand, variables: Columns, count: int) -> tuple[Any, Any]:
    """Return the element that an access addresses, and whether it is in range."""
    linear, inside = np.zeros(count, object), np.ones(count, bool)
    for row in operand.rows:
        value = np.full(count, row.offset, object)
        for variable, coefficient in row.terms:
            value = value + coefficient * variables[variable]
        quotient = value // row.divisor
        inside &= ((value == quotient * row.divisor) & (quotient >= 0)).astype(bool)
        inside &= (quotient < row.size).astype(bool)
        linear = linear * row.size + quotient
    return np.where(inside, linear, 0).astype(np.int64), inside


def read(operand: Operand, tensor: Array | None, variables: Columns, count: int) -> Array:
    """Return an operand's elements at the values of the variables."""
    width, dtype = operand.dtype.width, NUMPY_TYPES[operand.dtype]
    fill = np.frombuffer(operand.value.to_bytes(width, "little"), dtype).repeat(count)
    if operand.origin is Origin.IMMEDIATE or tensor is None or not tensor.size:
        return fill
    linear, inside = locate(operand, variables, count)
    return np.where(inside, tensor[linear], fill)


def canonical(values: Array) -> Array:
    """Return values, of which every NaN is the canonical one."""
    if values.dtype != np.float32:
        return values
    nan = np.array(CANONICAL_NAN, np.uint32).view(np.float32)
    return np.where(np.isnan(values), nan, values)


_NUMPY: dict[Function, Callable[..., Any]] = {
    Function.ADD: np.add,
    Function.SUB: np.subtract,
    Function.MUL: np.multiply,
    Function.WHERE: np.where,
    Function.COPY: np.array,
}
_OF_FLOATS: dict[Function, Callable[..., Any]] = {
    Function.DIV: np.divide,
    Function.SQRT: np.sqrt,
    Function.EQ: np.equal,
    Function.NE: np.not_equal,
    Function.LT: np.less,
    Function.GT: np.greater,
}


def apply(
    function: Function, types: Sequence[DType], result: DType, operands: Sequence[Array]
) -> Array:
    """Return a scalar function of elements: numpy's where that is IEEE 754's, or the definition."""
    if function in _NUMPY:
        return np.asarray(_NUMPY[function](*operands))
    if types[-1] is DType.FLOAT32 and function in _OF_FLOATS:
        return np.asarray(_OF_FLOATS[function](*operands))
    patterns = [x.view(f"u{x.itemsize}").tolist() for x in map(np.ascontiguousarray, operands)]
    bits = [evaluate(function, types, result, row) for row in zip(*patterns, strict=True)]
    return np.array(bits, f"u{result.width}").view(NUMPY_TYPES[result])
