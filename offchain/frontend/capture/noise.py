"""The effect of rounding on a traced step, measured by runs with random errors on its operators.

Two things are not left to chance, since no rounding turns them. What float32 holds exactly has no
error: a count of ones, a margin of 1, the corner of a grid. And equal numbers that one operator
makes or takes have equal errors, so that what is tied stays tied.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves, tree_map

from offchain.frontend.capture.draft import OwnError
from offchain.frontend.capture.eager import Drawn, prompt
from offchain.frontend.lowering.graph import refusal
from offchain.text import show_error

UNIT = 2.0**-24
"""The unit roundoff of float32."""

_NUMBERS = frozenset({torch.float32, torch.bfloat16})

_LONG = 0xFFF
"""Bits of which a short number, with at most 12 that count, has none: the last of float32."""

_SAMPLE = 4096
"""Elements of a tensor that are looked at; a long number passes for a short one once in so many."""

_RARE = 512
"""A tensor has short numbers if one element in so many is one."""

_FIRST_FACTOR, _SECOND_FACTOR = 0x2C1B3C6D, 0x297A2D39
"""Odd numbers by which bits are mixed."""

_SHIFT = 15
"""Places by which the upper bits are moved onto the lower ones."""

_UNSIGNED = (1 << 32 - _SHIFT) - 1
"""The bits that a shift leaves, without the copies of the sign: else no error was negative."""


class NoisyStep(Interpreter):
    """Runs a traced step in torch, with a random error on every operator that rounds or folds.

    An operator that rounds has an error relative to its result; one that folds n numbers has one
    of sqrt(n), relative to each number that it folds (Higham and Mary, 2019, theorem 2.4): its
    result is the exact result for such operands. Operators that select and move have none, and
    neither have results that are exact.

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
        self._errors, self._drawn, self._slack = errors, drawn, slack
        self._salts = Random(seed)  # noqa: S311 - errors are no secret

    def run_node(self, n: Node) -> Any:
        """Return the result of an operator."""
        if n.op != "call_function":
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.name not in self._errors:
            return _call(n, n.target, args, kwargs)
        error = self._errors[n.name]
        target: Any = n.target
        if target is torch.ops.aten.view.default:
            target = torch.ops.aten.reshape.default  # disturbed tensors may have other strides
        noisy = args
        if error.operands:
            noisy = tree_map(lambda x: self._disturb(x, error.operands), args)
        result = _call(n, target, noisy, kwargs)
        if n.name in self._drawn:
            drawn = self._drawn[n.name]
            return prompt(target, noisy, result, drawn) if drawn else result
        if error.result:
            result = tree_map(lambda x: self._disturb(x, error.result), result)
        if any(error) and any(map(_has_short, tree_leaves((args, kwargs)))):
            plain = _call(n, target, args, kwargs)
            wide = _call(n, target, tree_map(_widen, args), tree_map(_widen, kwargs))
            result = tree_map(_keep_exact, result, plain, wide)
        return result

    def _disturb(self, value: Any, error: float) -> Any:
        if isinstance(value, torch.Tensor) and value.is_complex():
            return self._disturb_parts(value, error)
        if not _holds_numbers(value):
            return value
        moved = value * (1 + self._draw_errors(value) * (error * self._slack * UNIT))
        moved = moved.to(value.dtype)
        return torch.where(moved.isfinite(), moved, value)

    def _disturb_parts(self, value: torch.Tensor, error: float) -> torch.Tensor:
        """Return complex numbers with errors of both parts, relative to the number's size."""
        parts = torch.view_as_real(value.resolve_conj())
        size = torch.where(parts == 0, 0, value.abs()[..., None])
        moved = parts + size * (self._draw_errors(parts) * (error * self._slack * UNIT))
        return torch.view_as_complex(torch.where(moved.isfinite(), moved, parts))

    def _draw_errors(self, value: torch.Tensor) -> torch.Tensor:
        """Return a number in [-1, 1) for each element, which follows from its bits."""
        bits = value.float().view(torch.int32) ^ self._salts.getrandbits(31)
        for factor in (_FIRST_FACTOR, _SECOND_FACTOR):
            bits.mul_(factor)
            bits.bitwise_xor_((bits >> _SHIFT) & _UNSIGNED)
        return bits * 2.0**-31


def _holds_numbers(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _NUMBERS


def _has_short(value: Any) -> bool:
    """Return whether a tensor has numbers of few bits, of which something exact may be made."""
    if not _holds_numbers(value):
        return False
    if value.dtype is torch.bfloat16:
        return True
    step = -(-value.numel() // _SAMPLE)
    bits = value.detach().reshape(-1)[:: step or 1].numpy().view(np.uint32)
    short = np.count_nonzero(((bits & _LONG) == 0) & (bits << 1 != 0))
    return bool(short and short * _RARE >= bits.size)


def _widen(value: Any) -> Any:
    """Return numbers, and a type of numbers, as float64."""
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _NUMBERS else value
    return value.double() if _holds_numbers(value) else value


def _keep_exact(noisy: Any, plain: Any, wide: Any) -> Any:
    """Return a noisy result, but where float64 makes the same of the operands as the type does."""
    if not _holds_numbers(noisy):
        return noisy
    return torch.where(plain == wide, plain, noisy)


_BY_DIMENSION = frozenset(
    {"gather", "index_select", "index_add", "index_copy", "index_fill"}
    | {"scatter", "scatter_add", "scatter_reduce"}
)
"""Operators of a tensor, a dimension of it, and indices there."""

_BY_LIST = frozenset({"index", "index_put"})
"""Operators of a tensor, and a list of indices of its first dimensions."""


def _call(node: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of an operator; an index that errors carry out of a tensor stays inside."""
    try:
        return target(*args, **kwargs)
    except (IndexError, RuntimeError) as error:
        return target(*_keep_inside(node, args, error), **kwargs)


def _keep_inside(node: Node, args: tuple[Any, ...], error: Exception) -> tuple[Any, ...]:
    """Return the arguments of an operator with indices that an error has carried out of a tensor.

    Raises:
        CaptureError: the operator has none, and fails for another reason.
    """
    name = node.target.overloadpacket.__name__ if isinstance(node.target, OpOverload) else ""
    if name in _BY_DIMENSION:
        x, dim, index = args[:3]
        return (x, dim, _clamp(index, x.shape[dim] if x.ndim else 1, 0), *args[3:])
    if name == "embedding":
        return (args[0], _clamp(args[1], args[0].shape[0], 0), *args[2:])
    if name in _BY_LIST:
        pairs = zip(args[1], args[0].shape, strict=False)
        inside = [index if index is None else _clamp(index, n, -n) for index, n in pairs]
        return (args[0], inside, *args[2:])
    message = f"it fails where what it is given is off by rounding errors ({show_error(error)})"
    line = node.stack_trace or ""
    raise refusal(f"{message}; keep it away from where it fails", str(node.target), line) from error


def _clamp(index: torch.Tensor, size: int, least: int) -> torch.Tensor:
    return index if index.dtype == torch.bool else index.clamp(least, size - 1)


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
