"""The arithmetics of tensor cores in kernels for devices: blocks of products of bfloat16."""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.tensor import TENSOR
from moot.offchain.arithmetic.tensor.blocks import BFLOAT16, BLOCKS, Block, add_block, add_chain
from moot.offchain.backends.cuda import emulated, emulator, factors, ptx
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.driver import Driver
from moot.offchain.backends.cuda.emulator import Emulator, multiply
from moot.offchain.backends.cuda.factors import find_rows
from moot.offchain.backends.cuda.kernel import (
    Context,
    Kernel,
    Products,
    make_instruction,
    word,
)
from moot.offchain.backends.cuda.machine import Tensor
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.plans import Single, Tiled
from moot.offchain.backends.cuda.tensor import laying, products, rows, sums, trial
from moot.offchain.backends.cuda.tensor.blocks import Patterns, Sums, add_chains
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.products import _Writer
from moot.offchain.backends.cuda.tensor.tiles import GROUP_CYCLES, STEP_CYCLES, AnyTile, Tile
from moot.offchain.backends.cuda.tiling import find_split
from moot.offchain.backends.table import get_backend
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import DeviceError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.precision import set_precision
from moot.offchain.programs.graph import Node, Operand, Origin, Row, immediate
from tests.quick import every, only, share
from tests.unit.test_cuda import (
    NEEDS_DEVICE,
    assemble,
    encode,
    find_assembler,
    list_contractions,
    upload,
)
from tests.unit.test_cuda import make_product as make_wide
from tests.unit.test_tensor_blocks import KINDS, draw

F32, BF16 = DType.FLOAT32, DType.BFLOAT16
BY_ARITHMETIC = pytest.mark.parametrize("name", BLOCKS)
FEW = Tile((1, 1), (1, 1), 16, 2)
"""A tile of one instruction, of which small shapes have several."""

SIXTEEN = Tile((2, 2), (1, 1), 16)
"""A tile of several parts of steps, of four warps."""

TILES = (FEW, Tile((1, 1), (2, 1), 32), Tile((2, 1), (1, 2), 48, 3), *STEP_CYCLES)
ARITHMETICS = {row.name: row for row in TENSOR}


def shorten(operand: Operand) -> Operand:
    """Return an operand of bfloat16, whose fill has the upper half of the bits."""
    return replace(operand, dtype=BF16, value=operand.value >> 16)


def shorten_factors(node: Node) -> Node:
    """Return a contraction whose factors are bfloat16."""
    init, *factors = node.operands
    return replace(node, operands=(init, *map(shorten, factors)))


def make_product(
    sizes: Sequence[int], used: Sequence[Sequence[int]], *, starts: bool = False, folded: int = 1
) -> Node:
    """Return a contraction of tensors that have some of its variables, the last ones folded."""
    rank = len(sizes) - folded
    of_init = [tuple(range(rank))] if starts else []
    operands = [
        Operand(Origin.STATE, F32, place, 0, tuple(Row(sizes[v], 0, ((v, 1),)) for v in axes))
        for place, axes in enumerate([*of_init, *used])
    ]
    first = [] if starts else [immediate(F32, 0)]
    node = replace(make_wide(1, 1, 1), shape=tuple(sizes[:rank]), fold_shape=tuple(sizes[rank:]))
    return shorten_factors(replace(node, operands=(*first, *operands)))


def slice_steps(node: Node, size: int, first: int) -> Node:
    """Return a contraction whose first factor has so many more steps than are multiplied."""
    init, a, b = node.operands
    line, steps = a.rows
    a = replace(a, rows=(line, replace(steps, size=size, offset=first)))
    return replace(node, operands=(init, a, b))


ROWS_BY_COLUMNS = ((0, 2), (2, 1))
"""The axes of two factors."""

