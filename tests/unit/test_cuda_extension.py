"""Factors that are extended before they are multiplied: the same bits, and where it is worth it."""

from dataclasses import replace
from functools import cache
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cuda import contraction, plans
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.extension import (
    Extension,
    choose_extensions,
    extend,
    replace_factors,
)
from moot.offchain.backends.cuda.operators import make_kernel
from moot.offchain.backends.cuda.plans import Tiled, plan
from moot.offchain.backends.cuda.tiling import Tiling, choose_tiling, reads_along_lines
from moot.offchain.commitments.tensors import encode_elements
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.planning.accesses import find_strided
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.unit.test_cuda import (
    FEW,
    assemble,
    by_one_thread,
    draw_operands,
    encode,
    find_assembler,
    list_contractions,
    upload,
)

F32 = DType.FLOAT32
MULTIPROCESSORS = 132


def extend_all(node: Node, *_: object) -> list[Extension | None]:
    """Return extensions of all factors that may be extended."""
    return [extend(operand, node.shape + node.fold_shape) for operand in node.operands[1:]]


def make_convolution(
    images: int, channels: tuple[int, int], side: int, window: int, stride: int
) -> list[Node]:
    """Return a padded convolution, and the gradients of its image and of its weight.

    The image is (images, channels, side, side), and the weight (channels, channels, window,
    window), both in rows as programs have them.
    """
    (given, made), pad = channels, window // 2
    out = (side + 2 * pad - window) // stride + 1
    zero = immediate(F32, 0)

    def node(
        shape: tuple[int, ...], folds: tuple[int, ...], a: tuple[Row, ...], b: tuple[Row, ...]
    ) -> Node:
        first, second = (Operand(Origin.STATE, F32, i, 0, rows) for i, rows in enumerate((a, b)))
        return Node(Kind.CONTRACT, Function.FMA, F32, shape, (zero, first, second), folds)

    square, whole = window * window, out * out
    image = (
        Row(images * given, 0, ((0, given), (4, 1))),
        *(Row(side, -pad, ((2 + i, stride), (5 + i, 1))) for i in range(2)),
    )
    weight = (
        Row(made * given * square, 0, ((1, given * square), (4, square), (5, window), (6, 1))),
    )
    spread = (
        Row(images * made, 0, ((0, made), (4, 1))),
        *(Row(out, pad, ((2 + i, 1), (5 + i, -1)), stride) for i in range(2)),
    )
    turned = (
        Row(made * given * square, 0, ((1, square), (4, given * square), (5, window), (6, 1))),
    )
    gradient = (Row(images * made * whole, 0, ((0, whole), (4, made * whole), (5, out), (6, 1))),)
    slid = (
        Row(images * given, 0, ((1, 1), (4, given))),
        *(Row(side, -pad, ((2 + i, 1), (5 + i, stride))) for i in range(2)),
    )
    return [
        node((images, made, out, out), (given, window, window), image, weight),
        node((images, given, side, side), (made, window, window), spread, turned),
        node((made, given, window, window), (images, out, out), gradient, slid),
    ]


@cache
def list_small() -> list[Node]:
    """Return small convolutions and their gradients, padded and with strides, and some drawn."""
    cases = product((1, 3), (1, 2), (5, 6))
    found = [
        node
        for window, stride, side in cases
        for node in make_convolution(2, (3, 4), side, window, stride)
    ]
    far = Operand(Origin.STATE, F32, 0, 0x7FC01234, (Row(3, -7, ((0, 4), (2, -6)), 3), Row(2, 5)))
    near = Operand(Origin.STATE, F32, 1, 0, (Row(8, 0, ((1, 1), (2, 1))),))
    odd = Node(Kind.CONTRACT, Function.FMA, F32, (5, 6), (immediate(F32, 0), far, near), (3,))
    within = replace(far, rows=(Row(3, -7, ((0, 4), (2, -6)), 3), Row(9, 5)))
    odds = [odd, replace(odd, operands=(odd.operands[0], within, near))]
    return [*found, *odds, *list_contractions(30)]


def compute(node: Node, extensions: list[Extension | None], seed: int = 0) -> bytes:
    """Return what tiles make of a contraction whose factors are extended."""
    machine = Emulator(seed)
    tensors = [upload(machine, array) for array in draw_operands(node, 5)]
    found = Tiled(machine, node, FEW, extensions).run(tensors, 0)
    return encode_elements(found.get()).tobytes()


def test_extended_factors_give_the_same_bits() -> None:
    """Padding, strides and divisors, constants out of range, fills that are no numbers."""
    extended = 0
    for node in list_small():
        extensions = extend_all(node)
        extended += any(extensions)
        assert compute(node, extensions) == by_one_thread(node), node
    assert extended > 20


def test_extended_accesses_are_strided_and_read_what_was_read() -> None:
    """Each is in range on its whole domain, and finds the element or the fill of the original."""
    for node in list_small():
        sizes = node.shape + node.fold_shape
        for operand, extension in zip(node.operands[1:], extend_all(node), strict=True):
            if extension is None:
                assert operand.origin is Origin.IMMEDIATE or find_strided(operand.rows, sizes)
                continue
            assert find_strided(extension.operand.rows, sizes) is not None
            assert extension.size == 4 * prod(extension.move.shape)
            (source,) = extension.move.operands
            assert (source.value, source.dtype) == (operand.value, operand.dtype)
            for variables in np.ndindex(*sizes):
                place = extension.operand.index(variables)
                assert place is not None
                at = np.unravel_index(place, extension.move.shape)
                assert source.index([int(x) for x in at]) == operand.index(variables)


