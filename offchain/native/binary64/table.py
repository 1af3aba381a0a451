"""The engines of binary64 by name, and the one that a process is to compute by."""

from collections.abc import Mapping

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.errors import UsageError
from moot.offchain.native.binary64.base import Engine
from moot.offchain.native.binary64.current import set_engine
from moot.offchain.native.binary64.trial import try_engine
from moot.offchain.plugins import load_class

DEFAULT = "own"

_PLACE = "moot.offchain.native.binary64"
ENGINES: Mapping[str, str] = {
    DEFAULT: f"{_PLACE}.base:Engine",
    "numpy": f"{_PLACE}.numpy:NumpyEngine",
    "torch": "moot.offchain.replication.engines:TorchEngine",
    "cublas": "moot.offchain.replication.engines:CudaEngine",
}
"""Name -> the class that computes so."""


_TRIED: dict[str, Engine] = {}
"""Those that this process has tried, by name."""


def use_engine(name: str, arithmetic: Arithmetic) -> None:
    """Let this process compute by an engine from now on, once it was tried.

    Args:
        name: of an engine, or `path/to/file.py:Class`, a dataclass that extends `Engine`.
        arithmetic: that of the programs; `ordered` has kernels of its own, and no engine.

    Raises:
        UsageError: there is no such engine, or it is no engine, or the arithmetic has none.
        DeviceError: it needs a device that is not here.
        UnsuitableEngine: it errs by more than an engine may.
    """
    kind = load_class("engine", name, ENGINES)
    if not issubclass(kind, Engine):
        raise UsageError(f"{name} is no engine; extend {_PLACE}.base.Engine")
    if not arithmetic.has_engines:
        if name != DEFAULT:
            raise UsageError(
                f"{arithmetic.name} keeps an order, in kernels of its own, and takes no --engine; "
                "choose --arithmetic exact or logged"
            )
        return
    if name not in _TRIED:
        engine = kind()
        try_engine(name, engine)
        _TRIED[name] = engine
    set_engine(_TRIED[name])
