"""The floating-point environment of a thread: its rounding mode, and the flushing of subnormals.

Every thread has one, new threads inherit it from their creator, and any code in the process may
change it: `fesetround`, `torch.set_flush_denormal`, a library that was linked with fast-math. The
arithmetic needs IEEE 754's default: round to nearest, ties to even; keep subnormal numbers, as
operands and as results; trap nothing. So whatever computes, computes in `standard_environment`.

C's <fenv.h> changes all of it at once on every processor: MXCSR and the control word of the x87 on
x86, FPCR on aarch64. That it did is then seen in what the thread computes.
"""

import ctypes
import struct
from contextlib import ContextDecorator

from moot.offchain.errors import UnsuitableEnvironment

_C = ctypes.PyDLL(None)
_get_environment, _set_environment = _C.fegetenv, _C.fesetenv

_Environment = ctypes.c_uint64 * 64
"""Room for a `fenv_t`, in words of 8 bytes; the largest that is known takes 4."""

_DEFAULT_SYMBOLS = ("_FE_DFL_ENV", "__fe_dfl_env")
"""The names of the default environment in the C libraries of macOS and of the BSDs."""

_ONE = 1.0
_TINY = 2.0**-60
_LEAST_NORMAL = 2.0**-1022
(_SUBNORMAL,) = struct.unpack("<d", bytes.fromhex("0000000000000800"))
"""2^-1023, written as bits: where subnormal numbers are flushed, no computation yields it."""


def _find_default() -> ctypes.c_void_p:
    for symbol in _DEFAULT_SYMBOLS:
        if hasattr(_C, symbol):
            return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(_C, symbol)))
    return ctypes.c_void_p(-1)  # as glibc and musl define it


_DEFAULT = _find_default()


PROBES = (_ONE, _TINY, _LEAST_NORMAL, _SUBNORMAL)
"""The numbers that `is_standard` computes with, for machine code that looks for itself."""


def get_environment_addresses() -> tuple[int, int, int]:
    """Return where machine code finds fegetenv and fesetenv, and what the latter gets to see."""
    functions = _get_environment, _set_environment
    get_it, set_it = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
    return get_it, set_it, ctypes.c_int64(_DEFAULT.value or 0).value


def rounds_to_nearest() -> bool:
    """Whether the calling thread rounds to nearest."""
    return _ONE + _TINY == _ONE == _ONE - _TINY


def is_standard() -> bool:
    """Whether the calling thread rounds to nearest and keeps subnormal numbers."""
    return (
        rounds_to_nearest()
        and _SUBNORMAL + _SUBNORMAL == _LEAST_NORMAL  # they are not zero as operands,
        and (_LEAST_NORMAL - _SUBNORMAL) * 2 == _LEAST_NORMAL  # nor as results
    )


def require_rounding() -> None:
    """Refuse to be imported where Python would round literals otherwise than to nearest.

    Raises:
        UnsuitableEnvironment: the calling thread does not round to nearest.
    """
    if not rounds_to_nearest():
        raise UnsuitableEnvironment(
            "this process does not round to nearest, so that Python misreads literals; "
            "call fesetround(FE_TONEAREST) before importing Moot, and set your mode afterwards"
        )


def set_standard_environment() -> None:
    """Give the calling thread the default environment for good."""
    _set_environment(_DEFAULT)


def require_standard() -> None:
    """Refuse to return what was computed in another environment.

    Raises:
        UnsuitableEnvironment: the calling thread rounds otherwise or flushes subnormal numbers.
    """
    if not is_standard():
        raise report_change()


def report_change() -> UnsuitableEnvironment:
    """Return the error that says that the environment was changed meanwhile."""
    return UnsuitableEnvironment(
        "something changed how this thread rounds, or made it flush subnormal numbers to zero, "
        "while Moot computed; nothing was returned: keep fesetround and flush-to-zero out of "
        "callbacks and signal handlers"
    )


class standard_environment(ContextDecorator):  # noqa: N801 - it is used as a function is
    """Give the calling thread the default environment, and its own back at the end.

    A context manager, for one `with` statement, or a decorator.

    Raises:
        UnsuitableEnvironment: something changed it in between, so that no result can be trusted.
    """

    def __init__(self) -> None:
        self._before = _Environment()

    def _recreate_cm(self) -> "standard_environment":
        """Return what one call of a decorated function enters: threads may call it at once."""
        return standard_environment()

    def __enter__(self) -> None:
        _get_environment(self._before)
        _set_environment(_DEFAULT)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                require_standard()
        finally:
            _set_environment(self._before)
