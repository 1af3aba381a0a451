"""Products of warp groups in kernels for devices: `wgmma`, its descriptors, and what orders it."""

import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from llvmlite import ir

from moot.offchain.arithmetic import float32
from moot.offchain.arithmetic.tensor.blocks import (
    AMPERE,
    BFLOAT16,
    BLOCKS,
    HOPPER,
    Block,
    add_block,
)
from moot.offchain.backends.cuda import emulated, flights, ptx, warpgroups
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.driver import Driver
from moot.offchain.backends.cuda.emulator import Emulator, MisalignedError
from moot.offchain.backends.cuda.factors import find_rows
from moot.offchain.backends.cuda.flights import MisusedError
from moot.offchain.backends.cuda.kernel import Bulk, Context, Copy, Kernel, word
from moot.offchain.backends.cuda.machine import Tensor
from moot.offchain.backends.cuda.matrices import Matrices
from moot.offchain.backends.cuda.tensor import groups, laying, sums, tiles
from moot.offchain.backends.cuda.tensor.blocks import Patterns, Sums, add_chains
from moot.offchain.backends.cuda.tensor.generations import has_groups
from moot.offchain.backends.cuda.tensor.groups import _Writer
from moot.offchain.backends.cuda.tensor.outputs import Output
from moot.offchain.backends.cuda.tensor.plans import Chained
from moot.offchain.backends.cuda.tensor.tiles import GROUP_CYCLES, GroupTile, Tile, choose_tile
from moot.offchain.backends.cuda.tiling import find_split
from moot.offchain.backends.cuda.warpgroups import (
    Await,
    Commit,
    Fence,
    Multiply,
    Orders,
    locate,
    read_descriptor,
    write_descriptor,
)
from moot.offchain.errors import DeviceError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.precision import set_precision
from moot.offchain.native.vectors import INDEX
from moot.offchain.programs.graph import Node
from tests.quick import every, only
from tests.unit.test_cuda import NEEDS_DEVICE, encode, find_assembler, upload
from tests.unit.test_cuda_tensor import (
    ARITHMETICS,
    NODES,
    ROWS_BY_COLUMNS,
    compute,
    define,
    draw_tensors,
    make_product,
)
from tests.unit.test_tensor_blocks import KINDS, draw

SMALL = GroupTile(1, 64, 3)
"""A tile of one warp group, with as few parts as there may be."""

TILES = (SMALL, *GROUP_CYCLES)

DEEP = {
    "rows": make_product((70, 9, 424), ((0, 2), (1, 2))),
    "turned": make_product((136, 72, 330), ((2, 0), (2, 1)), starts=True),
    "copied": make_product((67, 130, 401), ROWS_BY_COLUMNS, starts=True),
    "one copied": make_product((70, 66, 456), ROWS_BY_COLUMNS),
    "batches": make_product((2, 65, 5, 264), ((0, 1, 3), (0, 2, 3)), starts=True),
}
"""Products of more parts than are in shared memory at once, whose edges are no tile's."""

Change = Callable[[pytest.MonkeyPatch], None]


def write_layout(
    row: int, step: int, *, is_turned: bool, leading: int, stride: int, width: int = 2
) -> int:
    """Return where an element is, by the table of canonical layouts of PTX ISA 8.5.

    K-major ((8, m), (T, 2k)) : ((8T, SBO), (1, T)), MN-major ((T, 8, m), (8, k)) : ((1, T, LBO),
    (8T, SBO)), in elements, T = 16 bytes; then Swizzle<3, 4, 3> of the bytes.
    """
    t = 16 // width
    if is_turned:
        low, middle, high = row % 8, row // 8 % 8, row // 64
        element = (
            low + 8 * middle + leading // 2 * high + 64 * (step % 8) + stride // 2 * (step // 8)
        )
    else:
        element = 8 * t * (row % 8) + stride // width * (row // 8) + step % t + t * (step // t)
    place = width * element
    return place ^ ((place & 0b1110000000) >> 3)


