"""Tracing: one whole step as a flat graph of ATen operators on tensors, without mutation.

The step (forward, loss, backward, optimizer, buffers) is traced twice: once through autograd, where
the user's lines are stamped on its operators, and once more through torch's functionalization and
decompositions. Nothing is computed: the tensors are fake.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch._C import _get_mkldnn_enabled, _set_mkldnn_enabled
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses import fake_tensor
from torch.func import functionalize
from torch.fx import GraphModule, Interpreter, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._mode_utils import no_dispatch

from offchain.frontend.decompositions.table import EARLY, compose, find_overload
from offchain.frontend.escapes import refuse_escapes
from offchain.frontend.exchange import to_array
from offchain.frontend.folding import fold_constants
from offchain.frontend.guards import spoil
from offchain.frontend.lines import LineTracker
from offchain.frontend.lowering.graph import DATA_DEPENDENT, refusal
from offchain.frontend.lowering.table import get_decompositions
from offchain.frontend.orders import OrderedInterpreter
from offchain.frontend.own_steps import trace_own_steps
from offchain.frontend.recipe import InferenceRecipe, Recipe, TrainingRecipe
from offchain.frontend.repeats import Repeats
from offchain.frontend.routes import Routes
from offchain.frontend.selections import Selecting, require_folded
from offchain.frontend.updates import find_observed, limit, make_optimizer_state, optimize

Tensors = Mapping[str, torch.Tensor]

_DATA_DEPENDENT_ERRORS = (
    GuardOnDataDependentSymNode,
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
)


def name_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a model's parameters and buffers by the names of their slots, tied ones once."""
    parameters = {f"parameter.{name}": tensor for name, tensor in model.named_parameters()}
    return parameters | {f"buffer.{name}": tensor for name, tensor in model.named_buffers()}


def get_initial_state(
    recipe: Recipe, copies: Mapping[int, torch.Tensor] = MappingProxyType({})
) -> dict[str, torch.Tensor]:
    """Return copies of the state's tensors by name, in order.

    Args:
        recipe: the recipe.
        copies: those that there are already, by the `id` of what they are copies of.
    """
    state = {}
    for name, tensor in name_tensors(recipe.model).items():
        copy = copies.get(id(tensor))
        state[name] = _copy(tensor) if copy is None else copy.contiguous()
    if isinstance(recipe, TrainingRecipe):
        state |= make_optimizer_state(recipe)
    return state


def count_state_bytes(recipe: Recipe) -> int:
    """Return the size of the state that a program of a recipe has, but for its outputs."""
    state = name_tensors(recipe.model)
    if isinstance(recipe, TrainingRecipe):
        state |= make_optimizer_state(recipe)
    return sum(tensor.nbytes for tensor in state.values())


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


