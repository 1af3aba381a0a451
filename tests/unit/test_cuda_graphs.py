"""Graphs of launches, against a library that runs them by the emulator, as strict as NVIDIA's.

The library reads what it is given as NVIDIA's does: a structure of 72 bytes, and words that it
copies when a node is added. A graph that is launched runs all of its nodes, in an order that is
drawn among those that its edges allow.
"""

import ctypes
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from moot.bench.device import time_steps
from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cuda import backend, dependencies, driver, ptx, sequences
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.driver import Driver
from moot.offchain.backends.cuda.emulator import Emulator, Grid, draw_order
from moot.offchain.backends.cuda.exact import plans
from moot.offchain.backends.cuda.kernel import Kernel
from moot.offchain.backends.cuda.machine import Launch, Machine, Tensor, Vertex
from moot.offchain.backends.cuda.sequences import LaunchedSequence, Task
from moot.offchain.backends.layout import SequenceLayout
from moot.offchain.backends.port import Step
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import DeviceError, DeviceLost
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.residents import fetch_all
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.capture.captured import Captured
from moot.offchain.frontend.examples import build
from moot.offchain.frontend.examples.vision import VisionSize, build_mlp
from moot.offchain.native.memory_layout import Memory, Range
from moot.offchain.planning import grouping
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, immediate
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task as ProviderTask
from tests.fuzz.compare import define
from tests.fuzz.draws import draw_case
from tests.quick import every, only
from tests.unit.test_cuda import encode
from tests.unit.test_cuda_driver import INVALID_VALUE, LAUNCH_FAILED, Library

NODE = "=Q6II4xQQQQ"
"""CUDA_KERNEL_NODE_PARAMS_v2: a function, blocks and threads along three axes, shared bytes, the
places of parameters, and what nobody gives: other parameters, a kernel of libraries, a context."""

STREAM = 7
PLANS, NODES = 1 << 40, 1 << 48
"""The first handles of what graphs are made from, and of nodes."""

COLD = 6
"""Runs after which launches are a graph: three to know the program by, and then a state is in two
places by turns, in each of which launches are made for themselves once."""


class Launched(NamedTuple):
    """A launch as the library was asked for it."""

    grid: Grid
    blocks: int
    words: list[int]


class Planned(NamedTuple):
    """A graph as it was made: launches, and the numbers of those that each comes after."""

    launches: list[Launched]
    after: list[list[int]]


