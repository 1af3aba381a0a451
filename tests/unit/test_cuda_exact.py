"""The arithmetic `exact` in kernels for devices: bytes on tensor cores, and sums of threads."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.backends.cuda import ptx
from moot.offchain.backends.cuda.emulator import Emulator, Grid, multiply
from moot.offchain.backends.cuda.exact import finish, folds, plans, residues, sums, tiles
from moot.offchain.backends.cuda.exact.plans import (
    Multiplied,
    Summed,
    lay_out,
    make_products,
    plan_sum,
)
from moot.offchain.backends.cuda.exact.tiles import Tile, list_tiles
from moot.offchain.backends.cuda.kernel import INSTRUCTIONS, Kernel, Products
from moot.offchain.backends.table import get_backend
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.native.vectors import FLOAT
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row
from tests.fuzz.draws import draw_case
from tests.quick import every, only
from tests.unit.test_arithmetic_exact import make_hostile
from tests.unit.test_cuda import (
    F32,
    NEEDS_DEVICE,
    assemble,
    encode,
    find_assembler,
    make_product,
    run,
    upload,
)

CAPABILITIES = sorted(INSTRUCTIONS)
BACKENDS = ["cuda-emulator", pytest.param("cuda", marks=NEEDS_DEVICE)]
PARTS, PART = 3, 40


def locate(shape: str, matrix: str, lane: int, element: int) -> tuple[int, int]:
    """Return where a thread's element is, in the words of PTX ISA 8.5, section 9.7.14."""
    group, place = lane >> 2, lane % 4
    if matrix == "a":
        is_low = shape == "m8n8k16" or 0 <= element < 4 or 8 <= element < 12
        depth = place * 4 + (element & 3)
        return group if is_low else group + 8, depth if element < 8 else depth + 16
    if matrix == "b":
        depth = place * 4 + (element & 3)
        return depth if element < 4 else depth + 16, group
    row = group if shape == "m8n8k16" or element < 2 else group + 8
    return row, place * 2 + (element & 1)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_warp_multiplies_as_the_instruction_is_defined(capability: tuple[int, int]) -> None:
    """Each element of the three matrices is in the thread and byte where NVIDIA says it is."""
    size = INSTRUCTIONS[capability]
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (size.rows, size.depth))
    b = rng.integers(-128, 128, (size.depth, size.columns))
    before = rng.integers(-(2**31), 2**31, (size.rows, size.columns))
    first, second, third = size.cells
    cells = np.zeros((32, sum(size.cells), 4), np.int8)
    flat = cells.reshape(32, -1)
    sums_ = cells.view(np.int32)[:, first + second :, 0]
    for lane in range(32):
        for matrix, values, start, count in (("a", a, 0, first), ("b", b, 4 * first, second)):
            for element in range(4 * count):
                place = locate(size.name, matrix, lane, element)
                flat[lane, start + element] = values[place]
        for element in range(third):
            sums_[lane, element] = before[locate(size.name, "c", lane, element)]
    multiply(Products(size, ((0, first, first + second),)), cells)
    expected = (a @ b + before).astype(np.int32)
    for lane, element in product(range(32), range(third)):
        assert sums_[lane, element] == expected[locate(size.name, "c", lane, element)]


OF_WARPS = next(iter(list_tiles((8, 0))))
"""The tile of devices that have no products of warp groups."""


def make_tiles() -> list[Tile]:
    """Return tiles of both instructions, of one warp and of more."""
    shapes = [((1, 1), (1, 1)), ((2, 1), (1, 2)), ((2, 4), (4, 4))]
    return [Tile(INSTRUCTIONS[c], *shape) for c in CAPABILITIES for shape in shapes]


def multiply_by(node: Node, tile: Tile, arrays: Sequence[Array | None], seed: int = 0) -> Array:
    """Return what tensor cores make of a contraction."""
    machine = Emulator(seed)
    return Multiplied(machine, node, tile).run([upload(machine, x) for x in arrays], 0).get()


def make_batched(batches: int, rows: int, columns: int, steps: int) -> Node:
    """Return products of two batches of matrices, from a tensor of initial terms."""
    sizes = (batches, rows, columns, steps)
    init, a, b = (
        Operand(Origin.STATE, F32, place, 0, tuple(Row(sizes[v], 0, ((v, 1),)) for v in used))
        for place, used in enumerate([(0, 1, 2), (0, 1, 3), (0, 3, 2)])
    )
    node = make_product(rows, columns, steps)
    return replace(node, shape=sizes[:3], operands=(init, a, b))


