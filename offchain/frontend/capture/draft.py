"""Drafts: programs of one whole step of a recipe that were not yet compared with torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch.fx import GraphModule

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.commitments.tensors import NUMPY_TYPES, Array
from moot.offchain.errors import UsageError
from moot.offchain.frontend.capture.keeping import remember_parts
from moot.offchain.frontend.exchange import to_array
from moot.offchain.frontend.lowering.builder import Builder, RefusalError, identity
from moot.offchain.frontend.lowering.graph import TORCH_TYPES, GraphLowering, meta_of, refusal
from moot.offchain.frontend.lowering.views import View
from moot.offchain.frontend.parts import check_call, check_parts
from moot.offchain.frontend.quantization import has_parts
from moot.offchain.frontend.recipe import (
    Recipe,
    TrainingRecipe,
    check_modules,
    count_batches,
    name_batch,
)
from moot.offchain.frontend.routes import PLAIN, check_memory
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import Record, flatten, get_initial_state, record
from moot.offchain.frontend.updates import check_optimizer
from moot.offchain.programs.graph import Kind, Node, Origin, Program, Slot
from moot.offchain.programs.legality import check_program
from moot.offchain.programs.limits import MAX_RANK
from moot.offchain.text import show

Key = TypeVar("Key")

_EXACT = frozenset(
    {
        *(Function.COPY, Function.WHERE, Function.CONVERT, Function.MAX, Function.MIN),
        *(Function.NEG, Function.ABS, Function.FLOOR, Function.CEIL, Function.TRUNC),
        *(Function.ROUND, Function.UNIFORM),
    }
)
"""Functions of float32 numbers that round nothing away that torch would not round away too."""

_NEIGHBOUR = 2.0**13
"""The error of a number that is rounded to bfloat16, in units of 2^-24.

Two computations that round almost the same number come to the same one, or to neighbours, which are
at most 2^-7 apart, relative to them; with the rehearsal's slack this is about that much.
"""

OF_MODEL = ("parameter.", "buffer.")
"""What the names of a model's tensors begin with."""

_ROUNDING_FOLDS = frozenset({Function.ADD, Function.FMA, Function.MUL})


class OwnError(NamedTuple):
    """The rounding error that an operator itself may make, in units of 2^-24.

    Attributes:
        result: relative to an element of its result.
        operands: relative to each element of its operands: the root of the length of its folds.
    """

    result: float
    operands: float


@dataclass(frozen=True, slots=True)
class Draft:
    """A program, with the facts that a comparison with torch needs.

    Attributes:
        program: the whole step.
        initial_state: the state before step 0, in the order of the program's slots.
        constants: the tensors of it that are constants of the traced step.
        graph: the traced step, (state, batch) -> (state, outputs, gradients).
        results: the names of the traced step's results, in order.
        values: the results that the program computes, by name, as views of its operators.
        draws: the results of draws, by their number, and of the traced operators that draw, by
            name, likewise.
        errors: how far each operator of the traced step may be off, in units of 2^-24.
        absent: the parameters for which torch has no gradient in some steps; it is 0 then.
    """

    program: Program
    initial_state: list[Array]
    constants: Sequence[Array]
    graph: GraphModule
    results: tuple[str, ...]
    values: Mapping[str, View]
    draws: Mapping[int | str, Mapping[int, View]]
    errors: Mapping[str, OwnError]
    absent: Sequence[str]


class Start(NamedTuple):
    """A recipe before its first step, and that step as autograd has left it.

    Attributes:
        subject: the recipe's, which knows what parameters need counters of their own.
        state: copies of the tensors of the state, by name.
        slots: their slots.
        batch: the tensors of the first batch.
        inputs: their slots.
        record: the step.
    """

    subject: Subject
    state: Mapping[str, torch.Tensor]
    slots: tuple[Slot, ...]
    batch: Sequence[torch.Tensor]
    inputs: tuple[Slot, ...]
    record: Record


def check_recipe(recipe: Recipe) -> Subject:
    """Return the subject that a recipe is, checked before anything of it is copied or run.

    Raises:
        CaptureError: a tensor of the model is of no type, size or place that a program can express.
        UsageError: a part of it is of the wrong kind, or the optimizer has steps that a program
            can't have.
    """
    check_modules(recipe.model)
    subject = Subject.of(recipe)
    check_parts(subject)
    if isinstance(recipe, TrainingRecipe):
        _check_updates(subject)
    make_slots(subject.tensors)
    check_memory(subject.tensors)
    return subject


