"""The start of data-parallel workers, each a process of its own on this machine."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import ParallelError
from moot.offchain.execution.executor import admit
from moot.offchain.parallel.exchanges import GLOO, require_exchange
from moot.offchain.parallel.partition import count_batches, count_samples, make_cuts
from moot.offchain.parallel.worker import Task, encode, name_batches, write_tensors
from moot.offchain.programs.encoding import encode_program
from moot.offchain.programs.graph import Program

WORKER = (sys.executable, "-m", "moot.offchain.parallel.worker")
_POLL_S = 0.05


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

    Args:
        program: the program.
        state: the tensors that it starts from.
        batches: the tensors of each step's batch.
        shares: how many samples of a batch each worker gets, or batches; 0 is a share, too.
        accumulated: how many batches a step has, if they are shared out, and not samples.
        patience_s: for how many seconds the workers wait for each other, and all for the last.
        commands: what runs in place of some workers, by their numbers.
        exchange: how they exchange arrays: gloo, or nccl, for which each needs an NVIDIA device.

    Returns:
        The root of the state after each step, on which all workers agree.

    Raises:
        ParallelError: the batch cannot be shared out like this, a worker dies or takes too long, or
            two of them come to different states, or exchange over nccl where it can't be.
        UsageError: there is no such exchange.
        ProgramError: a tensor has another type or shape than its slot.
    """
    require_exchange(exchange, len(shares))
    state = admit(state, program.state)
    batches = [admit(batch, program.batch) for batch in batches]
    if accumulated > 1:
        cuts = make_cuts(shares, count_batches(program, accumulated), "batches")
    else:
        cuts = make_cuts(shares, count_samples(program))
    with tempfile.TemporaryDirectory(prefix="moot-") as directory, ExitStack() as stack:
        folder = Path(directory)
        (folder / "program").write_bytes(encode_program(program))
        write_tensors(folder / "state.safetensors", state)
        processes = []
        for rank in range(len(shares)):
            first, stop = cuts[rank : rank + 2]
            size = len(program.batch) // accumulated
            if accumulated > 1:
                own = [tensor for batch in batches for tensor in batch[first * size : stop * size]]
            else:
                own = [tensor[first:stop] for batch in batches for tensor in batch]
            write_tensors(name_batches(folder, rank), own)
            steps, is_of_batches = len(batches), accumulated > 1
            task = Task(directory, rank, tuple(shares), steps, patience_s, is_of_batches, exchange)
            processes.append(_start(folder, task, (commands or {}).get(rank, WORKER), stack))
        _wait(folder, processes, patience_s)
        said = [_name_output(folder, rank).read_text().split() for rank in range(len(shares))]
    return _agree(said)


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
        for rank, process in enumerate(processes):
            if process.poll():
                raise ParallelError(
                    f"worker {rank} ended: {_get_last_words(folder, rank, process)}"
                )
        if time.monotonic() > deadline:
            raise ParallelError(f"the workers have not finished in {patience_s:.0f} s")
        time.sleep(_POLL_S)
    for rank, process in enumerate(processes):
        if process.returncode:
            raise ParallelError(f"worker {rank} ended: {_get_last_words(folder, rank, process)}")


def _get_last_words(folder: Path, rank: int, process: subprocess.Popen[str]) -> str:
    lines = _name_errors(folder, rank).read_text().split("\n")
    *_, last = [line for line in lines if line.strip()] or [f"status {process.returncode}"]
    return last.strip()


def _agree(said: Sequence[Sequence[str]]) -> list[bytes]:
    """Return the roots that every worker has said."""
    for step, roots in enumerate(zip(*said, strict=True)):
        if len(set(roots)) > 1:
            raise ParallelError(f"the workers came to different states in step {step}")
    return [bytes.fromhex(root) for root in said[0]]


def _name_output(folder: Path, rank: int) -> Path:
    return folder / f"roots-{rank}"


def _name_errors(folder: Path, rank: int) -> Path:
    return folder / f"errors-{rank}"
