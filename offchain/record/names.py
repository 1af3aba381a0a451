"""The names that a record shows: of accounts, and of a program's operators."""

from collections.abc import Callable, Sequence

from moot.contracts.model.types import Terms
from moot.offchain.programs.graph import Program

Names = Callable[[Terms], Sequence[str]]
"""(the terms of a job) -> the names of its program's operators, none if nobody knows them."""


def list_names(program: Program) -> tuple[str, ...]:
    """Return the names of a program's operators, with their kinds."""
    nodes = zip(program.nodes, program.names, strict=True)
    return tuple(f"{name} ({node.kind.name.lower()})" for node, name in nodes)
