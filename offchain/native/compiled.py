"""Kernels that are compiled, or loaded from numba's disk cache, when they are first called."""
# mypy: disallow-untyped-calls=False
# (numba annotates only a part of what it exports)

import hashlib
import inspect
import platform
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import binding, ir
from numba.core import cgutils, config, types
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

from moot.offchain.errors import UsageError
from moot.offchain.native.machine import VECTOR_BITS, get_features, require_fma
from moot.offchain.native.native import load_address

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS: Any = {"error_model": "numpy", "no_cfunc_wrapper": True}
"""Numba's options for all that it compiles; nothing in C calls that by its wrapper."""


class Kernel:
    """A function that runs as machine code of one signature and without the interpreter lock.

    Importing a module full of kernels compiles nothing. The machine code is kept where numba keeps
    it, beside the source or else in the user's cache directory; numba unpickles what it finds
    there, so that directory has to be as trustworthy as the source itself. A cache that is damaged,
    foreign, outdated or not writable costs a compilation, never an error.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self._function = function
        self._signature = signature

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel on scalars and arrays that convert safely to its signature.

        Raises:
            UnsupportedMachine: if the processor has no fused multiply-add.
            UsageError: if numba's compiler is switched off.
        """
        return self._machine_code(*arguments)

    @cached_property
    def address(self) -> int:
        """The address of its machine code, as `calls.call` in the processor's backend uses it."""
        (found,) = self._machine_code.overloads.values()
        return int(found.library.get_pointer_to_function(found.fndesc.llvm_func_name))

    @cached_property
    def _machine_code(self) -> Any:
        require_fma(get_features(), platform.machine())
        if vars(config)["DISABLE_JIT"]:
            raise UsageError("NUMBA_DISABLE_JIT is set; unset it, kernels run as machine code only")
        for link in _links.values():
            link()
        dispatcher: Any = numba.njit(nogil=True, **_OPTIONS)(self._function)
        with suppress(RuntimeError):  # there is no directory that numba may write to
            dispatcher._cache = _Cache(self._function)  # noqa: SLF001 - as enable_caching() does
        dispatcher.compile(self._signature)
        dispatcher.disable_compile()
        return dispatcher


class _Cache(FunctionCache):
    """Numba's disk cache, made to survive damage and to notice edits in any file of the package."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(Exception):
            return super().load_overload(sig, target_context)
        with suppress(OSError):
            self.flush()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        code = self._py_func.__code__.co_code
        return (
            sig,
            codegen.magic_tuple(),
            VECTOR_BITS,
            code,
            _source_hash(_find_room(self._py_func)),
        )


def _find_room(function: Callable[..., Any]) -> Path:
    """Return the folder whose files a kernel may be made of: all its backend's, or its own."""
    own = Path(inspect.getfile(function)).parent
    nested = (own, *own.parents)
    return next((folder for folder in reversed(nested) if folder.name == _ROOM), own)


_ROOM = "kernels"


@cache
def _source_hash(room: Path) -> str:
    """Return the hash of what a kernel of a room is made of: the room's files, and this one's."""
    sources = [s for folder in (Path(__file__).parent, room) for s in sorted(folder.rglob("*.py"))]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def kernel(*parameters: Any) -> Callable[[Callable[..., Any]], Kernel]:
    """Make the decorated function a `Kernel` of `parameters`, numba types, that returns nothing.

    It may close over subroutines and emitted code, whose names then tell its machine code from that
    of its siblings: code is kept, and found in memory, by names. To these numba appends numbers,
    which are of the process that has compiled it, so that those of two siblings may be the same.
    """

    def decorate(function: Callable[..., Any]) -> Kernel:
        values = [cell.cell_contents for cell in function.__closure__ or ()]
        names = [getattr(value, "__name__", str(value)) for value in values]
        function.__qualname__ = ".".join([function.__qualname__, *names])
        return Kernel(function, types.void(*parameters))

    return decorate


def subroutine(function: _F) -> _F:
    """Let kernels call the decorated function, compiled as a part of each.

    Python calls the function itself: there is no machine code that Python could call, which would
    take numba a fifth of its time.
    """
    options = {**_OPTIONS, "no_cpython_wrapper": True}
    compiled: Any = numba.njit(forceinline=True, **options)(function)
    if isinstance(compiled, CPUDispatcher):  # it is the function where numba is switched off
        compiled.__class__ = _Subroutine
    return compiled  # type: ignore[no-any-return]  # to its callers it is the function


class _Subroutine(CPUDispatcher):
    """What numba calls from machine code, and Python as the function that it was made of."""

    def __call__(self, *arguments: Any) -> Any:
        """Call the function in Python."""
        return self.py_func(*arguments)


def emitted(result: Any, *parameters: Any) -> Callable[[Callable[..., Any]], Any]:
    """Let kernels call LLVM IR that takes `parameters` and returns `result`, numba types.

    The decorated function gets an `ir.IRBuilder` and the arguments as LLVM values; it returns an
    LLVM value, or None if `result` is `types.void`.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, _: Any, arguments: Any) -> Any:
            return emit(builder, *arguments) or context.get_dummy_value()

        def define(_: Any, *__: Any) -> tuple[Any, Callable[..., Any]]:
            return result(*parameters), generate

        define.__name__ = emit.__name__  # by which kernels that close over it are told apart
        # Numba counts the parameters of what it takes for the function's typing.
        names = [f"parameter_{i}" for i in range(len(parameters) + 1)]
        positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
        define.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # Python's protocol
            [inspect.Parameter(name, positional) for name in names]
        )
        return intrinsic(define)

    return decorate


def linked(*parameters: Any, result: Any = types.void) -> Callable[[Callable[..., Any]], Any]:
    """Let kernels call LLVM IR as `emitted` does, but compiled once and by itself, as a function.

    Numba takes seconds for code that is large, as it optimizes it anew with whatever is around it.
    And a loop of many registers has all of them, which it would share with what is around it.
    `parameters` are words, as is `result` unless it is `types.void`; the decorated function ends
    its last block, or returns nothing.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        symbol = f"moot_{emit.__module__}_{emit.__name__}".replace(".", "_")
        kind = ir.VoidType() if result == types.void else ir.IntType(64)
        signature = ir.FunctionType(kind, [ir.IntType(64)] * len(parameters))

        def link() -> None:
            module = ir.Module(symbol)
            function = ir.Function(module, signature, symbol)
            builder = ir.IRBuilder(function.append_basic_block())
            emit(builder, *function.args)
            if not builder.block.is_terminated:
                builder.ret_void()
            binding.add_symbol(symbol, load_address(module, symbol))

        def call(builder: ir.IRBuilder, *arguments: ir.Value) -> ir.Value | None:
            function = cgutils.get_or_insert_function(builder.module, signature, symbol)
            found = builder.call(function, arguments)
            return None if result == types.void else found

        assert symbol not in _links, f"two pieces of machine code are called {symbol}"
        _links[symbol] = cache(link)
        call.__name__ = emit.__name__
        return emitted(result, *parameters)(call)

    return decorate


_links: dict[str, Callable[[], None]] = {}
"""Make the functions of these names known that kernels may call; each does so once."""


def reads(element: Any, dimensions: int, layout: Any = "C") -> Any:
    """The type of an array that a kernel only reads; layout "A" stands for arbitrary strides."""
    return types.Array(element, dimensions, layout, readonly=True)


def writes(element: Any, dimensions: int, layout: Any = "C") -> Any:
    """The type of an array that a kernel writes to."""
    return types.Array(element, dimensions, layout)
