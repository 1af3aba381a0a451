"""A provider's run: the tensors that it hashes, and that hashing fewer changes no root."""

import shutil
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from moot.offchain.commitments.tensors import (
    Array,
    TensorCommitment,
    commit_tensors,
    compute_state_root,
    compute_tensor_root,
)
from moot.offchain.datastore import store as store_module
from moot.offchain.datastore.disk import RESERVED_BYTES, RESERVED_PART
from moot.offchain.errors import StoreError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import TrainingRecipe
from moot.offchain.planning.order import find_storages
from moot.offchain.programs.graph import Origin
from moot.offchain.providers import roots as roots_module
from moot.offchain.providers import run as run_module
from moot.offchain.providers.behaviour import Behaviour, Patch
from moot.offchain.providers.cheats.poisoned_batch import PoisonedBatch
from moot.offchain.providers.cheats.skipped_step import SkippedStep
from moot.offchain.providers.cheats.stale_optimizer import StaleOptimizer
from moot.offchain.providers.cheats.wrong_start import WrongStart
from moot.offchain.providers.recent import Recent
from moot.offchain.providers.run import Run
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.quick import every, only
from tests.sim_helpers import make_task as make_small_task

STEPS = 4
FROZEN = "parameter.0.weight"


def make_task(checkpoint_every: int = 1) -> Task:
    """Return a task whose first layer is frozen."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    model[0].requires_grad_(requires_grad=False)
    generator = torch.Generator().manual_seed(1)
    batch = (torch.randn(5, 3, generator=generator),)
    recipe = TrainingRecipe(
        model, lambda model, x: model(x).square().mean(), SGD(0.1), lambda _: batch
    )
    captured = capture(recipe, trust=True)  # about runs
    return Task(captured.program, captured.initial_state, captured.batch, STEPS, checkpoint_every)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors that are hashed by the run, as it goes on."""
    shapes: list[tuple[int, ...]] = []

    def note(arrays: Sequence[Array]) -> list[TensorCommitment]:
        shapes.extend(array.shape for array in arrays)
        return commit_tensors(arrays)

    for module in (roots_module, run_module):
        monkeypatch.setattr(module, "commit_tensors", note)
    return shapes


def compute_roots(task: Task, alter: Callable[[int, list[Array]], None]) -> list[bytes]:
    """Return the roots of all states by hashing everything, of a run that alters its states."""
    executor = Executor(task.program)
    state: Sequence[Array] = task.initial_state
    roots = [compute_state_root([compute_tensor_root(array) for array in state])]
    for step in range(STEPS):
        started = list(state)
        alter(step, started)
        state = executor.run(started, task.batch(step), step)
        roots.append(compute_state_root([compute_tensor_root(array) for array in state]))
    return roots


