"""Orders: what a worker is told to train, and what it answers after each step."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from moot.offchain.commitments.tensors import Array
from moot.offchain.frontend.recipe import Recipe

State = Mapping[str, Array]
"""The tensors of a state by their names."""

MISUSED = 2
"""The exit status of a worker whose order names what there is not."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way of training that stock torch does not have, by name, with its options as JSON."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """A worker's setting.

    Attributes:
        program: what is trained: a name, or a file and its function.
        size: its size.
        seed: of its weights and batches.
        profile: the profile, by name.
        arithmetic: the arithmetic by name; None for torch.
        state: the file for the state.
        start: the file of the state to start from, as another worker has written it; None for the
            recipe's own.
        method: how torch trains; None for its own way.
        precision: that in which the recipe trains: fp32, or bf16.
        timed: whether stock torch's steps are timed beside those of an arithmetic.
    """

    program: str
    size: str
    seed: int
    profile: str
    arithmetic: str | None
    state: str
    start: str | None
    method: Method | None = None
    precision: str = "fp32"
    timed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A worker's answer: the state it has come to, and what else there is to say of the step."""

    state: State
    report: Mapping[str, Any] = field(default_factory=dict)


Train = Callable[[Recipe, Order], Iterator[Answer]]
"""A way of training: it yields the start, and the state after each step."""


def encode(order: Order) -> str:
    """Return the line that gives a worker its setting."""
    return json.dumps(asdict(order)) + "\n"


def decode(line: str) -> Order:
    """Return the order of a line."""
    fields = json.loads(line)
    method = fields.pop("method")
    return Order(**fields, method=Method(**method) if method else None)


def choose_start(order: Order, own: State) -> State:
    """Return the state to start from: what is given for it, in the form of the recipe's own."""
    if order.start is None:
        return own
    data, at, start = Path(order.start).read_bytes(), 0, {}
    for name, array in own.items():
        start[name] = np.frombuffer(data, array.dtype, array.size, at).reshape(array.shape).copy()
        at += array.nbytes
    return start
