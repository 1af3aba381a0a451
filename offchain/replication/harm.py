"""The harm that a trainer can do by its log alone: a training that is steered beside an honest one.

Both start alike and take the same batches. The steered one turns every rounding upwards that its
method lets it turn, in every step, and its logs are such that no auditor finds anything: each step
is audited here. How far the weights are led away is said in terms of all that training moved them.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import WrongLog
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.calls import get_loss
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.recipe import TrainingRecipe, get_batch
from moot.offchain.frontend.subject import Subject
from moot.offchain.programs.rounding.journals import Reading, Steering, Writing
from moot.offchain.replication.logs import name_log
from moot.offchain.replication.orders import Order
from moot.offchain.replication.published.behaviour import STEER, Dishonesty
from moot.offchain.replication.published.replicate import make_method
from moot.offchain.replication.published.training import Part, load_training
from moot.offchain.replication.published.training import train as advance

States = tuple[Mapping[str, Array], ...]
"""The start, the honest and the steered state, by the names of their tensors."""

_PARAMETER = "parameter."


@dataclass(frozen=True, slots=True)
class Harm:
    """How far a steered training is from the honest one, after some steps.

    Attributes:
        step: how many are done.
        turned: roundings that were turned by then.
        distance: of the weights, over the way that the honest ones have gone.
        differing: the share of weights that differ.
        honest_loss: of the next batch, by the honest weights, in eager torch without dropout.
        steered_loss: by the steered ones.
    """

    step: int
    turned: int
    distance: float
    differing: float
    honest_loss: float
    steered_loss: float


def steer(
    method: str, program: str, size: str, steps: int, report: Callable[[int], None]
) -> Iterator[Harm]:
    """Yield the harm after every step of a training.

    Args:
        method: `proven` (the log of `logged`) or `published`.
        program: what is trained.
        size: of an example.
        steps: how many.
        report: is told how many are done.

    Raises:
        WrongLog: an auditor would find an entry of the steered trainer.
    """
    judge = _Judge(load_training(program, size))
    run = {"proven": _steer_proven, "published": _steer_published}[method]
    for step, (turned, states) in enumerate(run(program, size), start=1):
        yield judge.measure(step, turned, *states)
        report(step)
        if step == steps:
            return


def _steer_proven(program: str, size: str) -> Iterator[tuple[int, States]]:
    """Yield how many roundings were turned, and the start, the honest and the steered state."""
    captured = capture(load_training(program, size), trust=True, arithmetic=LOGGED)
    names = [slot.name for slot in captured.program.state]
    executor = Executor(captured.program)
    start = list(captured.initial_state)
    honest, steered = list(start), list(start)
    turned, step = 0, 0
    while True:
        batch = captured.batch(step)
        before = [np.array(tensor) for tensor in steered]
        executor.advance(honest, batch, step, journal=Writing())
        journal = Steering()
        executor.advance(steered, batch, step, journal=journal)
        reading = Reading(journal.log)
        executor.advance(before, batch, step, journal=reading)
        is_same = all(map(_is_same, before, steered))
        if reading.void or not is_same:
            raise WrongLog("an auditor finds what the trainer has turned", step)
        turned, step = turned + journal.logged, step + 1
        kept = (dict(zip(names, state, strict=True)) for state in (start, honest, steered))
        yield turned, tuple(kept)


def _steer_published(program: str, size: str) -> Iterator[tuple[int, States]]:
    """Yield the same of the published method, whose steered trainer turns what it may log."""
    cheat = asdict(Dishonesty(STEER, None))
    with tempfile.TemporaryDirectory(prefix="moot-") as directory:
        folders = [Path(directory) / name for name in ("honest", "steered", "auditor")]
        for folder in folders[:2]:
            folder.mkdir()
        parts = [Part(str(folder), writes=True) for folder in folders[:2]]
        parts[1] = replace(parts[1], dishonesty=cheat)
        parts.append(Part(str(folders[1]), writes=False))
        order = Order(program, size, 0, "native", None, "", None)
        runs = [
            advance(load_training(program, size), replace(order, method=make_method(part)))
            for part in parts
        ]
        start, *_ = [next(run).state for run in runs]
        turned, step = 0, 0
        while True:
            answers = [next(run) for run in runs]
            honest, steered, audited = (answer.state for answer in answers)
            if not all(_is_same(audited[name], steered[name]) for name in steered):
                raise WrongLog("an auditor finds what the trainer has turned", step)
            for folder in folders[:2]:
                name_log(folder, step).unlink()
            turned += sum(answers[1].report[f"corrected_{it}"] for it in ("forward", "backward"))
            step += 1
            yield turned, (start, honest, steered)


def _is_same(one: Array, other: Array) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


class _Judge:
    """Measures states against each other.

    Args:
        recipe: what was trained; its model is used to find losses.
    """

    def __init__(self, recipe: TrainingRecipe) -> None:
        self._recipe, self._subject = recipe, Subject.of(recipe)
        recipe.model.eval()

    def measure(self, step: int, turned: int, *states: Mapping[str, Array]) -> Harm:
        """Return the harm, given the start, the honest and the steered state."""
        names = [name for name in states[1] if name.startswith(_PARAMETER)]
        first, right, wrong = (
            np.concatenate([np.asarray(state[name], np.float64).ravel() for name in names])
            for state in states
        )
        way = float(np.linalg.norm(right - first))
        distance = float(np.linalg.norm(wrong - right)) / way if way else 0.0
        losses = [self._find_loss(state, step) for state in states[1:]]
        return Harm(step, turned, distance, float(np.mean(right != wrong)), *losses)

    @torch.no_grad()
    def _find_loss(self, state: Mapping[str, Array], step: int) -> float:
        for name, tensor in self._subject.tensors.items():
            if name in state:
                tensor.copy_(torch.from_numpy(np.array(state[name])).reshape(tensor.shape))
        loss = self._recipe.loss(self._recipe.model, *get_batch(self._recipe, step))
        return float(get_loss(loss))
