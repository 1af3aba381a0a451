"""The effect of rounding on a traced step, measured by runs with random errors on its operators.

Two things are not left to chance, since no rounding turns them. What float32 holds exactly has no
error: a count of ones, a margin of 1, the corner of a grid. And equal numbers that one operator
makes or takes have equal errors, so that what is tied stays tied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch._ops import OpOverload
from torch.fx import GraphModule, Interpreter, Node

from moot.offchain.frontend.capture.draft import OwnError
from moot.offchain.frontend.capture.eager import Drawn, prompt
from moot.offchain.frontend.lowering.graph import refusal
from moot.offchain.frontend.nesting import map_leaves
from moot.offchain.text import show_error

UNIT = 2.0**-24
"""The unit roundoff of float32."""

_NUMBERS = frozenset({torch.float32, torch.bfloat16})

_LONG = 0xFFF
"""Bits of which a short number, with at most 12 that count, has none: the last of float32."""

_SAMPLE = 4096
"""Elements of a tensor that are looked at; a long number passes for a short one once in so many."""

_RARE = 512
"""A tensor has short numbers if one in so many that are not zero is one."""

_FIRST_FACTOR, _SECOND_FACTOR = 0x2C1B3C6D, 0x297A2D39
"""Odd numbers by which bits are mixed."""


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
        self._short: dict[Node, float | None] = {}

    def run_node(self, n: Node) -> Any:
        """Return the result of an operator."""
        if n.op != "call_function":
            return super().run_node(n)
        return self.apply(n, *self.fetch_args_kwargs_from_env(n))

    def apply(self, n: Node, args: Any, kwargs: Any) -> Any:
        """Return the result of an operator on these operands, with its errors."""
        if n.name not in self._errors:
            return _call(n, n.target, args, kwargs)
        error, target = self._errors[n.name], _find_target(n)
        noisy = args
        if error.operands:
            noisy = map_leaves(lambda x: self._disturb(x, error.operands), args)
        result = _call(n, target, noisy, kwargs)
        if n.name in self._drawn:
            return self._prompt(n, noisy, result)
        if error.result:
            result = map_leaves(lambda x: self._disturb(x, error.result), result)
        if any(error) and self._may_be_exact(n, is_fold=bool(error.operands)):
            plain = _call(n, target, args, kwargs)
            wide = _call(n, target, map_leaves(_widen, args), map_leaves(_widen, kwargs))
            result = map_leaves(_keep_exact, result, plain, wide)
        return result

    def _may_be_exact(self, n: Node, *, is_fold: bool) -> bool:
        """Return whether an operator's result may be exact for a reason that every order shares.

        A fold of numbers that are not short may come out exact in torch's order, by chance.
        """
        shares = [it for it in map(self._get_short, n.all_input_nodes) if it is not None]
        if is_fold:
            return bool(shares) and all(share == 1 for share in shares)
        return any(share * _RARE >= 1 for share in shares)

    def _get_short(self, node: Node) -> float | None:
        """Return the share of short numbers in an operator's result, which is looked at once."""
        if node not in self._short:
            self._short[node] = _find_short(_get_noisy(self.env[node]))
        return self._short[node]

    def apply_exactly(self, n: Node, args: Any, kwargs: Any) -> Any:
        """Return the result of an operator on these operands, without errors."""
        result = _call(n, _find_target(n), args, kwargs)
        return self._prompt(n, args, result) if n.name in self._drawn else result

    def _prompt(self, n: Node, args: Any, result: Any) -> Any:
        drawn = self._drawn[n.name]
        return prompt(_find_target(n), args, result, drawn) if drawn else result

    def _disturb(self, value: Any, error: float) -> Any:
        if isinstance(value, torch.Tensor) and value.is_complex():
            return self._disturb_parts(value, error)
        if not _holds_numbers(value):
            return value
        x = _read(value)
        moved = x + x * self._draw_errors(x, error)
        moved = np.where(np.isfinite(moved), moved, x)
        return torch.from_numpy(moved).squeeze(0).to(value.dtype)

    def _disturb_parts(self, value: torch.Tensor, error: float) -> torch.Tensor:
        """Return complex numbers with errors of both parts, relative to the number's size."""
        parts = torch.view_as_real(value.resolve_conj())
        size = torch.where(parts == 0, 0, value.abs()[..., None])
        errors = torch.from_numpy(self._draw_errors(_read(parts), error)).squeeze(0)
        moved = parts + size * errors
        return torch.view_as_complex(torch.where(moved.isfinite(), moved, parts))

    def _draw_errors(self, x: NDArray[np.float32], error: float) -> NDArray[np.float32]:
        """Return a number of either sign for each element, which follows from its bits.

        A product's upper bits, and its sign, depend on all bits of what is multiplied.
        """
        bits = x.view(np.int32) ^ self._salts.getrandbits(31)
        bits *= _FIRST_FACTOR
        bits ^= bits >> 15
        bits *= _SECOND_FACTOR
        return bits.astype(np.float32) * np.float32(error * self._slack * UNIT * 2.0**-31)


