"""The dishonest behaviours, by name, and how they are read from a command line.

A cheat is written `name:key=value,key=value`. What is left out is drawn from the seed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from moot.offchain.arithmetic.functions import DType
from moot.offchain.commitments.tensors import Array
from moot.offchain.commitments.tree import Digest
from moot.offchain.errors import UsageError
from moot.offchain.programs.graph import Kind, Node, Operand, Origin, Program
from moot.offchain.programs.semantics import count_links
from moot.offchain.providers.behaviour import Behaviour, Patch
from moot.offchain.providers.catalogue import ALL_CHEATS
from moot.offchain.providers.log_cheats import LOG_MAKERS
from moot.offchain.providers.task import Task

LEARNING_RATE_FACTOR = np.float32(1.5)


def flip_bit(array: Array, element: int, bit: int) -> Array:
    """Return a copy of a tensor with one bit of one element flipped."""
    changed = array.copy()
    width = changed.dtype.itemsize
    raw = changed.reshape(-1).view(np.uint8)
    raw[element * width + bit // 8] ^= np.uint8(1 << bit % 8)
    return raw.view(changed.dtype).reshape(changed.shape)


def _keep(old: Array) -> Callable[[Array], Array]:
    """Return what gives an old tensor in the place of an output."""
    return lambda _: old


@dataclass(eq=False)
class WrongOutput(Behaviour):
    """Flips one bit of one element of one operator's output, in one step.

    When the element is a fold, the lie enters at accumulator `position` + 1 and stays; the last
    position is that of the step which finishes the fold, where that is one.
    """

    name = "wrong-output"
    step: int
    operator: int
    element: int
    bit: int
    position: int

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Tamper with the one output."""
        del state
        if step != self.step:
            return None
        return {self.operator: lambda output: flip_bit(output, self.element, self.bit)}

    def alter_partials(self, step: int, operator: int, element: int, partials: Array) -> Array:
        """Jump from the honest accumulators to the claimed one."""
        if (step, operator, element) != (self.step, self.operator, self.element):
            return partials
        lie = flip_bit(partials[-1:], 0, self.bit)
        return np.concatenate([partials[: self.position + 1], np.repeat(lie, len(partials))])[
            : len(partials)
        ]


@dataclass(eq=False)
class SkippedStep(Behaviour):
    """Claims that one step changes nothing."""

    name = "skipped-step"
    step: int
    first_sink: int = field(default=0, repr=False)

    def bind(self, program: Program) -> None:
        """Find the sinks."""
        self.first_sink = program.first_sink

    def skips(self, step: int) -> bool:
        """Whether a step is left out."""
        return step == self.step

    def count_steps(self, steps: int, checkpoint_every: int) -> int:
        """Return how many steps are not left out."""
        del checkpoint_every
        return sum(not self.skips(step) for step in range(steps))

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Let every sink give back the old tensor."""
        if not self.skips(step):
            return None
        return {self.first_sink + slot: _keep(old) for slot, old in enumerate(state)}


@dataclass(eq=False)
class EarlyStop(SkippedStep):
    """Stops before a step and claims its state for all that follow."""

    name = "early-stop"

    def skips(self, step: int) -> bool:
        """Whether a step is left out."""
        return step >= self.step


@dataclass(eq=False)
class StaleOptimizer(Behaviour):
    """Does not update the optimizer's state in one step."""

    name = "stale-optimizer"
    step: int
    program: Program | None = field(default=None, repr=False)

    def bind(self, program: Program) -> None:
        """Find the sinks of the optimizer."""
        self.program = program

    def patch(self, step: int, state: Sequence[Array]) -> Patch | None:
        """Let the optimizer's sinks give back the old tensors."""
        program = self.program
        if step != self.step or program is None:
            return None
        return {
            program.first_sink + slot: _keep(state[slot])
            for slot, each in enumerate(program.state)
            if each.name.startswith("optimizer.")
        }


@dataclass(eq=False)
class PoisonedBatch(Behaviour):
    """Trains one step on data of its own: one bit of the batch is flipped."""

    name = "poisoned-batch"
    step: int
    slot: int
    element: int
    bit: int

    def alter_batch(self, step: int, batch: Sequence[Array]) -> Sequence[Array]:
        """Poison the batch."""
        poisoned = list(batch)
        if step == self.step:
            poisoned[self.slot] = flip_bit(poisoned[self.slot], self.element, self.bit)
        return poisoned


@dataclass(eq=False)
class WrongStart(Behaviour):
    """Claims the agreed start, but trains from another: one bit of one tensor is flipped."""

    name = "wrong-start"
    slot: int
    element: int
    bit: int

    def alter_state(self, step: int, state: Sequence[Array]) -> Sequence[Array]:
        """Start elsewhere."""
        started = list(state)
        if step == 0:
            started[self.slot] = flip_bit(started[self.slot], self.element, self.bit)
        return started


