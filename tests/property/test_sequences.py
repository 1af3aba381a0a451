"""Sequences of small tasks: what one call from Python computes is what the definition says."""

import ctypes
import threading
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
import torch

from moot.offchain.backends import table
from moot.offchain.backends.cpu import called_integers, calls
from moot.offchain.backends.cpu.kernels.contraction import strips, tiles
from moot.offchain.backends.cpu.kernels.fused.generate import compile_region
from moot.offchain.commitments.tensors import Array, encode_elements
from moot.offchain.errors import ProgramError, UnsuitableEnvironment
from moot.offchain.execution import preparation
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.preparation import Preparation
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.examples import build
from moot.offchain.native import sequences
from moot.offchain.native.sequences import (
    DONE,
    UNFIT,
    UNSUITABLE,
    Call,
    Expected,
    NativeSequence,
    Place,
)
from moot.offchain.native.threads import make_task
from tests.fuzz.compare import define
from tests.fuzz.draws import draw_case
from tests.program_helpers import capture_function
from tests.quick import every
from tests.reproducibility.settings import STANDARD, STRANGE, Setting, change, changed, read
from tests.unit.numpy_backend import Numpy

DRAWS, PART = 60, 20
RUNS = 3


@pytest.fixture(autouse=True)
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Join small tasks from the first run on."""
    monkeypatch.setattr(preparation, "_COLD_RUNS", 0)


def encode(arrays: Sequence[Array]) -> list[bytes]:
    """Return the canonical bytes of tensors."""
    return [encode_elements(array).tobytes() for array in arrays]


def recur(
    x: torch.Tensor, h: torch.Tensor, wide: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Return what a cell has in small: many operators of all sorts."""
    rows = []
    for row in x:
        gates = torch.addmm(bias, h, weight.t()) + row @ wide
        a, b = gates.chunk(2, 1)
        h = torch.tanh(a) * torch.sigmoid(b) + h.flip(1)
        rows.append(h.softmax(1) + h.sum(0))
    picked = torch.stack(rows).index_select(0, torch.tensor([1, 0, 1]))
    return torch.cat(rows), picked, h.t() @ h, h.reshape(-1), x.reshape(-1), x, h.amax(1)


def draw_inputs(number: int, width: int = 5, samples: int = 3) -> list[torch.Tensor]:
    """Return the arguments of `recur`."""
    generator = torch.Generator().manual_seed(number)
    shapes = [(2, samples, 4), (samples, width), (4, 2 * width), (2 * width, width), (2 * width,)]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def by_definition(captured: Captured, batch: Sequence[Array]) -> list[bytes]:
    """Return the next state's bytes from a run that looks at every operator by itself."""
    executor = Executor(captured.program)
    nothing: list[int] = []
    alone = {i: (lambda x: x) for i in range(len(captured.program.nodes))}
    observe = lambda index, _: nothing.append(index)  # noqa: E731 - it is used as one
    return encode(executor.run(captured.initial_state, batch, 0, observe=observe, patch=alone))


