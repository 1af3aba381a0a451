"""Tracing: one whole step as a flat graph of ATen operators on tensors, without mutation.

The step (forward, loss, backward, optimizer, buffers) is traced twice: once through autograd, where
the user's lines are stamped on its operators, and once more through torch's functionalization and
decompositions. Nothing is computed: the tensors are fake.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._C import _get_mkldnn_enabled, _set_mkldnn_enabled
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import fake_tensor
from torch.func import functional_call, functionalize
from torch.fx import GraphModule, Interpreter
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.attention import SDPBackend, sdpa_kernel

from offchain.programs.decompositions.table import EARLY, compose, find_overload
from offchain.programs.escapes import refuse_numpy
from offchain.programs.guards import spoil
from offchain.programs.lines import LineTracker
from offchain.programs.lowering.graph import DATA_DEPENDENT, refusal
from offchain.programs.lowering.table import get_decompositions
from offchain.programs.recipe import InferenceRecipe, Recipe, TrainingRecipe
from offchain.programs.updates import make_optimizer_state, optimize

Tensors = Mapping[str, torch.Tensor]

_DATA_DEPENDENT_ERRORS = (
    GuardOnDataDependentSymNode,
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
)


class _Call(torch.nn.Module):
    """Makes a module of a function that takes the model, so that its tensors can be swapped."""

    def __init__(self, model: torch.nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.model = model
        self._function = function

    def forward(self, *batch: torch.Tensor) -> Any:
        return self._function(self.model, *batch)


def name_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a model's parameters and buffers by the names of their slots, tied ones once."""
    parameters = {f"parameter.{name}": tensor for name, tensor in model.named_parameters()}
    return parameters | {f"buffer.{name}": tensor for name, tensor in model.named_buffers()}


def get_initial_state(recipe: Recipe) -> dict[str, torch.Tensor]:
    """Return copies of the state's tensors by name, in order."""
    state = {name: _copy(tensor) for name, tensor in name_tensors(recipe.model).items()}
    if isinstance(recipe, TrainingRecipe):
        state |= make_optimizer_state(recipe)
    return state


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


class Traced(NamedTuple):
    """The graph of (state, batch) -> (state, outputs, gradients), all flat and in order.

    Attributes:
        graph: the graph; the outputs are the loss of a training step, or what an inference returns.
        gradients: the names of the parameters whose gradients it returns, before any clipping.
    """

    graph: GraphModule
    gradients: tuple[str, ...]


def trace(recipe: Recipe, state: Tensors, batch: Sequence[torch.Tensor]) -> Traced:
    """Return a step of a recipe as a graph.

    Raises:
        CaptureError: what happens in the model depends on the elements of a tensor.
    """
    tensors = (*state.values(), *batch)
    tracker = LineTracker(recipe.model)
    gradients: list[str] = []

    def step(*flat: torch.Tensor) -> list[torch.Tensor]:
        named = dict(zip(state, flat, strict=False))
        with tracker, refuse_numpy(tracker):
            return _step(recipe, named, flat[len(named) :], tracker, gradients)

    early = {find_overload(name): function for name, function in EARLY.items()}
    with _settings():
        try:
            graph = _make_graph(step, decomposition_table=early)(*tensors)
        except _DATA_DEPENDENT_ERRORS as error:
            advice = DATA_DEPENDENT + tracker.advice
            raise refusal(advice, tracker.operator, tracker.line) from error

        def replay(*flat: torch.Tensor) -> Any:
            with torch.no_grad():
                return Interpreter(graph).run(*flat)

        pure = functionalize(replay, remove="mutations")
        flat_graph = _make_graph(pure, decomposition_table=get_decompositions())(*tensors)
    flat_graph.graph.eliminate_dead_code()
    return Traced(flat_graph, tuple(gradients))


@contextmanager
def _settings() -> Iterator[None]:
    """Make torch trace what it would compute into operators that are written out.

    Node data (the lines) survive the second tracing; batch norm declares that it mutates; attention
    and recurrent layers are not fused. Torch's warnings are about its own kernels, which compute
    nothing here.
    """
    is_fused = _get_mkldnn_enabled()
    _set_mkldnn_enabled(False)
    try:
        with (
            warnings.catch_warnings(),
            fx_traceback.preserve_node_meta(),
            enable_python_dispatcher(),
            sdpa_kernel(SDPBackend.MATH),
            compose(),
        ):
            warnings.filterwarnings("ignore", module=r"torch\b")
            yield
    finally:
        _set_mkldnn_enabled(is_fused)


