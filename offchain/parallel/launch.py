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
from moot.offchain.children import get_last_words
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ParallelError
from moot.offchain.execution.executor import admit
from moot.offchain.files import replacing
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
    name_errors,
    name_output,
    name_state,
    name_task,
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
        hosts: a folder in which workers wait that torchrun has started, maybe on several hosts;
            without one they are processes here.
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
    hosts: Path | None = None
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
        with (
            tempfile.TemporaryDirectory(prefix="moot-", dir=self.hosts) as directory,
            ExitStack() as stack,
        ):
            self._folder, self._first = Path(directory), steps.start
            self._write(state, batches, steps)
            started = [self._start(rank, steps, keeps, stack) for rank in self._ranks]
            processes = [process for process in started if process is not None]
            for place, kept in enumerate(keeps):
                root = self._await_root(processes, place, kept)
                yield kept, root, read_tensors(name_state(self._folder, kept))
            self._await_end(processes)
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
    ) -> subprocess.Popen[str] | None:
        """Start a worker, which ends with the stack, or give its task to one that waits."""
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
        if self.hosts is not None:
            path = name_task(self.hosts, rank)
            stack.callback(path.unlink, missing_ok=True)
            with replacing(path) as draft:
                draft.write_text(encode(task))
            return None
        return _start(self._folder, task, self.commands.get(rank) or _choose_command(rank), stack)

    def _await_root(
        self, processes: Sequence[subprocess.Popen[str]], place: int, kept: int
    ) -> bytes:
        """Return the root of a kept state, once all workers have said it."""
        deadline = time.monotonic() + self.patience_s
        while True:
            ended = [process.poll() is not None for process in processes]
            said = [self._read_roots(rank) for rank in self._ranks]
            if all(len(roots) > place for roots in said):
                break
            self._require_alive(processes, deadline)
            if ended and all(ended):
                raise ParallelError(f"the workers ended before step {kept}")
            time.sleep(_POLL_S)
        roots = {roots[place] for roots in said}
        if len(roots) > 1:
            raise ParallelError(f"the workers came to different states by step {kept - 1}")
        return bytes.fromhex(roots.pop())

    def _read_roots(self, rank: int) -> list[str]:
        path = name_output(self._folder, rank)
        return path.read_text().split() if path.exists() else []

    def _await_end(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        """Wait until all workers are done; the first that fails is named."""
        deadline = time.monotonic() + self.patience_s
        costs = [name_cost(self._folder, rank) for rank in self._ranks]
        while any(process.poll() is None for process in processes) or (
            self.hosts is not None and not all(path.exists() for path in costs)
        ):
            self._require_alive(processes, deadline)
            time.sleep(_POLL_S)
        self._require_alive(processes, deadline)

    def _require_alive(self, processes: Sequence[subprocess.Popen[str]], deadline: float) -> None:
        """Refuse to wait where a worker has failed, which is named, or they take too long."""
        for rank in self._ranks:
            errors = name_errors(self._folder, rank)
            status = processes[rank].poll() if processes else None
            is_ended = errors.exists() if not processes else bool(status)
            if is_ended:
                said = get_last_words(errors.read_text(), f"status {status}")
                raise ParallelError(f"worker {rank} ended: {said}")
        if time.monotonic() > deadline:
            raise ParallelError(f"the workers have not finished in {self.patience_s:.0f} s")

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
    output = stack.enter_context(name_output(folder, task.rank).open("w"))
    errors = stack.enter_context(name_errors(folder, task.rank).open("w"))
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