@pytest.mark.parametrize("is_turned", [False, True])
def test_descriptors_are_read_as_the_table_of_layouts_has_them(*, is_turned: bool) -> None:
    """Fields are where NVIDIA says they are; so is each element, and another layout is refused."""
    start, leading, stride = 0x2_5400, 8192, 1024
    bits = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 62
    found = read_descriptor(bits)
    assert found == (start, leading, stride, 0, 1)
    places = locate(found, 256, 2, is_turned=is_turned) - start
    for row, step in product(range(256), range(16)):
        expected = write_layout(row, step, is_turned=is_turned, leading=leading, stride=stride)
        assert places[row, step] == expected
    assert len({*places.reshape(-1).tolist()}) == places.size
    for other in (bits ^ 3 << 62, bits | 1 << 49):
        with pytest.raises(ValueError, match="another layout"):
            locate(read_descriptor(other), 64, 2, is_turned=is_turned)


def fill(context: Context, count: int) -> None:
    """Copy so many vectors from the first parameter to the start of shared memory."""
    builder, copies = context.builder, []
    for turn in range(count // 128):
        number = builder.add(context.thread, word(turn * 128))
        offset = builder.mul(number, word(16))
        copies.append(Copy(builder.add(context.parameters[0], offset), offset))
    context.begin_copies(copies, word(0))


def show(context: Context) -> None:
    """Wait for the copies, and let products see them."""
    context.end_copies(word(0), 0)
    context.publish_copies()


def make_kernel(
    columns: int, *, is_turned: tuple[bool, bool], change: str = "", block: Block | None = HOPPER
) -> Kernel:
    """Return a kernel of one product, whose factors and sum are copied from and to memory."""
    sizes = 64 * 128, columns * 128
    count = sum(sizes) // 16

    def point(context: Context) -> None:
        builder = context.builder
        for axis, first in enumerate((0, 2)):
            at = context.find_shared(word((0, sizes[0])[axis]))
            if change == "threads differ":
                at = builder.add(at, builder.mul(context.thread, word(16)))
            bits = write_descriptor(builder, at, 64 * 128)
            for half in range(2):
                part = builder.trunc(builder.lshr(bits, word(32 * half)), INDEX)
                context.set_cell(first + half, part)
        for cell in range(columns // 2):
            at = builder.mul(context.thread, word(columns // 2))
            at = builder.mul(builder.add(at, word(cell)), word(4))
            loaded = context.load(INDEX, builder.add(context.parameters[1], at))
            context.set_cell(4 + cell, loaded)

    def end(context: Context) -> None:
        builder = context.builder
        for cell in range(columns // 2):
            at = builder.mul(context.thread, word(columns // 2))
            at = builder.mul(builder.add(at, word(cell)), word(4))
            value = context.get_cell(4 + cell, INDEX)
            context.store(value, builder.add(context.parameters[1], at))

    ahead = 2048 if is_turned[0] else 32, 2048 if is_turned[1] else 32
    order = Multiply(columns, block, is_turned, (0, 2), ahead, 4)
    orders = Orders((Fence(), order, Commit(), Await(0)))
    steps = (lambda context: fill(context, count), show, point, orders, end)
    kinds = {"cells": 4 + columns // 2, "groups": 1, "copies": count // 128}
    return Kernel("multiply", 2, steps, 128, sum(sizes), **kinds)


@pytest.mark.parametrize("kind", ["ordinary", "special"])
@pytest.mark.parametrize("columns", only([64], warpgroups.COLUMNS))
@pytest.mark.parametrize("turned", [*product([False, True], repeat=2)], ids=str)
def test_a_group_multiplies_as_the_instruction_is_defined(
    columns: int, turned: tuple[bool, bool], kind: str
) -> None:
    """Each element is where NVIDIA says it is, in memory and in registers; the sum is one block."""
    a, b, before = draw(kind, HOPPER, BFLOAT16, 64 * columns, 3)
    factors = a.reshape(-1)[: 64 * 16].reshape(64, 16), b.reshape(-1)[: columns * 16]
    first, second = factors[0], factors[1].reshape(columns, 16)
    start = before.reshape(64, columns)
    memory = np.zeros((64 + columns) * 64, np.uint16)
    for axis, factor in enumerate((first, second)):
        for (row, step), value in np.ndenumerate(factor):
            ahead = 16  # the product reads steps 16 to 31 of a part
            layout = {"is_turned": turned[axis], "leading": 8192, "stride": 1024}
            at = write_layout(row, step + ahead, **layout) // 2
            memory[at + (0, 64 * 64)[axis]] = value
    cells = np.zeros((128, columns // 2), np.uint32)
    for thread, i in np.ndindex(cells.shape):
        cells[thread, i] = start[find_place(thread, i)]
    machine = Emulator()
    tensors = [Tensor(machine, x.shape, x.dtype) for x in (memory, cells)]
    for tensor, array in zip(tensors, (memory, cells), strict=True):
        tensor.put(array)
    kernel = make_kernel(columns, is_turned=turned)
    machine.launch(machine.load(kernel), 1, [tensor.address for tensor in tensors])
    found = tensors[1].get()
    for thread, i in np.ndindex(cells.shape):
        row, column = find_place(thread, i)
        pairs = [*zip(first[row].tolist(), second[column].tolist(), strict=True)]
        right = add_block(HOPPER, BFLOAT16, int(start[row, column]), pairs)
        assert int(found[thread, i]) == (0x7FFFFFFF if right == float32.NAN else right)


def find_place(thread: int, i: int) -> tuple[int, int]:
    """Return the row and column of a thread's element, by figure 149 of PTX ISA 8.5."""
    warp, lane = thread // 32, thread % 32
    return 16 * warp + lane // 4 + 8 * (i % 4 // 2), 8 * (i // 4) + lane % 4 * 2 + i % 2


def test_threads_that_differ_on_a_factor_are_found_out() -> None:
    """A descriptor is one for a warp group."""
    kernel = make_kernel(64, is_turned=(False, False), change="threads differ")
    machine = Emulator()
    memory = Tensor(machine, (1 << 14,), np.uint16)
    with pytest.raises(MisusedError, match="differ on a factor"):
        machine.launch(machine.load(kernel), 1, [memory.address, memory.address])


@cache
def define_all(kind: str, *, is_deep: bool) -> list[bytes]:
    """Return what the processor makes of all contractions."""
    nodes = DEEP if is_deep else NODES
    return [define("hopper", node, draw_tensors(node, kind)) for node in nodes.values()]


@pytest.mark.parametrize(
    ("tile", "kind", "is_deep"), every(34, product(TILES, KINDS, (False, True))), ids=str
)
def test_products_are_the_processor_s(tile: GroupTile, kind: str, *, is_deep: bool) -> None:
    """Products of any layout, from initial values and from zeros, have the definition's bits."""
    nodes = DEEP if is_deep else NODES
    found = [compute("hopper", node, draw_tensors(node, kind), tile) for node in nodes.values()]
    assert found == define_all(kind, is_deep=is_deep)


@pytest.mark.parametrize("key", ["rows", "copied"])
def test_the_order_of_threads_makes_no_difference(key: str) -> None:
    """No barrier is missing, of threads or of copies."""
    tensors = draw_tensors(DEEP[key], "ordinary")
    found = {compute("hopper", DEEP[key], tensors, SMALL, seed) for seed in range(4)}
    assert found == {define("hopper", DEEP[key], tensors)}


class Fault(NamedTuple):
    """A way in which a kernel is wrong.

    Attributes:
        key: the product that shows it.
        change: what is changed.
    """

    key: str
    change: Change


def change_orders(keep: Callable[[Any], bool], **changed: Any) -> Change:
    """Return a change of a part's orders: some are left out, and waits are for other batches."""

    def change(patch: pytest.MonkeyPatch) -> None:
        orders = _Writer.orders.fget
        assert orders is not None

        def get(writer: _Writer) -> Orders:
            kept = [each for each in orders(writer).orders if keep(each)]
            return Orders(tuple(replace(x, **changed) if isinstance(x, Await) else x for x in kept))

        patch.setattr(_Writer, "orders", property(get))

    return change


def change_method(owner: Any, name: str, make: Callable[[Any], Any]) -> Change:
    """Return a change of a method."""
    return lambda patch: patch.setattr(owner, name, make(getattr(owner, name)))


def shift_part(take: Any) -> Any:
    """Return a wait for the part before."""

    def shifted(writer: _Writer, context: Context, part: ir.Value) -> None:
        is_first = isinstance(part, ir.Constant)
        take(writer, context, part if is_first else context.builder.sub(part, word(1)))

    return shifted


def ask_early(ask: Any) -> Any:
    """Return what asks for a part whose place is still being read."""

    def early(writer: _Writer, context: Context, part: ir.Value) -> None:
        is_first = isinstance(part, ir.Constant)
        ask(writer, context, part if is_first else context.builder.add(part, word(1)))

    return early


def turn_parity(end: Any) -> Any:
    """Return a wait for the other phase of a barrier."""

    def other(context: Context, barrier: ir.Value, parity: ir.Value) -> None:
        end(context, barrier, context.builder.xor(parity, word(1)))

    return other


def leave_out_bulk(begin: Any) -> Any:
    """Return what begins no copies of a part's second half."""

    def fewer(context: Context, copies: Sequence[Bulk], barrier: ir.Value) -> None:
        halves = [each._replace(size=each.size // 2) for each in copies]
        begin(context, halves, barrier)

    return fewer


FAULTS = {
    "no fence": Fault("rows", change_orders(lambda x: not isinstance(x, Fence))),
    "no batch": Fault("rows", change_orders(lambda x: not isinstance(x, Commit))),
    "no wait": Fault("rows", change_orders(lambda x: not isinstance(x, Await))),
    "a wait too few": Fault("rows", change_orders(lambda _: True, later=2)),
    "not published": Fault(
        "rows",
        change_method(emulated._OnProcessor, "publish_copies", lambda _: lambda *_: None),
    ),
    "copies not waited for": Fault("turned", change_method(_Writer, "_take", shift_part)),
    "bulks not waited for": Fault("copied", change_method(_Writer, "_take", shift_part)),
    "a part too early": Fault("rows", change_method(_Writer, "_ask", ask_early)),
    "a bulk too early": Fault("copied", change_method(_Writer, "_ask", ask_early)),
    "another phase": Fault("copied", change_method(emulated._OnProcessor, "end_bulk", turn_parity)),
    "half a bulk": Fault(
        "copied", change_method(emulated._OnProcessor, "begin_bulk", leave_out_bulk)
    ),
    "no swizzle": Fault(
        "rows",
        lambda patch: patch.setattr(
            groups, "swizzle", lambda builder, line, _: builder.mul(line, word(128))
        ),
    ),
    "a panel too near": Fault(
        "turned",
        change_method(
            groups, "write_descriptor", lambda write: lambda b, start, _: write(b, start, 4096)
        ),
    ),
    "memory begins anywhere": Fault(
        "rows", lambda patch: patch.setattr(Kernel, "alignment", property(lambda _: 16))
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_is_found_out(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is not waited for, ordered, published or laid out as it has to be shows."""
    node, tile = DEEP[fault.key], GroupTile(1, 128, 3)
    tensors = draw_tensors(node, "ordinary")
    expected = define("hopper", node, tensors)
    assert compute("hopper", node, tensors, tile) == expected
    fault.change(monkeypatch)
    try:
        found = compute("hopper", node, tensors, tile)
    except (MisusedError, MisalignedError):
        return
    assert found != expected


def test_sums_that_nobody_waits_for_are_nothing_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are those of the last part."""
    node = DEEP["rows"]
    tensors = draw_tensors(node, "ordinary")
    monkeypatch.setattr(groups, "Await", lambda _: Fence())
    assert compute("hopper", node, tensors, SMALL) != define("hopper", node, tensors)


def test_barriers_that_nobody_serves_end_a_kernel() -> None:
    """A device would wait for ever."""

    def wait(context: Context) -> None:
        context.end_bulk(word(0), word(0))

    machine = Emulator()
    kernel = Kernel("wait", 0, (wait,), 128, 1024, barriers=1, bulks=1)
    with pytest.raises(MisusedError, match="copies nobody began"):
        machine.launch(machine.load(kernel), 1, [])


def test_kernels_and_tiles_that_break_what_is_taken_for_granted_are_refused() -> None:
    """Whole warp groups, columns of the instruction, and places for three parts."""
    order = Multiply(64, HOPPER, (False, False), (0, 2), (0, 0), 4)
    for make in (
        lambda: Kernel("few", 0, (Orders((order,)),), 64),
        lambda: Kernel("odd", 0, (), 128, 12, barriers=1),
        lambda: GroupTile(1, 64, 2),
        lambda: GroupTile(1, 72),
        lambda: replace(order, columns=72),
        lambda: replace(order, ahead=(8, 0)),
    ):
        with pytest.raises(AssertionError):
            make()


@pytest.mark.parametrize(
    ("sides", "is_hopper", "expected"),
    [
        ((4096, 4096), True, GroupTile(2, 256)),
        ((4096, 4096), False, Tile((2, 4), (4, 8), stages=3)),
        ((64, 64), True, Tile((2, 2), (1, 2), depth=64)),
    ],
)
def test_tiles_of_warp_groups_are_chosen_where_they_serve(
    sides: tuple[int, int], expected: object, *, is_hopper: bool
) -> None:
    """Large products are theirs on a device that has them; small ones are of warps."""
    assert choose_tile([(sides, 1)], 768, 132, has_groups=is_hopper) == expected


@pytest.mark.parametrize(
    ("capability", "name", "is_hopper"),
    [((8, 0), "ampere", False), ((9, 0), "hopper", True), ((10, 0), "hopper", False)],
)
def test_warp_groups_multiply_on_hopper_alone(
    capability: tuple[int, int], name: str, *, is_hopper: bool
) -> None:
    """Blackwell's devices have Hopper's blocks, and not its instruction."""
    machine = Emulator(capability=capability)
    plan = Chained(machine, make_product((4096, 4096, 64), ((0, 2), (1, 2))), BLOCKS[name])
    assert isinstance(plan.tile, GroupTile) == is_hopper
    tried = [way.name for way in sums.list_ways(machine, BLOCKS[name])]
    assert any("wgmma" in each for each in tried) == is_hopper


@pytest.mark.slow
def test_sums_of_warp_groups_are_tried_before_they_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device whose warp groups add up otherwise than its warps is refused in one line."""
    node, arithmetic = NODES["as it is"], ARITHMETICS["hopper"]
    backend = Cuda(Emulator(capability=(9, 0)))
    assert isinstance(backend.plan(node, arithmetic), Chained)

    def add_otherwise(_: object, a: Patterns, b: Patterns, before: Sums) -> Sums:
        return add_chains(AMPERE, a, b, before)

    monkeypatch.setattr(flights, "add_chains", add_otherwise)
    with pytest.raises(DeviceError, match="sums by wgmma, 64 columns differ; blocks of 8") as error:
        Cuda(Emulator(capability=(9, 0))).plan(node, arithmetic)
    assert "\n" not in error.value.message


@pytest.mark.parametrize("way", sums.GROUP_WAYS, ids=str)
def test_each_layout_is_tried(way: sums.Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial reads all columns of a tile, or rows in every layout; a wrong one shows."""
    trial = sums.draw_trial()
    few = sums.Trial(*(x[:2, :72] if n != 1 else x[:2] for n, x in enumerate(trial)))
    machine = Emulator(capability=(9, 0))
    plan = few.plan(machine, HOPPER, way)
    copied = [copy is not None for copy in plan._copies]
    assert copied == [way.layout == "apart"] * 2
    assert np.array_equal(few.run(machine, plan, way), few.define(HOPPER))
    monkeypatch.setattr(warpgroups, "PATTERN_BYTES", 2048)
    broken = few.plan(machine, HOPPER, way)
    try:
        found = few.run(machine, broken, way)
    except MisusedError:
        return
    assert not np.array_equal(found, few.define(HOPPER))


def test_a_captured_program_has_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training whose products are all by warp groups has the processor's states."""
    monkeypatch.setattr(tiles, "list_tiles", lambda **_: [*GROUP_CYCLES][-1:])
    recipe = set_precision(build("mlp", "tiny"), "bf16")
    captured = capture(recipe, trust=True, arithmetic=ARITHMETICS["hopper"])
    device = Cuda(Emulator(capability=(9, 0)))
    theirs = Executor(Preparation(captured.program, device))
    ours, batch = Executor(captured.program), captured.batch(0)
    state = list(captured.initial_state)
    assert encode(theirs.run(state, batch, 0)) == encode(ours.run(state, batch, 0))
    kernels = [kernel.name for kernel in device.machine._grids]  # type: ignore[attr-defined]
    assert "multiply_groups" in kernels
    assert "multiply_blocks" in kernels  # those of the trial


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=NEEDS_DEVICE) for kind in KINDS])
def test_a_device_computes_the_processor_s_products(kind: str) -> None:
    """Warp groups of a device have the bits of deep products, too."""
    device = Driver()
    if not has_groups(device.capability, HOPPER):
        pytest.skip("the device has no products of warp groups")
    for node, expected in zip(DEEP.values(), define_all(kind, is_deep=True), strict=True):
        for tile in TILES:
            plan = Chained(device, node, HOPPER, tile)
            tensors = [upload(device, x) for x in draw_tensors(node, kind)]
            assert encode([plan.run(tensors, 0).get()]) == [expected]


def list_kernels() -> list[Kernel]:
    """Return kernels of products that are seen in place, turned and copied, in all tiles."""
    found = []
    large, odd = (1024, 2304, 768), (1021, 2299, 777)
    nodes = [make_product(large, ((0, 2), (1, 2))), make_product(large, ((2, 0), (2, 1)))]
    for node in (*nodes, make_product(odd, ROWS_BY_COLUMNS, starts=True)):
        found += [write_kernel(node, tile) for tile in GROUP_CYCLES]
    return found


def write_kernel(node: Node, tile: GroupTile, block: Block | None = HOPPER) -> Kernel:
    """Return the kernel of a product, of bytes if there is no block."""
    matrices = Matrices(node, find_split(node))
    a, b = (
        find_rows(matrices, axis) or laying.part(matrices, axis, tile.sides[axis])
        for axis in (0, 1)
    )
    return groups.make_kernel(Output(matrices, tile.sides), (a, b), tile, block)


def assemble_all(kernels: Iterable[Kernel], folder: Path) -> None:
    """Assemble kernels in a folder: none spills, and no wait is put between."""
    for kernel in kernels:
        path = folder / "kernel.ptx"
        path.write_text(ptx.translate(kernel, "sm_90a"))
        options = ["-v", "-arch", "sm_90a", "--fmad=false", "-o", "/dev/null", str(path)]
        done = subprocess.run(  # noqa: S603 - the package's own program
            [str(find_assembler()), *options], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores" in done.stderr
        assert "(C" not in done.stderr, done.stderr


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
def test_code_is_assembled(tmp_path: Path) -> None:
    """The assembler takes all kernels as they are."""
    assemble_all(list_kernels(), tmp_path)


def test_code_asks_for_what_the_orders_say() -> None:
    """A part is four products, between a fence and the end of a batch; one wait is for all."""
    seen, copied = (
        ptx.translate(write_kernel(NODES[key], GroupTile(2, 128)), "sm_90a")
        for key in ("as it is", "odd")
    )
    asked = re.findall(r"wgmma\.(\w+)[^;\n]*?(?: (\d))?;", seen)
    assert [name for name, _ in asked] == [
        "fence",
        *["mma_async"] * 4,
        "commit_group",
        "wait_group",
        "wait_group",
    ]
    assert [later for name, later in asked if name == "wait_group"] == ["1", "0"]
    assert seen.count("fence.proxy.async.shared::cta") == 2
    assert re.findall(r"cp.async.wait_group\s+(\d)", seen) == ["1", "1", "0"]
    assert seen.count("bar.sync") == 5  # one in a turn, and one between other steps
    assert "cp.async.bulk" not in seen
    assert copied.count("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes") == 6
    assert copied.count("mbarrier.init.shared.b64") == 4
    assert copied.count("mbarrier.arrive.expect_tx.shared.b64") == 3
    assert copied.count("mbarrier.try_wait.parity.shared.b64") == 2
    assert "cp.async.cg" not in copied
    assert ".align 1024 .b8 shared[]" in seen


GOOD = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 1;"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n64k16", "n72k16"),
        ("f32.bf16.bf16", "f32.f16.f16"),
        ("f32.bf16", "f16.bf16"),
        (", 1, 1, 1, 0", ", 0, 1, 1, 0"),
        (", 1, 1, 1, 0", ", 1, -1, 1, 0"),
        (", 1, 1, 1, 0", ", 1, 1, -1, 0"),
        ("mma_async.sync", "mma_async.sp.sync"),
        ("wgmma.mma_async", "tcgen05.mma_async"),
    ],
)
def test_kernels_of_groups_have_that_one_instruction(old: str, new: str) -> None:
    """It is let through in such kernels only, and no other one is; nothing is negated."""
    ptx.check(GOOD, has_groups=True)
    ptx.check("wgmma.fence.sync.aligned;", has_groups=True)
    for line in (GOOD, "wgmma.fence.sync.aligned;"):
        with pytest.raises(ptx.UnfaithfulCodeError):
            ptx.check(line, has_blocks=True)
    with pytest.raises(ptx.UnfaithfulCodeError):
        ptx.check(GOOD.replace(old, new), has_groups=True)
