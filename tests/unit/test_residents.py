"""States that stay on a device: what crosses, what is hashed there, and what a lost one costs."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from moot.offchain.backends import table
from moot.offchain.backends.cuda.backend import Cuda
from moot.offchain.backends.cuda.emulator import Emulator, Grid
from moot.offchain.commitments.tensors import compute_tensor_root
from moot.offchain.errors import DeviceError, DeviceLost, ProgramError
from moot.offchain.execution.executor import Executor
from moot.offchain.execution.residents import Resident, fetch_all
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.capture.captured import Captured
from moot.offchain.frontend.examples import build
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.skipped_step import SkippedStep
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.quick import every

CHUNK_BYTES = 256


class Counting(Emulator):
    """An emulator that notes what crosses."""

    def __init__(self) -> None:
        super().__init__()
        self.up: list[int] = []
        self.down: list[int] = []
        self.launches = 0

    def upload(self, address: int, content: bytes) -> None:
        """Copy bytes to the device."""
        self.up.append(len(content))
        super().upload(address, content)

    def download(self, address: int, size: int) -> bytes:
        """Copy bytes from the device."""
        self.down.append(size)
        return super().download(address, size)

    def launch(self, loaded: Grid, blocks: int, parameters: Sequence[int]) -> None:
        """Run a kernel on a grid."""
        self.launches += 1
        super().launch(loaded, blocks, parameters)


class Failing(Emulator):
    """An emulator that is lost at one launch, if any, and with it all that was in its memory."""

    faults: list[int]

    def __init__(self) -> None:
        super().__init__()
        self._left = self.faults.pop(0) if self.faults else -1

    def launch(self, loaded: Grid, blocks: int, parameters: Sequence[int]) -> None:
        """Run a kernel on a grid."""
        if not self._left:
            for memory in self._memory.values():
                memory[:] = 0xEE
            raise DeviceLost("the device is gone")
        self._left -= 1
        super().launch(loaded, blocks, parameters)


@pytest.fixture
def captured() -> Captured:
    """Return a small program."""
    return capture(build("mlp"), trust=True)


def use(monkeypatch: pytest.MonkeyPatch, machine: type[Emulator]) -> list[Emulator]:
    """Let `cuda-emulator` be this machine, and return those that are made."""
    made: list[Emulator] = []

    def make() -> Cuda:
        made.append(machine())
        return Cuda(made[-1])

    monkeypatch.setitem(table._BACKENDS, "cuda-emulator", make)
    return made


def test_a_state_crosses_once(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state goes to the device at the start; to hash it there brings back digests only."""
    made = use(monkeypatch, Counting)
    ours = Executor(captured.program)
    theirs = Executor(captured.program, backend="cuda-emulator")
    (machine,) = made
    assert isinstance(machine, Counting)
    expected = list(captured.initial_state)
    state: list[Any] = list(expected)
    sizes = [array.nbytes for array in state]
    assert max(sizes) > CHUNK_BYTES
    for step in range(3):
        batch = captured.batch(step)
        machine.up.clear()
        machine.down.clear()
        theirs.advance(state, batch, step)
        expected = ours.run(expected, batch, step)
        crossing = sum(array.nbytes for array in batch) + (0 if step else sum(sizes))
        assert sum(machine.up) == crossing
        assert sum(machine.down) == 0
        assert all(isinstance(tensor, Resident) for tensor in state)
        roots = [tensor.root for tensor in state]
        assert roots == [compute_tensor_root(array) for array in expected]
        assert max(machine.down) < CHUNK_BYTES
    for tensor, array in zip(state, expected, strict=True):
        assert (tensor.shape, tensor.dtype) == (array.shape, array.dtype)
        assert np.asarray(tensor).tobytes() == array.tobytes()
        assert np.asarray(tensor, np.float64).dtype == np.float64


def test_what_stays_on_a_device_is_given_to_any_step(captured: Captured) -> None:
    """`run` and `outputs` take what `advance` has left, and return arrays."""
    ours = Executor(captured.program)
    theirs = Executor(captured.program, backend="cuda-emulator")
    expected = ours.run(captured.initial_state, captured.batch(0), 0)
    state = list(captured.initial_state)
    theirs.advance(state, captured.batch(0), 0)
    following = theirs.run(state, captured.batch(1), 1)
    right = ours.run(expected, captured.batch(1), 1)
    assert [x.tobytes() for x in following] == [x.tobytes() for x in right]
    sink = captured.program.first_sink
    (found,) = theirs.outputs(state, captured.batch(1), 1, [sink]).values()
    assert found.tobytes() == right[0].tobytes()
    ours.advance(expected, captured.batch(1), 1)
    assert all(isinstance(array, np.ndarray) for array in expected)


