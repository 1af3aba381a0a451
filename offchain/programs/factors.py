"""Whether an arithmetic of short factors brings a program anything."""

from moot.offchain.errors import UsageError
from moot.offchain.programs.graph import Program


def check_factors(program: Program) -> None:
    """Refuse a program for which its arithmetic computes what `ordered` does (`UsageError`)."""
    short = program.arithmetic.short_factors
    if short is None or any(node.has_short_factors for node in program.nodes):
        return
    raise UsageError(
        f"no product of this program has factors of {short.name.lower()}, so "
        f"{program.arithmetic.name} brings nothing; choose ordered, or bf16 for its precision"
    )
