"""Tracing: one whole step as a flat graph of ATen operators on tensors, without mutation.

The step (forward, loss, backward, optimizer, buffers) is traced twice: once through autograd, where
the user's lines are stamped on its operators, and once more through torch's functionalization and
decompositions. Nothing is computed: the tensors are fake.
"""

import inspect
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._C import _get_mkldnn_enabled, _set_mkldnn_enabled
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses import FakeTensor, fake_tensor
from torch.func import functionalize
from torch.fx import GraphModule, Interpreter, Node
from torch.fx import traceback as fx_traceback
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._mode_utils import no_dispatch

from moot.offchain.errors import CaptureError, MootError
from moot.offchain.frontend.calls import call, compute_loss, list_outputs
from moot.offchain.frontend.constants import MOST_CONSTANTS, Constants
from moot.offchain.frontend.decompositions.table import EARLY, compose, find_overload
from moot.offchain.frontend.escapes import refuse_escapes
from moot.offchain.frontend.exchange import to_array
from moot.offchain.frontend.folding import fold_constants
from moot.offchain.frontend.guards import spoil
from moot.offchain.frontend.indices import gather_by_tensors
from moot.offchain.frontend.lines import LineTracker, Question, show_line
from moot.offchain.frontend.lowering.builder import FaultError, RefusalError
from moot.offchain.frontend.lowering.graph import DATA_DEPENDENT, advise, blaming, refusal
from moot.offchain.frontend.lowering.table import get_decompositions
from moot.offchain.frontend.own_steps import trace_own_steps
from moot.offchain.frontend.presence import Presence, find_presence, join
from moot.offchain.frontend.recipe import (
    InferenceRecipe,
    Recipe,
    TrainingRecipe,
    get_function,
)
from moot.offchain.frontend.regions import ADVICE as BRANCH
from moot.offchain.frontend.repeats import Repeats
from moot.offchain.frontend.routes import PLAIN, Routes
from moot.offchain.frontend.selecting import Selecting
from moot.offchain.frontend.selections import require_folded
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.updates import (
    choose,
    find_apart,
    find_observed,
    limit,
    make_optimizer_state,
    optimize,
    read_schedule,
)
from moot.offchain.text import name_kind, show, show_error

Tensors = Mapping[str, torch.Tensor]

_DATA_DEPENDENT_ERRORS = (
    GuardOnDataDependentSymNode,
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
)


_SHOWN = re.compile(r"\b(print|log\w*|write)\b")
"""Code that shows what it is given."""


def get_initial_state(
    subject: Subject, copies: Mapping[int, torch.Tensor] = MappingProxyType({})
) -> dict[str, torch.Tensor]:
    """Return copies of the state's tensors by name, in order.

    Args:
        subject: the subject.
        copies: those that there are already, by the `id` of what they are copies of.
    """
    state = {}
    for name, tensor in subject.tensors.items():
        copy = copies.get(id(tensor))
        state[name] = _copy(tensor) if copy is None else copy.contiguous()
    if isinstance(subject.recipe, TrainingRecipe):
        state |= make_optimizer_state(subject)
    return state


def count_state_bytes(recipe: Recipe) -> int:
    """Return the size of the state that a program of a recipe has, but for its outputs."""
    subject = Subject.of(recipe)
    state = subject.tensors
    if isinstance(recipe, TrainingRecipe):
        state |= make_optimizer_state(subject)
    return sum(tensor.nbytes for tensor in state.values())


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


