"""Products of bytes by warp groups in kernels for devices: those of `exact`, and of INT8."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from llvmlite import ir
from torch import nn

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cuda import emulated, flights, ptx, warpgroups
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.driver import Driver
from moot.offchain.backends.cuda.emulator import Emulator, MisalignedError
from moot.offchain.backends.cuda.exact import outputs, plans, residues
from moot.offchain.backends.cuda.exact import tiles as exact_tiles
from moot.offchain.backends.cuda.exact.plans import Multiplied, lay_out, make_products
from moot.offchain.backends.cuda.exact.tiles import Tile, choose_tile
from moot.offchain.backends.cuda.flights import MisusedError
from moot.offchain.backends.cuda.kernel import INSTRUCTIONS, Kernel
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.plans import plan as plan_operator
from moot.offchain.backends.cuda.single import Single
from moot.offchain.backends.cuda.tensor import bytes_trial, groups, laying
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.groups import _Writer
from moot.offchain.backends.cuda.tensor.outputs import Output
from moot.offchain.backends.cuda.tensor.plans import Chained, multiplies_bytes
from moot.offchain.backends.cuda.tensor.tiles import BYTE_CYCLES, GroupTile
from moot.offchain.backends.cuda.tiling import find_split
from moot.offchain.backends.table import get_backend
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import DeviceError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.precision import set_precision
from moot.offchain.frontend.recipe import InferenceRecipe
from moot.offchain.programs.graph import Node, Operand, Origin, Row, immediate
from tests.quick import every, only, share
from tests.unit import test_cuda_exact, test_cuda_groups
from tests.unit.test_cuda import (
    NEEDS_DEVICE,
    draw_operands,
    encode,
    find_assembler,
    list_contractions,
    make_product,
    upload,
)
from tests.unit.test_cuda_exact import define, draw_factors, make_batched, multiply_by
from tests.unit.test_cuda_groups import (
    Fault,
    ask_early,
    assemble_all,
    change_method,
    change_orders,
    find_place,
    leave_out_bulk,
    shift_part,
    turn_parity,
    write_kernel,
    write_layout,
)
from tests.unit.test_program_int8 import make_model

SMALL = GroupTile(1, 64, 3, width=1)
"""A tile of one warp group, with as few parts as there may be."""

TILES = (SMALL, *BYTE_CYCLES)

PRODUCTS = {
    "deep": make_product(70, 66, 700),
    "short": make_product(19, 21, 70),
    "batches": make_batched(2, 65, 5, 130),
}
"""Products in `exact`: of more parts than are in shared memory at once, whose edges are no tile's,
of one part, and of two."""

INT8, INT32 = DType.INT8, DType.INT32


def make_integers(
    sizes: Sequence[int], used: Sequence[Sequence[int]], *, starts: bool = False
) -> Node:
    """Return a contraction of INT8 tensors that have some of its variables; the last is folded."""
    init = tuple(range(len(sizes) - 1)) if starts else ()
    types = INT32, INT8, INT8
    operands = [
        Operand(Origin.STATE, dtype, place, 0, tuple(Row(sizes[v], 0, ((v, 1),)) for v in axes))
        for place, (dtype, axes) in enumerate(zip(types, (init, *used), strict=True))
    ]
    first = operands[0] if starts else immediate(INT32, 0)
    node = make_product(1, 1, 1)
    shape, steps = tuple(sizes[:-1]), tuple(sizes[-1:])
    given = {"shape": shape, "fold_shape": steps, "operands": (first, *operands[1:])}
    return replace(node, dtype=INT32, **given)


INTEGERS = {
    "rows": make_integers((70, 66, 416), ((0, 2), (1, 2))),
    "one turned": make_integers((66, 70, 400), ((0, 2), (2, 1)), starts=True),
    "odd": make_integers((65, 67, 333), ((0, 2), (1, 2)), starts=True),
    "batches": make_integers((2, 65, 5, 640), ((0, 1, 3), (0, 2, 3)), starts=True),
    "a row": make_integers((1, 80, 64), ((0, 2), (1, 2))),
}
"""Those that are read where they are, and such as have to be copied."""


@pytest.fixture
def by_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every product that may be in `exact` cut and multiplied by warp groups."""
    monkeypatch.setattr(plans, "_LEAST_SIDE", 1)
    monkeypatch.setattr(plans, "_LEAST_STEPS", 1)
    monkeypatch.setattr(exact_tiles, "list_tiles", lambda _: {SMALL: 1.0})


