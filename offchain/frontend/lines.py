"""The origin of each operator in the user's model: module, file, line and code.

Forward, a dispatch mode looks up the Python stack. Backward, autograd's sequence numbers lead from
each gradient function to the operation that created it.
"""

import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any, NamedTuple, Self

import torch
from torch._C._autograd import _get_sequence_nr
from torch._ops import HigherOrderOperator
from torch.fx import traceback as fx_traceback
from torch.utils._python_dispatch import TorchDispatchMode

from moot.offchain.frontend.constants import is_constant
from moot.offchain.frontend.draws import Draws, is_random
from moot.offchain.frontend.guards import find_settings, find_way, is_caught
from moot.offchain.frontend.lowering.graph import DRAW, advise_on_number, refusal
from moot.offchain.frontend.memory import list_written
from moot.offchain.frontend.quantization import INSTEAD
from moot.offchain.frontend.regions import ADVICE, Regions

_TORCH = Path(torch.__file__).parent
_TRUTH = torch.ops.aten._local_scalar_dense.default  # noqa: SLF001 - the operator's name
_FUNCTIONS = (
    "a program has no operators on functions; compute what they return, and choose by torch.where"
)
_GENERATION = "transformers.generation"
_GREEDILY = (
    "; give generate an attention_mask of ones, do_sample=False, num_beams=1 and max_new_tokens, "
    "and set model.generation_config.eos_token_id to None: the program cuts no text short"
)
MOST_QUESTIONS = 3
"""Truth values of data for which a step may ask: each of them doubles the ways to trace."""

_PACKED = f"it is torch's own quantization; {INSTEAD}"
_PACKING = ("quantized.", "_quantized.", "aten.quantize_per_")
"""What the names of operators begin with that take or make numbers that torch has packed."""

_FUSED = (
    "it finds zero points in float64; use torch.ao.quantization.FakeQuantize in the place of "
    "FusedMovingAvgObsFakeQuantize, with the same observer"
)
_FUSING = "aten._fused_moving_avg_obs"
_OWN_GENERATOR = "it draws from a generator; leave that out, and the recipe's seed draws"
_CHANGED_APART = (
    "it changes a tensor in a branch that depends on data, and not by what a mask selects; "
    "leave the branch out, or write y[rows] += ..."
)
_DRAWN_APART = (
    "it draws random numbers in a branch that depends on data; leave the branch out, or draw before"
)
_MODES = {
    str(_TORCH / name)
    for name in ("_compile.py", "_dynamo/eval_frame.py", "fx/experimental/proxy_tensor.py")
} | {str(Path(__file__).with_name(name)) for name in ("own_numbers.py", "selecting.py")}
"""Files that stand between a call and the modes that see it."""

_SILENT = ("prim", "profiler")
"""Namespaces of operators that compute nothing."""

_MACHINERY = {str(Path(__file__).parent / name) for name in ("tracing.py", "capture/eager.py")}
_BETWEEN = {
    str(Path(__file__).parent / name)
    for name in (
        "decompositions/embeddings.py",
        "decompositions/observers.py",
        "decompositions/packing.py",
        "calls.py",
        "coordinates.py",
        "escapes.py",
        "indices.py",
        "own_numbers.py",
        "own_steps.py",
        "selecting.py",
        "selections.py",
        "optimizers/observed.py",
    )
}


@cache
def _is_of_torch(path: str) -> bool:
    return _TORCH in Path(path).parents


def show_line(module: str, path: str, number: int) -> str:
    """Return a line of the user's as operators are stamped with it."""
    return f"{module} {Path(path).name}:{number} {linecache.getline(path, number).strip()}"


class Question(NamedTuple):
    """A place at which a step asks for a truth value of data.

    Attributes:
        answer: what the step was told.
        operator: the operator by which it asks.
        line: the user's line.
        advice: how to avoid the question, if there is a way.
    """

    answer: bool
    operator: str
    line: str
    advice: str


Call = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]


def _is_packed(value: Any) -> bool:
    """Return whether a value is a tensor of torch's quantized types."""
    return isinstance(value, torch.Tensor) and value.is_quantized


