"""The table of arithmetics: a new one is a folder beside this file, and a row here."""

from collections.abc import Mapping

from moot.offchain.arithmetic.base import Arithmetic
from moot.offchain.arithmetic.exact import EXACT
from moot.offchain.arithmetic.logged import LOGGED
from moot.offchain.arithmetic.ordered import ORDERED
from moot.offchain.arithmetic.tensor import AMPERE, HOPPER
from moot.offchain.errors import UsageError

_ROWS = (ORDERED, EXACT, LOGGED, HOPPER, AMPERE)

ARITHMETICS: Mapping[str, Arithmetic] = {row.name: row for row in _ROWS}
"""Every arithmetic that programs may carry, by its name."""


def name_deciding() -> str:
    """Return the names of the arithmetics whose scalar operations a contract computes, in words."""
    *names, last = (row.name for row in _ROWS if row.ends_on_chain)
    return f"{', '.join(names)} or {last}"


def find_arithmetic(name: str) -> Arithmetic:
    """Return the arithmetic of this name; `UsageError` if there is none."""
    if name not in ARITHMETICS:
        raise UsageError.unknown("arithmetic", name, ARITHMETICS)
    return ARITHMETICS[name]