def test_descriptors_of_bytes_are_read_as_the_table_of_layouts_has_them() -> None:
    """A factor of bytes is K-major, 16 elements in 16 bytes, 32 steps in two of these."""
    start, stride = 0x2_5400, 1024
    found = warpgroups.read_descriptor(start >> 4 | stride >> 4 << 32 | 1 << 62)
    places = warpgroups.locate(found, 256, 1, is_turned=False) - start
    assert places.shape == (256, 32)
    for row, step in product(range(256), range(32)):
        layout = {"is_turned": False, "leading": 0, "stride": stride, "width": 1}
        assert places[row, step] == write_layout(row, step, **layout)
    assert len({*places.reshape(-1).tolist()}) == places.size


@pytest.mark.parametrize("kind", ["drawn", "least", "most"])
@pytest.mark.parametrize("columns", only([64], warpgroups.COLUMNS))
def test_a_group_multiplies_bytes_as_the_instruction_is_defined(columns: int, kind: str) -> None:
    """Each element is where NVIDIA says it is, in memory and in registers; sums wrap around."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, (lines, 32)).astype(np.int8) for lines in (64, columns))
    before = rng.integers(-(2**31), 2**31, (64, columns))
    if kind != "drawn":
        a[:], b[:] = -128, {"least": 127, "most": -128}[kind]
        before[:] = {"least": -(2**31), "most": 2**31 - 1}[kind]
    memory = np.zeros((64 + columns) * 128, np.int8)
    for axis, factor in enumerate((a, b)):
        for (row, step), value in np.ndenumerate(factor):
            layout = {"is_turned": False, "leading": 0, "stride": 1024, "width": 1}
            at = write_layout(row, step + 32, **layout)  # the product reads steps 32 to 63
            memory[at + (0, 64 * 128)[axis]] = value
    cells = np.zeros((128, columns // 2), np.int32)
    for thread, i in np.ndindex(cells.shape):
        cells[thread, i] = before[find_place(thread, i)]
    machine = Emulator()
    tensors = [upload(machine, array) for array in (memory, cells)]
    kernel = test_cuda_groups.make_kernel(columns, is_turned=(False, False), block=None)
    machine.launch(machine.load(kernel), 1, [x.address for x in tensors if x is not None])
    expected = (before + a.astype(np.int64) @ b.T.astype(np.int64)).astype(np.int32)
    assert tensors[1] is not None
    found = tensors[1].get()
    for thread, i in np.ndindex(cells.shape):
        assert found[thread, i] == expected[find_place(thread, i)]


@pytest.mark.parametrize(("tile", "kind"), every(7, product(TILES, test_cuda_exact.KINDS)), ids=str)
def test_products_in_exact_are_the_processor_s(tile: GroupTile, kind: str) -> None:
    """Products of several parts, and of batches with initial terms, have the processor's bits."""
    for node in PRODUCTS.values():
        arrays = draw_factors(node, kind)
        assert encode([multiply_by(node, tile, arrays)]) == [define(node, arrays)]


