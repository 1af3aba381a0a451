"""Kernels that are compiled, or loaded from numba's disk cache, when they are first called."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_F = TypeVar("_F", bound=Callable[..., Any])


class Kernel:
    """A function that runs as machine code of one fixed signature and without the interpreter lock.

    Importing a module full of kernels compiles nothing. The machine code is kept where numba keeps it, beside the
    source or else in the user's cache directory; numba unpickles what it finds there, so that directory has to be as
    trustworthy as the source itself. A cache that is damaged, foreign or not writable costs a compilation, never an
    error.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self._function = function
        self._signature = signature

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel on scalars and arrays that convert safely to its signature."""
        return self._entry(*arguments)

    @cached_property
    def _entry(self) -> Callable[..., Any]:
        with suppress(Exception):
            return self._compile(cached=True, emptied=False)
        with suppress(Exception):
            return self._compile(cached=True, emptied=True)
        return self._compile(cached=False, emptied=False)

    def _compile(self, *, cached: bool, emptied: bool) -> Callable[..., Any]:
        dispatcher = numba.njit(nogil=True, error_model="numpy")(self._function)
        if cached:
            dispatcher.enable_caching()
        if emptied:
            dispatcher._cache.flush()  # noqa: SLF001 - numba has no public way to drop a damaged index
        dispatcher.compile(self._signature)
        dispatcher.disable_compile()
        return dispatcher  # type: ignore[no-any-return]  # numba publishes no types


def kernel(*parameters: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Make the decorated function a `Kernel` that takes `parameters`, numba types, and returns nothing."""

    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, types.void(*parameters))

    return decorate


def subroutine(function: _F) -> _F:
    """Let kernels of the same file call the decorated function, compiled as part of each."""
    return numba.njit(error_model="numpy")(function)  # type: ignore[no-any-return]  # untyped numba


def emitted(*parameters: Any) -> Callable[[Callable[..., None]], Any]:
    """Let kernels of the same file call LLVM IR that takes `parameters`, numba types, and returns nothing.

    The decorated function gets the `llvmlite.ir.IRBuilder` and the arguments as LLVM values.
    """
    signature = types.none(*parameters)

    def decorate(emit: Callable[..., None]) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Any) -> ir.Value:
            emit(builder, *arguments)
            return context.get_dummy_value()

        def define(_: Any, *__: Any) -> tuple[Any, Callable[..., Any]]:
            return signature, generate

        define.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]  # numba reads it
        return intrinsic(define)

    return decorate


def reads(element: Any, dimensions: int, layout: str = "C") -> Any:
    """The type of an array that a kernel only reads; `layout` "A" stands for arbitrary strides."""
    return types.Array(element, dimensions, layout, readonly=True)


def writes(element: Any, dimensions: int, layout: str = "C") -> Any:
    """The type of an array that a kernel writes to."""
    return types.Array(element, dimensions, layout)
