"""Kernels for devices, without one: their bits by the emulator, their code by the assembler."""

import importlib.util
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cuda import contraction, driver, ptx
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.driver import Driver
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.hashing import Hasher
from moot.offchain.backends.cuda.hashing import make_kernel as make_hash
from moot.offchain.backends.cuda.kernel import Context, Kernel, Loop
from moot.offchain.backends.cuda.machine import Machine, Tensor
from moot.offchain.backends.cuda.operators import make_kernel, make_scatter
from moot.offchain.backends.cuda.plans import Single, Tiled, depends_on_named, plan
from moot.offchain.backends.cuda.tiling import STEP_CYCLES, Tiling, choose_tiling, count_blocks
from moot.offchain.commitments.tags import CHUNK_BYTES, Tag
from moot.offchain.commitments.tensors import Array, commit_tensor, encode_elements
from moot.offchain.errors import DeviceError, NotEnoughMemory
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.native.vectors import FLOAT
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Row, immediate
from tests.fuzz.compare import define
from tests.fuzz.draws import Case, draw_case
from tests.quick import every, only, share

F32 = DType.FLOAT32
PARTS, PART = 4, 40
FEW = Tiling((2, 2), (2, 2), depth=3)
"""Tiles that small shapes have several of, and parts."""

FOURS = Tiling((8, 8), (4, 4))
"""Tiles whose rows and columns are read as vectors, by whole warps."""

NEEDS_DEVICE = [
    pytest.mark.device,
    pytest.mark.skipif(not driver.is_here(), reason="there is no NVIDIA driver"),
]


def encode(arrays: Sequence[Array]) -> list[bytes]:
    """Return the canonical bytes of tensors."""
    return [encode_elements(array).tobytes() for array in arrays]


def run(backend: str, case: Case) -> list[Array]:
    """Return the outputs of all operators."""
    found: dict[int, Array] = {}
    executor = Executor(case.program, backend=backend)
    executor.run(case.state, case.batch, case.step, observe=found.__setitem__)
    return [found[index] for index in range(len(case.program.nodes))]


@pytest.mark.parametrize("part", every(8, range(PARTS)))
def test_drawn_programs_are_computed_as_they_are_defined(part: int) -> None:
    """All kinds and types of operators, on accesses of all kinds, have the definition's bits."""
    for number in range(part * PART, (part + 1) * PART):
        case = draw_case(Random(number), is_matrix=number % 5 == 0)
        assert encode(run("cuda-emulator", case)) == encode(define(case)), number


@pytest.mark.parametrize("part", [pytest.param(p, marks=NEEDS_DEVICE) for p in range(PARTS)])
def test_a_device_computes_drawn_programs_as_they_are_defined(part: int) -> None:
    """The device has the definition's bits."""
    for number in range(part * PART, (part + 1) * PART):
        case = draw_case(Random(number), is_matrix=number % 5 == 0)
        assert encode(run("cuda", case)) == encode(define(case)), number


@pytest.mark.parametrize("name", only(["mlp"], ["mlp", "gpt2", "resnet"]))
@pytest.mark.parametrize("backend", ["cuda-emulator", pytest.param("cuda", marks=NEEDS_DEVICE)])
def test_captured_programs_have_the_same_states(name: str, backend: str) -> None:
    """Training has the processor's states, step by step."""
    captured = capture(build(name), trust=True)
    ours, theirs = Executor(captured.program), Executor(captured.program, backend=backend)
    state = list(captured.initial_state)
    for step in range(2):
        batch = captured.batch(step)
        expected = ours.run(state, batch, step)
        assert encode(theirs.run(state, batch, step)) == encode(expected)
        state = expected


def list_contractions(count: int) -> list[Node]:
    """Return contractions of drawn programs."""
    found: list[Node] = []
    number = 0
    while len(found) < count:
        nodes = draw_case(Random(number), is_matrix=False).program.nodes
        products = [n for n in nodes if n.kind is Kind.CONTRACT and not n.multiplies_integers]
        found += [n for n in products if n.elements * n.fold_length]
        number += 1
    return found[:count]


