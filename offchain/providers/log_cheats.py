"""The dishonest trainers: they post one rounding log, and compute as if it were another.

Each turns the rounding of one element of one step. Where the band allows the turn, it lies about
what the log says; where it doesn't, the log says it, and is not to be obeyed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from moot.offchain.arithmetic.logged.band import OBEYED_WITHIN
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.execution.executor import Executor
from moot.offchain.programs.rounding.entries import StepLog, make_log
from moot.offchain.programs.rounding.journals import Reading, Writing
from moot.offchain.programs.rounding.judgement import Floats, Judgement
from moot.offchain.programs.rounding.meaning import is_loggable
from moot.offchain.providers.behaviour import Behaviour, Patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moot.offchain.providers.cheats import Settings
    from moot.offchain.providers.task import Task

Turn = tuple[int, int, bool]
"""An entry: (operator, element, whether it goes up)."""


@dataclass(eq=False)
class _LogCheat(Behaviour):
    """Turns one rounding; `up` is 1 if the element becomes the larger neighbour."""

    step: int
    operator: int
    element: int
    up: int

    def _turn(self, log: StepLog) -> StepLog:
        """Return a log whose entry for the element, new or old, has the direction."""
        return add_entry(log, (self.operator, self.element, bool(self.up)))

    def _drop(self, log: StepLog) -> StepLog:
        """Return a log without an entry for the element."""
        return drop_entry(log, self.operator, self.element)


class MissingEntry(_LogCheat):
    """Turns a rounding as the band allows, and posts a log that does not say so."""

    name = "missing-entry"

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Turn the element."""
        return self._turn(log) if step == self.step else log

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Leave the entry out."""
        return self._drop(log) if step == self.step else log


class SurplusEntry(_LogCheat):
    """Posts a log with an entry that the band allows, and does not do what it says."""

    name = "surplus-entry"

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Pass over the entry."""
        return self._drop(log) if step == self.step else log

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Add the entry."""
        return self._turn(log) if step == self.step else log


class TurnedEntry(_LogCheat):
    """Posts a log with an entry, and takes the other direction."""

    name = "turned-entry"

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Take the other direction."""
        return self._turn(log) if step == self.step else log

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Add the entry."""
        entry = (self.operator, self.element, not self.up)
        return add_entry(log, entry) if step == self.step else log


@dataclass(eq=False)
class OtherLog(SurplusEntry):
    """Posts a log with an entry, and computes the step with the log of another step."""

    name = "other-log"
    logs: "Sequence[StepLog]" = field(default=(), repr=False)

    def alter_log(self, step: int, log: StepLog) -> StepLog:
        """Take the log of the step before, or after."""
        if step != self.step:
            return log
        others = self.logs[step - 1 : step] or self.logs[step + 1 : step + 2]
        return others[0] if others else StepLog()


class SteeredLog(_LogCheat):
    """Posts a log with an entry for a rounding that is not in doubt, and does what it says."""

    name = "steered-log"

    def post_log(self, step: int, log: StepLog) -> StepLog:
        """Add the entry."""
        return self._turn(log) if step == self.step else log

    def patch(self, step: int, state: "Sequence[Array]") -> Patch | None:
        """Do what the entry says, though the band does not allow it."""
        del state
        if step != self.step:
            return None

        def steer(output: Array) -> Array:
            steered = np.array(output, np.float32)
            end = np.float32(np.inf if self.up else -np.inf)
            flat = steered.reshape(-1)
            flat[self.element] = np.nextafter(flat[self.element], end)
            return steered

        return {self.operator: steer}


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


_DRAWS = 32
"""The number of draws of an element to steer, until one matters."""


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


def _run_until(task: "Task", step: int) -> "tuple[Executor, list[Array]]":
    """Return an executor, and the state before a step."""
    if task.logs is None:
        raise UsageError("only programs in `logged` have logs; choose --arithmetic logged")
    executor, state = Executor(task.preparation), list(task.initial_state)
    for before in range(step):
        executor.advance(state, task.batch(before), before, journal=Reading(task.logs[before]))
    return executor, state


def _differs(one: "Sequence[Array]", other: "Sequence[Array]") -> bool:
    return any(a.tobytes() != b.tobytes() for a, b in zip(one, other, strict=True))


def find_turn(task: "Task", first: int, rng: np.random.Generator) -> tuple[int, Turn]:
    """Return a step, the first or a later one, and a turn that the band allows and that matters.

    Raises:
        UsageError: no step has one, or the task has no logs.
    """
    executor, state = _run_until(task, first)
    assert task.logs is not None
    for step in range(first, task.steps):
        scouting, batch = _Scouting(), task.batch(step)
        after = executor.run(state, batch, step, journal=scouting)
        for place in rng.permutation(len(scouting.turns)):
            turn = scouting.turns[place]
            journal = Reading(add_entry(task.logs[step], turn))
            if _differs(after, executor.run(state, batch, step, journal=journal)):
                return step, turn
        state = after
    raise UsageError("no rounding of these steps may be turned; choose more, or a larger program")


def _make_turning(kind: type[_LogCheat], settings: "Settings") -> Behaviour:
    """Make a cheat of which either everything is given or the turn is looked for."""
    task = settings.task
    first = settings.integer("step", task.steps, default=int(settings.rng.integers(task.steps)))
    if settings.has("operator", "element", "up"):
        operator = settings.operator()
        element = settings.integer("element", task.program.nodes[operator].elements)
        return kind(first, operator, element, settings.integer("up", 2))
    step, (operator, element, up) = find_turn(task, first, settings.rng)
    return kind(step, operator, element, int(up))


def _make_other_log(settings: "Settings") -> Behaviour:
    cheat = _make_turning(OtherLog, settings)
    assert isinstance(cheat, OtherLog)
    cheat.logs = settings.task.logs or ()
    return cheat


def _make_steered_log(settings: "Settings") -> Behaviour:
    task = settings.task
    step = settings.integer("step", task.steps)
    nodes = task.program.nodes
    loggable = [index for index, node in enumerate(nodes) if is_loggable(node)]
    executor, state = _run_until(task, step)
    after = executor.run(state, task.batch(step), step)
    for _ in range(_DRAWS):
        drawn = settings.copy()
        operator = drawn.operator(int(drawn.rng.choice(loggable)))
        element = drawn.integer("element", nodes[operator].elements)
        cheat = SteeredLog(step, operator, element, drawn.integer("up", 2))
        patched = executor.run(state, task.batch(step), step, patch=cheat.patch(step, state))
        if _differs(after, patched):
            break
    return cheat


LOG_MAKERS: Mapping[str, Callable[["Settings"], Behaviour]] = {
    "steered-log": _make_steered_log,
    "missing-entry": lambda s: _make_turning(MissingEntry, s),
    "surplus-entry": lambda s: _make_turning(SurplusEntry, s),
    "turned-entry": lambda s: _make_turning(TurnedEntry, s),
    "other-log": _make_other_log,
}