def draw_factors(node: Node, kind: str) -> list[Array | None]:
    """Return tensors for a contraction, of which some have much that cancels or is lost."""
    rng = np.random.default_rng(len(kind))
    found: list[Array | None] = []
    for place, operand in enumerate(node.operands):
        if operand.origin is Origin.IMMEDIATE:
            found.append(None)
            continue
        shape = tuple(row.size for row in operand.rows)
        values = make_hostile(rng, shape) if kind == "hostile" else rng.normal(size=shape)
        if kind == "wide":
            values = values * 2.0 ** rng.integers(-60, 60, shape)
        if kind == "cancelling" and place:
            along = values.swapaxes(-1, -place)  # the terms are the last axis
            half = along.shape[-1] // 2
            along[..., half : 2 * half] = along[..., :half] * (-1) ** place
        if kind == "whole":
            values = rng.integers(-(2**12), 2**12, shape)
        if kind == "subnormal":
            values = rng.integers(-9, 9, shape) * 2.0 ** rng.choice([-149, 3], shape)
        found.append(values.astype(np.float32))
    return found


def define(node: Node, arrays: Sequence[Array | None]) -> bytes:
    """Return what the processor makes of a contraction."""
    (found,) = encode([get_backend("cpu", EXACT).plan(node, EXACT).run(arrays, 0)])
    return found


KINDS = ["ordinary", "hostile", "wide", "cancelling", "whole", "subnormal"]


