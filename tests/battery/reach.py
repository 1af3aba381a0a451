"""Which operators of our tables a capture meets."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from moot.offchain.frontend import tracing
from moot.offchain.frontend.decompositions import table
from moot.offchain.frontend.decompositions.table import COMPOSITIONS, DECOMPOSITIONS, METHODS
from moot.offchain.frontend.lowering.table import RULES, get_decompositions


def _name_method(owner: Any, name: str) -> str:
    return f"method {owner.__name__}.{name}"


TABLES = frozenset(
    {
        *(*RULES, *DECOMPOSITIONS, *COMPOSITIONS),
        *(_name_method(owner, name) for owner, name, _ in METHODS),
    }
)
"""The names of all rules, decompositions, compositions and methods."""


@contextmanager
def reach() -> Iterator[set[str]]:
    """Yield a set that receives the names of what is met; rules are seen in the traced graph."""
    found: set[str] = set()

    def watch(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            found.add(name)
            return function(*args, **options)

        return call

    known: Mapping[Any, Callable[..., Any]] = {
        overload: watch(str(overload), function)
        for overload, function in get_decompositions().items()
    }
    early = {name: watch(name, function) for name, function in table.EARLY.items()}
    composed = {name: watch(name, function) for name, function in COMPOSITIONS.items()}
    methods = [(owner, name, watch(_name_method(owner, name), f)) for owner, name, f in METHODS]
    with ExitStack() as stack:
        for target, name, value in (
            (tracing, "get_decompositions", lambda: known),
            (tracing, "EARLY", early),
            (table, "COMPOSITIONS", composed),
            (table, "METHODS", methods),
        ):
            stack.enter_context(patch.object(target, name, value))
        yield found
