"""A provider's audit of its own run finds what no check of the first step can see."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.backends.cpu import selections
from moot.offchain.backends.cpu.kernels.largest import find_largest
from moot.offchain.commitments.tensors import Array
from moot.offchain.datastore.store import open_store
from moot.offchain.disputes.joining.job_check import _check_leaves, check_drawn_steps
from moot.offchain.disputes.referee.terms import make_terms
from moot.offchain.errors import WrongComputation
from moot.offchain.execution.preparation import Preparation
from moot.offchain.parties.computing import CLAIM, UnwantedJob, compute
from moot.offchain.parties.policy import Policy
from moot.offchain.parties.settings import Settings
from moot.offchain.parties.workshop import Checks
from moot.offchain.planning.selections import Selection
from moot.offchain.programs.graph import Program
from moot.offchain.providers.agreement import make_task as capture_task
from moot.offchain.providers.audit import STEPS_A_DRAW, Audit
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.publication import put_task
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.fuzz.rounds import draw_rounds_program
from tests.sim_helpers import make_task

STEPS = 6


def make_late_task() -> Task:
    """Return a task whose program finds largest elements by one pass from its second step on."""
    for number in range(100):
        program = draw_rounds_program(Random(number))
        units = [task.unit for task in Preparation(program).schedule()]
        if program.state[0].shape[-1:] == (3,) and any(isinstance(it, Selection) for it in units):
            break
    names = [slot.name for slot in program.state]
    state: list[Array] = [np.zeros(slot.shape, np.int64) for slot in program.state]
    state[0] = np.arange(state[0].size, dtype=np.float32).reshape(state[0].shape)
    state[names.index("later")] = np.arange(3)
    return Task(program, state, lambda _: [], steps=STEPS, checkpoint_every=STEPS)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel of the largest elements return those of another round."""

    def find_others(x: Any, count: int) -> Any:
        return np.roll(find_largest(x, count), 1, axis=0)

    monkeypatch.setattr(selections, "find_largest", find_others)


def draw_all(program: Program, steps: range) -> Audit:
    """Return the audit of all steps."""
    return Audit(program, steps, draws=len(steps), seed=0)


@pytest.mark.usefixtures("broken")
def test_a_path_that_opens_late_is_found(tmp_path: Path) -> None:
    """Leaves of the first step are right; the audit names what differs, where, and both values."""
    task = make_late_task()
    run = Run(task, Behaviour(), Store(tmp_path / "first"))
    run.compute()
    assert _check_leaves(run).problem is None
    with pytest.raises(WrongComputation, match=r"operator \d+, 'n\d+', step 1, element 0: comp"):
        Run(task, Behaviour(), Store(tmp_path / "second")).compute(audit=draw_all)
    found = check_drawn_steps(Run(task, Behaviour(), Store(tmp_path / "third")))
    assert found.problem is not None
    assert "step" in found.problem


@pytest.mark.usefixtures("broken")
def test_a_job_whose_run_differs_is_never_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The party says so once, and refuses the job for good: also when it begins anew."""
    monkeypatch.setattr("moot.offchain.parties.computing.Audit", draw_all)
    task, own, told = make_late_task(), Store(tmp_path / "own"), list[str]()
    job: Any = SimpleNamespace(terms=make_terms(task))
    put_task(open_store(str(tmp_path / "origin")), task)
    folder: Any = SimpleNamespace(
        open_job=lambda *_: own, open_results=lambda: Store(tmp_path / "results")
    )
    context: Any = SimpleNamespace(
        settings=Settings(store=str(tmp_path / "origin")),
        find_job=lambda _: job,
        tell=lambda event, *_, **__: told.append(event),
    )
    for _ in range(2):
        with pytest.raises(UnwantedJob, match="is not what is defined: operator"):
            compute(context, Policy(), 0, folder, Checks.NONE)
    assert told == ["running", "differs", "running"]
    assert own.get_json(CLAIM) is None


def list_tasks() -> Iterator[Task]:
    """Yield tasks of all arithmetics; that of `logged` has logs."""
    yield make_task()
    task = make_task()
    yield replace(task, program=replace(task.program, arithmetic=EXACT))
    yield capture_task(Setting(program="mlp", steps=2, checkpoint_every=2, arithmetic=LOGGED.name))


def test_honest_runs_pass(tmp_path: Path) -> None:
    """Runs that are audited in every step end with the same roots, in all arithmetics."""
    for number, task in enumerate(list_tasks()):
        runs = [Run(task, Behaviour(), Store(tmp_path / f"{number}-{i}")) for i in range(2)]
        runs[0].compute()
        runs[1].compute(audit=draw_all)
        assert runs[0].roots == runs[1].roots


def test_draws_are_few_and_nobody_knows_them() -> None:
    """One step in 200 is drawn, at least one; by default not the same ones twice."""
    program = make_late_task().program
    for steps, draws in ((0, 0), (1, 1), (50, 1), (10 * STEPS_A_DRAW, 10)):
        drawn = Audit(program, range(7, 7 + steps)).drawn
        assert len(drawn) == draws
        assert drawn <= set(range(7, 7 + steps))
    audits = [Audit(program, range(10**6)) for _ in range(2)]
    assert audits[0].drawn != audits[1].drawn
    seeded = [Audit(program, range(10**6), seed=3).drawn for _ in range(2)]
    assert seeded[0] == seeded[1]


def test_elements_cost_their_share() -> None:
    """What the definition computes of a step is bounded by the run's own work, long folds, too."""
    task = capture_task(Setting(program="mlp", steps=4, checkpoint_every=2))
    nodes = task.program.nodes
    for steps, draws in ((10**6, 5_000), (2 * 10**6, 10_000)):
        audit = Audit(task.program, range(steps), seed=1)
        assert len(audit.drawn) == draws
        elements = audit.begin(0, task.initial_state, task.batch(0))._drawn
        links = sum(nodes[i].fold_length if nodes[i].kind.folds else 1 for i in elements)
        most = max(node.fold_length for node in nodes)
        assert 0 < len(elements) <= links <= 8 * most + audit._budget // (1 << 20)
