"""The trial of one row on special inputs: its program beside eager torch.

What differs is told by kinds, "gradient nan/number of numbers" for a gradient that is NaN in torch
and a number in the program, where all inputs are numbers. Rounding is measured as in the rehearsal,
by runs with errors on all operators. A number may differ by four times the spread of these runs, by
2^-20 of itself, or of the largest of its tensor where the row folds numbers; and where not a digit
is certain it may be anything. Where numbers leave the range of float32 on the way, and torch's
result is none, the program's may be any.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves

from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.backends import table as backends
from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import noise
from moot.offchain.frontend.capture.draft import Draft, make_draft, make_start
from moot.offchain.frontend.capture.eager import EagerRun
from moot.offchain.frontend.capture.noise import run_noisily
from moot.offchain.frontend.capture.rehearsal import MARGIN, SLACK, _run_program
from moot.offchain.frontend.capture.stepping import step_as_user
from moot.offchain.frontend.subject import Subject
from moot.offchain.frontend.tracing import get_initial_state
from tests.battery.draws import DRAWS
from tests.battery.reach import reach
from tests.corpus.judge import make_recipe, prepare
from tests.corpus.rows import Row
from tests.unit.numpy_backend import Numpy

NOISY_RUNS = 4

RELATIVE, LEAST = 2.0**-20, 2.0**-126

KINDS = ("number", "zero", "inf", "-inf", "nan")

UNHEARD = (RuntimeError, ValueError, IndexError, NotImplementedError)
"""What torch raises where it has no result: a program's step always ends."""


@dataclass(frozen=True)
class Difference:
    """A difference between torch and a program.

    Attributes:
        draw: the inputs.
        kinds: the result and what it is in torch and in the program.
        example: both elements at the first place where they differ so.
    """

    draw: str
    kinds: str
    example: str


class Trial:
    """A row's program, ready to run on special inputs.

    Args:
        row: the row.

    Attributes:
        reached: the operators of our tables that its capture has met.
    """

    def __init__(self, row: Row) -> None:
        self._model = prepare(row)
        self._recipe = make_recipe(row, self._model)
        self._batch = list(self._recipe.batch(0))
        with reach() as self.reached:
            start = make_start(Subject.of(self._recipe), self._batch)
            self._draft: Draft = make_draft(start, ORDERED)
        self.reached |= {str(node.target) for node in self._draft.graph.graph.nodes}
        with patch.dict(backends._BACKENDS, {"numpy": Numpy}):
            self._executor = Executor(self._draft.program, backend="numpy")
        self._subject = start.subject
        self._start = {n: t.detach().clone() for n, t in start.subject.tensors.items()}
        self._optimizer = get_initial_state(start.subject)
        self._folds = any(error.operands for error in self._draft.errors.values())

    def _draw(self, draw: str) -> list[Tensor]:
        """Put special inputs into the model's parameters, and return the batch."""
        generator = torch.Generator().manual_seed(sum(map(ord, draw)))
        tensors, batch = self._subject.look_again().tensors, [x.clone() for x in self._batch]
        inputs = [x for n, x in sorted(tensors.items()) if n.startswith("parameter.input_")]
        inputs += [x for x in batch if x.is_floating_point()]
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(self._start[name])
            drawn = DRAWS[draw]([x.detach() for x in inputs], generator)
            for x, new in zip(inputs, drawn, strict=True):
                x.copy_(new)
        return batch

    def compare(self, draw: str) -> list[Difference]:
        """Return the differences on drawn inputs; none where torch raises an error."""
        batch = self._draw(draw)
        run = EagerRun(self._subject.look_again(), self._optimizer, step_as_user)
        state = run.get_state()
        inputs = [*state.values(), *batch]
        found, drawn = _run_program(self._draft, self._executor, state, batch, 0)
        try:
            expected = run.step(batch, {k: v for k, v in drawn.items() if isinstance(k, int)})
        except UNHEARD:
            return []
        differing = [n for n in found if _is_judged(n) and _differ(expected[n], found[n]).any()]
        if not differing:
            return []
        graph, errors = self._draft.graph, self._draft.errors
        nodes = {name: value for name, value in drawn.items() if isinstance(name, str)}
        try:
            with patch.object(noise, "_find_short", lambda _: None):  # special numbers are short
                runs = [
                    run_noisily(graph, errors, nodes, inputs, SLACK, k) for k in range(NOISY_RUNS)
                ]
            may_overflow = overflows(graph, inputs)
        except UNHEARD:  # an index is out of range
            runs = [[expected[name] for name in self._draft.results]]
            may_overflow = False
        differences: list[Difference] = []
        for name in differing:
            place = self._draft.results.index(name)
            several = torch.stack([results[place].reshape(found[name].shape) for results in runs])
            wrong = self._judge(expected[name], found[name], several, may_overflow=may_overflow)
            kind = f"{name.partition('.')[0].replace('buffer', 'output')} {{}} of {_say(inputs)}"
            for kinds, example in _describe(expected[name], found[name], wrong):
                differences.append(Difference(draw, kind.format(kinds), f"{name}{example}"))
        return differences

    def _judge(self, a: Tensor, b: Tensor, several: Tensor, *, may_overflow: bool) -> Tensor:
        """Return where torch and the program differ by more than rounding explains."""
        wrong = _differ(a, b)
        if not a.is_floating_point():
            return wrong & (several == several[0]).all(0)
        kinds = classify(several)
        several = several.double()
        spread = (several.amax(0) - several.amin(0)).nan_to_num(nan=0.0, posinf=0.0)
        size = several.abs().amax(0).nan_to_num(nan=0.0, posinf=0.0)
        bound = MARGIN * spread
        is_anything = (kinds != kinds[0]).any(0) | ((bound >= size) & (spread > 0))
        finite = a[a.isfinite()].abs()
        if self._folds and finite.numel():
            bound = bound.clamp(min=RELATIVE * float(finite.max()))
        is_near = (a.double() - b.double()).abs() <= bound
        return wrong & ~is_anything & ~is_near & (a.isfinite() | (not may_overflow))


