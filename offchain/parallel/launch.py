"""The start of data-parallel workers, each a process of its own on this machine."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from moot.offchain.backends.table import DEFAULT
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ParallelError
from moot.offchain.execution.executor import admit
from moot.offchain.parallel.blame import find_liar, read_told
from moot.offchain.parallel.exchanges import GLOO, require_exchange
from moot.offchain.parallel.partition import (
    Partition,
    count_batches,
    count_samples,
    make_cuts,
    partition,
    partition_batches,
)
from moot.offchain.parallel.worker import (
    Task,
    encode,
    name_batch,
    name_cost,
    name_state,
    name_told,
    read_tensors,
    write_tensors,
)
from moot.offchain.programs.encoding import encode_program
from moot.offchain.programs.graph import Program

WORKER = (sys.executable, "-m", "moot.offchain.parallel.worker")
_POLL_S = 0.05

Batches = Callable[[int], Sequence[Array]]
"""The number of a step -> the tensors of its batch, whole."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a shared run has cost the worker that exchanged longest.

    Attributes:
        workers: how many there were.
        exchange: the way of exchange.
        bytes: what was exchanged, each array counted once.
        seconds: the time of that, with what was waited for others.
        run_seconds: the time of all steps.
    """

    workers: int
    exchange: str
    bytes: int
    seconds: float
    run_seconds: float

    def __str__(self) -> str:
        """Return a line for people."""
        return (
            f"{self.workers} workers exchanged {self.bytes / 1e6:,.2f} MB over {self.exchange} in "
            f"{self.seconds:.2f} of {self.run_seconds:.2f} s"
        )


@dataclass
class Team:
    """Workers that share out the batches of one program.

    Attributes:
        program: the program.
        shares: how many samples of a batch each gets, or batches; 0 is a share, too.
        accumulated: how many batches a step has, if they are shared out, and not samples.
        patience_s: for how many seconds they wait for each other, and all for the next kept state.
        commands: what runs in place of some workers, by their numbers.
        exchange: how they exchange arrays: gloo, or nccl, for which each needs an NVIDIA device.
        backend: the name of what computes.
        tells: whether they write down what they compute, so that a liar can be found.
        cost: what the latest run has cost, once it is over.
    """

    program: Program
    shares: Sequence[int]
    accumulated: int = 1
    patience_s: float = 600
    commands: Mapping[int, Sequence[str]] = field(default_factory=dict)
    exchange: str = GLOO
    backend: str = DEFAULT
    tells: bool = False
    cost: Cost | None = None
    _folder: Path = Path()
    _first: int = 0

    def __post_init__(self) -> None:
        require_exchange(self.exchange, len(self.shares))
        if self.accumulated > 1:
            count = count_batches(self.program, self.accumulated)
            self.cuts = make_cuts(self.shares, count, "batches")
        else:
            self.cuts = make_cuts(self.shares, count_samples(self.program))

    @property
    def partition(self) -> Partition:
        """What each computes."""
        divide = partition_batches if self.accumulated > 1 else partition
        return divide(self.program, self.cuts)

    def run(
        self, state: Sequence[Array], batches: Batches, steps: range, keeps: Sequence[int]
    ) -> Iterator[tuple[int, bytes, list[Array]]]:
        """Yield kept states: after how many steps, the root on which all agree, and the tensors.

        Args:
            state: the tensors that they start from.
            batches: the batches.
            steps: the steps.
            keeps: the numbers of steps after which there is a state, ascending.

        Raises:
            ParallelError: a worker dies or takes too long, or two come to different states.
            ProgramError: a tensor has another type or shape than its slot.
        """
        with tempfile.TemporaryDirectory(prefix="moot-") as directory, ExitStack() as stack:
            self._folder, self._first = Path(directory), steps.start
            self._write(state, batches, steps)
            processes = [self._start(rank, steps, keeps, stack) for rank in self._ranks]
            for place, kept in enumerate(keeps):
                root = self._await_root(processes, place, kept)
                yield kept, root, read_tensors(name_state(self._folder, kept))
            _wait(self._folder, processes, self.patience_s)
            self.cost = self._read_cost()

    def find_liar(
        self, state: Sequence[Array], batch: Sequence[Array], step: int
    ) -> tuple[int, int] | None:
        """Return the worker that has lied in a step of the run that is on, and the operator."""
        place, operators = step - self._first, len(self.program.nodes)
        told = [read_told(name_told(self._folder, it), operators, place) for it in self._ranks]
        backend = self.backend
        return find_liar(self.program, self.partition, state, batch, step, told, backend)

    @property
    def _ranks(self) -> range:
        return range(len(self.shares))

    def _write(self, state: Sequence[Array], batches: Batches, steps: range) -> None:
        """Write what the workers read: each its own samples of every batch."""
        folder, program, size = self._folder, self.program, len(self.program.batch)
        (folder / "program").write_bytes(encode_program(program))
        write_tensors(folder / "state.safetensors", admit(state, program.state))
        for step in steps:
            batch = admit(batches(step), program.batch)
            for rank in self._ranks:
                first, stop = self.cuts[rank : rank + 2]
                if self.accumulated > 1:
                    each = size // self.accumulated
                    own = batch[first * each : stop * each]
                else:
                    own = [tensor[first:stop] for tensor in batch]
                write_tensors(name_batch(folder, rank, step), own)

    def _start(
        self, rank: int, steps: range, keeps: Sequence[int], stack: ExitStack
    ) -> subprocess.Popen[str]:
        """Start a worker, which ends with the stack."""
        task = Task(
            str(self._folder),
            rank,
            tuple(self.shares),
            steps.start,
            len(steps),
            self.patience_s,
            self.accumulated > 1,
            self.exchange,
            self.backend,
            tuple(keeps),
            self.tells,
        )
        return _start(self._folder, task, self.commands.get(rank) or _choose_command(rank), stack)

    def _await_root(
        self, processes: Sequence[subprocess.Popen[str]], place: int, kept: int
    ) -> bytes:
        """Return the root of a kept state, once all workers have said it."""
        deadline = time.monotonic() + self.patience_s
        while True:
            ended = [process.poll() is not None for process in processes]
            said = [_name_output(self._folder, rank).read_text().split() for rank in self._ranks]
            if all(len(roots) > place for roots in said):
                break
            _require_alive(self._folder, processes, deadline, self.patience_s)
            if all(ended):
                raise ParallelError(f"the workers ended before step {kept}")
            time.sleep(_POLL_S)
        roots = {roots[place] for roots in said}
        if len(roots) > 1:
            raise ParallelError(f"the workers came to different states by step {kept - 1}")
        return bytes.fromhex(roots.pop())

    def _read_cost(self) -> Cost:
        told = [json.loads(name_cost(self._folder, rank).read_text()) for rank in self._ranks]
        most = max(told, key=lambda it: it["seconds"])
        return Cost(len(told), self.exchange, **most)


def train(
    program: Program,
    state: Sequence[Array],
    batches: Sequence[Sequence[Array]],
    shares: Sequence[int],
    *,
    accumulated: int = 1,
    patience_s: float = 600,
    commands: Mapping[int, Sequence[str]] | None = None,
    exchange: str = GLOO,
) -> list[bytes]:
    """Train by workers that each have a part of every batch, or some of a step's batches.

    Arguments are those of a `Team`, and the tensors of each step's batch.

    Returns:
        The root of the state after each step, on which all workers agree.

    Raises:
        ParallelError: the batch cannot be shared out like this, a worker dies or takes too long, or
            two of them come to different states, or exchange over nccl where it can't be.
        UsageError: there is no such exchange.
        ProgramError: a tensor has another type or shape than its slot.
    """
    team = Team(program, shares, accumulated, patience_s, commands or {}, exchange)
    steps = range(len(batches))
    found = team.run(state, batches.__getitem__, steps, [step + 1 for step in steps])
    return [root for _, root, _ in found]


def _choose_command(rank: int) -> Sequence[str]:
    """Return the command of a worker: all have the same one."""
    del rank
    return WORKER


def _start(
    folder: Path, task: Task, command: Sequence[str], stack: ExitStack
) -> subprocess.Popen[str]:
    """Start a worker, which ends with the stack."""
    output = stack.enter_context(_name_output(folder, task.rank).open("w"))
    errors = stack.enter_context(_name_errors(folder, task.rank).open("w"))
    process = subprocess.Popen(  # noqa: S603 - our own worker, or what the caller names
        command,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=errors,
        text=True,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(encode(task))
    return process


def _wait(folder: Path, processes: Sequence[subprocess.Popen[str]], patience_s: float) -> None:
    """Wait until all workers are done; the first that fails is named."""
    deadline = time.monotonic() + patience_s
    while any(process.poll() is None for process in processes):
        _require_alive(folder, processes, deadline, patience_s)
        time.sleep(_POLL_S)
    _require_alive(folder, processes, deadline, patience_s)


def _require_alive(
    folder: Path, processes: Sequence[subprocess.Popen[str]], deadline: float, patience_s: float
) -> None:
    """Refuse to wait for workers of which one has failed, which is named, or that take too long."""
    for rank, process in enumerate(processes):
        if process.poll():
            raise ParallelError(f"worker {rank} ended: {_get_last_words(folder, rank, process)}")
    if time.monotonic() > deadline:
        raise ParallelError(f"the workers have not finished in {patience_s:.0f} s")


def _get_last_words(folder: Path, rank: int, process: subprocess.Popen[str]) -> str:
    lines = _name_errors(folder, rank).read_text().split("\n")
    *_, last = [line for line in lines if line.strip()] or [f"status {process.returncode}"]
    return last.strip()


def _name_output(folder: Path, rank: int) -> Path:
    return folder / f"roots-{rank}"


def _name_errors(folder: Path, rank: int) -> Path:
    return folder / f"errors-{rank}"