def test_parts_of_sums_and_of_batches_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that begin with what is stored, and batches by themselves, change no bit."""
    for node in (PRODUCTS["deep"], make_batched(3, 17, 5, 300)):
        arrays = draw_factors(node, "ordinary")
        whole = encode([multiply_by(node, SMALL, arrays)])
        with monkeypatch.context() as patch:
            patch.setattr(exact_tiles, "STEPS_AT_ONCE", 128)
            patch.setattr(plans, "_PART_BYTES", 1)
            assert encode([multiply_by(node, SMALL, arrays)]) == whole
            patch.setattr(residues.Cut, "piece_bytes", residues.PIECE)
            assert encode([multiply_by(node, SMALL, arrays)]) != whole


def test_the_order_of_threads_makes_no_difference() -> None:
    """No barrier is missing, of threads or of copies."""
    node = PRODUCTS["deep"]
    arrays = draw_factors(node, "ordinary")
    found = {encode([multiply_by(node, SMALL, arrays, seed)])[0] for seed in range(4)}
    assert found == {define(node, arrays)}


def draw_integers(node: Node) -> list[Array | None]:
    """Return INT8 numbers of all sizes, and initial values whose sums wrap around."""
    rng, found = np.random.default_rng(3), list[Array | None]()
    for operand in node.operands:
        shape = tuple(row.size for row in operand.rows)
        drawn: Array = rng.integers(-(2**31), 2**31, shape).astype(np.int32)
        if operand.dtype is INT8:
            drawn = rng.choice([-128, 127, *range(-9, 9)], shape).astype(np.int8)
        found.append(None if operand.origin is Origin.IMMEDIATE else drawn)
    return found


def compute(node: Node, tile: GroupTile, arrays: Sequence[Array | None], seed: int = 0) -> bytes:
    """Return what warp groups make of a contraction of INT8."""
    machine = Emulator(seed)
    tensors = [upload(machine, array) for array in arrays]
    return encode([Chained(machine, node, None, tile).run(tensors, 0).get()])[0]


def define_integers(node: Node, arrays: Sequence[Array | None]) -> bytes:
    """Return what the processor makes of it."""
    return encode([get_backend("cpu", ORDERED).plan(node, ORDERED).run(arrays, 0)])[0]


@pytest.mark.parametrize("tile", only(TILES[:2], TILES), ids=str)
@pytest.mark.parametrize("node", INTEGERS.values(), ids=INTEGERS)
def test_integers_are_the_processor_s(node: Node, tile: GroupTile) -> None:
    """Contractions of INT8 in any layout, from any initial values, have the processor's bits."""
    arrays = draw_integers(node)
    assert compute(node, tile, arrays) == define_integers(node, arrays)


def test_factors_of_bytes_are_read_where_they_are_along_steps_alone() -> None:
    """Rows of whole vectors are; turned ones, which the instruction does not know, are copied."""
    machine = Emulator()
    copied = {
        key: [copy is not None for copy in Chained(machine, node, None, SMALL)._copies]
        for key, node in INTEGERS.items()
    }
    expected = {
        "rows": [False, False],
        "one turned": [False, True],
        "odd": [True, True],
        "batches": [False, False],
        "a row": [False, False],
    }
    assert copied == expected


def leave_out_start(start: Any) -> Any:
    """Return what begins every sum with nothing."""
    return lambda self, context, elements, _: start(
        self, context, elements, ir.Constant(ir.IntType(64), 0)
    )


def flatten(_: object) -> Any:
    """Return a swizzle that leaves vectors where they are."""
    return lambda builder, line, vector: builder.add(
        builder.mul(line, ir.Constant(line.type, 128)),
        builder.shl(vector, ir.Constant(line.type, 4)),
    )