class Running(Library):
    """A library that runs kernels, and graphs of them.

    Attributes:
        plans: graphs that are not destroyed, by their handles.
        graphs: all that were instantiated.
        fails_in_graph: the number of the launch in the first graph that loses the device, if any.
    """

    def __init__(self) -> None:
        super().__init__(size=1 << 28)
        self.kernels: list[Kernel] = []
        self.grids: list[Grid] = []
        self.plans: dict[int, Planned] = {}
        self.nodes: dict[int, tuple[int, int]] = {}
        self.graphs: list[Planned] = []
        self.fails_in_graph = -1
        self.rng = Random(0)
        self.alive: set[int] = set()

    def translate(self, kernel: Kernel, _architecture: str) -> str:
        """Return a text that names a kernel."""
        self.kernels.append(kernel)
        self.grids.append(Grid(kernel))
        return str(len(self.kernels))

    def _cumoduleloaddata(self, module: Any, code: bytes) -> int:
        module._obj.value = int(code.rstrip(b"\0"))
        return 0

    def _cumodulegetfunction(self, function: Any, module: Any, name: bytes) -> int:
        assert self.kernels[module.value - 1].name.encode() == name
        function._obj.value = module.value
        return 0

    def _custreamcreate(self, stream: Any, _flags: int) -> int:
        stream._obj.value = STREAM
        return 0

    def _cumemalloc_v2(self, address: Any, size: Any) -> int:
        status = super()._cumemalloc_v2(address, size)
        if not status:
            ctypes.memset(address._obj.value, 0xA5, size.value)
        return status

    def _culaunchkernel(self, function: Any, *arguments: Any) -> int:
        blocks, threads, stream, places = (arguments[i] for i in (0, 3, 7, 8))
        assert stream.value == STREAM
        return self._run(self._read(function.value, blocks, threads, ctypes.addressof(places)))

    def _read(self, function: int, blocks: int, threads: int, places: int) -> Launched:
        """Return a launch whose parameters are where an array says."""
        kernel = self.kernels[function - 1]
        assert threads == kernel.threads
        addresses = (ctypes.c_uint64 * kernel.parameters).from_address(places)
        words = [ctypes.c_int64.from_address(address).value for address in addresses]
        return Launched(self.grids[function - 1], blocks, words)

    def _cudeviceprimaryctxreset_v2(self, device: Any) -> int:
        self.alive.clear()
        self.plans.clear()
        return super()._cudeviceprimaryctxreset_v2(device)

    def _run(self, launched: Launched) -> int:
        launched.grid.run(launched.blocks, launched.words, self.rng)
        return 0

    def _cugraphcreate(self, plan: Any, flags: Any) -> int:
        assert flags.value == 0
        plan._obj.value = PLANS + self.calls.count("cuGraphCreate")
        self.plans[plan._obj.value] = Planned([], [])
        return 0

    def _cugraphaddkernelnode_v2(
        self, handle: Any, plan: Any, others: Any, count: Any, node: Any
    ) -> int:
        function, *sizes, shared_bytes, places, extra, library, context = struct.unpack(
            NODE, bytes(node._obj)
        )
        assert sizes[1:3] == sizes[4:] == [1, 1]
        assert (extra, library, context) == (0, 0, 0)
        launches, after = self.plans[plan.value]
        launched = self._read(function, sizes[0], sizes[3], places)
        kernel = self.kernels[function - 1]
        size = kernel.block_bytes
        assert shared_bytes == (size if size > ptx.MOST_STATIC_BYTES else 0)
        earlier = (ctypes.c_uint64 * count.value).from_buffer(others) if count.value else []
        known = [self.nodes[other] for other in earlier]
        assert all(owner == plan.value for owner, _ in known)
        assert len(set(known)) == len(known)
        handle._obj.value = NODES + len(self.nodes)
        self.nodes[handle._obj.value] = plan.value, len(launches)
        launches.append(launched)
        after.append([number for _, number in known])
        return 0

    def _cugraphdestroy(self, plan: Any) -> int:
        del self.plans[plan.value]
        return 0

    def _cugraphinstantiatewithflags(self, made: Any, plan: Any, flags: Any) -> int:
        assert flags.value == 0
        self.graphs.append(self.plans[plan.value])
        made._obj.value = len(self.graphs)
        self.alive.add(made._obj.value)
        return 0

    def _cugraphlaunch(self, graph: Any, stream: Any) -> int:
        assert stream.value == STREAM
        assert graph.value in self.alive
        launches, after = self.graphs[graph.value - 1]
        for count, number in enumerate(draw_order(after, self.rng)):
            if count == self.fails_in_graph:
                self.fails_in_graph = -1
                return LAUNCH_FAILED
            self._run(launches[number])
        return 0

    def _cugraphexecdestroy(self, graph: Any) -> int:
        self.alive.remove(graph.value)
        return 0


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Running], Running]:
    """Return what puts a library into the place of NVIDIA's."""

    def put(library: Running) -> Running:
        monkeypatch.setattr(driver, "_load_library", lambda: library)
        monkeypatch.setattr(driver, "translate", library.translate)
        return library

    return put


Use = Callable[[Running], Running]


@cache
def make_program() -> Captured:
    """Return a small perceptron's training."""
    return capture(build_mlp(VisionSize(4, (8,)), 0, inference=False), trust=True)


def advance(backend: str, program: Program, state: list[Array], batches: list[Any]) -> list[bytes]:
    """Return the states after each of some steps."""
    executor, states, held = Executor(program, backend=backend), [], list(state)
    for step, batch in enumerate(batches):
        executor.advance(held, batch, step)
        states.append(b"".join(encode(fetch_all(held))))
    return states