@pytest.mark.parametrize("first", range(0, DRAWS, PART))
def test_drawn_programs_in_sequences_are_what_they_are_defined_to_be(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of all kinds and types have the definition's bits, run after run."""
    joined = []
    plan = calls.Memory.end_task
    monkeypatch.setattr(calls.Memory, "end_task", lambda self: (joined.append(self), plan(self))[1])
    for number in range(first, first + PART):
        case = draw_case(Random(number), is_matrix=number % 5 == 0)
        expected = encode(define(case)[case.program.first_sink :])
        executor = Executor(case.program, 1 + number % 2)
        runs = [executor.run(case.state, case.batch, case.step) for _ in range(RUNS)]
        assert all(encode(found) == expected for found in runs), number
        advanced = [array.copy() for array in case.state]
        executor.advance(advanced, case.batch, case.step)
        assert encode(advanced) == expected, number
    assert len(joined) > PART


@pytest.mark.parametrize(
    ("width", "samples"), every(6, [(5, 3), (32, 1), (33, 9), (16, 8), (1, 2), (48, 3)])
)
def test_runs_with_other_inputs_leave_what_was_returned_alone(width: int, samples: int) -> None:
    """Each run has its own results, as they are defined, and writes to none of another run."""
    captured = capture_function(recur, *draw_inputs(0, width, samples))
    executor = Executor(captured.program)
    batches = [[t.numpy() for t in draw_inputs(n, width, samples)] for n in range(RUNS)]
    inputs = [encode(batch) for batch in batches]
    found = [executor.run(captured.initial_state, batch, 0) for batch in batches for _ in range(2)]
    assert [encode(state) for state in found[::2]] == [encode(state) for state in found[1::2]]
    for state, batch, before in zip(found[::2], batches, inputs, strict=True):
        assert encode(state) == by_definition(captured, batch)
        assert encode(batch) == before
    assert executor._prepared.whole is not None


@pytest.mark.parametrize("threads", [1, 2])
def test_a_recurrence_of_one_sample_is_one_sequence(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are packed, products turned and shared in it; steps share the kernels of regions."""
    monkeypatch.setattr(strips, "_GRAIN", 1)
    layer = torch.nn.LSTM(9, 64)
    weights = [parameter.detach() for parameter in layer.parameters()]

    def run(x: torch.Tensor, h: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.lstm(x, (h, h), weights, True, 1, 0.0, False, False, False)

    generator = torch.Generator().manual_seed(0)
    x, h = torch.randn(14, 1, 9, generator=generator), torch.randn(1, 1, 64, generator=generator)
    captured = capture_function(run, x, h, *weights)
    batch = [tensor.numpy() for tensor in (x, h, *weights)]
    executor, before = Executor(captured.program, threads), compile_region.cache_info().misses
    for _ in range(RUNS):
        found = encode(executor.run(captured.initial_state, batch, 0))
    assert executor._prepared.whole is not None
    assert compile_region.cache_info().misses - before < len(x)
    assert found == by_definition(captured, batch)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("has_tiles", [True, False])
@pytest.mark.parametrize(
    ("rows", "steps", "columns"), every(2, [(48, 64, 40), (3, 70, 33), (33, 20, 5)])
)
def test_products_of_short_integers_are_a_part_of_a_sequence(
    rows: int,
    steps: int,
    columns: int,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_tiles: bool,
) -> None:
    """By tiles or without them, packed or as they lie, each run's sums are those of torch."""
    monkeypatch.setattr(called_integers, "_GRAIN", 1)
    if not has_tiles:
        monkeypatch.setattr(tiles, "are_there", lambda: False)

    def multiply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        short = torch._int_mm(x, weight.t()).clamp(-128, 127).to(torch.int8)
        return torch._int_mm(short, weight) + 1

    def draw(number: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(number)
        kind = {"generator": generator, "dtype": torch.int8}
        sizes = (rows, steps), (columns, steps)
        return [torch.randint(-128, 128, size, **kind) for size in sizes]

    captured = capture_function(multiply, *draw(0))
    executor = Executor(captured.program, threads)
    for number in range(RUNS):
        found = executor.run(captured.initial_state, [tensor.numpy() for tensor in draw(number)], 0)
        assert np.array_equal(found[0], multiply(*draw(number)).numpy())
    assert executor._prepared.whole is not None


def test_calls_of_too_many_words_are_refused() -> None:
    """Machine code has cases for so many words, and would pass over a call that has more."""
    with pytest.raises(AssertionError, match="a call has 65 words"):
        NativeSequence([Call(0, (0,) * 65)], 0, 0)
    with pytest.raises(AssertionError, match="a task has 65 words"):
        make_task(0, (*[0] * 63, 0, 5), 1, -2, None)


@pytest.mark.parametrize("cold_runs", [0, RUNS])
def test_regions_that_begin_inside_of_tensors(
    cold_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel is given where a region reads a tensor first, in a sequence or by itself."""
    monkeypatch.setattr(preparation, "_COLD_RUNS", cold_runs)
    x = torch.randn(9, 2000, generator=torch.Generator().manual_seed(0))
    captured = capture_function(lambda x: ((x[4] * x[7] + x[5]).exp(), x[2] * x[3] + x[1]), x)
    executor = Executor(captured.program)
    compile_region.cache_clear()
    found = [encode(executor.run(captured.initial_state, [x.numpy()], 0)) for _ in range(RUNS)]
    assert compile_region.cache_info().currsize > 0
    assert found == [by_definition(captured, [x.numpy()])] * RUNS


def test_executors_share_a_preparation_on_threads() -> None:
    """Two threads that run one preparation at once get what each would get by itself."""
    captured = capture_function(recur, *draw_inputs(0))
    prepared = Preparation(captured.program)
    batches = [[t.numpy() for t in draw_inputs(n)] for n in range(2)]
    expected = [by_definition(captured, batch) for batch in batches]
    wrong: list[int] = []

    def work(number: int) -> None:
        executor = Executor(prepared)
        for _ in range(300):
            found = executor.run(captured.initial_state, batches[number], 0)
            if encode(found) != expected[number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_that_do_not_fit_take_the_usual_road() -> None:
    """Arrays of other strides are copied, and of other types, shapes or numbers are refused."""
    captured = capture_function(recur, *draw_inputs(0))
    executor, state = Executor(captured.program), captured.initial_state
    batch = [t.numpy() for t in draw_inputs(1)]
    expected = encode(executor.run(state, batch, 0))
    assert executor._prepared.whole is not None
    turned = [np.asarray(array, order="F") for array in batch]
    apart = [np.stack([array, array], -1)[..., 0] for array in batch]
    for other in (turned, apart, [*map(memoryview, batch)]):
        arrays = [np.asarray(array) for array in other]
        assert encode(executor.run(state, arrays, 0)) == expected
    wrong = [
        [batch[0].astype(np.float64), *batch[1:]],
        [batch[0].astype(">f4"), *batch[1:]],
        [batch[0][:1], *batch[1:]],
        [batch[0].reshape(-1), *batch[1:]],
        batch[1:],
        [*batch, batch[0]],
    ]
    for other in wrong:
        if other[0].dtype == np.dtype(">f4"):
            assert executor._prepared.whole.run(state, other) is None
            continue
        with pytest.raises(ProgramError):
            executor.run(state, other, 0)


@pytest.mark.parametrize("setting", every(6, STRANGE))
def test_sequences_compute_in_the_standard_environment(setting: Setting) -> None:
    """However the calling thread rounds, results are the same, and it rounds so afterwards."""
    captured = capture_function(recur, *draw_inputs(0))
    executor, state = Executor(captured.program), captured.initial_state
    batch = [t.numpy() for t in draw_inputs(1)]
    expected = encode(executor.run(state, batch, 0))
    with changed(setting):
        found = executor.run(state, batch, 0)
        assert read() == setting
    assert encode(found) == expected
    assert executor._prepared.whole is not None


@pytest.mark.parametrize("setting", [STANDARD, *STRANGE])
def test_a_change_of_the_environment_is_found_out(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What machine code computed after something changed the environment is not returned."""
    meddle = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_long)(lambda _: change(setting) or 0)
    save, *others = sequences._list_addresses()
    nothing = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
    addresses = (nothing, nothing, *others[1:])  # the lock is kept, so that Python may run
    monkeypatch.setattr(sequences, "_list_addresses", lambda: addresses)
    entry = ctypes.cast(meddle, ctypes.c_void_p).value or 0
    sequence = NativeSequence([Call(entry, (0,))], 0, 0)
    before = read()
    assert sequence.perform([None]) == (DONE if setting == STANDARD else UNSUITABLE)
    assert read() == before
    assert save != nothing


def test_unsuitable_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor raises, and returns nothing, where a sequence says so."""
    captured = capture_function(recur, *draw_inputs(0))
    executor, batch = Executor(captured.program), [t.numpy() for t in draw_inputs(1)]
    state = list(captured.initial_state)
    executor.run(state, batch, 0)
    monkeypatch.setattr(NativeSequence, "perform", lambda *_: UNSUITABLE)
    with pytest.raises(UnsuitableEnvironment):
        executor.run(state, batch, 0)
    with pytest.raises(UnsuitableEnvironment):
        executor.advance(state, batch, 0)
    assert state == []


def test_arrays_are_looked_at() -> None:
    """Machine code refuses arrays of another class, type, shape or layout, and other numbers."""
    one = np.arange(6, dtype=np.float32).reshape(2, 3)
    sequence = NativeSequence([], 0, 1, [Expected(one.dtype, one.shape)])
    assert sequence.perform([None, one]) == DONE
    others: list[object] = [
        [1.0], one.tolist(), one.view(np.int32), one.astype(np.float64), one.reshape(3, 2),
        one.reshape(6), one.reshape(1, 2, 3), one.T.copy().T, np.ma.masked_array(one), None,
        np.stack([one, one], -1)[..., 0], one.astype(">f4"), np.float32(1),
    ]  # fmt: skip
    assert [sequence.perform([None, other]) for other in others] == [UNFIT] * len(others)
    assert [sequence.perform([None, *more]) for more in ((), (one, one))] == [UNFIT] * 2


def test_training_in_sequences_has_the_same_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is trained for some steps has the states that it has step by step, alone."""
    captured = capture(build("mlp"), trust=True)
    joined, alone = Executor(captured.program), Executor(captured.program)
    state, expected = list(captured.initial_state), list(captured.initial_state)
    for step in range(4):
        batch = captured.batch(step)
        joined.advance(state, batch, step)
        monkeypatch.setattr(preparation, "_COLD_RUNS", 100)
        expected = alone.run(expected, batch, step)
        monkeypatch.setattr(preparation, "_COLD_RUNS", 0)
        assert encode(state) == encode(expected)


def test_backends_that_do_not_join_tasks_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequence is an ability that a backend may have: one without it runs task by task."""
    monkeypatch.setitem(table._BACKENDS, "numpy", Numpy)  # type: ignore[misc]  # a dict
    captured = capture_function(recur, *draw_inputs(0))
    batch = [t.numpy() for t in draw_inputs(1)]
    ours, theirs = Executor(captured.program), Executor(captured.program, backend="numpy")
    for _ in range(RUNS):
        found = [executor.run(captured.initial_state, batch, 0) for executor in (ours, theirs)]
        assert encode(found[0]) == encode(found[1])
    assert theirs._prepared.whole is None


def test_memory_that_is_given_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison sees tensors that overwrite each other."""
    take = calls.Memory.take

    def forget(memory: calls.Memory, size: int) -> Place:
        place = take(memory, size)
        memory._taken.clear()
        return place

    monkeypatch.setattr(calls.Memory, "take", forget)
    generator = torch.Generator().manual_seed(0)
    factors = [torch.randn(20, 20, generator=generator) for _ in range(2)]
    captured = capture_function(lambda x, y: (x @ y).exp() @ y, *factors)
    batch = [factor.numpy() for factor in factors]
    found = Executor(captured.program).run(captured.initial_state, batch, 0)
    assert encode(found) != by_definition(captured, batch)
