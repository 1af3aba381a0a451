"""Tracing: one whole step as a flat graph of ATen operators on tensors, without mutation.

The step (forward, loss, backward, optimizer, buffers) is traced twice: once through autograd, where
the user's lines are stamped on its operators, and once more through torch's functionalization and
decompositions. Nothing is computed: the tensors are fake.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

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

from offchain.programs.lines import LineTracker
from offchain.programs.lowering.graph import DATA_DEPENDENT, refusal
from offchain.programs.lowering.table import get_decompositions
from offchain.programs.recipe import Recipe, TrainingRecipe

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


def get_initial_state(recipe: Recipe) -> dict[str, torch.Tensor]:
    """Return copies of the state's tensors by name, in order; tied weights occur once."""
    parameters = dict(recipe.model.named_parameters())
    buffers = dict(recipe.model.named_buffers())
    state = {f"parameter.{name}": _copy(tensor) for name, tensor in parameters.items()}
    state |= {f"buffer.{name}": _copy(tensor) for name, tensor in buffers.items()}
    if isinstance(recipe, TrainingRecipe):
        for name, tensor in parameters.items():
            for moment in recipe.optimizer.moments if tensor.requires_grad else ():
                state[f"optimizer.{name}.{moment}"] = torch.zeros(tensor.shape, dtype=tensor.dtype)
        for counter in recipe.optimizer.counters:
            state[f"optimizer.{counter}"] = torch.ones(())
    return state


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def trace(recipe: Recipe, state: Tensors, batch: Sequence[torch.Tensor]) -> GraphModule:
    """Return the graph of (state, batch) -> (state, outputs), all flat and in order.

    The outputs are the loss of a training step, or what an inference returns.

    Raises:
        CaptureError: what happens in the model depends on the elements of a tensor.
    """
    tensors = (*state.values(), *batch)
    tracker = LineTracker(recipe.model)

    def step(*flat: torch.Tensor) -> list[torch.Tensor]:
        named = dict(zip(state, flat, strict=False))
        with tracker:
            return _step(recipe, named, flat[len(named) :], tracker)

    with _settings():
        try:
            graph = _make_graph(step)(*tensors)
        except _DATA_DEPENDENT_ERRORS as error:
            raise refusal(DATA_DEPENDENT, tracker.operator, tracker.line) from error

        def replay(*flat: torch.Tensor) -> Any:
            with torch.no_grad():
                return Interpreter(graph).run(*flat)

        pure = functionalize(replay, remove="mutations")
        flat_graph = _make_graph(pure, decomposition_table=get_decompositions())(*tensors)
    flat_graph.graph.eliminate_dead_code()
    return flat_graph


@contextmanager
def _settings() -> Iterator[None]:
    """Make torch trace what it would compute into operators that are written out.

    Node data (the lines) survive the second tracing; batch norm declares that it mutates; attention
    and recurrent layers are not fused.
    """
    is_fused = _get_mkldnn_enabled()
    _set_mkldnn_enabled(False)
    try:
        with (
            fx_traceback.preserve_node_meta(),
            enable_python_dispatcher(),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield
    finally:
        _set_mkldnn_enabled(is_fused)


def _make_graph(function: Callable[..., Any], **options: Any) -> Callable[..., GraphModule]:
    return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True, **options)


def _step(
    recipe: Recipe, state: Tensors, batch: Sequence[torch.Tensor], tracker: LineTracker
) -> list[torch.Tensor]:
    is_training = isinstance(recipe, TrainingRecipe)
    parameters = {
        name: state[f"parameter.{name}"].detach().requires_grad_(p.requires_grad and is_training)
        for name, p in recipe.model.named_parameters()
    }
    buffers = {name: state[f"buffer.{name}"].clone() for name, _ in recipe.model.named_buffers()}
    tensors = {f"model.{name}": tensor for name, tensor in (parameters | buffers).items()}
    function = recipe.loss if isinstance(recipe, TrainingRecipe) else recipe.forward
    call = _Call(recipe.model, function)
    with torch.set_grad_enabled(is_training):
        copies = tuple(tensor.clone() for tensor in batch)  # which the model may write to
        result = functional_call(call, tensors, copies, tie_weights=True)
    new = dict(state)
    for name in buffers:
        new[f"buffer.{name}"] = tensors[f"model.{name}"].detach()
    if isinstance(recipe, TrainingRecipe):
        leaves = {name: leaf for name, leaf in parameters.items() if leaf.requires_grad}
        gradients = _differentiate(result, leaves, tracker)
        with torch.no_grad():
            _optimize(recipe, state, gradients, new)
    outputs = [result] if isinstance(result, torch.Tensor) else list(result)
    return [*new.values(), *(output.detach() for output in outputs)]


def _differentiate(loss: torch.Tensor, leaves: Tensors, tracker: LineTracker) -> Tensors:
    """Return the gradients of the leaves that the loss depends on."""
    if loss.shape != () or loss.grad_fn is None:
        raise refusal("a loss is one number that depends on a parameter", "loss", tracker.line)
    tracker.follow_gradients(loss)
    gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    tracker.line = ""
    found = zip(leaves, gradients, strict=True)
    return {name: gradient for name, gradient in found if gradient is not None}


def _optimize(
    recipe: TrainingRecipe, state: Tensors, gradients: Tensors, new: dict[str, torch.Tensor]
) -> None:
    optimizer = recipe.optimizer
    counters = optimizer.advance({name: state[f"optimizer.{name}"] for name in optimizer.counters})
    new.update({f"optimizer.{name}": counter for name, counter in counters.items()})
    for name, gradient in gradients.items():
        slots = [f"optimizer.{name}.{moment}" for moment in optimizer.moments]
        parameter, moments = optimizer.update(
            state[f"parameter.{name}"], gradient, [state[slot] for slot in slots], counters
        )
        new[f"parameter.{name}"] = parameter
        new.update(zip(slots, moments, strict=True))
