"""The gas tables that come with Moot are of its contracts, and say what calls cost."""

import pytest

from moot.sim.economy.case_runner import CaseRunner
from moot.sim.economy.config import Program
from moot.sim.economy.gas_tables import PROGRAMS, find_shipped

STALE = "measured for other contracts: run `python -m moot.sim.economy.gas_tables`"


@pytest.mark.parametrize("program", PROGRAMS)
def test_tables_are_of_these_contracts(program: Program) -> None:
    """Nobody waits for the gas of a default program: its table is found, and not measured."""
    about = CaseRunner(program).describe_game()
    assert find_shipped(about) is not None, STALE
    assert find_shipped(about | {"contracts": "00" * 32}) is None


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_tables_are_measured_alike(program: Program) -> None:
    """Games that are played now cost what the table says, each kind of call to a unit of gas."""
    runner = CaseRunner(program)
    assert find_shipped(runner.describe_game()) == runner.measure_gas()
