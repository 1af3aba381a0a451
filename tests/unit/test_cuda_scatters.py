"""Scatters of which a block has a line: the processor's bits, in whatever order threads run."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cuda import scatters
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.kernel import Context, Kernel, Loop, word
from moot.offchain.backends.cuda.machine import Tensor
from moot.offchain.backends.cuda.plans import Scattered, ScatteredByBlocks, plan
from moot.offchain.backends.cuda.scatters import SIZES, Sizes
from moot.offchain.backends.table import get_backend
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array, encode_elements
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.fuzz.compare import define
from tests.fuzz.draws import draw_case
from tests.quick import share
from tests.unit.test_cuda import assemble, encode, find_assembler, run, upload

F32, I64, I32 = DType.FLOAT32, DType.INT64, DType.INT32
FUNCTIONS = [
    *((f, t) for f in (Function.ADD, Function.MAX, Function.MUL) for t in (F32, I64, I32)),
    *((Function.COPY, t) for t in DType),
    (Function.OR, DType.BOOL),
]
SMALL = (Sizes(4, 8), Sizes(1, 4), Sizes(8, 8), Sizes(2, 64))
"""Blocks that small scatters have several parts of, one part, and elements a thread."""

MULTIPROCESSORS = 132


def read_all(sizes: Sequence[int], variables: Sequence[int]) -> tuple[Row, ...]:
    """Return the access to a tensor that has an axis for each of some variables."""
    return tuple(Row(sizes[v], 0, ((v, 1),)) for v in variables)


def make_scatter(
    shape: tuple[int, ...],
    folds: tuple[int, ...],
    targets: tuple[int, ...],
    function: Function = Function.ADD,
    dtype: DType = F32,
    index: DType = I64,
) -> Node:
    """Return a scatter whose source and indices have the axes that no index names, and folds."""
    sizes = shape + folds
    free = [v for v in range(len(sizes)) if v not in targets]
    init = Operand(Origin.STATE, dtype, 0, 0, read_all(sizes, range(len(shape))))
    source = Operand(Origin.STATE, dtype, 1, 0, read_all(sizes, free))
    indices = (
        Operand(Origin.STATE, index, 2 + i, 0, read_all(sizes, free)) for i in range(len(targets))
    )
    operands = (init, source, *indices)
    return Node(Kind.SCATTER, function, dtype, shape, operands, folds, targets=targets)


def draw_tensors(node: Node, seed: int) -> list[Array | None]:
    """Return tensors for a scatter: many indices come twice, and some are beyond either end."""
    rng, found = np.random.default_rng(seed), list[Array | None]()
    limits = [0, 0, *(node.shape[target] for target in node.targets)]
    for operand, limit in zip(node.operands, limits, strict=True):
        if operand.origin is Origin.IMMEDIATE:
            found.append(None)
            continue
        shape = tuple(row.size for row in operand.rows)
        if limit:
            far = rng.choice([-1, -(1 << 31), limit, (1 << 31) - 1], shape)
            drawn = np.where(rng.random(shape) < 0.2, far, rng.integers(0, limit, shape))
            if operand.dtype is I64:
                drawn = np.where(rng.random(shape) < 0.1, drawn + (1 << 32), drawn)
        elif operand.dtype is F32:
            special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, 1e-45], shape)
            drawn = np.where(rng.random(shape) < 0.1, special, rng.normal(size=shape))
        elif operand.dtype is DType.BFLOAT16:
            drawn = rng.integers(0, 0x7F80, shape)
        elif operand.dtype is DType.BOOL:
            drawn = rng.random(shape) < 0.5
        else:
            drawn = rng.integers(-100, 100, shape)
        found.append(drawn.astype(NUMPY_TYPES[operand.dtype]))
    return found


def compute(
    node: Node, sizes: Sizes, seed: int = 0, kernel: Kernel | None = None, order: int = 0
) -> bytes:
    """Return what blocks make of a scatter, in an order of threads that is drawn."""
    machine = Emulator(order)
    tensors = [upload(machine, array) for array in draw_tensors(node, seed)]
    out = Tensor(machine, node.shape, NUMPY_TYPES[node.dtype])
    loaded = machine.load(kernel or scatters.make_kernel(node, sizes))
    sources = [0 if tensor is None else tensor.address for tensor in tensors]
    parameters = [out.address, *sources, scatters.count_parts(node, sizes)]
    machine.launch(loaded, scatters.count_lines(node), parameters)
    return encode_elements(out.get()).tobytes()


def define_scatter(node: Node, seed: int = 0) -> bytes:
    """Return what a scatter is on the processor."""
    found = get_backend("cpu", ORDERED).plan(node, ORDERED).run(draw_tensors(node, seed), 0)
    return encode_elements(found).tobytes()


@cache
def list_scatters() -> list[Node]:
    """Return scatters of one index and several, lines of one element, and folds of all lengths."""
    found = [
        make_scatter((3, 7), (steps,), (1,), function, dtype, index)
        for steps, (function, dtype), index in zip(
            (1, 7, 8, 9, 17, 64, 65, 5) * 2, FUNCTIONS, (I64, I32) * 8, strict=False
        )
    ]
    found += [
        make_scatter((2, 5, 3), (4, 6), (0, 2)),
        make_scatter((2, 5, 3), (4, 6), (2, 0), Function.COPY),
        make_scatter((6, 3), (3, 3, 3), (0,), Function.COPY, I32, I32),
        make_scatter((5,), (30,), (0, 0)),
        make_scatter((5,), (30,), (0,)),
        make_scatter((4, 1), (12,), (1,)),
        make_scatter((3, 4, 2), (11,), (0, 1, 2), Function.MAX),
    ]
    plain = make_scatter((3, 7), (20,), (1,))
    init, source, index = plain.operands
    shifted = replace(source, value=0x3F800000, rows=(source.rows[0], Row(20, -3, ((2, 2),), 3)))
    beyond = replace(index, value=3, rows=(index.rows[0], Row(20, 5, ((2, 1),))))
    found += [
        replace(plain, operands=(immediate(F32, 0x80000000), source, index)),
        replace(plain, operands=(init, immediate(F32, 0x3F800000), index)),
        replace(plain, operands=(init, shifted, beyond)),
        replace(plain, operands=(init, source, immediate(I64, 4))),
    ]
    return found


@pytest.mark.parametrize("sizes", SMALL)
def test_blocks_fold_what_the_processor_does(sizes: Sizes) -> None:
    """Functions, types, duplicates, indices beyond, several indices, and lengths of no parts."""
    for number, node in enumerate(list_scatters()):
        found = {compute(node, sizes, number, order=order) for order in range(3)}
        assert found == {define_scatter(node, number)}, node


def test_drawn_programs_are_computed_as_they_are_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    """All scatters that blocks may have are theirs, and have the definition's bits."""
    taken = list[bool]()

    def take(node: Node, _: int) -> bool:
        taken.append(scatters.is_possible(node, SIZES))
        return taken[-1]

    monkeypatch.setattr(scatters, "is_worth_it", take)
    for number in range(share(240)):
        case = draw_case(Random(number), is_matrix=False)
        if any(node.kind is Kind.SCATTER for node in case.program.nodes):
            assert encode(run("cuda-emulator", case)) == encode(define(case)), number
    assert {*taken} == {True, False}