class Record(NamedTuple):
    """A step's graph with autograd in it.

    Attributes:
        graph: the graph; operators may still change tensors in place.
        gradients: the names of the parameters whose gradients it returns.
        tracer: what has made the graph; it knows the nodes of the tensors that were left behind.
        absent: those of the parameters for which torch has no gradient in some steps; it is 0 then.
        apart: sets of these that need counters of their own.
    """

    graph: GraphModule
    gradients: tuple[str, ...]
    tracer: Any
    absent: tuple[str, ...] = ()
    apart: tuple[frozenset[str], ...] = ()

    def find_difference(self, other: "Record") -> CaptureError | None:
        """Return the line that says where another step first has something else, None if nowhere.

        Both are the same if they have the same operators, on constants of the same content.
        """
        lines, constants = self._describe()
        other_lines, other_constants = other._describe()  # noqa: SLF001 - of the same class
        pairs = zip(self.graph.graph.nodes, other.graph.graph.nodes, strict=False)
        for (node, twin), line, other_line in zip(pairs, lines, other_lines, strict=False):
            if line != other_line:
                return _tell_difference(node, *_find_arguments(node, twin))
        sources = [node for node in self.graph.graph.nodes if node.op == "get_attr"]
        for node, constant, other_constant in zip(
            sources, constants, other_constants, strict=False
        ):
            if not _is_equal(constant, other_constant):
                return _tell_difference(next(iter(node.users), node), "one constant", "another")
        if len(lines) == len(other_lines):
            return None
        longer = self if len(lines) > len(other_lines) else other
        node = list(longer.graph.graph.nodes)[min(len(lines), len(other_lines)) - 1]
        return _tell_difference(node, "this operator", "none")

    def check_constants(self) -> None:
        """Refuse what is read as a constant, and is no plain tensor.

        Raises:
            CaptureError: a tensor of a user's own class is, or one that a thread has computed.
        """
        for node in self.graph.graph.nodes:
            if node.op != "get_attr":
                continue
            constant, user = attrgetter(str(node.target))(self.graph), next(iter(node.users), node)
            if isinstance(constant, FakeTensor):
                message = "it reads what another thread has computed; compute it in the step's own"
                raise refusal(message, str(user.target), user.stack_trace or "")
            if type(constant) not in PLAIN:
                message = f"it reads a {type(constant).__name__}; give a plain tensor"
                raise refusal(message, str(user.target), user.stack_trace or "")

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


def _find_arguments(node: Node, twin: Node) -> tuple[str, str]:
    """Return the first argument that two operators do not share, or the operators."""
    if node.target == twin.target and len(node.args) == len(twin.args):
        for one, other in zip(node.args, twin.args, strict=True):
            if str(one) != str(other):
                return show(one), show(other)
    return str(node.target), str(twin.target)


def _tell_difference(node: Node, one: str, other: str) -> CaptureError:
    message = (
        f"two tracings of the step differ here, {one} and {other}; "
        "a step may depend on its state and its batch alone"
    )
    return refusal(message, str(node.target), node.stack_trace or "")


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


class _Replay(Interpreter):
    """Runs a step's graph, and names the user's line of an operator that fails."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.extra_traceback = False  # by which it would write into the exception

    def run_node(self, n: Node) -> Any:
        """Return the result of an operator."""
        with blaming(n):
            return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of an operator; a view of what has other strides by now is a copy."""
        try:
            return super().call_function(target, args, kwargs)
        except (RuntimeError, ValueError):
            if target is not torch.ops.aten.view.default:
                raise
            return args[0].reshape(*args[1:])


def flatten(recorded: Record, state: Tensors, batch: Sequence[torch.Tensor]) -> GraphModule:
    """Return the graph of (state, batch) -> (state, outputs, gradients), all flat and in order.

    The outputs are the loss of a training step, or what an inference returns; gradients are those
    before any clipping.
    """

    def replay(*flat: torch.Tensor) -> Any:
        with torch.no_grad():
            return _Replay(recorded.graph).run(*flat)

    with _settings():
        pure = functionalize(replay, remove="mutations")
        decompose = _make_graph(pure, decomposition_table=get_decompositions())
        flat_graph = decompose(*state.values(), *batch)
    fold_constants(flat_graph)
    flat_graph.graph.eliminate_dead_code()
    return flat_graph


def record(
    subject: Subject, state: Tensors, batch: Sequence[torch.Tensor], stale: Mapping[int, str]
) -> Record:
    """Return a step of a recipe as autograd leaves it.

    Where it asks for a truth value of data, all answers have to lead to the same graph: a library
    may look at its inputs for a setting that nobody has set.

    Args:
        subject: the subject.
        state: the state's tensors by name.
        batch: the batch's tensors.
        stale: the paths of tensors that an earlier step has left behind, by their `id`.

    Raises:
        CaptureError: what happens in the model depends on the elements of a tensor, or the step
            reads a stale tensor.
    """
    first, questions = _record(subject, state, batch, stale, ())
    pending = list(_list_others((), questions))
    while pending:
        answers, question = pending.pop()
        try:
            other, asked = _record(subject, state, batch, stale, answers)
        except Exception as error:
            raise _refuse_question(question) from error
        if first.find_difference(other) is not None:
            raise _refuse_question(question)
        pending += _list_others(answers, asked)
    return first


def _list_others(
    answers: Sequence[bool], questions: Sequence[Question]
) -> Iterator[tuple[tuple[bool, ...], Question]]:
    """Yield the answers of which the last is another, and to which question.

    Args:
        answers: those that were given beforehand.
        questions: the questions that came, with all answers.
    """
    given = [question.answer for question in questions]
    for place in range(len(answers), len(given)):
        yield (*given[:place], not given[place]), questions[place]


