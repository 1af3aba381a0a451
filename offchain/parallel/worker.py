"""The process of one worker: it computes its part of each step beside others.

It reads one line of JSON (`Task`) and the files that this names, joins the others on this machine,
and answers with a line where a state is kept, or else after each step: the root of the state that
it has come to. With a folder as its argument it is one of those that `torchrun` starts on several
hosts, which share that folder: it waits for its task there, and answers into a file.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TextIO

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import distributed

from moot.offchain.commitments.tensors import Array, compute_state_root, compute_tensor_root
from moot.offchain.errors import ParallelError
from moot.offchain.parallel.blame import Teller
from moot.offchain.parallel.exchanges import GLOO, Group
from moot.offchain.parallel.execution import ParallelExecutor
from moot.offchain.parallel.partition import make_cuts, partition, partition_batches
from moot.offchain.programs.decoding import decode_program

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does.

    Attributes:
        folder: has the files `program`, `state.safetensors`, and a file of the worker's own samples
            of every step (`name_batch`).
        rank: the worker's number.
        shares: how many samples each worker has.
        first: the number of the first step.
        steps: how many steps they make.
        patience_s: after how many seconds without the others it gives up.
        is_of_batches: whether the shares are of batches.
        exchange: how they exchange arrays.
        backend: what computes.
        keeps: the numbers of steps after which the first worker keeps the state in a file.
        tells: whether it writes down what it computes of each operator (`blame.py`).
    """

    folder: str
    rank: int
    shares: tuple[int, ...]
    first: int
    steps: int
    patience_s: float
    is_of_batches: bool
    exchange: str = GLOO
    backend: str = "cpu"
    keeps: tuple[int, ...] = ()
    tells: bool = False


def encode(task: Task) -> str:
    """Return the line that gives a worker its task."""
    return json.dumps(asdict(task)) + "\n"


def decode(line: str) -> Task:
    """Return the task of a line."""
    fields = json.loads(line)
    return Task(**{**fields, **{name: tuple(fields[name]) for name in ("shares", "keeps")}})


def name_batch(folder: Path, rank: int, step: int) -> Path:
    """Return the file of a worker's samples of a step."""
    return folder / f"batch-{rank}-{step}.safetensors"


def name_state(folder: Path, step: int) -> Path:
    """Return the file of the state after so many steps."""
    return folder / f"state-{step}.safetensors"


def name_cost(folder: Path, rank: int) -> Path:
    """Return the file in which a worker says at the end what its exchanges have cost."""
    return folder / f"cost-{rank}.json"


def name_task(hosts: Path, rank: int) -> Path:
    """Return the file with the task of a worker that torchrun starts."""
    return hosts / f"task-{rank}"


def name_output(folder: Path, rank: int) -> Path:
    """Return the file of the roots that a worker says."""
    return folder / f"roots-{rank}"


def name_errors(folder: Path, rank: int) -> Path:
    """Return the file of a worker's last words."""
    return folder / f"errors-{rank}"


def name_told(folder: Path, rank: int) -> Path:
    """Return the file in which a worker writes down what it computes."""
    return folder / f"told-{rank}"


def write_tensors(path: Path, tensors: Sequence[Array]) -> None:
    """Write tensors in order."""
    named = {str(place): np.asarray(tensor, order="C") for place, tensor in enumerate(tensors)}
    save_file(named, path)


def read_tensors(path: Path) -> list[Array]:
    """Return tensors in order."""
    data = load_file(path)
    return [data[str(place)] for place in range(len(data))]


def main() -> None:
    """Make all steps of the task."""
    if len(sys.argv) > 1:
        _join(Path(sys.argv[1]))
        return
    task = decode(sys.stdin.readline())
    _meet(task, f"file://{Path(task.folder) / 'meeting'}", sys.stdout)


def _join(hosts: Path) -> None:
    """Wait for the task of this process, which torchrun has numbered, and make it."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    while not name_task(hosts, rank).exists():
        time.sleep(_POLL_S)
    task = decode(name_task(hosts, rank).read_text())
    folder = Path(task.folder)
    try:
        _require_count(count, len(task.shares))
        with name_output(folder, rank).open("w") as output:
            _meet(task, "env://", output)
    except Exception as error:
        name_errors(folder, rank).write_text(f"{error}\n")
        raise


def _require_count(started: int, wanted: int) -> None:
    """Refuse to be one of more or fewer workers than a run is for."""
    if started != wanted:
        raise ParallelError(
            f"torchrun has started {started} workers, and the run is for {wanted}; start as many"
        )


def _meet(task: Task, meeting: str, output: TextIO) -> None:
    """Join the others at a place that torch knows, and work with them."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        task.exchange,
        init_method=meeting,
        rank=task.rank,
        world_size=len(task.shares),
        timeout=timedelta(seconds=task.patience_s),
    )
    _work(task, Group(task.exchange, task.rank), output)
    distributed.destroy_process_group()


def _work(task: Task, group: Group, output: TextIO) -> None:
    folder, rank = Path(task.folder), task.rank
    program = decode_program((folder / "program").read_bytes())
    divide = partition_batches if task.is_of_batches else partition
    shares = divide(program, make_cuts(task.shares, sum(task.shares)))
    teller = Teller(name_told(folder, rank)) if task.tells else None
    executor = ParallelExecutor(program, shares, rank, group, task.backend, teller)
    state, started = read_tensors(folder / "state.safetensors"), time.perf_counter()
    for step in range(task.first, task.first + task.steps):
        state = executor.run(state, read_tensors(name_batch(folder, rank, step)), step)
        if teller is not None:
            teller.flush()
        if task.keeps and step + 1 not in task.keeps:
            continue
        if task.keeps and rank == 0:
            write_tensors(name_state(folder, step + 1), state)
        root = compute_state_root([compute_tensor_root(tensor) for tensor in state])
        output.write(root.hex() + "\n")
        output.flush()
    cost = {"bytes": group.bytes, "seconds": group.seconds}
    cost["run_seconds"] = time.perf_counter() - started
    name_cost(folder, rank).write_text(json.dumps(cost))


if __name__ == "__main__":
    main()