def test_tensors_of_another_device_are_refused(captured: Captured) -> None:
    """What is in one executor's memory is given to no other, and shapes are checked as ever."""
    first, second = (Executor(captured.program, backend="cuda-emulator") for _ in range(2))
    state = list(captured.initial_state)
    first.advance(state, captured.batch(0), 0)
    for other in (second, Executor(captured.program)):
        with pytest.raises(DeviceError, match=r"another device's memory.*; fetch\(\) it"):
            other.run(state, captured.batch(1), 1)
    second.run(fetch_all(state), captured.batch(1), 1)
    shape = state[0].shape
    k = next(k for k, tensor in enumerate(state) if tensor.shape != shape)
    state[0] = state[k]
    with pytest.raises(ProgramError, match="but the tensor given for it is"):
        first.run(state, captured.batch(1), 1)


def make_task(captured: Captured) -> Task:
    """Return a task of some steps, with checkpoints between."""
    return Task(captured.program, captured.initial_state, captured.batch, 5, 2)


def test_a_provider_s_run_fetches_what_it_keeps(
    captured: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """States come back at checkpoints only, and all roots and openings are the processor's."""
    made = use(monkeypatch, Counting)
    task = make_task(captured)
    ours = Run(task, Behaviour(), Store(tmp_path / "ours"))
    theirs = Run(task, Behaviour(), Store(tmp_path / "theirs"), backend="cuda-emulator")
    ours.compute()
    theirs.compute()
    assert list(theirs.roots) == list(ours.roots)
    sizes = sum(array.nbytes for array in task.initial_state)
    machine = made[0]
    assert isinstance(machine, Counting)
    large = sum(size for size in machine.down if size >= CHUNK_BYTES)
    assert large <= 3 * sizes
    assert theirs.interval(2).top == ours.interval(2).top
    assert theirs.trace(3).top == ours.trace(3).top
    assert theirs.state_tree(4).top == ours.state_tree(4).top


def test_a_dishonest_run_on_a_device_is_the_processor_s(captured: Captured, tmp_path: Path) -> None:
    """A behaviour that changes states sees arrays, and leads to the same claims."""
    task = make_task(captured)
    runs = [
        Run(task, SkippedStep(1), Store(tmp_path / name), backend=name)
        for name in ("cpu", "cuda-emulator")
    ]
    for run in runs:
        run.compute()
    assert list(runs[0].roots) == list(runs[1].roots)


def count_launches(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return how many kernels a step launches, and the hash of a state."""
    made = use(monkeypatch, Counting)
    executor = Executor(captured.program, backend="cuda-emulator")
    state: list[Any] = list(captured.initial_state)
    executor.advance(state, captured.batch(0), 0)
    assert isinstance(made[0], Counting)
    step = made[0].launches
    for tensor in state:
        assert tensor.root
    return step, made[0].launches - step


@pytest.mark.parametrize("seed", every(8, range(4)))
def test_a_lost_device_costs_the_steps_since_a_checkpoint(
    seed: int, captured: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run goes on from its last checkpoint, on a device made anew, and comes to the same."""
    rng = Random(seed)
    step, hashing = count_launches(captured, monkeypatch)
    interval = 2 * step + hashing  # later steps have fewer launches, as more is fused
    Failing.faults = [rng.randrange(interval + step), interval + rng.randrange(step)]
    made = use(monkeypatch, Failing)
    task = make_task(captured)
    ours = Run(task, Behaviour(), Store(tmp_path / "ours"))
    theirs = Run(task, Behaviour(), Store(tmp_path / "theirs"), backend="cuda-emulator")
    ours.compute()
    done: list[int] = []
    theirs.compute(done.append)
    assert list(theirs.roots) == list(ours.roots)
    assert len(made) == 3
    assert done[-1] == task.steps
    assert all(after == before + 1 or after % 2 for before, after in pairwise(done))


def test_a_device_that_is_lost_again_and_again_ends_the_run(
    captured: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a checkpoint between two losses, the run ends, and can be begun again."""
    Failing.faults = [0, 0]
    use(monkeypatch, Failing)
    run = Run(make_task(captured), Behaviour(), Store(tmp_path), backend="cuda-emulator")
    with pytest.raises(DeviceLost):
        run.compute()
    again = Run(make_task(captured), Behaviour(), Store(tmp_path), backend="cuda-emulator")
    again.compute()
    assert len(again.roots) == 3
