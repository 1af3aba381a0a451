"""Roots are the same in a hostile process, which rounds otherwise or flushes subnormal numbers."""

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from moot.offchain.arithmetic.evaluate import evaluate
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends.cpu.partials import list_partials
from moot.offchain.commitments.tensors import Array, compute_state_root, compute_tensor_root
from moot.offchain.errors import MootError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build
from moot.offchain.native import compiled, threads
from moot.offchain.native.sequences import NativeSequence
from moot.offchain.programs.encoding import encode_node
from moot.offchain.programs.graph import Kind
from moot.offchain.verifier import recompute
from moot.offchain.verifier.questions import Question
from tests.program_helpers import capture_function
from tests.quick import every
from tests.reproducibility.settings import (
    STANDARD,
    STRANGE,
    Setting,
    build_fast_math,
    change,
    changed,
    in_child,
    read,
)

UPWARD_AND_FLUSHING = Setting(2, flushes_results=True, flushes_operands=True)
ROWS, COLUMNS = 384, 512
"""Enough elements for every kernel to share its work."""


def compute_all(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Compute with every kind of kernel, on subnormal numbers too."""
    small = (x * 1e-19) * (y * 1e-19)
    return (
        small,
        small * 1e10,
        x / y,
        (x @ y.T) @ (y / 3),
        x.cumsum(0),
        (x * 0.1).softmax(1),
        torch.conv2d(x.view(1, 3, 128, 512), y[:1, :27].reshape(1, 3, 3, 3)),
        y.square().mean(0),
        torch.zeros_like(x).index_add(0, torch.arange(ROWS) % 7, x),
        (x.abs() ** y).sin(),
    )


@cache
def captured() -> Captured:
    """Return the program, captured in the default environment."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(ROWS, COLUMNS, generator=generator) for _ in range(2))
    assert read() == STANDARD
    return capture_function(compute_all, x, y)


@cache
def inputs() -> list[Array]:
    """Return the program's batch."""
    return captured().batch(0)


def root_of(arrays: list[Array]) -> str:
    """Return the root of tensors as the roots of a state."""
    return compute_state_root([compute_tensor_root(array) for array in arrays]).hex()


def run(observe: Callable[[int, Array], None] | None = None) -> str:
    """Return the root of what the program computes on two threads."""
    executor = Executor(captured().program, threads=2)
    return root_of(executor.run(captured().initial_state, inputs(), 0, observe))


@cache
def usual() -> str:
    """Return the root of a process that nobody has changed."""
    assert read() == STANDARD
    return run()


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave threads to the next test that were started in the default environment."""
    usual()
    before = threads.get_threads()
    yield
    assert read() == STANDARD
    threads.set_threads(before)


def start_helpers() -> None:
    """Start one more helper, from the calling thread, as hashing much does, and let it serve."""
    threads.set_threads(threads._team._hired + 2)
    compute_tensor_root(np.zeros(1 << 20, np.float32))


def on_both_threads(work: Callable[[], object]) -> None:
    """Do something on the calling thread and on a helper, as parts of shared work."""
    both = threading.Barrier(2, timeout=60)

    def wait(_: int, __: int) -> None:
        both.wait()
        work()

    before = threads.get_threads()
    threads.set_threads(2)
    try:
        threads.share(wait, 2, 1)
    finally:
        threads.set_threads(before)


@pytest.mark.parametrize("setting", every(6, STRANGE))
def test_settings_between_runs_do_not_matter(setting: Setting) -> None:
    """Changed after the threads have started, a setting changes no root, and is left as it was."""
    with changed(setting):
        assert run() == usual()


@pytest.mark.parametrize("setting", every(16, STRANGE))
def test_threads_do_not_keep_what_they_inherit(setting: Setting) -> None:
    """Helpers that hashing starts under a setting compute as always when the setting is gone."""
    with changed(setting):
        start_helpers()
    for _ in range(2):
        assert run() == usual()


@pytest.mark.parametrize("setting", every(16, STRANGE))
def test_helpers_do_not_keep_what_they_are_told(setting: Setting) -> None:
    """A setting made inside a helper is refused, and is gone when the next work comes."""
    start_helpers()

    def change_helper() -> None:
        if threading.current_thread().name == "kernel":
            change(setting)

    with pytest.raises(MootError, match="while Moot computed"):
        on_both_threads(change_helper)
    assert run() == usual()


def test_every_part_of_shared_work_begins_in_the_default_environment() -> None:
    """A helper that was started under a setting computes without it."""
    seen = {}
    with changed(UPWARD_AND_FLUSHING):
        start_helpers()
        on_both_threads(lambda: seen.update({threading.current_thread().name: read()}))
    assert seen.pop("kernel") == STANDARD
    assert list(seen.values()) == [UPWARD_AND_FLUSHING]


@pytest.mark.parametrize("setting", every(16, STRANGE))
def test_a_thread_that_calls_may_have_any_setting(setting: Setting) -> None:
    """A run in a thread that was started under a setting comes to the same root."""
    found = []
    with changed(setting):
        thread = threading.Thread(target=lambda: found.append(run()))
        thread.start()
        thread.join()
    assert found == [usual()]


@pytest.mark.parametrize("setting", every(6, STRANGE))
def test_settings_made_during_a_run_are_refused(setting: Setting) -> None:
    """A callback that leaves a setting behind ends the run in one line; the next one is right."""
    with pytest.raises(MootError, match="while Moot computed") as refusal:
        run(lambda index, _: change(setting) if index == 3 else None)
    assert "\n" not in str(refusal.value)
    assert read() == STANDARD
    assert run() == usual()


def test_signal_handlers_cannot_change_a_run() -> None:
    """A handler that makes a setting during a run ends it in one line, or changes nothing."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("this system has no timer that sends signals")
    before = signal.signal(signal.SIGALRM, lambda *_: change(UPWARD_AND_FLUSHING))
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    try:
        for _ in range(10):
            try:
                assert run() == usual()
            except MootError as error:
                assert "while Moot computed" in str(error)  # noqa: PT017 - it may pass, too
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        change(STANDARD)


@pytest.mark.parametrize("setting", [UPWARD_AND_FLUSHING, STRANGE[0]])
def test_forks_do_not_matter(setting: Setting) -> None:
    """A process that is forked under a setting, after threads have started, computes as always."""
    start_helpers()
    with changed(setting):
        assert in_child(run) == usual()


def test_flushing_while_threads_start_changes_no_later_run() -> None:
    """Helpers that hashing starts while subnormals are flushed compute products right later."""
    threads.set_threads(threads._team._hired + 2)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    compute_tensor_root(np.zeros(1 << 23, np.float32))
    torch.set_flush_denormal(False)
    assert {run() for _ in range(5)} == {usual()}


def test_what_a_dispute_asks_for_is_computed_as_always() -> None:
    """Accumulators, and the bounded verifier's operator, do not depend on the setting."""
    program = captured().program
    folds = [
        index
        for index, node in enumerate(program.nodes)
        if node.kind in (Kind.CONTRACT, Kind.REDUCE, Kind.SCATTER)
    ]
    executor = Executor(program)
    wanted = {i for fold in folds for i in (fold, *program.nodes[fold].inputs)}
    tensors = executor.outputs(captured().initial_state, inputs(), 0, wanted)
    for fold in folds:
        node = program.nodes[fold]
        operands = tuple(tensors.get(o.reference) for o in node.operands)
        question = Question(ORDERED, encode_node(node), 0, operands, (), b"")
        with changed(UPWARD_AND_FLUSHING):
            found = list_partials(node, 5, operands)
            whole = recompute.compute_operator(node, question)
        assert found.tobytes() == list_partials(node, 5, operands).tobytes()
        assert whole.tobytes() == tensors[fold].tobytes()


def draw_patterns() -> list[list[int]]:
    """Return pairs of operands, half of them any patterns and half of moderate size."""
    rng = np.random.default_rng(0)
    moderate = rng.normal(size=(30, 2)).astype(np.float32).view(np.uint32)
    patterns: list[list[int]] = moderate.tolist()
    return patterns + rng.integers(0, 1 << 32, (30, 2), np.uint64).tolist()


def define_all(patterns: list[list[int]]) -> list[int]:
    """Return what the definition of every transcendental function says of some operands."""
    counts = {f: 2 if f is Function.POW else 1 for f in Function if f.is_transcendental}
    return [
        evaluate(function, (DType.FLOAT32,) * count, DType.FLOAT32, operands[:count])
        for function, count in counts.items()
        for operands in patterns
    ]


def test_the_definition_does_not_depend_on_the_setting() -> None:
    """The readable arithmetic, with which the model of the leaf computes, has no floats in it."""
    patterns = draw_patterns()
    expected = define_all(patterns)
    for setting in STRANGE:
        with changed(setting):
            found = define_all(patterns)
        assert found == expected, setting


@pytest.fixture
def _several_torch_threads() -> Iterator[None]:
    """Let torch compute on several threads."""
    count = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(count)


@pytest.mark.usefixtures("_several_torch_threads")
@pytest.mark.parametrize("setting", every(6, [UPWARD_AND_FLUSHING, STRANGE[0], Setting(1)]))
def test_captures_do_not_depend_on_the_setting(setting: Setting) -> None:
    """Weights, constants and batches that torch computes for an example are always the same."""

    def start() -> tuple[str, str, str]:
        example = capture(build("mlp"))
        state = root_of(example.initial_state)
        return str(example.program.nodes), state, root_of(example.batch(0))

    expected = start()
    with changed(setting):
        torch.ones(1 << 20).mul(2)  # so that torch's threads, if they start here, inherit it
        assert start() == expected
    assert start() == expected


def test_kernels_never_run_in_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a setting, every kernel that has floats as operands is called in the default one."""
    called = set()
    call = compiled.Kernel.__call__

    def check(kernel: compiled.Kernel, *arguments: object) -> object:
        floats = [a for a in arguments if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        assert not floats or read() == STANDARD, kernel._function
        called.add(kernel._function.__name__)
        return call(kernel, *arguments)

    perform = NativeSequence.perform

    def check_sequence(sequence: NativeSequence, tensors: list[object]) -> int:
        assert read() == STANDARD
        called.add("perform")
        return perform(sequence, tensors)

    monkeypatch.setattr(compiled.Kernel, "__call__", check)
    monkeypatch.setattr(NativeSequence, "perform", check_sequence)
    with changed(UPWARD_AND_FLUSHING):
        assert run(lambda _, __: None) == usual()
        assert run() == usual()
    assert {"_fold", "_power", "perform"} <= called


def test_fast_math_libraries_that_are_loaded_late_do_not_matter(tmp_path: Path) -> None:
    """A library that flushes subnormal numbers when it is loaded changes no root."""
    library = build_fast_math(tmp_path)
    if library is None:
        pytest.skip("there is no compiler for x86")
    ctypes.CDLL(str(library))
    try:
        start_helpers()
        assert read() == Setting(0, flushes_results=True, flushes_operands=True)
        assert run() == usual()
    finally:
        change(STANDARD)
    assert run() == usual()