class Record(NamedTuple):
    """A step's graph with autograd in it.

    Attributes:
        graph: the graph; operators may still change tensors in place.
        gradients: the names of the parameters whose gradients it returns.
        tracer: what has made the graph; it knows the nodes of the tensors that were left behind.
    """

    graph: GraphModule
    gradients: tuple[str, ...]
    tracer: Any

    def is_same(self, other: "Record") -> bool:
        """Return whether another step has the same operators, on constants of the same content."""
        lines, constants = self._describe()
        other_lines, other_constants = other._describe()  # noqa: SLF001 - of the same class
        return lines == other_lines and all(map(_is_equal, constants, other_constants))

    def _describe(self) -> tuple[list[str], list[torch.Tensor]]:
        """Return the operators in order, and the constants that they read, in order."""
        lines, constants = [], []
        for node in self.graph.graph.nodes:
            lines.append(f"{node.op} {node.name} {node.target} {node.args} {node.kwargs}")
            if node.op == "get_attr":
                constants.append(attrgetter(str(node.target))(self.graph))
        return lines, constants

    def list_content(self) -> Iterator[bytes]:
        """Yield all that later stages of capture read of the graph.

        A constant that nothing reads which is left has no content: a weight of the model, say, for
        which the operators below autograd have got the traced one.
        """
        lines, constants = self._describe()
        yield from (line.encode() for line in [*self.gradients, *lines])
        for node in self.graph.graph.nodes:
            yield repr((node.meta.get("stack_trace"), node.meta.get("custom"))).encode()
        live = _find_live(self.graph)
        sources = [node for node in self.graph.graph.nodes if node.op == "get_attr"]
        for node, constant in zip(sources, constants, strict=True):
            with no_dispatch():
                array = to_array(constant)
            yield repr((array.dtype, array.shape, constant.stride())).encode()
            yield array.tobytes() if node in live else b""

    def depends_on_inputs(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor that the step has made depends on its state or its batch."""
        proxy = get_proxy_slot(tensor, self.tracer, default=None)
        if proxy is None:
            return True
        pending, seen = [proxy.proxy.node], set()
        while pending:
            node = pending.pop()
            if node.op == "placeholder":
                return True
            if node not in seen:
                seen.add(node)
                pending += node.all_input_nodes
        return False


def _find_live(graph: GraphModule) -> set[Node]:
    """Return the nodes that a graph's results, or what its operators write to, depend on."""
    live: set[Node] = set()
    for node in reversed(graph.graph.nodes):
        is_pure = node.op == "get_attr" or (
            isinstance(node.target, OpOverload) and not node.target._schema.is_mutable  # noqa: SLF001 - not public
        )
        if not is_pure or not live.isdisjoint(node.users):
            live.add(node)
    return live


def _is_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors are one, or have the same type, shape and bytes."""
    if a is b:
        return True
    with no_dispatch():
        x, y = (to_array(tensor) for tensor in (a, b))
    return (x.dtype, x.shape) == (y.dtype, y.shape) and x.tobytes() == y.tobytes()


def flatten(recorded: Record, state: Tensors, batch: Sequence[torch.Tensor]) -> GraphModule:
    """Return the graph of (state, batch) -> (state, outputs, gradients), all flat and in order.

    The outputs are the loss of a training step, or what an inference returns; gradients are those
    before any clipping. Where a view can't be taken, because a decomposition's result lies in
    memory in another order than torch's, all results are brought into torch's order.
    """
    inputs = (*state.values(), *batch)
    try:
        flat_graph = _replay(Interpreter(recorded.graph), inputs)
    except (RuntimeError, ValueError):
        flat_graph = _replay(OrderedInterpreter(recorded.graph), inputs)
    fold_constants(flat_graph)
    flat_graph.graph.eliminate_dead_code()
    return flat_graph


def _replay(interpreter: Interpreter, inputs: Sequence[torch.Tensor]) -> GraphModule:
    """Return the flat graph of a step that an interpreter runs again."""

    def replay(*flat: torch.Tensor) -> Any:
        with torch.no_grad():
            return interpreter.run(*flat)

    with _settings():
        pure = functionalize(replay, remove="mutations")
        return _make_graph(pure, decomposition_table=get_decompositions())(*inputs)


def record(
    recipe: Recipe, state: Tensors, batch: Sequence[torch.Tensor], stale: Mapping[int, str]
) -> Record:
    """Return a step of a recipe as autograd leaves it.

    Args:
        recipe: the recipe.
        state: the state's tensors by name.
        batch: the batch's tensors.
        stale: the paths of tensors that an earlier step has left behind, by their `id`.

    Raises:
        CaptureError: what happens in the model depends on the elements of a tensor, or the step
            reads a stale tensor.
    """
    tensors = (*state.values(), *batch)
    tracker = LineTracker(recipe.model)
    gradients: list[str] = []
    made: list[Any] = []

    def step(*flat: torch.Tensor) -> list[torch.Tensor]:
        named = dict(zip(state, flat, strict=False))
        mode = get_proxy_mode()
        assert mode is not None
        made.append(mode.tracer)
        traced = _Step(recipe, named, tracker, stale, mode.tracer)
        escapes = refuse_escapes(tracker, traced.routes)
        with traced.routes, tracker, escapes, Selecting(tracker, mode.tracer):
            results, gradients[:] = traced.run(flat[len(named) :])
        return results

    early = {find_overload(name): function for name, function in EARLY.items()}
    with _settings():
        try:
            graph = _make_graph(step, decomposition_table=early)(*tensors)
        except _DATA_DEPENDENT_ERRORS as error:
            advice = DATA_DEPENDENT + tracker.advice
            raise refusal(advice, tracker.operator, tracker.line) from error
    return Record(graph, tuple(gradients), made[0])


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


class _Step:
    """One step of a recipe, written down by torch as it runs.

    Args:
        recipe: the recipe, whose own model runs, on tensors that only `routes` knows.
        state: the traced tensors of the state by name.
        tracker: follows the model's lines.
        stale: the paths of tensors that an earlier step has left behind, by their `id`.
        tracer: what makes the graph.
    """

    def __init__(
        self,
        recipe: Recipe,
        state: Tensors,
        tracker: LineTracker,
        stale: Mapping[int, str],
        tracer: Any,
    ) -> None:
        self._recipe, self._state, self._tracker = recipe, state, tracker
        self._tracer = tracer
        self._tensors = name_tensors(recipe.model)
        self._observed = find_observed(recipe)
        kept = self._observed.tensors if self._observed else {}
        own = self._observed.start if self._observed else {}
        self._traced = {name: state[name].clone() for name in (*self._tensors, *own)}
        self.routes = Routes({**self._tensors, **kept}, self._traced, stale, tracker)

    def run(self, batch: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], tuple[str, ...]]:
        """Return the new state, the outputs and the gradients, and the gradients' names."""
        copies = [tensor.clone() for tensor in batch]  # which the model may write to
        if isinstance(self._recipe, InferenceRecipe):
            outputs = self._infer(self._recipe, copies)
            return [*self._get_state().values(), *outputs], ()
        gradients, loss = self._learn(self._recipe, copies)
        with torch.no_grad():
            state = self._get_state()
            new = state | self._optimize(self._recipe, state, gradients)
        return [*new.values(), loss, *gradients.values()], tuple(gradients)

    def _optimize(
        self, recipe: TrainingRecipe, state: Tensors, gradients: Tensors
    ) -> dict[str, torch.Tensor]:
        """Return the tensors of the state that the updates change."""
        limited = limit(recipe, gradients)
        new = optimize(recipe, state, limited, Repeats(self._tracer).update)
        if self._observed is None:
            return new
        model, follow = recipe.model, self.routes.follow
        return new | trace_own_steps(self._observed, model, self._traced, limited, follow)

    def _get_state(self) -> dict[str, torch.Tensor]:
        """Return the state as the model has left it."""
        found = name_tensors(self._recipe.model)
        for name in sorted({*found} ^ {*self._tensors}):
            change = "appears" if name in found else "disappears"
            advice = "have it registered, with a value, before it is captured"
            raise refusal(f"it {change} during a step; {advice}", _describe(name), self._place)
        new = dict(self._state)
        for name, tensor in found.items():
            is_same = tensor is self._tensors[name]
            if not is_same and name.startswith("parameter."):
                advice = "change it in place, under torch.no_grad()"
                raise refusal(f"another takes its place; {advice}", _describe(name), self._place)
            new[name] = self._traced[name] if is_same else tensor.detach()
        return new

    @property
    def _place(self) -> str:
        return self._tracker.line

    def _infer(self, recipe: InferenceRecipe, batch: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            result = recipe.forward(recipe.model, *batch)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        for output in outputs:
            require_folded(output, "the result")
        if not all(isinstance(output, torch.Tensor) for output in outputs):
            found = type(result).__name__
            raise refusal(f"it returns {found}; return tensors", "forward", self._place)
        return [self._spoil(self.routes.follow(output)) for output in outputs]

    def _learn(
        self, recipe: TrainingRecipe, batch: Sequence[torch.Tensor]
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Return the mean gradients and the mean loss of a step's batches."""
        count = recipe.accumulate
        size = len(batch) // count
        parameters = dict(recipe.model.named_parameters())
        losses = []
        for parameter in parameters.values():
            parameter.grad = None
        for number in range(count):
            with torch.enable_grad():
                loss = recipe.loss(recipe.model, *batch[number * size : (number + 1) * size])
                loss = self._spoil(loss)
            self._differentiate(loss)
            losses.append(loss.detach())
        gradients = {
            name: parameter.grad
            for name, parameter in parameters.items()
            if parameter.grad is not None
        }
        if count == 1:
            return gradients, losses[0]
        means = {name: gradient / count for name, gradient in gradients.items()}
        return means, sum(losses[1:], losses[0]) / count

    def _spoil(self, result: Any) -> Any:
        """Return what a model returns, NaN where a check of its own fails."""
        checks = self._tracker.checks
        if not checks or not isinstance(result, torch.Tensor):
            return result
        if not result.is_floating_point():
            raise refusal(f"{DATA_DEPENDENT}: its result can't be NaN", "check", self._place)
        return spoil(result, checks)

    def _differentiate(self, loss: torch.Tensor) -> None:
        """Add the gradients of a loss to those of the parameters."""
        require_folded(loss, "the loss")
        if not isinstance(loss, torch.Tensor) or loss.shape != () or not loss.requires_grad:
            raise refusal("a loss is one number that depends on a parameter", "loss", self._place)
        with self._tracker.follow_gradients(loss):
            loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        self._tracker.line = ""


def _describe(name: str) -> str:
    return name.replace(".", " ", 1)
