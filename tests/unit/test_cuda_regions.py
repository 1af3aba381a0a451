"""Regions on devices, without one: maps and folds of rows in one launch, as they are defined."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cuda import ptx
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.emulator import Emulator
from moot.offchain.backends.cuda.kernel import Context, Kernel
from moot.offchain.backends.cuda.machine import Tensor
from moot.offchain.backends.cuda.regions import plans, rows
from moot.offchain.backends.cuda.regions.form import Form, Layout, Limits
from moot.offchain.backends.cuda.regions.plans import FusedRegion, is_fusible, make_kernel
from moot.offchain.commitments.tensors import Array
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.examples import build
from moot.offchain.planning import assembly, grouping, roles
from moot.offchain.planning.region import Lanes, Load
from moot.offchain.planning.roles import Group
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, immediate
from tests.fuzz.compare import define
from tests.fuzz.draws import draw_case
from tests.property.test_fused_regions import Matrix, draw_state, matrices, read
from tests.quick import every, only, share
from tests.unit.test_cuda import NEEDS_DEVICE, assemble, encode, find_assembler, run

F32 = DType.FLOAT32
LIMITS = [Limits(), Limits(32), Limits(4, 16, 16), Limits(64, 256, 300)]
"""Blocks of many rows and of one, and rows that shared memory holds in full, in part or not."""

BACKENDS = ["cuda-emulator", pytest.param("cuda", marks=NEEDS_DEVICE)]
DRAWS, PART = 400, 4
COLUMNS = 45
MOST_SPILLED = 16
"""Bytes that the assembler may put aside of a kernel of 256 threads: one or two registers."""


@pytest.fixture(autouse=True)
def _smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let operators of any size be fused, and rows be in parts and segments of any size."""
    monkeypatch.setattr(grouping, "_LEAST_ELEMENTS", 0)
    monkeypatch.setattr(roles, "_LEAST_ROWS", 1)
    monkeypatch.setattr(assembly, "_PART_COLUMNS", 24)