def _is_judged(name: str) -> bool:
    """Return whether a result is compared: outputs, buffers and gradients are."""
    return not name.startswith(("parameter.", "optimizer.")) and name != "output.loss"


def classify(x: Tensor) -> Tensor:
    """Return the place in KINDS of each element."""
    if not x.is_floating_point():
        return torch.zeros(x.shape, dtype=torch.int64)
    kinds = torch.where(x == 0, 1, 0)
    kinds = torch.where(x == torch.inf, 2, torch.where(x == -torch.inf, 3, kinds))
    return torch.where(x.isnan(), 4, kinds)


def _differ(a: Tensor, b: Tensor) -> Tensor:
    """Return where two tensors differ by more than an operator's rounding error."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return torch.ones(a.shape, dtype=torch.bool)
    if not a.is_floating_point():
        return a != b
    apart = (a.double() - b.double()).abs()
    is_near = apart <= RELATIVE * a.double().abs() + LEAST
    return ~(is_near & a.isfinite()) & ~(a == b) & ~(a.isnan() & b.isnan())


def _say(inputs: Sequence[Tensor]) -> str:
    """Return what the inputs are: NaN, infinities or numbers only."""
    floats = [x for x in inputs if x.is_floating_point()]
    if any(bool(x.isnan().any()) for x in floats):
        return "NaN"
    return "infinities" if any(bool(x.isinf().any()) for x in floats) else "numbers"


def _describe(a: Tensor, b: Tensor, wrong: Tensor) -> Iterator[tuple[str, str]]:
    """Yield each pair of kinds once, with the first place where they are."""
    seen = set()
    for place in wrong.reshape(-1).nonzero()[:, 0].tolist():
        x, y = a.reshape(-1)[place], b.reshape(-1)[place]
        kinds = "/".join(KINDS[int(classify(value))] for value in (x, y))
        if kinds not in seen:
            seen.add(kinds)
            yield kinds, f"[{place}]: {x.item()} in torch, {y.item()}"


SUMS = frozenset(
    {
        *(
            "add",
            "cumprod",
            "cumsum",
            "mean",
            "mul",
            "pow",
            "prod",
            "rsub",
            "sub",
            "sum",
            "var_mean",
        ),
        *("addmm", "addmv", "baddbmm", "bmm", "dot", "mm", "mv"),
        *("convolution", "convolution_backward"),
    }
)
"""Operators that make infinities of numbers only where these leave the range."""

LARGE = 1e18
"""Sums of products of numbers below are numbers."""


class _Watch(Interpreter):
    """Runs a traced step in torch, and notes whether numbers leave the range on the way."""

    has_overflowed = False

    def run_node(self, n: Node) -> Any:
        """Return the result of an operator."""
        result = super().run_node(n)
        name = str(n.target).split(".")
        if n.op == "call_function" and len(name) > 1 and name[1] in SUMS:
            operands = _list_floats(self.fetch_args_kwargs_from_env(n))
            self.has_overflowed |= _overflows(operands, _list_floats(result))
        return result


def _list_floats(value: Any) -> list[Tensor]:
    return [x for x in tree_leaves(value) if isinstance(x, Tensor) and x.is_floating_point()]


def _overflows(operands: Sequence[Tensor], results: Sequence[Tensor]) -> bool:
    """Return whether results are infinite or NaN, or may be on the way, by the size of numbers."""
    if all(bool(x.isfinite().all()) for x in results):
        return False
    if results and all(x.shape == results[0].shape for x in operands):
        is_number = torch.stack([x.isfinite() for x in operands]).all(0)
        return bool((is_number & ~results[0].isfinite()).any())
    return any(bool((x.isfinite() & (x.abs() > LARGE)).any()) for x in operands)


def overflows(graph: GraphModule, inputs: Sequence[Tensor]) -> bool:
    """Return whether numbers leave the range of float32 in a traced step."""
    watch = _Watch(graph)
    with torch.no_grad():
        watch.run(*inputs)
    return watch.has_overflowed
