"""The table of backends, by name: a new one is a folder, and a row here."""

from collections.abc import Callable, Mapping

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.backends.port import Backend, FoldingBackend
from moot.offchain.errors import UsageError
from moot.offchain.native.binary64 import table

DEFAULT = "cpu"
"""The backend that every machine has, and that computes every arithmetic."""


def _make_cpu() -> Backend:
    from moot.offchain.backends.cpu.backend import Cpu  # noqa: PLC0415 - loads the compiler

    return Cpu()


def _make_cuda() -> Backend:
    from moot.offchain.backends.cuda.backend import Cuda  # noqa: PLC0415 - loads the compiler
    from moot.offchain.backends.cuda.driver import Driver  # noqa: PLC0415 - likewise

    return Cuda(Driver())


def _make_emulator() -> Backend:
    from moot.offchain.backends.cuda.backend import Cuda  # noqa: PLC0415 - loads the compiler
    from moot.offchain.backends.cuda.emulator import Emulator  # noqa: PLC0415 - likewise

    return Cuda(Emulator())


_BACKENDS: Mapping[str, Callable[[], Backend]] = {
    DEFAULT: _make_cpu,
    "cuda": _make_cuda,
    "cuda-emulator": _make_emulator,
}

BACKENDS = tuple(_BACKENDS)
"""The names of all backends."""


def get_backend(name: str, arithmetic: Arithmetic) -> Backend:
    """Return a backend that computes an arithmetic.

    Raises:
        UsageError: there is no backend of this name, or it does not compute that arithmetic.
        DeviceError: what the backend needs is not here; there is no falling back.
    """
    if name not in _BACKENDS:
        raise UsageError.unknown("backend", name, _BACKENDS)
    backend = _BACKENDS[name]()
    if arithmetic.name not in backend.arithmetics:
        known = ", ".join(sorted(backend.arithmetics))
        raise UsageError(
            f"the backend {name} does not compute {arithmetic.name}, but {known}; choose one of "
            f"these, or the backend {DEFAULT}"
        )
    return backend


def describe_backend(name: str, arithmetic: Arithmetic) -> str:
    """Return what computes an arithmetic, in a few words for people; errors as `get_backend`."""
    return f"{name} ({get_backend(name, arithmetic).describe()})"


def get_folding(backend: Backend, arithmetic: Arithmetic) -> FoldingBackend:
    """Return what shows how folds come about that a backend computes: itself, or the default."""
    found = backend if isinstance(backend, FoldingBackend) else get_backend(DEFAULT, arithmetic)
    assert isinstance(found, FoldingBackend)
    return found


def use_engine(engine: str, arithmetic: Arithmetic, backend: str = DEFAULT) -> None:
    """Let this process compute by an engine of binary64, once it was tried.

    Raises:
        UsageError: there is no such engine, or the arithmetic or the backend takes none.
        DeviceError: it needs a device that is not here.
        UnsuitableEngine: it errs by more than an engine may.
    """
    if backend == DEFAULT:
        table.use_engine(engine, arithmetic)
    elif engine != table.DEFAULT:
        raise UsageError(
            f"the backend {backend} has products of its own and takes no --engine; choose the "
            f"backend {DEFAULT}, or leave --engine out"
        )