@pytest.mark.parametrize("fault", ["offset", "fill", "step", "divisor"])
def test_wrong_extensions_are_found_out(fault: str) -> None:
    """An extension that is laid out one beside, with other fills or without divisor is seen."""
    node = make_convolution(2, (3, 4), 6, 3, 2)[1]
    found = extend_all(node)
    first = found[0]
    assert first is not None
    (source,) = first.move.operands
    rows = list(source.rows)
    broken = {
        "offset": replace(rows[1], offset=rows[1].offset + 1),
        "step": replace(rows[1], terms=((1, 2),)),
        "divisor": replace(rows[1], divisor=1),
    }
    source = replace(
        source,
        value=0x3F800000 if fault == "fill" else source.value,
        rows=(rows[0], broken.get(fault, rows[1]), rows[2]),
    )
    found[0] = replace(first, move=replace(first.move, operands=(source,)))
    assert compute(node, found) != by_one_thread(node)


def test_memory_for_extensions_is_reserved_in_the_order_of_launches() -> None:
    """Each extension has memory of its own, as large as it is, and its launch before the tiles."""
    node = make_convolution(2, (3, 4), 6, 3, 1)[0]
    padded = node.operands[1]
    both = replace(node, operands=(node.operands[0], padded, replace(padded, reference=1)))
    extensions = extend_all(both)
    sizes = list[int]()

    def reserve(size: int) -> int:
        sizes.append(size)
        return 1000 * len(sizes)

    launches = Tiled(Emulator(), both, FEW, extensions).list_launches([0, 5, 6], [7], reserve)
    assert sizes == [each.size for each in extensions if each]
    assert [launch.parameters[:2] for launch in launches[:2]] == [[1000, 5], [2000, 6]]
    assert launches[2].parameters[:4] == [7, 0, 1000, 2000]


def choose(node: Node) -> list[bool]:
    """Return which factors are extended on a large device."""
    tiling = choose_tiling(node, MULTIPROCESSORS)
    assert tiling is not None
    return [each is not None for each in choose_extensions(node, tiling, MULTIPROCESSORS)]


def test_factors_are_extended_where_it_is_worth_it() -> None:
    """The convolutions of ResNet-50 are, but for what is read a few times; small ones are not."""
    stem = make_convolution(16, (3, 64), 224, 7, 2)
    middle = make_convolution(16, (256, 256), 14, 3, 1)
    down = make_convolution(16, (128, 128), 56, 3, 2)
    short = make_convolution(16, (256, 512), 56, 1, 2)
    assert choose(stem[0]) == [True, False]
    assert choose(stem[2]) == [False, True]
    assert [choose(node) for node in middle] == [[True, False], [True, False], [False, True]]
    assert [choose(node) for node in down] == [[False, False], [True, False], [False, True]]
    assert [choose(node) for node in short] == [[False, False]] * 3
    assert extend_all(short[1])[0] is not None
    assert [choose(node) for node in make_convolution(1, (8, 8), 8, 3, 1)] == [[False, False]] * 3


def test_a_plan_extends_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the choice says is what is launched."""
    node = make_convolution(2, (16, 16), 6, 3, 1)[0]
    for extensions, count in ((extend_all, 2), (lambda *_: [None, None], 1)):
        monkeypatch.setattr(plans, "choose_extensions", extensions)
        found = plan(Emulator(), node, ORDERED)
        assert isinstance(found, Tiled)
        assert len(found.list_launches([0, 1, 2], [3], lambda _: 0)) == count


@pytest.mark.slow
def test_steps_of_a_resnet_have_the_processors_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """All padded factors extended, in sequences and without, a step has the processor's states."""
    monkeypatch.setattr(plans, "choose_extensions", extend_all)
    captured = capture(build("resnet"), trust=True)
    ours = Executor(captured.program)
    theirs = Executor(captured.program, backend="cuda-emulator")
    state = list(captured.initial_state)
    for step in range(4):
        batch = captured.batch(step)
        expected = ours.run(state, batch, step)
        found = theirs.run(state, batch, step)
        assert encode(found) == encode(expected)
        state = expected


def test_neighbours_are_read_along_what_has_them_in_fewer_sectors() -> None:
    """A convolution reads along its window, its gradient along positions, a product along rows."""
    forward, backward, weight = make_convolution(16, (128, 128), 56, 3, 2)
    assert not reads_along_lines(forward, 0)
    assert not reads_along_lines(backward, 0)
    assert not reads_along_lines(weight, 1)
    pointwise = make_convolution(16, (128, 128), 56, 1, 1)[0]
    assert reads_along_lines(pointwise, 0)
    assert not reads_along_lines(pointwise, 1)


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_code_of_extended_convolutions_is_assembled(architecture: str, tmp_path: Path) -> None:
    """The convolutions of ResNet-50 that are extended, and what extends them: without a spill."""
    convolutions = [
        *make_convolution(16, (3, 64), 224, 7, 2)[::2],
        *make_convolution(16, (64, 64), 56, 3, 1),
        *make_convolution(16, (128, 128), 56, 3, 2),
    ]
    for node in convolutions:
        extensions, tiling = extend_all(node), choose_tiling(node, MULTIPROCESSORS)
        assert isinstance(tiling, Tiling)
        kernels = [make_kernel(each.move) for each in extensions if each]
        assert kernels
        kernels.append(contraction.make_kernel(replace_factors(node, extensions), tiling))
        for kernel in kernels:
            assemble(kernel, architecture, tmp_path / "kernel.ptx")
