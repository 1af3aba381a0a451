"""Rules that make tensors of constants and counters; assertions make none."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from moot.offchain.commitments.tensors import NUMPY_TYPES
from moot.offchain.frontend.lowering.builder import Builder, Rule
from moot.offchain.frontend.lowering.views import View, constant, expand


def _fill(b: Builder, value: float) -> View:
    dtype, shape = b.result
    return constant(dtype, b.scalar(value, dtype).bits, shape)


def full(b: Builder, _: Any, value: float, **__: Any) -> View:
    """Lower full, full_like and fill: one number everywhere."""
    return _fill(b, value)


def fixed(b: Builder, *_: Any, value: float, **__: Any) -> View:
    """Lower zeros, ones and their relatives; nothing reads the elements of empty, so they are 0."""
    return _fill(b, value)


def scalar_tensor(b: Builder, value: float, **_: Any) -> View:
    """Lower scalar_tensor."""
    return _fill(b, value)


def copy(b: Builder, x: View, source: View, *_: Any) -> View:
    """Lower copy: the source in the type and the shape of the other."""
    return expand(b.cast(source, x.dtype), x.shape)


def arange(b: Builder, *bounds: float, **_: Any) -> View:
    """Lower arange: exact data."""
    start = bounds[0] if len(bounds) > 1 else 0
    return _count(b, start, bounds[2] if len(bounds) > 2 else 1)


def eye(b: Builder, *_: Any, **__: Any) -> View:
    """Lower eye: exact data."""
    dtype, shape = b.result
    return b.tensor(np.eye(*shape, dtype=NUMPY_TYPES[dtype]))


def iota(b: Builder, _length: int, *, start: int, step: int, **_: Any) -> View:
    """Lower prims.iota: exact data."""
    return _count(b, start, step)


def _count(b: Builder, start: float, step: float) -> View:
    dtype, shape = b.result
    numbers = start + step * np.arange(shape[0])
    return b.tensor(np.asarray(numbers, NUMPY_TYPES[dtype]))


def triangle_indices(
    b: Builder, rows: int, columns: int, offset: int = 0, *, is_lower: bool, **_: Any
) -> View:
    """Lower tril_indices and triu_indices: exact data."""
    find = np.tril_indices if is_lower else np.triu_indices
    found = np.stack(find(rows, offset, columns))
    return b.tensor(found.astype(NUMPY_TYPES[b.result.dtype]))


CREATION: Mapping[str, Rule] = {
    "aten.full.default": full,
    "aten.full_like.default": full,
    "aten.new_full.default": lambda b, _, __, value, **___: _fill(b, value),
    "aten.fill.Scalar": full,
    "aten.scalar_tensor.default": scalar_tensor,
    **{
        f"aten.{name}{suffix}.default": partial(fixed, value=value)
        for name, value in (("zeros", 0), ("ones", 1))
        for suffix in ("", "_like")
    },
    **{
        f"aten.new_{name}.default": partial(fixed, value=value)
        for name, value in (("empty", 0), ("zeros", 0), ("ones", 1))
    },
    **dict.fromkeys(
        (
            *("aten.empty.memory_format", "aten.empty_like.default", "aten.empty_permuted.default"),
            *("aten.empty_strided.default", "aten.new_empty_strided.default"),
        ),
        partial(fixed, value=0),
    ),
    "aten.copy.default": copy,
    **{f"aten.arange.{o}": arange for o in ("default", "start", "start_step")},
    "prims.iota.default": iota,
    **{f"aten.eye.{o}": eye for o in ("default", "m")},
    "aten.tril_indices.default": partial(triangle_indices, is_lower=True),
    "aten.triu_indices.default": partial(triangle_indices, is_lower=False),
    **dict.fromkeys(
        ("aten._assert_async.msg", "aten._linalg_check_errors.default"), lambda *_, **__: None
    ),
}
"""ATen overload -> rule."""
