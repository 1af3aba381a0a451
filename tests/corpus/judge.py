"""The judgement of one row: captured and equal to eager torch, refused in one line, or a fault.

The oracle is eager torch in float32, the numbers that a user would see. Both sides round every
operation to 24 bits, in other orders: a fold of n elements differs by up to n * 2^-24 of its terms'
size, and a row has folds of at most a few hundred elements, twice through (backward), three times
over (steps). Hence a relative tolerance of 1e-4, and an absolute one of 2e-5 for what cancels
(inputs are of size 1). Integers and booleans have to be equal.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from moot.offchain.errors import CaptureError, UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe
from tests.corpus.rows import RATE, Form, Row, Subject

STEPS = 3
RELATIVE = 1e-4
ABSOLUTE = 2e-5

State = dict[str, Tensor]


@dataclass(frozen=True)
class Judgement:
    """The result of judging a row.

    Attributes:
        outcome: "captured", "refused", "wrong" or "traceback".
        message: the line that refuses it, the difference, or the exception.
    """

    outcome: str
    message: str = ""


PLACE = re.compile(r" in \S+ \w+\.py:\d+ .*")
"""The end of a refusal that names the module, the file, the line and the code."""


def judge(row: Row, *, trust: bool = False) -> Judgement:
    """Return what becomes of a row, its capture trusted or compared with torch like any other."""
    captured = attempt(make_recipe(row, prepare(row)), trust=trust)
    return captured if isinstance(captured, Judgement) else compare(row, captured, prepare(row))


def attempt(recipe: Recipe, *, trust: bool = False) -> Captured | Judgement:
    """Return what is captured of a recipe, or the judgement that nothing is."""
    try:
        return capture(recipe, trust=trust)
    except (CaptureError, UsageError) as error:
        line = str(error)
        return Judgement("refused" if "\n" not in line else "traceback", PLACE.sub("", line))
    except Exception as error:  # noqa: BLE001 - any other exception is the fault that is looked for
        return Judgement("traceback", f"{type(error).__name__}: {str(error).splitlines()[:1]}")


def prepare(row: Row) -> Subject:
    """Return a row's program as it is before its first step; each call gives equal ones."""
    model = Subject(row)
    if row.form is Form.LEARNED:
        for k, output in enumerate(Subject(row).call(*model.data)):
            model.register_buffer(f"output_{k}", torch.zeros_like(output.detach()))
    return model


def make_recipe(row: Row, model: Subject) -> Recipe:
    """Return a row's recipe."""
    data = tuple(model.data)
    if row.form is not Form.LEARNED:
        return InferenceRecipe(model, lambda m, *x: m.call(*x), lambda _: data, seed=5)
    if row.optimizer is None:
        return TrainingRecipe(model, lambda m, *x: m.loss(*x), SGD(RATE), lambda _: data, seed=5)
    optimizer = row.optimizer(model.parameters())
    return TrainingRecipe(model, lambda m, *x: m.loss(*x), optimizer, lambda _: data, seed=5)


def compare(row: Row, captured: Captured, eager: Subject) -> Judgement:
    """Return whether a captured program does what eager torch does."""
    expected = run_eager(row, eager)
    executor, state = Executor(captured.program), captured.initial_state
    for step in range(STEPS):
        state = executor.run(state, captured.batch(step), step)
        names = [slot.name for slot in captured.program.state]
        found = {n: torch.from_numpy(np.array(a)) for n, a in zip(names, state, strict=True)}
        if row.holds is not None:
            outputs = [found[n] for n in names if n.startswith("output.")]
            if not row.holds(outputs):
                return Judgement("wrong", f"step {step}: {outputs}")
            continue
        for name, tensor in next(expected).items():
            difference = describe_difference(found[name], tensor)
            if difference:
                return Judgement("wrong", f"step {step}: {name}: {difference}")
    return Judgement("captured")


def describe_difference(found: Tensor, expected: Tensor) -> str:
    """Return how two tensors differ; nothing where they agree."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype} {list(found.shape)}, not {expected.dtype} {list(expected.shape)}"
    try:
        torch.testing.assert_close(
            found, expected, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        lines = [line for line in str(error).splitlines() if line.startswith("Greatest")]
        return "; ".join(lines) or str(error).splitlines()[0]
    return ""


def run_eager(row: Row, model: Subject) -> Iterator[State]:
    """Yield what eager torch has after each step, by the names of the program's slots."""
    if row.form is not Form.LEARNED:
        for _ in range(STEPS):
            with torch.no_grad():
                yield {f"output.{k}": x for k, x in enumerate(model.call(*model.data))}
    optimizer = row.optimizer or (lambda parameters: torch.optim.SGD(parameters, RATE))
    stepper = optimizer(model.parameters())
    for _ in range(STEPS):
        stepper.zero_grad()
        loss = model.loss(*model.data)
        loss.backward()
        stepper.step()
        state = {f"parameter.{n}": p.detach() for n, p in model.named_parameters()}
        state |= {f"buffer.{n}": b for n, b in model.named_buffers()}
        yield {**state, "output.loss": loss.detach()}
