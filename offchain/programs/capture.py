"""Capture: from a recipe to the program of one whole step and the state that it starts from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from offchain.arithmetic.functions import Function
from offchain.commitments.tensors import NUMPY_TYPES, Array
from offchain.errors import CaptureError, UsageError
from offchain.programs.environment import standard_torch
from offchain.programs.graph import Kind, Node, Origin, Program, Slot
from offchain.programs.legality import check_program
from offchain.programs.limits import MAX_RANK
from offchain.programs.lowering.builder import Builder, RefusalError, identity
from offchain.programs.lowering.graph import TORCH_TYPES, GraphLowering, meta_of, refusal
from offchain.programs.lowering.views import View
from offchain.programs.recipe import Recipe, TrainingRecipe, get_batch, name_batch
from offchain.programs.tracing import get_initial_state, name_tensors, trace


@dataclass(frozen=True, slots=True)
class Captured:
    """A program with what it runs on.

    Attributes:
        program: the whole step.
        initial_state: the state before step 0, in the order of the program's slots.
        batch: returns the batch of a step, in the order of the program's slots.
    """

    program: Program
    initial_state: list[Array]
    batch: Callable[[int], list[Array]]


@standard_torch()
def capture(recipe: Recipe) -> Captured:
    """Return the program of one step of a recipe; the recipe's model is left as it is.

    Raises:
        CaptureError: the model does something that a program cannot express.
        UsageError: the recipe makes no sense: its seed, its batch, its groups.
    """
    if not 0 <= recipe.seed < 1 << 64:
        raise UsageError(f"the seed is {recipe.seed}; choose one of at most 64 bits, not negative")
    _make_slots(name_tensors(recipe.model))  # refused before anything is copied
    state = get_initial_state(recipe)
    batch = get_batch(recipe, 0)
    known = _make_slots(state)
    inputs = _make_slots(dict(zip(name_batch(recipe, len(batch)), batch, strict=True)))
    graph = trace(recipe, state, batch)
    builder = Builder(recipe.seed, len(known))
    sources = [
        builder.source(slot, origin, index)
        for origin, slots in ((Origin.STATE, known), (Origin.BATCH, inputs))
        for index, slot in enumerate(slots)
    ]
    results = GraphLowering(builder, graph).run(sources)
    new, returned = results[: len(known)], results[len(known) :]
    _check_kept(known, new)
    constants = [builder.tensor(array) for array in builder.constants]
    outputs = _name_outputs(returned, is_training=isinstance(recipe, TrainingRecipe))
    program = _assemble(
        builder, (*known, *builder.constant_slots, *outputs), inputs, [*new, *constants, *returned]
    )
    initial: list[Array] = [tensor.numpy() for tensor in state.values()]
    initial += [*builder.constants, *(np.zeros(s.shape, NUMPY_TYPES[s.dtype]) for s in outputs)]
    return Captured(program, initial, _bind_batch(recipe, inputs))


def _make_slots(tensors: Mapping[str, torch.Tensor]) -> tuple[Slot, ...]:
    slots = []
    for name, tensor in tensors.items():
        try:
            slots.append(Slot(name, *meta_of(tensor)))
        except RefusalError as error:
            raise refusal(f"{error}{_advise(name, tensor)}", name, "") from error
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
        return "; keep its real and its imaginary part"
    is_of_model = name.startswith(("parameter.", "buffer."))
    if tensor.is_floating_point():
        return "; call model.float() first" if is_of_model else "; convert it by .float()"
    return "; convert it by .long()"


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
    builder: Builder, state: tuple[Slot, ...], batch: tuple[Slot, ...], final: Sequence[View]
) -> Program:
    """Add the sinks, drop what no sink needs, and check the program."""
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
    )
    check_program(program)
    return program


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


def _bind_batch(recipe: Recipe, slots: tuple[Slot, ...]) -> Callable[[int], list[Array]]:
    @standard_torch()
    def batch(step: int) -> list[Array]:
        tensors = get_batch(recipe, step)
        found = [(t.dtype, tuple(t.shape)) for t in tensors]
        arrays: list[Array] = [np.asarray(t.numpy(), order="C") for t in tensors]
        wanted = [(NUMPY_TYPES[s.dtype], s.shape) for s in slots]
        if [(a.dtype, a.shape) for a in arrays] != wanted:
            raise CaptureError(
                f"the batch of step {step} is {found}, but that of step 0 made the program; "
                "give all batches the same shapes and types"
            )
        return arrays

    return batch
