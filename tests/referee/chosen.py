"""Leaves that random draws hardly reach: at the limits of trees and tensors, and forged ones."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.evaluate import SIGNATURES
from moot.offchain.arithmetic.functions import CANONICAL_NAN, DType, Function
from moot.offchain.arithmetic.integers import signed
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tags import Tag
from moot.offchain.commitments.tensors import NUMPY_TYPES, TensorTree
from moot.offchain.commitments.tree import Tree, hash_root
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.sim.synthetic.run_length import RunLengthTensor
from tests.referee.nodes import PLACED, Leaf, Place, get_filler, make_leaf

F32, I64 = DType.FLOAT32, DType.INT64
ONE, TWO, THREE = 0x3F800000, 0x40000000, 0x40400000
TENSOR = RunLengthTensor(F32, (3,), {0: ONE, 1: CANONICAL_NAN, 2: TWO})
"""A number, one that is none, and a number."""
OTHER = RunLengthTensor(F32, (3,), {0: TWO})
"""One of its type and shape."""
CONSTANTS = {"F": (F32, (TWO, THREE, ONE)), "I": (I64, (7, 2, 3)), "B": (DType.BOOL, (0, 1, 1))}
CONSTANTS |= dict.fromkeys("XY", (DType.INT32, (7, 2, 3)))
"""The type that a letter of a signature stands for, and what the operands are."""
PRODUCTS = {
    (DType.INT8, DType.INT32): (0xFF, 0x7F, 0x80),
    (DType.INT32, DType.INT32): (0xFFFFFFFF, 0x7FFFFFFF),
    (DType.INT64, DType.INT64): ((1 << 64) - 1, 1 << 63),
}
"""The types of factors and of sums of integers, and numbers at the ends of the factors' ranges."""