def _explain(error: Exception, tracker: LineTracker) -> Exception:
    """Return the error that says why a step could not be traced."""
    if isinstance(error, _DATA_DEPENDENT_ERRORS):
        operator = str(getattr(error, "func", tracker.operator))
        return _refuse_question(Question(False, operator, tracker.line, tracker.advice))
    if tracker.questions:
        return _refuse_question(tracker.questions[0])
    if isinstance(error, RefusalError):
        return refusal(str(error), error.operator or tracker.operator, tracker.line)
    if isinstance(error, MootError):
        return error
    if tracker.regions.is_inside(error):
        message = f"it fails where torch may leave it out ({show_error(error)})"
        return refusal(message + BRANCH, tracker.operator, tracker.line)
    return FaultError(tracker.operator if tracker.is_inside(error) else "", tracker.line)


def _refuse_question(question: Question) -> CaptureError:
    """Return the error that names a branch on data."""
    advice = advise(question.operator) or question.advice
    if _SHOWN.search(question.line):
        advice += ", or show it by an f-string"
    return refusal(DATA_DEPENDENT + advice, question.operator, question.line)


def _record(
    subject: Subject,
    state: Tensors,
    batch: Sequence[torch.Tensor],
    stale: Mapping[int, str],
    answers: Sequence[bool],
) -> tuple[Record, list[Question]]:
    """Return a step as these answers lead it, and for which truth values it has asked.

    Raises:
        CaptureError: it asks for more, or anything else refuses it; the first question is named.
    """
    tensors = (*state.values(), *batch)
    tracker = LineTracker(subject.model, answers)
    gradients: list[str] = []
    made: list[_Step] = []

    def step(*flat: torch.Tensor) -> list[torch.Tensor]:
        named = dict(zip(state, flat, strict=False))
        mode = get_proxy_mode()
        assert mode is not None
        traced = _Step(subject, named, tracker, stale, mode.tracer)
        made.append(traced)
        tracker.call = traced.routes.call
        with (
            tracker,
            refuse_escapes(tracker, traced.routes),
            gather_by_tensors(tracker, traced.routes),
            Selecting(tracker, mode.tracer),
        ):
            results, gradients[:] = traced.run(flat[len(named) :])
        return results

    early = {find_overload(name): function for name, function in EARLY.items()}
    known = mock.patch.object(proxy_tensor, "CONSTANT_NUMEL_LIMIT", MOST_CONSTANTS)
    with _settings(), known:
        try:
            graph = _make_graph(step, decomposition_table=early)(*tensors)
        except Exception as error:
            explained = _explain(error, tracker)
            if explained is error:
                raise
            raise explained from error
    made_of = made[0]
    recorded = Record(graph, tuple(gradients), made_of.tracer, (*made_of.absent,), made_of.apart)
    recorded.check_constants()
    return recorded, tracker.questions


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
        subject: the subject, whose own model runs, on tensors that only `routes` knows.
        state: the traced tensors of the state by name.
        tracker: follows the model's lines.
        stale: the paths of tensors that an earlier step has left behind, by their `id`.
        tracer: what makes the graph.

    Attributes:
        absent: when torch has a gradient, for the parameters that do not always have one.
        apart: sets of these that need counters of their own.
    """

    def __init__(
        self,
        subject: Subject,
        state: Tensors,
        tracker: LineTracker,
        stale: Mapping[int, str],
        tracer: Any,
    ) -> None:
        self._subject, self._recipe = subject, subject.recipe
        self._state, self._tracker = state, tracker
        self.tracer = tracer
        self.absent: dict[str, torch.Tensor] = {}
        self.apart: tuple[frozenset[str], ...] = ()
        self._tensors = subject.tensors
        self._observed = find_observed(subject)
        kept = self._observed.tensors if self._observed else ()
        own = self._observed.start if self._observed else {}
        self._traced = {name: state[name].clone() for name in (*self._tensors, *own)}
        tensors = [*self._tensors.items(), *kept]
        self.routes = Routes(tensors, self._traced, stale, tracker, Constants(tracer))

    def run(self, batch: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], tuple[str, ...]]:
        """Return the new state, the outputs and the gradients, and the gradients' names."""
        copies = [tensor.clone() for tensor in batch]  # which the model may write to
        if isinstance(self._recipe, InferenceRecipe):
            outputs = self._infer(self._recipe, copies)
            return [*self._get_state().values(), *outputs], ()
        gradients, loss = self._learn(self._recipe, copies)
        self._tracker.regions.is_over = True
        with torch.no_grad():
            state, known = self._get_state(), len(self._tracker.checks)
            updated = self._optimize(state, gradients)
            if checks := self._tracker.checks[known:]:  # the optimizer's own
                floats = {k: v for k, v in updated.items() if v.is_floating_point()}
                updated |= {k: spoil(v, checks) for k, v in floats.items()}
                loss = spoil(loss, checks)
            new = state | updated
        return [*new.values(), loss, *gradients.values()], tuple(gradients)

    def _optimize(self, state: Tensors, gradients: Tensors) -> dict[str, torch.Tensor]:
        """Return the tensors of the state that the updates change."""
        subject = self._subject
        limited = limit(subject.training, gradients)
        new = optimize(subject, state, limited, Repeats(self.tracer).update)
        if self.absent:
            self.apart = find_apart(subject, self.absent)
            new = choose(subject, state, new, self.absent)
        if self._observed is None:
            return new
        follow = self.routes.follow
        scheduled, counter = read_schedule(subject, state)
        own = trace_own_steps(self._observed, subject, self._traced, limited, follow, scheduled)
        return new | own | counter

    def _get_state(self) -> dict[str, torch.Tensor]:
        """Return the state as the model has left it, which is looked at again to see it."""
        found = self._subject.look_again().tensors
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

    @property
    def _definition(self) -> str:
        """The line at which the function of a recipe begins, where it is Python's."""
        code = getattr(inspect.unwrap(get_function(self._recipe)), "__code__", None)
        return "" if code is None else show_line("model", code.co_filename, code.co_firstlineno)

    def _infer(self, recipe: InferenceRecipe, batch: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            outputs = list_outputs(call(recipe, batch))
        for output in outputs:
            require_folded(output, "the result")
        other = [output for output in outputs if not isinstance(output, torch.Tensor)]
        if other:
            found = name_kind(other[0])
            place = self._place or self._definition
            raise refusal(f"it returns {found}; return tensors", "forward", place)
        return [self._spoil(self.routes.follow(output)) for output in outputs]

    def _learn(
        self, recipe: TrainingRecipe, batch: Sequence[torch.Tensor]
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Return the mean gradients and the mean loss of a step's batches."""
        count = recipe.accumulate
        size = len(batch) // count
        parameters = self._subject.parameters
        losses = []
        presences: dict[str, list[Presence]] = defaultdict(list)
        for parameter in parameters.values():
            parameter.grad = None
        for number in range(count):
            with torch.enable_grad():
                loss = compute_loss(recipe, batch[number * size : (number + 1) * size])
                loss = self._spoil(loss)
            self._differentiate(loss)
            self._note_presence(loss, parameters, presences)
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

    def _note_presence(
        self,
        loss: torch.Tensor,
        parameters: Mapping[str, torch.Tensor],
        presences: dict[str, list[Presence]],
    ) -> None:
        """Note when torch has gradients, if code is left out under some condition."""
        conditions = self._tracker.regions.conditions
        if not any(condition is not None for condition in conditions.values()):
            return
        found = find_presence(loss.grad_fn, conditions)
        for name, parameter in parameters.items():
            if id(parameter) in found:
                presences[name].append(found[id(parameter)])
            elif parameter.grad is not None and name not in presences:
                message = (
                    "its gradient comes by a way of its own, beside a branch that depends on data"
                )
                advice = "leave the branch out, or checkpoint with use_reentrant=False"
                raise refusal(f"{message}; {advice}", f"parameter {name}", self._place)
        joined = {name: join(several).condition for name, several in presences.items()}
        self.absent = {name: it for name, it in joined.items() if it is not None}

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
            message = f"it is {_describe_loss(loss)}; a loss is one number that depends on a"
            raise refusal(f"{message} parameter", "loss", self._place or self._definition)
        with self._tracker.follow_gradients(loss):
            loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        self._tracker.line = ""


def _describe_loss(loss: Any) -> str:
    """Return what a loss is that is none."""
    if isinstance(loss, (torch.SymFloat, torch.SymInt, torch.SymBool)):
        return "a number of Python"
    if not isinstance(loss, torch.Tensor):
        return name_kind(loss)
    if loss.shape != ():
        return f"a tensor of shape {tuple(loss.shape)}"
    return "a number that depends on no parameter that learns"


def _describe(name: str) -> str:
    return name.replace(".", " ", 1)
