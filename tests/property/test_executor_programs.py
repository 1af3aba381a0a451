"""Whole programs in the fast executor, against the readable one."""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cpu import regions
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array, encode_elements
from moot.offchain.errors import ProgramError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.readable import run_step
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.load import load_recipe
from moot.offchain.planning import assembly, grouping
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program, Row, Slot, immediate
from moot.offchain.programs.semantics import compute_element
from tests.quick import only, share

FLOAT32 = DType.FLOAT32
SHAPE = (3, 5)
STEP = 2

UNARY = (Function.NEG, Function.SQRT, Function.EXP, Function.FLOOR, Function.COPY)
BINARY = (Function.ADD, Function.SUB, Function.MUL, Function.DIV, Function.MAX)


def read(origin: Origin, reference: int, coefficients: Sequence[int] = (5, 1)) -> Operand:
    """Read a tensor of 15 elements by a linear function of the output's indices."""
    terms = tuple((v, c) for v, c in enumerate(coefficients) if c)
    return Operand(origin, FLOAT32, reference, rows=(Row(15, 0, terms),))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw maps over two slots, some of which read others transposed, and folds between them."""
    slots = (Slot("x", FLOAT32, SHAPE), Slot("y", FLOAT32, SHAPE))
    nodes = [
        Node(Kind.SOURCE, Function.COPY, FLOAT32, SHAPE, (read(Origin.STATE, i),)) for i in range(2)
    ]
    for _ in range(draw(st.integers(1, 9) | st.integers(9, 18))):
        shape = draw(st.sampled_from([SHAPE] * 5 + [(5, 3)]))
        function = draw(st.sampled_from(UNARY) | st.sampled_from(BINARY))
        operands = []
        for _ in range(1 if function in UNARY else 2):
            oldest = draw(st.sampled_from([0, max(len(nodes) - 4, 0)]))
            reference = draw(st.integers(oldest, len(nodes) - 1))
            across = (shape[1], 1) if draw(st.integers(0, 7)) else (1, shape[0])
            operands.append(read(Origin.NODE, reference, across))
        if draw(st.integers(0, 15)) == 15:
            total = (immediate(FLOAT32, 0), read(Origin.NODE, operands[0].reference, (0, 0, 1)))
            nodes.append(Node(Kind.REDUCE, Function.ADD, FLOAT32, SHAPE, total, (15,)))
        else:
            nodes.append(Node(Kind.MAP, function, FLOAT32, shape, tuple(operands)))
    last = [len(nodes) - 1, draw(st.integers(0, len(nodes) - 1))]
    results = [read(Origin.NODE, reference) for reference in last]
    nodes += [Node(Kind.SINK, Function.COPY, FLOAT32, SHAPE, (result,)) for result in results]
    names = tuple(map(str, range(len(nodes))))
    return Program(slots, (), tuple(nodes), names, names)


def encode(arrays: Sequence[Array]) -> list[bytes]:
    """Return the canonical bytes of tensors."""
    return [encode_elements(array).tobytes() for array in arrays]


def observed(
    executor: Executor, state: Sequence[Array], batch: Sequence[Array], *, alone: bool = False
) -> list[Array]:
    """Return the outputs of all operators of one step, computed in groups or one by one."""
    outputs: dict[int, Array] = {}

    def observe(index: int, output: Array) -> None:
        assert index not in outputs
        outputs[index] = output.copy()

    nodes = range(len(executor.program.nodes))
    patch = dict.fromkeys(nodes, lambda output: output) if alone else None
    executor.run(state, batch, STEP, observe=observe, patch=patch)
    return [outputs[index] for index in nodes]


@settings(max_examples=share(100), deadline=None)
@given(programs(), st.integers(0, 9), st.integers(1, 20), st.integers(1, 2), st.data())
def test_program_equals_readable(
    program: Program, seed: int, block: int, threads: int, data: st.DataObject
) -> None:
    """Grouped or one by one, in blocks of any size, on any threads: outputs are the same bits."""
    rng = np.random.default_rng(seed)
    state: list[Array] = [rng.normal(0, 9, SHAPE).astype(np.float32) for _ in range(2)]
    defined: list[Array] = []
    run_step(program, state, (), STEP, observe=lambda _, output: defined.append(output))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "_LEAST_ELEMENTS", 0)
        patch.setattr(assembly, "_PART_COLUMNS", block)
        patch.setattr(regions, "_BLOCK_BYTES", 16 * block)
        patch.setattr(regions, "_MAX_BLOCK_BYTES", 16 * block)
        patch.setattr(regions, "_GRAIN_BYTES", 1)
        executor = Executor(program, threads)
        assert encode(executor.run(state, (), STEP)) == encode(defined[-2:])
        for alone in (True, False):
            assert encode(observed(executor, state, (), alone=alone)) == encode(defined)
        wanted = data.draw(st.sets(st.integers(0, len(program.nodes) - 1), max_size=3))
        outputs = executor.outputs(state, (), STEP, wanted)
        assert {i: encode([x]) for i, x in outputs.items()} == {
            i: encode([defined[i]]) for i in wanted
        }


@settings(max_examples=share(50), deadline=None)
@given(programs(), st.booleans(), st.data())
def test_outputs_begin_with_what_is_known(
    program: Program,
    is_patched: bool,  # noqa: FBT001 - hypothesis passes it
    data: st.DataObject,
) -> None:
    """Outputs are the same bits, whatever is known of their run; what is known is not computed."""
    state: list[Array] = [np.full(SHAPE, 2, np.float32), np.full(SHAPE, 3, np.float32)]
    nodes = st.integers(0, len(program.nodes) - 1)
    target = data.draw(nodes)
    patch = {target: lambda output: output + 1} if is_patched else None
    every: dict[int, Array] = {}
    executor = Executor(program)
    executor.run(state, (), STEP, observe=every.__setitem__, patch=patch)
    chosen, wanted = data.draw(st.sets(nodes, max_size=6)), data.draw(st.sets(nodes, max_size=3))
    known = {index: every[index] for index in chosen}
    with pytest.MonkeyPatch.context() as least:
        least.setattr(grouping, "_LEAST_ELEMENTS", data.draw(st.sampled_from([0, 1 << 10])))
        found = executor.outputs(state, (), STEP, wanted, patch, None, known)
    assert {i: encode([x]) for i, x in found.items()} == {i: encode([every[i]]) for i in wanted}
    other = {target: np.full(program.nodes[target].shape, 7, np.float32)}
    assert (executor.outputs(state, (), STEP, other, known=other)[target] == 7).all()


@settings(max_examples=share(50), deadline=None)
@given(programs(), st.data())
def test_patch_replaces_an_output_for_all_that_follows(
    program: Program, data: st.DataObject
) -> None:
    """A patched run is the run of the program in which that operator yields something else."""
    state: list[Array] = [np.full(SHAPE, 2, np.float32), np.full(SHAPE, 3, np.float32)]
    last = program.first_sink - 1
    target = data.draw(st.integers(2, last)) if last >= 2 else 0
    executor = Executor(program)
    seven = immediate(FLOAT32, 0x40E00000)
    nodes = list(program.nodes)
    nodes[target] = Node(Kind.MOVE, Function.COPY, FLOAT32, nodes[target].shape, (seven,))
    changed = Executor(Program(program.state, (), tuple(nodes), program.names, program.lines))

    patch = {target: lambda output: np.full_like(output, 7)}
    expected = encode(changed.run(state, (), STEP))
    assert encode(executor.run(state, (), STEP, patch=patch)) == expected
    sinks = range(program.first_sink, len(program.nodes))
    outputs = executor.outputs(state, (), STEP, sinks, patch=patch)
    assert encode([outputs[sink] for sink in sinks]) == expected


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the kernels of drawn programs out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@cache
def captured_example(name: str) -> Captured:
    """Return the tiny size of an example."""
    return capture(load_recipe(name, size="tiny", seed=0), trust=True)  # about executors


def test_training_equals_readable() -> None:
    """Two steps of a captured perceptron leave the state that the readable executor leaves."""
    example = captured_example("mlp")
    executor = Executor(example.program)
    fast: Sequence[Array] = example.initial_state
    defined: Sequence[Array] = example.initial_state
    for step in range(2):
        fast = executor.run(fast, example.batch(step), step)
        defined = run_step(example.program, defined, example.batch(step), step)
        assert encode(fast) == encode(defined)


@pytest.mark.parametrize(
    "name",
    [
        "cnn",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("resnet", "gpt2", "llama", "bert")
        ),
    ],
)
def test_operators_equal_definition(name: str) -> None:
    """Some elements of every operator of a captured model are what the definition says."""
    example = captured_example(name)
    batch = example.batch(STEP)
    outputs = observed(Executor(example.program), example.initial_state, batch)
    pools = {Origin.NODE: outputs, Origin.STATE: example.initial_state, Origin.BATCH: batch}
    rng = np.random.default_rng(0)

    def fetch(place: int, operand: Operand, index: int) -> int:
        del place
        array = pools[operand.origin][operand.reference]
        return int.from_bytes(array.reshape(-1)[index].tobytes(), "little")

    for index, node in enumerate(example.program.nodes):
        flat = outputs[index].reshape(-1)
        for element in {0, node.elements - 1, int(rng.integers(node.elements))}:
            defined = compute_element(ORDERED, node, element, STEP, fetch)
            expected = np.array([defined], f"u{node.dtype.width}").view(NUMPY_TYPES[node.dtype])
            assert encode([flat[element : element + 1]]) == encode([expected])


@pytest.mark.parametrize("name", only({"cnn"}, ["cnn", "gpt2", "resnet"]))
def test_threads_and_observers_change_nothing(name: str) -> None:
    """A step's result is the same bits on one thread and two, seen or not."""
    example = captured_example(name)
    batch = example.batch(STEP)
    alone = Executor(example.program, 1)
    expected = encode(alone.run(example.initial_state, batch, STEP))
    assert encode(Executor(example.program, 2).run(example.initial_state, batch, STEP)) == expected
    outputs = observed(alone, example.initial_state, batch)
    assert encode(outputs[example.program.first_sink :]) == expected