@pytest.mark.parametrize("first", every(40, range(0, DRAWS, PART)))
@pytest.mark.parametrize("backend", BACKENDS)
def test_drawn_programs_are_computed_as_they_are_defined(
    first: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regions of drawn programs have the definition's bits, all of their outputs and some."""
    for number in range(first, first + PART):
        monkeypatch.setattr(plans, "LIMITS", LIMITS[number % len(LIMITS)])
        case = draw_case(Random(number), is_matrix=number % 5 > 0)
        defined = encode(define(case))
        assert encode(run(backend, case)) == defined, number
        executor = Executor(case.program, backend=backend)
        found = encode(executor.run(case.state, case.batch, case.step))
        assert found == defined[case.program.first_sink :], number


def check(program: Program, seed: int, limits: Limits, backend: str = "cuda-emulator") -> None:
    """Compare a program on one matrix with the definition."""
    state = draw_state(program, seed)
    with np.errstate(all="ignore"):
        defined = encode(run_step(program, state, (), 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "LIMITS", limits)
        assert encode(Executor(program, backend=backend).run(state, (), 0)) == defined


DRAWN = given(program=matrices(), seed=st.integers(0, 99), limits=st.sampled_from(LIMITS))


@settings(max_examples=share(4), deadline=None, derandomize=True)
@DRAWN
def test_gathers_and_folds_of_one_matrix_equal_definition(
    program: Program, seed: int, limits: Limits
) -> None:
    """Gathers, picks and one-hot rows among maps and folds, some in lanes."""
    check(program, seed, limits)


@pytest.mark.slow
@settings(max_examples=share(150), deadline=None)
@DRAWN
def test_many_drawn_matrices_equal_definition(program: Program, seed: int, limits: Limits) -> None:
    """More of them."""
    check(program, seed, limits)


@pytest.mark.device
@pytest.mark.skipif(NEEDS_DEVICE[1].args[0], reason="there is no NVIDIA driver")
@settings(max_examples=share(60), deadline=None)
@DRAWN
def test_matrices_on_a_device_equal_definition(program: Program, seed: int, limits: Limits) -> None:
    """The device has the definition's bits."""
    check(program, seed, limits, "cuda")


def make_softmax(rows: tuple[int, ...] = (3, 2), columns: int = COLUMNS, lanes: int = 4) -> Program:
    """Return a program whose outputs are exponentials, their sums, and the quotients of both."""
    matrix = Matrix(rows, columns, lanes)
    shape, rank = matrix.whole, len(rows)
    every_place = range(rank + 1)

    def spread(index: int) -> Operand:
        return read(index, rows, range(rank))

    most = matrix.fold(Function.MAX, 0xFF800000, 0, in_lanes=False)
    x = read(0, shape, every_place)
    less = matrix.emit(Kind.MAP, Function.SUB, shape, (x, spread(most)))
    raised = matrix.emit(Kind.MAP, Function.EXP, shape, (read(less, shape, every_place),))
    total = matrix.fold(Function.ADD, 0, raised, in_lanes=True)
    powers = read(raised, shape, every_place)
    parts = matrix.emit(Kind.MAP, Function.DIV, shape, (powers, spread(total)))
    return matrix.finish([raised, total, parts])


def find_region(program: Program) -> tuple[Group, list[int]]:
    """Return the only region of a program, and the members that it keeps."""
    nodes = program.nodes
    moved = {i for i, node in enumerate(nodes) if node.kind in {Kind.SOURCE, Kind.SINK}}
    sinks = range(program.first_sink, len(nodes))
    units = grouping.group(program, range(len(nodes)), sinks, moved)
    (found,) = [unit for unit in units if isinstance(unit, Group)]
    kept = [i for i in found.indices if any(i in nodes[sink].inputs for sink in sinks)]
    return found, kept


class Trial:
    """The softmax of a matrix, by kernels that may be wrong."""

    def __init__(self, limits: Limits) -> None:
        program = make_softmax()
        self.form = FusedRegion(Emulator(), *find_region(program)).form
        self.form = replace(self.form, limits=limits)
        self.state = draw_state(program, 3)
        self.state[0] = np.random.default_rng(0).normal(size=(3, 2, COLUMNS)).astype(np.float32)
        outputs: dict[int, Array] = {}
        run_step(program, self.state, (), 0, outputs.__setitem__)
        self.kept = [outputs[i] for i in find_region(program)[1]]

    def is_right(self, kernel: Kernel, seed: int = 0, form: Form | None = None) -> bool:
        """Whether a kernel computes it; whose form is another if it is given."""
        machine, layout = Emulator(seed), Layout(form or self.form)
        source = Tensor(machine, self.state[0].shape, np.float32)
        source.put(self.state[0])
        found = [Tensor(machine, array.shape, array.dtype) for array in self.kept]
        spilled = [Tensor(machine, (3 * 2 * COLUMNS,), np.float32) for _ in layout.spilled]
        blocks = -(-self.form.rows // layout.rows_a_block)
        addresses = [tensor.address for tensor in (source, *found, *spilled)]
        machine.launch(machine.load(kernel), blocks, addresses)
        return encode([tensor.get() for tensor in found]) == encode(self.kept)

    def is_right_with(self, form: Form) -> bool:
        """Whether the kernel of another form computes it."""
        return self.is_right(make_kernel(form), form=form)


@pytest.fixture(params=LIMITS, ids=str)
def trial(request: pytest.FixtureRequest) -> Trial:
    """Return a softmax in blocks of some sizes."""
    return Trial(request.param)


def test_a_softmax_is_one_kernel(trial: Trial) -> None:
    """Whatever its blocks are, and in whatever order their threads run."""
    kernel = make_kernel(trial.form)
    assert not trial.form.is_of_maps
    assert all(trial.is_right(kernel, seed) for seed in range(4))


def test_a_missing_barrier_is_found_out(trial: Trial) -> None:
    """Two neighbouring phases in one are wrong in some order of threads."""
    kernel = make_kernel(trial.form)
    for place in range(len(kernel.steps) - 1):
        first, second = kernel.steps[place : place + 2]

        def both(context: Context, parts: Sequence[object] = (first, second)) -> None:
            for part in parts:
                part(context)  # type: ignore[operator]  # a phase

        steps = (*kernel.steps[:place], both, *kernel.steps[place + 2 :])
        broken = replace(kernel, steps=steps)
        assert not all(trial.is_right(broken, seed) for seed in range(8)), place


def test_wrong_strides_and_lanes_and_missing_outputs_are_found_out(trial: Trial) -> None:
    """What reads its neighbour, folds in another order, or leaves an output alone is wrong."""
    form, region = trial.form, trial.form.region
    assert trial.is_right_with(form)

    def change(kind: type, **changes: object) -> Form:
        values = tuple(
            replace(value, **changes) if isinstance(value, kind) else value
            for value in region.values
        )
        return replace(form, region=replace(region, values=values))

    (load,) = [value for value in region.values if isinstance(value, Load)]
    assert not trial.is_right_with(change(Load, row_strides=tuple(s - 1 for s in load.row_strides)))
    assert not trial.is_right_with(change(Load, column_stride=0))
    assert not trial.is_right_with(change(Lanes, init=0x3F800000))
    assert not trial.is_right_with(change(Lanes, fill=0x3F800000))
    for place in range(len(region.stores)):
        stores = list(region.stores)
        stores[place] = stores[place - 1]
        changed = replace(form, region=replace(region, stores=tuple(stores)))
        assert not trial.is_right_with(changed), place


def test_another_order_of_a_fold_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that lanes fold backwards, or lanes that are folded backwards, have other bits."""
    trial = Trial(Limits())
    assert trial.is_right_with(trial.form)
    forward = rows.vectors.repeat
    for turned in range(2):
        calls: list[int] = []

        def backward(
            builder: ir.IRBuilder,
            count: ir.Value,
            values: list[ir.Value],
            body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
            calls: list[int] = calls,
            wrong: int = turned,
        ) -> list[ir.Value]:
            calls += [0] * len(values)
            if not values or len(calls) - 1 != 1 + wrong:
                return forward(builder, count, values, body)
            last = builder.sub(count, count.type(1))
            return forward(builder, count, values, lambda i, x: body(builder.sub(last, i), x))

        with monkeypatch.context() as patch:
            patch.setattr(rows.vectors, "repeat", backward)
            make_kernel.cache_clear()
            assert not trial.is_right_with(trial.form), turned
    make_kernel.cache_clear()


def make_fold(rows: int, columns: int, lanes: int) -> Node:
    """Return the sum of the rows of a matrix in lanes."""
    last = Row(columns, 0, ((1, 1), (2, lanes)))
    x = Operand(Origin.STATE, F32, 0, 0, (Row(rows, 0, ((0, 1),)), last))
    shape = (rows, lanes)
    return Node(
        Kind.REDUCE, Function.ADD, F32, shape, (immediate(F32, 0), x), (-(-columns // lanes),)
    )


def test_what_has_a_kernel_of_its_own_is_not_fused() -> None:
    """Products, folds of columns, few and long rows, positions, and sums that round once."""
    fold = make_fold(64, 2048, 64)
    product = replace(fold, kind=Kind.CONTRACT, operands=(*fold.operands, fold.operands[1]))
    backend = Cuda(Emulator())
    assert backend.is_fusible(fold, ORDERED)
    assert not backend.is_fusible(fold, EXACT)
    assert not is_fusible(product)
    assert not is_fusible(make_fold(8, 1 << 14, 128))
    assert not is_fusible(make_fold(64, 1 << 12, 2048))
    operand = fold.operands[1]
    across = replace(operand, rows=operand.rows[::-1])
    turned = replace(fold, operands=(fold.operands[0], across))
    assert not is_fusible(turned)
    position = replace(fold, function=Function.ARGMAX, dtype=DType.INT64)
    assert not is_fusible(position)


def list_forms(name: str) -> tuple[Preparation, list[Form]]:
    """Return the preparation of a captured program, and the forms of its regions."""
    prepared = Preparation(capture(build(name), trust=True).program, "cuda-emulator")
    jobs = [job.plan for job in prepared.replacing.jobs]
    forms = [plan.form for plan in jobs if isinstance(plan, FusedRegion)]
    return prepared, list(dict.fromkeys(forms))


@pytest.mark.parametrize("name", only({"mlp"}, ["mlp", "gpt2", "resnet"]))
def test_code_of_regions_says_every_rounding(name: str, tmp_path: Path) -> None:
    """The kernels of captured programs are assembled, and are a few times fewer than operators."""
    prepared, forms = list_forms(name)
    launches = sum(job.run is not None for job in prepared.replacing.jobs)
    assert launches < len(prepared.program.nodes) / 4
    assert any(form.is_of_maps for form in forms)
    assert not all(form.is_of_maps for form in forms)
    for form in forms:
        kernel = make_kernel(form)
        if find_assembler() is not None:
            path = tmp_path / "kernel.ptx"
            assemble(kernel, ptx.ARCHITECTURES[0], path, most_spilled=MOST_SPILLED)
        else:
            ptx.translate(kernel, ptx.ARCHITECTURES[0])