def _call(func: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    return func(*args, **options)


class LineTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Stamps the user's line, `module file.py:12 code`, on every node traced while it is active.

    The stamp is the node's stack trace; `torch.fx.traceback.preserve_node_meta` must be on.

    Args:
        model: the module whose submodules' paths the lines begin with.
        answers: the first truth values of data that the step is told; it is told False after that.

    Attributes:
        line: the line of the operator that was traced last.
        operator: the name of that operator.
        advice: how to avoid the branch on data that was met last, if a setting does.
        checks: what has to hold, and is taken to: truth values, and what each has to be.
        regions: code that torch runs under a condition only.
        questions: where the step has asked for truth values of data, at most `MOST_QUESTIONS`.
        call: (operator, arguments, options) -> its result; as it is, or by routes.
    """

    supports_higher_order_operators = True

    def __init__(self, model: torch.nn.Module, answers: Sequence[bool] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self.line = self.operator = self.advice = ""
        self.checks: list[tuple[torch.Tensor, bool]] = []
        self.regions = Regions()
        self.questions: list[Question] = []
        self.call: Call = _call
        self._answers = answers
        self._model = model
        self._modules = ["model"]
        self._lines: dict[int, str] = {}
        self._show = cache(show_line)  # what it has read of files holds for one step
        self._hooks = ExitStack()
        self._draws = Draws()

    def __enter__(self) -> Self:
        for name, module in self._model.named_modules():
            enter = partial(self._enter_module, name or "model")
            self._hooks.callback(module.register_forward_pre_hook(enter, prepend=True).remove)
            leave = module.register_forward_hook(self._leave_module, always_call=True)
            self._hooks.callback(leave.remove)
        super().__enter__()  # type: ignore[no-untyped-call]  # likewise
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]  # likewise
        self._hooks.close()

    def _enter_module(self, name: str, *_: Any) -> None:
        self._modules.append(name)

    def _leave_module(self, *_: Any) -> None:
        self._modules.pop()

    def __torch_dispatch__(
        self,
        func: Any,
        _types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.line = self.find_line() or self.line
        if func.namespace not in _SILENT:
            self.operator = str(func)
        self._check_kind(func, args)
        self._lines.setdefault(_get_sequence_nr() - 1, self.line)
        self.regions.note(_get_sequence_nr() - 1)
        fx_traceback.set_stack_trace([self.line])
        if func is _TRUTH and is_constant(args[0]):
            return self.call(func, args, {})
        if func is _TRUTH:
            way = self._find_way(args[0])
            if way is not None:
                return way
        if (kwargs or {}).get("generator") is not None:
            raise refusal(_OWN_GENERATOR, self.operator, self.line)
        if func._schema.is_mutable:  # noqa: SLF001 - not public
            self._check_written(func, args)
        if not is_random(func, args):
            result = self.call(func, args, kwargs or {})
            self.regions.keep(result, args)
            return result
        if self.regions.find_condition() is not None:
            raise refusal(_DRAWN_APART, self.operator, self.line)
        with fx_traceback.annotate({DRAW: self._draws.make()}):
            return self.call(func, args, kwargs or {})

    def _check_kind(self, func: Any, args: tuple[Any, ...]) -> None:
        """Refuse operators on functions, those of torch's quantized types, and one in float64."""
        if isinstance(func, HigherOrderOperator):
            raise refusal(_FUNCTIONS, self.operator, self.line)
        if self.operator.startswith(_PACKING) or any(map(_is_packed, args)):
            raise refusal(_PACKED, self.operator, self.line)
        if self.operator.startswith(_FUSING):
            raise refusal(_FUSED, self.operator, self.line)

    @staticmethod
    def is_inside(error: Exception) -> bool:
        """Return whether an exception comes from the operator that was traced last."""
        frames = [frame for frame, _ in walk_tb(error.__traceback__)]
        return any(frame.f_code is LineTracker.__torch_dispatch__.__code__ for frame in frames)

    def _find_way(self, asked: torch.Tensor) -> bool | int | None:
        """Return what the step is told of data that it asks for, None where it has to know it."""
        way = self._take_way(asked)
        is_open = way is None and asked.dtype is torch.bool
        return self._answer() if is_open and len(self.questions) < MOST_QUESTIONS else way

    def _take_way(self, asked: torch.Tensor) -> bool | int | None:
        """Return the way that a branch takes whatever the data is, or None if it has none.

        Args:
            asked: the truth that it asks for, or the number.
        """
        frame = next(_walk_stack(sys._getframe(3)))  # noqa: SLF001 - likewise as in find_line
        is_truth = asked.dtype is torch.bool
        way = find_way(frame) if is_truth else None
        if way is None or (way[1] and any(map(is_caught, _walk_stack(frame)))):
            taken = self._enter_region(frame, asked)
            settings = find_settings(frame) if is_truth else []
            setting = f", or set {' and '.join(settings)} to 0" if settings else ""
            branch = ADVICE + self.regions.why if self.regions.why else ""
            number = "" if is_truth else advise_on_number(asked.dtype)
            self.advice = _advise_to_generate(frame) or setting or branch or number
            return taken
        value, is_check = way
        if is_check:
            self.checks.append((asked, value))
        return value

    def _enter_region(self, frame: FrameType, asked: torch.Tensor) -> bool | int | None:
        self.regions.why = ""
        if self.regions.is_over:
            return None
        if asked.dtype is torch.bool:
            return self.regions.enter(frame, asked)
        if asked.dtype.is_floating_point or asked.dtype.is_complex:
            return None
        found = self.regions.enter_by_number(frame, asked)
        return found if found is not None else self.regions.enter(frame, asked != 0)

    def _check_written(self, func: Any, args: tuple[Any, ...]) -> None:
        """Refuse a change, where torch makes it under a condition only, of what is there before."""
        for value in list_written(func, args):
            if isinstance(value, torch.Tensor) and not self.regions.may_change(value):
                raise refusal(_CHANGED_APART, self.operator, self.line)

    def _answer(self) -> bool:
        """Return the truth that the step is told where both ways have to lead to one program."""
        number = len(self.questions)
        answer = self._answers[number] if number < len(self._answers) else False
        self.questions.append(Question(answer, self.operator, self.line, self.advice))
        return answer

    @contextmanager
    def follow_gradients(self, root: torch.Tensor) -> Iterator[None]:
        """Take lines from the gradient functions under `root` as they run."""
        with ExitStack() as hooks:
            for function in _walk(root.grad_fn):
                line = self._lines.get(function._sequence_nr(), "")  # noqa: SLF001 - not public
                hook = function.register_prehook(partial(self._set_line, line))
                hooks.callback(hook.remove)
            yield

    def _set_line(self, line: str, _gradients: Any) -> None:
        self.line = line

    def find_line(self) -> str:
        """Return the innermost line outside torch that the traced model is at, or nothing."""
        frame = sys._getframe(1).f_back  # noqa: SLF001 - looks without copying the whole stack
        while frame is not None:
            name = frame.f_code.co_filename
            if name in _MACHINERY:
                break
            if not _is_of_torch(name) and name not in _BETWEEN:
                return self._show(self._modules[-1], name, frame.f_lineno)
            frame = frame.f_back
        return ""


def _advise_to_generate(frame: FrameType) -> str:
    """Return how to call a library's generation, where a frame is inside it."""
    names = (found.f_globals.get("__name__", "") for found in _walk_stack(frame))
    if any(name.startswith(_GENERATION) for name in names):
        return _GREEDILY
    return ""


def _walk_stack(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames of the model from here outwards: torch's own are only where it begins."""
    found: FrameType | None = frame
    is_first = True
    while found is not None and found.f_code.co_filename not in _MACHINERY:
        path = found.f_code.co_filename
        if path not in _MODES and (is_first or not _is_of_torch(path)):
            yield found
            is_first = False
        found = found.f_back


def _walk(root: Any) -> Iterator[Any]:
    seen, pending = {root}, [root]
    while pending:
        function = pending.pop()
        yield function
        for following, _ in function.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                pending.append(following)