def test_what_is_frozen_is_hashed_once(
    tmp_path: Path, hashed: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen parameter is hashed with the task only, a trained one always; roots are right.

    The store, which keeps what the roots are made of, hashes nothing again.
    """
    monkeypatch.setattr(store_module, "commit_tensor", None)
    monkeypatch.setattr(store_module, "commit_tensors", None)
    task = make_task()
    run = Run(task, Behaviour(), Store(tmp_path))
    run.compute()
    assert hashed.count((4, 3)) == 0
    assert hashed.count((2, 4)) == STEPS
    assert list(run.roots) == compute_roots(task, lambda _, __: None)[1:]


@pytest.mark.parametrize(("every", "checkpoints"), [(1, (1, 2, 3, 4)), (3, (3, 4)), (4, (4,))])
def test_a_run_claims_and_keeps_what_follows_its_start(
    tmp_path: Path, every: int, checkpoints: tuple[int, ...]
) -> None:
    """A claim has a root for each interval, that of the state after it; the start is the task's."""
    task = make_task(every)
    store = Store(tmp_path)
    Run(task, Behaviour(), store).compute()
    resumed = Run(task, Behaviour(), store)
    resumed.compute()
    roots = compute_roots(task, lambda _, __: None)
    assert task.checkpoints == checkpoints
    assert list(resumed.roots) == [roots[done] for done in checkpoints]
    assert resumed.history.count == len(checkpoints)
    for step, root in enumerate(roots):
        assert compute_state_root([compute_tensor_root(a) for a in resumed.state(step)]) == root
    assert not store.has_state(task.start_root)
    assert all(store.has_state(roots[done]) for done in checkpoints)


def test_a_resumed_run_hashes_what_is_frozen_again(
    tmp_path: Path, hashed: list[tuple[int, ...]]
) -> None:
    """Whoever goes on from a checkpoint does not know that the start's roots are still right."""
    behaviour = Thaw(slot=[s.name for s in make_task().program.state].index(FROZEN))
    task = make_task()

    def stop(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Run(task, behaviour, Store(tmp_path)).compute(stop)
    hashed.clear()
    run = Run(task, behaviour, Store(tmp_path))
    run.compute()
    assert hashed.count((4, 3)) == 1
    whole = Run(task, behaviour, Store(tmp_path / "whole"))
    whole.compute()
    assert list(run.roots) == list(whole.roots)


def test_checkpoints_that_do_not_fit_are_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What will be kept is counted first: what is frozen once, and what a resumed run has not."""
    task, store, steps = make_task(), Store(tmp_path), list[int]()
    sizes = {slot.name: 4 * slot.elements for slot in task.program.state}
    whole, frozen = sum(sizes.values()), sizes[FROZEN]
    frozen += sum(size for name, size in sizes.items() if name == "parameter.0.bias")

    def leave(free: int) -> None:
        usage = shutil.disk_usage(tmp_path)
        reserved = min(RESERVED_BYTES, usage.total // RESERVED_PART)
        usage = usage._replace(free=free + reserved)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    def stop(done: int) -> None:
        steps.append(done)
        if done == 2:
            raise KeyboardInterrupt

    leave(STEPS * whole - (STEPS - 1) * frozen - 1)
    with pytest.raises(StoreError, match=r"4 checkpoints take .* are free at .*keep fewer"):
        Run(task, Behaviour(), store).compute(stop)
    assert not steps
    leave(STEPS * whole - (STEPS - 1) * frozen)
    with pytest.raises(KeyboardInterrupt):
        Run(task, Behaviour(), store).compute(stop)
    leave(2 * whole - frozen)
    Run(task, Behaviour(), store).compute(steps.append)
    assert steps == [1, 2, 3, 4]


def test_a_full_disk_stops_the_run_that_it_holds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong while a state is written, as steps go on, is told; the rest is kept."""
    task, store = make_task(), Store(tmp_path)
    put, counted = store.put_state, []

    def fail(*state: Sequence[Array]) -> bytes:
        counted.append(len(counted))
        if len(counted) == 3:
            raise StoreError("there is no room")
        return put(*state)

    monkeypatch.setattr(store, "put_state", fail)
    with pytest.raises(StoreError, match="no room"):
        Run(task, Behaviour(), store).compute()
    assert len(counted) == 3
    monkeypatch.undo()
    done: list[int] = []
    run = Run(task, Behaviour(), store)
    run.compute(done.append)
    assert done == [3, 4]
    assert list(run.roots) == compute_roots(task, lambda _, __: None)[1:]


def test_a_last_state_that_is_not_waited_for_is_there_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may end while its last state is written: who reads it waits, and hears of failures."""
    task, store = make_task(STEPS), Store(tmp_path / "store")
    put, is_free, is_full = store.put_state, threading.Event(), False

    def wait(*state: Sequence[Array]) -> bytes:
        is_free.wait(10)
        if is_full:
            raise StoreError("there is no room")
        return put(*state)

    monkeypatch.setattr(store, "put_state", wait)
    run = Run(task, Behaviour(), store)
    run.compute(waits=False)
    root = run.roots[-1]
    assert not store.has_state(root)
    threading.Timer(0.1, is_free.set).start()
    assert compute_state_root([*map(compute_tensor_root, run.state(STEPS))]) == root
    assert store.has_state(root)
    is_full = True
    shutil.rmtree(store.path / "notes")
    (store.path / "notes").mkdir()
    run = Run(task, Behaviour(), store)
    run.compute(waits=False)
    with pytest.raises(StoreError, match="no room"):
        run.settle()


def test_an_interval_hashes_what_is_frozen_once(
    tmp_path: Path, hashed: list[tuple[int, ...]]
) -> None:
    """The tree over an interval has the root after each of its steps, and hashes as little."""
    task = make_task(STEPS)
    run = Run(task, Behaviour(), Store(tmp_path))
    run.compute()
    hashed.clear()
    tree = run.interval(0)
    found = [tree.node(0, index) for index in range(tree.count)]
    assert hashed.count((4, 3)) == 0
    assert hashed.count((2, 4)) == STEPS
    assert found == compute_roots(task, lambda _, __: None)[1:]


class Thaw(Behaviour):
    """Writes to the frozen parameter before one step."""

    name = "thaw"

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def alter_state(self, step: int, state: Sequence[Array]) -> Sequence[Array]:
        """Return a state with another frozen parameter at one step, the same state at others."""
        if step != 1:
            return state
        started = list(state)
        started[self.slot] = np.add(started[self.slot], np.float32(1))
        return started


class Forge(Thaw):
    """Makes the sink of the frozen parameter return another tensor at one step."""

    name = "forge"

    def alter_state(self, step: int, state: Sequence[Array]) -> Sequence[Array]:
        """Return the state as it is."""
        del step
        return state

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Return what adds one to the sink's output."""
        del state
        sink = self.first_sink + self.slot

        return {sink: lambda output: np.add(output, np.float32(1))} if step == 1 else None

    first_sink = 0


@pytest.mark.parametrize("kind", [Thaw, Forge])
def test_a_frozen_parameter_that_changes_is_hashed_again(tmp_path: Path, kind: type[Thaw]) -> None:
    """When a step is not the program's, nothing is taken for unchanged."""
    task = make_task()
    slot = [s.name for s in task.program.state].index(FROZEN)
    behaviour = kind(slot)
    if isinstance(behaviour, Forge):
        behaviour.first_sink = task.program.first_sink
    run = Run(task, behaviour, Store(tmp_path))
    run.compute()
    states = [run.state(step) for step in range(STEPS + 1)]
    wanted = [compute_state_root([compute_tensor_root(a) for a in state]) for state in states]
    assert list(run.roots) == wanted[1:]
    assert not np.array_equal(states[1][slot], states[2][slot])
    coarse = Run(make_task(STEPS), behaviour, Store(tmp_path / "coarse"))
    coarse.compute()
    tree = coarse.interval(0)
    assert [tree.node(0, index) for index in range(tree.count)] == wanted[1:]


class Tamper(Behaviour):
    """Flips the first bit of one operator's output."""

    def __init__(self, operator: int) -> None:
        self.operator = operator

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Return what replaces outputs."""
        del step, state

        def tamper(output: Array) -> Array:
            changed = output.copy()
            changed.reshape(-1).view(np.uint8)[:1] ^= 1
            return changed

        return {self.operator: tamper}


@pytest.mark.slow
def test_a_trace_is_of_all_outputs_whoever_shares_their_elements(tmp_path: Path) -> None:
    """Outputs that are only named anew are hashed once, and replaced ones for themselves."""
    task = make_task()
    nodes = task.program.nodes
    assert len(set(find_storages(task.program))) < len(nodes)
    others = [
        WrongStart(slot=0, element=0, bit=1),
        PoisonedBatch(step=0, slot=0, element=0, bit=1),
    ]
    for number, behaviour in enumerate([*map(Tamper, range(-1, len(nodes))), *others]):
        run = Run(task, behaviour, Store(tmp_path / str(number)))
        run.compute()
        for step in (0, STEPS - 1):
            found: dict[int, bytes] = {}
            started = behaviour.alter_state(step, run.state(step))
            Executor(task.program).run(
                started,
                behaviour.alter_batch(step, task.batch(step)),
                step,
                lambda i, output, found=found: found.update({i: compute_tensor_root(output)}),
                behaviour.patch(step, started),
            )
            leaves = [found[index] for index in range(len(nodes))]
            leaves.append(compute_state_root(leaves[task.program.first_sink :]))
            assert [run.trace(step).node(0, i) for i in range(len(leaves))] == leaves


@pytest.mark.parametrize(
    "behaviour",
    every(
        6,
        [
            Behaviour(),
            Tamper(5),
            WrongStart(slot=0, element=0, bit=1),
            SkippedStep(step=1),
            StaleOptimizer(step=1),
            PoisonedBatch(step=1, slot=0, element=0, bit=1),
        ],
    ),
    ids=lambda behaviour: behaviour.name,
)
@pytest.mark.parametrize("every", only({4}, [1, 4]))
def test_state_trees_are_of_the_states(tmp_path: Path, behaviour: Behaviour, every: int) -> None:
    """What was hashed for a claim, an interval or a trace is the state that is asked for later."""
    run = Run(make_task(every), behaviour, Store(tmp_path))
    run.compute()
    run.interval(0)
    for step in (1, 0, 3, 2):
        run.trace(step)
        for place in (step + 1, step):
            tree = run.state_tree(place)
            roots = [compute_tensor_root(array) for array in run.state(place)]
            assert [tree.node(0, i) for i in range(len(roots))] == roots


def test_one_execution_answers_for_an_operator_and_what_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output, and each tensor that it reads, are those of a step that is run for each alone."""
    task = make_task()
    run = Run(task, Behaviour(), Store(tmp_path))
    run.compute()
    executor = Executor(task.program)
    counted: list[Sequence[int]] = []
    alone = Executor.outputs
    for (index, node), step in product(enumerate(task.program.nodes), (1, 2)):
        wanted = [index, *node.inputs]
        told = alone(executor, run.state(step), task.batch(step), step, wanted)
        with monkeypatch.context() as patch:
            patch.setattr(
                Executor, "outputs", lambda *args: counted.append(args[4]) or alone(*args)
            )
            output = run.tensor(step, Origin.NODE, index).root
            operands = run.operands(step, index)
            inputs = [run.tensor(step, Origin.NODE, i).root for i in node.inputs]
        assert output == compute_tensor_root(told[index])
        for operand, found in zip(node.operands, operands, strict=True):
            if operand.origin is Origin.NODE:
                assert found is not None
                np.testing.assert_array_equal(found, told[operand.reference])
        for i, root in zip(node.inputs, inputs, strict=True):
            assert root == compute_tensor_root(told[i])
    assert len(counted) <= 2 * len(task.program.nodes)


def test_what_many_matches_ask_for_is_made_once(tmp_path: Path) -> None:
    """A crowd that disputes another step in each match costs each step's trees but once."""
    steps = 24
    run = Run(make_small_task(steps, 2), Behaviour(), Store(tmp_path))
    run.compute()
    asked = [
        lambda step: run.interval(step // 2 * 2),
        run.trace,
        run.state_tree,
        lambda step: run.tensor(step, Origin.NODE, 1),
    ]
    first = [[ask(step) for step in range(steps)] for ask in asked]
    del run._executor  # which nothing needs any more
    assert [[ask(step) for step in range(steps)] for ask in asked] == first


def test_what_is_remembered_is_bounded() -> None:
    """The values that were asked for last stay, as far as their size allows, and one at least."""
    made: list[int] = []

    def make(value: int) -> int:
        made.append(value)
        return value

    recent = Recent[int](10, lambda value: value)
    for value in (4, 5, 4, 3, 4, 5, 100, 100, 4):
        assert recent.get(value, partial(make, value)) == value
    assert made == [4, 5, 3, 5, 100, 4]
