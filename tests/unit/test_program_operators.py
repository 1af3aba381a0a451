"""The generated table of operators is complete, and agrees with the rules."""

import pytest
import torch

from docs.tools.operators import PAGE, collect, describe, render
from moot.offchain.arithmetic.functions import Function
from moot.offchain.frontend.lowering.table import RULES
from moot.offchain.programs.graph import Kind

# It traces a call of every rule: long, and only who adds a rule changes it.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page() -> str:
    """Return the page as it is generated now."""
    return "".join(render(*collect()))


def test_the_table_is_up_to_date(page: str) -> None:
    """The table is what the rules do today; `python docs/tools/operators.py` writes it."""
    assert page == PAGE.read_text()


def test_every_rule_is_in_the_table(page: str) -> None:
    """No rule is missing, and every rule is reached by tracing a call."""
    rows = {
        line.split("`")[1] for line in page.partition("## Decomp")[0].splitlines() if "| `" in line
    }
    assert rows == set(RULES)


def test_every_overload_exists() -> None:
    """Every rule's name is an overload that this torch has."""
    for name in RULES:
        namespace, packet, overload = name.split(".")
        getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def test_an_operator_is_described_by_kinds_and_functions() -> None:
    """A row of the page names what an operator is lowered to, and views as such."""
    assert describe({(Kind.MAP, Function.ADD)}) == "map | add"
    assert describe({(Kind.MAP, Function.POW)}) == "map | pow"
    assert describe(set()) == "*view* | "
