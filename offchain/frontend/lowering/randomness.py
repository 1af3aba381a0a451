"""Rules of random operators: functions of Philox's uniform numbers, each call with its own stream.

Uniform numbers u are multiples of 2^-24 in [0, 1). Where a logarithm follows, 0 becomes 2^-25.
"""

# ruff: noqa: FBT001, FBT002 - rules have the signatures of ATen's operators

from collections.abc import Mapping
from math import pi
from typing import Any

from moot.offchain.arithmetic.functions import DType, Function
from moot.offchain.frontend.lowering.builder import Builder, RefusalError, Rule
from moot.offchain.frontend.lowering.reductions import argbest
from moot.offchain.frontend.lowering.sorting import topk
from moot.offchain.frontend.lowering.views import View, constant, expand, insert

LEAST_UNIFORM = 2.0**-25

MAX_INTEGERS = 1 << 24
"""The largest range of random integers: every one of them has the same chance up to 2^-24."""


def bernoulli(b: Builder, x: View, p: float | None = None, **_: Any) -> View:
    """Lower bernoulli: whether a uniform number is below p (by default x itself), as a number."""
    chance = b.cast(x if p is None else p, DType.FLOAT32)
    shape = b.result.shape
    below = b.map(Function.LT, b.uniform(shape), chance, dtype=DType.BOOL)
    return b.cast(below, b.result.dtype)


def native_dropout(b: Builder, x: View, p: float, train: bool | None) -> tuple[View, View]:
    """Lower native_dropout: x times the scale of the kept elements, as its gradient has it."""
    if train is False or p == 0:
        return x, constant(DType.BOOL, 1, x.shape)
    chance = b.scalar(1 - p, DType.FLOAT32)
    kept = b.map(Function.LT, b.uniform(x.shape), chance, dtype=DType.BOOL, part="kept")
    scale = b.scalar(1 / (1 - p) if p < 1 else 0, x.dtype)
    factor = b.map(Function.MUL, b.cast(kept, x.dtype), scale, part="factor")
    return b.map(Function.MUL, x, factor), kept


def rand(b: Builder, *_: Any, **__: Any) -> View:
    """Lower rand and rand_like."""
    return b.uniform(b.result.shape)


def uniform(b: Builder, _: View, low: float = 0, high: float = 1, **__: Any) -> View:
    """Lower uniform: low + (high - low) u."""
    scaled = b.map(Function.MUL, b.uniform(b.result.shape), b.scalar(high - low, DType.FLOAT32))
    return b.map(Function.ADD, scaled, b.scalar(low, DType.FLOAT32))


def randn(b: Builder, *_: Any, **__: Any) -> View:
    """Lower randn and randn_like: sqrt(-2 log u) cos(2 pi v), Box and Muller's."""
    shape = b.result.shape
    logarithm = b.map(Function.MUL, _negative_log(b, b.uniform(shape)), _number(b, 2))
    angle = b.map(Function.MUL, b.uniform(shape), _number(b, 2 * pi), part="angle")
    radius = b.map(Function.SQRT, logarithm, part="radius")
    return b.map(Function.MUL, radius, b.map(Function.COS, angle), part="normal")


def normal(b: Builder, _: View, mean: float = 0, std: float = 1, **__: Any) -> View:
    """Lower normal: mean + std randn."""
    scaled = b.map(Function.MUL, randn(b), _number(b, std))
    return b.map(Function.ADD, scaled, _number(b, mean))


def randint(b: Builder, *arguments: Any, **_: Any) -> View:
    """Lower randint and randint_like: low + floor((high - low) u), which stays below high."""
    low, high = [0, *(n for n in arguments if isinstance(n, int))][-2:]
    if not 0 < high - low <= MAX_INTEGERS:
        raise RefusalError(f"{high - low} random integers; 1 to {MAX_INTEGERS} are defined")
    scaled = b.map(Function.MUL, b.uniform(b.result.shape), _number(b, high - low))
    numbers = b.cast(b.map(Function.FLOOR, scaled), b.result.dtype)
    return b.map(Function.ADD, numbers, b.scalar(low, numbers.dtype))


def multinomial(b: Builder, x: View, count: int, replacement: bool = False, **_: Any) -> View:
    """Lower multinomial: the largest weight / -log u (Efraimidis and Spirakis), or several.

    The largest one is a draw in proportion to the weights; the `count` largest are draws without
    replacement.
    """
    several = count > 1 and replacement
    weights = insert(x, len(x.shape) - 1) if several else x
    shape = (*x.shape[:-1], count, x.shape[-1]) if several else x.shape
    time = _negative_log(b, b.uniform(shape))
    keys = b.map(Function.DIV, expand(weights, shape), time, part="keys")
    if several or count == 1:
        return argbest(b, Function.ARGMAX, keys, -1, keepdim=not several)
    return topk(b, keys, count)[1]


def _negative_log(b: Builder, u: View) -> View:
    positive = b.map(Function.MAX, u, _number(b, LEAST_UNIFORM))
    return b.map(Function.NEG, b.map(Function.LOG, positive))


def _number(b: Builder, value: float) -> View:
    return b.scalar(value, DType.FLOAT32)


RANDOMNESS: Mapping[str, Rule] = {
    **{f"aten.bernoulli.{o}": bernoulli for o in ("default", "p")},
    "aten.native_dropout.default": native_dropout,
    **dict.fromkeys(("aten.rand.default", "aten.rand_like.default"), rand),
    "aten.uniform.default": uniform,
    **dict.fromkeys(("aten.randn.default", "aten.randn_like.default"), randn),
    "aten.normal_functional.default": normal,
    **dict.fromkeys(
        (
            *("aten.randint.default", "aten.randint.low"),
            *("aten.randint_like.default", "aten.randint_like.low_dtype"),
        ),
        randint,
    ),
    "aten.multinomial.default": multinomial,
}
"""ATen overload -> rule."""
