"""Sums as another device makes them: products of matrices and reductions under a profile."""

import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ctypes import CDLL
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from moot.offchain.arithmetic.functions import Function
from moot.offchain.commitments.tensors import Array
from moot.offchain.errors import UsageError
from moot.offchain.native.binary64.base import Doubles, Engine
from moot.offchain.replication.engines import TorchEngine
from moot.offchain.replication.profiles import Profile

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Multiplies two matrices, or two batches of as many."""

_ATEN = torch.ops.aten
_PRODUCTS = (_ATEN.mm.default, _ATEN.bmm.default)
_PRODUCTS_WITH_BIAS = (_ATEN.addmm.default, _ATEN.baddbmm.default)
_SUMS_OF_ALL = (_ATEN.sum.default, _ATEN.mean.default)
_SUMS_OF_AXES = (_ATEN.sum.dim_IntList, _ATEN.mean.dim)


class OtherSums(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """A mode in which products of matrices, and sums, are made as a profile says.

    Everything else, convolutions and fused normalizations included, is computed as usual.

    Args:
        profile: the profile.
    """

    def __init__(self, profile: Profile) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self._product = make_product(profile)
        self._is_permuted = profile.is_permuted

    def __torch_dispatch__(
        self,
        func: Any,
        _types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if not kwargs and func in _PRODUCTS:
            return self._product(*args)
        if not kwargs and func in _PRODUCTS_WITH_BIAS:
            bias, a, b = args
            return bias + self._product(a, b)
        if self._is_permuted and func in _SUMS_OF_ALL:
            args = (_permute(args[0].reshape(-1), 0), *args[1:])
        elif self._is_permuted and func in _SUMS_OF_AXES and args[0].ndim:
            for axis in args[1] or range(args[0].ndim):
                args = (_permute(args[0], axis), *args[1:])
        return func(*args, **(kwargs or {}))


def summing(profile: Profile) -> AbstractContextManager[object]:
    """Return the mode in which torch makes products and sums as a profile does."""
    is_torch = profile.library == "torch" and profile.parts == 1 and not profile.is_permuted
    return nullcontext() if is_torch else OtherSums(profile)


def make_product(profile: Profile) -> Product:
    """Return the product of matrices under a profile."""
    multiply = _LIBRARIES[profile.library]

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if profile.is_permuted:
            a, b = _permute(a, -1), _permute(b, -2)
        pieces = zip(a.chunk(profile.parts, -1), b.chunk(profile.parts, -2), strict=True)
        first, *others = [multiply(x, y) for x, y in pieces][::-1]
        for other in others:
            first = first + other
        return first

    return product


class ProfileEngine(Engine):
    """The engine of binary64 under a profile, for programs in `exact` and `logged`.

    Args:
        profile: the profile.
    """

    def __init__(self, profile: Profile) -> None:
        self._product = make_product(profile)
        self._profile = profile
        self._others = TorchEngine() if profile.functions == "torch" else Engine()
        self.adds_up = profile.sums != "kernel" or profile.is_permuted

    def multiply(self, a: Doubles, b: Doubles) -> Array:
        """See Engine."""
        with rounding(self._profile.rounding):
            found: Array = self._product(torch.from_numpy(a), torch.from_numpy(b)).numpy()
            return found

    def add_up(self, terms: Doubles) -> Any:
        """See Engine."""
        kind = self._profile.sums
        if self._profile.is_permuted:
            terms = terms[:, _draw_order(terms.shape[1]).numpy()]
        with rounding(self._profile.rounding):
            if kind == "torch":
                return torch.from_numpy(np.ascontiguousarray(terms)).sum(dim=1).numpy()
            if kind == "numpy" or self._profile.is_permuted:
                return np.add.reduce(np.ascontiguousarray(terms), axis=1)
        return super().add_up(terms)

    def evaluate(self, function: Function, *operands: Doubles) -> Any:
        """See Engine; libraries of functions keep to no bound but where numbers go to nearest."""
        return self._others.evaluate(function, *operands)


_DIRECTIONS = {
    "x86_64": {"nearest": 0, "down": 0x400, "up": 0x800, "zero": 0xC00},
    "aarch64": {"nearest": 0, "up": 0x400000, "down": 0x800000, "zero": 0xC00000},
}
"""What `fesetround` takes on a machine."""


@contextmanager
def rounding(direction: str) -> Iterator[None]:
    """Let this thread round in a direction for a while: nearest, up, down or zero.

    Raises:
        UsageError: nothing is known of this machine's directions.
    """
    known = _DIRECTIONS.get(platform.machine())
    if direction == "nearest":
        yield
        return
    if known is None:
        raise UsageError(f"no directed rounding on {platform.machine()}; choose another profile")
    library = CDLL(None)
    library.fesetround(known[direction])
    try:
        yield
    finally:
        library.fesetround(known["nearest"])


def _permute(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    return tensor.index_select(axis, _draw_order(tensor.shape[axis]))


@cache
def _draw_order(count: int) -> torch.Tensor:
    """Return an order of so many terms, always the same one."""
    return torch.from_numpy(np.random.default_rng(count).permutation(count))


def _multiply_by_numpy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.matmul(a.numpy(), b.numpy()))


_LIBRARIES: Mapping[str, Product] = {
    "torch": torch.matmul,
    "openblas": _multiply_by_numpy,
}