def _make_graph(function: Callable[..., Any], **options: Any) -> Callable[..., GraphModule]:
    return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True, **options)


def _step(
    recipe: Recipe,
    state: Tensors,
    batch: Sequence[torch.Tensor],
    tracker: LineTracker,
    names: list[str],
) -> list[torch.Tensor]:
    """Return the new state, the outputs and the gradients; add the gradients' names to `names`."""
    if isinstance(recipe, InferenceRecipe):
        with torch.no_grad():
            result, buffers = _call(recipe, recipe.forward, state, {}, batch)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if not all(isinstance(output, torch.Tensor) for output in outputs):
            found = type(result).__name__
            raise refusal(f"it returns {found}; return tensors", "forward", tracker.line)
        outputs = [_spoil(output, tracker) for output in outputs]
        return [*(dict(state) | buffers).values(), *outputs]
    gradients, loss, changed = _learn(recipe, state, batch, tracker)
    with torch.no_grad():
        before = dict(state) | changed
        new = before | optimize(recipe, before, gradients)
    names[:] = gradients
    return [*new.values(), loss, *gradients.values()]


def _call(
    recipe: Recipe,
    function: Callable[..., Any],
    state: Tensors,
    leaves: Tensors,
    batch: Sequence[torch.Tensor],
) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return what a function of the model and a batch returns, and the buffers after it.

    `leaves` take the place of the parameters of these names.
    """
    tensors = {}
    for name, _ in recipe.model.named_parameters():
        tensors[f"model.{name}"] = leaves.get(name, state[f"parameter.{name}"].detach())
    names = [name for name, _ in recipe.model.named_buffers()]
    tensors |= {f"model.{name}": state[f"buffer.{name}"].clone() for name in names}
    copies = tuple(tensor.clone() for tensor in batch)  # which the model may write to
    call = _Call(recipe.model, function)
    result = functional_call(call, tensors, copies, tie_weights=True)
    return result, {f"buffer.{name}": tensors[f"model.{name}"].detach() for name in names}


def _learn(
    recipe: TrainingRecipe, state: Tensors, batch: Sequence[torch.Tensor], tracker: LineTracker
) -> tuple[dict[str, torch.Tensor], torch.Tensor, dict[str, torch.Tensor]]:
    """Return the mean gradients and loss of a step's batches, and what forward passes changed.

    A forward pass may change buffers and, in place, parameters.
    """
    gradients: dict[str, torch.Tensor] = {}
    losses = []
    changed: dict[str, torch.Tensor] = {}
    size = len(batch) // recipe.accumulate
    for number in range(recipe.accumulate):
        now = dict(state) | changed
        leaves = {
            name: now[f"parameter.{name}"].detach().clone().requires_grad_()
            for name, parameter in recipe.model.named_parameters()
            if parameter.requires_grad
        }
        piece = batch[number * size : (number + 1) * size]
        with torch.enable_grad():
            loss, buffers = _call(recipe, recipe.loss, now, leaves, piece)
            loss = _spoil(loss, tracker)
        changed |= buffers | {f"parameter.{name}": leaf.detach() for name, leaf in leaves.items()}
        for name, gradient in _differentiate(loss, leaves, tracker).items():
            gradients[name] = gradients[name] + gradient if name in gradients else gradient
        losses.append(loss.detach())
    if recipe.accumulate == 1:
        return gradients, losses[0], changed
    means = {name: gradient / recipe.accumulate for name, gradient in gradients.items()}
    return means, sum(losses[1:], losses[0]) / recipe.accumulate, changed


def _spoil(result: Any, tracker: LineTracker) -> Any:
    """Return what a model returns, NaN where a check of its own fails."""
    if not tracker.checks or not isinstance(result, torch.Tensor):
        return result
    if not result.is_floating_point():
        raise refusal(f"{DATA_DEPENDENT}: its result can't be NaN", "check", tracker.line)
    return spoil(result, tracker.checks)


def _differentiate(loss: torch.Tensor, leaves: Tensors, tracker: LineTracker) -> Tensors:
    """Return the gradients of the leaves that the loss depends on."""
    if not isinstance(loss, torch.Tensor) or loss.shape != () or loss.grad_fn is None:
        raise refusal("a loss is one number that depends on a parameter", "loss", tracker.line)
    tracker.follow_gradients(loss)
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    tracker.line = ""
    found = zip(leaves, gradients, strict=True)
    return {name: gradient for name, gradient in found if gradient is not None}