def _read(value: torch.Tensor) -> NDArray[np.float32]:
    """Return real numbers as float32, with an axis of one before theirs."""
    array: NDArray[np.float32] = value.detach().float().resolve_neg().numpy()
    return array[np.newaxis]


class ContainedStep(NoisyStep):
    """Runs a traced step with errors, none of which takes a number out of the range of float32.

    The step is run without errors as well, operator by operator. Where an operator's result is
    finite there and not here, it is the one without errors: an error on -1e30, the logarithm of a
    chance of 0, says nothing of rounding where its exponential comes to infinity.
    """

    def run_node(self, n: Node) -> Any:
        """Return the result of an operator with errors, and beside it the one without."""
        if n.op == "output":
            return map_leaves(_get_noisy, super().run_node(n))
        if n.op != "call_function":
            value = super().run_node(n)
            return _Pair(value, value)
        operands = self.fetch_args_kwargs_from_env(n)
        exact = self.apply_exactly(n, *map_leaves(_get_exact, operands))
        noisy = self.apply(n, *map_leaves(_get_noisy, operands))
        return _Pair(map_leaves(contain, noisy, exact), exact)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The results of an operator in a run with errors and in one without."""

    noisy: Any
    exact: Any


def _get_noisy(value: Any) -> Any:
    return value.noisy if isinstance(value, _Pair) else value


def _get_exact(value: Any) -> Any:
    return value.exact if isinstance(value, _Pair) else value


def _find_target(n: Node) -> Any:
    """Return the function that an operator calls; disturbed tensors may have other strides."""
    is_view = n.target is torch.ops.aten.view.default
    return torch.ops.aten.reshape.default if is_view else n.target


def contain(noisy: Any, exact: Any) -> Any:
    """Return noisy numbers, but exact ones where these are finite and the noisy ones are not."""
    if not isinstance(noisy, torch.Tensor) or not (noisy.is_floating_point() or noisy.is_complex()):
        return noisy
    return torch.where(noisy.isfinite() | ~exact.isfinite(), noisy, exact)


def _holds_numbers(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _NUMBERS


def _find_short(value: Any) -> float | None:
    """Return the share of a tensor's numbers that have few bits; None if it has no numbers.

    Something exact may be made of such numbers. Zeros don't count.
    """
    if not _holds_numbers(value):
        return None
    if value.dtype is torch.bfloat16:
        return 1.0
    step = -(-value.numel() // _SAMPLE)
    bits = value.detach().reshape(-1)[:: step or 1].resolve_neg().numpy().view(np.uint32)
    is_number = bits << 1 != 0
    count = np.count_nonzero(is_number)
    short = np.count_nonzero(is_number & ((bits & _LONG) == 0))
    return short / count if count else 1.0


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
    kind: type[NoisyStep] = NoisyStep,
) -> list[torch.Tensor]:
    """Return the results of a traced step with errors; arguments are those of `NoisyStep`."""
    with torch.no_grad(), np.errstate(over="ignore", invalid="ignore"):
        results: list[torch.Tensor] = kind(graph, errors, drawn, slack, seed).run(*inputs)
    return results
