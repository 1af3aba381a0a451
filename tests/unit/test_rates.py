"""The worst rates, on shapes of which it is not the products that take the time."""

import time

import numpy as np
import pytest

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.table import ARITHMETICS
from moot.offchain.backends.cpu.engines import get_engine
from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.native.threads import set_threads
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from moot.offchain.providers.rates import ACCUMULATOR_NS, WIDE_ACCUMULATOR_NS, bound_operator

PATTERNS = {DType.FLOAT32: (1, 0x3FA01234), DType.BFLOAT16: (1, 0x3FA1)}
SHAPES = [(4000, 1, 1, 2), (4000, 1, 1, 1), (2000, 4, 1, 4), (1000, 1, 16, 2)]


INTEGERS = {
    DType.INT8: (DType.INT32, (1 << 7) - 1),
    DType.INT32: (DType.INT32, (1 << 31) - 1),
    DType.INT64: (DType.INT64, (1 << 63) - 1),
}
"""By the type of factors: that of their sums, and a number that fits no shorter one."""


def make_product(
    arithmetic: Arithmetic,
    sizes: tuple[int, ...],
    folded: int,
    types: tuple[DType, DType] | None = None,
) -> Node:
    """Return products of as many matrices of so many rows and columns, of factors and sums."""
    batch, m, n = sizes
    dtype, result = types or (arithmetic.short_factors or DType.FLOAT32, DType.FLOAT32)
    outer, steps = Row(batch, terms=((0, 1),)), Row(folded, terms=((3, 1),))
    a = Operand(Origin.NODE, dtype, 0, rows=(outer, Row(m, terms=((1, 1),)), steps))
    b = Operand(Origin.NODE, dtype, 1, rows=(outer, steps, Row(n, terms=((2, 1),))))
    operands = (immediate(result, 0), a, b)
    return Node(Kind.CONTRACT, Function.FMA, result, sizes, operands, (folded,))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("arithmetic", ARITHMETICS.values(), ids=str)
def test_many_small_matrices_are_bounded(
    arithmetic: Arithmetic, shape: tuple[int, int, int, int]
) -> None:
    """What a client may choose to make of a product takes no longer than the rates say."""
    batch, m, folded, n = shape
    node = make_product(arithmetic, (batch, m, n), folded)
    check_bound(arithmetic, node, shape, PATTERNS[node.operands[1].dtype])


@pytest.mark.parametrize("shape", [*SHAPES, (1, 1, 1024, 1024), (1, 64, 64, 64)], ids=str)
@pytest.mark.parametrize("factor", INTEGERS, ids=lambda it: it.name)
def test_products_of_integers_are_bounded(factor: DType, shape: tuple[int, int, int, int]) -> None:
    """Those of numbers that no instruction multiplies, too."""
    (batch, m, folded, n), (result, largest) = shape, INTEGERS[factor]
    node = make_product(ORDERED, (batch, m, n), folded, (factor, result))
    check_bound(ORDERED, node, shape, (largest,))


def check_bound(
    arithmetic: Arithmetic, node: Node, shape: tuple[int, int, int, int], patterns: tuple[int, ...]
) -> None:
    """Compare the time of a product of equal numbers with what the rates say."""
    batch, m, folded, n = shape
    plan, bound_s = get_engine(arithmetic).plan(node), bound_operator(arithmetic, node)
    set_threads(1)
    for pattern in patterns:
        kind = NUMPY_TYPES[node.operands[1].dtype]
        x, y = (
            np.full(size, pattern, f"u{kind.itemsize}").view(kind)
            for size in (batch * m * folded, batch * folded * n)
        )
        taken = []
        for _ in range(3):
            started = time.process_time()
            plan.run([None, x, y], 0)
            taken.append(time.process_time() - started)
        assert min(taken) <= bound_s


@pytest.mark.parametrize(
    "arithmetic", [it for it in ARITHMETICS.values() if it.ends_on_chain], ids=str
)
def test_the_list_of_accumulators_is_bounded(arithmetic: Arithmetic) -> None:
    """A side has its accumulators in time, those of chains by their definition too."""
    folded = 512
    node = make_product(arithmetic, (1, 1, 1), folded)
    each_ns = WIDE_ACCUMULATOR_NS if arithmetic.accumulator_bytes else ACCUMULATOR_NS
    kind = NUMPY_TYPES[node.operands[1].dtype]
    x, y = np.random.default_rng(3).integers(0x3F00, 0x3FFF, (2, folded)).astype(kind)
    taken = []
    for _ in range(3):
        started = time.process_time()
        get_engine(arithmetic).list_partials(node, 0, [None, x, y])
        taken.append(time.process_time() - started)
    assert min(taken) * 1e9 <= folded * each_ns