DOUBLE = make_scatter((2, 4), (24,), (1,))
"""A scatter of several parts, in which each element is named several times."""


def break_kernel(fault: str) -> Kernel:
    """Return the kernel of `DOUBLE` with a fault."""
    sizes = SMALL[0]
    kernel = scatters.make_kernel(DOUBLE, sizes)
    begin, loop, end = kernel.steps
    assert isinstance(loop, Loop)
    bring, fold = loop.phases
    assert callable(begin)
    assert callable(bring)
    assert callable(fold)
    assert callable(end)

    def both(context: Context) -> None:
        bring(context)
        fold(context)

    def shift(context: Context) -> None:
        context.thread = context.builder.xor(context.thread, word(1))
        fold(context)

    def repeat(context: Context) -> None:
        context.turn = word(0)
        bring(context)

    def skip(context: Context) -> None:
        nothing = context.builder.icmp_unsigned("==", context.thread, word(2))
        with context.builder.if_then(context.builder.not_(nothing)):
            fold(context)

    phases = {
        "no barrier": (both,),
        "others' elements": (bring, shift, fold),
        "one part again": (repeat, fold),
        "twice": (bring, fold, fold),
        "a thread less": (bring, skip),
    }
    return replace(kernel, steps=(begin, Loop(loop.count, phases[fault]), end))