@dataclass(eq=False)
class WrongLearningRate(Behaviour):
    """Runs another optimizer: the constants of its operators are half as large again."""

    name = "wrong-learning-rate"

    def alter_program(self, program: Program) -> Program:
        """Scale the learning rate."""
        nodes = list(program.nodes)
        for index in find_learning_rates(program):
            nodes[index] = _scale_constants(nodes[index])
        return replace(program, nodes=tuple(nodes))


def find_learning_rates(program: Program) -> list[int]:
    """Return the maps whose constant is a learning rate: the last scaling before each update."""
    found = set()
    for slot, sink in zip(program.state, program.nodes[program.first_sink :], strict=True):
        if slot.name.startswith("parameter."):
            index = _find_scaling(program, sink.operands[0].reference)
            if index is not None:
                found.add(index)
    return sorted(found)


def _find_scaling(program: Program, update: int) -> int | None:
    """Return the nearest map with a constant among an update's subtrahend and its operands."""
    frontier = [update]
    while frontier:
        following: list[int] = []
        for index in frontier:
            node = program.nodes[index]
            if node.kind is Kind.MAP and index != update and _has_float_constant(node):
                return index
            if node.kind in (Kind.MAP, Kind.MOVE):
                following += node.inputs[::-1]
        frontier = following
    return None


def _has_float_constant(node: Node) -> bool:
    return any(o.origin is Origin.IMMEDIATE and o.dtype is DType.FLOAT32 for o in node.operands)


def _scale_constants(node: Node) -> Node:
    def scale(operand: Operand) -> Operand:
        if operand.origin is not Origin.IMMEDIATE or operand.dtype is not DType.FLOAT32:
            return operand
        value = np.array(operand.value, np.uint32).view(np.float32) * LEARNING_RATE_FACTOR
        return replace(operand, value=int(value.view(np.uint32)))

    return replace(node, operands=tuple(map(scale, node.operands)))


@dataclass(eq=False)
class GarbageRoot(Behaviour):
    """Claims a final state that nobody computed: 32 random bytes."""

    name = "garbage-root"
    root: Digest

    def count_steps(self, steps: int, checkpoint_every: int) -> int:
        """Return how many steps there are up to the last checkpoint but one."""
        return (steps - 1) // checkpoint_every * checkpoint_every

    def alter_history(self, roots: Sequence[Digest]) -> Sequence[Digest]:
        """Replace the last state's root."""
        return [*roots[:-1], self.root]


@dataclass(eq=False)
class Silent(GarbageRoot):
    """Claims a final state that nobody computed, and never moves."""

    name = "silent"
    plays = False

    def count_steps(self, steps: int, checkpoint_every: int) -> int:
        """Return 0: what is never shown need not be known."""
        del steps, checkpoint_every
        return 0


@dataclass(eq=False)
class FalseFlag(Behaviour):
    """Posts the honest root and defends it badly: its traces begin with 32 random bytes."""

    name = "false-flag"
    leaf: Digest

    def alter_trace(self, step: int, leaves: Sequence[Digest]) -> Sequence[Digest]:
        """Spoil the trace."""
        del step
        return [self.leaf, *leaves[1:]]


class Lazy(EarlyStop):
    """Runs nothing: claims the start state as the state after every step."""

    name = "lazy"


class Settings:
    """Reads a cheat's settings: what is given is checked, what is left out is drawn."""

    def __init__(self, values: Mapping[str, str], task: Task, rng: np.random.Generator) -> None:
        self._values = dict(values)
        self.task = task
        self.rng = rng

    def integer(self, key: str, bound: int, default: int | None = None) -> int:
        """Return a setting in [0, bound); the default instead of a draw when there is one."""
        text = self._values.pop(key, None)
        if text is None and default is not None:
            return default
        if bound < 1:
            raise UsageError(f"there is no {key} to tamper with")
        if text is None:
            return int(self.rng.integers(bound))
        try:
            value = int(text)
        except ValueError:
            raise UsageError(f"{key}={text} is not a whole number") from None
        if not 0 <= value < bound:
            raise UsageError(f"{key}={value} is outside 0 to {bound - 1}")
        return value

    def copy(self) -> "Settings":
        """Return the settings that are left, to be read again with other draws."""
        return Settings(self._values, self.task, self.rng)

    def has(self, *keys: str) -> bool:
        """Whether all of these settings are given."""
        return all(key in self._values for key in keys)

    def operator(self, default: int | None = None) -> int:
        """Return the setting `operator`: a node's name or index; the default instead of a draw."""
        program = self.task.program
        text = self._values.pop("operator", None)
        if text is None and default is not None:
            return default
        if text is None:
            filled = [i for i, node in enumerate(program.nodes) if node.elements]
            return int(filled[self.rng.integers(len(filled))])
        if text.isdigit() and int(text) < len(program.nodes):
            return int(text)
        if text not in program.names:
            raise UsageError.unknown("operator", text, program.names)
        return program.names.index(text)

    def word(self, key: str) -> Digest:
        """Return 32 bytes."""
        text = self._values.pop(key, None)
        if text is not None:
            try:
                return bytes.fromhex(text).rjust(32, b"\0")[-32:]
            except ValueError:
                raise UsageError(f"{key}={text} is not hexadecimal") from None
        return self.rng.bytes(32)


