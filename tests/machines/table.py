"""The kinds of machines, by their names."""

from tests.machines.base import Kind
from tests.machines.pyevm import PyEvm

NAMES = ("py-evm", "revm")


def find_kind(name: str) -> Kind:
    """Return a kind of machine.

    Raises:
        SystemExit: it is not installed.
    """
    if name == "py-evm":
        return PyEvm
    try:
        from tests.machines.revm import Revm  # noqa: PLC0415 - pyrevm is not everywhere
    except ModuleNotFoundError as error:
        raise SystemExit(f"{error}; install the extra `revm`") from None
    return Revm