@pytest.mark.parametrize(
    "fault", ["no barrier", "others' elements", "one part again", "twice", "a thread less"]
)
def test_broken_kernels_are_found_out(fault: str) -> None:
    """A barrier that is missing, and steps that are folded twice, again or not, are seen."""
    sizes, right = SMALL[0], define_scatter(DOUBLE)
    assert {compute(DOUBLE, sizes, order=order) for order in range(8)} == {right}
    kernel = break_kernel(fault)
    assert any(compute(DOUBLE, sizes, kernel=kernel, order=order) != right for order in range(8))


def test_another_order_is_found_out() -> None:
    """Sources that are folded from the last to the first have other bits."""
    init, *others = DOUBLE.operands
    backwards = (replace(o, rows=(o.rows[0], Row(24, 23, ((2, -1),)))) for o in others)
    turned = replace(DOUBLE, operands=(init, *backwards))
    assert compute(turned, SMALL[0]) == define_scatter(turned)
    assert compute(turned, SMALL[0]) != define_scatter(DOUBLE)


POOLED = make_scatter((16, 64, 12544), (3136,), (2,))
"""The gradient of ResNet-50's pooling."""


def test_blocks_have_lines_that_are_long_and_few() -> None:
    """Gradients of pooling are by blocks; of embeddings, and many or large lines, are not."""
    embedding = make_scatter((50257, 768), (1024,), (0,))
    init, source, index = embedding.operands
    columns = replace(source, rows=(Row(1024, 0, ((2, 1),)), Row(768, 0, ((1, 1),))))
    tokens = replace(index, rows=(Row(1024, 0, ((2, 1),)),))
    embedding = replace(embedding, operands=(init, columns, tokens))
    small = replace(embedding, shape=(1000, 768), operands=(immediate(F32, 0), columns, tokens))
    assert scatters.is_possible(POOLED, SIZES)
    assert scatters.is_worth_it(POOLED, MULTIPROCESSORS)
    assert scatters.is_worth_it(make_scatter((12, 800), (5000,), (1,)), MULTIPROCESSORS)
    assert not scatters.is_worth_it(embedding, MULTIPROCESSORS)
    assert not scatters.is_possible(small, SIZES)
    assert not scatters.is_possible(make_scatter((2, 1 << 14), (5000,), (1,)), SIZES)
    for few in (make_scatter((4, 10), (1,), (1,)), make_scatter((1 << 16, 10), (200,), (1,))):
        assert scatters.is_possible(few, SIZES)
        assert not scatters.is_worth_it(few, MULTIPROCESSORS)
    assert scatters.count_shared_bytes(POOLED, SIZES) == 4 * 12544 + 8 * SIZES.steps


def test_a_plan_is_by_blocks_where_it_is_worth_it() -> None:
    """It is one launch, of a block for each line and of as many turns as there are parts."""
    machine = Emulator()
    node = make_scatter((3, 40), (2000,), (1,))
    found = plan(machine, node, ORDERED)
    assert isinstance(found, ScatteredByBlocks)
    (launch,) = found.list_launches([1, 2, 3], [4], lambda _: 0)
    assert (launch.blocks, [*launch.parameters]) == (3, [4, 1, 2, 3, 4])
    tensors = [upload(machine, array) for array in draw_tensors(node, 0)]
    assert encode_elements(found.run(tensors, 0).get()).tobytes() == define_scatter(node)
    assert isinstance(plan(machine, make_scatter((3, 40), (2,), (1,)), ORDERED), Scattered)


@pytest.mark.slow
def test_steps_of_a_resnet_have_the_processors_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its pooling's gradient by blocks, one by one and in sequences."""
    taken = list[Node]()

    def take(node: Node, _: int) -> bool:
        taken.append(node)
        return scatters.is_possible(node, SIZES)

    monkeypatch.setattr(scatters, "is_worth_it", take)
    captured = capture(build("resnet"), trust=True)
    ours = Executor(captured.program)
    theirs = Executor(captured.program, backend="cuda-emulator")
    state = list(captured.initial_state)
    for step in range(4):
        batch = captured.batch(step)
        expected = ours.run(state, batch, step)
        assert encode(theirs.run(state, batch, step)) == encode(expected)
        state = expected
    assert any(prod(node.fold_shape) > 1 for node in taken)


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_code_is_assembled(architecture: str, tmp_path: Path) -> None:
    """Kernels of all functions, types and indices are assembled without a spill."""
    for node in [*list_scatters(), POOLED]:
        assemble(scatters.make_kernel(node, SIZES), architecture, tmp_path / "kernel.ptx")
