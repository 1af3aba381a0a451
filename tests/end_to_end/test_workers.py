"""Runs that several processes share out: the same roots, told costs, and a liar that is named."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ParallelError
from moot.offchain.parallel import launch
from moot.offchain.parallel.blame import digest, find_liar
from moot.offchain.parallel.execution import ParallelExecutor
from moot.offchain.parallel.partition import Share, partition
from moot.offchain.providers.agreement import make_task
from moot.offchain.providers.audit import Audit
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.run import Run
from moot.offchain.providers.setting import Setting
from moot.offchain.providers.store import Store
from moot.offchain.providers.task import Task
from tests.end_to_end.command import complaint, moot
from tests.end_to_end.test_parallel import write_worker
from tests.property.test_parallel_programs import Meeting, run_threads

TINY = ("--program", "mlp", "--steps", "2", "--checkpoint-every", "1", "--trust-capture")
SETTING = Setting(program="mlp", steps=2, checkpoint_every=1, trust_capture=True)
LIE = """
from moot.offchain.parallel import execution
compute = execution.ParallelExecutor.compute_part
def lie(self, index, tensors, step):
    own = compute(self, index, tensors, step)
    if (index, step) == ({operator}, 1):
        own = own.copy()
        own.reshape(-1).view("u1")[2] ^= 1
    return own
execution.ParallelExecutor.compute_part = lie
"""


def run_by(task: Task, folder: Path, workers: int, backend: str = "cpu") -> Run:
    """Run a task by so many processes, and audit all of its steps."""
    run = Run(task, Behaviour(), Store(folder), backend=backend, workers=workers)
    run.compute(audit=lambda program, steps: Audit(program, steps, draws=len(steps)))
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arithmetic", "workers", "backend"),
    [("exact", 2, "cpu"), ("ordered", 3, "cpu"), ("exact", 2, "cuda-emulator")],
)
def test_workers_come_to_the_root_of_one_process(
    tmp_path: Path, arithmetic: str, workers: int, backend: str
) -> None:
    """However many share a run out, and whatever computes, all checkpoints have the same roots."""
    task = make_task(replace(SETTING, arithmetic=arithmetic))
    alone, shared = run_by(task, tmp_path / "1", 1), run_by(task, tmp_path / "n", workers, backend)
    assert shared.roots == alone.roots
    assert alone.shared is None
    cost = shared.shared
    assert cost is not None
    assert cost.workers == workers
    assert cost.bytes > 0
    assert 0 < cost.seconds < cost.run_seconds


@pytest.mark.slow
def test_a_dispute_is_shared_out() -> None:
    """The honest run is shared out, the liar loses, and what the exchange has cost is printed."""
    done = moot("dispute", *TINY, "--workers", "2")
    assert done.status == 0, done.stderr
    assert "honest-1: 2 workers exchanged" in done.stdout


@pytest.mark.slow
def test_a_worker_that_lies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audited run is not claimed: the error names the worker and what it has computed wrong."""
    task = make_task(replace(SETTING, arithmetic="exact"))
    parts = partition(task.program, (0, 2, 4)).parts
    operator = next(index for index, part in enumerate(parts) if part.share is Share.FOLD)
    liar = write_worker(tmp_path / "liar.py", LIE.format(operator=operator))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(launch, "_choose_command", lambda rank: liar if rank else launch.WORKER)
    name = task.program.names[operator]
    with pytest.raises(ParallelError, match=f"worker 1 has computed operator {name} of step 1"):
        run_by(task, tmp_path / "run", 2)


@pytest.mark.parametrize("arithmetic", [ORDERED, EXACT], ids=lambda each: each.name)
def test_the_first_part_that_is_wrong_is_the_liar_s(arithmetic: Arithmetic) -> None:
    """Of each kind of share one lie is found, though all that comes after it is wrong, too."""
    task = make_task(replace(SETTING, arithmetic=arithmetic.name))
    program, state, batch = task.program, task.initial_state, task.batch(0)
    cuts = (0, 1, 4)
    shares = partition(program, cuts)
    assert find_liar(program, shares, state, batch, 0, tell(task, cuts, None)) is None
    for share in {part.share for part in shares.parts}:
        chosen = [
            index
            for index, part in enumerate(shares.parts)
            if part.share is share and program.nodes[index].elements
        ]
        lie = chosen[len(chosen) // 2]
        assert find_liar(program, shares, state, batch, 0, tell(task, cuts, lie)) == (1, lie)


def tell(task: Task, cuts: tuple[int, ...], lie: int | None) -> list[list[bytes]]:
    """Return what workers tell of the first step, of which the second may lie about an operator."""
    shares, meeting = partition(task.program, cuts), Meeting(len(cuts) - 1)
    told: list[list[bytes]] = [[] for _ in cuts[1:]]

    def run(rank: int) -> list[Array]:
        def note(part: Array | None) -> None:
            if part is not None and rank == 1 and len(told[rank]) == lie:
                part.reshape(-1).view(np.uint8)[0] ^= 1
            told[rank].append(digest(part))

        executor = ParallelExecutor(task.program, shares, rank, meeting.join(rank), tell=note)
        own = [tensor[cuts[rank] : cuts[rank + 1]] for tensor in task.batch(0)]
        return executor.run([tensor.copy() for tensor in task.initial_state], own, 0)

    run_threads(meeting, len(cuts) - 1, run)
    return told


@pytest.mark.parametrize(
    ("workers", "more", "says"),
    [
        ("5", (), "the batch has 4 samples, which 5 workers can't share; choose from 1 to 4"),
        ("2", ("--arithmetic", "logged"), "choose 1 worker, or another arithmetic"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(
    workers: str, more: tuple[str, ...], says: str
) -> None:
    """More workers than samples, and logs of roundings, are refused in one line that says so."""
    done = moot("dispute", *TINY, *more, "--workers", workers)
    assert says in complaint(done, status=2)


@pytest.mark.slow
@pytest.mark.parametrize("started", [2, 3])
def test_workers_that_torchrun_has_started_share_a_run_out(tmp_path: Path, started: int) -> None:
    """They wait at a folder for a run, and come to its root; another number of them is refused."""
    task = make_task(replace(SETTING, arithmetic="exact"))
    hosts = tmp_path / "hosts"
    hosts.mkdir()
    count, module = str(started), "moot.offchain.parallel.worker"
    words = ("--standalone", "--nproc-per-node", count, "-m", module, str(hosts))
    waiting = subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, "-m", "torch.distributed.run", *words],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    try:
        run = Run(task, Behaviour(), Store(tmp_path / "run"), workers=2, hosts=hosts)
        if started != 2:
            with pytest.raises(ParallelError, match="torchrun has started 3 workers, and the run"):
                run.compute()
            return
        run.compute()
        assert run.roots == run_by(task, tmp_path / "alone", 1).roots
        assert waiting.wait(60) == 0
        assert not [*hosts.iterdir()]
    finally:
        waiting.kill()
        waiting.wait()