def list_proven() -> Iterator[Leaf]:
    """Yield leaves whose evidence is right."""
    # On the way up from some of these places there is no sibling at one level or at several.
    for count in (5, 9, 20, 41):
        for last in (count - 1, count - 2):
            for other in (0, 1, count // 2):
                for origin in (Origin.NODE, Origin.STATE):
                    yield _read(origin, (last, other), count)
                    yield _read(origin, (other, last), count)
    yield _read(Origin.NODE, (0,), 1, RunLengthTensor(F32, (1,) * 7 + (2,), {0: ONE}))
    yield _read(Origin.NODE, (0,), 1, RunLengthTensor(F32, (2**61 - 1,), {0: ONE}))
    # What lies where the state should is a tensor.
    yield _read(Origin.NODE, (5,), 4)
    for function in (Function.ARGMAX, Function.ARGMIN):
        for element, best in ((0, 2), (1, 0), (1, 2), (2, 0), (2, 1)):
            yield _search(function, element, best)
    yield from _list_evaluated()
    for position in range(3):
        yield _spread(position)
    for dtype in (DType.INT32, I64):
        for index, offset in ((-1, 3), (-(2**31), 2**31 + 2), (-1, 0), (2, 0)):
            yield _gather(dtype, index, offset)


def list_forged() -> Iterator[Leaf]:
    """Yield leaves whose evidence leads to what is agreed, and has to be refused all the same."""
    yield _read(Origin.NODE, (0,), 1, TensorTree(np.array([1, 2, 3], np.int32)))
    for size in (2**61, 2**62):
        yield _read(Origin.NODE, (0,), 1, RunLengthTensor(F32, (size,), {0: ONE}))
    yield _read(Origin.NODE, (0,), 1, RunLengthTensor(F32, (1,) * 8 + (3,), {0: ONE}))
    # The second to read a tensor shows another one.
    leaf, other = (_read(Origin.NODE, (0, 0), 2, tensor) for tensor in (TENSOR, OTHER))
    yield replace(leaf, proofs=(leaf.proofs[0], other.proofs[1]))
    # The tree has fewer leaves than were proven: the last are nodes above two of these.
    leaf = _read(Origin.NODE, (5,), 4)
    yield replace(leaf, context=replace(leaf.context, operators=4))
    leaf = _read(Origin.STATE, (5,), 6)
    top = Tree(Tag.STATE_NODE, [*get_filler()[:5], TENSOR.root]).top
    before = hash_root(Tag.STATE_ROOT, 5, top)
    yield replace(leaf, context=replace(leaf.context, state_slots=5, before=before))
    leaf = _read(Origin.BATCH, (2,), 4)
    reads = tuple(replace(operand, reference=3) for operand in leaf.node.operands)
    context = replace(leaf.context, batch_slots=3)
    yield replace(leaf, node=replace(leaf.node, operands=reads), context=context)


def list_products(arithmetic: Arithmetic) -> Iterator[tuple[Leaf, int]]:
    """Yield leaves that add a product of integers to a third one, and what is right."""
    for (factor, result), values in PRODUCTS.items():
        width, least = 8 * factor.width, 1 << 8 * result.width - 1
        for x, y, before in product(values, values, (least - 1, 2 * least - 1)):
            operands = (immediate(result, before), immediate(factor, x), immediate(factor, y))
            node = Node(Kind.CONTRACT, Function.FMA, result, (1,), operands, (9,))
            right = (before + signed(width, x) * signed(width, y)) % (2 * least)
            # Bits above the sum's own do not count.
            for position, accumulator in ((0, 0), (8, before | 3 << 64)):
                at = Place(position=position, accumulator=accumulator)
                yield make_constant_leaf(node, at, arithmetic), right


def make_constant_leaf(node: Node, at: Place, arithmetic: Arithmetic = ORDERED) -> Leaf:
    """Return the leaf of an operator whose operands are constants."""
    return make_leaf(node, dict.fromkeys(PLACED, 1), {}, at, arithmetic)


def _list_evaluated() -> Iterator[Leaf]:
    """Yield leaves of every function, and of each of its signatures."""
    for function, signatures in SIGNATURES.items():
        for signature in signatures:
            yield _evaluate(function, signature)


def _evaluate(function: Function, signature: str) -> Leaf:
    """Return the leaf of a function of constants."""
    letters, _, result = signature.partition(">")
    types = [CONSTANTS[letter] for letter in letters]
    reads = (immediate(dtype, values[place]) for place, (dtype, values) in enumerate(types))
    dtype, _ = CONSTANTS[result]
    return make_constant_leaf(Node(Kind.MAP, function, dtype, (3,), tuple(reads)), Place())


def _read(origin: Origin, places: Sequence[int], count: int, tensor: TensorTree = TENSOR) -> Leaf:
    """Return the leaf of a function of as many tensors, of which each is the same, in step 1."""
    reads = tuple(Operand(origin, F32, place, 0, (Row(3),)) for place in places)
    node = _map(Function.NEG if len(reads) == 1 else Function.ADD, *reads)
    counts = {other: count if other is origin else 0 for other in PLACED}
    return make_leaf(node, counts, dict.fromkeys(((origin, p) for p in places), tensor), Place(1))


def _map(function: Function, *reads: Operand) -> Node:
    return Node(Kind.MAP, function, F32, (3,), reads)


def _search(function: Function, element: int, best: int) -> Leaf:
    """Return the leaf that compares an element with the best before it."""
    along = Operand(Origin.NODE, F32, 0, 0, (Row(3, 0, ((0, 1),)),))
    node = Node(Kind.REDUCE, function, I64, (), (immediate(I64, 3), along), (3,))
    counts = dict.fromkeys(PLACED, 1)
    at = Place(position=element, accumulator=best)
    return make_leaf(node, counts, {(Origin.NODE, 0): TENSOR}, at)


def _spread(position: int) -> Leaf:
    """Return the leaf that adds an element to the last of three sums, which is not 0."""
    along = Operand(Origin.NODE, F32, 0, 0, (Row(3, 0, ((1, 1),)),))
    reads = (immediate(F32, ONE), along, immediate(I64, 2))
    node = Node(Kind.SCATTER, Function.ADD, F32, (3,), reads, (3,), targets=(0,))
    at = Place(element=2, position=position, accumulator=THREE)
    return make_leaf(node, dict.fromkeys(PLACED, 1), {(Origin.NODE, 0): TENSOR}, at)


def _gather(dtype: DType, index: int, offset: int) -> Leaf:
    """Return the leaf that reads the element at an index, or so many behind it."""
    data = Operand(Origin.NODE, F32, 0, THREE, (Row(3, offset, ((1, 1),)),))
    at = Operand(Origin.NODE, dtype, 1, 0, (Row(1),))
    indices = TensorTree(np.array([index], NUMPY_TYPES[dtype]))
    tensors = {(Origin.NODE, 0): TENSOR, (Origin.NODE, 1): indices}
    node = Node(Kind.GATHER, Function.COPY, F32, (2,), (data, at))
    return make_leaf(node, dict.fromkeys(PLACED, 2), tensors, Place())
