"""The effect of rounding on a traced step, measured by runs with random errors on its operators."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map

from offchain.frontend.capture.draft import OwnError
from offchain.frontend.capture.eager import Drawn, prompt

UNIT = 2.0**-24
"""The unit roundoff of float32."""

_NUMBERS = frozenset({torch.float32, torch.bfloat16})

_ATEN = torch.ops.aten

_OF_WHOLE_NUMBERS = frozenset(
    {
        *(_ATEN.add, _ATEN.sub, _ATEN.mul, _ATEN.remainder, _ATEN.fmod),
        *(_ATEN.sum, _ATEN.cumsum, _ATEN.dot, _ATEN.mv, _ATEN.mm, _ATEN.bmm, _ATEN.addmm),
        *(_ATEN.scatter_add, _ATEN.index_put),
    }
)
"""Operators whose result is exact where all operands are whole numbers, and small."""

_SMALL = 2.0**22
"""No sum or product of a few numbers as large as this together needs more than 24 bits."""

_PERIOD = 65521
"""Errors repeat after this many, a prime number."""


class NoisyStep(Interpreter):
    """Runs a traced step in torch, with a random error on every operator that rounds or folds.

    An operator that rounds has an error relative to its result; one that folds n numbers has one
    of sqrt(n), relative to each number that it folds (Higham and Mary, 2019, theorem 2.4): its
    result is the exact result for such operands. Operators that select and move have none, and
    neither have sums and products of small whole numbers, such as counters and masks: an error
    there would turn `count % 2 == 0` in every run.

    Args:
        graph: the traced step.
        errors: the error of each operator, in units of 2^-24.
        drawn: the results of random operators by name.
        slack: the multiple.
        seed: of the errors.
    """

    def __init__(
        self,
        graph: GraphModule,
        errors: Mapping[str, OwnError],
        drawn: Mapping[str, Drawn],
        slack: float,
        seed: int,
    ) -> None:
        super().__init__(graph)
        self._errors, self._drawn = errors, drawn
        generator = torch.Generator().manual_seed(seed)
        uniform = torch.rand(_PERIOD, generator=generator)
        uniform = torch.cat([uniform, uniform])
        self._noise = (2 * uniform - 1) * (slack * UNIT)
        self._place = 0

    def run_node(self, n: Node) -> Any:
        """Return the result of an operator."""
        if n.op != "call_function" or n.name not in self._errors:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        error = self._errors[n.name]
        if getattr(n.target, "overloadpacket", None) in _OF_WHOLE_NUMBERS:
            error = OwnError(0.0, 0.0) if _are_whole(args, kwargs, error.operands) else error
        if error.operands:
            args = tree_map(lambda x: self._disturb(x, error.operands), args)
        target: Any = n.target
        if target is torch.ops.aten.view.default:
            target = torch.ops.aten.reshape.default  # disturbed tensors may have other strides
        result = target(*args, **kwargs)
        if n.name in self._drawn:
            drawn = self._drawn[n.name]
            return prompt(target, args, result, drawn) if drawn else result
        if error.result:
            return tree_map(lambda x: self._disturb(x, error.result), result)
        return result

    def _disturb(self, value: Any, error: float) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype not in _NUMBERS:
            return value
        count = value.numel()
        self._place = (self._place + 7919) % _PERIOD
        noise = self._noise[self._place : self._place + min(count, _PERIOD)]
        if count > _PERIOD:
            noise = noise.repeat(-(-count // _PERIOD))[:count]
        moved = (value * (1 + error * noise.reshape(value.shape))).to(value.dtype)
        return torch.where(moved.isfinite(), moved, value)


def _are_whole(args: Any, kwargs: Any, root: float) -> bool:
    """Return whether all operands are whole numbers, whose folds are exact.

    Args:
        args: the operands.
        kwargs: those that have names.
        root: the square root of how many numbers a fold has.
    """
    size = max(root, 1.0) ** 2
    for value in tree_leaves((args, kwargs)):
        if isinstance(value, float):
            if not value.is_integer():
                return False
            size *= max(abs(value), 1.0)
        elif isinstance(value, torch.Tensor) and value.dtype in _NUMBERS and value.numel():
            if value[(0,) * value.ndim] % 1 != 0 or not bool((value % 1 == 0).all()):
                return False
            size *= max(float(value.abs().max()), 1.0)
    return size < _SMALL


def run_noisily(
    graph: GraphModule,
    errors: Mapping[str, OwnError],
    drawn: Mapping[str, Drawn],
    inputs: Sequence[torch.Tensor],
    slack: float,
    seed: int,
) -> list[torch.Tensor]:
    """Return the results of a traced step with errors; arguments are those of `NoisyStep`."""
    with torch.no_grad():
        results: list[torch.Tensor] = NoisyStep(graph, errors, drawn, slack, seed).run(*inputs)
    return results