def draw_operands(node: Node, seed: int) -> list[Array | None]:
    """Return tensors for a contraction, with zeros of both signs and infinities among them."""
    rng = np.random.default_rng(seed)
    tensors: list[Array | None] = []
    for operand in node.operands:
        size = int(np.prod([row.size for row in operand.rows], dtype=np.int64))
        tensor = rng.normal(size=size).astype(np.float32)
        special = rng.choice(np.array([0.0, -0.0, np.inf, 1e38], np.float32), size)
        tensor = np.where(rng.random(size) < 0.1, special, tensor)
        tensors.append(None if operand.origin is Origin.IMMEDIATE else tensor)
    return tensors


def compute(kernel: Kernel, node: Node, tiling: Tiling, seed: int = 0) -> bytes:
    """Return what a kernel makes of a contraction."""
    machine = Emulator(seed)
    tensors = [upload(machine, array) for array in draw_operands(node, 5)]
    out = Tensor(machine, node.shape, np.float32)
    addresses = [out.address, *(0 if t is None else t.address for t in tensors)]
    parameters = contraction.list_parameters(node, tiling, addresses)
    machine.launch(machine.load(kernel), count_blocks(node, tiling), parameters)
    return encode_elements(out.get()).tobytes()


def upload(machine: Machine, array: Array | None) -> Tensor | None:
    """Return an array as a tensor."""
    if array is None:
        return None
    tensor = Tensor(machine, array.shape, array.dtype)
    tensor.put(array)
    return tensor


def by_one_thread(node: Node) -> bytes:
    """Return what a contraction is, each element by one thread on its own."""
    machine = Emulator()
    tensors = [upload(machine, array) for array in draw_operands(node, 5)]
    return encode_elements(Single(machine, node).run(tensors, 0).get()).tobytes()


@pytest.mark.parametrize(
    "tiling", [replace(FEW, threads=(3, 5), depth=1), FEW, Tiling((4, 8), (4, 1), 5), FOURS]
)
def test_tiles_are_what_single_threads_compute(tiling: Tiling) -> None:
    """Products, convolutions and odd accesses, in tiles at whose edges things lie beyond."""
    for node in [*list_contractions(share(25)), TALL]:
        assert compute(contraction.make_kernel(node, tiling), node, tiling) == by_one_thread(node)


def make_product(rows: int, columns: int, steps: int) -> Node:
    """Return a product of two matrices, from zeros."""
    a = Operand(Origin.STATE, F32, 0, 0, (Row(rows, 0, ((0, 1),)), Row(steps, 0, ((2, 1),))))
    b = Operand(Origin.STATE, F32, 1, 0, (Row(steps, 0, ((2, 1),)), Row(columns, 0, ((1, 1),))))
    zero = immediate(F32, 0)
    return Node(Kind.CONTRACT, Function.FMA, F32, (rows, columns), (zero, a, b), (steps,))


PRODUCT = make_product(7, 5, 8)
TALL = make_product(4 * 34, 9, 4)
"""A product of several bands of small tiles."""


def test_a_missing_barrier_is_found_out() -> None:
    """Where a block loads and multiplies without a barrier between, some order shows it."""
    kernel = contraction.make_kernel(PRODUCT, FEW)

    def bring_and_multiply(context: Context) -> None:
        for phase in (bring, multiply):
            phase(context)

    *others, bring, multiply, end = kernel.steps
    assert not isinstance(bring, Loop)
    assert not isinstance(multiply, Loop)
    broken = replace(kernel, steps=(*others, bring_and_multiply, end))
    right = by_one_thread(PRODUCT)
    assert all(compute(kernel, PRODUCT, FEW, seed) == right for seed in range(8))
    assert any(compute(broken, PRODUCT, FEW, seed) != right for seed in range(8))


