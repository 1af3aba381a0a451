"""The table of models: each is captured and trained beside eager torch, or refused in one line.

`python -m tests.corpus.models` prints the table and its counts, `python -m tests.corpus.models gpt2
vit` these two rows.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module

import click
import numpy as np
import torch

from moot.offchain.errors import CaptureError
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.optimizers import SGD
from moot.offchain.frontend.recipe import Batch, TrainingRecipe
from tests.corpus.models_kinds import Inputs, Kind

FILES = (
    *("language", "vision", "signals", "adapters", "diffusion"),
    *("decoders", "encoders", "sounds"),
)
STEPS = 2

OF_TENSOR = 2e-4
OF_MODEL = 2e-6
"""An update may be off by these parts of the largest of its tensor, and of the whole model.

A gradient is a sum of some hundreds of products here, each rounded to 6e-8 of its size, behind and
before as many; what cancels out, like the gradient of a key's bias, is noise beside the others."""

OF_NOISE = 3
"""An update may also be off by this many times what torch's own float32 is from its float64."""

Tensors = Mapping[str, torch.Tensor]


class Verdict(StrEnum):
    """The verdict on one kind of model."""

    EQUAL = "equal"
    REFUSED = "refused"
    WRONG = "wrong"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True)
class Row:
    """A kind's row in the table: its verdict, and how far it is off or why it is refused."""

    name: str
    verdict: Verdict
    note: str


def list_kinds() -> Iterator[Kind]:
    """Yield all kinds of models; this imports the libraries."""
    for name in FILES:
        yield from import_module(f"tests.corpus.models_{name}").KINDS


def judge(kind: Kind) -> Row:
    """Return a kind's row."""
    try:
        off = measure(kind)
    except CaptureError as error:
        return Row(kind.name, Verdict.REFUSED, str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is belongs into the table
        traceback.print_exc()
        return Row(kind.name, Verdict.CRASHED, f"{type(error).__name__}: {error}")
    verdict = Verdict.EQUAL if off <= 1 else Verdict.WRONG
    return Row(kind.name, verdict, f"off by {off:.2g} of the tolerance")


def measure(kind: Kind) -> float:
    """Return how far a kind's program is from eager torch, as a part of the tolerance.

    Raises:
        CaptureError: there is no program.
    """
    recipe = make_recipe(kind)
    single, double = deepcopy(recipe.model), deepcopy(recipe.model).double()
    before = _copy_parameters(single)
    captured = capture(recipe)
    losses, state = run_program(captured)
    found = {
        slot.name.removeprefix("parameter."): torch.from_numpy(array)
        for slot, array in zip(captured.program.state, state, strict=True)
        if slot.name.startswith("parameter.")
    }
    expected = train(single, recipe.loss, recipe.batch, kind.rate)
    if not np.allclose(losses, expected, rtol=1e-3, atol=1e-6):
        return float("inf")
    after = _copy_parameters(single)
    noise = _measure_noise(double, after, recipe, kind.rate)
    updates = {name: (found[name] - old, after[name] - old) for name, old in before.items()}
    return _compare(updates, before, noise)


def _measure_noise(
    model: torch.nn.Module, after: Tensors, recipe: TrainingRecipe, rate: float
) -> dict[str, float]:
    """Return how far each of torch's own parameters is from those that it finds in float64.

    It is 0 for models that mix the types, which torch does not run in float64.
    """

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        return tuple(x.double() if x.is_floating_point() else x for x in recipe.batch(step))

    try:
        train(model, recipe.loss, batch, rate)
    except RuntimeError:
        return dict.fromkeys(after, 0.0)
    exact = _copy_parameters(model)
    return {name: float((after[name] - exact[name]).abs().max()) for name in after}


def make_recipe(kind: Kind) -> TrainingRecipe:
    """Return the recipe that trains a kind by gradient descent."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind.build().train()

    def make_inputs(step: int) -> Inputs:
        return kind.make_inputs(torch.Generator().manual_seed(step))

    names = list(make_inputs(0))

    def loss(model: torch.nn.Module, *tensors: torch.Tensor) -> torch.Tensor:
        return kind.loss(model(**dict(zip(names, tensors, strict=True)), **kind.options))

    def batch(step: int) -> tuple[torch.Tensor, ...]:
        return tuple(make_inputs(step).values())

    return TrainingRecipe(model, loss, SGD(kind.rate), batch)


def run_program(captured: Captured) -> tuple[list[float], list[np.ndarray]]:
    """Return the losses of the steps, and the state after them."""
    executor, state, losses = Executor(captured.program), captured.initial_state, []
    for step in range(STEPS):
        state = executor.run(state, captured.batch(step), step)
        losses.append(float(state[-1]))
    return losses, state


def train(
    model: torch.nn.Module, compute_loss: Callable[..., torch.Tensor], batch: Batch, rate: float
) -> list[float]:
    """Train a model by eager torch, and return the losses."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], rate)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = compute_loss(model, *batch(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _copy_parameters(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def _compare(
    updates: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
    before: Tensors,
    noise: Mapping[str, float],
) -> float:
    """Return the largest difference of updates, found and expected, in parts of the tolerance."""
    largest = max(float(expected.abs().max()) for _, expected in updates.values())
    if not largest > 0:
        return float("inf")  # nothing was learned, so nothing is compared
    worst = 0.0
    for name, (found, expected) in updates.items():
        rounding = STEPS * torch.finfo(torch.float32).eps * float(before[name].abs().max())
        allowed = OF_TENSOR * float(expected.abs().max()) + OF_MODEL * largest + rounding
        off = float((found - expected).abs().nan_to_num(nan=float("inf")).max())
        worst = max(worst, off / (allowed + OF_NOISE * noise[name]))
    return worst


def main(names: Sequence[str]) -> int:
    """Print the table, row by row, and its counts; 1 if a model is wrong or crashes."""
    counts: Counter[Verdict] = Counter()
    for kind in list_kinds():
        if names and kind.name not in names:
            continue
        row = judge(kind)
        counts[row.verdict] += 1
        click.echo(f"{row.name:30} {row.verdict:8} {row.note}")
    summary = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    click.echo(f"{counts.total()} kinds: {summary}")
    return int(bool(counts[Verdict.WRONG] or counts[Verdict.CRASHED]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