def get_bits(dtype: DType) -> int:
    """Return the number of bits of an element that may differ."""
    return 1 if dtype is DType.BOOL else 8 * dtype.width


def _make_wrong_output(settings: Settings) -> Behaviour:
    step = settings.integer("step", settings.task.steps)
    operator = settings.operator()
    node = settings.task.program.nodes[operator]
    return WrongOutput(
        step,
        operator,
        settings.integer("element", node.elements),
        settings.integer("bit", get_bits(node.dtype)),
        settings.integer("position", max(1, count_links(settings.task.program.arithmetic, node))),
    )


def _make_poisoned_batch(settings: Settings) -> Behaviour:
    slots = settings.task.program.batch
    if not slots:
        raise UsageError("poisoned-batch needs a program that takes data")
    step = settings.integer("step", settings.task.steps)
    index = settings.integer("slot", len(slots))
    slot = slots[index]
    element = settings.integer("element", slot.elements)
    return PoisonedBatch(step, index, element, settings.integer("bit", _low_bits(slot.dtype)))


def _low_bits(dtype: DType) -> int:
    """Return the bits of a datum that may be flipped so that an index stays small."""
    return 2 if dtype in {DType.INT64, DType.INT32} else get_bits(dtype)


def _make_wrong_start(settings: Settings) -> Behaviour:
    slots = settings.task.program.state
    trained = [i for i, s in enumerate(slots) if s.name.startswith("parameter.") and s.elements]
    default = int(settings.rng.choice(trained))
    index = settings.integer("slot", len(slots), default)
    element = settings.integer("element", slots[index].elements)
    return WrongStart(index, element, settings.integer("bit", get_bits(slots[index].dtype)))


def _make_stale_optimizer(settings: Settings) -> Behaviour:
    if not any(s.name.startswith("optimizer.") for s in settings.task.program.state):
        raise UsageError("stale-optimizer needs a program whose optimizer has a state")
    return StaleOptimizer(settings.integer("step", settings.task.steps))


def _make_wrong_learning_rate(settings: Settings) -> Behaviour:
    if not find_learning_rates(settings.task.program):
        raise UsageError("wrong-learning-rate needs a program that trains")
    return WrongLearningRate()


_Maker = Callable[[Settings], Behaviour]
_MAKERS: Mapping[str, _Maker] = {
    "wrong-output": _make_wrong_output,
    "skipped-step": lambda s: SkippedStep(s.integer("step", s.task.steps)),
    "poisoned-batch": _make_poisoned_batch,
    "wrong-learning-rate": _make_wrong_learning_rate,
    "stale-optimizer": _make_stale_optimizer,
    "wrong-start": _make_wrong_start,
    "early-stop": lambda s: EarlyStop(s.integer("step", s.task.steps)),
    "garbage-root": lambda s: GarbageRoot(s.word("root")),
    "silent": lambda s: Silent(s.word("root")),
    "false-flag": lambda s: FalseFlag(s.word("leaf")),
    "lazy": lambda _: Lazy(step=0),
    **LOG_MAKERS,
}
assert tuple(_MAKERS) == tuple(ALL_CHEATS)


def parse_cheat(text: str) -> tuple[str, dict[str, str]]:
    """Split `name:key=value,key=value` and check the names."""
    name, _, rest = text.partition(":")
    if name not in ALL_CHEATS:
        raise UsageError.unknown("cheat", name, ("none", *ALL_CHEATS))
    values = {}
    for piece in filter(None, rest.split(",")):
        key, equals, value = piece.partition("=")
        if not equals:
            raise UsageError(f"{piece!r} is not of the form key=value")
        if key not in ALL_CHEATS[name].settings:
            raise UsageError.unknown(f"key of {name}", key, ALL_CHEATS[name].settings)
        if key in values:
            raise UsageError(f"{key} is given twice")
        values[key] = value
    return name, values


def make_cheat(text: str, task: Task, rng: np.random.Generator) -> Behaviour:
    """Return the behaviour that a cheat's text asks for, drawing what it leaves out."""
    name, values = parse_cheat(text)
    return _MAKERS[name](Settings(values, task, rng))