def test_another_order_is_found_out() -> None:
    """A product whose steps are folded backwards has other bits."""
    backwards = [replace(o, rows=tuple(_reverse(row) for row in o.rows)) for o in PRODUCT.operands]
    assert by_one_thread(replace(PRODUCT, operands=tuple(backwards))) != by_one_thread(PRODUCT)


def _reverse(row: Row) -> Row:
    is_step = row.terms == ((2, 1),)
    return Row(row.size, row.size - 1, ((2, -1),)) if is_step else row


def test_large_products_are_tiled() -> None:
    """A product is in large tiles where these keep all multiprocessors busy, and in small ones."""
    machine = Emulator()
    sides = [
        prod(tiling.sides)
        for columns in (1 << 14, 1 << 9, 1 << 5)
        if (tiling := choose_tiling(make_product(1024, columns, 64), 132))
    ]
    assert sorted({*sides}, reverse=True) == sides
    assert sides[0] >= 1 << 13
    assert choose_tiling(make_product(1, 300, 4), 132) is None
    assert isinstance(plan(machine, make_product(128, 300, 4), ORDERED), Tiled)


@cache
def list_kernels() -> list[Kernel]:
    """Return kernels of every function, of every kind with every type, and tiles."""
    chosen: dict[object, Node] = {}
    for function in Function:
        if function.is_transcendental:
            operand = Operand(Origin.STATE, F32, 0, 0, (Row(8, 0, ((0, 1),)),))
            count = 2 if function is Function.POW else 1
            chosen[function] = Node(Kind.MAP, function, F32, (8,), (operand,) * count)
    for number in range(60):
        for node in draw_case(Random(number), is_matrix=number % 5 == 0).program.nodes:
            if node.elements * node.fold_length:
                chosen.setdefault((node.kind, node.function, node.dtype), node)
    kernels = [make_kernel(node) for node in chosen.values()]
    scatters = [node for node in chosen.values() if node.kind is Kind.SCATTER]
    kernels += [make_scatter(node) for node in scatters if not depends_on_named(node)]
    product = make_product(200, 190, 37)
    kernels += [contraction.make_kernel(product, tiling) for tiling in STEP_CYCLES]
    return [*kernels, make_hash(CHUNK_BYTES, Tag.CHUNK), make_hash(64, Tag.TENSOR_NODE)]


@cache
def find_assembler() -> Path | None:
    """Return NVIDIA's assembler, if its package is installed."""
    if importlib.util.find_spec("nvidia") is None:
        return None
    found = importlib.util.find_spec("nvidia.cuda_nvcc")
    places = found.submodule_search_locations or [] if found else []
    paths = [Path(place) / "bin" / "ptxas" for place in places]
    return next((path for path in paths if path.exists()), None)


each_architecture = pytest.mark.parametrize(
    "architecture", only(ptx.ARCHITECTURES[:1], ptx.ARCHITECTURES)
)


@each_architecture
def test_code_says_every_rounding(architecture: str) -> None:
    """All kernels keep the arithmetic in PTX, for every device."""
    kernels = list_kernels()
    assert len(kernels) > 90
    for kernel in kernels:
        assert ".entry" in ptx.translate(kernel, architecture)


