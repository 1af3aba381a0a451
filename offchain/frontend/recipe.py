"""Recipes: the descriptions from which users have programs captured."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.optim.lr_scheduler import LRScheduler

from moot.offchain.errors import UsageError
from moot.offchain.frontend.clipping import Clip
from moot.offchain.frontend.exchange import NARROW
from moot.offchain.frontend.forms import Form, list_tensors, make_form
from moot.offchain.frontend.optimizers import Group, Optimizer
from moot.offchain.frontend.quantization import INSTEAD
from moot.offchain.frontend.schedules import require_count
from moot.offchain.text import name_kind

_QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")

Batch = Callable[[int], Any]
"""Returns the batch of a step: a function of its number alone, of shapes that never change.

A plain tuple or list has the arguments of a recipe's function after the model; anything else, a
dictionary or one tensor, is the one argument.
"""


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """A model that learns: each step computes the loss of one batch and updates the parameters.

    Attributes:
        model: any module; its parameters and buffers at capture are the initial state. Parameters
            that require no gradient are frozen.
        loss: called with the model and the batch; returns one float32 number, or what has it as
            `loss`.
        optimizer: how gradients change parameters; groups give parameters optimizers of their own.
            Objects of torch's, new and given the model's parameters, one or a list of them: those
            of `torch.optim` are translated, others are traced as they are.
        batch: returns the batch of a step.
        seed: key of dropout's random numbers, 64 bits.
        clip: limits the gradients before the optimizer sees them.
        accumulate: batches of a step. Each has a forward and a backward pass of its own, one after
            the other, as buffers and random numbers see; the gradients, and the losses, are summed
            in that order and divided by their number. Step s takes the batches from
            s * accumulate on.
        scheduler: a scheduler of torch, or several, which are stepped after each update; for
            optimizers of torch. What it makes of the rates is part of the program.
        form: the form of batches that are no tuples of tensors; `find_form` finds it.

    Example:
        >>> import moot, torch
        >>> model = torch.nn.Linear(4, 1)
        >>> recipe = moot.TrainingRecipe(
        ...     model,
        ...     loss=lambda model, x, y: ((model(x) - y) ** 2).mean(),
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     batch=lambda step: (torch.full((2, 4), step + 1.0), torch.zeros(2, 1)),
        ... )
        >>> [slot.name for slot in moot.capture(recipe).program.batch]
        ['x', 'y']
    """

    model: torch.nn.Module
    loss: Callable[..., Any]
    optimizer: Optimizer | Sequence[Group] | torch.optim.Optimizer | Sequence[torch.optim.Optimizer]
    batch: Batch
    seed: int = 0
    clip: Clip | None = None
    accumulate: int = 1
    scheduler: LRScheduler | Sequence[LRScheduler] | None = None
    form: Form | None = None

    def __post_init__(self) -> None:
        require_count("the number of batches that a step accumulates", self.accumulate, 1)


@dataclass(frozen=True, slots=True)
class InferenceRecipe:
    """A model that answers: each step computes the outputs of one batch.

    Attributes:
        model: any module; its parameters and buffers at capture are the initial state. What the
            forward pass writes to a buffer is there at the next step.
        forward: called with the model and the batch; returns one tensor or several, in
            containers of any form.
        batch: returns the batch of a step.
        seed: key of dropout's random numbers, 64 bits.
        form: the form of batches that are no tuples of tensors; `find_form` finds it.

    Example:
        >>> import moot, torch
        >>> recipe = moot.InferenceRecipe(
        ...     torch.nn.Linear(4, 1),
        ...     forward=lambda model, x: model(x),
        ...     batch=lambda step: (torch.full((2, 4), step + 1.0),),
        ... )
        >>> moot.Task(recipe, steps=1).agreed.steps
        1
    """

    model: torch.nn.Module
    forward: Callable[..., Any]
    batch: Batch
    seed: int = 0
    form: Form | None = None


Recipe = TrainingRecipe | InferenceRecipe


def check_model(model: object) -> None:
    """Refuse what is no module of plain Python, or is not complete.

    Raises:
        UsageError: it is none.
    """
    module = check_modules(model)
    check_shapes([*module.named_parameters(), *module.named_buffers()])


def check_modules(model: object) -> torch.nn.Module:
    """Return a model, where it is a module of plain Python.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"the model is {name_kind(model)}; give a torch.nn.Module")
    for name, module in model.named_modules():
        place = f"the module {name}" if name else "the model"
        if isinstance(module, torch.jit.ScriptModule):
            raise UsageError(f"{place} is scripted; give the module that the script was made of")
        if _is_compiled(module):
            raise UsageError(f"{place} is compiled; give it as it was before torch.compile")
        if type(module).__module__.startswith(_QUANTIZED):
            raise UsageError(f"{place} is quantized; {INSTEAD}")
    return model


