"""The roots of whole runs, which are equal whatever else the machine does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moot.offchain.errors import StoreError
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.lazy import Lazy
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.end_to_end.fixtures import programs

STEPS = 16


def make(program: str, every: int) -> Task:
    """Capture a program for sixteen steps."""
    setting = Setting(
        program=program,
        steps=STEPS,
        checkpoint_every=every,
        seed=9,
        trust_capture=True,  # bits are compared, not the meaning
    )
    return make_task(setting)


def states(task: Task, directory: Path, threads: int | None = None) -> dict[int, str]:
    """Run a task and return the root of every checkpoint by its step."""
    run = Run(task, Behaviour(), Store(directory), threads)
    run.compute()
    return dict(zip(task.checkpoints, (root.hex() for root in run.roots), strict=True))


@pytest.mark.parametrize("program", programs(quick=frozenset({"mlp"})))
def test_threads_and_intervals_do_not_matter(program: str, tmp_path: Path) -> None:
    """State roots are the same with 1 and 2 threads, and checkpoints every 1, 4 and 16 steps."""
    every_step = states(make(program, 1), tmp_path / "a", threads=1)
    assert len(every_step) == STEPS
    assert len(set(every_step.values())) == STEPS
    for every, threads in ((1, 2), (4, 2), (16, 1)):
        found = states(make(program, every), tmp_path / f"{every}-{threads}", threads)
        assert found == {step: every_step[step] for step in found}


@pytest.mark.slow
@pytest.mark.parametrize("program", ["mlp", "gpt2"])
def test_processes_do_not_matter(program: str, tmp_path: Path) -> None:
    """Two fresh processes, with different hash seeds, come to the roots of this one."""
    code = (
        "import json, pathlib, sys; from tests.end_to_end.test_reproducibility import *; "
        "print(json.dumps(states(make(sys.argv[1], 4), pathlib.Path(sys.argv[2]))))"
    )
    here = states(make(program, 4), tmp_path / "here")
    for seed in ("1", "2"):
        done = subprocess.run(  # noqa: S603 - our own interpreter on our own code
            [sys.executable, "-c", code, program, str(tmp_path / seed)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        assert {int(step): root for step, root in json.loads(done.stdout).items()} == here


def test_a_restart_goes_on_from_the_store(tmp_path: Path) -> None:
    """A run that is killed after any step resumes from its last checkpoint, to the same roots."""
    task = make("mlp", 4)
    whole = states(task, tmp_path / "whole")

    class Killed(Exception):  # noqa: N818 - it is not an error
        pass

    for last in (1, 4, 7, 15):
        directory = tmp_path / str(last)

        def kill(done: int, last: int = last) -> None:
            if done == last:
                raise Killed

        with pytest.raises(Killed):
            Run(task, Behaviour(), Store(directory)).compute(kill)
        steps: list[int] = []
        run = Run(task, Behaviour(), Store(directory))
        run.compute(steps.append)
        assert steps[0] == last // 4 * 4 + 1
        assert [root.hex() for root in run.roots] == list(whole.values())


def test_a_store_of_another_run_is_refused(tmp_path: Path) -> None:
    """Checkpoints are never taken over from a run with another behaviour or task."""
    task = make("mlp", 4)
    Run(task, Behaviour(), Store(tmp_path)).compute()
    with pytest.raises(StoreError, match="another run"):
        Run(task, Lazy(), Store(tmp_path)).compute()
    with pytest.raises(StoreError, match="another run"):
        Run(make("mlp", 1), Behaviour(), Store(tmp_path)).compute()