def assemble(kernel: Kernel, architecture: str, path: Path, most_spilled: int = 0) -> str:
    """Return the PTX of a kernel, which the assembler takes without a spill, or a small one."""
    path.write_text(ptx.translate(kernel, architecture))
    options = ["-v", "-arch", architecture, "--fmad=false", "-o", "/dev/null", str(path)]
    done = subprocess.run(  # noqa: S603 - the package's own program
        [str(find_assembler()), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (spilled,) = re.findall(r"(\d+) bytes spill stores", done.stderr)
    assert int(spilled) <= most_spilled, kernel.name
    return path.read_text()


@pytest.mark.skipif(find_assembler() is None, reason="NVIDIA's assembler is not installed")
@each_architecture
def test_code_is_assembled(architecture: str, tmp_path: Path) -> None:
    """The assembler takes all kernels, and none of them spills what a thread keeps."""
    for kernel in list_kernels():
        assemble(kernel, architecture, tmp_path / "kernel.ptx")


def test_products_are_fused_only_where_they_are_asked_to_be() -> None:
    """A tile has one fused multiply-add for each step and element; a sum of products has none."""
    tiles = ptx.translate(contraction.make_kernel(make_product(200, 190, 37), FOURS), "sm_80")
    own, depth = prod(FOURS.own), FOURS.depth
    assert tiles.count("fma.rn.f32") == own * (depth + 37 % depth)
    assert "local" not in tiles

    def add_products(context: Context) -> None:
        builder, address = context.builder, context.parameters[0]
        value = context.load(FLOAT, address)
        context.store(builder.fadd(builder.fmul(value, value), value), address)

    text = ptx.translate(Kernel("add_products", 1, (add_products,)), "sm_80")
    assert "fma" not in text
    assert "mul.rn.f32" in text
    assert "add.rn.f32" in text


@pytest.mark.parametrize(
    "line",
    [
        "div.approx.f32 %f1, %f2, %f3;",
        "add.ftz.f32 %f1, %f2, %f3;",
        "mul.f32 %f1, %f2, %f3;",
        "add.rz.f32 %f1, %f2, %f3;",
        "div.full.f32 %f1, %f2, %f3;",
        "atom.global.add.f32 %f1, [%rd1], %f2;",
        "red.global.add.f32 [%rd1], %f2;",
        "call.uni (retval0), expf, (param0);",
    ],
)
def test_unfaithful_code_is_refused(line: str) -> None:
    """What is approximate, flushed, atomic or called from elsewhere is not let through."""
    ptx.check("fma.rn.f32 %f1, %f2, %f3, %f4;\ndiv.rn.f32 %f1, %f2, %f3;\nsqrt.rn.f64 %d1, %d2;")
    with pytest.raises(ptx.UnfaithfulCodeError):
        ptx.check(f"\t{line}")


@pytest.mark.parametrize("machine", [Emulator, pytest.param(Driver, marks=NEEDS_DEVICE)])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 128, 1000, 4096 + 17])
def test_tensors_have_the_tops_that_they_have_elsewhere(
    machine: Callable[[], Emulator], count: int
) -> None:
    """Chunks and their tree are hashed as the processor hashes them."""
    there = machine()
    for dtype in (np.float32, np.int64, np.uint8):
        array = np.random.default_rng(count).integers(0, 100, count).astype(dtype)
        tensor = Tensor(there, array.shape, dtype)
        tensor.put(array)
        known = array.view(np.bool_) if dtype is np.uint8 else array
        assert Hasher(there).compute_top(tensor) == commit_tensor(known).top


def test_memory_that_nobody_has_set_is_soiled() -> None:
    """What is allocated, and what was released, reads as neither zeros nor what was there."""
    machine = Emulator()
    tensor = Tensor(machine, (4,), np.float32)
    assert machine.download(tensor.address, 16) == b"\xa5" * 16
    tensor.put(np.zeros(4, np.float32))
    assert tensor.get().tolist() == [0] * 4


@pytest.mark.skipif(driver.is_here(), reason="there is an NVIDIA driver")
def test_without_a_driver_one_line_says_so() -> None:
    """Nothing falls back in silence."""
    program = capture(build("mlp"), trust=True).program
    with pytest.raises(DeviceError, match=r"no NVIDIA driver .* or choose the backend cpu"):
        Executor(program, backend="cuda")


def test_runs_that_do_not_fit_are_refused_before_they_begin() -> None:
    """The message says what is needed, and what is there."""

    class Full(Emulator):
        def get_free_bytes(self) -> int | None:
            return 100

    Cuda(Full()).require_memory(100)
    with pytest.raises(NotEnoughMemory):
        Cuda(Full()).require_memory(101)


@pytest.mark.parametrize("number", [pytest.param(0, marks=NEEDS_DEVICE)])
def test_a_device_says_what_it_is(number: int) -> None:
    """The device has a name, and a capability that is new enough."""
    device = Driver(number)
    assert device.name
    assert device.capability >= (7, 5)