def _check_updates(subject: Subject) -> None:
    """Refuse optimizers and schedulers; a scheduler may keep nothing where its copy keeps it, too.

    Raises:
        UsageError: one is refused.
    """
    parts = None if subject.training.scheduler is None else remember_parts(subject)
    check_optimizer(subject)
    if parts is None:
        return
    changes = parts.list_changed_objects()
    parts.restore()
    for change in changes:
        raise UsageError(
            f"{change.path}: stepping a copy of the scheduler changes it from {show(change.before)}"
            f" to {show(change.after)}; let a scheduler depend on the number of its step alone"
        )


def check_batch(recipe: Recipe, batch: Sequence[torch.Tensor]) -> tuple[Slot, ...]:
    """Return the slots of a batch.

    Raises:
        CaptureError: the arithmetic has none of its type.
        UsageError: the recipe's function can't be called with it.
    """
    check_call(recipe, len(batch) // count_batches(recipe))
    return make_slots(dict(zip(name_batch(recipe, len(batch)), batch, strict=True)))


def make_start(
    subject: Subject,
    batch: Sequence[torch.Tensor],
    copies: Mapping[int, torch.Tensor] = MappingProxyType({}),
) -> Start:
    """Return a recipe's start and its first step, traced on a batch.

    Args:
        subject: the recipe's.
        batch: the first batch.
        copies: copies of tensors of the model, by `id`, which the state may consist of.

    Raises:
        CaptureError: the model does something that a program cannot express.
        UsageError: the recipe makes no sense: its batch, its groups.
    """
    start = _trace(subject, batch, copies)
    apart = start.record.apart
    return _trace(replace(subject, apart=apart), batch, copies) if apart else start


def _trace(
    subject: Subject, batch: Sequence[torch.Tensor], copies: Mapping[int, torch.Tensor]
) -> Start:
    state = get_initial_state(subject, copies)
    slots, inputs = make_slots(state), check_batch(subject.recipe, batch)
    return Start(subject, state, slots, batch, inputs, record(subject, state, batch, {}))


def make_draft(start: Start, arithmetic: Arithmetic) -> Draft:
    """Return the program of one step of a recipe, in an arithmetic.

    Raises:
        CaptureError: the model does something that a program cannot express.
    """
    recipe, known, inputs = start.subject.recipe, start.slots, start.inputs
    graph = flatten(start.record, start.state, start.batch)
    builder = Builder(recipe.seed, len(known), arithmetic)
    sources = [
        builder.source(slot, origin, index)
        for origin, slots in ((Origin.STATE, known), (Origin.BATCH, inputs))
        for index, slot in enumerate(slots)
    ]
    lowering = GraphLowering(builder, graph)
    results = lowering.run(sources)
    count = len(results) - len(start.record.gradients)
    new, returned = results[: len(known)], results[len(known) : count]
    _check_kept(known, new)
    constants = [builder.tensor(array) for array in builder.constants]
    outputs = _name_outputs(returned, is_training=isinstance(recipe, TrainingRecipe))
    program, number = _assemble(
        builder,
        (*known, *builder.constant_slots, *outputs),
        inputs,
        [*new, *constants, *returned],
        arithmetic,
    )
    names = [slot.name for slot in (*known, *outputs)]
    names += [f"gradient.{name}" for name in start.record.gradients]
    return Draft(
        program,
        make_initial_state(program, start.state, builder.constants),
        builder.constants,
        graph,
        tuple(names),
        _follow(dict(zip(names, results, strict=True)), number),
        {draw: _follow(dict(enumerate(views)), number) for draw, views in lowering.draws.items()},
        {name: _measure(builder.nodes[a:b]) for name, (a, b) in lowering.spans.items()},
        start.record.absent,
    )


def make_initial_state(
    program: Program, state: Mapping[str, torch.Tensor], constants: Sequence[Array]
) -> list[Array]:
    """Return a program's state before step 0: the recipe's, constants, and zeros for outputs."""
    initial: list[Array] = [*map(to_array, state.values()), *constants]
    outputs = program.state[len(initial) :]
    return [*initial, *(np.zeros(slot.shape, NUMPY_TYPES[slot.dtype]) for slot in outputs)]


def make_slots(tensors: Mapping[str, torch.Tensor]) -> tuple[Slot, ...]:
    """Return the slots of named tensors; `CaptureError` where the arithmetic has none."""
    slots = []
    for name, tensor in tensors.items():
        try:
            slots.append(Slot(name, *meta_of(tensor)))
        except RefusalError as error:
            raise refusal(f"{error}{_advise(name, tensor)}", name, "") from error
        if type(tensor) not in PLAIN and name.startswith(OF_MODEL):
            kind, instead = type(tensor).__name__, "give a plain tensor"
            if has_parts(tensor):
                instead = "call moot.unwrap(model) first, which holds its plain tensors"
            raise refusal(f"a {kind}; {instead}", name, "")
        if tensor.ndim > MAX_RANK:
            raise refusal(f"{tensor.ndim} dimensions; at most {MAX_RANK} are allowed", name, "")
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            place = f"a {tensor.layout} tensor on {tensor.device}".replace("torch.", "")
            raise refusal(f"{place}; give dense tensors in the processor's memory", name, "")
    return tuple(slots)


def _advise(name: str, tensor: torch.Tensor) -> str:
    """Return what to do about a tensor whose type is refused."""
    if tensor.dtype in TORCH_TYPES:
        return ""
    if tensor.is_complex():
        return "; hold it as a real tensor of shape (..., 2), and call torch.view_as_complex on it"
    if tensor.is_floating_point():
        is_of_model = name.startswith(OF_MODEL)
        return "; call model.float() first" if is_of_model else "; convert it by .float()"
    if name.startswith("parameter."):
        return "; make a parameter of float32 of it, by .float()"
    return "; convert numbers by .float(), indices by .long(), a mask by .bool()"


def _check_kept(slots: Sequence[Slot], views: Sequence[View]) -> None:
    """Refuse a step after which a tensor of the state has another type or shape."""
    for slot, view in zip(slots, views, strict=True):
        if (view.dtype, view.shape) != (slot.dtype, slot.shape):
            after, before = (f"{x.dtype.name.lower()} {x.shape}" for x in (view, slot))
            raise refusal(f"{after} after the step, {before} before it; keep it", slot.name, "")


def _name_outputs(views: Sequence[View], *, is_training: bool) -> tuple[Slot, ...]:
    names = ["output.loss"] if is_training else [f"output.{k}" for k in range(len(views))]
    return tuple(
        Slot(name, view.dtype, view.shape) for name, view in zip(names, views, strict=True)
    )


def _assemble(
    builder: Builder,
    state: tuple[Slot, ...],
    batch: tuple[Slot, ...],
    final: Sequence[View],
    arithmetic: Arithmetic,
) -> tuple[Program, dict[int, int]]:
    """Add the sinks, drop what no sink needs, and check the program.

    Returns:
        The program, and the new number of each operator that is left.
    """
    builder.begin("constant", "")
    views = [view if view.node is not None else builder.move(view) for view in final]
    operands = [builder.operand(view, identity(view.shape), view.shape) for view in views]
    nodes, names, lines = list(builder.nodes), list(builder.names), list(builder.lines)
    for slot, operand in zip(state, operands, strict=True):
        nodes.append(Node(Kind.SINK, Function.COPY, slot.dtype, slot.shape, (operand,)))
        names.append(f"next:{slot.name}")
        lines.append("")
    kept = _find_needed(nodes, len(state))
    number = {old: new for new, old in enumerate(kept)}
    program = Program(
        state,
        batch,
        tuple(_renumber(nodes[i], number) for i in kept),
        tuple(names[i] for i in kept),
        tuple(lines[i] for i in kept),
        arithmetic,
    )
    check_program(program)
    return program, number


def _find_needed(nodes: Sequence[Node], sinks: int) -> list[int]:
    """Return the indices of the sinks and of all operators that they depend on, ascending."""
    needed = set(range(len(nodes) - sinks, len(nodes)))
    for index in reversed(range(len(nodes))):
        if index in needed:
            needed.update(nodes[index].inputs)
    return sorted(needed)


def _renumber(node: Node, number: Mapping[int, int]) -> Node:
    operands = tuple(
        replace(o, reference=number[o.reference]) if o.origin is Origin.NODE else o
        for o in node.operands
    )
    return replace(node, operands=operands)


def _follow(views: Mapping[Key, View], number: Mapping[int, int]) -> dict[Key, View]:
    """Return the views of operators that are left, and of constants, under the new numbers."""
    return {
        name: view if view.node is None else replace(view, node=number[view.node], short=None)
        for name, view in views.items()
        if view.node is None or view.node in number
    }


def _measure(nodes: Sequence[Node]) -> OwnError:
    """Return the error of operators that come from one of torch's."""
    folds = [
        node.fold_length
        for node in nodes
        if node.kind.folds and node.function in _ROUNDING_FOLDS and node.dtype is DType.FLOAT32
    ]
    rounds = any(
        node.kind is Kind.MAP and node.dtype is DType.FLOAT32 and node.function not in _EXACT
        for node in nodes
    )
    narrows = any(
        node.function is Function.CONVERT
        and node.dtype is DType.BFLOAT16
        and node.operands[0].dtype is DType.FLOAT32
        for node in nodes
    )
    own = _NEIGHBOUR if narrows else float(rounds)
    return OwnError(own, sqrt(max(folds)) if folds else 0.0)
