"""What the dishonest trainers have in common, who post one rounding log and compute by another.

Each turns the rounding of one element of one step. Where the band allows the turn, it lies about
what the log says; where it doesn't, the log says it, and is not to be obeyed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from moot.offchain.arithmetic.logged.band import OBEYED_WITHIN
from moot.offchain.backends.cpu.logged.journals import Reading, Writing
from moot.offchain.backends.cpu.logged.judgement import Judgement
from moot.offchain.backends.cpu.logged.stock import Floats
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.programs.rounding.entries import StepLog, make_log
from moot.offchain.providers.behaviour import Behaviour
from moot.offchain.providers.cheats.drawing import Draws, settled
from moot.offchain.providers.task import Task

Turn = tuple[int, int, bool]
"""An entry: (operator, element, whether it goes up)."""


@dataclass(eq=False)
class LogCheat(Behaviour):
    """Turns one rounding.

    Attributes:
        step: counted from 0; the turn that is looked for may be in a later one.
        operator: its index or its name.
        element: its index in row-major order.
        up: 1 if the element becomes the larger neighbour, or else 0.
    """

    name = "log-cheat"
    posts_logs = True
    step: int | None = None
    operator: int | str | None = None
    element: int | None = None
    up: int | None = None

    def draw(self, draws: Draws) -> Self:
        """Check a turn of which everything is given, or look for one that the band allows."""
        task, default = draws.task, int(draws.rng.integers(draws.task.steps))
        first = draws.integer("step", self.step, task.steps, default=default)
        if None not in (self.operator, self.element, self.up):
            operator = draws.operator(self.operator)
            size = task.program.nodes[operator].elements
            element = draws.integer("element", self.element, size)
            up = draws.integer("up", self.up, 2)
            return replace(self, step=first, operator=operator, element=element, up=up)
        step, (operator, element, is_up) = find_turn(task, first, draws.rng)
        return replace(self, step=step, operator=operator, element=element, up=int(is_up))

    def turn(self, log: StepLog) -> StepLog:
        """Return a log whose entry for the element, new or old, has the direction."""
        return add_entry(log, (settled(self.operator), settled(self.element), bool(self.up)))

    def drop(self, log: StepLog) -> StepLog:
        """Return a log without an entry for the element."""
        return drop_entry(log, settled(self.operator), settled(self.element))


def add_entry(log: StepLog, turn: Turn) -> StepLog:
    """Return a log with an entry more, or with another direction of one that it has."""
    operator, element, _ = turn
    rest = drop_entry(log, operator, element)
    entries = [(o, e, up) for o, found in rest.operators.items() for e, up in found]
    return make_log([*entries, turn])


def drop_entry(log: StepLog, operator: int, element: int) -> StepLog:
    """Return a log without the entry of an element."""
    entries = [(o, e, up) for o, found in log.operators.items() for e, up in found]
    return make_log(entry for entry in entries if entry[:2] != (operator, element))


class _Scouting(Writing):
    """A journal that notes which roundings the band allows to turn, and the other direction."""

    def __init__(self) -> None:
        super().__init__(reach=OBEYED_WITHIN)
        self.turns: list[Turn] = []

    def decide(self, operator: int, most: int, judgement: Judgement) -> Floats:
        """Note what may be turned, and return the rounded results."""
        found = judgement.boundaries
        is_sure = found.has_band & found.is_within(OBEYED_WITHIN) & ~found.is_within(1)
        for place in np.flatnonzero(is_sure):
            up = bool(found.nearest[place] == found.low[place])
            self.turns.append((operator, int(judgement.elements[place]), up))
        return super().decide(operator, most, judgement)


def run_until(task: Task, step: int) -> tuple[Executor, list[Array]]:
    """Return an executor, and the state before a step."""
    if task.logs is None:
        raise UsageError("only programs in `logged` have logs; choose --arithmetic logged")
    executor, state = Executor(task.preparation), list(task.initial_state)
    for before in range(step):
        executor.advance(state, task.batch(before), before, journal=Reading(task.logs[before]))
    return executor, state


def differs(one: Sequence[Array], other: Sequence[Array]) -> bool:
    """Whether two states differ."""
    return any(a.tobytes() != b.tobytes() for a, b in zip(one, other, strict=True))


def find_turn(task: Task, first: int, rng: np.random.Generator) -> tuple[int, Turn]:
    """Return a step, the first or a later one, and a turn that the band allows and that matters.

    Raises:
        UsageError: no step has one, or the task has no logs.
    """
    executor, state = run_until(task, first)
    assert task.logs is not None
    for step in range(first, task.steps):
        scouting, batch = _Scouting(), task.batch(step)
        after = executor.run(state, batch, step, journal=scouting)
        for place in rng.permutation(len(scouting.turns)):
            turn = scouting.turns[place]
            journal = Reading(add_entry(task.logs[step], turn))
            if differs(after, executor.run(state, batch, step, journal=journal)):
                return step, turn
        state = after
    raise UsageError("no rounding of these steps may be turned; choose more, or a larger program")
