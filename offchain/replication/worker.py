"""The worker: a process that trains a recipe under one profile, step by step.

It computes with stock torch, or with the executor of an arithmetic. It reads its setting as one
line of JSON, and then makes a step for every further line. At the start and after each step it
writes the state to the file of its setting, tensor after tensor, and answers with one line: the
names, types and sizes of the tensors.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch

from offchain.arithmetic.table import find_arithmetic
from offchain.commitments.tensors import Array
from offchain.execution.executor import Executor
from offchain.programs.capture import capture
from offchain.programs.capture.eager import EagerRun
from offchain.programs.load import load_recipe
from offchain.programs.recipe import Recipe, get_batch
from offchain.programs.tracing import get_initial_state, name_tensors
from offchain.replication.splitting import Splitting

State = Mapping[str, Array]
"""The tensors of a state by their names."""


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
        start: the file of the state to start from, as another worker has written it; None for the
            recipe's own.
    """

    program: str
    size: str
    seed: int
    threads: int
    parts: int
    arithmetic: str | None
    state: str
    start: str | None


def main() -> None:
    """Train as long as there are lines."""
    order = Order(**json.loads(sys.stdin.readline()))
    torch.set_num_threads(order.threads)
    torch.manual_seed(order.seed)
    recipe = load_recipe(order.program, size=order.size, seed=order.seed)
    train = _train_by_torch if order.arithmetic is None else _train_by_executor
    states = train(recipe, order)
    _tell(order, next(states))
    for _ in sys.stdin:
        _tell(order, next(states))


def _tell(order: Order, state: State) -> None:
    """Write a state, and say what it consists of."""
    with Path(order.state).open("wb") as file:
        file.writelines(array.tobytes() for array in state.values())
    tensors = [(name, str(array.dtype), array.size) for name, array in state.items()]
    sys.stdout.write(json.dumps(tensors) + "\n")
    sys.stdout.flush()


def _choose_start(order: Order, own: State) -> State:
    """Return the state to start from: what is given for it, in the form of the recipe's own."""
    if order.start is None:
        return own
    data, at, start = Path(order.start).read_bytes(), 0, {}
    for name, array in own.items():
        start[name] = np.frombuffer(data, array.dtype, array.size, at).reshape(array.shape).copy()
        at += array.nbytes
    return start


def _train_by_torch(recipe: Recipe, order: Order) -> Iterator[State]:
    """Yield the start, and the state after each step of eager torch."""
    own = {name: tensor.detach().numpy() for name, tensor in get_initial_state(recipe).items()}
    start = _choose_start(order, own)
    state = {name: torch.from_numpy(array.copy()) for name, array in start.items()}
    with torch.no_grad():
        for name, tensor in name_tensors(recipe.model).items():
            tensor.copy_(state[name])
    run = EagerRun(recipe, state)
    yield start
    for step in count():
        with Splitting(order.parts):
            run.step(get_batch(recipe, step), {})
        yield {name: tensor.numpy() for name, tensor in run.get_state().items()}


def _train_by_executor(recipe: Recipe, order: Order) -> Iterator[State]:
    """Yield the start, and the state after each step of the captured program."""
    assert order.arithmetic is not None
    captured = capture(recipe, trust=True, arithmetic=find_arithmetic(order.arithmetic))
    executor = Executor(captured.program, order.threads)
    names = [slot.name for slot in captured.program.state]
    start = _choose_start(order, dict(zip(names, captured.initial_state, strict=True)))
    yield start
    state = list(start.values())
    for step in count():
        executor.advance(state, captured.batch(step), step)
        yield dict(zip(names, state, strict=True))


def encode(order: Order) -> str:
    """Return the line that gives a worker its setting."""
    return json.dumps(asdict(order)) + "\n"


if __name__ == "__main__":
    main()