@pytest.mark.filterwarnings("ignore:.*encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("kind", every(8, KINDS))
@pytest.mark.parametrize("tile", every(8, make_tiles()), ids=str)
def test_products_are_the_processor_s(tile: Tile, kind: str) -> None:
    """Products of batches with initial terms and without have the bits of the processor."""
    for node in (make_product(19, 21, 70), make_batched(2, 17, 5, 33)):
        arrays = draw_factors(node, kind)
        assert encode([multiply_by(node, tile, arrays)]) == [define(node, arrays)]


def test_parts_of_sums_and_of_batches_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that are stored and added to, and batches by themselves, change no bit."""
    node, tile = make_batched(3, 17, 5, 200), OF_WARPS
    arrays = draw_factors(node, "ordinary")
    whole = multiply_by(node, tile, arrays)
    monkeypatch.setattr(tiles, "STEPS_AT_ONCE", 64)
    monkeypatch.setattr(plans, "_PART_BYTES", 1)
    names: list[str] = []
    run_grid = Grid.run

    def run_named(grid: Grid, blocks: int, parameters: Sequence[int], rng: Random) -> None:
        names.append(grid._kernel.name)
        run_grid(grid, blocks, parameters, rng)

    monkeypatch.setattr(Grid, "run", run_named)
    assert encode([multiply_by(node, tile, arrays)]) == encode([whole])
    assert names == 3 * [*["cut_rows"] * 2, *["multiply_bytes"] * 4, "finish_products"]


def test_what_bands_leave_gets_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ordinary products are known by their bands; of wide ones, some elements are not."""
    node, tile = make_product(19, 21, 70), OF_WARPS
    factors = {kind: draw_factors(node, kind) for kind in ("ordinary", "wide")}
    monkeypatch.setattr(finish, "add_up", lambda *_: FLOAT(7.0))
    is_same = {
        kind: encode([multiply_by(node, tile, x)]) == [define(node, x)]
        for kind, x in factors.items()
    }
    assert is_same == {"ordinary": True, "wide": False}


def test_what_two_sums_leave_is_decided_in_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tie that a term far below decides is settled by integers, and by nothing before them."""
    node = make_product(1, 1, 3)
    factors = [[[1, 1, 2.0**-60]], [[1], [2.0**-24], [1]]]
    machine = Emulator()
    tensors = [None, *(upload(machine, np.array(x, np.float32)) for x in factors)]
    above = 1 + 2.0**-23
    assert Summed(machine, node).run(tensors, 0).get().item() == above
    folds.make_kernel.cache_clear()
    monkeypatch.setattr(sums, "_add_whole", lambda *_: FLOAT(7.0))
    assert Summed(machine, node).run(tensors, 0).get().item() == 7
    folds.make_kernel.cache_clear()


CAPTURED = ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gpt2", "resnet"))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", every(PARTS, range(PARTS)))
def test_drawn_programs_in_exact_are_the_processor_s(part: int, backend: str) -> None:
    """All kinds of sums, on accesses of all kinds, have the bits of the processor."""
    for number in range(part * PART, (part + 1) * PART):
        case = draw_case(Random(number), is_matrix=number % 5 == 0)
        case = case._replace(program=replace(case.program, arithmetic=EXACT))
        assert encode(run(backend, case)) == encode(run("cpu", case)), number


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CAPTURED)
def test_captured_programs_in_exact_have_the_same_states(name: str, backend: str) -> None:
    """Training has the processor's states, step by step."""
    captured = capture(build(name), trust=True, arithmetic=EXACT)
    ours, theirs = Executor(captured.program), Executor(captured.program, backend=backend)
    state = list(captured.initial_state)
    for step in range(2):
        batch = captured.batch(step)
        expected = ours.run(state, batch, step)
        assert encode(theirs.run(state, batch, step)) == encode(expected)
        state = expected


def test_small_sums_are_made_by_single_threads() -> None:
    """Products of few rows or terms are not cut; others are, by what the device can do."""
    for capability, instruction in INSTRUCTIONS.items():
        machine = Emulator(capability=capability)
        plan = plan_sum(machine, make_product(16, 16, 32))
        assert isinstance(plan, Multiplied)
        assert plan.tile == Tile(instruction)
        assert isinstance(plan_sum(machine, make_product(15, 16, 32)), Summed)
        assert isinstance(plan_sum(machine, make_product(16, 16, 31)), Summed)


def test_as_few_moduli_as_needed_tell_sums_apart() -> None:
    """The moduli have no factor in common, and their product holds the largest sum, twice."""
    for steps in (1, 1024, 65536, residues.MOST_STEPS):
        moduli = residues.choose_moduli(steps)
        assert np.lcm.reduce(np.array(moduli, object)) == np.prod(np.array(moduli, object))
        most = steps * (2**residues.BITS - 1) ** 2
        assert np.prod(np.array(moduli, object)) > 2 * most
        assert np.prod(np.array(moduli[:-1], object)) < 2 * steps * 4**residues.BITS
    assert len(residues.choose_moduli(1024)) == 12


def list_kernels(capability: tuple[int, int]) -> list[Kernel]:
    """Return kernels of products, with initial terms and without, and of sums of all kinds."""
    found = []
    for node in (make_product(1024, 2304, 768), make_batched(3, 40, 70, 90)):
        (tile, *_) = list_tiles(capability)
        layout = lay_out(node, tile)
        found += [
            *(
                residues.make_kernel(cut, layout.read_factor(x, residues.SOURCE))
                for x, cut in enumerate(layout.cuts)
            ),
            make_products(layout, tile),
            finish.make_kernel(node, layout),
        ]
    kinds: dict[Kind, Node] = {}
    for number in range(60):
        for node in draw_case(Random(number), is_matrix=False).program.nodes:
            is_sum = node.kind.folds and node.elements * node.fold_length and node.dtype is F32
            if is_sum and node.function.name in {"ADD", "FMA"}:
                kinds.setdefault(node.kind, node)
    assert set(kinds) == {Kind.CONTRACT, Kind.REDUCE, Kind.SCATTER}
    return [*found, *map(folds.make_kernel, kinds.values())]


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
@pytest.mark.parametrize("architecture", only(ptx.ARCHITECTURES[:1], ptx.ARCHITECTURES))
def test_code_is_assembled(architecture: str, tmp_path: Path) -> None:
    """The assembler takes all kernels, none spills, and products are those of bytes."""
    capability = divmod(int(architecture.removeprefix("sm_")), 10)
    for kernel in list_kernels(capability):
        text = assemble(kernel, architecture, tmp_path / "kernel.ptx")
        count = 64 if architecture == "sm_75" else 32
        expected = count if kernel.name == "multiply_bytes" else 0
        assert text.count("mma.sync") == expected


@pytest.mark.parametrize(
    "line",
    [
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32",
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32",
        "mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
    ],
)
def test_other_tensor_cores_are_refused(line: str) -> None:
    """What rounds, saturates, or is not of two matrices of signed bytes is not let through."""
    ptx.check("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32\n")
    ptx.check("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r1,%r2}, {%r3}, {%r4}, {%r5,%r6};")
    with pytest.raises(ptx.UnfaithfulCodeError):
        ptx.check(f"\t{line} {{%r1, %r2}}, {{%r3}}, {{%r4}}, {{%r5, %r6}};")
