"""Complex tensors inside a program: pairs of a real and an imaginary part.

Arithmetic is decomposed into that of the parts before it gets here (`decompositions`). What is left
makes pairs, takes them apart, or moves elements, which is done to both parts alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, RefusalError
from moot.offchain.frontend.lowering.creation import CREATION
from moot.offchain.frontend.lowering.elementwise import ELEMENTWISE
from moot.offchain.frontend.lowering.indexing import INDEXING
from moot.offchain.frontend.lowering.padding import PADDING
from moot.offchain.frontend.lowering.reductions import REDUCTIONS
from moot.offchain.frontend.lowering.shapes import SHAPES, join
from moot.offchain.frontend.lowering.views import View, constant, drop, insert


@dataclass(frozen=True, slots=True)
class Pair:
    """A complex tensor: float32 parts of one shape."""

    real: View
    imaginary: View

    @property
    def views(self) -> tuple[View, View]:
        """Both parts."""
        return self.real, self.imaginary


def _make(_: Builder, real: View, imaginary: View) -> Pair:
    return Pair(real, imaginary)


def _view_as_complex(_: Builder, x: View) -> Pair:
    last = len(x.shape) - 1
    return Pair(drop(x, last, 0), drop(x, last, 1))


def _view_as_real(b: Builder, x: Pair) -> View:
    axis = len(x.real.shape)
    return join(b, [insert(view, axis) for view in x.views], axis)


def _convert(b: Builder, x: Any, *_: Any, **__: Any) -> Pair:
    if isinstance(x, Pair):
        return x
    real = b.cast(x, DType.FLOAT32)
    return Pair(real, constant(DType.FLOAT32, 0, real.shape))


def _where(b: Builder, condition: View, x: Any, y: Any) -> Pair:
    first, second = _split(b, x), _split(b, y)
    real, imaginary = (
        b.map(Function.WHERE, condition, p, q) for p, q in zip(first, second, strict=True)
    )
    return Pair(real, imaginary)


def _split(b: Builder, value: Any) -> tuple[View, View]:
    """Return both parts of a pair, a real tensor or a number."""
    if isinstance(value, Pair):
        return value.views
    if isinstance(value, View):
        return b.cast(value, DType.FLOAT32), constant(DType.FLOAT32, 0, value.shape)
    return b.scalar(value.real, DType.FLOAT32), b.scalar(value.imag, DType.FLOAT32)


PAIRS: Mapping[str, Callable[..., View | Pair]] = {
    "aten.complex.default": _make,
    "aten.view_as_complex.default": _view_as_complex,
    "aten.view_as_real.default": _view_as_real,
    "prims.real.default": lambda _, x: x.real,
    "prims.imag.default": lambda _, x: x.imaginary,
    "aten._to_copy.default": _convert,
    "prims.convert_element_type.default": _convert,
    "aten.where.self": _where,
}
"""ATen overload -> rule on complex tensors."""

_MOVES: Mapping[str, Callable[..., Any]] = {
    **SHAPES,
    **{
        f"aten.{name}.default": ELEMENTWISE[f"aten.{name}.default"]
        for name in ("clone", "alias", "detach", "lift_fresh_copy", "neg")
    },
    **{
        name: INDEXING[name]
        for name in INDEXING
        if not name.startswith(("aten.scatter_reduce", "aten.embedding_dense"))
    },
    **{f"aten.sum.{o}": REDUCTIONS[f"aten.sum.{o}"] for o in ("default", "dim_IntList")},
    **{f"aten.mean.{o}": REDUCTIONS[f"aten.mean.{o}"] for o in ("default", "dim")},
    "aten.cumsum.default": REDUCTIONS["aten.cumsum.default"],
    "aten.constant_pad_nd.default": PADDING["aten.constant_pad_nd.default"],
    "aten.copy.default": CREATION["aten.copy.default"],
}
"""What is done to the real and to the imaginary part alike."""

_ZEROS = frozenset({name for name in CREATION if "zeros" in name or "empty" in name})


def holds_pair(value: Any) -> bool:
    """Return whether an argument is or has a complex tensor."""
    if isinstance(value, (list, tuple)):
        return any(holds_pair(item) for item in value)
    if isinstance(value, dict):
        return any(holds_pair(item) for item in value.values())
    return isinstance(value, Pair)


def lower_pairs(b: Builder, name: str, args: Any, options: Any) -> Any:
    """Return what an operator makes of complex tensors."""
    if name in PAIRS:
        return PAIRS[name](b, *args, **options)
    if name in _ZEROS:
        zeros = constant(DType.FLOAT32, 0, b.result.shape)
        return Pair(zeros, zeros)
    if name not in _MOVES:
        raise RefusalError(
            "no rule expresses this operator on complex numbers; use their real and imaginary parts"
        )
    parts = [_MOVES[name](b, *_take(args, place), **_take(options, place)) for place in (0, 1)]
    if isinstance(parts[0], tuple):
        return tuple(Pair(*both) for both in zip(*parts, strict=True))
    return Pair(*parts)


def _take(value: Any, place: int) -> Any:
    """Return arguments with one part of every pair in its place."""
    if isinstance(value, Pair):
        return value.views[place]
    if isinstance(value, (list, tuple)):
        return [_take(item, place) for item in value]
    if isinstance(value, dict):
        return {key: _take(item, place) for key, item in value.items()}
    return value
