"""The process of one worker: it computes its part of each step beside others.

It reads one line of JSON (`Task`) and the files that this names, joins the others on this machine,
and answers with one line after each step: the root of the state that it has come to.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import distributed

from moot.offchain.commitments.tensors import Array, compute_state_root, compute_tensor_root
from moot.offchain.parallel.exchanges import GLOO, Group
from moot.offchain.parallel.execution import ParallelExecutor
from moot.offchain.parallel.partition import make_cuts, partition, partition_batches
from moot.offchain.programs.decoding import decode_program


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does.

    Attributes:
        folder: has the files `program`, `state.safetensors`, and `batches-RANK.safetensors` with
            the worker's own samples of every step.
        rank: the worker's number.
        shares: how many samples each worker has.
        steps: how many steps they make.
        patience_s: after how many seconds without the others it gives up.
        is_of_batches: whether the shares are of batches.
        exchange: how they exchange arrays.
    """

    folder: str
    rank: int
    shares: tuple[int, ...]
    steps: int
    patience_s: float
    is_of_batches: bool
    exchange: str = GLOO


def encode(task: Task) -> str:
    """Return the line that gives a worker its task."""
    return json.dumps(asdict(task)) + "\n"


def name_batches(folder: Path, rank: int) -> Path:
    """Return the file of a worker's samples."""
    return folder / f"batches-{rank}.safetensors"


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
    fields = json.loads(sys.stdin.readline())
    task = Task(**{**fields, "shares": tuple(fields["shares"])})
    folder = Path(task.folder)
    torch.set_num_threads(1)
    distributed.init_process_group(
        task.exchange,
        init_method=f"file://{folder / 'meeting'}",
        rank=task.rank,
        world_size=len(task.shares),
        timeout=timedelta(seconds=task.patience_s),
    )
    program = decode_program((folder / "program").read_bytes())
    divide = partition_batches if task.is_of_batches else partition
    shares = divide(program, make_cuts(task.shares, sum(task.shares)))
    executor = ParallelExecutor(program, shares, task.rank, Group(task.exchange, task.rank))
    state = read_tensors(folder / "state.safetensors")
    batches = read_tensors(name_batches(folder, task.rank))
    each = len(batches) // task.steps
    for step in range(task.steps):
        state = executor.run(state, batches[step * each : (step + 1) * each], step)
        root = compute_state_root([compute_tensor_root(tensor) for tensor in state])
        sys.stdout.write(root.hex() + "\n")
        sys.stdout.flush()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