def check_shapes(tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Refuse parameters and buffers, which come with their names, that have no shape yet.

    Raises:
        UsageError: there is one.
    """
    for name, tensor in tensors:
        if is_lazy(tensor):
            raise UsageError(f"{name} has no shape yet; call the model once before you give it")


def _is_compiled(module: torch.nn.Module) -> bool:
    return hasattr(module, "_orig_mod") or module._compiled_call_impl is not None  # noqa: SLF001 - torch names it no other way


def get_function(recipe: Recipe) -> Callable[..., Any]:
    """Return the function that a step calls with the model and the tensors of a batch."""
    return recipe.loss if isinstance(recipe, TrainingRecipe) else recipe.forward


def count_batches(recipe: Recipe) -> int:
    """Return how many batches a step takes."""
    return recipe.accumulate if isinstance(recipe, TrainingRecipe) else 1


def find_form(recipe: Recipe) -> Recipe:
    """Return a recipe that knows the form of its batches.

    Raises:
        UsageError: there is something in batches that is no tensor.
    """
    return _take_form(recipe, recipe.batch(0))


def take_first(recipe: Recipe) -> tuple[Recipe, tuple[torch.Tensor, ...]]:
    """Return a recipe that knows the form of its batches, and the tensors of the first step.

    Each batch of the step is asked for once. Errors are those of `find_form` and `get_batch`.
    """
    first = recipe.batch(0)
    recipe = _take_form(recipe, first)
    batches, count = recipe.batch, count_batches(recipe)
    return recipe, join_batches(lambda k: batches(k) if k else first, count, recipe.form, 0)


def _take_form(recipe: Recipe, first: Any) -> Recipe:
    """Return a recipe that knows the form of its batches by the first one."""
    is_plain = type(first) in (tuple, list)
    if is_plain and all(isinstance(it, torch.Tensor) and it.dtype not in NARROW for it in first):
        return recipe
    return replace(recipe, form=make_form(first, 0))


def list_arguments(batch: Any) -> Sequence[Any]:
    """Return the arguments of a recipe's function that a batch is."""
    return batch if type(batch) in (tuple, list) else (batch,)


def get_batch(recipe: Recipe, step: int) -> tuple[torch.Tensor, ...]:
    """Return the tensors of all batches of a step, one batch after the other.

    Each is an object of its own, which a tracing tells inputs apart by: a batch may hold a tensor
    twice.

    Raises:
        UsageError: a batch is not a tuple of tensors, and the recipe knows no other form.
        CaptureError: a batch has another form than the first.
    """
    return join_batches(recipe.batch, count_batches(recipe), recipe.form, step)


def join_batches(
    batches: Batch, count: int, form: Form | None, step: int
) -> tuple[torch.Tensor, ...]:
    """Return the tensors of all batches of a step that has so many, as `get_batch` does."""
    tensors: list[torch.Tensor] = []
    for number in range(step * count, (step + 1) * count):
        batch = batches(number)
        found = _list_plain(batch, number) if form is None else list_tensors(batch, form, number)
        tensors += [tensor.detach() for tensor in found]
    return tuple(tensors)


def _list_plain(batch: Any, number: int) -> Sequence[torch.Tensor]:
    """Return a batch that is a plain tuple of tensors."""
    if not isinstance(batch, (tuple, list)):
        raise UsageError(f"batch({number}) is a {type(batch).__name__}; return a tuple of tensors")
    for tensor in batch:
        if not isinstance(tensor, torch.Tensor):
            raise UsageError(
                f"batch({number}) has a {type(tensor).__name__} in it; return tensors only"
            )
    return batch


def name_batch(recipe: Recipe, tensors: int) -> list[str]:
    """Return the names of a step's batch tensors: those of the parameters after the model.

    In containers, what leads to a tensor follows; of a batch that is one argument, that alone.
    Where a step takes several batches, the number of the batch follows.
    """
    count = count_batches(recipe)
    form = recipe.form
    paths: Sequence[tuple[str, ...]] = [(str(k),) for k in range(tensors // count)]
    paths = paths if form is None else form.names
    if form is None or type(form.skeleton) in (tuple, list):
        arguments = tensors // count if form is None else len(form.skeleton)
        parameters: list[inspect.Parameter] = []
        with suppress(ValueError):  # a function of C says nothing of its parameters
            parameters = list(inspect.signature(get_function(recipe)).parameters.values())[1:]
        known = [f"input.{k}" for k in range(arguments)]
        if len(parameters) == arguments and all(p.kind is not p.VAR_POSITIONAL for p in parameters):
            known = [p.name for p in parameters]
        paths = [(known[int(first)], *rest) for first, *rest in paths]
    names = [".".join(path) or "input.0" for path in paths]
    return (
        names if count == 1 else [f"{name}.{number}" for number in range(count) for name in names]
    )