NODES = {
    "as it is": make_product((17, 9, 40), ((0, 2), (1, 2))),
    "odd": make_product((17, 18, 37), ROWS_BY_COLUMNS, starts=True),
    "turned": make_product((24, 16, 21), ((2, 0), (2, 1)), starts=True),
    "one turned": make_product((18, 40, 24), ROWS_BY_COLUMNS),
    "batches": make_product((2, 17, 5, 40), ((0, 1, 3), (0, 2, 3)), starts=True),
    "heads": make_product((2, 3, 5, 3, 16), ((0, 2, 1, 4), (0, 3, 1, 4))),
    "rows between": make_product((5, 8, 3, 16), ((2, 0, 3), (2, 3, 1)), folded=2),
    "between others": slice_steps(make_product((5, 8, 24), ROWS_BY_COLUMNS), 40, 4),
    "before others": slice_steps(make_product((5, 8, 24), ROWS_BY_COLUMNS), 36, 0),
    "a row": make_product((1, 10, 50), ROWS_BY_COLUMNS, starts=True),
    "a step": make_product((5, 6, 1), ROWS_BY_COLUMNS, starts=True),
}


def draw_tensors(node: Node, kind: str, seed: int = 0) -> list[Array | None]:
    """Return tensors for a contraction, by a kind of numbers."""
    found: list[Array | None] = []
    for place, operand in enumerate(node.operands):
        shape = tuple(row.size for row in operand.rows)
        count = int(np.prod(shape, dtype=np.int64))
        drawn = draw(kind, BLOCKS["hopper"], BFLOAT16, -(-count // 16) * 16, seed)
        if operand.origin is Origin.IMMEDIATE:
            found.append(None)
        elif place:
            found.append(drawn[place - 1].astype(np.uint16).reshape(-1)[:count].reshape(shape))
        else:
            starts = drawn[2].astype(np.uint32)[:count].view(np.float32)
            found.append(starts.reshape(shape))
    return found


def compute(
    name: str, node: Node, tensors: Sequence[Array | None], tile: AnyTile | None, seed: int = 0
) -> bytes:
    """Return what a device makes of a contraction, emulated."""
    machine = Emulator(seed)
    plan = Chained(machine, node, BLOCKS[name], tile)
    (found,) = encode([plan.run([upload(machine, x) for x in tensors], 0).get()])
    return found


def define(name: str, node: Node, tensors: Sequence[Array | None]) -> bytes:
    """Return what the processor makes of it."""
    arithmetic = ARITHMETICS[name]
    (found,) = encode([get_backend("cpu", arithmetic).plan(node, arithmetic).run(tensors, 0)])
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [*BLOCKS.values(), Block(4, 23, -100)], ids=str)
def test_blocks_in_machine_code_are_those_of_the_definition(kind: str, block: Block) -> None:
    """Factors and accumulators of every class, in chains of three blocks, and in none."""
    count = 60
    a, b, before = draw(kind, block, BFLOAT16, 3 * count, 7)
    a, b = (x.reshape(count, -1) for x in (a, b))
    starts = before[:count].astype(np.uint32)
    found = add_chains(block, a.astype(np.uint16), b.astype(np.uint16), starts)
    chains = zip(starts.tolist(), a.tolist(), b.tolist(), strict=True)
    expected = [
        add_chain(block, BFLOAT16, start, [*zip(x, y, strict=True)]) for start, x, y in chains
    ]
    assert found.tolist() == expected
    nothing = np.zeros((0, block.pairs), np.uint16)
    assert add_chains(block, nothing, nothing, starts[:0]).size == 0


def locate(matrix: str, lane: int, element: int) -> tuple[int, int]:
    """Return where a thread's element is, in the words of PTX ISA 8.5, section 9.7.14.5.8."""
    group, place = lane >> 2, lane % 4
    if matrix == "a":
        row = group if 0 <= element < 2 or 4 <= element < 6 else group + 8
        column = place * 2 + (element & 1)
        return row, column if element < 4 else column + 8
    if matrix == "b":
        row = place * 2 + (element & 1)
        return row if element < 2 else row + 8, group
    return group if element < 2 else group + 8, place * 2 + (element & 1)


@pytest.mark.parametrize("kind", ["ordinary", "special"])
@BY_ARITHMETIC
def test_a_warp_multiplies_as_the_instruction_is_defined(name: str, kind: str) -> None:
    """Each element of the matrices is where NVIDIA says it is; the sum is one chain of blocks."""
    block = BLOCKS[name]
    size = make_instruction(block)
    assert (size.name, size.cells) == ("m16n8k16", (4, 2, 4))
    drawn = draw(kind, BLOCKS["hopper"], BFLOAT16, 128, 1)
    a, b = drawn[0][:16], drawn[1][:8].T
    before = drawn[2].reshape(16, 8)
    cells = np.zeros((32, 10, 4), np.int8)
    halves, words = cells.view(np.uint16), cells.view(np.uint32)
    for lane in range(32):
        for matrix, values, first, count in (("a", a, 0, 8), ("b", b, 4, 4)):
            for element in range(count):
                at = locate(matrix, lane, element)
                halves[lane, first + element // 2, element % 2] = values[at]
        for element in range(4):
            words[lane, 6 + element, 0] = before[locate("c", lane, element)]
    multiply(Products(size, ((0, 4, 6),)), cells)
    for lane, element in product(range(32), range(4)):
        row, column = locate("c", lane, element)
        pairs = [*zip(a[row].tolist(), b[:, column].tolist(), strict=True)]
        right = int(before[row, column])
        for start in range(0, 16, block.pairs):
            right = add_block(block, BFLOAT16, right, pairs[start : start + block.pairs])
        found = int(words[lane, 6 + element, 0])
        assert found == (0x7FFFFFFF if right == float32.NAN else right)


@cache
def define_all(name: str, kind: str) -> list[bytes]:
    """Return what the processor makes of all contractions."""
    return [define(name, node, draw_tensors(node, kind)) for node in NODES.values()]


CASES = [(name, tile, kind) for kind in KINDS for tile in TILES for name in BLOCKS]


@pytest.mark.parametrize(("name", "tile", "kind"), every(74, CASES), ids=str)
def test_products_are_the_processor_s(name: str, tile: Tile, kind: str) -> None:
    """Products of any layout, from initial values and from zeros, have the definition's bits."""
    found = [compute(name, node, draw_tensors(node, kind), tile) for node in NODES.values()]
    assert found == define_all(name, kind)


@BY_ARITHMETIC
def test_odd_accesses_are_the_processor_s(name: str) -> None:
    """Convolutions, and whatever else drawn programs contract, with fills out of range."""
    for seed, wide in enumerate(list_contractions(share(60))):
        node = shorten_factors(wide)
        tensors = draw_tensors(node, "special", seed)
        assert compute(name, node, tensors, FEW) == define(name, node, tensors)


def test_rows_are_read_where_they_are_if_they_can_be() -> None:
    """Neighbours along steps or across rows, where vectors may begin, need no copy; others do."""
    seen = {
        key: [find_rows(Matrices(node, find_split(node)), axis) for axis in (0, 1)]
        for key, node in NODES.items()
    }
    ways = {key: [each and each.is_turned for each in both] for key, both in seen.items()}
    assert ways == {
        "as it is": [False, False],
        "odd": [None, None],
        "turned": [True, True],
        "one turned": [False, True],
        "batches": [False, False],
        "heads": [False, False],
        "rows between": [False, True],
        "between others": [None, True],
        "before others": [None, True],
        "a row": [None, None],
        "a step": [None, None],
    }


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("count", [2, 4])
def test_matrices_are_loaded_as_the_instruction_has_them(count: int, *, is_turned: bool) -> None:
    """Each thread has the elements that NVIDIA says it has; a device is asked by the instruction.

    PTX ISA 8.5, section 9.7.14.5.15: thread t holds row t / 4, and of it elements 2 (t % 4) and the
    next one; with .trans each matrix is loaded in column-major format.
    """
    pitch = 32

    def fill(context: Context) -> None:
        builder, half = context.builder, ir.IntType(16)
        for place in range(count * 8 * 8 // 32):
            number = builder.add(builder.mul(context.thread, word(count * 2)), word(place))
            row, column = builder.udiv(number, word(8)), builder.urem(number, word(8))
            at = builder.add(builder.mul(row, word(pitch)), builder.mul(column, word(2)))
            context.store_shared(builder.trunc(number, half), at)

    def load(context: Context) -> None:
        builder = context.builder

        def locate(matrix: ir.Value, row: ir.Value) -> ir.Value:
            line = builder.add(builder.mul(matrix, word(8)), row)
            return builder.mul(line, word(pitch))

        found = context.load_matrices(count, locate, is_turned=is_turned)
        for place, value in enumerate(found):
            number = builder.add(builder.mul(context.thread, word(count)), word(place))
            context.store(value, builder.add(context.parameters[0], builder.mul(number, word(4))))

    kernel = Kernel("load", 1, (fill, load), 32, count * 8 * pitch)
    machine = Emulator()
    out = Tensor(machine, (32, count, 2), np.uint16)
    machine.launch(machine.load(kernel), 1, [out.address])
    matrices = np.arange(count * 64).reshape(count, 8, 8)
    if is_turned:
        matrices = matrices.swapaxes(1, 2)
    for lane, matrix, half in product(range(32), range(count), range(2)):
        expected = matrices[matrix, lane // 4, 2 * (lane % 4) + half]
        assert out.get()[lane, matrix, half] == expected
    turned = ".trans" if is_turned else ""
    asked = f"ldmatrix.sync.aligned.m8n8.x{count}{turned}.shared.b16"
    assert asked in ptx.translate(kernel, "sm_80")


def test_the_order_of_threads_makes_no_difference() -> None:
    """No barrier is missing."""
    node = NODES["odd"]
    tensors = draw_tensors(node, "ordinary")
    found = {compute("hopper", node, tensors, SIXTEEN, seed) for seed in range(8)}
    assert found == {define("hopper", node, tensors)}


CHANGES = {
    "fewer products": {"pairs": 4},
    "other products": {"pairs": 8},
    "more products": {"pairs": 16},
    "all products": {"pairs": 32},
    "a bit less": {"kept_bits": 23},
    "a bit": {"kept_bits": 24},
    "a bit more": {"kept_bits": 25},
    "two bits more": {"kept_bits": 26},
    "zeros are less": {"zero_exponent": -134},
    "zeros": {"zero_exponent": -133},
    "zeros are more": {"zero_exponent": -132},
    "zeros are much more": {"zero_exponent": -131},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@BY_ARITHMETIC
def test_sums_that_are_tried_tell_blocks_apart(name: str, change: dict[str, int]) -> None:
    """Whoever adds up otherwise in anything has another sum."""
    tried, block = sums.draw_trial(), BLOCKS[name]
    other = Block(**{**asdict(block), **change})
    assert np.array_equal(tried.define(other), tried.define(block)) == (other == block)


@BY_ARITHMETIC
def test_tensor_cores_are_tried_before_they_are_used(name: str) -> None:
    """A device that computes an arithmetic is tried once; another is refused in one line."""
    node, arithmetic = NODES["as it is"], ARITHMETICS[name]
    machine = Emulator()
    backend = Cuda(machine)
    assert isinstance(backend.plan(node, arithmetic), Chained)
    machine.launch = refuse_launch  # type: ignore[method-assign]  # a machine that is tried again
    assert isinstance(backend.plan(node, arithmetic), Chained)
    assert not backend.is_fusible(node, arithmetic)
    (other,) = (block for key, block in BLOCKS.items() if key != name)
    expected = (
        rf"does not compute {name} .*; blocks of {other.pairs} products and {other.kept_bits}"
    )
    with pytest.raises(DeviceError, match=expected) as caught:
        Cuda(Emulator(block=other)).plan(node, arithmetic)
    assert "\n" not in caught.value.message


def refuse_launch(*_: object) -> None:
    """Fail: nothing should be launched."""
    raise AssertionError


@pytest.mark.parametrize("change", ["rounding", "order"])
def test_another_rounding_or_order_is_refused(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that are rounded up, or whose blocks are added from the last to the first."""

    def add_otherwise(block: Block, a: Patterns, b: Patterns, before: Sums) -> Sums:
        if change == "order":
            return add_chains(block, a[..., ::-1], b[..., ::-1], before)
        exact = add_chains(replace(block, kept_bits=block.kept_bits + 1), a, b, before)
        return np.maximum(add_chains(block, a, b, before), exact)

    monkeypatch.setattr(emulator, "add_chains", add_otherwise)
    with pytest.raises(DeviceError, match="does not compute ampere on its tensor cores"):
        Cuda(Emulator()).plan(NODES["as it is"], ARITHMETICS["ampere"])


@pytest.mark.parametrize(
    ("capability", "fitting"),
    [
        ((7, 5), None),
        ((8, 0), "ampere"),
        ((8, 9), "ampere"),
        ((9, 0), "hopper"),
        ((10, 0), "hopper"),
        ((12, 0), "hopper"),
    ],
)
def test_a_device_of_another_generation_is_refused(
    capability: tuple[int, int], fitting: str | None
) -> None:
    """One line says which arithmetic fits, if any does; all else is as in `ordered`."""
    backend = Cuda(Emulator(capability=capability))
    for name, arithmetic in ARITHMETICS.items():
        assert isinstance(backend.plan(make_wide(4, 5, 6), arithmetic), Tiled | Single)
        if name == fitting:
            assert isinstance(backend.plan(NODES["odd"], arithmetic), Chained)
            continue
        says = (
            f"computes {fitting} .* the arithmetic {fitting}," if fitting else "has no tensor cor"
        )
        with pytest.raises(DeviceError, match=says):
            backend.plan(NODES["odd"], arithmetic)


@pytest.mark.parametrize(
    ("name", "arithmetic"), every(8, product(["mlp", "gpt2"], BLOCKS)), ids=str
)
def test_captured_programs_have_the_same_states(name: str, arithmetic: str) -> None:
    """Training in bfloat16 has the processor's states, step by step."""
    recipe = set_precision(build(name, "tiny"), "bf16")
    captured = capture(recipe, trust=True, arithmetic=ARITHMETICS[arithmetic])
    theirs = Executor(captured.program, backend="cuda-emulator")
    ours, state = Executor(captured.program), list(captured.initial_state)
    for step in range(2 if name == "mlp" else 1):
        batch = captured.batch(step)
        expected = ours.run(state, batch, step)
        assert encode(theirs.run(state, batch, step)) == encode(expected)
        state = expected


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=NEEDS_DEVICE) for kind in KINDS])
def test_a_device_computes_the_processor_s_products(kind: str) -> None:
    """The device has the bits of its generation."""
    device = Driver()
    for name in device.generations:
        trial.require_blocks(device, ARITHMETICS[name])
        tiles = [*TILES, *(GROUP_CYCLES if has_groups(device.capability, BLOCKS[name]) else ())]
        for node, expected in zip(NODES.values(), define_all(name, kind), strict=True):
            for tile in tiles:
                plan = Chained(device, node, BLOCKS[name], tile)
                tensors = [upload(device, x) for x in draw_tensors(node, kind)]
                assert encode([plan.run(tensors, 0).get()]) == [expected]


@pytest.mark.parametrize("change", ["no wait", "a wait too few", "a part too early"])
def test_copies_that_are_not_waited_for_are_found_out(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read before it is there, or overwritten while others read, is nothing of use."""
    node = NODES["odd"]
    tensors = draw_tensors(node, "ordinary")
    if change == "a part too early":
        ask = _Writer._ask

        def ask_early(writer: _Writer, context: Context, part: ir.Value) -> None:
            following = context.builder.add(part, word(1))
            ask(writer, context, part if isinstance(part, ir.Constant) else following)

        monkeypatch.setattr(_Writer, "_ask", ask_early)
    else:
        end = emulated._OnProcessor.end_copies

        def end_late(context: emulated._OnProcessor, ticket: ir.Value, later: int) -> None:
            if change == "a wait too few":  # the group before is there, and this one may not be
                before = context.builder.add(ticket, word(SIXTEEN.stages - 1))
                end(context, context.builder.urem(before, word(SIXTEEN.stages)), later)

        monkeypatch.setattr(emulated._OnProcessor, "end_copies", end_late)
    assert compute("hopper", node, tensors, SIXTEEN) != define("hopper", node, tensors)


def test_vectors_that_begin_where_none_may_end_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that is read where it should have been copied is no accident that passes by."""
    node = NODES["odd"]
    monkeypatch.setattr(factors, "COPIED_BYTES", 2)
    with pytest.raises(emulator.MisalignedError):
        compute("hopper", node, draw_tensors(node, "ordinary"), SIXTEEN)


def test_copies_are_those_of_the_device() -> None:
    """They are begun by the instruction, in groups, of which all but the last are waited for."""
    node = NODES["as it is"]
    matrices = Matrices(node, find_split(node))
    a, b = (find_rows(matrices, axis) for axis in (0, 1))
    assert a is not None
    assert b is not None
    for tile, is_large in ((SIXTEEN, False), (Tile((2, 4), (4, 4)), True)):
        kernel = products.make_kernel(matrices, (a, b), tile, BLOCKS["hopper"])
        assert (kernel.shared_bytes > ptx.MOST_STATIC_BYTES) == is_large
        text = ptx.translate(kernel, "sm_80")
        assert text.count("cp.async.commit_group") == tile.stages
        assert re.findall(r"cp.async.wait_group\s+(\d)", text) == ["2", "2", "0"]
        asked = re.findall(r"cp.async.cg.shared.global \[.*\], \[.*\], 16, %r\d+", text)
        assert len(asked) == tile.stages * kernel.copies
        assert (".extern .shared .align 16 .b8 shared[]" in text) == is_large


def list_kernels() -> list[Kernel]:
    """Return kernels of products that are seen in place and copied, in all tiles."""
    found = []
    large, odd, block = (1024, 2304, 768), (1021, 2299, 777), BLOCKS["hopper"]
    nodes = [make_product(large, ((0, 2), (1, 2))), make_product(large, ((2, 0), (2, 1)))]
    for node in (*nodes, make_product(odd, ROWS_BY_COLUMNS, starts=True)):
        matrices = Matrices(node, find_split(node))
        a, b = (find_rows(matrices, x) or rows.lay_out(matrices, x) for x in (0, 1))
        found += [products.make_kernel(matrices, (a, b), tile, block) for tile in STEP_CYCLES]
        found += [laying.make_kernel(matrices, axis) for axis in (0, 1)]
    return found


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
@pytest.mark.parametrize("architecture", only(["sm_80"], ["sm_80", "sm_90"]))
def test_code_is_assembled(architecture: str, tmp_path: Path) -> None:
    """The assembler takes all kernels, and none spills; products are blocks, and nothing else."""
    for kernel in list_kernels():
        text = assemble(kernel, architecture, tmp_path / "kernel.ptx")
        assert ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in text) == kernel.has_blocks
        assert "fma" not in text


@pytest.mark.parametrize(
    "line",
    [
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
    ],
)
def test_kernels_of_blocks_have_that_one_instruction(line: str) -> None:
    """It is let through in such kernels only, and no other one is."""
    allowed = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f2};"
    ptx.check(allowed, has_blocks=True)
    with pytest.raises(ptx.UnfaithfulCodeError):
        ptx.check(allowed)
    with pytest.raises(ptx.UnfaithfulCodeError):
        ptx.check(f"\t{line} {{%f1}}, {{%r1}}, {{%r2}}, {{%f2}};", has_blocks=True)
