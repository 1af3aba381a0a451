"""The worker: a process that trains a recipe under one profile, step by step.

It computes with stock torch, or with the executor of an arithmetic.

It reads its setting as one line of JSON, and then makes a step for every further line. After each
it writes the state to the file of its setting, tensor after tensor, and answers with one line: the
names, types and sizes of the tensors, and the loss.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

from offchain.arithmetic.table import find_arithmetic
from offchain.commitments.tensors import Array
from offchain.execution.executor import Executor
from offchain.programs.capture import capture
from offchain.programs.capture.eager import EagerRun
from offchain.programs.load import load_recipe
from offchain.programs.recipe import Recipe, get_batch
from offchain.programs.tracing import get_initial_state
from offchain.replication.splitting import Splitting


@dataclass(frozen=True, slots=True)
class Order:
    """A worker's setting.

    Attributes:
        program: what is trained: a name, or a file and its function.
        size: its size.
        seed: of its weights and batches.
        threads: torch's.
        parts: into how many parts stock torch splits products.
        arithmetic: the arithmetic by name; None for stock torch.
        state: the file for the state.
    """

    program: str
    size: str
    seed: int
    threads: int
    parts: int
    arithmetic: str | None
    state: str


def main() -> None:
    """Train as long as there are lines."""
    order = Order(**json.loads(sys.stdin.readline()))
    torch.set_num_threads(order.threads)
    torch.manual_seed(order.seed)
    recipe = load_recipe(order.program, size=order.size, seed=order.seed)
    train = _train_by_torch if order.arithmetic is None else _train_by_executor
    steps = train(recipe, order)
    for _ in sys.stdin:
        tensors = next(steps)
        with Path(order.state).open("wb") as file:
            file.writelines(array.tobytes() for array in tensors.values())
        answer: dict[str, Any] = {
            "tensors": [[name, str(a.dtype), a.size] for name, a in tensors.items()],
            "loss": float(tensors["output.loss"]),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _train_by_torch(recipe: Recipe, order: Order) -> Iterator[Mapping[str, Array]]:
    """Yield the state and the loss after each step of eager torch."""
    run = EagerRun(recipe, get_initial_state(recipe))
    for step in count():
        with Splitting(order.parts):
            results = run.step(get_batch(recipe, step), {})
        state = run.get_state() | {"output.loss": results["output.loss"]}
        yield {name: tensor.detach().numpy() for name, tensor in state.items()}


def _train_by_executor(recipe: Recipe, order: Order) -> Iterator[Mapping[str, Array]]:
    """Yield the state, of which the loss is a part, after each step of the captured program."""
    assert order.arithmetic is not None
    captured = capture(recipe, trust=True, arithmetic=find_arithmetic(order.arithmetic))
    executor = Executor(captured.program, order.threads)
    state, names = list(captured.initial_state), [slot.name for slot in captured.program.state]
    for step in count():
        executor.advance(state, captured.batch(step), step)
        yield dict(zip(names, state, strict=True))


def encode(order: Order) -> str:
    """Return the line that gives a worker its setting."""
    return json.dumps(asdict(order)) + "\n"


if __name__ == "__main__":
    main()