def test_training_becomes_graphs_and_has_the_same_states(use: Use) -> None:
    """After some steps launches are graphs, those of a step and of the next one, and go on so."""
    library = use(Running())
    captured = make_program()
    state, batches = list(captured.initial_state), [captured.batch(i) for i in range(COLD + 4)]
    assert advance("cuda", captured.program, state, batches) == advance(
        "cpu", captured.program, state, batches
    )
    after = library.calls[library.calls.index("cuGraphLaunch") :]
    assert after.count("cuGraphLaunch") >= 4
    last = after[len(after) - after[::-1].index("cuGraphLaunch") :]
    assert "cuLaunchKernel" not in last
    assert 1 <= len(library.graphs) <= 2 * after.count("cuGraphLaunch")
    assert library.alive <= set(range(1, len(library.graphs) + 1))


def soil(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every run of a sequence begin with memory in which nothing of an earlier run is left."""
    compute = LaunchedSequence._compute

    def soiled(self: LaunchedSequence, places: Mapping[int, Range]) -> None:
        if self._own is not None:
            ctypes.memset(self._own.address, 0xA5, self._own.size)
        compute(self, places)

    monkeypatch.setattr(LaunchedSequence, "_compute", soiled)


@cache
def make_tiny(name: str, arithmetic: Arithmetic = ORDERED) -> Captured:
    """Return the training of a tiny program."""
    return capture(build(name, "tiny"), trust=True, arithmetic=arithmetic)


@pytest.mark.parametrize("name", only({"mlp", "resnet"}, ("mlp", "resnet", "gpt2", "bert")))
def test_launches_may_run_in_any_order_that_edges_allow(
    name: str, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps have the processor's states in drawn orders, of which there are others than one."""
    soil(monkeypatch)
    library, captured = use(Running()), make_tiny(name)
    state, batches = list(captured.initial_state), [captured.batch(i) for i in range(COLD + 24)]
    assert advance("cuda", captured.program, state, batches) == advance(
        "cpu", captured.program, state, batches
    )
    after = max((graph.after for graph in library.graphs), key=len)
    orders = {tuple(draw_order(after, library.rng)) for _ in range(10)}
    assert len(orders) == 10
    assert all(
        order.index(other) < order.index(number)
        for order in orders
        for number, others in enumerate(after)
        for other in others
    )


class Forgetful(dependencies._Memory):
    """What is known about memory, but for one kind of conflict.

    Attributes:
        forgotten: that kind, as who comes second and who came first.
    """

    forgotten = ("", "")

    def read(self, number: int, first: int, stop: int, needed: set[int]) -> None:
        """Note that a task reads."""
        found = set[int]()
        super().read(number, first, stop, found)
        if self.forgotten != ("read", "write"):
            needed |= found

    def write(self, number: int, first: int, stop: int, needed: set[int]) -> None:
        """Note that a task writes."""
        parts = self._find_parts(first, stop)
        for part in parts:
            if self.forgotten != ("write", "read"):
                needed.update(self._readers[part])
            if self.forgotten != ("write", "write") and not self._readers[part]:
                needed.update(self._get_writer(part))
        super().write(number, first, stop, set())


@pytest.mark.parametrize(
    ("forgotten", "is_seen"),
    [
        (("", ""), False),
        (("read", "write"), True),
        (("write", "write"), True),
        (("write", "read"), True),
    ],
)
def test_an_edge_that_is_missing_is_found_out(
    forgotten: tuple[str, str], *, is_seen: bool, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads too early, overwrites too early, or is overwritten has other bits."""
    soil(monkeypatch)
    for name in ("_LEAST_SIDE", "_LEAST_STEPS"):
        monkeypatch.setattr(plans, name, 1)
    monkeypatch.setattr(dependencies, "_Memory", Forgetful)
    monkeypatch.setattr(Forgetful, "forgotten", forgotten)
    monkeypatch.setattr(sequences, "ConcurrentMemory", lambda alignment, _: Memory(alignment))
    use(Running())
    captured = make_tiny("mlp", EXACT)
    state, batches = list(captured.initial_state), [captured.batch(i) for i in range(COLD + 6)]
    expected = advance("cpu", captured.program, state, batches)
    assert (advance("cuda", captured.program, state, batches) != expected) == is_seen


@pytest.mark.parametrize("is_without", [False, True])
def test_a_device_is_asked_whether_graphs_have_all_edges(
    monkeypatch: pytest.MonkeyPatch, *, is_without: bool
) -> None:
    """What is measured on a device says whether graphs come to the state of single operators."""
    if is_without:
        monkeypatch.setattr(sequences, "find_dependencies", lambda tasks: [[] for _ in tasks])
    rows = list(time_steps("cuda-emulator", ["mlp"], "tiny", 1))
    equal = {row["way"]: row["equal"] for row in rows}
    assert equal == {"graphs": not is_without, "regions": True, "apart": True}
    assert rows[0]["launches"] == 1


def test_a_graph_is_made_as_it_was_asked_for(use: Use) -> None:
    """Nodes have their edges, blocks, threads and shared memory, and words that change later."""
    library, device = use(Running()), Driver()
    kernels = [Kernel(f"k{i}", 2, (), threads=32 << i) for i in range(4)]
    kernels[3] = replace(kernels[3], shared_bytes=100 << 10)
    edges = [[], [0], [0], [1, 2]]
    words = [[-1, 1 << 62], [3, 4], [5, 6], [7, 8]]
    vertices = [
        Vertex(Launch(device.load(kernel), 1 + i, words[i]), edges[i])
        for i, kernel in enumerate(kernels)
    ]
    device.record(vertices)
    ((launches, after),) = library.graphs
    assert after == edges
    assert [(launch.blocks, launch.words) for launch in launches] == [
        (1 + i, own) for i, own in enumerate(words)
    ]
    assert not library.plans


def make_sequence(
    emulator: Emulator, size: int, pairs: Sequence[tuple[int, int]], kept: Sequence[int]
) -> LaunchedSequence:
    """Return tasks that add 1 to tensors, given the places that each reads and writes."""
    operand = Operand(Origin.STATE, DType.FLOAT32, 0, 0, (Row(size, 0, ((0, 1),)),))
    one = immediate(DType.FLOAT32, 0x3F800000)
    node = Node(Kind.MAP, Function.ADD, DType.FLOAT32, (size,), (operand, one))
    plan = Cuda(emulator).plan(node, ORDERED)
    steps = [Step(plan, (read, 0), (written,), (node,)) for read, written in pairs]
    return LaunchedSequence(emulator, steps, (1, 2), kept)


class Limited(Emulator):
    """An emulator that says how much memory it has, and notes how much it is asked for."""

    def __init__(self, free: int | None) -> None:
        super().__init__()
        self._free = free
        self.asked: list[int] = []

    def get_free_bytes(self) -> int | None:
        """Return how much there is."""
        return self._free

    def allocate(self, size: int, holder: int = 0) -> int:
        """Return the address of so many bytes."""
        self.asked.append(size)
        return super().allocate(size, holder)


@pytest.mark.parametrize(("free", "units"), [(None, 6), (2 * 6 * 512 + 256, 6), (2 * 6 * 512, 5)])
def test_a_sequence_takes_what_it_says(free: int | None, units: int) -> None:
    """It is a quarter more than in turns, where there is twice as much as that."""
    early = [(1, place) for place in range(10, 14)]
    late = [(place, 20 + place) for place in range(10, 14)]
    pairs = [*early, (1, 40), (40, 41), (2, 50), (50, 51), *late]
    kept = [41, 51, *range(30, 34)]
    machine = Limited(free)
    sequence = make_sequence(machine, 128, pairs, kept)
    assert sequence.needed_bytes == 512 * (units + len(kept))
    given = [Tensor(machine, (128,), np.float32) for _ in range(2)]
    machine.asked.clear()
    sequence.run(given)
    assert sum(machine.asked) == sequence.needed_bytes


def test_tensors_that_share_memory_are_told_by_their_addresses() -> None:
    """A kept tensor that lies on one that is given, or on a part of it, comes after its readers."""
    size, emulator = 64, Emulator()
    sequence = make_sequence(emulator, size, [(1, 3), (2, 4), (3, 5), (5, 6)], (3, 4, 6))
    start = np.arange(6 * size, dtype=np.float32)
    memory = Tensor(emulator, start.shape, np.float32)
    rng, seen = Random(1), set[int]()
    for _ in range(100):
        firsts = [memory.address + size * rng.randrange(20) for _ in range(5)]
        if any(0 < abs(firsts[i] - firsts[2 + i]) < 4 * size for i in (0, 1)):
            continue  # a launch would overwrite what others of its threads read
        places = dict(zip((1, 2, 3, 4, 6), ((a, a + 4 * size) for a in firsts), strict=True))
        results = []
        tasks = sequence.list_tasks(places)
        recorded = emulator.record(sequences.link(tasks))
        seen.add(sum(len(vertex.after) for vertex in recorded))
        for run in [partial(launch_one_by_one, emulator, tasks)] + 4 * [
            partial(emulator.replay, recorded)
        ]:
            memory.put(start)
            run()
            results.append(memory.get().tobytes())
        assert len(set(results)) == 1
    assert len(seen) > 1


def launch_one_by_one(machine: Machine, tasks: Sequence[Task]) -> None:
    """Launch tasks in their order."""
    for task in tasks:
        for launch in task.launches:
            machine.launch(*launch)


def test_what_tasks_reserve_is_apart(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Residues and sums of products in `exact` have memory of their own in a sequence."""
    for name in ("_LEAST_SIDE", "_LEAST_STEPS"):
        monkeypatch.setattr(plans, name, 1)
    library = use(Running())
    recipe = build_mlp(VisionSize(4, (8,)), 0, inference=False)
    captured = capture(recipe, trust=True, arithmetic=EXACT)
    state, batches = list(captured.initial_state), [captured.batch(i) for i in range(COLD + 2)]
    assert advance("cuda", captured.program, state, batches) == advance(
        "cpu", captured.program, state, batches
    )
    assert library.graphs


def test_a_step_in_parts_becomes_graphs_too(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tensors of a size, which parts of a step give back in between, have two places each."""
    monkeypatch.setattr(backend, "_MOST_SEQUENCE_BYTES", 4000)
    library = use(Running())
    captured = capture(build_mlp(VisionSize(4, (8,) * 4), 0, inference=False), trust=True)
    executors = [Executor(captured.program, backend=name) for name in ("cuda", "cpu")]
    states = [list(captured.initial_state) for _ in executors]
    for step in range(COLD + 6):
        library.calls.clear()
        for executor, state in zip(executors, states, strict=True):
            executor.advance(state, captured.batch(step), step)
        if step >= COLD + 2:
            assert library.calls.count("cuGraphLaunch") > 1
            assert "cuLaunchKernel" not in library.calls
        assert encode(fetch_all(states[0])) == encode(states[1])


def test_states_that_are_held_stay_as_they_are(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds more states than graphs are kept has launches one by one, laid out once."""
    laid, lay_out = list[int](), SequenceLayout.lay_out

    def count(self: SequenceLayout, *arguments: Any) -> Any:
        laid.append(step)
        return lay_out(self, *arguments)

    library, captured = use(Running()), make_program()
    executors = [Executor(captured.program, backend=name) for name in ("cuda", "cpu")]
    states = [list(captured.initial_state) for _ in executors]
    held = deque[tuple[list[Any], list[bytes]]](maxlen=5)
    monkeypatch.setattr(SequenceLayout, "lay_out", count)
    for step in range(COLD + 16):
        for executor, state in zip(executors, states, strict=True):
            executor.advance(state, captured.batch(step), step)
        held.append((list(states[0]), encode(states[1])))
        assert all(encode(fetch_all(state)) == expected for state, expected in held)
    assert 0 < max(laid) < COLD
    assert not library.graphs


@pytest.mark.parametrize("number", every(24, range(24)))
def test_drawn_programs_have_the_same_outputs_as_graphs(
    number: int, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operators and regions of all kinds, run again and again, in whatever memory there is."""
    monkeypatch.setattr(grouping, "_LEAST_ELEMENTS", 0)
    library = use(Running())
    case = draw_case(Random(number), is_matrix=number % 2 == 0)
    expected = encode(define(case))[case.program.first_sink :]
    executor = Executor(case.program, backend="cuda")
    for _ in range(COLD + 2):
        assert encode(executor.run(case.state, case.batch, case.step)) == expected
    assert library.graphs


def test_who_looks_on_sees_every_output(use: Use) -> None:
    """Observers and patches have plain launches, also where there is a graph."""
    library = use(Running())
    captured = make_program()
    executor = Executor(captured.program, backend="cuda")
    state, batch = list(captured.initial_state), captured.batch(0)
    for _ in range(COLD + 1):
        expected = encode(executor.run(state, batch, 0))
    graphs = library.calls.count("cuGraphLaunch")
    assert graphs
    seen: dict[int, Array] = {}
    assert encode(executor.run(state, batch, 0, observe=seen.__setitem__)) == expected
    assert len(seen) == len(captured.program.nodes)
    index = captured.program.first_sink - 1
    executor.run(state, batch, 0, patch={index: np.negative})
    assert library.calls.count("cuGraphLaunch") == graphs


def test_a_wrong_address_is_found_out(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that is launched for tensors at other addresses writes elsewhere."""
    use(Running())
    captured = make_program()
    state, batches = list(captured.initial_state), [captured.batch(i) for i in range(COLD + 3)]
    expected = advance("cpu", captured.program, state, batches)
    compute = LaunchedSequence._compute

    def mistake(self: LaunchedSequence, places: dict[int, int]) -> None:
        if self._graphs:
            self._machine.replay(next(iter(self._graphs.values())))
        else:
            compute(self, places)

    monkeypatch.setattr(LaunchedSequence, "_compute", mistake)
    assert advance("cuda", captured.program, state, batches) != expected


@pytest.mark.parametrize(
    ("function", "status", "error"),
    [
        ("cuGraphLaunch", INVALID_VALUE, r"did not launch a graph: invalid value$"),
        ("cuGraphLaunch", LAUNCH_FAILED, r"launch failed; what Stand-in had .* is gone"),
        ("cuGraphInstantiateWithFlags", INVALID_VALUE, r"did not make a graph: invalid value$"),
        ("cuGraphCreate", INVALID_VALUE, r"did not begin a graph: invalid value$"),
        ("cuGraphAddKernelNode_v2", INVALID_VALUE, r"did not add a kernel to .*: invalid value$"),
        ("cuGraphAddKernelNode_v2", LAUNCH_FAILED, r"launch failed; what Stand-in had .* is gone"),
    ],
)
def test_what_fails_of_a_graph_is_one_line(
    use: Use, function: str, status: int, error: str
) -> None:
    """A refusal says what was asked for, and a loss is told from it; the state is not half done."""
    library = use(Running())
    captured = make_program()
    executor, state = Executor(captured.program, backend="cuda"), list(captured.initial_state)
    library.statuses[function] = status

    def train() -> None:
        for step in range(COLD + 2):
            executor.advance(state, captured.batch(step), step)

    with pytest.raises(DeviceError, match=error) as raised:
        train()
    assert isinstance(raised.value, DeviceLost) == (status == LAUNCH_FAILED)
    assert state == []
    assert "\n" not in str(raised.value)
    assert not library.plans


def test_a_device_lost_in_a_graph_costs_the_steps_since_the_last_checkpoint(
    use: Use, tmp_path: Path
) -> None:
    """A run goes on from its checkpoint on the device as it starts anew, to the same roots.

    The task's next runs get the plans of that device, not those that were lost.
    """
    captured = make_program()
    task = ProviderTask(
        captured.program, captured.initial_state, captured.batch, 2 * COLD + 2, COLD + 1
    )
    ours = Run(task, Behaviour(), Store(tmp_path / "ours"))
    ours.compute()
    for is_lost in (False, True):
        task.forget("cuda")
        library = use(Running())
        library.fails_in_graph = 2 if is_lost else -1
        before = task.prepare("cuda")
        theirs = Run(task, Behaviour(), Store(tmp_path / str(is_lost)), backend="cuda")
        theirs.compute()
        assert list(theirs.roots) == list(ours.roots)
        assert (task.prepare("cuda") is not before) == is_lost
        assert library.calls.count("cuDevicePrimaryCtxReset_v2") == is_lost
        assert library.calls.count("cuInit") == 1 + is_lost
        assert "cuGraphLaunch" in library.calls