def _add_one() -> Program:
    x = read(Origin.NODE, 0)
    nodes = (
        Node(Kind.SOURCE, Function.COPY, FLOAT32, SHAPE, (read(Origin.STATE, 0),)),
        Node(Kind.MAP, Function.ADD, FLOAT32, SHAPE, (x, immediate(FLOAT32, 0x3F800000))),
        Node(Kind.SINK, Function.COPY, FLOAT32, SHAPE, (read(Origin.NODE, 1),)),
    )
    return Program((Slot("x", FLOAT32, SHAPE),), (), nodes, ("x", "y", "z"), ("", "", ""))


def test_bytes_that_are_no_booleans_are_refused() -> None:
    """A tensor of BOOL with a byte that is neither 0 nor 1 stops the run."""
    slot = Slot("x", DType.BOOL, (2, 2))
    operand = Operand(Origin.STATE, DType.BOOL, 0, rows=(Row(4, 0, ((0, 2), (1, 1))),))
    sink = Node(Kind.SINK, Function.COPY, DType.BOOL, (2, 2), (operand,))
    executor = Executor(Program((slot,), (), (sink,), ("x",), ("",)))
    (found,) = executor.run([np.array([[0, 1], [0, 0]], np.uint8).view(np.bool_).T], (), 0)
    assert found.tolist() == [[False, False], [True, False]]
    for byte in (2, 255):
        with pytest.raises(ProgramError, match="neither 0 nor 1"):
            executor.run([np.array([[0, 1], [byte, 0]], np.uint8).view(np.bool_)], (), 0)


def test_inputs_that_do_not_fit_are_refused() -> None:
    """A tensor of another type or shape than its slot, or one too many, stops the run."""
    executor = Executor(_add_one())
    x = np.zeros(SHAPE, np.float32)
    assert encode(executor.run([x.T.copy().T], (), 0)) == encode([x + 1])
    for state in ([x.astype(np.float64)], [x.T], [x, x], []):
        with pytest.raises(ProgramError):
            executor.run(state, (), 0)
    with pytest.raises(ProgramError):
        executor.run([x], [x], 0)
