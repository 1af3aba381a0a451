"""The names that a record shows: of accounts, and of a program's operators."""

from collections.abc import Mapping, Sequence

from offchain.programs.graph import Program

Names = Mapping[bytes, Sequence[str]]
"""The names of operators, by the top of the program's tree, which a job's terms name."""


def list_names(program: Program) -> tuple[str, ...]:
    """Return the names of a program's operators, with their kinds."""
    nodes = zip(program.nodes, program.names, strict=True)
    return tuple(f"{name} ({node.kind.name.lower()})" for node, name in nodes)