FAULTS = {
    "no fence": Fault("exact", change_orders(lambda x: not isinstance(x, warpgroups.Fence))),
    "no batch": Fault("exact", change_orders(lambda x: not isinstance(x, warpgroups.Commit))),
    "no wait": Fault("exact", change_orders(lambda x: not isinstance(x, warpgroups.Await))),
    "a wait too few": Fault("exact", change_orders(lambda _: True, later=2)),
    "a product too few": Fault(
        "exact",
        change_orders(lambda x: getattr(x, "ahead", (0, 0)) != (96, 96)),
    ),
    "bulks not waited for": Fault("exact", change_method(_Writer, "_take", shift_part)),
    "a bulk too early": Fault("exact", change_method(_Writer, "_ask", ask_early)),
    "another phase": Fault("exact", change_method(emulated._OnProcessor, "end_bulk", turn_parity)),
    "half a bulk": Fault(
        "exact", change_method(emulated._OnProcessor, "begin_bulk", leave_out_bulk)
    ),
    "no swizzle in bulk": Fault("exact", change_method(laying, "swizzle", flatten)),
    "another stride": Fault(
        "exact", lambda patch: patch.setattr(warpgroups, "PATTERN_BYTES", 2048)
    ),
    "memory begins anywhere": Fault(
        "exact", lambda patch: patch.setattr(Kernel, "alignment", property(lambda _: 16))
    ),
    "not published": Fault(
        "rows", change_method(emulated._OnProcessor, "publish_copies", lambda _: lambda *_: None)
    ),
    "copies not waited for": Fault("rows", change_method(_Writer, "_take", shift_part)),
    "a part too early": Fault("rows", change_method(_Writer, "_ask", ask_early)),
    "no swizzle": Fault("rows", change_method(groups, "swizzle", flatten)),
    "no initial values": Fault("parts", change_method(outputs.Residues, "start", leave_out_start)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_is_found_out(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is not waited for, ordered, published or laid out as it has to be shows."""
    if fault.key == "parts":
        monkeypatch.setattr(exact_tiles, "STEPS_AT_ONCE", 256)
    is_exact = fault.key in ("exact", "parts")
    node = PRODUCTS["deep"] if is_exact else INTEGERS["rows"]
    arrays = draw_factors(node, "whole") if is_exact else draw_integers(node)
    expected = define(node, arrays) if is_exact else define_integers(node, arrays)

    def find() -> bytes:
        if is_exact:
            return encode([multiply_by(node, SMALL, arrays)])[0]
        return compute(node, SMALL, arrays)

    assert find() == expected
    fault.change(monkeypatch)
    try:
        found = find()
    except (MisusedError, MisalignedError):
        return
    assert found != expected


def list_sums(modulus: int) -> Iterator[int]:
    """Yield sums at both ends of what there may be, near multiples of a modulus, and drawn ones."""
    most = 1 << 30
    rng = Random(modulus)
    for middle in (-most, 0, most, most + 255, *(rng.randint(-most, most) for _ in range(500))):
        for near in (middle, middle // modulus * modulus):
            yield from (x for x in (near - 1, near, near + 1) if -most <= x <= most + 255)


def test_residues_are_found_by_reciprocals() -> None:
    """Whatever a sum is, what is left of it by any modulus is what Python says."""
    moduli = residues.choose_moduli(residues.MOST_STEPS)
    for modulus, multiple, reciprocal in outputs.list_divisors(moduli):
        assert multiple % modulus == 0
        for total in list_sums(modulus):
            positive = total + multiple
            assert 0 <= positive < 2**32
            rest = positive - (positive * reciprocal >> 32) * modulus
            assert rest + modulus * (rest < 0) == total % modulus


@pytest.mark.parametrize(
    ("capability", "sides", "expected"),
    [
        ((9, 0), (4096, 4096), GroupTile(2, 256, width=1)),
        ((9, 0), (63, 65), Tile(INSTRUCTIONS[8, 0])),
        ((8, 0), (4096, 4096), Tile(INSTRUCTIONS[8, 0])),
        ((10, 0), (4096, 4096), Tile(INSTRUCTIONS[8, 0])),
        ((7, 5), (4096, 4096), Tile(INSTRUCTIONS[7, 5])),
    ],
)
def test_warp_groups_multiply_bytes_on_hopper_alone(
    capability: tuple[int, int], sides: tuple[int, int], expected: object
) -> None:
    """Large products in `exact` are theirs there; small ones, and other devices, keep warps."""
    assert choose_tile(capability, sides, 768, 12, 132) == expected
    plan = Multiplied(Emulator(capability=capability), make_product(*sides, 768))
    assert isinstance(plan.tile, GroupTile) == isinstance(expected, GroupTile)


def test_integers_are_multiplied_by_threads_where_there_is_nothing_else() -> None:
    """Other devices, other types, and few rows and columns or steps have a thread an element."""
    hopper, node = Emulator(capability=(9, 0)), INTEGERS["rows"]
    assert isinstance(plan_operator(hopper, node, ORDERED), Chained)
    assert multiplies_bytes(hopper, INTEGERS["a row"])
    assert isinstance(plan_operator(Emulator(capability=(8, 0)), node, ORDERED), Single)
    init, *factors = node.operands
    wide = replace(node, operands=(init, *(replace(x, dtype=INT32) for x in factors)))
    few = make_integers((63, 63, 64), ((0, 2), (1, 2)))
    short = make_integers((64, 64, 31), ((0, 2), (1, 2)))
    for other in (wide, few, short):
        assert isinstance(plan_operator(hopper, other, ORDERED), Single)


def test_kernels_that_break_what_is_taken_for_granted_are_refused() -> None:
    """Bytes are never turned, sums are of one kind, and tiles are as wide as what they multiply."""
    order = warpgroups.Multiply(64, None, (False, False), (0, 2), (0, 0), 4)
    other = replace(order, block=test_cuda_groups.HOPPER)
    output = Output(Matrices(INTEGERS["rows"], find_split(INTEGERS["rows"])), SMALL.sides)
    parts = laying.Parts(1, 64, 64, 64), laying.Parts(1, 64, 64, 64)
    for make in (
        lambda: replace(order, is_turned=(False, True)),
        lambda: Kernel("mixed", 0, (warpgroups.Orders((order, other)),), 128),
        lambda: groups.make_kernel(output, parts, SMALL, test_cuda_groups.HOPPER),
    ):
        with pytest.raises(AssertionError):
            make()


def test_sums_of_bytes_are_tried_before_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that multiplies bytes otherwise is refused in one line, as soon as one is needed."""
    monkeypatch.setattr(bytes_trial, "BYTE_CYCLES", {SMALL: 1.0})
    assert isinstance(Cuda(Emulator(capability=(9, 0))).plan(INTEGERS["rows"], ORDERED), Chained)

    def locate_plainly(*given: Any, **turned: bool) -> Any:
        found = warpgroups.locate(*given, **turned)
        return found ^ (found >> 7 & 7) << 4

    monkeypatch.setattr(flights, "locate", locate_plainly)
    for node, arithmetic in ((INTEGERS["rows"], ORDERED), (make_product(64, 64, 64), EXACT)):
        device = Cuda(Emulator(capability=(9, 0)))
        with pytest.raises(DeviceError, match="sums by wgmma of bytes, 64 x 64 differ") as error:
            device.plan(node, arithmetic)
        assert "\n" not in error.value.message
    Cuda(Emulator(capability=(8, 0))).plan(make_product(64, 64, 64), EXACT)


def as_integers(node: Node) -> Node:
    """Return a contraction of INT8 of the same accesses, out of whose range is a one."""
    types = INT32, INT8, INT8
    operands = (
        replace(operand, dtype=dtype, value=1)
        for operand, dtype in zip(node.operands, types, strict=True)
    )
    return replace(node, dtype=INT32, operands=tuple(operands))


def test_drawn_contractions_are_the_processor_s() -> None:
    """Factors on accesses of all kinds, in `exact` and of INT8, have the processor's bits."""
    for node in list_contractions(share(48, 4)):
        arrays = draw_operands(node, 5)
        assert encode([multiply_by(node, SMALL, arrays)]) == [define(node, arrays)]
        integers = as_integers(node)
        numbers = draw_integers(integers)
        assert compute(integers, SMALL, numbers) == define_integers(integers, numbers)


@pytest.mark.usefixtures("by_groups")
def test_a_captured_program_in_exact_has_the_same_state() -> None:
    """Training whose products are all by warp groups has the processor's states."""
    captured = capture(build("mlp", "tiny"), trust=True, arithmetic=EXACT)
    device = Cuda(Emulator())
    theirs, ours = Executor(Preparation(captured.program, device)), Executor(captured.program)
    state, batch = list(captured.initial_state), captured.batch(0)
    assert encode(theirs.run(state, batch, 0)) == encode(ours.run(state, batch, 0))
    kernels = {kernel.name for kernel in device.machine._grids}  # type: ignore[attr-defined]
    assert "multiply_groups" in kernels
    assert "multiply_bytes" not in kernels


def test_a_captured_program_of_int8_has_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with int8 weights answers as the processor does, by warp groups."""
    monkeypatch.setattr(bytes_trial, "BYTE_CYCLES", {SMALL: 1.0})
    model = nn.Sequential(nn.Linear(48, 72), make_model()[1], nn.Linear(72, 5))
    x = torch.linspace(-3, 3, 4 * 48).reshape(4, 48)
    recipe = InferenceRecipe(model, lambda m, x: m(x), lambda _: (x,))
    captured = capture(set_precision(recipe, "int8"))
    device = Cuda(Emulator(capability=(9, 0)))
    theirs, ours = Executor(Preparation(captured.program, device)), Executor(captured.program)
    state, batch = list(captured.initial_state), captured.batch(0)
    assert encode(theirs.run(state, batch, 0)) == encode(ours.run(state, batch, 0))
    assert any(
        kernel.name == "multiply_groups"
        for kernel in device.machine._grids  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("kind", [pytest.param(x, marks=NEEDS_DEVICE) for x in ("wide", "whole")])
def test_a_device_computes_the_processor_s_products(kind: str) -> None:
    """Warp groups of a device have the processor's bits in every tile."""
    device = Driver()
    if not has_groups(device.capability, None):
        pytest.skip("the device has no products of warp groups")
    bytes_trial.require_bytes(device)
    for node, tile in product(PRODUCTS.values(), TILES):
        arrays = draw_factors(node, kind)
        tensors = [upload(device, x) for x in arrays]
        assert encode([Multiplied(device, node, tile).run(tensors, 0).get()]) == [
            define(node, arrays)
        ]
    for node, tile in product(INTEGERS.values(), TILES):
        arrays = draw_integers(node)
        tensors = [upload(device, x) for x in arrays]
        found = Chained(device, node, None, tile).run(tensors, 0).get()
        assert encode([found]) == [define_integers(node, arrays)]


def list_kernels() -> Iterator[Kernel]:
    """Yield kernels of products in `exact` and of INT8 that are read in place and copied."""
    for tile in BYTE_CYCLES:
        long = make_product(140, 270, 70_000)
        for node in (make_product(1024, 2304, 768), make_batched(3, 140, 270, 390), long):
            layout = lay_out(node, tile)
            yield make_products(layout, tile)
            yield residues.make_kernel(layout.cuts[0], layout.read_factor(0, residues.SOURCE))
        used = ((0, 2), (1, 2))
        for node in (make_integers((1024, 2304, 768), used), INTEGERS["one turned"]):
            yield write_kernel(node, tile, None)
    matrices = Matrices(INTEGERS["odd"], find_split(INTEGERS["odd"]))
    yield laying.make_kernel(matrices, 0, laying.part(matrices, 0, 128))


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
def test_code_is_assembled(tmp_path: Path) -> None:
    """The assembler takes all kernels as they are."""
    assemble_all(list_kernels(), tmp_path)


def test_code_asks_for_what_the_orders_say() -> None:
    """A part is four products of 32 bytes, between a fence and the end of a batch, in bulk."""
    tile = GroupTile(2, 256, width=1)
    text = ptx.translate(make_products(lay_out(PRODUCTS["deep"], tile), tile), "sm_90a")
    asked = re.findall(r"wgmma\.(\w+)[^;\n]*?(?: (\d))?;", text)
    assert [name for name, _ in asked] == [
        "fence",
        *["mma_async"] * 4,
        "commit_group",
        "wait_group",
        "wait_group",
    ]
    assert text.count("wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {%r") == 4
    assert text.count("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes") == 6
    assert "cp.async.cg" not in text
    assert "mma.sync" not in text


GOOD = "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {%r1, %r2}, %rd1, %rd2, 1;"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n64k32", "n72k32"),
        ("n64k32", "n64k16"),
        ("s32.s8.s8", "s32.u8.s8"),
        ("s32.s8.s8", "s32.s8.u8"),
        ("s32.s8.s8", "satfinite.s32.s8.s8"),
        ("k32.s32", "k32.satfinite.s32"),
        (", 1;", ", 0;"),
        (", 1;", ", %p1;"),
        (", 1;", ", 1, 1;"),
        ("%rd1, %rd2", "%r3, %rd2"),
        ("mma_async.sync", "mma_async.sp.sync"),
    ],
)
def test_kernels_of_groups_have_that_one_instruction(old: str, new: str) -> None:
    """Nothing saturates, begins anew or is unsigned, and other kernels have nothing of it."""
    ptx.check(GOOD, has_groups=True)
    with pytest.raises(ptx.UnfaithfulCodeError):
        ptx.check(GOOD, has_blocks=True)
    with pytest.raises(ptx.UnfaithfulCodeError):
        ptx.check(GOOD.replace(old, new), has_groups=True)
